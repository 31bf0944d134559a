//! `waggle lab study dbdoctor`: every scene for some seconds, and what must hold at any length.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use waggle_server::Flavour;

use crate::lab::press_ctrl_c;
use crate::watch::stage::{Running, can_watch, turn, waggle, wait_until};

/// A study of these parts; `runs` is where its run directory goes.
fn start(runs: &Path, flags: &[&str]) -> Running {
    let mut command = waggle(&["lab", "study", "dbdoctor", "--json", "--sandbox", "mariadb"]);
    command.args(flags).arg("--runs").arg(runs);
    Running::start(command.process_group(0))
}

/// What a study of these parts found.
fn study(flags: &[&str]) -> Value {
    let runs = tempfile::tempdir().expect("a folder");
    let ended = start(runs.path(), flags).end_by_lines();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let document: Value = serde_json::from_str(&ended.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}\n{}", ended.stdout, ended.stderr));
    let page = document["report"].as_str().expect("a path");
    let page = std::fs::read_to_string(page).expect("the page");
    assert!(page.contains("waggle-study-report"), "the page's data");
    document
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name]
        .as_array()
        .unwrap_or_else(|| panic!("no list {name}: {value}"))
}

fn by_id<'a>(list: &'a [Value], id: &str) -> &'a Value {
    let found = list.iter().find(|one| one["id"] == id);
    found.unwrap_or_else(|| panic!("no {id}"))
}

/// Every statement executed while an arm captured was captured, or counted as lost.
fn assert_accounted(cell: &Value) {
    for arm in list(cell, "arms") {
        let Some(captured) = arm["captured"].as_u64() else {
            continue;
        };
        let lost: u64 = arm["lost"]
            .as_object()
            .expect("causes")
            .values()
            .filter_map(Value::as_u64)
            .sum();
        assert!(captured > 0, "{arm}");
        assert_eq!(Some(captured + lost), arm["executed"].as_u64(), "{arm}");
    }
}

fn arms(cell: &Value) -> Vec<&str> {
    let names = list(cell, "arms").iter().map(|arm| arm["name"].as_str());
    names.map(|name| name.expect("a name")).collect()
}

/// An estimate of ours stands between the ends of its interval.
fn assert_interval(value: &Value) {
    let part = |name: &str| {
        value[name]
            .as_f64()
            .unwrap_or_else(|| panic!("{name}: {value}"))
    };
    assert!(part("low") <= part("value"), "{value}");
    assert!(part("value") <= part("high"), "{value}");
}

#[test]
fn scene_a_lays_each_mix_beside_the_articles_figures() {
    let _turn = turn();
    if !can_watch(Flavour::MariaDb) {
        return;
    }
    let found = study(&["--scene", "A", "--threads", "1,4", "--budget", "100"]);
    let cells = list(&found, "cells");
    assert_eq!(cells.len(), 6);
    for cell in cells {
        assert_eq!(arms(cell), ["none-again", "watch"]);
        assert_accounted(cell);
    }
    let tables = list(&found, "tables");
    let throughput = by_id(tables, "article-throughput");
    let rows = list(throughput, "rows");
    let labels: Vec<&str> = rows
        .iter()
        .filter_map(|row| row["label"].as_str())
        .collect();
    assert_eq!(
        labels,
        [
            "read-write, 4 threads",
            "read-only, 4 threads",
            "write-only, 4 threads"
        ]
    );
    // As printed: with the agent, write-only became faster.
    let published = &rows[2]["values"][2];
    assert_eq!(published["kind"], "published");
    assert_eq!(published["value"], 1.23);
    for row in rows {
        assert_interval(&row["values"][4]);
    }
    let curve = by_id(list(&found, "curves"), "read-only-throughput");
    let threads: Vec<f64> = list(curve, "points")
        .iter()
        .filter_map(|point| point["x"].as_f64())
        .collect();
    assert_eq!(threads, [1.0, 4.0]);
    for figure in list(&found, "published") {
        let source = figure["source"].as_str().expect("a source");
        assert!(source.contains("DBdoctor"), "{figure}");
    }
}

#[test]
fn scene_b_loads_tpcc() {
    let _turn = turn();
    if !can_watch(Flavour::MariaDb) {
        return;
    }
    let found = study(&["--scene", "B", "--budget", "100"]);
    let cell = &list(&found, "cells")[0];
    assert_eq!(cell["workload"]["name"], "tpcc");
    assert_accounted(cell);
    let row = &list(by_id(list(&found, "tables"), "article-throughput"), "rows")[0];
    assert_eq!(row["values"][0]["value"], 9120.0);
}

#[test]
fn scene_c_tells_program_and_trap_apart() {
    let _turn = turn();
    if !can_watch(Flavour::MariaDb) {
        return;
    }
    let found = study(&["--scene", "C", "--budget", "100"]);
    let cell = &list(&found, "cells")[0];
    assert_eq!(cell["workload"]["threads"], 1);
    assert_eq!(arms(cell), ["none-again", "watch", "probe-empty"]);
    assert_accounted(cell);
    let tables = list(&found, "tables");
    let parts = list(by_id(tables, "scene-c-parts"), "rows");
    let part = |label: &str| {
        let found = parts
            .iter()
            .find(|row| row["label"].as_str().is_some_and(|l| l.starts_with(label)));
        found.unwrap_or_else(|| panic!("no {label}: {parts:#?}"))
    };
    // The kernel's own count of runs, against the statements that the load counted.
    let end = part("statement_end");
    let hits = end["values"][0]["value"].as_f64().expect("hits");
    assert!((0.95..=1.05).contains(&hits), "one hit a statement: {end}");
    assert_interval(&end["values"][1]);
    assert!(end["values"][1]["value"].as_f64().expect("ns") > 10.0);
    assert_interval(&part("traps")["values"][1]);
    assert_interval(&part("the whole agent")["values"][2]);
    let added = list(by_id(tables, "scene-c-added"), "rows");
    assert_eq!(added.len(), 4, "three arms, and the article's figure");
    assert_eq!(added[3]["values"][1]["value"], 147.0);
}

#[test]
fn the_agents_own_cost_adds_up_in_every_condition() {
    let _turn = turn();
    if !can_watch(Flavour::MariaDb) {
        return;
    }
    let found = study(&["--scene", "own", "--budget", "100"]);
    let conditions = list(&found, "agent");
    let labels: Vec<&str> = conditions
        .iter()
        .filter_map(|condition| condition["label"].as_str())
        .collect();
    assert_eq!(
        labels[..3],
        ["host metrics only", "attached, idle", "2 servers, idle"]
    );
    assert!(labels.contains(&"100% of a core"), "{labels:?}");
    assert!(labels.contains(&"0.5% of a core"), "{labels:?}");
    let lost = list(&found, "notes").iter().filter_map(Value::as_str);
    let unaccounted: Vec<&str> = lost
        .filter(|note| note.contains("executed are not"))
        .collect();
    assert!(unaccounted.is_empty(), "{unaccounted:?}");
    for condition in conditions {
        assert!(
            condition["rss_bytes"].as_u64().expect("bytes") > 1 << 20,
            "{condition}"
        );
        let part = |name: &str| condition[name].as_f64().expect(name);
        assert!(part("cores_low") <= part("cores") && part("cores") <= part("cores_high"));
    }
    let closed = conditions.iter().find(|one| one["label"] == "closed loop");
    // Whether the server took all that was offered before, is its own affair.
    if let Some(closed) = closed {
        assert_eq!(closed["captured"], closed["executed"], "{closed}");
    }
}

/// The one run directory below `runs`.
fn run_directory(runs: &Path) -> PathBuf {
    let entries: Vec<_> = std::fs::read_dir(runs).expect("runs").flatten().collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
    entries[0].path()
}

fn windows(runs: &Path) -> usize {
    let text = std::fs::read_to_string(run_directory(runs).join("samples.jsonl"));
    let text = text.unwrap_or_default();
    text.lines()
        .filter(|line| line.contains("server_cpu_ns"))
        .count()
}

#[test]
fn an_interrupted_study_reports_and_is_resumed_without_measuring_again() {
    let _turn = turn();
    if !can_watch(Flavour::MariaDb) {
        return;
    }
    let runs = tempfile::tempdir().expect("a folder");
    let flags = ["--scene", "A", "--threads", "2", "--budget", "100"];
    let running = start(runs.path(), &flags);
    wait_until("some windows were measured", || {
        std::fs::read_dir(runs.path()).is_ok_and(|e| e.count() == 1) && windows(runs.path()) > 3
    });
    press_ctrl_c(&running);
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("interrupted"), "{}", ended.stderr);
    let directory = run_directory(runs.path());
    assert!(directory.join("report.html").exists());
    let measured = windows(runs.path());
    let mut again = waggle(&[
        "lab", "study", "dbdoctor", "--json", "--budget", "100", "--resume",
    ]);
    let ended = Running::start(again.arg(&directory)).end_by_lines();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(
        windows(runs.path()) > measured,
        "it went on in the same place"
    );
    let found: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    let cells = list(&found, "cells");
    assert_eq!(cells.len(), 3, "the flags are those of the first run");
    let reported: usize = cells.iter().map(|cell| list(cell, "windows").len()).sum();
    assert_eq!(
        reported,
        windows(runs.path()),
        "no window was lost or measured again"
    );
}

#[test]
fn unusable_arguments_start_nothing() {
    for (arguments, part) in [
        (&["--scene", "D"][..], "--scene"),
        (&["--threads", "0"], "--threads"),
        (&["--budget", "1"], "--budget"),
        (&["--budget", "soon"], "--budget"),
        (&["--agent", "nonsense"], "--agent"),
        (&["--quick", "--budget", "60"], "--quick"),
    ] {
        let runs = tempfile::tempdir().expect("a folder");
        let mut command = waggle(&["lab", "study", "dbdoctor", "--runs"]);
        let output = command.arg(runs.path()).args(arguments).output();
        let output = output.expect("it runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(part), "{arguments:?}: {stderr}");
        let made = std::fs::read_dir(runs.path()).expect("runs").count();
        assert_eq!(made, 0, "{arguments:?}");
    }
}
