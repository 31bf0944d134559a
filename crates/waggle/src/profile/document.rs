//! The one JSON document of a profile, and what the terminal says beside its tables.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use waggle_profile::model::{Filter, Kind, Profile};

const KINDS: [Kind; 3] = [Kind::OnCpu, Kind::OffCpu, Kind::Runnable];

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// The document.
pub(super) fn of(profile: &Profile, files: &[String], run: &Path) -> Value {
    let times: BTreeMap<&str, Value> = KINDS
        .into_iter()
        .map(|kind| {
            let entries = profile.entries.iter().filter(|e| e.kind == kind);
            let samples: u64 = entries.map(|entry| entry.samples).sum();
            let s = seconds(profile.total_ns(kind));
            (kind.name(), json!({ "samples": samples, "s": s }))
        })
        .collect();
    let processes = profile.processes.iter().map(|process| {
        json!({
            "process": process.process,
            "pid": process.pid,
            "sampled_cpu_s": seconds(sampled(profile, Filter {
                process: Some(process.process.to_string()),
                ..Filter::default()
            })),
            "cpu_s": process.cpu_ns.map(seconds),
        })
    });
    let digests = profile.digests.iter().map(|digest| {
        json!({
            "digest": digest.digest,
            "fingerprint": digest.fingerprint,
            "statements": digest.statements,
            "sampled_cpu_s": seconds(sampled(profile, Filter {
                digest: Some(digest.digest.to_string()),
                ..Filter::default()
            })),
            "cpu_s": seconds(digest.cpu_ns),
        })
    });
    json!({
        "duration_s": seconds(profile.duration_ns),
        "frequency_hz": profile.frequency_hz,
        "times": times,
        "roles": roles(profile),
        "processes": processes.collect::<Vec<_>>(),
        "digests": digests.collect::<Vec<_>>(),
        "lost": profile.lost,
        "notes": profile.notes,
        "files": files,
        "run": run,
    })
}

/// CPU time of a part of the profile, ns.
fn sampled(profile: &Profile, filter: Filter) -> u64 {
    profile.filter(&filter).total_ns(Kind::OnCpu)
}

fn roles(profile: &Profile) -> BTreeMap<&str, BTreeMap<&str, f64>> {
    let mut roles: BTreeMap<&str, BTreeMap<&str, f64>> = BTreeMap::new();
    for entry in &profile.entries {
        let role = roles.entry(&profile.who(entry.who).role).or_default();
        *role.entry(entry.kind.name()).or_default() += seconds(entry.ns);
    }
    roles
}

/// Whether the samples stand for the time that the kernel accounts for, a line a process.
pub(super) fn accounts(profile: &Profile) -> String {
    let mut text = String::new();
    for process in &profile.processes {
        let filter = Filter {
            process: Some(process.process.to_string()),
            ..Filter::default()
        };
        let sampled_s = seconds(sampled(profile, filter));
        let line = match process.cpu_ns {
            Some(ns) => format!(
                "{}: samples stand for {sampled_s:.2} s of CPU time, the kernel accounts for \
                 {:.2} s\n",
                process.process,
                seconds(ns)
            ),
            None => format!(
                "{}: samples stand for {sampled_s:.2} s of CPU time; it ended meanwhile\n",
                process.process
            ),
        };
        text.push_str(&line);
    }
    for note in &profile.notes {
        text.push_str(note);
        text.push('\n');
    }
    text
}

/// Which check did not hold: more than 1% was lost.
pub(super) fn failure(profile: &Profile) -> Option<String> {
    let taken: u64 = profile.entries.iter().map(|entry| entry.samples).sum();
    let lost = profile.lost.samples;
    (lost * 100 > taken + lost).then(|| {
        format!(
            "{lost} samples and records of waits were lost, {taken} arrived; use a larger \
             --ring-kib, a lower --hz, or no --off-cpu"
        )
    })
}
