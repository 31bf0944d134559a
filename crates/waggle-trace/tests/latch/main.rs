//! Waits for latches against a program that knows who held them: `tests/targets/latch.c`.
//!
//! Needs root, BPF and a C compiler.

#[path = "../running/mod.rs"]
mod running;
#[path = "../server/mod.rs"]
mod server;
mod servers;
mod truth;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use waggle_need::can_probe;
use waggle_probes::clock::now_ns;
use waggle_trace::latch::{Kind, Options, Source, Wait};

use running::Running;
use truth::{Truth, compare};

/// Whatever this host's speed, the program is done by then.
const DEADLINE: Duration = Duration::from_secs(60);

/// The program, and where it puts down what it knows.
struct Target {
    program: Running,
    log: PathBuf,
    _folder: tempfile::TempDir,
}

impl Target {
    fn start(variant: &str, frame_pointers: bool, barge_percent: u32) -> Self {
        Self::start_for(variant, frame_pointers, barge_percent, 120)
    }

    /// Each thread takes the latch so many times.
    fn start_for(variant: &str, frame_pointers: bool, barge_percent: u32, times: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let frames = if frame_pointers {
            "-fno-omit-frame-pointer"
        } else {
            "-fomit-frame-pointer"
        };
        let arguments = [
            variant.to_owned(),
            "6".to_owned(),
            times.to_string(),
            barge_percent.to_string(),
            "1000".to_owned(),
            log.display().to_string(),
        ];
        let mut program = Running::start("latch", &[frames], &arguments);
        assert_eq!(program.line(), "ready");
        Self {
            program,
            log,
            _folder: folder,
        }
    }

    /// Lets it work to its end under the tracer; returns the waits, and what it knows itself.
    fn run(self, source: &mut Source) -> (Vec<Wait>, Truth) {
        self.run_with(source, |_, _| ())
    }

    /// The same; `between` is called after each look at the ring, with where waits go.
    fn run_with(
        self,
        source: &mut Source,
        mut between: impl FnMut(&mut Source, &mut Vec<Wait>),
    ) -> (Vec<Wait>, Truth) {
        let mut program = self.program;
        program.go();
        let (done, is_done) = mpsc::channel();
        let reader = std::thread::spawn(move || {
            let _ = done.send(program.line());
            program
        });
        let began = Instant::now();
        let mut waits = Vec::new();
        let line = loop {
            source.poll(|wait| waits.push(wait.clone()));
            between(source, &mut waits);
            match is_done.recv_timeout(Duration::from_millis(5)) {
                Ok(line) => break line,
                Err(_) => assert!(began.elapsed() < DEADLINE, "the program does not end"),
            }
        };
        assert_eq!(line, "done");
        assert_eq!(source.finish(|wait| waits.push(wait.clone())), 0);
        drop(reader.join().unwrap());
        (waits, Truth::read(&self.log))
    }
}

fn traced(variant: &str, frame_pointers: bool, barge_percent: u32) -> (Source, Vec<Wait>, Truth) {
    let target = Target::start(variant, frame_pointers, barge_percent);
    let mut source = Source::attach(&Options {
        pid: target.program.pid(),
        flavour: None,
        ring_bytes: 4 << 20,
        usdt: (variant == "ttas").then(|| "latch".to_owned()),
        futexes: true,
        rw_locks: false,
    })
    .unwrap();
    let (waits, truth) = target.run(&mut source);
    let of_latch = waits.into_iter().filter(|wait| match variant {
        "ttas" => wait.kind == Kind::Static,
        "futex" => wait.kind == Kind::Futex,
        _ => wait.kind == Kind::PthreadMutex,
    });
    let waits = of_latch.collect();
    (source, waits, truth)
}

fn check(variant: &str, frame_pointers: bool, barge_percent: u32) {
    if !can_probe() {
        return;
    }
    let (mut source, waits, truth) = traced(variant, frame_pointers, barge_percent);
    let compared = compare(&waits, &truth);
    println!(
        "{variant}, {barge_percent}% barging: {compared:?} {:?}",
        source.counters()
    );
    assert_eq!((source.counters().lost, source.counters().torn), (0, 0));
    assert!(compared.waits > 50, "{compared:?}");
    if variant != "pthread" {
        let known: u64 = truth.waited.iter().map(|wait| wait.3).sum();
        assert_eq!(compared.sleeps, known, "sleeps that the program counted");
    }
    let mut by_thread: HashMap<u32, u64> = HashMap::new();
    for wait in &truth.waited {
        *by_thread.entry(wait.0).or_default() += 1;
    }
    // What nothing tells of: who came and went while a woken thread was on its way. How long that
    // takes is the host's doing; the program knows it of those who find the latch free: nobody has
    // it meanwhile.
    let nobody_ns = compared.wait_ns.saturating_sub(compared.true_ns);
    assert!(
        compared.unobserved_ns <= compared.wait_ns / 10 + nobody_ns,
        "unobserved: {compared:?}, held by nobody: {nobody_ns}"
    );
    let attributable_ns = compared.true_ns - compared.unobserved_ns.min(compared.true_ns);
    // A thread that lets go by a store and is preempted before it wakes anybody seems to hold on:
    // how long that takes is the host's doing, whom it names is not.
    assert!(
        compared.right_ns * 100 >= attributable_ns * 95,
        "holders: {compared:?}"
    );
    assert!(
        compared.false_parts * 100 <= compared.parts,
        "false holders: {compared:?}"
    );
    if variant == "pthread" {
        assert!(compared.word[1] * 100 >= (compared.word[0] + compared.word[1]) * 99);
    }
    for wait in waits.iter().take(20) {
        let calls = source.naming.stack(&source.stacks, wait.stack.unwrap());
        assert!(
            calls.iter().any(|call| call.contains("hold_latch")),
            "{calls:?}"
        );
    }
}

#[test]
fn a_mutex_of_the_c_library() {
    check("pthread", true, 0);
}

#[test]
fn a_mutex_of_the_c_library_that_others_barge_into() {
    check("pthread", false, 50);
}

#[test]
fn a_word_slept_on() {
    check("futex", false, 30);
}

#[test]
fn an_event_with_static_probes() {
    check("ttas", true, 30);
}

/// Attached and detached in turns: every wait is within one turn, and told as if there were no
/// other.
fn check_in_slices(variant: &str) {
    const SLICE: Duration = Duration::from_millis(100);
    if !can_probe() {
        return;
    }
    let target = Target::start_for(variant, true, 30, 1_200);
    let mut source = Source::attach(&Options {
        pid: target.program.pid(),
        flavour: None,
        ring_bytes: 4 << 20,
        usdt: (variant == "ttas").then(|| "latch".to_owned()),
        futexes: true,
        rw_locks: false,
    })
    .unwrap();
    let mut turn = Instant::now();
    let mut slices = vec![(now_ns(), u64::MAX)];
    let mut is_attached = true;
    let mut asleep = 0;
    let (waits, truth) = target.run_with(&mut source, |source, waits| {
        if turn.elapsed() < SLICE {
            return;
        }
        if is_attached {
            let ends_ns = now_ns();
            source.ends_at(ends_ns);
            slices.last_mut().unwrap().1 = ends_ns;
            asleep += source
                .pause(u64::MAX, |wait| waits.push(wait.clone()))
                .asleep;
        } else {
            assert!(source.resume().unwrap(), "all of it is attached again");
            slices.push((now_ns(), u64::MAX));
            source.begins_at(slices.last().unwrap().0);
        }
        is_attached = !is_attached;
        turn = Instant::now();
    });
    let counters = source.counters();
    let compared = compare(&waits, &truth);
    println!(
        "{variant} in {} slices: {compared:?} {counters:?}",
        slices.len()
    );
    assert_eq!((counters.lost, counters.torn), (0, 0));
    assert!(slices.len() > 3 && asleep > 0, "{asleep} of {slices:?}");
    assert_eq!(counters.began, counters.waits + asleep);
    let of_one = |wait: &Wait| {
        let mut within = slices.iter();
        within.any(|(from, to)| *from <= wait.from_ns && wait.to_ns <= *to)
    };
    assert!(waits.iter().all(of_one), "a wait that is in no slice");
    assert!(compared.waits > 50, "{compared:?}");
    let known: u64 = truth.waited.iter().map(|wait| wait.3).sum();
    assert!(compared.sleeps < known, "only a part of the time");
    // Who slept before a slice began is woken in it unseen, and holds the latch then.
    let attributable_ns = compared.true_ns - compared.unobserved_ns.min(compared.true_ns);
    assert!(
        compared.right_ns * 100 >= attributable_ns * 90,
        "holders: {compared:?}"
    );
    assert!(
        compared.false_parts * 50 <= compared.parts,
        "false holders: {compared:?}"
    );
}

#[test]
fn a_word_slept_on_in_slices_of_time() {
    check_in_slices("futex");
}

#[test]
fn an_event_with_static_probes_in_slices_of_time() {
    check_in_slices("ttas");
}
