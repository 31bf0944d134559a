//! Waits of real servers under a load of commits: are stacks whole, requests as many as
//! statements, and paths exact?

use std::io::Write;
use std::thread;
use std::time::Duration;

use waggle_probes::timeline::Options;
use waggle_server::Flavour;
use waggle_server::install::installed_servers;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_trace::waits::source::Source;
use waggle_trace::waits::{Limits, Waits, graph};
use waggle_wire::Connection;

const CLIENTS: u64 = 4;
const STATEMENTS: u64 = 200;

/// The server; `None`, aloud, where there is none or it may not be traced.
fn server(flavour: Flavour) -> Option<Sandbox> {
    let installed = installed_servers();
    let found = installed.iter().any(|server| server.flavour == flavour);
    if !need(flavour.name(), found, "no such server is installed") {
        return None;
    }
    Some(Sandbox::start(&SandboxSpec::new(flavour)).expect("a throw-away server"))
}

fn need(name: &str, available: bool, why: &str) -> bool {
    let required = std::env::var("WAGGLE_REQUIRE").unwrap_or_default();
    let is_required = required.split(',').any(|need| need.trim() == name);
    assert!(available || !is_required, "{name} is required: {why}");
    if !available {
        // Past the capture of the test harness: a skip must be seen.
        let _ = writeln!(std::io::stderr(), "skipped: {name}: {why}");
    }
    available
}

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

fn now_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is writable, and the clock exists everywhere.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

fn program(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).expect("its name");
    name.trim().to_owned()
}

/// The waits of the server while it inserts.
fn traced(server: &Sandbox) -> Option<(Source, Waits)> {
    let name = program(server.pid());
    let attached = Source::attach(server.pid(), &name, &Options::default());
    let why = attached.as_ref().err().map(ToString::to_string);
    if !need("bpf", attached.is_ok(), &why.unwrap_or_default()) {
        return None;
    }
    let mut source = attached.expect("it was needed");
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
    let Some(server) = server(flavour) else {
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
