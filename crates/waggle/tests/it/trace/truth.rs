//! `tests/targets/pipeline.c` as a process, and the truth that it logs: its waits, cut into stages
//! by a plain search of everything that happened.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use tempfile::TempDir;

use super::program::compiled;

/// The program, built and started, and where it logs.
pub(super) struct Target {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    folder: TempDir,
}

/// A wait as the program knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TrueWait {
    pub(super) tid: u32,
    pub(super) key: u64,
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    /// What it waited for had been reached before.
    pub(super) is_no_wait: bool,
    /// Between its beginning and that, whichever came first, ns.
    margin_ns: u64,
    /// Each stage's part; nothing if it was skipped. The last is what was left.
    pub(super) parts_ns: Vec<Option<u64>>,
    /// A thread was held up between its clock and its mark, so the program knows no better.
    pub(super) is_held_up: bool,
}

/// So much longer than usual from the clock until the marks are behind, and the thread was held up,
/// ns. What is usual is the price of the probes there.
const HELD_UP_NS: u64 = 6_000;

impl TrueWait {
    /// Whether the program knows for certain that this was a wait, or that it was none: the marks
    /// come after its clock, and by different times.
    pub(super) fn is_certain(&self) -> bool {
        !self.is_held_up && self.margin_ns > HELD_UP_NS
    }
}

impl Target {
    /// Starts it; it waits to be told to begin.
    pub(super) fn start(flags: &[&str], options: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let program = {
            let common = ["-Wall", "-Werror", "-rdynamic"];
            compiled("pipeline", folder.path(), &[&common, flags].concat())
        };
        let io = format!("io={}", folder.path().join("io").display());
        let mut child = Command::new(program)
            .arg(folder.path().join("log"))
            .args(options)
            .arg(io)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut target = Self {
            child,
            stdin,
            stdout,
            folder,
        };
        target.line("ready");
        target
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn line(&mut self, expected: &str) {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("its output");
        assert_eq!(line.trim(), expected);
    }

    /// Lets it do its waits.
    pub(super) fn work(&mut self) {
        let stdin = self.stdin.as_mut().expect("not ended");
        stdin.write_all(b"\n").expect("it listens");
        self.line("done");
    }

    /// Ends it.
    pub(super) fn end(&mut self) {
        self.stdin = None;
        assert!(self.child.wait().expect("it ends").success());
    }

    /// What it logged.
    pub(super) fn truth(&self) -> Vec<TrueWait> {
        let text = std::fs::read_to_string(self.folder.path().join("log")).expect("its log");
        truth(&text)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The waits in the order of their beginning.
fn truth(log: &str) -> Vec<TrueWait> {
    let after = |line: &str| -> u64 {
        let last = line.rsplit(' ').next().expect("five words");
        last.parse().expect("a number")
    };
    let mut usual: Vec<u64> = log.lines().map(after).collect();
    usual.sort_unstable();
    let usual = usual.get(usual.len() / 2).copied().unwrap_or(0);
    let mut events: Vec<(u64, u32, char, u64, bool)> = log
        .lines()
        .map(|line| {
            let mut words = line.split(' ');
            let mut next = || words.next().expect("four words");
            let number = |word: &str| word.parse::<u64>().expect("a number");
            let (ns, tid, what, value) = (next(), next(), next(), next());
            let what = what.chars().next().expect("a letter");
            let is_late = number(next()) > usual + HELD_UP_NS;
            (number(ns), number(tid) as u32, what, number(value), is_late)
        })
        .collect();
    events.sort_unstable();
    let mut stages: Steps = BTreeMap::new();
    let mut open: HashMap<u32, (u64, u64, bool)> = HashMap::new();
    let mut waits = Vec::new();
    for (ns, tid, what, value, is_late) in events {
        match what {
            's' => _ = open.insert(tid, (ns, value, is_late)),
            'e' => {
                let (start_ns, key, was_late) = open.remove(&tid).expect("it began");
                waits.push((tid, key, start_ns, ns, is_late || was_late));
            }
            'w' => {}
            stage => stages.entry(stage).or_default().push((ns, value, is_late)),
        }
    }
    assert!(open.is_empty(), "a wait did not end");
    let cut = |(tid, key, start_ns, end_ns, is_late)| TrueWait {
        is_held_up: is_late || late(key, &stages),
        ..cut(tid, key, start_ns, end_ns, &stages)
    };
    let mut waits: Vec<TrueWait> = waits.into_iter().map(cut).collect();
    waits.sort_by_key(|wait| (wait.start_ns, wait.tid));
    waits
}

type Steps = BTreeMap<char, Vec<(u64, u64, bool)>>;

/// A step that reached the value was marked late.
fn late(key: u64, stages: &Steps) -> bool {
    stages.values().any(|steps| {
        let at = steps.partition_point(|(_, value, _)| *value < key);
        steps.get(at).is_some_and(|(.., is_late)| *is_late)
    })
}

fn cut(tid: u32, key: u64, start_ns: u64, end_ns: u64, stages: &Steps) -> TrueWait {
    let times: Vec<Option<u64>> = stages
        .values()
        .map(|steps| {
            // In the order of time, and every step is larger than the one before.
            let at = steps.partition_point(|(_, value, _)| *value < key);
            steps.get(at).map(|(ns, ..)| *ns).filter(|ns| *ns <= end_ns)
        })
        .collect();
    let mut parts_ns = Vec::new();
    let mut at = start_ns;
    for (index, time) in times.iter().enumerate() {
        let later = times[index + 1..].iter().flatten().min();
        let passed = |ns: u64| later.is_some_and(|later| ns > *later && ns > start_ns);
        let time = time.filter(|ns| !passed(*ns)).map(|ns| ns.max(at));
        parts_ns.push(time.map(|ns| ns - at));
        at = time.unwrap_or(at);
    }
    parts_ns.push(Some(end_ns - at));
    let decisive = times.last().copied().flatten();
    TrueWait {
        tid,
        key,
        start_ns,
        end_ns,
        is_no_wait: decisive.is_some_and(|ns| ns <= start_ns),
        margin_ns: decisive.map_or(u64::MAX, |ns| ns.abs_diff(start_ns)),
        parts_ns,
        is_held_up: false,
    }
}
