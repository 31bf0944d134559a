//! Changes get to the target while and after rows are copied: every kind of them ([`applied`]), or
//! a refusal ([`refused`]).

mod applied;
mod refused;

use std::process::Output;

use waggle_server::Flavour;
use waggle_wire::Connection;

use super::{Running, Stage};

/// A copy that goes on until it is told to end.
const STOPPED: [&str; 2] = ["--until", "stopped"];

fn connect(stage: &Stage) -> Connection {
    let mut connection = stage.connect();
    let session = "SET time_zone = '+00:00', NAMES utf8mb4, sql_mode = 'ALLOW_INVALID_DATES'";
    run(&mut connection, session);
    run(&mut connection, "USE a");
    connection
}

fn run(connection: &mut Connection, sql: &str) {
    let done = connection.query(sql.as_bytes());
    done.unwrap_or_else(|error| panic!("{}: {error}", &sql[..sql.len().min(200)]));
}

/// Waits until the copier has applied what the source has done so far.
fn wait_until_applied(stage: &Stage) {
    let mut source = connect(stage);
    run(&mut source, "UPDATE mark SET v = v + 1");
    let value = stage.value("SELECT v FROM a.mark").unwrap();
    stage.wait("SELECT v FROM b.mark", |v| v == value);
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Both databases, with a table whose row marks how far the copier is.
fn stage(flavour: Flavour, tables: &[&str]) -> Stage {
    let stage = Stage::new(flavour);
    stage.run(&[
        "CREATE DATABASE a",
        "CREATE DATABASE b",
        "CREATE TABLE a.mark (id INT PRIMARY KEY, v INT)",
        "INSERT INTO a.mark VALUES (1, 0)",
    ]);
    let mut source = connect(&stage);
    for table in tables {
        run(&mut source, table);
    }
    stage
}

/// A copier of everything in `a` that is in its last phase.
fn replicate(stage: &Stage) -> Running {
    let copier = stage.begin(&STOPPED);
    stage.wait("SELECT v FROM b.mark", |_| true);
    copier
}

/// Ends a copy; gives its document.
fn end(copier: Running) -> serde_json::Value {
    let pid = i32::try_from(copier.pid()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let output = copier.end();
    assert!(output.status.success(), "{}", words(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn assert_tables_equal(stage: &Stage) {
    let tables =
        stage.rows("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'a'");
    assert!(tables.len() > 1);
    for row in tables {
        let name = String::from_utf8(row[0].clone().unwrap()).unwrap();
        stage.assert_equal(&format!("a.{name}"), &format!("b.{name}"));
    }
}
