//! Arms of users: what is measured, and what is stopped, undone and reported.

use std::path::Path;

use serde_json::Value;
use waggle_need::need;
use waggle_server::Flavour;

use super::{assert_intervals, run_directory};
use crate::watch::stage::{Ended, Running, turn, waggle, wait_until};

/// True if throw-away MariaDB servers can be had; no probe is needed here.
pub(super) fn can_run() -> bool {
    let installed = waggle_server::install::installed_servers();
    let has = installed
        .iter()
        .any(|server| server.flavour == Flavour::MariaDb);
    need("mariadb", has, "no MariaDB server is installed")
}

/// Runs a short experiment with these arms, given as flags, to its end.
fn run(runs: &Path, windows: &str, arms: &[&str]) -> (Ended, Value) {
    let mut command = waggle(&["lab", "run", "--sandbox", "mariadb", "--json"]);
    command.args(["--threads", "2", "--table-size", "500", "--window", "0.05"]);
    command.args(["--windows", windows, "--runs"]).arg(runs);
    for arm in arms {
        command.args(["--arm", arm]);
    }
    let ended = Running::start(&mut command).end_by_lines();
    let document = serde_json::from_str(&ended.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}\n{}", ended.stdout, ended.stderr));
    (ended, document)
}

fn arm<'a>(document: &'a Value, name: &str) -> &'a Value {
    let mut arms = document["arms"].as_array().expect("arms").iter();
    arms.find(|arm| arm["arm"] == name)
        .unwrap_or_else(|| panic!("no arm {name}: {document}"))
}

/// The arm was stopped, and says why.
fn assert_stopped(document: &Value, name: &str, part: &str) {
    let arm = arm(document, name);
    let note = arm["note"].as_str().unwrap_or_default();
    assert!(
        note.contains("stopped") && note.contains(part),
        "{name}: {arm}"
    );
    assert_eq!(arm["verdict"], "not-enough-evidence", "{arm}");
    let notes = document["notes"].to_string();
    assert!(
        notes.contains(&format!("Arm {name} was stopped")),
        "{notes}"
    );
}

/// What was given as a password is nowhere in what is kept.
fn assert_no_file_has(directory: &Path, secret: &str) {
    for entry in std::fs::read_dir(directory).expect("the run").flatten() {
        let bytes = std::fs::read(entry.path()).expect("a file");
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains(secret), "{}", entry.path().display());
    }
}

#[test]
fn arms_that_do_not_switch_back_are_stopped_and_the_others_go_on() {
    let _turn = turn();
    if !can_run() {
        return;
    }
    let runs = tempfile::tempdir().expect("a folder");
    let marker = runs.path().join("left");
    let script = runs.path().join("leaves.sh");
    std::fs::write(
        &script,
        format!(
            "setsid sleep 600 & echo $! > {}; echo ready; wait\n",
            marker.display()
        ),
    )
    .expect("a script");
    let leaves = format!(
        "leaves:run sh {} --password pl4nted -ppl4nted;ready ready",
        script.display()
    );
    let (ended, document) = run(
        runs.path(),
        "8",
        &[
            "stuck:on SET GLOBAL long_query_time = 3; off SELECT 1",
            "refused:on SET GLOBAL no_such_variable = 1; off SELECT 1",
            "secret:on ALTER USER nobody_here IDENTIFIED BY 'pl4nted'; off SELECT 1",
            "half:on SET GLOBAL max_connect_errors = 77; on SET GLOBAL nonsense = 1; \
             off SET GLOBAL max_connect_errors = 100",
            "logs:on SET GLOBAL general_log = ON; off SET GLOBAL general_log = OFF",
            "ends:run true",
            "missing:run /not/there/at/all",
            &leaves,
            "fine:on SET GLOBAL max_error_count = 65; off SET GLOBAL max_error_count = 64",
            "tail:run tail -f /dev/null",
        ],
    );
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert_stopped(
        &document,
        "stuck",
        "long_query_time is 3.000000 and was 10.000000",
    );
    assert_stopped(&document, "stuck", "that was undone");
    assert_stopped(&document, "refused", "no_such_variable");
    assert_stopped(&document, "secret", "it could not be switched on");
    let page = Path::new(document["report"].as_str().expect("the page"));
    assert_no_file_has(page.parent().expect("the run"), "pl4nted");
    assert_stopped(&document, "half", "nonsense");
    assert_stopped(&document, "logs", "in the data directory; that was undone");
    assert_stopped(&document, "ends", "ended by itself");
    assert_stopped(&document, "missing", "/not/there/at/all");
    assert_stopped(&document, "leaves", "(sleep) still runs; that was undone");
    let pid = std::fs::read_to_string(&marker).expect("the process was started");
    let alive = std::fs::read_link(format!("/proc/{}/exe", pid.trim()));
    assert!(alive.is_err(), "what the arm left was ended: {alive:?}");
    for name in ["none-again", "fine", "tail"] {
        assert_intervals(arm(&document, name));
    }
    let tail = arm(&document, "tail");
    assert!(
        tail["tool"]["rss_bytes"].as_u64().expect("memory") > 0,
        "{tail}"
    );
    assert_eq!(tail["switched_by"][0], "tail -f /dev/null", "{tail}");
}

#[test]
fn a_server_that_dies_costs_its_window_and_an_arm_that_kills_it_is_stopped() {
    let _turn = turn();
    if !can_run() {
        return;
    }
    let runs = tempfile::tempdir().expect("a folder");
    let script = runs.path().join("kills.sh");
    std::fs::write(
        &script,
        "kill -9 $WAGGLE_SERVER_PID; echo done; exec sleep 600\n",
    )
    .expect("a script");
    let kills = format!("kills:run sh {};ready done", script.display());
    let harmless = "fine:on SET GLOBAL max_error_count = 65; off SET GLOBAL max_error_count = 64";
    let (ended, document) = run(runs.path(), "8", &[&kills, harmless]);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert_stopped(&document, "kills", "the server was lost under it 2 times");
    assert_intervals(arm(&document, "none-again"));
    assert_intervals(arm(&document, "fine"));
    let notes = document["notes"].to_string();
    assert!(
        notes.contains("Server life 0 was lost under kills"),
        "{notes}"
    );
}

#[test]
fn errors_under_one_arm_only_are_a_finding_and_no_verdict() {
    let _turn = turn();
    if !can_run() {
        return;
    }
    let runs = tempfile::tempdir().expect("a folder");
    let hides = "hides:on RENAME TABLE sbtest.sbtest1 TO sbtest.gone; \
                 off RENAME TABLE sbtest.gone TO sbtest.sbtest1";
    let (ended, document) = run(runs.path(), "8", &[hides]);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("a finding"), "{}", ended.stderr);
    let hides = arm(&document, "hides");
    let note = hides["note"].as_str().expect("a note");
    assert!(
        note.contains("errors in 0 transactions under it, 0 in"),
        "{note}"
    );
    assert!(note.contains("doesn't exist"), "{note}");
    assert_eq!(hides["verdict"], "not-enough-evidence", "{hides}");
}

#[test]
fn a_file_of_arms_gives_settings_with_an_observer_over_pairs_of_servers() {
    let _turn = turn();
    if !crate::watch::stage::can_watch(Flavour::MariaDb) {
        return;
    }
    let runs = tempfile::tempdir().expect("a folder");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("arms.toml");
    std::fs::write(
        &file,
        "[[arm]]\nname = \"sync+watch\"\nwatch = \"uprobe\"\n\
         settings = { performance_schema = true }\n",
    )
    .expect("a file");
    let mut command = waggle(&["lab", "run", "--sandbox", "mariadb", "--json"]);
    command.args(["--threads", "2", "--table-size", "500", "--window", "0.05"]);
    // An interval over lives needs three windows of each that were not set aside.
    command.args(["--windows", "12", "--runs"]).arg(runs.path());
    let running = Running::start(command.arg("--arms").arg(&file));
    // A pair of servers takes seconds on a busy machine, so each is waited for.
    for pairs in 1..=3 {
        wait_until("another pair of servers was measured", || {
            let made = std::fs::read_dir(runs.path())
                .into_iter()
                .flatten()
                .flatten();
            let samples = made.map(|entry| entry.path().join("samples.jsonl"));
            let texts = samples.map(|path| std::fs::read_to_string(path).unwrap_or_default());
            texts
                .map(|text| text.matches("pair-done").count())
                .sum::<usize>()
                >= pairs
        });
    }
    let ended = running.end();
    let document: Value = serde_json::from_str(&ended.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}\n{}", ended.stdout, ended.stderr));
    let both = arm(&document, "sync+watch");
    assert_eq!(both["kind"], "server-lives", "{both}");
    assert_eq!(both["captured"], both["executed"], "{both}");
    assert_eq!(both["windows"], 3, "{both}");
    assert_intervals(both);
    // Each pair is a life of its own, and whole.
    let directory = run_directory(runs.path());
    let samples = std::fs::read_to_string(directory.join("samples.jsonl")).expect("samples");
    let of_pairs = samples
        .lines()
        .filter(|line| line.contains("\"pair\":true"));
    let windows = of_pairs
        .filter(|line| line.contains("\"name\":\"sync+watch\""))
        .count();
    assert_eq!(windows, 3 * 12);
}
