//! A throw-away server, a workload with its options, and a connection that looks at the tables.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use waggle_load::driver::mysql::MySql;
use waggle_load::{
    Check, Load, LoadError, LoadSpec, LoadState, Progress, Script, ScriptFace, Snapshot,
};
use waggle_need::need;
use waggle_server::Flavour;
use waggle_server::install::installed_servers;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_wire::Connection;

/// More than any test needs; a run that takes so long has failed.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

pub(super) struct Bed {
    server: Sandbox,
    pub(super) spec: LoadSpec,
    connection: Connection,
    /// What the scripts printed in runs.
    said: Arc<Mutex<Vec<String>>>,
}

impl Bed {
    /// `None`, said aloud, if there is no such server here.
    pub(super) fn open(
        flavour: Flavour,
        workload: &str,
        threads: u32,
        options: &[(&str, &str)],
    ) -> Option<Bed> {
        let found = installed_servers()
            .iter()
            .any(|server| server.flavour == flavour);
        if !need(flavour.name(), found, "no such server is installed") {
            return None;
        }
        let server = Sandbox::start(&SandboxSpec::new(flavour)).expect("a throw-away server");
        let said = Arc::new(Mutex::new(Vec::new()));
        let kept = said.clone();
        let script = Script::open(workload).unwrap();
        let spec = LoadSpec {
            threads,
            seed: 42,
            log: Some(Arc::new(move |_, line| {
                kept.lock().unwrap().push(line.to_owned())
            })),
            ..LoadSpec::new(server.dsn_socket(), script)
        };
        let connection = Connection::connect(&server.dsn_socket()).expect("the server answers");
        let mut bed = Bed {
            server,
            spec,
            connection,
            said,
        };
        bed.set(options);
        Some(bed)
    }

    pub(super) fn set(&mut self, options: &[(&str, &str)]) {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let owned: BTreeMap<String, String> = options.iter().map(owned).collect();
        self.spec.options.extend(owned);
    }

    fn driver(&self) -> Arc<MySql> {
        Arc::new(MySql::new(vec![self.server.dsn_socket()], Some(PATIENCE)))
    }

    /// Runs a command; the lines it printed, and how it ended.
    pub(super) fn command(&self, name: &str) -> (Vec<String>, Result<(), LoadError>) {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = lines.clone();
        let ended = waggle_load::run_command(&self.spec, name, self.driver(), move |progress| {
            if let Progress::Message { text, .. } = progress {
                kept.lock().unwrap().push(text.to_owned());
            }
        });
        let lines = std::mem::take(&mut *lines.lock().unwrap());
        (lines, ended)
    }

    /// Runs a command that ends well; the lines it printed.
    pub(super) fn done(&self, name: &str) -> Vec<String> {
        let (lines, ended) = self.command(name);
        ended.unwrap_or_else(|error| panic!("{name}: {error}: {lines:?}"));
        lines
    }

    /// Why a command or a run is refused.
    pub(super) fn refusal(&self, command: &str) -> String {
        let ended = match command {
            "run" => Load::start(&self.spec).map(drop),
            command => self.command(command).1,
        };
        ended.expect_err("it is refused").to_string()
    }

    /// Runs this many events; what was counted and the checks of it.
    pub(super) fn run(&self, events: u64) -> (Snapshot, Vec<Check>) {
        let spec = LoadSpec {
            event_limit: Some(events),
            ..self.spec.clone()
        };
        let load = Load::start(&spec).unwrap();
        assert_ne!(load.wait(PATIENCE), LoadState::Active, "it does not end");
        let snapshot = load.snapshot();
        load.stop().unwrap();
        assert_eq!(snapshot.counters.transactions, events);
        let mut face = ScriptFace::open(&spec, self.driver()).unwrap();
        let checks = face.checks(&snapshot, Duration::from_secs(60)).unwrap();
        (snapshot, checks)
    }

    pub(super) fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    pub(super) fn rows(&mut self, sql: &str) -> Vec<Vec<String>> {
        let rows = self.connection.query_rows(sql.as_bytes());
        let rows = rows.unwrap_or_else(|error| panic!("{sql}: {error}"));
        let text = |value: Option<Vec<u8>>| {
            value.map_or("NULL".to_owned(), |bytes| {
                String::from_utf8_lossy(&bytes).into_owned()
            })
        };
        rows.into_iter()
            .map(|row| row.into_iter().map(text).collect())
            .collect()
    }

    pub(super) fn number(&mut self, sql: &str) -> i64 {
        let rows = self.rows(sql);
        let value = rows[0][0].parse();
        value.unwrap_or_else(|_| panic!("{sql}: {rows:?}"))
    }

    pub(super) fn count(&mut self, rows: &str) -> i64 {
        self.number(&format!("SELECT COUNT(*) FROM {rows}"))
    }

    /// A counter of the server, over all sessions.
    pub(super) fn status(&mut self, name: &str) -> i64 {
        let rows = self.rows(&format!("SHOW GLOBAL STATUS LIKE '{name}'"));
        rows[0][1].parse().unwrap()
    }

    pub(super) fn has_no_tables(&mut self) {
        let left = "information_schema.tables WHERE table_schema = DATABASE()";
        assert_eq!(self.count(left), 0);
    }
}
