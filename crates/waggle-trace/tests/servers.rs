//! The built-in pipelines on stock servers: every commit's wait is seen with the value it waits
//! for, and each stage's progress reaches it.

mod server;

use std::collections::BTreeMap;
use std::thread;

use waggle_probes::point::TrapCost;
use waggle_server::Flavour;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_trace::resolve::{Plan, Role, Target};
use waggle_trace::source::{Source, SourceOptions};
use waggle_trace::{Departure, Event, What};
use waggle_wire::{Connection, Dsn};

use server::server;

const SESSIONS: u64 = 4;
const COMMITS: u64 = 40;

fn run(connection: &mut Connection, sql: &str) {
    let result = connection.query(sql.as_bytes());
    result.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// A number of `SHOW GLOBAL STATUS`.
fn status(server: &Sandbox, name: &str) -> u64 {
    let mut connection = Connection::connect(&server.dsn_socket()).expect("a connection");
    let sql = format!("SHOW GLOBAL STATUS LIKE '{name}'");
    let rows = connection.query_rows(sql.as_bytes()).expect("a status");
    let value = rows[0][1].clone().expect("a value");
    let value = String::from_utf8(value).expect("a text");
    value.parse().expect("a number")
}

/// A probe at an instruction that is single-stepped costs twenty times more.
fn assert_emulated(plan: &Plan) {
    for spec in plan.points.iter().flat_map(|point| &point.specs) {
        assert_eq!(spec.trap(), Some(TrapCost::Emulated), "{spec:?}");
    }
}

fn prepare(server: &Sandbox) {
    let mut connection = Connection::connect(&server.dsn_socket()).expect("a connection");
    run(&mut connection, "CREATE DATABASE stage");
    let table = "CREATE TABLE stage.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE=InnoDB";
    run(&mut connection, table);
}

/// Each session inserts rows, a commit each.
fn commit(dsn: &Dsn) {
    thread::scope(|scope| {
        for _ in 0..SESSIONS {
            scope.spawn(|| {
                let mut connection = Connection::connect(dsn).expect("a connection");
                for value in 0..COMMITS {
                    let sql = format!("INSERT INTO stage.t (v) VALUES ({value})");
                    run(&mut connection, &sql);
                }
            });
        }
    });
}

/// Events of the points of `plan` while sessions commit.
fn traced(server: &Sandbox, plan: &Plan) -> (Vec<Event>, Source) {
    let options = SourceOptions {
        cost: true,
        ..SourceOptions::default()
    };
    let mut source = Source::attach(plan, &[server.pid()], options).expect("attached");
    assert_eq!(source.unattached(), []);
    commit(&server.dsn_socket());
    let mut events = Vec::new();
    source.poll(|event| events.push(event));
    source.drain(|event| events.push(event));
    assert_eq!(source.lost(), 0);
    assert!(events.is_sorted_by_key(|event| event.ns));
    (events, source)
}

/// Passings by role: time, value, second value.
fn by_role(plan: &Plan, events: &[Event]) -> BTreeMap<String, Vec<(u64, u64, u64)>> {
    let mut seen: BTreeMap<String, Vec<(u64, u64, u64)>> = BTreeMap::new();
    for event in events {
        if let What::Point {
            point,
            value,
            second,
            ..
        } = event.what
        {
            let role = format!("{:?}", plan.point(point).expect("a point").role);
            seen.entry(role)
                .or_default()
                .push((event.ns, value, second));
        }
    }
    seen
}

/// Two processors' order cannot be told within it.
const APART_NS: u64 = 1_000;

/// Every wait of the redo log is for a value that each stage reaches, before the wait is over if
/// the waiter slept in it. One that does not sleep sees the value as soon as it is stored, and may
/// be gone before the thread that stored it comes to the stage's place.
fn check_redo(plan: &Plan, events: &[Event]) {
    let mut begun: BTreeMap<u32, (u64, u64, bool)> = BTreeMap::new();
    let mut waits = Vec::new();
    for event in events {
        if let What::Left { why, .. } = event.what
            && let Some((.., slept)) = begun.get_mut(&event.thread.tid)
        {
            *slept |= why != Departure::Runnable;
        }
        let What::Point {
            point,
            value,
            second,
            ..
        } = event.what
        else {
            continue;
        };
        match plan.point(point).expect("a point").role {
            // What was reached before is no wait.
            Role::WaitStart if second >= value => drop(begun.remove(&event.thread.tid)),
            Role::WaitStart => drop(begun.insert(event.thread.tid, (event.ns, value, false))),
            Role::WaitEnd => {
                let wait = begun.remove(&event.thread.tid);
                waits.extend(wait.map(|(start, key, slept)| (start, event.ns, key, slept)));
            }
            _ => {}
        }
    }
    let seen = by_role(plan, events);
    let passed = seen["WaitStart"].len() as u64;
    assert!(passed >= SESSIONS * COMMITS, "{passed}");
    assert!(waits.len() as u64 >= COMMITS, "{}", waits.len());
    let sleeping = waits.iter().filter(|(.., slept)| *slept).count();
    println!("{passed} commits, {} waits, {sleeping} asleep", waits.len());
    assert!(sleeping > 0);
    for stage in 0..plan.stages.len() {
        let Some(progress) = seen.get(&format!("Stage({stage})")) else {
            continue;
        };
        assert!(
            progress.is_sorted_by_key(|(_, value, _)| *value),
            "stage {stage}: {progress:?}"
        );
        // What was written before the trace began is not known.
        let known_from = progress.first().map_or(u64::MAX, |(ns, ..)| *ns);
        for (_, end, key, slept) in waits.iter().filter(|(start, ..)| *start >= known_from) {
            let first = progress.iter().find(|(_, value, _)| value >= key);
            let (reached, ..) = first.expect("the stage reaches the wait's value");
            assert!(
                !slept || *reached <= end + APART_NS,
                "stage {stage} reached {key} after the wait for it"
            );
        }
    }
}

#[test]
fn mysqls_redo_log_is_followed_with_its_threads_and_without() {
    let spec = SandboxSpec::new(Flavour::MySql).set("innodb_log_writer_threads", "ON");
    let Some(server) = server(&spec) else {
        return;
    };
    prepare(&server);
    for (threads, name) in [("ON", "redo"), ("OFF", "redo-paused")] {
        let mut connection = Connection::connect(&server.dsn_socket()).expect("a connection");
        let sql = format!("SET GLOBAL innodb_log_writer_threads = {threads}");
        run(&mut connection, &sql);
        let target = Target::open(server.pid()).expect("a process");
        let pipeline = target.builtin("redo").expect("a pipeline");
        assert_eq!(pipeline.name, name);
        let plan = target.plan(&pipeline);
        assert_eq!(plan.refusals, [], "{threads}");
        assert_emulated(&plan);
        let before = status(&server, "Innodb_os_log_fsyncs");
        let (events, source) = traced(&server, &plan);
        check_redo(&plan, &events);
        let seen = by_role(&plan, &events);
        // The server's own figures: there are more only by those before and after the trace.
        let flushes = status(&server, "Innodb_os_log_fsyncs") - before;
        let found = seen["Stage(2)"].len() as u64;
        assert!(
            found <= flushes && flushes < 2 * found,
            "{flushes} flushes, {found} seen"
        );
        let last = seen["Stage(2)"].iter().map(|(_, value, _)| *value).max();
        let flushed = status(&server, "Innodb_redo_log_flushed_to_disk_lsn");
        assert!(
            last.is_some_and(|last| last <= flushed),
            "{last:?} {flushed}"
        );
        for role in ["Stage(0)", "Stage(1)", "Stage(2)", "StageBegin(2)"] {
            assert!(seen.contains_key(role), "{threads}: nobody passes {role}");
        }
        for (point, cost) in plan.points.iter().zip(source.cost().expect("costs")) {
            println!(
                "{name} {}: {} hits, {} ns",
                point.name, cost.hits, cost.run_ns
            );
        }
    }
}

#[test]
fn mariadbs_group_commit_is_followed() {
    let Some(server) = server(&SandboxSpec::new(Flavour::MariaDb)) else {
        return;
    };
    prepare(&server);
    let target = Target::open(server.pid()).expect("a process");
    let pipeline = target.builtin("redo").expect("a pipeline");
    assert_eq!(pipeline.name, "mariadb-redo");
    let plan = target.plan(&pipeline);
    assert_eq!(plan.refusals, []);
    assert_emulated(&plan);
    let (events, source) = traced(&server, &plan);
    check_redo(&plan, &events);
    is_told_what_is_not_its_own(&target);
    for (point, cost) in plan.points.iter().zip(source.cost().expect("costs")) {
        println!("{}: {} hits, {} ns", point.name, cost.hits, cost.run_ns);
    }
}

#[test]
fn the_binary_logs_group_commit_is_followed() {
    for (flavour, name) in [
        (Flavour::MySql, "binlog"),
        (Flavour::MariaDb, "mariadb-binlog"),
    ] {
        let spec = SandboxSpec::new(flavour)
            .set("log-bin", "b")
            .set("server-id", "7");
        let Some(server) = server(&spec.set("sync-binlog", "1")) else {
            continue;
        };
        prepare(&server);
        let target = Target::open(server.pid()).expect("a process");
        let pipeline = target.builtin("binlog").expect("a pipeline");
        assert_eq!(pipeline.name, name);
        let plan = target.plan(&pipeline);
        assert_eq!(plan.refusals, [], "{name}");
        assert_emulated(&plan);
        if flavour == Flavour::MySql {
            let replica = target.plan(&target.builtin("replica").expect("a pipeline"));
            assert_eq!(replica.refusals, []);
            assert_emulated(&replica);
        }
        let (events, source) = traced(&server, &plan);
        let seen = by_role(&plan, &events);
        for role in ["WaitStart", "WaitEnd"] {
            assert_eq!(
                seen[role].len() as u64,
                SESSIONS * COMMITS,
                "{name}: {role}"
            );
        }
        for point in &plan.points {
            let role = format!("{:?}", point.role);
            assert!(
                seen.contains_key(&role),
                "{name}: nobody passes {}",
                point.name
            );
        }
        for (point, cost) in plan.points.iter().zip(source.cost().expect("costs")) {
            println!(
                "{name} {}: {} hits, {} ns",
                point.name, cost.hits, cost.run_ns
            );
        }
    }
}

fn is_told_what_is_not_its_own(target: &Target) {
    assert!(
        target
            .builtin("nothing")
            .unwrap_err()
            .contains("no pipeline nothing")
    );
    let replica = target.plan(&target.builtin("replica").expect("a pipeline"));
    assert!(!replica.is_usable());
    assert!(
        replica.refusals[0].reason.contains("exports no function"),
        "{replica:?}"
    );
    let redo = waggle_trace::stagefile::builtin("redo").expect("a pipeline");
    let reason = target.unfit(&redo).expect("it is none for it");
    assert!(reason.contains("log_sys"), "{reason}");
}
