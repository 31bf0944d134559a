//! Waits for latches against a program that knows who held them: `tests/targets/latch.c`.
//!
//! Needs root, BPF and a C compiler.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use waggle_probes::clock::now_ns;
use waggle_server::Flavour;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_trace::latch::{Kind, Options, Source, Wait};
use waggle_wire::Connection;

/// Whatever this host's speed, the program is done by then.
const DEADLINE: Duration = Duration::from_secs(60);

fn skipped() -> bool {
    let why = match Command::new("cc").arg("--version").output() {
        Err(_) => Some(("bpf", "no C compiler")),
        // SAFETY: no preconditions.
        _ if unsafe { libc::geteuid() } != 0 => Some(("root", "not root")),
        _ if !Path::new("/sys/kernel/btf/vmlinux").exists() => Some(("bpf", "no BTF")),
        _ => None,
    };
    let Some((need, why)) = why else { return false };
    let required = std::env::var("WAGGLE_REQUIRE").unwrap_or_default();
    assert!(!required.split(',').any(|r| r == need), "{need}: {why}");
    println!("skipped: {need}: {why}");
    true
}

/// The program, built for one test.
struct Target {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
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
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/targets/latch.c");
        let binary = folder.path().join("latch");
        let frames = if frame_pointers {
            "-fno-omit-frame-pointer"
        } else {
            "-fomit-frame-pointer"
        };
        let built = Command::new("cc")
            .args(["-O2", "-pthread", frames, "-o"])
            .arg(&binary)
            .arg(&source)
            .status();
        assert!(built.unwrap().success());
        let log = folder.path().join("log");
        let mut child = Command::new(&binary)
            .args([variant, "6", &times.to_string()])
            .args([&barge_percent.to_string(), "1000"])
            .arg(&log)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut target = Self {
            child,
            input,
            output,
            log,
            _folder: folder,
        };
        target.expect_line("ready");
        target
    }

    fn expect_line(&mut self, wanted: &str) {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), wanted);
    }

    /// Lets it work to its end under the tracer; returns the waits, and what it knows itself.
    fn run(self, source: &mut Source) -> (Vec<Wait>, Truth) {
        self.run_with(source, |_, _| ())
    }

    /// The same; `between` is called after each look at the ring, with where waits go.
    fn run_with(
        mut self,
        source: &mut Source,
        mut between: impl FnMut(&mut Source, &mut Vec<Wait>),
    ) -> (Vec<Wait>, Truth) {
        self.input.write_all(b"go\n").unwrap();
        let (done, is_done) = mpsc::channel();
        let mut output = self.output;
        let reader = std::thread::spawn(move || {
            let mut line = String::new();
            let _ = output.read_line(&mut line);
            let _ = done.send(line);
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
        assert_eq!(line.trim(), "done");
        assert_eq!(source.finish(|wait| waits.push(wait.clone())), 0);
        reader.join().unwrap();
        drop(self.input);
        self.child.wait().unwrap();
        (waits, Truth::read(&self.log))
    }
}

/// What the program knows.
#[derive(Default)]
struct Truth {
    /// Thread, from, to; in order.
    held: Vec<(u32, u64, u64)>,
    /// Thread, from, to, sleeps.
    waited: Vec<(u32, u64, u64, u64)>,
}

impl Truth {
    fn read(log: &Path) -> Self {
        let mut truth = Self::default();
        for line in std::fs::read_to_string(log).unwrap().lines() {
            let mut words = line.split(' ');
            let what = words.next().unwrap();
            let numbers: Vec<u64> = words.map(|word| word.parse().unwrap()).collect();
            let tid = u32::try_from(numbers[0]).unwrap();
            match what {
                "held" => truth.held.push((tid, numbers[1], numbers[2])),
                _ => truth.waited.push((tid, numbers[1], numbers[2], numbers[3])),
            }
        }
        truth.held.sort_unstable_by_key(|held| held.1);
        truth
    }

    /// How long `tid` held it between `from` and `to`; anybody but `waiter`, if `tid` is none.
    fn held_ns(&self, tid: Option<u32>, waiter: u32, from: u64, to: u64) -> u64 {
        let after = self.held.partition_point(|held| held.2 <= from);
        let spans = self.held[after..].iter().take_while(|held| held.1 < to);
        let of = spans.filter(|held| tid.map_or(held.0 != waiter, |tid| held.0 == tid));
        of.map(|held| held.2.min(to) - held.1.max(from)).sum()
    }
}

/// How the tool's holders compare with the program's.
#[derive(Debug, Default)]
struct Compared {
    waits: u64,
    sleeps: u64,
    wait_ns: u64,
    /// Held by somebody, as the program knows, ns.
    true_ns: u64,
    /// Of it, by whom the tool says, ns.
    right_ns: u64,
    /// Said to be held by one who did not, ns.
    wrong_ns: u64,
    unobserved_ns: u64,
    /// Parts with a holder, and those of them whose holder never had it then.
    parts: u64,
    false_parts: u64,
    word: [u64; 2],
}

fn compare(waits: &[Wait], truth: &Truth) -> Compared {
    let mut compared = Compared::default();
    for wait in waits {
        let tid = wait.thread.tid;
        assert_eq!(wait.parts.total_ns(), wait.to_ns - wait.from_ns, "{wait:?}");
        assert!(!wait.flagged, "{wait:?}");
        compared.waits += 1;
        compared.sleeps += u64::from(wait.sleeps);
        compared.wait_ns += wait.to_ns - wait.from_ns;
        compared.true_ns += truth.held_ns(None, tid, wait.from_ns, wait.to_ns);
        compared.unobserved_ns += wait.parts.unobserved_ns;
        for held in &wait.parts.held {
            let right = truth.held_ns(Some(held.tid), tid, held.from_ns, held.to_ns);
            compared.right_ns += right;
            compared.wrong_ns += held.to_ns - held.from_ns - right;
            compared.parts += 1;
            compared.false_parts += u64::from(right == 0);
        }
        if let Some(agrees) = wait.word_agrees {
            compared.word[usize::from(agrees)] += 1;
        }
    }
    compared
}

fn traced(variant: &str, frame_pointers: bool, barge_percent: u32) -> (Source, Vec<Wait>, Truth) {
    let target = Target::start(variant, frame_pointers, barge_percent);
    let mut source = Source::attach(&Options {
        pid: target.child.id(),
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
    if skipped() {
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
    // What nothing tells of: who came and went while a woken thread was on its way.
    assert!(
        compared.unobserved_ns * 10 <= compared.wait_ns,
        "unobserved: {compared:?}"
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
    if skipped() {
        return;
    }
    let target = Target::start_for(variant, true, 30, 1_200);
    let mut source = Source::attach(&Options {
        pid: target.child.id(),
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

/// A throw-away server, if it is installed.
fn server(flavour: Flavour) -> Option<Sandbox> {
    if skipped() {
        return None;
    }
    match Sandbox::start(&SandboxSpec::new(flavour)) {
        Ok(server) => Some(server),
        Err(why) => {
            let required = std::env::var("WAGGLE_REQUIRE").unwrap_or_default();
            let name = flavour.name();
            assert!(!required.split(',').any(|r| r == name), "{name}: {why}");
            println!("skipped: {name}: {why}");
            None
        }
    }
}

fn of_server(server: &Sandbox, flavour: Flavour) -> Source {
    Source::attach(&Options {
        pid: server.pid(),
        flavour: Some(flavour),
        ring_bytes: 16 << 20,
        usdt: None,
        futexes: true,
        rw_locks: false,
    })
    .unwrap()
}

/// Sessions that insert and commit, which share the log and the table, until `is_enough`.
fn under_load(
    server: &Sandbox,
    source: &mut Source,
    mut is_enough: impl FnMut(&[Wait]) -> bool,
) -> Vec<Wait> {
    let mut first = Connection::connect(&server.dsn_socket()).unwrap();
    first.query(b"CREATE DATABASE d").unwrap();
    let table = b"CREATE TABLE d.t (a BIGINT AUTO_INCREMENT PRIMARY KEY, b INT, KEY (b))";
    first.query(table).unwrap();
    let over = std::sync::atomic::AtomicBool::new(false);
    let mut waits: Vec<Wait> = Vec::new();
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..24 {
            scope.spawn(|| {
                let mut connection = Connection::connect(&server.dsn_socket()).unwrap();
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    connection
                        .query(b"INSERT INTO d.t (b) VALUES (1), (2)")
                        .unwrap();
                }
            });
        }
        while !is_enough(&waits) && began.elapsed() < DEADLINE {
            source.poll(|wait| waits.push(wait.clone()));
            // sleep: between two looks at the ring
            std::thread::sleep(Duration::from_millis(5));
        }
        over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    source.finish(|wait| waits.push(wait.clone()));
    waits
}

/// Prints what a user would see, so that a failure can be understood.
fn show(source: &mut Source) {
    let counters = source.counters();
    println!("{counters:?} {:?}", source.probe_counters());
    for (name, runs, ns) in source.run_times() {
        println!("  {name}: {runs} runs, {} ns each", ns / runs.max(1));
    }
    for row in source.table.rows().iter().take(8) {
        let share = |ns: u64| 100.0 * ns as f64 / row.total_ns.max(1) as f64;
        println!(
            "{} {}: {} latches, {:?}, held {:.1}%, handing over {:.1}%, unobserved {:.1}%, \
             word {}/{}",
            source.naming.text(row.name),
            row.kind.as_str(),
            row.latches.len(),
            row.spread(),
            share(row.held_ns),
            share(row.handing_over_ns),
            share(row.unobserved_ns),
            row.word_agrees,
            row.word_agrees + row.word_differs,
        );
        let mut requests: Vec<_> = row.requests.iter().collect();
        requests.sort_by_key(|(_, request)| std::cmp::Reverse(request.wait_ns));
        for ((at, mode, stack), request) in requests.into_iter().take(2) {
            let at = at.map(|at| source.naming.request(at));
            let calls = stack.map(|stack| source.naming.stack(&source.stacks, stack));
            println!("   asked {at:?} {mode:?} {request:?} {:.8?}", calls);
        }
        let mut holders: Vec<_> = row.holders.iter().collect();
        holders.sort_by_key(|(_, holder)| std::cmp::Reverse(holder.blocked_ns));
        for (key, holder) in holders.into_iter().take(2) {
            let calls = key
                .stack
                .map(|stack| source.naming.stack(&source.stacks, stack));
            println!(
                "   held {:.1}% {} {:?} {calls:?}",
                share(holder.blocked_ns),
                source.naming.text(key.role),
                holder.hold(),
            );
        }
    }
}

#[test]
fn innodb_latches_of_mysql_have_names_places_and_holders() {
    let Some(server) = server(Flavour::MySql) else {
        return;
    };
    let mut source = of_server(&server, Flavour::MySql);
    assert_eq!(source.found().missing, []);
    let refused = source.found().placed.iter().filter(|p| p.refused.is_some());
    assert_eq!(refused.count(), 0, "{:?}", source.found().placed);
    let is_mutex = |wait: &&Wait| wait.kind == Kind::Mutex;
    let waits = under_load(&server, &mut source, |waits| {
        waits.iter().filter(is_mutex).count() >= 300
    });
    show(&mut source);
    let of_mutexes: Vec<&Wait> = waits.iter().filter(is_mutex).collect();
    assert!(of_mutexes.len() >= 300, "{}", of_mutexes.len());
    let sum = |of: fn(&Wait) -> u64| of_mutexes.iter().map(|wait| of(wait)).sum::<u64>();
    let wait_ns = sum(|wait| wait.to_ns - wait.from_ns);
    assert_eq!(wait_ns, sum(|wait| wait.parts.total_ns()));
    assert!(sum(|wait| wait.parts.held_ns()) * 2 > wait_ns);
    let agreed = of_mutexes
        .iter()
        .filter(|w| w.word_agrees == Some(true))
        .count();
    let differed = of_mutexes
        .iter()
        .filter(|w| w.word_agrees == Some(false))
        .count();
    assert!(
        agreed > 50 * differed,
        "the owner's word: {agreed} agree, {differed} differ"
    );
    for wait in of_mutexes {
        let name = source.naming.text(source.naming.latch(wait.latch));
        assert!(
            name.chars()
                .all(|c| c.is_ascii_uppercase() || "_0123456789".contains(c)),
            "{name}"
        );
        let at = source.naming.request(wait.request.expect("file and line"));
        assert!(
            at.contains(".cc:") || at.contains(".h:") || at.contains(".ic:"),
            "{at}"
        );
    }
}

#[test]
fn innodb_latches_of_mariadb_are_words_with_holders() {
    let Some(server) = server(Flavour::MariaDb) else {
        return;
    };
    let mut source = of_server(&server, Flavour::MariaDb);
    let is_word = |wait: &&Wait| wait.kind == Kind::Futex;
    let waits = under_load(&server, &mut source, |waits| {
        waits.iter().filter(is_word).count() >= 300
    });
    show(&mut source);
    let of_words: Vec<&Wait> = waits.iter().filter(is_word).collect();
    assert!(of_words.len() >= 300, "{}", of_words.len());
    for wait in &of_words {
        assert_eq!(wait.parts.total_ns(), wait.to_ns - wait.from_ns);
    }
    assert!(of_words.iter().any(|wait| !wait.parts.held.is_empty()));
}
