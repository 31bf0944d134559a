//! Are stacks of threads that wait inside the C library whole, with the program built with and
//! without frame pointers? And are all waits and wake-ups of a program there that knows its own?

mod running;

use std::collections::BTreeMap;

use waggle_need::{can_probe, had};
use waggle_probes::kernel::RunTimeStats;
use waggle_probes::timeline::{Options, StackEnd, TimelineProbe};
use waggle_trace::stack::{Stacks, names::Names};
use waggle_trace::timeline::Records;
use waggle_trace::{Departure, Event, StackId, Thread, What};

use running::Running;

const ROUNDS: usize = 20;

/// The program, waiting to be told to begin.
fn started(flags: &[&str]) -> Running {
    let flags = [&["-fno-inline", "-fno-optimize-sibling-calls"][..], flags].concat();
    let mut running = Running::start("waits", &flags, &[ROUNDS.to_string()]);
    let line = running.line();
    assert!(line.starts_with("ready"), "{line}");
    running
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

fn watched(flags: &[&str]) -> Option<Seen> {
    can_probe().then_some(())?;
    let mut probe = had("bpf", TimelineProbe::load(&Options::default()))?;
    let stats = RunTimeStats::hold().expect("the kernel counts run times");
    let mut target = started(flags);
    let pid = target.pid();
    let mut names = Names::default();
    names.watch(pid).expect("its mappings");
    probe.watch(pid).expect("its threads");
    probe.attach().expect("attaching");
    target.go();
    println!("{}", target.line());
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

fn check(flags: &[&str]) {
    let Some(mut seen) = watched(flags) else {
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
    check(&["-fomit-frame-pointer"]);
}

#[test]
fn stacks_are_whole_with_frame_pointers_alone() {
    check(&["-fno-omit-frame-pointer", "-fno-asynchronous-unwind-tables"]);
}
