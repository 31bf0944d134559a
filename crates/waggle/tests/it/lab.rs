//! `waggle lab run` and `waggle report`: a short experiment on a real server, whole and cut short.

mod arms;
mod base;
mod resume;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use waggle_server::Flavour;

use crate::watch::stage::{Running, can_watch, turn, waggle, wait_until};

/// Starts a lab run with one arm of its own; `runs` is where its run directory goes.
fn start(runs: &Path, arms: &[&str], windows: &str) -> Running {
    let mut command = waggle(&["lab", "run", "--sandbox", "mariadb", "--json"]);
    command.args([
        "--threads",
        "4",
        "--table-size",
        "1000",
        "--windows",
        windows,
        "--runs",
    ]);
    command.arg(runs);
    for arm in arms {
        command.args(["--arm", arm]);
    }
    Running::start(command.process_group(0))
}

/// Ctrl-C at a terminal, which is for everything in the foreground; the process was started as a
/// group of its own.
pub(crate) fn press_ctrl_c(running: &Running) {
    let group = i32::try_from(running.pid()).expect("a pid");
    // SAFETY: the group of our own child, not yet waited for.
    assert_eq!(unsafe { libc::kill(-group, libc::SIGINT) }, 0);
}

/// The one run directory below `runs`.
fn run_directory(runs: &Path) -> PathBuf {
    let entries: Vec<_> = std::fs::read_dir(runs).expect("runs").flatten().collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
    entries[0].path()
}

/// Processes whose parent is `pid`, or that were started by it as a guardian of a server.
fn descendants(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(child) = entry
            .file_name()
            .to_str()
            .and_then(|n| n.parse::<u32>().ok())
        else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        let parent = stat
            .rsplit_once(") ")
            .and_then(|(_, rest)| rest.split(' ').nth(1)?.parse::<u32>().ok());
        if parent == Some(pid) {
            found.push(child);
            found.extend(descendants(child));
        }
    }
    found
}

fn exists(pid: &u32) -> bool {
    // A process that ended and is not yet waited for has no executable.
    std::fs::read_link(format!("/proc/{pid}/exe")).is_ok()
}

/// An arm has an interval around its estimate, a ratio and a verdict.
fn assert_intervals(arm: &Value) {
    let cpu = &arm["server_cpu_us_per_statement"];
    let bound = |name: &str| {
        cpu[name]
            .as_f64()
            .unwrap_or_else(|| panic!("{name}: {arm}"))
    };
    assert!(
        bound("low") <= bound("delta") && bound("delta") <= bound("high"),
        "{arm}"
    );
    assert!(bound("base") > 0.0, "{arm}");
    assert!(
        arm["qps_ratio"]["estimate"].as_f64().expect("a ratio") > 0.0,
        "{arm}"
    );
    let verdict = arm["verdict"].as_str().expect("a verdict");
    assert!(["costs", "saves", "no-difference", "not-enough-evidence"].contains(&verdict));
}

#[test]
fn a_run_captures_every_statement_and_its_report_can_be_made_again() {
    let _turn = turn();
    if !can_watch(Flavour::MariaDb) {
        return;
    }
    let runs = tempfile::tempdir().expect("a folder");
    let ended = start(runs.path(), &["watch", "general-log"], "8").end();
    let document: Value = serde_json::from_str(&ended.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}\n{}", ended.stdout, ended.stderr));
    // A noisy moment may spoil the A/A arm; then, and only then, the run says so and fails.
    let clean = document["aa_clean"].as_bool().expect("aa_clean");
    assert_eq!(
        ended.status.code(),
        Some(i32::from(!clean)),
        "{}",
        ended.stderr
    );
    let arms = document["arms"].as_array().expect("arms");
    let names: Vec<&str> = arms
        .iter()
        .map(|a| a["arm"].as_str().expect("a name"))
        .collect();
    assert_eq!(names, ["none-again", "watch", "general-log"]);
    let watch = &arms[1];
    assert_eq!(watch["captured"], watch["executed"], "{watch}");
    assert!(
        watch["executed"].as_u64().expect("a count") > 1000,
        "{watch}"
    );
    assert_eq!(watch["lost"]["ring_full"], 0, "{watch}");
    arms.iter().for_each(assert_intervals);
    let directory = run_directory(runs.path());
    let page = std::fs::read_to_string(directory.join("report.html")).expect("the page");
    assert_eq!(
        Path::new(document["report"].as_str().expect("a path")).file_name(),
        Some("report.html".as_ref())
    );
    assert!(page.contains("waggle-lab-report"));
    let again = waggle(&["report"])
        .arg(&directory)
        .output()
        .expect("it runs");
    assert!(
        again.status.success(),
        "{}",
        String::from_utf8_lossy(&again.stderr)
    );
    let text = String::from_utf8_lossy(&again.stdout);
    assert!(
        text.contains("none-again") && text.contains("general-log"),
        "{text}"
    );
}

#[test]
fn an_interrupted_run_reports_what_there_is_and_leaves_nothing() {
    let _turn = turn();
    if !can_watch(Flavour::MariaDb) {
        return;
    }
    let runs = tempfile::tempdir().expect("a folder");
    let running = start(runs.path(), &["watch"], "500");
    let samples = |runs: &Path| {
        let file = run_directory(runs).join("samples.jsonl");
        std::fs::read_to_string(file)
            .unwrap_or_default()
            .lines()
            .count()
    };
    wait_until("some windows were measured", || {
        std::fs::read_dir(runs.path()).is_ok_and(|e| e.count() == 1) && samples(runs.path()) > 3
    });
    let started = descendants(running.pid());
    assert!(started.len() >= 2, "a server and an observer: {started:?}");
    press_ctrl_c(&running);
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("interrupted"), "{}", ended.stderr);
    let directory = run_directory(runs.path());
    assert!(directory.join("report.html").exists());
    let samples = std::fs::read_to_string(directory.join("samples.jsonl")).expect("samples");
    // A resumed run would not measure it.
    assert!(!samples.contains("stopped"), "no arm was: {samples}");
    wait_until("all it started is gone", || !started.iter().any(exists));
}

#[test]
fn a_killed_run_leaves_neither_server_nor_probe() {
    let _turn = turn();
    if !can_watch(Flavour::MariaDb) {
        return;
    }
    let runs = tempfile::tempdir().expect("a folder");
    let running = start(runs.path(), &["watch"], "500");
    let file = || run_directory(runs.path()).join("samples.jsonl");
    wait_until("some windows were measured", || {
        std::fs::read_dir(runs.path()).is_ok_and(|e| e.count() == 1)
            && std::fs::read_to_string(file())
                .unwrap_or_default()
                .lines()
                .count()
                > 3
    });
    let started = descendants(running.pid());
    running.signal(libc::SIGKILL);
    running.end();
    wait_until("all it started is gone", || !started.iter().any(exists));
    // What was measured can be read.
    let shown = waggle(&["report"])
        .arg(run_directory(runs.path()))
        .output()
        .expect("it runs");
    assert!(
        shown.status.success(),
        "{}",
        String::from_utf8_lossy(&shown.stderr)
    );
}

#[test]
fn unusable_arguments_start_nothing() {
    for (arguments, part) in [
        (&["--budget", "1"][..], "--budget"),
        (&["--window", "0"], "--window"),
        (&["--margin", "2"], "--margin"),
        (&["--threads", "0"], "--threads"),
        (&["--set", "nonsense"], "--set"),
        (&["--arm", "nonsense"], "--arm"),
        (&["--arm", "x:on SET GLOBAL a = 1"], "write both"),
        (&["--arms", "/not/there.toml"], "/not/there.toml"),
        (&["--until", "60%"], "--until"),
        (&["--budget", "10x"], "--budget"),
        (&["--rate", "0"], "--rate"),
        (&["--windows", "0"], "--windows"),
        (&["--limit-cpus", "0"], "--limit-cpus"),
        (&["--option", "nonsense"], "--option"),
        (&["--resume", "/not/there"], "/not/there"),
        // Said before the start, with what is needed.
        (
            &[
                "--sandbox",
                "mariadb",
                "--tables",
                "1000",
                "--table-size",
                "900000000",
            ],
            "too little disk",
        ),
        (
            &[
                "--sandbox",
                "mariadb",
                "--threads",
                "10000",
                "--set",
                "innodb_buffer_pool_size=9T",
                "--table-size",
                "100000000",
            ],
            "too little",
        ),
        (&["--workload", "nonsense"], "nonsense"),
    ] {
        let runs = tempfile::tempdir().expect("a folder");
        let mut command = waggle(&["lab", "run", "--runs"]);
        let output = command
            .arg(runs.path())
            .args(arguments)
            .output()
            .expect("it runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(part), "{arguments:?}: {stderr}");
        assert_eq!(
            std::fs::read_dir(runs.path()).expect("runs").count(),
            0,
            "{arguments:?}"
        );
    }
}
