//! Arms compared with something instead of nothing, and arms whose cost is known.

use serde_json::Value;
use waggle_server::Flavour;

use super::{assert_intervals, run_directory};
use crate::watch::stage::{Running, can_watch, turn, waggle};

#[test]
fn a_known_cost_is_compared_with_an_empty_probe() {
    let _turn = turn();
    if !can_watch(Flavour::MariaDb) {
        return;
    }
    let runs = tempfile::tempdir().expect("a folder");
    let mut command = waggle(&["lab", "run", "--sandbox", "mariadb", "--json"]);
    command.args(["--threads", "2", "--table-size", "500", "--window", "0.05"]);
    command.args(["--windows", "8", "--base", "probe-empty"]);
    command
        .args(["--arm", "burned:burn 1000", "--runs"])
        .arg(runs.path());
    let ended = Running::start(&mut command).end();
    let document: Value = serde_json::from_str(&ended.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}\n{}", ended.stdout, ended.stderr));
    let arms = document["arms"].as_array().expect("arms");
    let names: Vec<&str> = arms.iter().filter_map(|arm| arm["arm"].as_str()).collect();
    assert_eq!(names, ["none-again", "burned"]);
    arms.iter().for_each(assert_intervals);
    let samples = std::fs::read_to_string(run_directory(runs.path()).join("samples.jsonl"))
        .expect("the windows");
    let windows: Vec<Value> = samples
        .lines()
        .map(|line| serde_json::from_str(line).expect("a value"))
        .filter(|line: &Value| line.get("event").is_none())
        .collect();
    // 16 windows of arms, the base's around and between them; its probe was there: the observer
    // is a process whose memory is noted in windows in which something is on, and in no other.
    assert_eq!(windows.len(), 33);
    for window in &windows {
        let is_base = window["arm"] == 0;
        assert_eq!(is_base, window["name"] == "probe-empty", "{window}");
        assert!(window["tool_rss_bytes"].as_u64() > Some(0), "{window}");
    }
}

#[test]
fn a_base_that_cannot_be_switched_is_refused_before_anything_starts() {
    let refused = |args: &[&str], why: &str| {
        let ended = Running::start(waggle(&["lab", "run"]).args(args)).end();
        assert_eq!(ended.status.code(), Some(2), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(why), "{args:?}: {}", ended.stderr);
    };
    refused(&["--base", "perfschema"], "while the server lives");
    refused(
        &["--base", "probe-empty", "--arm", "probe-empty"],
        "is the base and an arm",
    );
    refused(&["--base", "nonsense"], "no arm 'nonsense'");
    refused(&["--arm", "a:burn 1us"], "write burn and nanoseconds");
}
