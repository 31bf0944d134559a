//! What has to hold of a profile of several processes, whoever recorded it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;
use waggle_profile::model::{Filter, Kind, Profile};

/// Tells the fingerprints of the sessions' statements.
pub(super) const OF_SESSIONS: [&str; 2] = ["sha2", "reverse"];
/// Is in every fingerprint of the load.
const OF_LOAD: &str = "sbtest1";
pub(super) const KINDS: [Kind; 3] = [Kind::OnCpu, Kind::OffCpu, Kind::Runnable];

/// What of a process.
fn of_process(profile: &Profile, process: &str) -> Profile {
    profile.filter(&Filter {
        process: Some(process.to_owned()),
        ..Filter::default()
    })
}

pub(super) fn samples(profile: &Profile, kind: Kind) -> u64 {
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
pub(super) fn check_processes(profile: &Profile, pids: [u32; 3]) {
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
pub(super) fn check_statements(profile: &Profile, [first, second, load]: [u32; 3]) {
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
pub(super) fn check_threads(run: &Path, owners: &BTreeMap<u32, u32>, all: u64) {
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
pub(super) fn check_files(run: &Path, document: &Value, profile: &Profile) {
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
