//! The servers, and the sessions in them that are watched.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use waggle_need::{is_root, need};
use waggle_server::Flavour;
use waggle_server::install::installed_servers;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_symbols::Hook;
use waggle_wire::{Connection, Dsn, Summary};

use crate::thread::{Place, Seen, observe};

pub(crate) fn flavours() -> Vec<Flavour> {
    if !need("root", is_root(), "another user's process cannot be traced") {
        return Vec::new();
    }
    let installed = installed_servers();
    [Flavour::MariaDb, Flavour::MySql]
        .into_iter()
        .filter(|&flavour| {
            let found = installed.iter().any(|server| server.flavour == flavour);
            need(flavour.name(), found, "no such server is installed")
        })
        .collect()
}

/// A schema of a test's own with the table `t (id PRIMARY KEY, v)` of ten rows, in the one server
/// of its flavour, and the place to stop at.
pub(crate) struct Stage {
    pub(crate) server: &'static Sandbox,
    pub(crate) place: &'static Place,
    schema: String,
}

/// The servers that the tests share, started at first use. They end with the process.
static SERVERS: Mutex<Vec<(Flavour, &'static Sandbox, &'static Place)>> = Mutex::new(Vec::new());
/// Numbers the schemas.
static STAGES: AtomicU32 = AtomicU32::new(0);

fn shared(flavour: Flavour) -> (&'static Sandbox, &'static Place) {
    let mut servers = SERVERS.lock().expect("no test failed to start one");
    if let Some((_, server, place)) = servers.iter().find(|(of, ..)| *of == flavour) {
        return (server, place);
    }
    let (server, place) = start(flavour);
    servers.push((flavour, server, place));
    (server, place)
}

/// Starts one that ends with the process.
fn start(flavour: Flavour) -> (&'static Sandbox, &'static Place) {
    // PERFORMANCE_SCHEMA tells which thread serves a connection; without its binary log MariaDB
    // has no lock waits reported.
    let spec = SandboxSpec::new(flavour)
        .set("performance_schema", "ON")
        .set("log_bin", "binlog")
        .tcp();
    let server: &Sandbox = Box::leak(Box::new(Sandbox::start(&spec).expect("a server")));
    (server, Box::leak(Box::new(Place::of(server))))
}

impl Stage {
    pub(crate) fn new(flavour: Flavour) -> Self {
        Self::on(shared(flavour))
    }

    /// The same in a server where nobody else commits.
    pub(crate) fn alone(flavour: Flavour) -> Self {
        Self::on(start(flavour))
    }

    fn on((server, place): (&'static Sandbox, &'static Place)) -> Self {
        let number = STAGES.fetch_add(1, Ordering::Relaxed);
        let schema = format!("stage_{number}");
        let mut admin = Connection::connect(&server.dsn_socket()).expect("a connection");
        for sql in [
            format!("CREATE DATABASE {schema}"),
            format!("CREATE TABLE {schema}.t (id INT PRIMARY KEY, v INT) ENGINE=InnoDB"),
            format!(
                "INSERT INTO {schema}.t VALUES (1,1), (2,2), (3,3), (4,4), (5,5), (6,6), (7,7), \
                 (8,8), (9,9), (10,10)"
            ),
        ] {
            admin.query(sql.as_bytes()).expect(&sql);
        }
        Self {
            server,
            place,
            schema,
        }
    }

    /// A session in the test's schema, over TCP or the Unix socket as `dsn` says.
    pub(crate) fn session(&self, mut dsn: Dsn) -> Session {
        dsn.database = Some(self.schema.clone());
        let mut connection = Connection::connect(&dsn).expect("a connection");
        connection.set_timeout(Some(Duration::from_secs(120)));
        let id = connection.connection_id();
        let sql = match self.server.flavour() {
            Flavour::MySql => format!(
                "SELECT THREAD_OS_ID FROM performance_schema.threads WHERE PROCESSLIST_ID = {id}"
            ),
            _ => format!("SELECT TID FROM information_schema.PROCESSLIST WHERE ID = {id}"),
        };
        let tid = value(&mut connection, &sql, 0)
            .parse()
            .expect("a thread id");
        Session {
            place: self.place,
            tid,
            hooks: Vec::new(),
            connection,
        }
    }
}

/// The first column of the first row.
pub(crate) fn value(connection: &mut Connection, sql: &str, column: usize) -> String {
    let rows = connection.query_rows(sql.as_bytes()).expect(sql);
    let value = rows.first().and_then(|row| row[column].clone());
    String::from_utf8(value.unwrap_or_else(|| panic!("{sql}: no value"))).expect("UTF-8")
}

/// A connection and the thread that serves it.
pub(crate) struct Session {
    pub(crate) place: &'static Place,
    pub(crate) tid: i32,
    /// Hooks to look at besides.
    pub(crate) hooks: Vec<Hook>,
    pub(crate) connection: Connection,
}

impl Session {
    /// Runs a statement that nobody looks at.
    pub(crate) fn run(&mut self, sql: &str) {
        let done = self.connection.query(sql.as_bytes());
        done.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// Runs `work`, of which `sql` is the last statement of this session.
    pub(crate) fn observe_with<T: Send>(
        &mut self,
        sql: &str,
        work: impl FnOnce(&mut Connection) -> T + Send,
    ) -> (Vec<Seen>, T) {
        let connection = &mut self.connection;
        // The client has the answer before the thread has ended the statement, so that the one
        // before this might be taken for it; a ping is answered when that has ended.
        connection.ping().expect("an answer");
        observe(self.place, (self.tid, &self.hooks), sql, || {
            work(connection)
        })
    }

    /// Runs a statement and gives what it and those within it left, and what the client heard.
    pub(crate) fn observe(&mut self, sql: &str) -> (Vec<Seen>, Summary) {
        let (all, heard) = self.observe_with(sql, |connection| connection.query(sql.as_bytes()));
        (all, heard.unwrap_or_else(|error| panic!("{sql}: {error}")))
    }

    /// The same of a statement with none within it.
    pub(crate) fn one(&mut self, sql: &str) -> (Seen, Summary) {
        let (mut all, heard) = self.observe(sql);
        assert_eq!(all.len(), 1, "{sql}");
        (all.remove(0), heard)
    }

    /// What the server says of this session's own status.
    pub(crate) fn status(&mut self, name: &str) -> u64 {
        let sql = format!("SHOW SESSION STATUS LIKE '{name}'");
        value(&mut self.connection, &sql, 1)
            .parse()
            .expect("a number")
    }
}
