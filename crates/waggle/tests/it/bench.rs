//! `waggle bench`: the real binary against real servers; what it counted is what they counted.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use waggle_server::Flavour;
use waggle_server::install::installed_servers;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_wire::Connection;

use crate::need::need;

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
    format!("mysql://root@/sbtest?socket={}", server.socket().display())
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

fn counts_like_the_server(flavour: Flavour) {
    if !has(flavour) {
        return;
    }
    let runs = tempfile::tempdir().unwrap();
    let name = flavour.name();
    let statements = [
        ("oltp_point_select", 1),
        ("oltp_read_only", 16),
        ("oltp_read_write", 20),
    ];
    for (workload, per_transaction) in statements {
        let output = run(
            &format!(
                "{workload} --sandbox {name} --tables 2 --table-size 1000 --threads 4 --warmup 1 \
                 --time 2 --json"
            ),
            runs.path(),
        );
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let result = document(&output);
        let number = |field: &str| result[field].as_u64().unwrap_or_else(|| panic!("{result}"));
        assert!(number("transactions") > 0, "{result}");
        assert_eq!(
            result["server"]["questions"], result["queries"],
            "{workload}: {result}"
        );
        if number("errors") == 0 {
            assert_eq!(
                number("queries"),
                number("transactions") * per_transaction,
                "{result}"
            );
            let parts = number("reads") + number("writes") + number("other");
            assert_eq!(parts, number("queries"), "{result}");
        }
        assert!(result["latency_us"]["p99"].as_f64() >= result["latency_us"]["p50"].as_f64());
        assert_eq!(result["offered_rate"], Value::Null);
        recorded(&result);
    }
}

/// The run directory holds the same result, and its intervals add up to no more than it.
fn recorded(result: &Value) {
    let run = Path::new(result["run"].as_str().expect("a run directory"));
    let read = |file: &str| std::fs::read_to_string(run.join(file)).expect(file);
    let json = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
    assert_eq!(json(&read("result.json")), *result);
    let facts = json(&read("run.json"));
    assert_eq!(
        (&facts["verb"], &facts["outcome"]),
        (&"bench".into(), &"done".into())
    );
    let samples: Vec<Value> = read("samples.jsonl").lines().map(json).collect();
    assert!(samples.iter().any(|sample| sample["kind"] == "warm-up"));
    let measured: u64 = samples
        .iter()
        .filter(|sample| sample["kind"] == "interval")
        .map(|sample| sample["queries"].as_u64().expect("a count"))
        .sum();
    let total = result["queries"].as_u64().expect("a count");
    assert!(
        measured <= total && measured * 10 >= total * 9,
        "{measured} of {total}"
    );
    assert!(run.join("histograms/transaction_latency_ns.hdr").is_file());
}

#[test]
fn counts_what_mariadb_counts() {
    counts_like_the_server(Flavour::MariaDb);
}

#[test]
fn counts_what_mysql_counts() {
    counts_like_the_server(Flavour::MySql);
}

#[test]
fn prepares_runs_and_cleans_up_a_named_server() {
    let Some(server) = sandbox(Flavour::MariaDb) else {
        return;
    };
    let runs = tempfile::tempdir().unwrap();
    let dsn = dsn(&server);
    let sizes = "--tables 3 --table-size 5000 --threads 2 --rand-seed 7";

    let missing = run(
        &format!("oltp_read_write --dsn {dsn} {sizes} --time 1"),
        runs.path(),
    );
    assert_eq!(missing.status.code(), Some(2), "{}", stderr(&missing));
    assert!(
        stderr(&missing).contains("create the tables first"),
        "{}",
        stderr(&missing)
    );
    assert_eq!(
        runs.path().read_dir().unwrap().count(),
        0,
        "a refusal leaves no run"
    );

    let prepared = run(
        &format!("oltp_read_write prepare --dsn {dsn} {sizes} --json"),
        runs.path(),
    );
    assert_eq!(
        document(&prepared)["rows_inserted"],
        15_000,
        "{}",
        stderr(&prepared)
    );
    let mut connection = connect(&server);
    let count = "SELECT COUNT(*), MIN(id), MAX(id) FROM sbtest3";
    assert_eq!(numbers(&mut connection, count), [5000, 1, 5000]);
    let indexes = "SELECT COUNT(*) FROM information_schema.statistics \
                   WHERE table_schema = 'sbtest' AND index_name LIKE 'k\\_%'";
    assert_eq!(numbers(&mut connection, indexes), [3]);

    // What is there already is not touched by `all`, which would drop it at the end.
    let all = run(
        &format!("oltp_read_write all --dsn {dsn} {sizes} --time 1"),
        runs.path(),
    );
    assert_eq!(all.status.code(), Some(1));
    assert!(stderr(&all).contains("already exists"), "{}", stderr(&all));

    let ran = run(
        &format!("oltp_read_write --dsn {dsn} {sizes} --time 1 --json"),
        runs.path(),
    );
    assert_eq!(ran.status.code(), Some(0), "{}", stderr(&ran));
    assert_eq!(
        numbers(&mut connection, count)[0],
        5000,
        "deletes and inserts balance"
    );

    let cleaned = run(
        &format!("oltp_read_write cleanup --dsn {dsn} {sizes}"),
        runs.path(),
    );
    assert_eq!(cleaned.status.code(), Some(0), "{}", stderr(&cleaned));
    let tables = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'sbtest'";
    assert_eq!(numbers(&mut connection, tables), [0]);
}

/// A load that runs for longer than any test, and the lines it prints on stderr.
fn endless_load(server: &Sandbox, runs: &Path) -> (Child, impl Iterator<Item = String> + use<>) {
    let prepare = format!(
        "oltp_read_write prepare --dsn {} --table-size 1000",
        dsn(server)
    );
    assert!(run(&prepare, runs).status.success());
    let arguments = format!(
        "oltp_read_write --dsn {} --table-size 1000 --threads 3 --time 3600 --json",
        dsn(server)
    );
    let mut child = bench(&arguments, runs)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    (child, lines.map_while(Result::ok))
}

#[test]
fn the_death_of_the_server_ends_the_run_with_a_report() {
    let Some(server) = sandbox(Flavour::MariaDb) else {
        return;
    };
    let runs = tempfile::tempdir().unwrap();
    let (child, mut lines) = endless_load(&server, runs.path());
    let first = lines.next().expect("a line of progress");
    assert!(first.contains("qps"), "{first}");
    drop(server);
    let rest: Vec<String> = lines.collect();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{rest:?}");
    let result = document(&output);
    assert!(result["queries"].as_u64().unwrap() > 0);
    let failure = result["failure"].as_str().expect("the reason");
    assert!(
        failure.contains("thread ") && failure.contains("statement: "),
        "{failure}"
    );
    let facts = Path::new(result["run"].as_str().unwrap()).join("run.json");
    let facts: Value = serde_json::from_slice(&std::fs::read(facts).unwrap()).unwrap();
    assert_eq!(facts["outcome"], "failed");
}

#[test]
fn an_interrupt_ends_the_run_with_a_report() {
    let Some(server) = sandbox(Flavour::MariaDb) else {
        return;
    };
    let runs = tempfile::tempdir().unwrap();
    let (child, mut lines) = endless_load(&server, runs.path());
    lines.next().expect("a line of progress");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let rest: Vec<String> = lines.collect();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{rest:?}");
    let result = document(&output);
    assert_eq!(result["failure"], "interrupted");
    assert_eq!(result["server"]["questions"], result["queries"], "{result}");
}

#[test]
fn what_cannot_be_used_is_refused_with_exit_code_2() {
    let runs = tempfile::tempdir().unwrap();
    let cases = [
        ("oltp_read_only", "name one with --dsn"),
        (
            "oltp_read_only --dsn mysql://root@127.0.0.1:1/",
            "127.0.0.1:1",
        ),
        (
            "oltp_read_onyl --sandbox mariadb",
            "oltp_point_select, oltp_read_only",
        ),
        (
            "oltp_read_only --sandbox mariadb -o tabels=2",
            "its options are auto_inc",
        ),
        (
            "oltp_read_only --sandbox mariadb -- --skip-trx=perhaps",
            "wants on or off",
        ),
        (
            "oltp_read_only run --sandbox mariadb",
            "takes the command all",
        ),
    ];
    for (arguments, words) in cases {
        let output = run(arguments, runs.path());
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments}: {}",
            stderr(&output)
        );
        assert!(
            stderr(&output).contains(words),
            "{arguments}: {}",
            stderr(&output)
        );
        assert!(output.stdout.is_empty(), "{arguments}");
    }
    assert_eq!(runs.path().read_dir().unwrap().count(), 0);
}

#[test]
fn a_server_that_refuses_is_quoted() {
    let Some(server) = sandbox(Flavour::MariaDb) else {
        return;
    };
    let runs = tempfile::tempdir().unwrap();
    let socket = server.socket().display();
    let refused = [
        (
            format!("mysql://nobody:secret@/sbtest?socket={socket}"),
            "Access denied for user",
        ),
        (
            format!("mysql://root@/nowhere?socket={socket}"),
            "Unknown database 'nowhere'",
        ),
    ];
    for (dsn, words) in refused {
        let output = run(&format!("oltp_read_only --dsn {dsn}"), runs.path());
        assert_eq!(output.status.code(), Some(2));
        let stderr = stderr(&output);
        assert!(
            stderr.contains(words) && !stderr.contains("secret"),
            "{stderr}"
        );
    }
}
