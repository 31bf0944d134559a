//! `waggle trace pipeline binlog` and `replica` on real servers: a known number of transactions
//! goes through the binary log's group commit, and then through a replica's workers.

use serde_json::Value;
use waggle_server::Flavour;
use waggle_server::sandbox::{Sandbox, SandboxSpec};

use super::pipeline::{Tracing, array, assert_sums, number};
use crate::watch::stage::{can_watch, connect, flavours, run, turn, wait_until};

const WRITERS: usize = 8;
const COMMITS: usize = 100;

fn prepare(server: &Sandbox) {
    run(
        &mut connect(server),
        &[
            "CREATE DATABASE IF NOT EXISTS trace",
            "CREATE TABLE trace.t (id INT PRIMARY KEY, filler VARCHAR(255)) ENGINE=InnoDB",
        ],
    );
}

/// Each session commits one row at a time.
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

/// What has to hold of every trace; returns how many waits there were.
fn checked(what: &str, report: &Value) -> u64 {
    assert_sums(report);
    let field = |name| number(report, name);
    let (seen, torn) = (field("seen"), field("torn"));
    let explained = field("decomposed") + field("no_wait");
    println!(
        "{what}: {seen} waits, {explained} explained, {}",
        report["wait_us"]
    );
    for stage in array(report, "stages") {
        let name = &stage["name"];
        println!(
            "{what}:   {name} {}, skipped {}",
            stage["sum_ns"], stage["skipped"]
        );
    }
    assert!(
        explained * 1000 >= (seen + torn) * 995,
        "{what}: {explained} of {seen}"
    );
    seen
}

#[test]
fn group_commit_of_the_binary_log_is_decomposed() {
    let _turn = turn();
    for flavour in flavours() {
        let spec = SandboxSpec::new(flavour)
            .set("log-bin", "b")
            .set("server-id", "7");
        let server = Sandbox::start(&spec.set("sync-binlog", "1")).expect("a server");
        prepare(&server);
        let tracing = Tracing::start_of(server.pid(), &["binlog", "--slowest", "1000"]);
        write(&server);
        let (code, report) = tracing.interrupt();
        assert_eq!(code, Some(0), "{flavour}: {report:#}");
        let seen = checked(&format!("{flavour} binlog"), &report);
        assert_eq!(seen, (WRITERS * COMMITS) as u64, "{flavour}");
        // Whoever leads does the work for the others.
        let waits = array(&report, "slowest").iter();
        let synced = array(&report, "stages")
            .iter()
            .position(|s| s["name"] == "synced");
        let synced = synced.expect("the stage");
        let led = waits.filter(|wait| {
            let by = &array(wait, "stages")[synced]["tid"];
            !by.is_null() && *by != wait["tid"]
        });
        assert!(led.count() > 0, "{flavour}: nobody followed");
        let roles = array(&report, "by_role");
        assert_eq!(roles[0]["name"], "user connection", "{flavour}: {roles:?}");
    }
}

#[test]
fn a_replica_s_workers_wait_for_their_turn() {
    if !can_watch(Flavour::MySql) {
        return;
    }
    let _turn = turn();
    let spec = |id: &str| {
        let spec = SandboxSpec::new(Flavour::MySql).set("server-id", id);
        spec.set("log-bin", "b")
    };
    let primary = Sandbox::start(&spec("1").tcp()).expect("a primary");
    let workers = spec("2").set("replica-parallel-workers", "4");
    let replica = Sandbox::start(&workers.set("replica-preserve-commit-order", "ON"));
    let replica = replica.expect("a replica");
    let source = format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {}, \
         SOURCE_USER = 'root', SOURCE_PASSWORD = '{}', GET_SOURCE_PUBLIC_KEY = 1",
        primary.port().expect("it has TCP"),
        primary.password().expose()
    );
    let mut eye = connect(&replica);
    run(&mut eye, &[&source, "START REPLICA IO_THREAD"]);
    prepare(&primary);
    write(&primary);
    let tracing = Tracing::start_of(replica.pid(), &["replica", "--slowest", "1000"]);
    run(&mut eye, &["START REPLICA SQL_THREAD"]);
    wait_until("the replica has applied everything", || {
        let rows = eye.query_rows(b"SELECT COUNT(*) FROM trace.t");
        rows.is_ok_and(|rows| {
            let count = rows[0][0].clone().unwrap_or_default();
            count == (WRITERS * COMMITS).to_string().into_bytes()
        })
    });
    run(&mut eye, &["STOP REPLICA"]);
    let (code, report) = tracing.interrupt();
    assert_eq!(code, Some(0), "{report:#}");
    let seen = checked("replica", &report);
    assert!(seen >= (WRITERS * COMMITS) as u64, "{seen}");
    let roles = array(&report, "by_role");
    assert_eq!(roles[0]["name"], "replica worker", "{roles:?}");
    let released = array(&report, "stages")
        .iter()
        .find(|s| s["name"] == "released");
    let released = released.expect("the stage");
    assert!(
        number(released, "skipped") < number(&report, "decomposed"),
        "{released}"
    );
}
