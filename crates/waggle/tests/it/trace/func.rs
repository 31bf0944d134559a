//! `waggle trace func` against `targets/calls.c`, which knows how often it calls what, and for how
//! long at least and at most.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

use super::program::{can_run, compiled};

const THREADS: u64 = 4;
const ROUNDS: u64 = 200;
/// What one sleep takes at least.
const SLEEP_NS: u64 = 2_000_000;

/// A program that waits for a line before it works, and after.
struct Target {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Target {
    fn start(program: &Path) -> Self {
        let mut child = Command::new(program)
            .args([THREADS.to_string(), ROUNDS.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the target runs");
        let lines = BufReader::new(child.stdout.take().expect("its output"));
        let mut target = Self { child, lines };
        assert_eq!(target.line(), "ready");
        target
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    fn go_on(&mut self) {
        let input = self.child.stdin.as_mut().expect("its input");
        input.write_all(b"\n").expect("it reads");
    }

    /// What it did: count, time within and time around by name.
    fn work(&mut self) -> HashMap<String, [u64; 3]> {
        self.go_on();
        let mut truth = HashMap::new();
        loop {
            let line = self.line();
            if line == "done" {
                return truth;
            }
            let mut words = line.split(' ');
            let name = words.next().expect("a name").to_owned();
            let numbers: Vec<u64> = words.map(|n| n.parse().expect("a number")).collect();
            truth.insert(name, numbers.try_into().expect("three numbers"));
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the program counted of each function: calls, time noted inside, and around them, ns.
type Truth = HashMap<String, [u64; 3]>;

/// Traces `target` while it works; the truth, the document, and the folder of the run.
fn traced(target: &mut Target, out: &Path, args: &[&str]) -> (Truth, Value) {
    let mut waggle = Command::new(env!("CARGO_BIN_EXE_waggle"))
        .args(["trace", "func", "--json", "--out"])
        .arg(out)
        .args(["--pid", &target.child.id().to_string()])
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("waggle runs");
    let mut said = BufReader::new(waggle.stderr.take().expect("its messages"));
    let mut line = String::new();
    while !line.starts_with("timing calls") {
        line.clear();
        let read = said.read_line(&mut line).expect("a line");
        assert!(read > 0, "waggle ended before it traced");
        eprint!("{line}");
    }
    let truth = target.work();
    let pid = rustix::process::Pid::from_child(&waggle);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    let output = waggle.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    (
        truth,
        serde_json::from_slice(&output.stdout).expect("a document"),
    )
}

fn row<'a>(rows: &'a Value, name: &str) -> &'a Value {
    let rows = rows.as_array().expect("rows");
    let found = rows.iter().find(|row| row["name"] == name);
    found.unwrap_or_else(|| panic!("no row {name}: {rows:#?}"))
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

/// Count exact, time between what the function and its caller noted.
fn agrees(row: &Value, truth: [u64; 3]) {
    let [count, within, around] = truth;
    assert_eq!(number(&row["latency_us"]["count"]), count, "{row:#}");
    let sum = number(&row["sum_ns"]);
    assert!(
        within <= sum && sum <= around,
        "{within} {sum} {around}: {row:#}"
    );
    let bars = row["histogram"].as_array().expect("bars");
    let calls: u64 = bars.iter().map(|bar| number(&bar[2])).sum();
    assert_eq!(calls, count, "the histogram holds every call");
}

#[test]
fn counts_are_exact_and_times_between_their_bounds() {
    if !can_run() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let frames = ["-fno-omit-frame-pointer"];
    let mut target = Target::start(&compiled(
        "calls",
        folder.path(),
        &[&["-g"], &frames[..]].concat(),
    ));
    let names = [
        "parent", "sleeper", "spinner", "recurse", "jumps", "ends", "tail", "tail_end",
    ];
    let mut args = names.to_vec();
    args.extend([
        "whole_time",
        "--children",
        "child_a,child_b",
        "--by",
        "caller",
    ]);
    args.extend(["--slower", "2ms"]);
    let (truth, report) = traced(&mut target, folder.path(), &args);
    eprintln!("{}", report["cost"]);
    let rows = &report["functions"];
    for name in ["parent", "sleeper", "spinner", "recurse", "jumps", "tail"] {
        agrees(row(rows, name), truth[name]);
    }
    let jumped_to = row(rows, "tail_end");
    assert_eq!(
        number(&jumped_to["latency_us"]["count"]),
        truth["tail_end"][0]
    );
    assert!(number(&jumped_to["sum_ns"]) >= truth["tail_end"][1]);

    callees_add_up(rows, &truth, &report["calls"]);
    sleep_is_time_off(rows, &truth);
    // What never returned.
    let calls = &report["calls"];
    assert_eq!(number(&calls["left"]), THREADS * ROUNDS);
    assert_eq!(number(&calls["thread_ended"]), truth["ends"][0]);
    assert_eq!(number(&calls["under_way_at_end"]), 1, "whole_time");
    assert_eq!(number(&calls["too_deep"]), 0);
    let unannounced: u64 = rows
        .as_array()
        .expect("rows")
        .iter()
        .map(|r| number(&r["unannounced"]))
        .sum();
    eprintln!("calls with switches that were not announced: {unannounced}");

    let sleeper = row(rows, "sleeper");
    sleeps_are_slow(
        &report["calls"],
        &report["slow"],
        sleeper,
        truth["sleeper"][0],
    );
}

fn callees_add_up(rows: &Value, truth: &Truth, calls: &Value) {
    let parent = row(rows, "parent");
    // Child_a by itself and within child_b, and once in a while outside.
    let child_a = row(&parent["children"], "child_a");
    let child_b = row(&parent["children"], "child_b");
    agrees(child_b, truth["child_b"]);
    assert_eq!(number(&child_a["latency_us"]["count"]), truth["child_a"][0]);
    assert_eq!(number(&child_a["nested"]), truth["child_b"][0]);
    let outermost =
        number(&child_a["sum_ns"]) - number(&child_a["nested_ns"]) + number(&child_b["sum_ns"]);
    assert_eq!(
        outermost + number(&parent["rest_ns"]),
        number(&parent["sum_ns"])
    );
    assert_eq!(number(&calls["outside"]), THREADS * ROUNDS.div_ceil(50));

    // By caller: as many in all, in two lines.
    let callers = &parent["callers"];
    let other = number(&row(callers, "other_caller")["latency_us"]["count"]);
    let usual = number(&row(callers, "usual_caller")["latency_us"]["count"]);
    assert_eq!(other, THREADS * ROUNDS.div_ceil(4));
    assert_eq!(other + usual, truth["parent"][0]);
}

fn sleep_is_time_off(rows: &Value, truth: &Truth) {
    let sleeper = row(rows, "sleeper");
    let asleep = number(&sleeper["off_by_reason_ns"]["sleep"]);
    let count = truth["sleeper"][0];
    // Of a call with a switch that was not announced, the time off is a lower bound, down to none.
    let unannounced = number(&sleeper["unannounced"]);
    assert!(
        asleep + unannounced * SLEEP_NS >= count * SLEEP_NS,
        "{asleep} of {count} sleeps, {unannounced} unannounced"
    );
    assert!(number(&sleeper["off_sum_ns"]) <= number(&sleeper["sum_ns"]));
    let off = number(&sleeper["off_us"]["count"]);
    assert!(off <= count && off + unannounced >= count, "{sleeper:#}");

    // Recursion: all but the outermost are within one another.
    let recurse = row(rows, "recurse");
    let outer = THREADS * ROUNDS.div_ceil(5);
    assert_eq!(number(&recurse["recursive"]), truth["recurse"][0] - outer);
}

fn sleeps_are_slow(calls: &Value, slow: &Value, sleeper: &Value, count: u64) {
    assert!(number(&calls["slow"]) >= count);
    let slow = slow.as_array().expect("slow calls");
    let sleeps: Vec<&Value> = slow
        .iter()
        .filter(|call| call["name"] == "sleeper")
        .collect();
    assert!(!sleeps.is_empty());
    let mut unseen = 0;
    for call in sleeps {
        assert_eq!(call["stack"][0], "work", "{call:#}");
        if number(&call["longest_off_ns"]) < SLEEP_NS {
            eprintln!("a sleep that was not seen: {call:#}");
            unseen += 1;
        }
    }
    assert!(unseen <= number(&sleeper["unannounced"]), "{sleeper:#}");
}

#[test]
fn names_that_mean_nothing_or_too_much_touch_nothing() {
    if !can_run() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&compiled("calls", folder.path(), &["-g"]));
    for (name, said) in [
        ("no_such_function", "exports no function"),
        ("caller", "other_caller"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_waggle"))
            .args(["trace", "func", name, "--duration", "1", "--out"])
            .arg(folder.path().join("runs"))
            .args(["--pid", &target.child.id().to_string()])
            .output()
            .expect("waggle runs");
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(message.contains(said), "{message}");
    }
    assert!(!folder.path().join("runs").exists(), "no run was begun");
}
