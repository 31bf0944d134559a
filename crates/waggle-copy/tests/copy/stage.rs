//! A server that is source and target of a copy, and what tests ask of it.

use std::sync::Arc;

use waggle_copy::progress::Job;
use waggle_copy::throttle::Limits;
use waggle_copy::{Control, CopyError, Outcome, Plan, Until, job};
use waggle_need::need;
use waggle_server::Flavour;
use waggle_server::install::installed_servers;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_wire::{Connection, Dsn, Row};

/// The flavours installed here; a missing one is said aloud, or fails where it is required.
pub(crate) fn flavours() -> Vec<Flavour> {
    let installed = installed_servers();
    let is_here = |flavour: &Flavour| {
        let is_here = installed.iter().any(|server| server.flavour == *flavour);
        need(flavour.name(), is_here, "no such server is installed")
    };
    [Flavour::MariaDb, Flavour::MySql]
        .into_iter()
        .filter(is_here)
        .collect()
}

/// A server with a binary log that a copy can follow.
pub(crate) struct Stage {
    pub(crate) server: Sandbox,
    directory: tempfile::TempDir,
}

impl Stage {
    pub(crate) fn new(flavour: Flavour) -> Stage {
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

    /// All tables of database `a`, to database `b`.
    pub(crate) fn plan(&self) -> Plan {
        let of = |database: &str| Dsn {
            database: Some(database.to_owned()),
            ..self.server.dsn_socket()
        };
        Plan {
            source: of("a"),
            target: of("b"),
            job: Job::new("test").unwrap(),
            tables: Vec::new(),
            target_schema: Some("b".into()),
            until: Until::Copied,
            workers: 3,
            slice_bytes: 1 << 20,
            range_rows: 1_000_000,
            defers_keys: true,
            json_as_text: false,
            verifies: false,
            limits: Limits::default(),
            spool: self.directory.path().join("spool"),
            spool_bytes_max: 1 << 30,
        }
    }

    pub(crate) fn copy(&self, plan: &Plan) -> Result<Outcome, CopyError> {
        job::run(plan, &Arc::new(Control::new()), &mut |_| {})
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::connect(&self.server.dsn_socket()).unwrap()
    }

    /// Runs statements, in their order.
    pub(crate) fn run(&self, statements: &[&str]) {
        let mut connection = self.connect();
        for sql in statements {
            let done = connection.query(sql.as_bytes());
            done.unwrap_or_else(|error| panic!("{}: {error}", &sql[..sql.len().min(200)]));
        }
    }

    pub(crate) fn rows(&self, sql: &str) -> Vec<Row> {
        self.connect().query_rows(sql.as_bytes()).unwrap()
    }

    /// The first value of the first row, as text.
    pub(crate) fn value(&self, sql: &str) -> Option<String> {
        let rows = self.connect().query_rows(sql.as_bytes()).ok()?;
        let value = rows.first()?.first()?.clone()?;
        Some(String::from_utf8_lossy(&value).into_owned())
    }

    /// Whether two tables of the server have the same rows, to the last bit.
    pub(crate) fn assert_equal(&self, one: &str, other: &str) {
        let read = |table: &str| self.rows(&format!("SELECT * FROM {table} ORDER BY 1"));
        let (one_rows, other_rows) = (read(one), read(other));
        assert_eq!(one_rows.len(), other_rows.len(), "{one} and {other}");
        for (i, (row, copy)) in one_rows.iter().zip(&other_rows).enumerate() {
            assert!(row == copy, "row {i} of {one} and {other}");
        }
    }
}

/// So many rows as sysbench would write them, `k` and `pad` from the number.
pub(crate) fn fill(stage: &Stage, rows: u32) {
    stage.run(&[
        "CREATE DATABASE a",
        "CREATE DATABASE b",
        "CREATE TABLE a.t (id INT PRIMARY KEY, k INT NOT NULL, c CHAR(128) NOT NULL, \
         pad CHAR(60) NOT NULL, KEY k (k))",
    ]);
    let limit = match stage.server.flavour() {
        Flavour::MariaDb => "SET max_recursive_iterations = 10000000",
        Flavour::MySql => "SET cte_max_recursion_depth = 10000000",
    };
    stage.run(&[
        limit,
        &format!(
            "INSERT INTO a.t WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n \
             WHERE i < {rows}) SELECT i * 3, i * 7919 % 1000, SHA2(i, 512), \
             LEFT(SHA2(i * 2, 256), 60) FROM n"
        ),
    ]);
}
