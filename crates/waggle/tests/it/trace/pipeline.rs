//! `waggle trace pipeline` against a program that logs its own truth, and against real servers.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;

use super::program::can_run;
use super::truth::{Target, TrueWait};
use crate::watch::stage::{Running, turn, waggle};

/// The stages by plain functions, for a program without static notes.
const FUNCTIONS: &str = r#"
[pipeline.functions]
about = "the stages of pipeline.c by its functions"

[pipeline.functions.wait]
start = "fn:wait_begins"
key = "arg1"
end = "fn:wait_ends"
stack = true

[[pipeline.functions.stage]]
name = "first"
at = "fn:stage_reached_1"
value = "arg1"

[[pipeline.functions.stage]]
name = "second"
at = "fn:stage_reached_2"
value = "arg1"

[[pipeline.functions.stage]]
name = "third"
at = "fn:stage_reached_3"
value = "arg1"
"#;

/// A trace of a target, attached.
pub(super) struct Tracing {
    running: Running,
    out: tempfile::TempDir,
}

impl Tracing {
    pub(super) fn start(target: &Target, options: &[&str]) -> Self {
        Self::start_of(target.pid(), options)
    }

    pub(super) fn start_of(pid: u32, options: &[&str]) -> Self {
        let out = tempfile::tempdir().expect("a folder");
        let pid = pid.to_string();
        let folder = out.path().to_str().expect("a path");
        let common = [
            "trace", "pipeline", "--json", "--pid", &pid, "--out", folder,
        ];
        let running = Running::start(&mut waggle(&[&common, options].concat()));
        running.line("tracing ");
        Self { running, out }
    }

    pub(super) fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// Where it keeps its run.
    pub(super) fn out(&self) -> &Path {
        self.out.path()
    }

    pub(super) fn signal(&self, signal: i32) {
        self.running.signal(signal);
    }

    /// Ends it as Ctrl-C does.
    pub(super) fn interrupt(self) -> (Option<i32>, Value) {
        self.running.signal(libc::SIGINT);
        self.end()
    }

    fn end(self) -> (Option<i32>, Value) {
        let ended = self.running.end();
        let report = serde_json::from_str(&ended.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", ended.stdout, ended.stderr));
        (ended.status.code(), report)
    }
}

pub(super) fn number(report: &Value, field: &str) -> u64 {
    let value = &report[field];
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{field} is {value}"))
}

pub(super) fn array<'a>(report: &'a Value, field: &str) -> &'a [Value] {
    report[field]
        .as_array()
        .unwrap_or_else(|| panic!("no {field}"))
}

/// Every sum of the report holds to the nanosecond.
pub(super) fn assert_sums(report: &Value) {
    let doing = |stage: &Value| -> u64 {
        let doing = &stage["doing"];
        let known = ["queued_ns", "on_cpu_ns", "runnable_ns", "unknown_ns"];
        let known: u64 = known.iter().map(|field| number(doing, field)).sum();
        let blocked = doing["blocked_ns"].as_object().expect("reasons");
        known
            + blocked
                .values()
                .map(|ns| ns.as_u64().expect("ns"))
                .sum::<u64>()
    };
    let stages = array(report, "stages");
    let sum: u64 = stages.iter().map(|stage| number(stage, "sum_ns")).sum();
    assert_eq!(sum, number(report, "wait_sum_ns"));
    for stage in stages {
        assert_eq!(doing(stage), number(stage, "sum_ns"), "{}", stage["name"]);
    }
    for groups in ["by_role", "by_thread"] {
        let all = array(report, groups);
        let sums: u64 = all.iter().map(|group| number(group, "sum_ns")).sum();
        let waits: u64 = all.iter().map(|group| number(group, "waits")).sum();
        assert_eq!(sums, sum, "{groups}");
        assert_eq!(waits, number(report, "decomposed"), "{groups}");
    }
    for wait in array(report, "slowest") {
        let parts = array(wait, "stages");
        let sum: u64 = parts.iter().map(|part| number(part, "ns")).sum();
        assert_eq!(sum, number(wait, "wait_ns"));
        assert!(parts.iter().all(|part| doing(part) == number(part, "ns")));
    }
    assert_eq!(number(report, "inexact"), 0);
    let parts = ["no_wait", "flagged", "decomposed"];
    let parts: u64 = parts.iter().map(|field| number(report, field)).sum();
    assert_eq!(parts, number(report, "seen"));
}

/// How far times are apart, ns.
#[derive(Default)]
struct Apart(Vec<u64>);

impl Apart {
    fn note(&mut self, ours: u64, theirs: u64) {
        self.0.push(ours.abs_diff(theirs));
    }

    fn words(mut self) -> String {
        self.0.sort_unstable();
        let at = |share: usize| {
            self.0
                .get((self.0.len() * share / 100).min(self.0.len().saturating_sub(1)))
        };
        let us = |ns: Option<&u64>| ns.map_or(0.0, |ns| *ns as f64 / 1e3);
        let max = us(self.0.last());
        let (p50, p99) = (us(at(50)), us(at(99)));
        format!(
            "p50 {p50:.2} us, p99 {p99:.2} us, max {max:.2} us, of {}",
            self.0.len()
        )
    }
}

/// Waits that the report has in full, against the truth; returns how many skips differ.
pub(super) fn compare(what: &str, report: &Value, truth: &[TrueWait]) -> u64 {
    // A thread's waits are told apart by their order; numbers of threads are used again.
    let mut ours: Vec<&Value> = array(report, "slowest").iter().collect();
    ours.sort_by_key(|wait| (number(wait, "start_ns"), number(wait, "tid")));
    let mut theirs: HashMap<(u32, u64), Vec<&TrueWait>> = HashMap::new();
    for wait in truth {
        if wait.is_no_wait && wait.is_certain() {
            continue;
        }
        theirs.entry((wait.tid, wait.key)).or_default().push(wait);
    }
    let (mut whole, mut stages, mut skips) = (Apart::default(), Apart::default(), 0);
    let (mut calm, mut calm_stages) = (Apart::default(), Apart::default());
    for wait in ours {
        let (tid, key) = (number(wait, "tid") as u32, number(wait, "key"));
        let known = theirs
            .get_mut(&(tid, key))
            .filter(|known| !known.is_empty());
        let known = known
            .unwrap_or_else(|| panic!("{tid} never waited for {key}"))
            .remove(0);
        whole.note(number(wait, "wait_ns"), known.end_ns - known.start_ns);
        if !known.is_held_up {
            calm.note(number(wait, "wait_ns"), known.end_ns - known.start_ns);
        }
        let parts = array(wait, "stages");
        assert_eq!(parts.len(), known.parts_ns.len());
        let same = |(part, known): (&Value, &Option<u64>)| part["skipped"] == known.is_none();
        if !parts.iter().zip(&known.parts_ns).all(same) {
            skips += 1;
            continue;
        }
        for (part, known_ns) in parts.iter().zip(&known.parts_ns) {
            stages.note(number(part, "ns"), known_ns.unwrap_or(0));
            if !known.is_held_up {
                calm_stages.note(number(part, "ns"), known_ns.unwrap_or(0));
            }
        }
    }
    println!("{what}: |tool - truth| of waits: {}", whole.words());
    println!("{what}: |tool - truth| of stages: {}", stages.words());
    println!(
        "{what}: where nobody was held up at a mark, waits: {}",
        calm.words()
    );
    println!(
        "{what}: where nobody was held up at a mark, stages: {}",
        calm_stages.words()
    );
    println!("{what}: {skips} waits whose skips differ");
    skips
}

fn skipped(truth: &[TrueWait], stage: usize) -> u64 {
    let waits = truth.iter().filter(|wait| !wait.is_no_wait);
    waits.filter(|wait| wait.parts_ns[stage].is_none()).count() as u64
}

/// Waits that are none for one of the two only, of a report that has all in full. None of them may
/// be certain.
fn disputed(report: &Value, truth: &[TrueWait]) -> u64 {
    let mut ours: HashMap<(u32, u64), u64> = HashMap::new();
    for wait in array(report, "slowest") {
        let of = (number(wait, "tid") as u32, number(wait, "key"));
        *ours.entry(of).or_default() += 1;
    }
    let mut disputed = 0;
    for wait in truth {
        let left = ours
            .get_mut(&(wait.tid, wait.key))
            .filter(|left| **left > 0);
        let is_no_wait = left.map(|left| *left -= 1).is_none();
        if is_no_wait != wait.is_no_wait {
            assert!(!wait.is_certain(), "{wait:?}");
            disputed += 1;
        }
    }
    assert!(ours.values().all(|left| *left == 0), "{ours:?}");
    disputed
}

/// Everything that is counted is equal; times are printed.
fn assert_truth(what: &str, report: &Value, truth: &[TrueWait], stages: usize) {
    assert_sums(report);
    assert_eq!(number(report, "seen"), truth.len() as u64);
    assert_eq!(number(report, "flagged"), 0);
    assert_eq!((number(report, "cut"), number(report, "torn")), (0, 0));
    let decomposed = number(report, "decomposed");
    assert_eq!(
        array(report, "slowest").len() as u64,
        decomposed,
        "all in full"
    );
    // Sums hold and all are in full, so those that are no waits are as many as these allow.
    let disputed = disputed(report, truth);
    let differ = compare(what, report, truth) + disputed;
    // Two stages within a microsecond of each other may change places.
    assert!(differ * 100 <= decomposed, "{differ} of {decomposed}");
    for stage in 0..stages {
        let ours = number(&array(report, "stages")[stage], "skipped");
        let theirs = skipped(truth, stage);
        println!(
            "{what}: stage {} skipped {ours} times, in truth {theirs}",
            stage + 1
        );
        assert!(ours.abs_diff(theirs) <= differ, "stage {}", stage + 1);
    }
}

#[test]
fn a_program_with_static_notes_is_decomposed_as_it_knows_itself() {
    if !can_run() {
        return;
    }
    let _turn = turn();
    let options = [
        "users=6",
        "stages=5",
        "waits=300",
        "skip=20",
        "past=10",
        "spurious=20",
        "churn=6",
        "delay_us=150",
    ];
    for (what, flag) in [
        ("with frame pointers", "-fno-omit-frame-pointer"),
        ("without", "-fomit-frame-pointer"),
    ] {
        let mut target = Target::start(&[flag], &options);
        let tracing = Tracing::start(&target, &["--usdt", "wakeup", "--slowest", "10000"]);
        target.work();
        let (code, report) = tracing.interrupt();
        assert_eq!(code, Some(0), "{report}");
        target.end();
        assert_truth(what, &report, &target.truth(), 5);
    }
}

#[test]
fn a_stage_file_of_plain_functions_is_as_exact() {
    if !can_run() {
        return;
    }
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("stages.toml");
    std::fs::write(&file, FUNCTIONS).expect("a file");
    let file = file.to_str().expect("a path");
    let options = [
        "users=4",
        "waits=250",
        "skip=10",
        "past=5",
        "batch=3",
        "spurious=10",
    ];
    let mut target = Target::start(&["-fomit-frame-pointer"], &options);
    let tracing = Tracing::start(&target, &["--file", file, "--slowest", "10000"]);
    target.work();
    target.end();
    // The program has ended: so does the trace, on its own.
    let (code, report) = tracing.end();
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(report["process_ended"], true);
    assert_truth("functions", &report, &target.truth(), 3);
    let names: Vec<&Value> = array(&report, "stages")
        .iter()
        .map(|s| &s["name"])
        .collect();
    assert_eq!(names, ["first", "second", "third", "(rest)"]);
}

#[test]
fn a_ring_that_is_too_small_flags_waits_and_is_an_error() {
    if !can_run() {
        return;
    }
    let _turn = turn();
    let options = ["users=8", "stages=5", "waits=1000", "delay_us=40"];
    let mut target = Target::start(&["-fomit-frame-pointer"], &options);
    let options = ["--usdt", "wakeup", "--slowest", "10000", "--ring-kib", "4"];
    let tracing = Tracing::start(&target, &options);
    target.work();
    let (code, report) = tracing.interrupt();
    target.end();
    assert_eq!(code, Some(1), "{report}");
    assert!(number(&report["lost"], "ring_full") > 0);
    let touched = number(&report, "flagged") + number(&report, "torn");
    assert!(touched > 0);
    assert_sums(&report);
    println!(
        "4 KiB of ring: {} seen, {touched} flagged or torn, {} lost",
        number(&report, "seen"),
        number(&report["lost"], "ring_full"),
    );
    // What was not flagged is what the program knows.
    let differ = compare("4 KiB of ring", &report, &target.truth());
    assert!(differ * 100 <= number(&report, "decomposed"));
}

#[test]
fn what_cannot_be_traced_is_refused_before_anything_is_touched() {
    let refused = |options: &[&str], words: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        let out = folder.path().to_str().expect("a path");
        let arguments = [&["trace", "pipeline", "--out", out], options].concat();
        let ended = waggle(&arguments).output().expect("it runs");
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(words), "{stderr}");
        let left = Path::new(out).read_dir().expect("the folder").count();
        assert_eq!(left, 0, "nothing is left behind");
    };
    refused(&["redo"], "--pid");
    refused(&["--pid", "1"], "name a pipeline");
    refused(&["redo", "--pid", "1", "--ring-kib", "1"], "--ring-kib");
    refused(&["redo", "--pid", "1", "--duration", "0"], "--duration");
    refused(&["redo", "--pid", "1", "--share", "70%"], "--share");
    refused(&["redo", "--pid", "1", "--slice", "500"], "--share");
    refused(&["--file", "/nonexistent", "--pid", "1"], "/nonexistent");
    if !can_run() {
        return;
    }
    let own = std::process::id().to_string();
    refused(&["redo", "--pid", "4194305"], "no process");
    refused(&["--usdt", "wakeup", "--pid", &own], "no static probe");
    refused(
        &["redo", "--dsn", "mysql://u@127.0.0.1:1/", "--duration", "1"],
        "no server",
    );
}
