//! Real servers: whose statement was it, and do the samples agree with the agent's own account of
//! each statement's CPU time?

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use waggle_need::{can_probe, need};
use waggle_profile::model::{BETWEEN, Filter, Kind, Profile, UNFINISHED};
use waggle_profile::{Recorder, RecorderOptions};
use waggle_server::Flavour;
use waggle_server::cpu::process_cpu_ns;
use waggle_server::install::installed_servers;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_wire::{Connection, Dsn};

/// CPU time of the server that is recorded, ns.
const CPU_NS: u64 = 8_000_000_000;
/// At most for so long.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the sessions run all the time.
const STATEMENTS: [&str; 3] = [
    "SELECT BENCHMARK(6000, SHA2('a', 256))",
    "SELECT COUNT(*) FROM profile.t a JOIN profile.t b ON a.v < b.v",
    "SELECT v FROM profile.t WHERE id = 7",
];
/// What goes on when the recording ends.
const LONG: &str = "SELECT BENCHMARK(2000000000, SHA2('b', 256))";

fn server(flavour: Flavour) -> Option<Sandbox> {
    let is_installed = installed_servers().iter().any(|s| s.flavour == flavour);
    if !can_probe() || !need(flavour.name(), is_installed, "not installed") {
        return None;
    }
    let server = Sandbox::start(&SandboxSpec::new(flavour)).expect("a server");
    let mut connection = Connection::connect(&server.dsn_socket()).expect("a connection");
    let mut run = |sql: &str| _ = connection.query(sql.as_bytes()).expect(sql);
    run("CREATE DATABASE profile");
    run("CREATE TABLE profile.t (id INT PRIMARY KEY, v INT)");
    let rows: Vec<String> = (0..150).map(|n| format!("({n},{})", n % 50)).collect();
    run(&format!("INSERT INTO profile.t VALUES {}", rows.join(",")));
    Some(server)
}

/// Ends the sessions' work, also when what goes on beside it panics.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn work(dsn: &Dsn, over: &AtomicBool) {
    let mut connection = Connection::connect(dsn).expect("a connection");
    while !over.load(Ordering::Relaxed) {
        for sql in STATEMENTS {
            connection.query_rows(sql.as_bytes()).expect(sql);
        }
    }
}

/// A statement that outlives the recording; it is killed in the end.
fn go_on(dsn: &Dsn) -> (u32, thread::JoinHandle<()>) {
    let mut connection = Connection::connect(dsn).expect("a connection");
    let id = connection.connection_id();
    let going = thread::spawn(move || drop(connection.query_rows(LONG.as_bytes())));
    (id, going)
}

fn recorded(server: &Sandbox) -> Profile {
    let over = AtomicBool::new(false);
    let dsn = server.dsn_socket();
    thread::scope(|scope| {
        let working = Over(&over);
        for _ in 0..2 {
            scope.spawn(|| work(&dsn, &over));
        }
        let recorder = Recorder::start(RecorderOptions {
            pids: vec![server.pid()],
            frequency_hz: 1997,
            off_cpu: true,
            by_digest: true,
            ..RecorderOptions::default()
        });
        let recorder = recorder.expect("it can be recorded");
        let (id, going) = go_on(&dsn);
        let cpu_ns = || process_cpu_ns(server.pid()).expect("it runs");
        let (began, began_ns) = (Instant::now(), cpu_ns());
        while cpu_ns() - began_ns < CPU_NS {
            assert!(began.elapsed() < PATIENCE, "the server did too little");
            // sleep: what it waits for is CPU time.
            thread::sleep(Duration::from_millis(50));
        }
        let profile = recorder.stop().expect("a profile");
        drop(working);
        let mut killer = Connection::connect(&dsn).expect("a connection");
        killer.query(format!("KILL {id}").as_bytes()).expect("KILL");
        going.join().expect("it ended");
        profile
    })
}

fn of_digest(profile: &Profile, digest: &str) -> u64 {
    let filter = Filter {
        digest: Some(digest.to_owned()),
        ..Filter::default()
    };
    profile.filter(&filter).total_ns(Kind::OnCpu)
}

fn check(flavour: Flavour) {
    let Some(server) = server(flavour) else {
        return;
    };
    let profile = recorded(&server);
    println!("{:?}\n{:?}", profile.lost, profile.notes);
    println!("{:?}", profile.processes);
    let digests: Vec<_> = profile
        .digests
        .iter()
        .filter(|d| d.statements > 20)
        .collect();
    assert_eq!(digests.len(), STATEMENTS.len(), "{:#?}", profile.digests);
    let seen: Vec<u64> = digests
        .iter()
        .map(|d| of_digest(&profile, &d.digest))
        .collect();
    let (all_seen, all) = (
        seen.iter().sum::<u64>() as f64,
        digests.iter().map(|d| d.cpu_ns).sum::<u64>() as f64,
    );
    for (digest, seen) in digests.iter().zip(&seen) {
        let (seen, truth) = (*seen as f64 / all_seen, digest.cpu_ns as f64 / all);
        let (name, count) = (&digest.fingerprint, digest.statements);
        println!(
            "{:.2}% seen, {:.2}% accounted: {count} x {name}",
            100.0 * seen,
            100.0 * truth
        );
        assert!(
            (seen - truth).abs() < 0.03,
            "{name}: {seen} seen, {truth} accounted"
        );
    }
    let whole = all_seen / all;
    println!("{:.2}% of the accounted time was sampled", 100.0 * whole);
    assert!((whole - 1.0).abs() < 0.1, "{all_seen} of {all} ns");
    // One that goes on is said to.
    let unfinished = of_digest(&profile, UNFINISHED);
    println!(
        "{unfinished} ns unfinished, {} ns between",
        of_digest(&profile, BETWEEN)
    );
    assert!(
        unfinished > CPU_NS / 10,
        "{unfinished} ns of a statement that went on"
    );
    check_stacks(&profile);
    drop(server);
}

fn check_stacks(profile: &Profile) {
    let samples: u64 = profile.entries.iter().map(|e| e.samples).sum();
    let cut = profile.lost.truncated;
    assert!(cut * 50 <= samples, "{cut} of {samples} stacks are cut");
    assert_eq!(profile.lost.samples, 0);
    let mut roles: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for entry in &profile.entries {
        let role = roles.entry(&profile.who(entry.who).role).or_default();
        match entry.kind {
            Kind::OnCpu => role.0 += entry.ns,
            _ => role.1 += entry.ns,
        }
    }
    println!("on and off CPU, ns: {roles:#?}");
    let (on, _) = roles.get("user thread").copied().unwrap_or_default();
    assert!(on * 10 > profile.total_ns(Kind::OnCpu) * 8, "{roles:?}");
}

#[test]
fn samples_agree_with_the_account_of_statements_on_mysql() {
    check(Flavour::MySql);
}

#[test]
fn samples_agree_with_the_account_of_statements_on_mariadb() {
    check(Flavour::MariaDb);
}
