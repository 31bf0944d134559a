//! Waits of real servers under a load of commits: are stacks whole, requests as many as
//! statements, and paths exact?

mod server;

use std::thread;
use std::time::Duration;

use waggle_need::had;
use waggle_probes::clock::now_ns;
use waggle_probes::timeline::Options;
use waggle_server::Flavour;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_trace::waits::source::Source;
use waggle_trace::waits::{Limits, Waits, graph};
use waggle_wire::Connection;

use server::server;

const CLIENTS: u64 = 4;
const STATEMENTS: u64 = 200;

fn connect(server: &Sandbox) -> Connection {
    Connection::connect(&server.dsn_socket()).expect("a connection")
}

fn load(server: &Sandbox) {
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            scope.spawn(move || {
                let mut connection = connect(server);
                for n in 0..STATEMENTS {
                    let sql = format!("INSERT INTO waits.t VALUES ({})", client * 10_000 + n);
                    connection.query(sql.as_bytes()).expect("an insert");
                }
            });
        }
    });
}

fn program(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).expect("its name");
    name.trim().to_owned()
}

/// The waits of the server while it inserts.
fn traced(server: &Sandbox) -> Option<(Source, Waits)> {
    let name = program(server.pid());
    let attached = Source::attach(server.pid(), &name, &Options::default());
    let mut source = had("bpf", attached)?;
    let mut waits = Waits::new(&name, Limits::default());
    thread::scope(|scope| {
        let working = scope.spawn(|| load(server));
        while !working.is_finished() {
            source.poll(now_ns(), &mut waits);
            // sleep: the ring is read at intervals, as the verb does.
            thread::sleep(Duration::from_millis(20));
        }
    });
    let runs = source.finish(&mut waits);
    println!("{:?}\n{runs:?}", source.counters());
    Some((source, waits))
}

fn check(flavour: Flavour) {
    let Some(server) = server(&SandboxSpec::new(flavour)) else {
        return;
    };
    let mut admin = connect(&server);
    for sql in [
        "CREATE DATABASE waits",
        "CREATE TABLE waits.t (id INT PRIMARY KEY) ENGINE=InnoDB",
    ] {
        admin.query(sql.as_bytes()).expect(sql);
    }
    let Some((mut source, waits)) = traced(&server) else {
        return;
    };
    let counted = source.counters();
    assert_eq!((counted.lost, waits.flagged()), (0, 0));
    let requests = waits.requests();
    println!(
        "{flavour}: {} requests, {:?}, {} unannounced, {} late, by frame pointers {:?}",
        requests.histogram().len(),
        requests.split(),
        waits.unannounced(),
        source.late(),
        source.by_frame_pointers(),
    );
    // Some answer before the client's next statement is there, and never wait for it.
    assert!(!requests.histogram().is_empty());
    assert_eq!(requests.slowest().len(), Limits::default().slowest);
    for request in requests.slowest() {
        let path = request.path.iter().map(|s| s.to_ns - s.from_ns);
        assert_eq!(path.sum::<u64>(), request.ns());
    }
    for (edge, (all, _)) in graph::edges(&waits) {
        println!("  {} <- {}: {all:?}", edge.waiter, edge.ender);
    }
    let mut commits = 0;
    let (stacks, names) = source.stacks();
    for (key, tally) in waits.sums().filter(|(key, _)| key.in_request) {
        let Some(id) = key.stack else { continue };
        let calls = names.of_stack(stacks, id);
        // Commits are below the command's dispatch, and above the C library.
        if calls.iter().any(|call| call.contains("dispatch_command")) {
            commits += tally.count;
        }
        println!("  {} {:?}: {}", tally.count, key.kind, calls.join(" < "));
    }
    assert!(commits > 0, "no wait within a statement has a whole stack");
    assert!(
        counted.cut * 50 <= counted.stacks,
        "more than 2% of the stacks are not whole: {counted:?}"
    );
    server.stop().expect("the server ends");
}

#[test]
fn waits_of_mysql_are_whole() {
    check(Flavour::MySql);
}

#[test]
fn waits_of_mariadb_are_whole() {
    check(Flavour::MariaDb);
}
