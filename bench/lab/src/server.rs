//! A throw-away server with a table, and a load on it.

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use waggle_server::Flavour;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_server::status::GlobalStatus;
use waggle_wire::Connection;

use crate::waggle::{Running, Waggle};

/// What is sent, and how much of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadSpec {
    /// A workload of `waggle bench`, by name or path.
    pub workload: String,
    /// Connections.
    pub threads: u32,
    /// Tables.
    pub tables: u32,
    /// Rows of each.
    pub table_size: u64,
}

impl LoadSpec {
    /// Point selects over 8 connections: the shortest statements there are, at full speed.
    pub fn point_selects() -> Self {
        Self {
            workload: "oltp_point_select".to_owned(),
            threads: 8,
            tables: 1,
            table_size: 20_000,
        }
    }

    fn arguments(&self, dsn: &str) -> Vec<String> {
        vec![
            "--no-record".to_owned(),
            "--report-interval=0".to_owned(),
            "--json".to_owned(),
            format!("--dsn={dsn}"),
            format!("--threads={}", self.threads),
            "--".to_owned(),
            format!("--tables={}", self.tables),
            format!("--table-size={}", self.table_size),
        ]
    }
}

/// A server whose tables are there.
#[derive(Debug)]
pub struct Server {
    sandbox: Sandbox,
    admin: Connection,
    waggle: Waggle,
}

/// What the load's own report says.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Loaded {
    /// Statements that were answered, those of the load alone.
    pub queries: u64,
    /// Answered a second.
    pub qps: f64,
    /// Errors.
    pub errors: u64,
}

impl Server {
    /// Starts one and makes the tables of `load`.
    ///
    /// # Errors
    /// There is no such server here, or it does not start.
    pub fn start(waggle: &Waggle, flavour: Flavour, load: &LoadSpec) -> anyhow::Result<Self> {
        let spec = SandboxSpec::new(flavour).set("innodb_buffer_pool_size", "512M");
        let sandbox = Sandbox::start(&spec).context("starting a throw-away server")?;
        let admin = Connection::connect(&sandbox.dsn_socket())?;
        let server = Self {
            sandbox,
            admin,
            waggle: waggle.clone(),
        };
        let mut arguments = vec!["bench".to_owned(), load.workload.clone(), "prepare".into()];
        let dsn = server.sandbox.dsn_socket().to_string();
        arguments.extend(load.arguments(&dsn));
        waggle.document(&arguments).context("making the tables")?;
        Ok(server)
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.sandbox.pid()
    }

    /// Flavour and version, as a result names it.
    pub fn name(&self) -> String {
        format!("{} {}", self.sandbox.flavour(), self.sandbox.version())
    }

    /// Statements that clients sent since its start, by its own count.
    ///
    /// # Errors
    /// The server is gone.
    pub fn questions(&mut self) -> anyhow::Result<u64> {
        let status = GlobalStatus::read(&mut self.admin)?;
        status
            .counter("Questions")
            .context("it counts no Questions")
    }

    /// Puts a load on it for `seconds`; `rate`: events a second of an open loop.
    ///
    /// # Errors
    /// The load cannot be started.
    pub fn load(
        &self,
        load: &LoadSpec,
        seconds: f64,
        rate: Option<f64>,
    ) -> anyhow::Result<Running> {
        let mut arguments = vec!["bench".to_owned(), load.workload.clone(), "run".into()];
        arguments.push(format!("--time={seconds}"));
        arguments.extend(rate.map(|rate| format!("--rate={rate}")));
        let dsn = self.sandbox.dsn_socket().to_string();
        arguments.extend(load.arguments(&dsn));
        self.waggle.start(&arguments)
    }
}

/// What the load's document says.
///
/// # Errors
/// It is not that of a load.
pub fn loaded(document: &Value) -> anyhow::Result<Loaded> {
    Ok(Loaded {
        queries: document["queries"].as_u64().context("no queries")?,
        qps: document["qps"].as_f64().context("no qps")?,
        errors: document["errors"].as_u64().unwrap_or(0),
    })
}

/// A flavour as `--sandbox` takes it.
pub fn sandbox_name(flavour: Flavour) -> String {
    flavour.to_string().to_lowercase()
}
