//! `waggle trace pipeline redo` on real servers: MySQL with the redo log's own threads and without,
//! MariaDB. Writers commit a known number of times.

use std::collections::BTreeSet;

use serde_json::Value;
use waggle_server::Flavour;
use waggle_server::sandbox::{Sandbox, SandboxSpec};

use super::pipeline::{Tracing, array, assert_sums, number};
use crate::watch::stage::{can_watch, connect, run, turn};

const WRITERS: usize = 8;
const COMMITS: usize = 150;

/// Eight sessions commit one row at a time.
fn write(server: &Sandbox) {
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || {
                let mut connection = connect(server);
                for number in 0..COMMITS {
                    let id = writer * COMMITS + number;
                    let insert = format!("INSERT INTO trace.t VALUES ({id}, REPEAT('x', 200))");
                    run(&mut connection, &[&insert]);
                }
            });
        }
    });
}

/// Traces the writers, and checks what has to hold of any report.
fn traced(server: &Sandbox, what: &str) -> Value {
    let mut connection = connect(server);
    run(
        &mut connection,
        &[
            "CREATE DATABASE IF NOT EXISTS trace",
            "DROP TABLE IF EXISTS trace.t",
            "CREATE TABLE trace.t (id INT PRIMARY KEY, filler VARCHAR(255)) ENGINE=InnoDB",
        ],
    );
    let tracing = Tracing::start_of(server.pid(), &["redo", "--slowest", "1000"]);
    write(server);
    let (code, report) = tracing.interrupt();
    assert_eq!(code, Some(0), "{report}");
    assert_sums(&report);
    let field = |name| number(&report, name);
    let (seen, torn) = (field("seen"), field("torn"));
    println!(
        "{what}: {} commits; {seen} waits seen, {} decomposed, {} no wait, {} flagged, {torn} torn",
        WRITERS * COMMITS,
        field("decomposed"),
        field("no_wait"),
        field("flagged"),
    );
    println!("{what}: {}", report["wait_us"]);
    for stage in array(&report, "stages") {
        let name = &stage["name"];
        let mean = &stage["latency_us"]["mean_us"];
        println!(
            "{what}: {name} mean {mean} us, skipped {}",
            stage["skipped"]
        );
    }
    // Each commit waits at least once: no wait is missed. The first of all may be cut, as nothing
    // was known of the stages yet. MariaDB's commits look at what is flushed before they come to
    // where a wait begins, so one that was held up before it may need none.
    let all = (seen + field("cut")) as usize;
    let commits = WRITERS * COMMITS;
    let least = match report["pipeline"].as_str() {
        Some("mariadb-redo") => commits - commits / 100,
        _ => commits,
    };
    assert!(all >= least, "{all}");
    let explained = field("decomposed") + field("no_wait");
    assert!(
        explained * 1000 >= (seen + torn) * 995,
        "{explained} of {seen}"
    );
    assert!(field("decomposed") > 0);
    report
}

/// The threads that carried a stage out in the waits that are there in full, and the waiters.
fn carriers(report: &Value, stage: &str) -> (BTreeSet<u64>, BTreeSet<u64>) {
    let stages = array(report, "stages");
    let index = stages.iter().position(|s| s["name"] == stage);
    let index = index.expect("the stage");
    let waits = array(report, "slowest");
    let carriers = waits
        .iter()
        .filter_map(|wait| array(wait, "stages")[index]["tid"].as_u64());
    let waiters = waits.iter().map(|wait| number(wait, "tid"));
    (carriers.collect(), waiters.collect())
}

#[test]
fn commits_of_mysql_are_decomposed_with_and_without_the_logs_own_threads() {
    if !can_watch(Flavour::MySql) {
        return;
    }
    let _turn = turn();
    let spec = SandboxSpec::new(Flavour::MySql).set("innodb-log-writer-threads", "ON");
    let server = Sandbox::start(&spec).expect("a throw-away server");
    let report = traced(&server, "MySQL, log threads on");
    assert_eq!(report["pipeline"], "redo");
    for stage in ["written", "fsynced"] {
        let (carriers, waiters) = carriers(&report, stage);
        assert_eq!(carriers.len(), 1, "{stage}: one thread for all");
        assert!(
            carriers.is_disjoint(&waiters),
            "{stage}: a thread of its own"
        );
    }
    let set = "SET GLOBAL innodb_log_writer_threads = OFF";
    run(&mut connect(&server), &[set]);
    let report = traced(&server, "MySQL, log threads off");
    assert_eq!(report["pipeline"], "redo-paused");
    let (carriers, waiters) = carriers(&report, "fsynced");
    assert!(!carriers.is_disjoint(&waiters), "users flush themselves");
}

#[test]
fn commits_of_mariadb_are_decomposed() {
    if !can_watch(Flavour::MariaDb) {
        return;
    }
    let _turn = turn();
    let server = Sandbox::start(&SandboxSpec::new(Flavour::MariaDb)).expect("a server");
    let report = traced(&server, "MariaDB");
    assert_eq!(report["pipeline"], "mariadb-redo");
}
