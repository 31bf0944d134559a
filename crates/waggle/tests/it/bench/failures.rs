//! Whatever ends a run early, it ends with a report of what was measured and a cause.

use std::path::Path;
use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use waggle_server::Flavour;
use waggle_server::sandbox::{Sandbox, SandboxSpec};

use super::{database, document, dsn, has, run, sandbox, script, spawned, statement, stderr};

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
    spawned(&arguments, runs)
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

fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid as i32).expect("a process");
    kill_process(pid, signal).expect("a signal is sent");
}

fn a_killed_server_ends_the_run(flavour: Flavour) {
    let Some(server) = sandbox(flavour) else {
        return;
    };
    let runs = tempfile::tempdir().unwrap();
    let (child, mut lines) = endless_load(&server, runs.path());
    lines.next().expect("a line of progress");
    signal(server.pid(), Signal::KILL);
    let rest: Vec<String> = lines.collect();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{rest:?}");
    let result = document(&output);
    assert!(result["queries"].as_u64().unwrap() > 0);
    let last = rest.last().expect("the cause");
    assert!(last.contains("the load failed after"), "{last}");
}

#[test]
fn a_killed_mariadb_ends_the_run_with_a_report() {
    a_killed_server_ends_the_run(Flavour::MariaDb);
}

#[test]
fn a_killed_mysql_ends_the_run_with_a_report() {
    a_killed_server_ends_the_run(Flavour::MySql);
}

#[test]
fn an_error_of_the_script_in_the_middle_is_told_with_its_place() {
    let Some(server) = sandbox(Flavour::MariaDb) else {
        return;
    };
    database(&server);
    let runs = tempfile::tempdir().unwrap();
    let path = script(
        runs.path(),
        "local done = 0\n\
         function thread_init() con = sysbench.sql.driver():connect() end\n\
         function event()\n\
           con:query(\"DO 1\")\n\
           done = done + 1\n\
           if done == 50 then error(\"out of patience\") end\n\
         end\n",
    );
    let arguments = format!(
        "{} --dsn {} --threads 2 --json",
        path.display(),
        dsn(&server)
    );
    let output = run(&arguments, runs.path());
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let result = document(&output);
    assert!(result["transactions"].as_u64().unwrap() >= 49, "{result}");
    let failure = result["failure"].as_str().expect("the reason");
    assert!(
        failure.contains("out of patience") && failure.contains("workload.lua:6"),
        "{failure}"
    );
}

fn a_packet_above_the_limit_is_told(flavour: Flavour) {
    if !has(flavour) {
        return;
    }
    let spec = SandboxSpec::new(flavour).set("max_allowed_packet", "1M");
    let server = Sandbox::start(&spec).expect("a throw-away server");
    database(&server);
    let runs = tempfile::tempdir().unwrap();
    let path = script(
        runs.path(),
        "local done = 0\n\
         local large = \"SELECT LENGTH('\" .. string.rep(\"x\", 3000000) .. \"')\"\n\
         function thread_init() con = sysbench.sql.driver():connect() end\n\
         function event()\n\
           done = done + 1\n\
           con:query(done < 20 and \"DO 1\" or large)\n\
         end\n",
    );
    let arguments = format!("{} --dsn {} --json", path.display(), dsn(&server));
    let output = run(&arguments, runs.path());
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let result = document(&output);
    assert_eq!(result["transactions"], 19, "{result}");
    let failure = result["failure"].as_str().expect("the reason");
    assert!(failure.contains("SELECT LENGTH('xxx"), "{failure}");
    assert!(failure.len() < 2_000, "the statement is shortened");
}

#[test]
fn a_packet_above_the_limit_of_mariadb_is_told() {
    a_packet_above_the_limit_is_told(Flavour::MariaDb);
}

#[test]
fn a_packet_above_the_limit_of_mysql_is_told() {
    a_packet_above_the_limit_is_told(Flavour::MySql);
}

#[test]
fn more_connections_than_the_server_takes_are_refused_before_anything_runs() {
    if !has(Flavour::MariaDb) {
        return;
    }
    let spec = SandboxSpec::new(Flavour::MariaDb).set("max_connections", "100");
    let server = Sandbox::start(&spec).expect("a throw-away server");
    database(&server);
    let (runs, scripts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = statement(scripts.path(), "DO 1");
    let arguments = format!("{} --dsn {} --threads 5000", path.display(), dsn(&server));
    let output = run(&arguments, runs.path());
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let stderr = stderr(&output);
    assert!(stderr.contains("Too many connections"), "{stderr}");
    assert!(
        stderr.contains("raise it, or take fewer threads"),
        "{stderr}"
    );
    let recorded = runs.path().read_dir().unwrap().count();
    assert_eq!(recorded, 0, "nothing was recorded");
}

/// Transactions a second, from a line of progress.
fn rate_in(line: &str) -> f64 {
    let rate = line
        .split("tps")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next());
    rate.and_then(|rate| rate.parse().ok()).unwrap_or(0.0)
}

#[test]
fn a_server_that_comes_back_is_loaded_again() {
    let Some(mut server) = sandbox(Flavour::MariaDb) else {
        return;
    };
    database(&server);
    let runs = tempfile::tempdir().unwrap();
    let path = statement(runs.path(), "DO 1");
    // Lost (2006, 2013), not there yet (2002, 2003), shutting down (1053, 1927).
    let arguments = format!(
        "{} --dsn {} --threads 3 --time 3600 --report-interval 0.2 --json --reconnect-limit 60 \
         --ignore-errors 1053,1927,2002,2003,2006,2013",
        path.display(),
        dsn(&server)
    );
    let (child, mut lines) = spawned(&arguments, runs.path());
    lines.next().expect("a line of progress");
    server.restart(&[]).expect("the server comes back");
    // Lines from before the restart may still be in the pipe: the load goes on for longer.
    let after = std::time::Instant::now();
    let loaded = lines.by_ref().any(|line| {
        assert!(after.elapsed().as_secs() < 60, "not loaded again: {line}");
        after.elapsed().as_millis() > 1_000 && rate_in(&line) > 0.0
    });
    assert!(loaded, "the run ended");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let rest: Vec<String> = lines.collect();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{rest:?}");
    let result = document(&output);
    assert_eq!(result["failure"], "interrupted", "{result}");
    assert!(result["downtime_s"].as_f64().unwrap() > 0.0, "{result}");
    let errors = result["errors_by_code"].as_object().expect("errors");
    let kinds = errors.values();
    let count: u64 = kinds.map(|kind| kind["count"].as_u64().unwrap()).sum();
    assert!(count >= 3, "{result}");
    assert!(
        errors.values().all(|kind| kind["example"] != ""),
        "{result}"
    );
}
