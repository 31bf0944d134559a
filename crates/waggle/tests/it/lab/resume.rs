//! A run that was killed goes on where it stopped.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::arms::can_run;
use super::run_directory;
use crate::watch::stage::{Running, turn, waggle, wait_until};

/// The lines of `samples.jsonl`; half-written ones are left out.
fn lines(run: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(run.join("samples.jsonl")).unwrap_or_default();
    let lines = text.lines().map(serde_json::from_str);
    lines.filter_map(Result::ok).collect()
}

fn windows(run: &Path) -> Vec<Value> {
    let mut lines = lines(run);
    lines.retain(|line| line.get("start_s").is_some());
    lines
}

#[test]
fn a_killed_run_is_resumed_without_measuring_a_window_again() {
    let _turn = turn();
    if !can_run() {
        return;
    }
    let runs = tempfile::tempdir().expect("a folder");
    let mut command = waggle(&["lab", "run", "--sandbox", "mariadb", "--json"]);
    command.args(["--threads", "2", "--table-size", "500", "--window", "0.05"]);
    command.args([
        "--arm",
        "f:on SET GLOBAL max_error_count = 65; off SET GLOBAL max_error_count = 64",
    ]);
    command.args(["--windows", "40", "--runs"]).arg(runs.path());
    let running = Running::start(&mut command);
    let directory = || run_directory(runs.path());
    wait_until("some windows were measured", || {
        let made = std::fs::read_dir(runs.path()).is_ok_and(|e| e.count() == 1);
        made && windows(&directory()).len() > 20
    });
    running.signal(libc::SIGKILL);
    running.end();
    let directory = directory();
    let before = windows(&directory);

    let mut command = waggle(&["lab", "run", "--json", "--resume"]);
    let ended = Running::start(command.arg(&directory)).end();
    let document: Value = serde_json::from_str(&ended.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}\n{}", ended.stdout, ended.stderr));
    let after = windows(&directory);
    assert!(
        after.len() > before.len(),
        "{} and {}",
        before.len(),
        after.len()
    );
    assert_eq!(after[..before.len()], before[..], "what was there stands");
    let starts: Vec<u64> = after
        .iter()
        .map(|window| (window["start_s"].as_f64().expect("a time") * 1e6) as u64)
        .collect();
    let different: BTreeSet<u64> = starts.iter().copied().collect();
    assert_eq!(different.len(), starts.len(), "no window is there twice");
    assert!(starts.is_sorted(), "time goes on");
    // Another server: another life, so its windows are no neighbours of the earlier ones.
    let life = |window: &Value| window["life"].as_u64().expect("a life");
    assert!(after[before.len()..].iter().all(|window| life(window) > 0));
    // All of them are in the report.
    let f = document["arms"]
        .as_array()
        .expect("arms")
        .iter()
        .find(|arm| arm["arm"] == "f");
    let measured = after.iter().filter(|window| window["name"] == "f").count();
    assert_eq!(
        measured, 40,
        "as many as were asked for, those before the kill among them"
    );
    assert_eq!(f.expect("the arm")["windows"], measured);
    let events: Vec<Value> = lines(&directory);
    assert!(events.iter().any(|line| line["event"] == "resumed"));

    refuses_another_meaning(&directory);
}

/// A run whose flags mean something else now is not mixed with what it has.
fn refuses_another_meaning(directory: &Path) {
    let facts = directory.join("run.json");
    let text = std::fs::read_to_string(&facts).expect("the facts");
    std::fs::write(
        &facts,
        text.replace("max_error_count = 65", "max_error_count = 66"),
    )
    .expect("written");
    let changed = text.matches("max_error_count = 65").count();
    assert!(changed >= 2, "the command line and the cells name it");
    let text = std::fs::read_to_string(&facts).expect("the facts");
    std::fs::write(
        &facts,
        text.replacen("max_error_count = 66", "max_error_count = 67", 1),
    )
    .expect("written");
    let refused = waggle(&["lab", "run", "--resume"])
        .arg(directory)
        .output()
        .expect("it runs");
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("is not what its command line says now"),
        "{stderr}"
    );
}
