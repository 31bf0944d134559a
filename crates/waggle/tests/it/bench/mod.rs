//! `waggle bench`: the real binary against real servers.

mod checks;
mod counts;
mod failures;
mod files;
mod open_loop;
mod profile;
mod refusals;
mod search;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use waggle_need::need;
use waggle_server::Flavour;
use waggle_server::install::installed_servers;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_wire::Connection;

fn bench(arguments: &str, runs: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_waggle"));
    command
        .arg("bench")
        .arg("--run-dir")
        .arg(runs)
        .args(arguments.split_whitespace());
    command.env_remove("WAGGLE_DSN");
    command
}

fn run(arguments: &str, runs: &Path) -> Output {
    bench(arguments, runs).output().expect("the binary starts")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!(
            "no JSON document on stdout: {error}; stderr: {}",
            stderr(output)
        )
    })
}

fn has(flavour: Flavour) -> bool {
    let found = installed_servers()
        .iter()
        .any(|server| server.flavour == flavour);
    need(flavour.name(), found, "no such server is installed")
}

fn sandbox(flavour: Flavour) -> Option<Sandbox> {
    let spec = SandboxSpec::new(flavour);
    has(flavour).then(|| Sandbox::start(&spec).expect("a throw-away server"))
}

/// The name of a server, as a user types it.
fn dsn(server: &Sandbox) -> String {
    server.dsn_socket().to_string()
}

fn connect(server: &Sandbox) -> Connection {
    Connection::connect(&server.dsn_socket()).expect("the server answers")
}

fn numbers(connection: &mut Connection, sql: &str) -> Vec<u64> {
    let rows = connection.query_rows(sql.as_bytes()).expect(sql);
    let number = |value: &Option<Vec<u8>>| {
        let text = value
            .as_deref()
            .map(String::from_utf8_lossy)
            .unwrap_or_default();
        text.parse()
            .unwrap_or_else(|_| panic!("{sql}: {text:?} is no number"))
    };
    rows.iter().flatten().map(number).collect()
}

/// A workload of these lines, in a directory of its own; each event runs one statement.
fn script(directory: &Path, lines: &str) -> PathBuf {
    let path = directory.join("workload.lua");
    std::fs::write(&path, lines).expect("a script is written");
    path
}

/// A workload whose event is this statement.
fn statement(directory: &Path, sql: &str) -> PathBuf {
    let lines = format!(
        "function thread_init() con = sysbench.sql.driver():connect() end\n\
         function event() con:query([[{sql}]]) end\n"
    );
    script(directory, &lines)
}

/// Starts a load and gives the lines it prints on stderr.
fn spawned(arguments: &str, runs: &Path) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut child = bench(arguments, runs)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    (child, lines.map_while(Result::ok))
}

fn database(server: &Sandbox) {
    let sql = b"CREATE DATABASE IF NOT EXISTS sbtest";
    connect(server).query_rows(sql).expect("a database");
}
