//! `waggle profile` as a user runs it: on a command, on a process, on several, by signal; and what
//! it refuses.

mod several;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use waggle_need::can_probe;

/// A loop in a shell: some CPU time in a program that is there everywhere.
const BUSY: &str = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";

fn waggle(arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_waggle"))
        .args(arguments)
        .output();
    output.expect("waggle runs")
}

fn run_of(root: &Path) -> PathBuf {
    let mut runs = fs::read_dir(root).expect("runs").flatten();
    runs.next().expect("a run").path()
}

/// A shell that is busy; killed with the test.
struct Shell(Child);

impl Shell {
    fn start(script: &str) -> Self {
        let child = Command::new("sh").args(["-c", script]).spawn();
        Self(child.expect("a shell"))
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_command_is_profiled_from_its_beginning_to_its_end() {
    if !can_probe() {
        return;
    }
    let root = tempfile::tempdir().expect("a folder");
    let out = root.path().to_str().expect("a path");
    let formats = "svg,folded,pprof,firefox";
    let output = waggle(&[
        "profile",
        "--json",
        "--out",
        out,
        "--hz",
        "999",
        "--kernel",
        "--off-cpu",
        "--format",
        formats,
        "--command",
        "sh",
        "-c",
        &format!("echo said by the command; {BUSY}"),
    ]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("said by the command"), "{said}");
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let samples = document["times"]["on-cpu"]["samples"].as_u64();
    assert!(samples.is_some_and(|n| n > 20), "{document:#}");
    assert_eq!(document["lost"]["samples"], 0, "{document:#}");
    let run = run_of(root.path());
    let read = |name: &str| fs::read(run.join(name)).expect(name);
    assert!(String::from_utf8_lossy(&read("flame-on-cpu.svg")).contains("</svg>"));
    let folded = read("on-cpu.folded");
    assert!(String::from_utf8_lossy(&folded).lines().count() > 3);
    assert_eq!(read("profile.pb.gz")[..2], [0x1f, 0x8b]);
    let firefox: Value = serde_json::from_slice(&read("profile.firefox.json")).expect("JSON");
    assert!(firefox["threads"].as_array().is_some_and(|t| !t.is_empty()));
    assert!(String::from_utf8_lossy(&read("report.html")).contains("<html"));
    let profile: Value = serde_json::from_slice(&read("profile.json")).expect("JSON");
    assert_eq!(profile["frequency_hz"], 999);
    // It can be shown again.
    let shown = waggle(&["report", run.to_str().expect("a path")]);
    assert_eq!(shown.status.code(), Some(0));
    assert!(!shown.stdout.is_empty());
}

#[test]
fn a_command_that_fails_is_said_to() {
    if !can_probe() {
        return;
    }
    let root = tempfile::tempdir().expect("a folder");
    let out = root.path().to_str().expect("a path");
    let output = waggle(&["profile", "--out", out, "--command", "sh", "-c", "exit 3"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the command failed"), "{said}");
}

#[test]
fn a_command_has_the_input_it_was_given_and_ends_with_all_it_started() {
    if !can_probe() {
        return;
    }
    let root = tempfile::tempdir().expect("a folder");
    let note = root.path().join("note");
    let script = format!(
        "read -r line; sleep 60 & echo $line $! >{}; wait",
        note.display()
    );
    let (input, mut give) = std::os::unix::net::UnixStream::pair().expect("sockets");
    give.write_all(b"given\n").expect("a line");
    let output = Command::new(env!("CARGO_BIN_EXE_waggle"))
        .args(["profile", "--seconds", "2", "--out"])
        .arg(root.path().join("runs"))
        .args(["--command", "sh", "-c", &script])
        .stdin(std::os::fd::OwnedFd::from(input))
        .output()
        .expect("waggle runs");
    let said = String::from_utf8_lossy(&output.stderr);
    // That it was ended is no failure of the command.
    assert_eq!(output.status.code(), Some(0), "{said}");
    let note = fs::read_to_string(note).expect("the command ran");
    let (line, pid) = note.trim().split_once(' ').expect("two words");
    assert_eq!(line, "given");
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "{stat}");
}

/// Reads lines until one has these words.
fn wait_for(lines: &mut impl BufRead, words: &str) {
    let mut line = String::new();
    while !line.contains(words) {
        line.clear();
        assert!(
            lines.read_line(&mut line).expect("stderr") > 0,
            "no {words:?}"
        );
    }
}

#[test]
fn a_signal_switches_it_on_and_off() {
    if !can_probe() {
        return;
    }
    let root = tempfile::tempdir().expect("a folder");
    let shell = Shell::start("while :; do :; done");
    let mut child = Command::new(env!("CARGO_BIN_EXE_waggle"))
        .args(["profile", "--json", "--signal", "USR2", "--hz", "999"])
        .args(["--pid", &shell.0.id().to_string(), "--out"])
        .arg(root.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("waggle");
    let mut lines = BufReader::new(child.stderr.take().expect("piped"));
    wait_for(&mut lines, "profiling");
    let signal = |signal| {
        let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).expect("a pid");
        rustix::process::kill_process(pid, signal).expect("a signal");
    };
    // It is on for no longer than from before the one signal until after the other.
    let began = Instant::now();
    signal(rustix::process::Signal::USR2);
    wait_for(&mut lines, "switched on");
    // sleep: what is recorded is time.
    std::thread::sleep(Duration::from_millis(400));
    signal(rustix::process::Signal::USR2);
    wait_for(&mut lines, "switched off");
    let on_s = began.elapsed().as_secs_f64();
    // sleep: time that is not to be recorded.
    std::thread::sleep(Duration::from_millis(600));
    signal(rustix::process::Signal::INT);
    let mut text = String::new();
    let mut stdout = child.stdout.take().expect("piped");
    stdout.read_to_string(&mut text).expect("stdout");
    assert_eq!(child.wait().expect("its end").code(), Some(0));
    let document: Value = serde_json::from_str(&text).expect("JSON");
    let duration_s = document["duration_s"].as_f64().expect("a duration");
    assert!(
        duration_s > 0.0 && duration_s < on_s + 0.5,
        "{duration_s} of {on_s} s"
    );
}

#[test]
fn what_cannot_be_profiled_is_refused_and_nothing_is_left() {
    let root = tempfile::tempdir().expect("a folder");
    let out = root.path().join("runs");
    let out = out.to_str().expect("a path");
    let refused = |arguments: &[&str], words: &str| {
        let output = waggle(&[&["profile", "--out", out], arguments].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    };
    refused(&["--pid", "1", "--hz", "0"], "--hz 0");
    refused(&["--pid", "1", "--seconds", "nan"], "--seconds");
    refused(&["--pid", "1", "--signal", "HUP"], "USR1 or USR2");
    refused(&[], "--pid");
    if can_probe() {
        refused(&["--pid", "4194303"], "no process 4194303");
        refused(&["--pid", "2"], "no program of its own");
        refused(&["--command", "/nonexistent/program"], "starting");
    }
    assert!(!Path::new(out).exists(), "nothing was touched");
}
