//! Two servers and a load generator in one profile: whose time was it?
//!
//! [`bed`] has the three of them, [`checks`] what has to hold of a profile.

mod bed;
mod checks;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use waggle_need::can_probe;
use waggle_profile::model::Profile;
use waggle_profile::{Recorder, RecorderOptions};

use super::run_of;
use crate::trace::ends::Held;
use crate::watch::stage::{Running, turn, waggle};
use bed::Bed;
use checks::{
    KINDS, OF_SESSIONS, check_files, check_processes, check_statements, check_threads, samples,
};

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
    if !can_probe() {
        return;
    }
    let _turn = turn();
    let Some(bed) = Bed::start() else { return };
    by_statement(&bed);
    by_thread(&bed);
    of_all(&bed);
    bed.end();
}
