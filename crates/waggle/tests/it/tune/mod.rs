//! `waggle tune` on real servers: values that a server takes, refuses, does not start with or dies
//! of, and what the run says of them.

mod replica;

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use waggle_need::{is_root, need, skip};
use waggle_server::Flavour;
use waggle_server::install::installed_servers;

use crate::watch::stage::{Running, turn, waggle, wait_until};

/// Flags for blocks of this length, on little data.
fn quick(block: &str) -> Vec<String> {
    let flags = [
        ("--workload", "oltp_write_only"),
        ("--tables", "1"),
        ("--table-size", "500"),
        ("--threads", "2"),
        ("--block", block),
        ("--warm-up", "50ms"),
        ("--warm-up-restarted", "50ms"),
        ("--rounds", "3"),
        ("--budget", "3m"),
        ("--guard", "errors"),
    ];
    let words = flags.iter().flat_map(|(flag, value)| [*flag, *value]);
    words.map(str::to_owned).collect()
}

fn can_start(flavour: Flavour) -> bool {
    let found = installed_servers()
        .into_iter()
        .find(|s| s.flavour == flavour);
    let (there, own_root) = match &found {
        Some(server) => (true, server.root.is_some()),
        None => (false, false),
    };
    need(flavour.name(), there, "no such server is installed")
        && need(
            "root",
            !own_root || is_root(),
            "it runs in a root of its own",
        )
}

fn tune(flavour: Flavour, runs: &Path, flags: &[&str]) -> Output {
    let mut command = waggle(&["tune", "--json", "--sandbox", flavour.name()]);
    command
        .args(quick("200ms"))
        .args(flags)
        .arg("--runs")
        .arg(runs);
    command.output().expect("waggle runs")
}

/// The document of a run that ended well.
fn document(output: &Output) -> Value {
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{words}");
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

fn run_directory(runs: &Path) -> PathBuf {
    let entries: Vec<_> = std::fs::read_dir(runs).expect("runs").flatten().collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
    entries[0].path()
}

/// The configuration of a stage by the value of its only variable.
fn of<'a>(stage: &'a Value, value: &str) -> &'a Value {
    let all = stage["configurations"].as_array().expect("configurations");
    let has = |config: &&Value| {
        let mut values = config["values"].as_object().expect("values").values();
        values.any(|found| found == value)
    };
    all.iter()
        .find(has)
        .unwrap_or_else(|| panic!("{value}: {stage}"))
}

fn shown(run: &Path, format: &str) -> String {
    let mut command = waggle(&["report", "--format", format, "-o", "-"]);
    let output = command.arg(run).output().expect("waggle runs");
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{format}: {words}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// A dynamic variable in place, with a value that the server does not take.
fn in_place(flavour: Flavour) {
    let runs = tempfile::tempdir().expect("a folder");
    let set = ["--set", "innodb_flush_log_at_trx_commit=1,2,9"];
    let report = document(&tune(flavour, runs.path(), &set));
    let stage = &report["stages"][0];
    let present = of(stage, "1");
    assert_eq!(present["present"], true, "{stage}");
    let other = of(stage, "2");
    let bound = |side: &str| other["level"][side].as_f64().expect("a bound");
    assert!(bound("low") <= bound("high"), "{other}");
    assert!(
        other["level"]["estimate"]
            .as_f64()
            .is_some_and(|tps| tps > 0.0)
    );
    assert_eq!(
        (&other["blocks"], &other["restarted"]),
        (&Value::from(3), &Value::Bool(false))
    );
    let refused = of(stage, "9");
    assert_eq!(refused["failure"], "refused", "{refused}");
    assert!(
        refused["why"].as_str().is_some_and(|why| why.contains('9')),
        "{refused}"
    );
    assert_eq!(refused["place"], "failed");

    let run = run_directory(runs.path());
    let page = shown(&run, "html");
    assert!(page.contains("waggle-tune-report"));
    assert!(shown(&run, "md").contains("## innodb"));
    let csv = shown(&run, "csv");
    assert_eq!(csv.lines().count(), 1 + 6, "{csv}");
    assert!(shown(&run, "text").contains("refused"));
    let again: Value = serde_json::from_str(&shown(&run, "json")).expect("JSON");
    assert_eq!(again["stages"], report["stages"]);
}

/// A variable that only sessions have is refused, and does not end the run.
fn of_a_session(flavour: Flavour) {
    let runs = tempfile::tempdir().expect("a folder");
    let set = ["--set", "pseudo_thread_id=5,6"];
    let report = document(&tune(flavour, runs.path(), &set));
    let stage = &report["stages"][0];
    for value in ["5", "6"] {
        assert_eq!(of(stage, value)["failure"], "refused", "{stage}");
    }
    assert_eq!(stage["verdict"], "not-enough");
}

/// A static variable by a restart, with a value that the server does not start with.
fn by_restart(flavour: Flavour) {
    let runs = tempfile::tempdir().expect("a folder");
    // The data was made with pages of 16 KiB; and an own value that any server starts with.
    let set = [
        "--set",
        "innodb_page_size=16K,8K",
        "--fixed",
        "max_connections=50",
    ];
    let report = document(&tune(flavour, runs.path(), &set));
    let stage = &report["stages"][0];
    let failed = of(stage, "8K");
    assert_eq!(failed["failure"], "cannot-restart", "{failed}");
    assert!(of(stage, "16K")["present"] == true, "{stage}");
    assert_eq!(stage["verdict"], "not-enough");
    assert_eq!(report["server"]["variables"]["max_connections"], "50");

    let runs = tempfile::tempdir().expect("a folder");
    let set = ["--set", "innodb_sort_buffer_size=1M,2M"];
    let report = document(&tune(flavour, runs.path(), &set));
    let all = report["stages"][0]["configurations"]
        .as_array()
        .expect("all");
    let restarted = all
        .iter()
        .filter(|config| config["restarted"] == true)
        .count();
    assert!(restarted >= 1, "{report}");
}

#[test]
fn mariadb_is_tuned_in_place_and_by_restarts() {
    let _turn = turn();
    if can_start(Flavour::MariaDb) {
        in_place(Flavour::MariaDb);
        of_a_session(Flavour::MariaDb);
        by_restart(Flavour::MariaDb);
    }
}

#[test]
fn mysql_is_tuned_in_place_and_by_restarts() {
    let _turn = turn();
    if can_start(Flavour::MySql) {
        in_place(Flavour::MySql);
        of_a_session(Flavour::MySql);
        by_restart(Flavour::MySql);
    }
}

/// The throw-away server of a process.
fn server_of(pid: u32) -> Option<i32> {
    let output = waggle(&["server", "list", "--json"])
        .output()
        .expect("waggle runs");
    let listed: Value = serde_json::from_slice(&output.stdout).ok()?;
    let servers = listed["servers"].as_array()?;
    let own = servers.iter().find(|server| server["owner_pid"] == pid)?;
    i32::try_from(own["pid"].as_i64()?).ok()
}

#[test]
fn a_server_that_dies_is_a_finding_and_the_run_goes_on() {
    let _turn = turn();
    if !can_start(Flavour::MariaDb) {
        return;
    }
    let runs = tempfile::tempdir().expect("a folder");
    let mut command = waggle(&["tune", "--json", "--sandbox", "mariadb"]);
    // Long enough to be hit within one.
    command.args(quick("2s"));
    command.args(["--set", "innodb_flush_log_at_trx_commit=0,1,2", "--runs"]);
    command.arg(runs.path());
    let running = Running::start(&mut command);
    running.line("round 1:");
    let mut victim = None;
    wait_until("the server is listed", || {
        victim = server_of(running.pid());
        victim.is_some()
    });
    // SAFETY: a server that our own child started, alive a moment ago.
    unsafe { libc::kill(victim.expect("a server"), libc::SIGKILL) };
    let ended = running.end_by_lines();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let run = run_directory(runs.path());
    let samples = std::fs::read_to_string(run.join("samples.jsonl")).expect("samples");
    let lines: Vec<Value> = samples
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let crashed = lines.iter().position(|line| line["kind"] == "crashed");
    let crashed = crashed.unwrap_or_else(|| panic!("no crash in {samples}"));
    let after = &lines[crashed + 1..];
    assert!(
        after.iter().any(|line| line.get("objective").is_some()),
        "{samples}"
    );
}

#[test]
fn what_cannot_be_tuned_is_refused_before_anything_is_done() {
    let runs = tempfile::tempdir().expect("a folder");
    let root = runs.path().join("runs");
    let space = runs.path().join("space.toml");
    std::fs::write(
        &space,
        "[[variable]]\nname = \"a\"\nvalues = [1]\nfoo = 2\n",
    )
    .expect("a file");
    let space = space.display().to_string();
    for (flags, words) in [
        (vec![], "--set NAME=V1,V2"),
        (vec!["--set", "a b=1"], "name of a variable"),
        (vec!["--set", "a=1,2", "--set", "A=3"], "twice"),
        (
            vec!["--set", "a=1,2", "--constraint", "a < b"],
            "no variable of the space",
        ),
        (vec!["--set", "a=1,2", "--guard", "p98"], "no such guard"),
        (
            vec!["--set", "a=1,2", "--guard", "replica-lag"],
            "needs a replica",
        ),
        (vec!["--set", "a=1,2", "--budget", "1s"], "--budget"),
        (vec!["--set", "a=1,2", "--workload", "nothing"], "nothing"),
        (vec!["--space", &space], "line 4"),
        (vec!["--space", "/nowhere.toml"], "/nowhere.toml"),
    ] {
        let mut command = waggle(&["tune"]);
        let output = command
            .args(&flags)
            .arg("--runs")
            .arg(&root)
            .output()
            .expect("waggle");
        let complaint = String::from_utf8_lossy(&output.stderr);
        if complaint.contains("no MySQL or MariaDB server") {
            skip("mariadb", "no server is installed");
            return;
        }
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {complaint}");
        assert!(complaint.contains(words), "{flags:?}: {complaint}");
    }
    assert!(!root.exists());
}
