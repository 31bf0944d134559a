//! Are stacks of threads that wait inside the C library whole, with the program built with and
//! without frame pointers? And are all waits and wake-ups of a program there that knows its own?

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use waggle_probes::kernel::RunTimeStats;
use waggle_probes::timeline::{Options, StackEnd, TimelineProbe};
use waggle_trace::stack::{Stacks, names::Names};
use waggle_trace::timeline::Records;
use waggle_trace::{Departure, Event, StackId, Thread, What};

const ROUNDS: usize = 20;

fn built(folder: &Path, flags: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/targets/waits.c");
    let program = folder.join("waits");
    let status = Command::new("cc")
        .args(["-O2", "-fno-inline", "-fno-optimize-sibling-calls"])
        .args(flags)
        .args([Path::new("-pthread"), Path::new("-o"), &program, &source])
        .status();
    assert!(status.is_ok_and(|s| s.success()), "cc builds the target");
    program
}

fn probe() -> Option<TimelineProbe> {
    let loaded = TimelineProbe::load(&Options::default());
    let Err(why) = &loaded else {
        return loaded.ok();
    };
    let needs = std::env::var("WAGGLE_REQUIRE").unwrap_or_default();
    let is_required = needs.split(',').any(|need| need.trim() == "bpf");
    assert!(!is_required, "bpf is required, but: {why}");
    // Past the capture of the test harness: a skip must be seen.
    let _ = writeln!(std::io::stderr(), "skipped: bpf: {why}");
    None
}

/// The program, waiting to be told to begin; killed if the test fails.
struct Target {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Target {
    fn start(program: &Path) -> Self {
        let mut child = Command::new(program)
            .arg(ROUNDS.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the target starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        lines.read_line(&mut line).expect("its first line");
        assert!(line.starts_with("ready"), "{line}");
        Self { child, lines }
    }

    /// Tells it to begin and returns what it says of itself.
    fn work(&mut self) -> String {
        let mut input = self.child.stdin.as_ref().expect("piped");
        input.write_all(b"go\n").expect("its input");
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("its result");
        line
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Seen {
    events: Vec<Event>,
    stacks: Stacks,
    records: Records,
    names: Names,
}

impl Seen {
    fn name(&self, thread: Thread) -> String {
        self.records.name(thread).unwrap_or_default()
    }

    /// The stacks in which the thread of that name waited, and how often.
    fn waits(&mut self, name: &str) -> BTreeMap<String, usize> {
        let mut waits = BTreeMap::new();
        for event in self.events.clone() {
            if let What::Left { why, stack } = event.what
                && why != Departure::Runnable
                && self.name(event.thread) == name
            {
                *waits.entry(self.folded(stack)).or_insert(0) += 1;
            }
        }
        waits
    }

    /// How often the driver woke the thread of that name, in its own calls.
    fn woken_by_driver(&mut self, name: &str) -> usize {
        let mut count = 0;
        for event in self.events.clone() {
            if let What::Wakes {
                woken,
                stack,
                interrupt: false,
            } = event.what
                && self.name(woken) == name
                && self.name(event.thread) == "driver"
                && self.folded(stack).contains(";driver;wake_each;wake")
            {
                count += 1;
            }
        }
        count
    }

    fn folded(&mut self, stack: Option<StackId>) -> String {
        let Some(id) = stack else {
            return "(none)".into();
        };
        let names = self.names.of_stack(&self.stacks, id);
        let outermost_first: Vec<&str> = names.iter().rev().map(AsRef::as_ref).collect();
        outermost_first.join(";")
    }
}

fn watched(program: &Path) -> Option<Seen> {
    let mut probe = probe()?;
    let stats = RunTimeStats::hold().expect("the kernel counts run times");
    let mut target = Target::start(program);
    let pid = target.child.id();
    let mut names = Names::default();
    names.watch(pid).expect("its mappings");
    probe.watch(pid).expect("its threads");
    probe.attach().expect("attaching");
    println!("{}", target.work().trim());
    probe.detach();
    let mut seen = Seen {
        events: Vec::new(),
        stacks: Stacks::default(),
        records: Records::default(),
        names,
    };
    let (records, stacks, events) = (&mut seen.records, &mut seen.stacks, &mut seen.events);
    probe.read(|head, record| records.events(head, record, stacks, |event| events.push(event)));
    let counted = probe.counters();
    println!("{counted:?}\n{:?}", probe.run_times());
    drop(stats);
    assert_eq!(counted.lost, 0);
    Some(seen)
}

fn check(program: &Path) {
    let Some(mut seen) = watched(program) else {
        return;
    };
    let ids = (0..u32::try_from(seen.stacks.len()).expect("few")).map(StackId);
    for id in ids {
        let end = seen.stacks.get(id).expect("it was sent").end;
        let text = seen.folded(Some(id));
        assert_eq!(end, StackEnd::Whole, "{text}");
    }
    for (thread, call) in [
        ("cond", "pthread_cond_wait"),
        ("mutex", "pthread_mutex_lock"),
        ("sem", "sem_wait"),
        ("reader", "read"),
    ] {
        let waits = seen.waits(thread);
        let calls = ";waiter;middle;innermost;";
        let whole = waits
            .iter()
            .filter(|(stack, _)| stack.contains(calls) && stack.contains(call));
        let whole: usize = whole.map(|(_, count)| count).sum();
        // On a busy host, one switch in some hundred is not announced.
        assert!(whole * 10 >= ROUNDS * 8, "{thread}: {waits:#?}");
        for stack in waits.keys() {
            // Where the C library begins a thread.
            let begins = ["clone", "__clone", "~"]
                .iter()
                .any(|b| stack.starts_with(b));
            assert!(begins, "{stack}");
        }
        let woken = seen.woken_by_driver(thread);
        assert!(woken >= ROUNDS, "{thread} was woken {woken} times");
    }
}

#[test]
fn stacks_are_whole_without_frame_pointers() {
    let folder = tempfile::tempdir().expect("a folder");
    check(&built(folder.path(), &["-fomit-frame-pointer"]));
}

#[test]
fn stacks_are_whole_with_frame_pointers_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let flags = ["-fno-omit-frame-pointer", "-fno-asynchronous-unwind-tables"];
    check(&built(folder.path(), &flags));
}
