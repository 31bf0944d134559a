//! `tests/targets/shares.c`: shares of CPU time and lengths of sleeps that the program notes
//! itself.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use waggle_need::{can_compile, can_probe};
use waggle_profile::model::{Kind, Profile};
use waggle_profile::{Recorder, RecorderOptions};

/// How a compiler makes frames, or leaves them out.
const OMITTED: &[&str] = &["-fomit-frame-pointer"];
const KEPT: &[&str] = &["-fno-omit-frame-pointer"];
const KEPT_BUT_IN_LEAVES: &[&str] = &["-fno-omit-frame-pointer", "-momit-leaf-frame-pointer"];

fn compile(folder: &Path, flags: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/targets/shares.c");
    let program = folder.join("shares");
    let built = Command::new("cc")
        .args(["-O2", "-g", "-Wall", "-Werror", "-pthread", "-o"])
        .args([&program, &source])
        .args(flags)
        .output()
        .expect("a C compiler");
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{said}");
    program
}

/// The program; killed if the test fails.
struct Target {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Target {
    fn start(program: &Path, cpu_ms: u32) -> Self {
        let mut child = Command::new(program)
            .args([cpu_ms.to_string(), "2".to_owned()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the target");
        let lines = BufReader::new(child.stdout.take().expect("piped"));
        let mut target = Self { child, lines };
        assert_eq!(target.line(), "ready");
        target
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        line.trim().to_owned()
    }

    /// Lets it work; what it says of itself: the last number of each line, by the first word.
    fn work(&mut self) -> BTreeMap<String, u64> {
        let mut input = self.child.stdin.as_ref().expect("piped");
        input.write_all(b"\n").expect("its input");
        let mut truth = BTreeMap::new();
        loop {
            let line = self.line();
            if line == "done" {
                return truth;
            }
            let (name, rest) = line.split_once(' ').expect("a name and numbers");
            let last = rest.rsplit(' ').next().and_then(|n| n.parse().ok());
            truth.insert(name.to_owned(), last.expect("a number"));
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn recorded(
    flags: &[&str],
    cpu_ms: u32,
    options: RecorderOptions,
) -> (Profile, BTreeMap<String, u64>) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(&compile(folder.path(), flags), cpu_ms);
    let recorder = Recorder::start(RecorderOptions {
        pids: vec![target.child.id()],
        ..options
    });
    let recorder = recorder.expect("it can be recorded");
    let truth = target.work();
    let profile = recorder.stop().expect("a profile");
    println!("{truth:?}\n{:?}\n{:?}", profile.lost, profile.notes);
    (profile, truth)
}

/// Time of these kinds, by the first of the functions that the stack has.
fn times(profile: &Profile, kinds: &[Kind], role: &str, names: &[&str]) -> BTreeMap<String, u64> {
    let mut times = BTreeMap::new();
    for entry in &profile.entries {
        if !kinds.contains(&entry.kind) || *profile.who(entry.who).role != *role {
            continue;
        }
        let calls: Vec<&str> = profile.frames_of(entry.stack).map(|f| &*f.name).collect();
        let found = names.iter().find(|name| calls.contains(name));
        if found.is_none() {
            println!("{} ns in {calls:?}", entry.ns);
        }
        *times
            .entry(found.unwrap_or(&"other").to_string())
            .or_default() += entry.ns;
    }
    times
}

/// `points`: how far a share may be off; without, as far as so many draws may.
fn check_shares(flags: &[&str], cpu_ms: u32, frequency_hz: u32, points: Option<f64>) {
    if !can_compile() || !can_probe() {
        return;
    }
    let options = RecorderOptions {
        frequency_hz,
        kernel: true,
        ..RecorderOptions::default()
    };
    let (profile, truth) = recorded(flags, cpu_ms, options);
    let names = ["first", "second", "third"];
    let seen = times(&profile, &[Kind::OnCpu], "worker", &names);
    let all: u64 = seen.values().sum();
    let sum: u64 = names.iter().map(|name| truth[*name]).sum();
    let of_work = profile
        .entries
        .iter()
        .filter(|entry| entry.kind == Kind::OnCpu && *profile.who(entry.who).role == *"worker");
    let samples: u64 = of_work.map(|entry| entry.samples).sum();
    let mut off = Vec::new();
    for name in names {
        let (seen, truth) = (
            seen.get(name).copied().unwrap_or(0) as f64 / all as f64,
            truth[name] as f64 / sum as f64,
        );
        println!(
            "{name}: {:.2}% seen, {:.2}% true",
            100.0 * seen,
            100.0 * truth
        );
        // Samples are at worst independent of one another, where others share the processors: each
        // is then one draw.
        let drawn = 4.5 * (truth * (1.0 - truth) / samples as f64).sqrt();
        let bound = points.map_or(drawn, |points| points / 100.0);
        if (seen - truth).abs() > bound {
            off.push((name, seen, truth, bound));
        }
    }
    println!("{all} ns sampled, {sum} ns true, {:?}", profile.processes);
    assert_eq!(off, [], "too far off");
    // Also an interrupt before a function has made its frame has its callers.
    let other = seen.get("other").copied().unwrap_or(0);
    assert!(
        other * 200 <= all,
        "{other} of {all} ns in none of the functions"
    );
    assert!(profile.lost.truncated * 200 <= profile.entries.iter().map(|e| e.samples).sum());
    assert_eq!(profile.lost.samples, 0, "the ring held all");
    // What samples stand for is the time that the kernel accounts for.
    let accounted = profile.processes[0].cpu_ns.expect("it lives") as f64;
    let sampled = profile.total_ns(Kind::OnCpu) as f64;
    assert!(
        (sampled / accounted - 1.0).abs() < 0.1,
        "{sampled} of {accounted} ns"
    );
}

#[test]
fn shares_are_right_at_99_hz() {
    check_shares(OMITTED, 30_000, 99, None);
}

#[test]
fn shares_are_right_with_frame_pointers() {
    check_shares(KEPT, 6_000, 997, Some(2.0));
}

#[test]
fn shares_are_right_where_leaves_have_no_frame() {
    check_shares(KEPT_BUT_IN_LEAVES, 6_000, 997, Some(2.0));
}

#[test]
fn sleeps_and_waits_have_their_length() {
    if !can_compile() || !can_probe() {
        return;
    }
    let options = RecorderOptions {
        off_cpu: true,
        timeline: true,
        ..RecorderOptions::default()
    };
    let (profile, truth) = recorded(OMITTED, 3_000, options);
    let away = [Kind::OffCpu, Kind::Runnable];
    for (role, name) in [("sleeper", "naps"), ("waiter", "waits")] {
        let seen = times(&profile, &away, role, &[name]);
        let (seen, truth) = (seen.get(name).copied().unwrap_or(0), truth[name]);
        let apart = (seen as f64 / truth as f64 - 1.0).abs();
        println!(
            "{name}: {seen} ns seen, {truth} ns true, {:.2}% apart",
            100.0 * apart
        );
        // Of switches that the kernel did not announce, the time is not seen, and they are counted.
        assert!(apart <= 0.02, "{name}: {seen} ns, in truth {truth} ns");
    }
    let whole: u64 = profile.timeline.iter().map(|timed| timed.ns).sum();
    let sums: u64 = profile.entries.iter().map(|entry| entry.ns).sum();
    assert_eq!(whole, sums, "one by one it is the same time");
    let asleep = profile.entries.iter().filter(|e| e.kind == Kind::OffCpu);
    for entry in asleep {
        let last = profile.frames_of(entry.stack).next_back().expect("a frame");
        assert!(last.kernel, "what it waited for stands last: {last:?}");
    }
}

#[test]
fn while_it_is_switched_off_nothing_is_recorded() {
    if !can_compile() || !can_probe() {
        return;
    }
    let options = RecorderOptions {
        off_cpu: true,
        paused: true,
        ..RecorderOptions::default()
    };
    let (profile, _) = recorded(OMITTED, 300, options);
    assert_eq!((profile.entries.len(), profile.duration_ns), (0, 0));
}

#[test]
fn lines_and_inlined_functions_are_known_on_request() {
    if !can_compile() || !can_probe() {
        return;
    }
    let options = RecorderOptions {
        frequency_hz: 997,
        lines: true,
        inlined: true,
        by_thread: true,
        ..RecorderOptions::default()
    };
    let (profile, _) = recorded(OMITTED, 500, options);
    let has = |name: &str, inlined: bool| {
        let mut frames = profile.frames.iter();
        let is = |f: &&waggle_profile::model::Frame| *f.name == *name && f.inlined == inlined;
        frames.find(is).cloned()
    };
    let leaf = has("leaf", false).expect("the leaf");
    assert!(leaf.file.expect("a file").ends_with("shares.c"));
    assert!(leaf.line.is_some_and(|line| line > 0));
    // A function that the compiler puts into its caller, and that all work is done from.
    assert!(has("steps", true).is_some(), "{:?}", profile.frames);
    let threads = profile.whos.iter().filter_map(|who| who.thread.as_deref());
    assert!(threads.filter(|name| name.starts_with("worker-1 ")).count() >= 2);
}
