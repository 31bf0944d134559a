//! Two servers and a load generator in one profile: whose time was it?

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;
use waggle_profile::model::{Filter, Kind, Profile};
use waggle_profile::{Recorder, RecorderOptions};
use waggle_server::Flavour;
use waggle_server::install::installed_servers;
use waggle_server::sandbox::Sandbox;

use super::{can_run, run_of};
use crate::need::need;
use crate::trace::ends::Held;
use crate::watch::stage::{Running, connect, run, server, turn, waggle, wait_with};

/// What the second server's two sessions run, one each.
const STATEMENTS: [&str; 2] = [
    "SELECT BENCHMARK(20000, SHA2('a', 256))",
    "SELECT BENCHMARK(20000, REVERSE(REPEAT('b', 64)))",
];
/// Tells the fingerprints of these.
const OF_SESSIONS: [&str; 2] = ["sha2", "reverse"];
/// Is in every fingerprint of the load.
const OF_LOAD: &str = "sbtest1";
const KINDS: [Kind; 3] = [Kind::OnCpu, Kind::OffCpu, Kind::Runnable];

/// Sessions that run one statement all the time, until they are dropped.
struct Sessions {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Sessions {
    fn start(server: &Sandbox) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let threads = STATEMENTS.map(|sql| {
            let mut connection = connect(server);
            let over = Arc::clone(&over);
            thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    run(&mut connection, &[sql]);
                }
            })
        });
        Self {
            over,
            threads: Vec::from(threads),
        }
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A server under `waggle bench`, and another with [`Sessions`]; of both families, if both are
/// installed.
struct Bed {
    sessions: Sessions,
    load: Running,
    servers: [Sandbox; 2],
}

impl Bed {
    fn start() -> Option<Self> {
        let installed = installed_servers();
        let has = |flavour: Flavour| installed.iter().any(|server| server.flavour == flavour);
        let flavours = match (has(Flavour::MariaDb), has(Flavour::MySql)) {
            (true, true) => [Flavour::MariaDb, Flavour::MySql],
            (false, true) => [Flavour::MySql; 2],
            (mariadb, false) => {
                if !need("mariadb", mariadb, "no server is installed") {
                    return None;
                }
                [Flavour::MariaDb; 2]
            }
        };
        let servers = flavours.map(server);
        let load = load(&servers[0]);
        Some(Self {
            sessions: Sessions::start(&servers[1]),
            load,
            servers,
        })
    }

    /// The first server, the second, the load generator.
    fn pids(&self) -> [u32; 3] {
        let [first, second] = &self.servers;
        [first.pid(), second.pid(), self.load.pid()]
    }

    /// Ends all of it; the servers still answer.
    fn end(self) {
        let Self {
            sessions,
            load,
            servers,
        } = self;
        assert_eq!(sessions.threads.len(), 2);
        let ended = |thread: &JoinHandle<()>| thread.is_finished();
        assert!(!sessions.threads.iter().any(ended), "a session broke off");
        drop(sessions);
        drop(load);
        for server in servers {
            run(&mut connect(&server), &["SELECT 1"]);
            let socket = server.socket().to_path_buf();
            server.stop().expect("an orderly end");
            assert!(!socket.exists(), "{}", socket.display());
        }
    }
}

/// `waggle bench` of this server, under way.
fn load(server: &Sandbox) -> Running {
    let dsn = format!("mysql://root@/sbtest?socket={}", server.socket().display());
    let common = [
        "--dsn",
        &dsn,
        "--tables",
        "1",
        "--table-size",
        "1000",
        "--no-record",
    ];
    let prepare = [&["bench", "oltp_point_select", "prepare"][..], &common[..]].concat();
    let prepared = waggle(&prepare).output().expect("the program starts");
    let said = String::from_utf8_lossy(&prepared.stderr);
    assert_eq!(prepared.status.code(), Some(0), "{said}");
    let flags = ["--threads", "2", "--rate", "1000", "--time", "600"];
    let arguments = [&["bench", "oltp_point_select"][..], &common[..], &flags[..]].concat();
    let load = Running::start(&mut waggle(&arguments));
    let mut connection = connect(server);
    let mut questions = || -> u64 {
        let sql = b"SHOW GLOBAL STATUS LIKE 'Questions'";
        let rows = connection.query_rows(sql).expect("a counter");
        let value = rows[0][1].as_deref().expect("a value");
        let text = std::str::from_utf8(value).expect("text");
        text.parse().expect("a number")
    };
    let before = questions();
    wait_with(Duration::from_millis(50), "the load is under way", || {
        questions() > before + 500
    });
    load
}

/// The threads that a process has, and whose they are.
fn threads_of(pids: &[u32]) -> BTreeMap<u32, u32> {
    let mut threads = BTreeMap::new();
    for pid in pids {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
        for task in tasks.flatten() {
            let name = task.file_name();
            let tid = name.to_str().and_then(|name| name.parse().ok());
            threads.insert(tid.expect("a number"), *pid);
        }
    }
    threads
}

/// What of a process.
fn of_process(profile: &Profile, process: &str) -> Profile {
    profile.filter(&Filter {
        process: Some(process.to_owned()),
        ..Filter::default()
    })
}

fn samples(profile: &Profile, kind: Kind) -> u64 {
    let entries = profile.entries.iter().filter(|entry| entry.kind == kind);
    entries.map(|entry| entry.samples).sum()
}

/// CPU time by statement of the process with this pid, ns.
fn statements(profile: &Profile, pid: u32) -> BTreeMap<String, u64> {
    let mut times: BTreeMap<String, u64> = BTreeMap::new();
    for entry in profile.entries.iter().filter(|e| e.kind == Kind::OnCpu) {
        let who = profile.who(entry.who);
        let Some(digest) = who.digest.as_ref().filter(|_| who.pid == pid) else {
            continue;
        };
        let known = profile.digests.iter().find(|known| known.digest == *digest);
        let name = known.map_or(&**digest, |known| &*known.fingerprint);
        *times.entry(name.to_lowercase()).or_default() += entry.ns;
    }
    times
}

fn time_of(times: &BTreeMap<String, u64>, part: &str) -> u64 {
    let found = times.iter().filter(|(name, _)| name.contains(part));
    found.map(|(_, ns)| ns).sum()
}

/// Each process has its own time, near to what the kernel accounts for, and together they have all.
fn check_processes(profile: &Profile, pids: [u32; 3]) {
    let known: BTreeSet<u32> = profile.processes.iter().map(|p| p.pid).collect();
    assert_eq!(known, BTreeSet::from(pids));
    let mut sums = [(0, 0); 3];
    for process in &profile.processes {
        let name = &*process.process;
        assert!(name.ends_with(&format!(" {}", process.pid)), "{name}");
        assert!(process.start_ns.is_some(), "{name}");
        let own = of_process(profile, name);
        for (sum, kind) in sums.iter_mut().zip(KINDS) {
            sum.0 += samples(&own, kind);
            sum.1 += own.total_ns(kind);
        }
        let (sampled_ns, cpu_ns) = (own.total_ns(Kind::OnCpu), process.cpu_ns);
        let cpu_ns = cpu_ns.expect("it ran all the time");
        assert!(sampled_ns > 0, "{name} was not sampled");
        let near_ns = cpu_ns / 4 + 150_000_000;
        assert!(
            sampled_ns.abs_diff(cpu_ns) < near_ns,
            "{name}: {sampled_ns} ns sampled, {cpu_ns} ns by the kernel's account"
        );
    }
    let whole = KINDS.map(|kind| (samples(profile, kind), profile.total_ns(kind)));
    assert_eq!(sums, whole);
    for who in &profile.whos {
        let process = profile.processes.iter().find(|p| p.pid == who.pid);
        let process = process.unwrap_or_else(|| panic!("{who:?}"));
        let whose = (&process.process, process.start_ns);
        assert_eq!((&who.process, who.start_ns), whose);
    }
}

/// A statement is in the server that ran it, and in no other process.
fn check_statements(profile: &Profile, [first, second, load]: [u32; 3]) {
    let [first, second] = [first, second].map(|pid| statements(profile, pid));
    assert!(time_of(&first, OF_LOAD) > 0, "{first:?}");
    assert_eq!(time_of(&second, OF_LOAD), 0, "{second:?}");
    for part in OF_SESSIONS {
        assert!(time_of(&second, part) > 0, "{second:?}");
        assert_eq!(time_of(&first, part), 0, "{first:?}");
    }
    let of_load = profile.whos.iter().filter(|who| who.pid == load);
    for who in of_load {
        assert_eq!(who.digest, None, "{who:?}");
    }
}

/// In the file with the time line, each thread is once, in its own process, and all samples are.
fn check_threads(run: &Path, owners: &BTreeMap<u32, u32>, all: u64) {
    let json = fs::read(run.join("profile.firefox.json")).expect("a file");
    let json: Value = serde_json::from_slice(&json).expect("JSON");
    let mut seen: BTreeMap<u32, u32> = BTreeMap::new();
    let mut samples = 0;
    for thread in json["threads"].as_array().expect("threads") {
        let name = thread["name"].as_str().expect("a name");
        let tid = name
            .rsplit_once('(')
            .and_then(|(_, tid)| tid.strip_suffix(')'));
        let tid: u32 = tid.and_then(|tid| tid.parse().ok()).expect(name);
        let pid: u32 = thread["pid"].as_str().expect("a pid").parse().expect(name);
        assert_eq!(seen.insert(tid, pid), None, "{name} is there twice");
        samples += thread["samples"]["length"].as_u64().expect("a length");
    }
    assert_eq!(samples, all);
    let known = seen.iter().filter(|(tid, _)| owners.contains_key(*tid));
    for (tid, pid) in known.clone() {
        assert_eq!(owners[tid], *pid, "thread {tid}");
    }
    assert!(known.count() > 4, "{seen:?} of {owners:?}");
}

/// The document and the files say the same as the profile.
fn check_files(run: &Path, document: &Value, profile: &Profile) {
    for kind in KINDS {
        let own = &document["times"][kind.name()];
        assert_eq!(own["samples"], samples(profile, kind), "{document:#}");
        let file = run.join(format!("{}.folded", kind.name()));
        let text = fs::read_to_string(&file).unwrap_or_default();
        let weights = text.lines().map(|line| {
            let weight = line
                .rsplit_once(' ')
                .map(|(_, weight)| weight.parse::<u64>());
            weight.expect("a weight").expect("a number")
        });
        assert_eq!(weights.sum::<u64>(), profile.total_ns(kind), "{kind:?}");
    }
    let of_kind = |process: &Value| process["sampled_cpu_s"].as_f64().expect("a time");
    let processes = document["processes"].as_array().expect("processes");
    let sum_s: f64 = processes.iter().map(of_kind).sum();
    let all_s = document["times"]["on-cpu"]["s"].as_f64().expect("a time");
    assert!((sum_s - all_s).abs() < 1e-6, "{sum_s} of {all_s} s");
}

/// `waggle profile` of all three, by statement.
fn by_statement(bed: &Bed) {
    let root = tempfile::tempdir().expect("a folder");
    let pids = bed.pids();
    let numbers = pids.map(|pid| pid.to_string());
    let [first, second, load] = &numbers;
    let mut profiling = waggle(&["profile", "--json", "--hz", "499", "--seconds", "5"]);
    profiling
        .args(["--off-cpu", "--by", "digest", "--format", "folded,firefox"])
        .args(["--pid", first, "--pid", second, "--pid", load, "--out"])
        .arg(root.path());
    let mut owners = threads_of(&pids);
    let running = Running::start(&mut profiling);
    running.line("profiling ");
    let mut held = Held::default();
    held.add(running.pid());
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    owners.extend(threads_of(&pids));
    held.assert_gone();
    let document: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    let run = run_of(root.path());
    let json = fs::read(run.join("profile.json")).expect("a profile");
    let profile = Profile::from_json(&json).expect("a profile");
    check_processes(&profile, pids);
    check_statements(&profile, pids);
    check_files(&run, &document, &profile);
    let all: u64 = KINDS.map(|kind| samples(&profile, kind)).iter().sum();
    check_threads(&run, &owners, all);
    let runs = fs::read_dir(root.path()).expect("the folder").count();
    assert_eq!(runs, 1);
}

/// The recorder, by thread and by statement.
fn by_thread(bed: &Bed) {
    let [_, second, load] = bed.pids();
    let recorder = Recorder::start(RecorderOptions {
        pids: bed.pids().to_vec(),
        frequency_hz: 499,
        by_digest: true,
        by_thread: true,
        ..RecorderOptions::default()
    });
    let recorder = recorder.expect("it can be recorded");
    // sleep: what is recorded is time.
    thread::sleep(Duration::from_secs(3));
    let profile = recorder.stop().expect("a profile");
    check_processes(&profile, bed.pids());
    check_statements(&profile, bed.pids());
    let mut owners: BTreeMap<&str, u32> = BTreeMap::new();
    let mut threads: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for who in &profile.whos {
        let thread = who.thread.as_deref().expect("a thread");
        assert_eq!(
            *owners.entry(thread).or_insert(who.pid),
            who.pid,
            "{thread}"
        );
        let digest = who.digest.as_ref().filter(|_| who.pid == second);
        let known = digest.and_then(|d| profile.digests.iter().find(|k| k.digest == *d));
        let fingerprint = known.map_or("", |known| &*known.fingerprint);
        let of_session = |part: &&str| fingerprint.to_lowercase().contains(*part);
        if let Some(part) = OF_SESSIONS.into_iter().find(of_session) {
            threads.entry(thread).or_default().insert(part);
        }
    }
    assert_eq!(
        threads.len(),
        OF_SESSIONS.len(),
        "a thread each: {threads:?}"
    );
    let each_one = threads.values().all(|parts| parts.len() == 1);
    assert!(each_one, "a thread ran another's statement: {threads:?}");
    let of_load = owners.iter().filter(|(_, pid)| **pid == load);
    let workers = of_load.filter(|(name, _)| name.starts_with("waggle-load-"));
    assert!(workers.count() > 0, "{owners:?}");
}

/// `waggle profile --all`: servers, and nothing else.
fn of_all(bed: &Bed) {
    let root = tempfile::tempdir().expect("a folder");
    let [first, second, load] = bed.pids();
    let mut profiling = waggle(&["profile", "--all", "--json", "--seconds", "2"]);
    profiling
        .args(["--by", "process", "--out"])
        .arg(root.path());
    let ended = Running::start(&mut profiling).end();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let document: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    let processes = document["processes"].as_array().expect("processes");
    let pids: BTreeSet<u64> = processes.iter().filter_map(|p| p["pid"].as_u64()).collect();
    // Servers of other tests may be among them.
    for server in [first, second] {
        assert!(pids.contains(&u64::from(server)), "{server}: {pids:?}");
    }
    assert!(!pids.contains(&u64::from(load)), "the load is no server");
}

#[test]
fn two_servers_and_a_load_are_told_apart_and_nothing_is_left_behind() {
    if !can_run() {
        return;
    }
    let _turn = turn();
    let Some(bed) = Bed::start() else { return };
    by_statement(&bed);
    by_thread(&bed);
    of_all(&bed);
    bed.end();
}
