//! `waggle copy`: the real binary between real servers.
//!
//! One server is both source and target in most tests, with a database for each: it starts once
//! and its log has everything.

mod bench;
mod core;
mod faults;
mod follow;
mod keys;
mod kill;
mod verify;

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use waggle_need::need;
use waggle_server::Flavour;
use waggle_server::install::installed_servers;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_wire::{Connection, Row};

/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Every test for both flavours that are installed here.
pub(super) fn flavours() -> Vec<Flavour> {
    let installed = installed_servers();
    [Flavour::MariaDb, Flavour::MySql]
        .into_iter()
        .filter(|&flavour| {
            let found = installed.iter().any(|server| server.flavour == flavour);
            need(flavour.name(), found, "no such server is installed")
        })
        .collect()
}

/// A server with a binary log that a copy can follow.
pub(super) struct Stage {
    pub(super) server: Sandbox,
    pub(super) directory: tempfile::TempDir,
}

impl Stage {
    pub(super) fn new(flavour: Flavour) -> Stage {
        let mut spec = SandboxSpec::new(flavour)
            .set("log-bin", "binlog")
            .set("server-id", "1")
            .set("binlog-format", "ROW")
            .set("max-allowed-packet", "67108864");
        if flavour == Flavour::MySql {
            spec = spec
                .set("gtid-mode", "ON")
                .set("enforce-gtid-consistency", "ON");
        }
        Stage {
            server: Sandbox::start(&spec).expect("a server"),
            directory: tempfile::tempdir().unwrap(),
        }
    }

    pub(super) fn connect(&self) -> Connection {
        Connection::connect(&self.server.dsn_socket()).unwrap()
    }

    /// Runs statements, in their order.
    pub(super) fn run(&self, statements: &[&str]) {
        let mut connection = self.connect();
        for sql in statements {
            let done = connection.query(sql.as_bytes());
            done.unwrap_or_else(|error| panic!("{}: {error}", &sql[..sql.len().min(200)]));
        }
    }

    pub(super) fn rows(&self, sql: &str) -> Vec<Row> {
        self.connect().query_rows(sql.as_bytes()).unwrap()
    }

    /// The first value of the first row, as text.
    pub(super) fn value(&self, sql: &str) -> Option<String> {
        let rows = self.connect().query_rows(sql.as_bytes()).ok()?;
        let value = rows.first()?.first()?.clone()?;
        Some(String::from_utf8_lossy(&value).into_owned())
    }

    /// Waits until a value is there that `is_it`.
    pub(super) fn wait(&self, sql: &str, is_it: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let value = self.value(sql);
            match value {
                Some(value) if is_it(&value) => return value,
                value => assert!(Instant::now() < deadline, "{sql}: {value:?}"),
            }
            // sleep: looking all the time would take the processor from who is waited for
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// `waggle copy` from database `a` to database `b` of the server.
    pub(super) fn command(&self, args: &[&str]) -> Command {
        let dsn = |database| self.server.dsn_of(database).to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_waggle"));
        command
            .args(["copy", "--json"])
            .args(["--from", &dsn("a")])
            .args(["--to", &dsn("b")])
            .args(args)
            .current_dir(self.directory.path());
        command
    }

    pub(super) fn copy(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Copies, which must succeed; gives its document.
    pub(super) fn copied(&self, args: &[&str]) -> Value {
        let output = self.copy(args);
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {words}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    pub(super) fn begin(&self, args: &[&str]) -> Running {
        let mut command = self.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(Some(command.spawn().unwrap()))
    }

    /// Whether two tables of the server have the same rows, to the last bit.
    pub(super) fn assert_equal(&self, one: &str, other: &str) {
        let read = |table: &str| self.rows(&format!("SELECT * FROM {table} ORDER BY 1"));
        let (one_rows, other_rows) = (read(one), read(other));
        assert_eq!(one_rows.len(), other_rows.len(), "{one} and {other}");
        for (i, (row, copy)) in one_rows.iter().zip(&other_rows).enumerate() {
            assert!(row == copy, "row {i} of {one} and {other}");
        }
    }
}

/// A copy that runs; killed when dropped.
pub(super) struct Running(Option<Child>);

impl Running {
    pub(super) fn pid(&self) -> u32 {
        self.0.as_ref().unwrap().id()
    }

    pub(super) fn kill(mut self) {
        let mut child = self.0.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Whether it has ended; one that has not is given a moment.
    pub(super) fn is_over(&mut self) -> bool {
        let is_over = self.0.as_mut().unwrap().try_wait().unwrap().is_some();
        if !is_over {
            // sleep: looking all the time would take the processor from who is waited for
            std::thread::sleep(Duration::from_millis(1));
        }
        is_over
    }

    pub(super) fn end(mut self) -> Output {
        self.0.take().unwrap().wait_with_output().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
