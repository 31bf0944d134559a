//! Open loop: what is offered is accounted for, and a stall counts for every event it delays.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use waggle_server::Flavour;
use waggle_server::sandbox::Sandbox;

use super::{database, document, dsn, run, sandbox, spawned, statement, stderr};

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no count"))
}

fn seconds(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is no figure"))
        / 1e6
}

/// Runs `sql` on a throw-away MariaDB with these flags: one server for all, a load at a time.
fn loaded(sql: &str, flags: &str) -> Option<(Option<i32>, Value, String)> {
    static SERVER: Mutex<Option<Sandbox>> = Mutex::new(None);
    let mut server = SERVER.lock().unwrap_or_else(PoisonError::into_inner);
    if server.is_none() {
        let started = sandbox(Flavour::MariaDb)?;
        database(&started);
        *server = Some(started);
    }
    let server = server.as_ref()?;
    let runs = tempfile::tempdir().unwrap();
    let path = statement(runs.path(), sql);
    let arguments = format!("{} --dsn {} --json {flags}", path.display(), dsn(server));
    let output = run(&arguments, runs.path());
    let stderr = stderr(&output);
    Some((output.status.code(), document(&output), stderr))
}

/// 200 events a second for 6 s, evenly spaced, and a server that stands still for `stall` s: the
/// 200 * `stall` events that fall due meanwhile wait for the rest of it, from `stall` down to 0.
/// Of 1,200 events, 1.2 lie above p99.9 and 60 above p95, so these are `stall` less 1.2 and less 60
/// events' time: 0.006 s and 0.3 s. Only the 8 events that were under way (one a thread) see the
/// stall in their service time: fewer than 1 in 100, so not even its p99 moves.
#[test]
fn a_stall_shows_in_the_response_and_hides_in_the_service() {
    let Some(server) = sandbox(Flavour::MariaDb) else {
        return;
    };
    database(&server);
    let runs = tempfile::tempdir().unwrap();
    let path = statement(runs.path(), "DO 1");
    let arguments = format!(
        "{} --dsn {} --threads 8 --rate 200 --arrivals uniform --time 6 --json",
        path.display(),
        dsn(&server)
    );
    let (child, mut lines) = spawned(&arguments, runs.path());
    lines.next().expect("a line of progress");
    lines.next().expect("a line of progress");
    let pid = Pid::from_raw(server.pid() as i32).expect("a process");
    kill_process(pid, Signal::STOP).unwrap();
    let stopped = Instant::now();
    // sleep: the length of the stall is what is tested; what it really was is measured
    std::thread::sleep(Duration::from_secs(1));
    let stall = stopped.elapsed().as_secs_f64();
    kill_process(pid, Signal::CONT).unwrap();
    let rest: Vec<String> = lines.collect();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{rest:?}");
    let result = document(&output);

    let events = number(&result["backlog"]["offered"]) as f64;
    assert!(events >= 1_199.0, "{result}");
    let response = |percentile: &str| seconds(&result["response_us"][percentile]);
    // Below: arithmetic, less a time for signals to arrive. Above: when this machine keeps the
    // generator itself from running, that shows in its lag, and adds to the server's stall.
    let early = 0.05;
    let late = 0.6 + seconds(&result["lag_us"]["max"]);
    for (percentile, share) in [("p99.9", 0.001), ("p99", 0.01), ("p95", 0.05)] {
        let (wanted, found) = (stall - share * events / 200.0, response(percentile));
        assert!(
            found > wanted - early && found < wanted + late,
            "response {percentile}: {found} s, by arithmetic {wanted} s: {result}"
        );
    }
    let service = |percentile: &str| seconds(&result["service_us"][percentile]);
    assert!(service("p99") < response("p99") / 2.0, "{result}");
    assert!(service("p95") < response("p95") / 10.0, "{result}");
    assert!(service("max") > stall - early, "{result}");
}

/// Two threads at 50 ms an event carry 40 a second of 200.
#[test]
fn above_its_limit_the_oldest_are_dropped_and_everything_is_accounted_for() {
    let flags = "--threads 2 --rate 200 --time 2 --overflow drop:5";
    let Some((code, result, stderr)) = loaded("DO SLEEP(0.05)", flags) else {
        return;
    };
    assert_eq!(code, Some(0), "{stderr}");
    let backlog = &result["backlog"];
    let count = |field: &str| number(&backlog[field]);
    let sum = count("begun") + count("dropped") + count("waiting_at_end");
    assert_eq!(sum, count("offered"), "{result}");
    assert_eq!(count("begun"), number(&result["transactions"]), "{result}");
    assert_eq!(result["dropped"], backlog["dropped"]);
    assert!(
        count("dropped") > 100 && count("waiting_max") <= 5,
        "{result}"
    );
    assert_eq!(result["server"]["questions"], result["queries"], "{result}");
    assert_eq!(result["response_us"]["count"], result["transactions"]);
}

#[test]
fn too_many_waiting_events_end_the_run_with_a_report() {
    let flags = "--threads 2 --rate 200 --time 3600 --overflow abort:50";
    let Some((code, result, stderr)) = loaded("DO SLEEP(0.05)", flags) else {
        return;
    };
    assert_eq!(code, Some(1), "{stderr}");
    assert!(number(&result["transactions"]) > 0, "{result}");
    let failure = result["failure"].as_str().expect("the reason");
    assert!(
        failure.contains("cannot carry the offered rate"),
        "{failure}"
    );
}

/// 100 events fall due in a second, of which two threads at 30 ms carry 66.
#[test]
fn what_waits_at_the_end_is_counted_or_run_down() {
    let flags = "--threads 2 --rate 100 --arrivals uniform --time 1";
    let Some((_, counted, _)) = loaded("DO SLEEP(0.03)", flags) else {
        return;
    };
    assert!(
        number(&counted["backlog"]["waiting_at_end"]) > 10,
        "{counted}"
    );
    assert!(seconds(&counted["backlog"]["oldest_us"]) > 0.1, "{counted}");
    assert_eq!(counted["backlog"]["drain_s"], Value::Null);

    let flags = format!("{flags} --at-end drain");
    let Some((code, drained, stderr)) = loaded("DO SLEEP(0.03)", &flags) else {
        return;
    };
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(drained["backlog"]["waiting_at_end"], 0, "{drained}");
    let transactions = number(&drained["transactions"]);
    assert_eq!(
        transactions,
        number(&drained["backlog"]["offered"]),
        "{drained}"
    );
    let drain_s = drained["backlog"]["drain_s"].as_f64().expect("a time");
    assert!(drain_s > 0.1, "{drained}");
    // The end may come late; the rate goes on until then.
    let late_s = drained["duration_s"].as_f64().expect("a length") - drain_s - 1.0;
    assert!(
        (99.0..=101.0 + 100.0 * late_s).contains(&(transactions as f64)),
        "{drained}"
    );
}

#[test]
fn steps_and_ramps_offer_their_sum() {
    let flags = "--threads 4 --rate-steps 100:1s,0..100:1s --arrivals uniform";
    let Some((code, result, stderr)) = loaded("DO 1", flags) else {
        return;
    };
    assert_eq!(code, Some(0), "{stderr}");
    let offered = number(&result["backlog"]["offered"]) as f64;
    let late_s = result["duration_s"].as_f64().expect("a length") - 2.0;
    // The end may come late; the last rate goes on until then.
    assert!(
        (149.0..=151.0 + 100.0 * late_s).contains(&offered),
        "{result}"
    );
    assert_eq!(result["steady"]["latency_p99"], Value::Null);
}

#[test]
fn a_number_of_events_is_run_exactly() {
    for flags in [
        "--threads 4 --events 137",
        "--threads 4 --events 57 --rate 100 --warmup 0.3",
    ] {
        let Some((code, result, stderr)) = loaded("DO 1", flags) else {
            return;
        };
        assert_eq!(code, Some(0), "{stderr}");
        let wanted = if flags.contains("57") { 57 } else { 137 };
        assert_eq!(number(&result["transactions"]), wanted, "{flags}: {result}");
        assert_eq!(result["ended_by_itself"], true);
    }
}
