//! `waggle trace waits` on a program that knows who wakes whom, built without frame pointers.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

use serde_json::Value;

use super::program::{can_run, compiled};

const ROUNDS: u64 = 25;
/// So that every call is one, and none has a frame pointer.
const FLAGS: [&str; 3] = [
    "-fno-inline",
    "-fno-optimize-sibling-calls",
    "-fomit-frame-pointer",
];
/// What the worker sleeps for each request, ns.
const SLEEP_NS: u64 = 2_000_000;

/// The program; ends when its input does, and is killed if the test fails.
struct Target {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Target {
    fn start(program: &Path) -> Self {
        let mut child = Command::new(program)
            .arg(ROUNDS.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the target");
        let lines = BufReader::new(child.stdout.take().expect("piped"));
        let mut target = Self { child, lines };
        assert!(target.line().starts_with("ready"));
        target
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        line
    }

    fn work(&mut self) -> Value {
        let mut input = self.child.stdin.as_ref().expect("piped");
        input.write_all(b"go\n").expect("its input");
        serde_json::from_str(&self.line()).expect("what happened")
    }

    fn end(&mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().expect("its end").success());
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The tracer, attached; killed if the test fails.
struct Tracer {
    child: Child,
    _stderr: BufReader<ChildStderr>,
}

impl Tracer {
    fn attach(pid: u32, out: &Path, flags: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_waggle"))
            .args([
                "trace",
                "waits",
                "--json",
                "--pid",
                &pid.to_string(),
                "--out",
            ])
            .arg(out)
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("waggle");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        while !line.starts_with("tracing") {
            line.clear();
            let read = stderr.read_line(&mut line).expect("stderr");
            assert!(read > 0, "waggle ended before it was attached");
        }
        Self {
            child,
            _stderr: stderr,
        }
    }

    /// It ends by itself once the process has.
    fn document(mut self) -> (Option<i32>, Value) {
        let mut text = String::new();
        let stdout = self.child.stdout.take().expect("piped");
        std::io::Read::read_to_string(&mut BufReader::new(stdout), &mut text).expect("stdout");
        let status = self.child.wait().expect("its end");
        (status.code(), serde_json::from_str(&text).expect("JSON"))
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn number(value: &Value, path: &str) -> u64 {
    let found = value.pointer(path).and_then(Value::as_u64);
    found.unwrap_or_else(|| panic!("{path} in {value:#}"))
}

fn list<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    let found = value.pointer(path).and_then(Value::as_array);
    found.unwrap_or_else(|| panic!("{path} in {value:#}"))
}

fn edge(document: &Value, waiter: &str, woken_by: &str) -> u64 {
    let edges = list(document, "/edges").iter();
    let edge = edges.filter(|e| e["waiter"] == waiter && e["woken_by"] == woken_by);
    edge.map(|edge| number(edge, "/all/count")).sum()
}

fn check_requests(document: &Value) {
    let requests = list(document, "/requests/slowest");
    let mut slept_most = 0;
    for request in requests.iter().filter(|r| r["role"] == "front") {
        let segments = list(request, "/segments");
        let whole: u64 = segments.iter().map(|s| number(s, "/ns")).sum();
        assert_eq!(whole, number(request, "/ns"));
        let slept = segments
            .iter()
            .filter(|s| s["role"] == "worker" && s["doing"] == "sleep")
            .map(|s| number(s, "/ns"));
        slept_most = slept_most.max(slept.sum());
    }
    // A front that is preempted before it waits has no part in what the worker does meanwhile.
    assert!(slept_most >= SLEEP_NS * 9 / 10, "{document:#}");
}

fn check_files(document: &Value, out: &Path) {
    let run = std::fs::read_dir(out).expect("runs").next();
    let run = run.expect("a run").expect("a folder").path();
    let read = |file: &str| std::fs::read(run.join(file)).expect(file);
    let text = |file: &str| String::from_utf8(read(file)).expect(file);
    assert!(text("waits.dot").contains("\"front\" -> \"worker\""));
    assert!(text("waits.svg").contains("</svg>"));
    let folded = text("waits.folded");
    let line = folded
        .lines()
        .find(|l| l.starts_with("cond;") && l.ends_with_role("driver"));
    let line = line.unwrap_or_else(|| panic!("{folded}"));
    assert!(line.contains(";waiter;middle;innermost;"), "{line}");
    assert!(line.contains(";wake;wake_each;driver;"), "{line}");
    let chrome: Value = serde_json::from_str(&text("chrome.json")).expect("JSON");
    assert!(
        list(&chrome, "/traceEvents")
            .iter()
            .any(|e| e["name"] == "futex")
    );
    // A packet: field 1, with a length.
    assert_eq!(read("waits.perfetto-trace")[0], 0x0a);
    assert_eq!(list(document, "/probes").len(), 4);
}

trait EndsWithRole {
    fn ends_with_role(&self, role: &str) -> bool;
}

impl EndsWithRole for str {
    /// The last call of a folded line, before its weight.
    fn ends_with_role(&self, role: &str) -> bool {
        let calls = self.rsplit_once(' ').map_or(self, |(calls, _)| calls);
        calls.rsplit(';').next() == Some(role)
    }
}

#[test]
fn who_wakes_whom_and_whose_doing_a_request_was() {
    if !can_run() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(&compiled("waits", folder.path(), &FLAGS));
    let out = folder.path().join("runs");
    let tracer = Tracer::attach(target.child.id(), &out, &["--chrome", "--slowest", "1000"]);
    let truth = target.work();
    target.end();
    let (code, document) = tracer.document();
    assert_eq!(code, Some(0), "{document:#}");
    assert_eq!(document["process_ended"], true);
    assert_eq!(number(&document, "/lost/ring-full"), 0);
    // On a busy host, one switch in some hundred is not announced.
    let missing = number(&document, "/unannounced");
    for way in ["cond", "mutex", "sem", "reader"] {
        let woken = edge(&document, way, "driver");
        assert!(
            woken + missing >= number(&truth, &format!("/{way}")),
            "{way}: {woken}, {missing} unannounced"
        );
        assert_eq!(edge(&document, "driver", way), 0, "nobody wakes the driver");
    }
    assert!(edge(&document, "sleeper", "interrupt (sleep)") + missing >= ROUNDS);
    assert!(edge(&document, "front", "worker") > 0);
    assert_eq!(number(&document, "/stacks/cut"), 0, "{document:#}");
    check_requests(&document);
    check_files(&document, &out);
}

#[test]
fn a_ring_that_is_too_small_flags_waits_and_fails() {
    if !can_run() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(&compiled("waits", folder.path(), &FLAGS));
    let out = folder.path().join("runs");
    let tracer = Tracer::attach(target.child.id(), &out, &["--ring-kib", "4"]);
    let _ = target.work();
    target.end();
    let (code, document) = tracer.document();
    let lost = number(&document, "/lost/ring-full");
    assert!(
        lost > 0,
        "4 KiB hold some 60 records of 20 ms: {document:#}"
    );
    assert!(number(&document, "/flagged") > 0);
    assert_eq!(code, Some(1));
}
