//! The servers of this test binary, and what tests ask of them.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use waggle_copy::progress::Job;
use waggle_copy::throttle::Limits;
use waggle_copy::verify::Comparison;
use waggle_copy::{Plan, Until};
use waggle_need::need;
use waggle_server::Flavour;
use waggle_server::install::installed_servers;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_wire::{Connection, Dsn};

/// The server of a family; `None`, said aloud, when there is none.
pub(crate) fn server(flavour: Flavour) -> Option<&'static Sandbox> {
    static SERVERS: [OnceLock<Option<Sandbox>>; 2] = [OnceLock::new(), OnceLock::new()];
    let place = &SERVERS[usize::from(flavour == Flavour::MariaDb)];
    place.get_or_init(|| start(flavour)).as_ref()
}

/// Another one, to copy to.
pub(crate) fn other(flavour: Flavour) -> Option<&'static Sandbox> {
    static SERVERS: [OnceLock<Option<Sandbox>>; 2] = [OnceLock::new(), OnceLock::new()];
    let place = &SERVERS[usize::from(flavour == Flavour::MariaDb)];
    place.get_or_init(|| start(flavour)).as_ref()
}

/// One whose settings tests change, one test at a time: it must hold [`alone`].
pub(crate) fn altered(flavour: Flavour) -> Option<&'static Sandbox> {
    static SERVERS: [OnceLock<Option<Sandbox>>; 2] = [OnceLock::new(), OnceLock::new()];
    let place = &SERVERS[usize::from(flavour == Flavour::MariaDb)];
    place.get_or_init(|| start(flavour)).as_ref()
}

/// The turn of a test that changes settings.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start(flavour: Flavour) -> Option<Sandbox> {
    let is_there = installed_servers()
        .iter()
        .any(|server| server.flavour == flavour);
    if !need(flavour.name(), is_there, "no such server is installed") {
        return None;
    }
    let spec = SandboxSpec::new(flavour)
        .set("log-bin", "binlog")
        .set("server-id", "1")
        .set("binlog-format", "ROW");
    let spec = match flavour {
        Flavour::MySql => spec
            .set("gtid-mode", "ON")
            .set("enforce-gtid-consistency", "ON"),
        Flavour::MariaDb => spec,
    };
    Some(Sandbox::start(&spec).expect("a server"))
}

/// The families that are here.
pub(crate) fn flavours() -> Vec<Flavour> {
    let both = [Flavour::MySql, Flavour::MariaDb];
    both.into_iter()
        .filter(|flavour| server(*flavour).is_some())
        .collect()
}

/// A session in a schema, which is made anew.
pub(crate) fn fresh(server: &Sandbox, schema: &str) -> Connection {
    let mut connection = Connection::connect(&server.dsn()).expect("a session");
    run(
        &mut connection,
        &format!("DROP DATABASE IF EXISTS {schema}"),
    );
    run(&mut connection, &format!("CREATE DATABASE {schema}"));
    run(&mut connection, &format!("USE {schema}"));
    run(
        &mut connection,
        "SET NAMES utf8mb4, time_zone = '+00:00', sql_mode = 'NO_AUTO_VALUE_ON_ZERO'",
    );
    connection
}

pub(crate) fn run(connection: &mut Connection, sql: &str) {
    if let Err(error) = connection.query(sql.as_bytes()) {
        panic!("{sql}: {error}");
    }
}

/// Runs statements that end with `;` and a line break.
pub(crate) fn run_all(connection: &mut Connection, script: &str) {
    for sql in script
        .split(";\n")
        .map(str::trim)
        .filter(|sql| !sql.is_empty())
    {
        run(connection, sql);
    }
}

/// The first value of the first row.
pub(crate) fn one(connection: &mut Connection, sql: &str) -> String {
    let rows = connection.query_rows(sql.as_bytes());
    let rows = rows.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let value = rows.first().and_then(|row| row.last()).cloned().flatten();
    String::from_utf8_lossy(&value.unwrap_or_default()).into_owned()
}

pub(crate) fn dsn(server: &Sandbox, schema: &str) -> Dsn {
    let mut dsn = server.dsn();
    dsn.database = Some(schema.to_owned());
    dsn
}

/// A copy of all tables of a schema into another.
pub(crate) fn plan(source: Dsn, target: Dsn, job: &str) -> Plan {
    Plan {
        target_schema: target.database.clone(),
        source,
        target,
        job: Job::new(job).expect("a name"),
        tables: Vec::new(),
        until: Until::CaughtUp,
        workers: 2,
        slice_bytes: 1 << 20,
        range_rows: 1000,
        defers_keys: true,
        json_as_text: false,
        verifies: false,
        limits: Limits::default(),
        spool: PathBuf::from("no-spool"),
        spool_bytes_max: 64 << 20,
    }
}

pub(crate) fn comparison(plan: &Plan) -> Comparison {
    Comparison {
        source: plan.source.clone(),
        target: plan.target.clone(),
        workers: 2,
        range_rows: 100,
        lag: Duration::ZERO,
        repairs: false,
        named_max: 100,
    }
}
