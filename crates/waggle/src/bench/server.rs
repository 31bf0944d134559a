//! The server under load: named by the user or thrown away, and what it says about itself.

use std::time::Duration;

use anyhow::anyhow;
use waggle_profile::model::Profile;
use waggle_report::run::ServerFacts;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_server::status::{self, GlobalStatus};
use waggle_wire::{Connection, Dsn, Error};

use super::note;
use super::plan::Target;
use crate::cli::Failure;
use crate::profiling::{self, Extent, Profiling};

/// Unknown database.
const ER_BAD_DB_ERROR: u16 = 1049;

/// Settings without which a figure cannot be judged.
const VARIABLES: [&str; 8] = [
    "version_comment",
    "innodb_buffer_pool_size",
    "innodb_flush_log_at_trx_commit",
    "sync_binlog",
    "log_bin",
    "performance_schema",
    "max_connections",
    "transaction_isolation",
];

/// How long the server may be silent when it is asked about itself.
const ANSWER: Duration = Duration::from_secs(60);

/// A server that answered.
pub(super) struct Server {
    pub(super) dsn: Dsn,
    pub(super) facts: ServerFacts,
    control: Connection,
    /// Where its time is spent, if that is recorded.
    profiling: Option<Profiling>,
    /// Dropped with this, which kills it: nobody needs its data.
    _sandbox: Option<Sandbox>,
}

impl Server {
    /// Connects, or starts a throw-away server. Writes nothing.
    pub(super) fn open(target: &Target) -> Result<Server, Failure> {
        let (dsn, sandbox) = match target {
            Target::Named(dsn) => (Dsn::clone(dsn), None),
            Target::Sandbox(flavour) => {
                let sandbox = start(SandboxSpec::new(*flavour))?;
                (sandbox.dsn_socket(), Some(sandbox))
            }
        };
        let mut control = Connection::connect(&dsn).map_err(|error| refused(&dsn, error))?;
        control.set_timeout(Some(ANSWER));
        let facts = facts(&mut control).map_err(|error| refused(&dsn, error))?;
        Ok(Server {
            dsn,
            facts,
            control,
            profiling: None,
            _sandbox: sandbox,
        })
    }

    /// Attaches to the server and to the process of the load; nothing is recorded before
    /// [`Server::profile`] says so.
    pub(super) fn attach(&mut self) -> anyhow::Result<()> {
        let pid = profiling::server::pid_of(&self.dsn)?;
        let extent = Extent {
            off_cpu: true,
            by_digest: true,
            timeline: false,
        };
        let pids = [pid, waggle_load::process_id()];
        let attached = Profiling::attach(&pids, extent).or_else(|error| {
            note(&format!("waggle: {error:#}; profiling without statements"));
            let extent = Extent {
                by_digest: false,
                ..extent
            };
            Profiling::attach(&pids, extent)
        });
        self.profiling = Some(attached?);
        Ok(())
    }

    /// Records from now on, or no more.
    pub(super) fn profile(&self, on: bool) {
        match &self.profiling {
            Some(profiling) if on => profiling.on(),
            Some(profiling) => profiling.off(),
            None => {}
        }
    }

    /// What was recorded; none if nothing was to be.
    pub(super) fn profiled(&mut self) -> anyhow::Result<Option<Profile>> {
        self.profiling.take().map(Profiling::finish).transpose()
    }

    /// Statements the server counted so far; reading them is one more, already included. `None`
    /// if it does not answer: the load reports why.
    pub(super) fn questions(&mut self) -> Option<u64> {
        GlobalStatus::read(&mut self.control).ok()?.questions
    }
}

fn start(spec: SandboxSpec) -> Result<Sandbox, Failure> {
    note(&format!("starting a throw-away {} ...", spec.flavour));
    Sandbox::start(&spec).map_err(|error| {
        let is_unusable = error.is_unusable();
        let error = anyhow!(error).context("cannot start a throw-away server");
        if is_unusable {
            Failure::Unusable(error)
        } else {
            Failure::Ran(error)
        }
    })
}

fn refused(dsn: &Dsn, error: Error) -> Failure {
    let hint = match (error.errno(), &dsn.database) {
        (Some(ER_BAD_DB_ERROR), Some(name)) => {
            format!("; create it with CREATE DATABASE {name}, or name another in the DSN")
        }
        _ => String::new(),
    };
    // The server's own words stay the end of the line, where they are looked for.
    let error = anyhow!(error).context(format!("cannot use the server {dsn}{hint}"));
    Failure::Unusable(error)
}

fn facts(control: &mut Connection) -> Result<ServerFacts, Error> {
    let mut variables = status::variables(control)?;
    variables.retain(|name, _| VARIABLES.contains(&name.as_str()));
    Ok(ServerFacts {
        flavour: if control.is_mariadb() {
            "MariaDB"
        } else {
            "MySQL"
        }
        .to_owned(),
        version: control.server_version().to_owned(),
        build_id: None,
        variables,
    })
}
