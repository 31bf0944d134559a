//! `waggle lab study vividcortex`: the workload with few processors, tiny, on a real server.

use std::path::Path;

use serde_json::Value;
use waggle_server::Flavour;

use crate::watch::stage::{Running, can_watch, turn, waggle};

/// The windows of a run, cell by cell.
fn samples(run: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(run.join("samples.jsonl")).expect("the samples");
    let lines = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    lines
        .filter(|line: &Value| line.get("event").is_none())
        .collect()
}

fn number(value: &Value, name: &str) -> f64 {
    value[name]
        .as_f64()
        .unwrap_or_else(|| panic!("{name}: {value}"))
}

/// Operations a second with nothing on.
fn carried(samples: &[Value], cell: &str) -> f64 {
    let base = samples
        .iter()
        .filter(|sample| sample["cell"] == cell && sample["arm"] == 0);
    let (operations, seconds) = base.fold((0.0, 0.0), |(operations, seconds), sample| {
        let more = number(sample, "transactions");
        (operations + more, seconds + number(sample, "duration_s"))
    });
    operations / seconds
}

/// The kernel keeps the cell to its processor, and statements were seen in packets under both
/// settings of the server.
fn is_limited_and_seen(cell: &Value) {
    let limits = cell["workload"]["limits"].to_string();
    let is_kept = limits.contains("processors ") && limits.contains(", by ");
    assert!(is_kept, "{limits}");
    for name in ["watch-packets", "perfschema+watch-packets"] {
        let arms = cell["arms"].as_array().expect("arms");
        let arm = arms.iter().find(|arm| arm["name"] == name).expect(name);
        let (captured, executed) = (number(arm, "captured"), number(arm, "executed"));
        let lost = arm["lost"].as_object().expect("causes").values();
        let lost: f64 = lost.filter_map(Value::as_f64).sum();
        // The load stands still while the agent comes and goes: nothing is under way then.
        assert!(executed > 0.0 && captured > 0.0, "{arm}");
        assert_eq!(captured + lost, executed, "{arm}");
    }
}

#[test]
fn few_processors_are_kept_to_and_the_rate_is_three_quarters_of_the_maximum() {
    let _turn = turn();
    if !can_watch(Flavour::MariaDb) {
        return;
    }
    let runs = tempfile::tempdir().expect("a folder");
    let mut command = waggle(&[
        "lab",
        "study",
        "vividcortex",
        "--json",
        "--sandbox",
        "mariadb",
    ]);
    command.args(["--workload", "few-cpus", "--budget", "15", "--cpus", "1"]);
    command.args(["--nodes", "500", "--threads", "2", "--runs"]);
    command.arg(runs.path());
    let running = Running::start(&mut command);
    // At the maximum, then at the rate: each gets the patience of one.
    running.line("pair of servers 1:");
    running.line("pair of servers 1:");
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let document: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    let page = document["report"].as_str().expect("the page");
    let run = Path::new(page).parent().expect("the run");
    let samples = samples(run);
    let cells = document["cells"].as_array().expect("cells");
    let ids: Vec<&str> = cells
        .iter()
        .filter_map(|cell| cell["id"].as_str())
        .collect();
    assert_eq!(ids, ["few-cpus-throughput", "few-cpus-rate"]);

    let asked = number(&cells[1]["workload"], "rate");
    let most = carried(&samples, ids[0]);
    assert!(
        (asked / (0.75 * most) - 1.0).abs() < 1e-9,
        "{asked} of {most}"
    );
    assert_eq!(cells[0]["workload"]["rate"], Value::Null);

    cells.iter().for_each(is_limited_and_seen);
    // No process on one processor uses more than its time. A window's two clocks are read one after
    // the other, between which a busy machine may do something else: one window says little.
    let sum = |name: &str| -> f64 { samples.iter().map(|sample| number(sample, name)).sum() };
    let (cpu_s, time_s) = (sum("server_cpu_ns") / 1e9, sum("duration_s"));
    assert!(
        cpu_s <= 1.02 * time_s,
        "{cpu_s} s of processor in {time_s} s"
    );
    for sample in &samples {
        let list = &sample["operations"]["GET_LINKS_LIST"];
        assert!(list["count"].is_u64(), "{sample}");
    }
    let names: std::collections::BTreeSet<&str> = samples
        .iter()
        .filter_map(|sample| sample["name"].as_str())
        .collect();
    assert_eq!(
        names.len(),
        5,
        "neither, neither again, and the other three: {names:?}"
    );
    let published = document["published"].as_array().expect("figures");
    assert!(published.iter().any(|figure| figure["value"] == -17.8));
}

#[test]
fn what_cannot_be_is_refused() {
    for (flags, wanted) in [
        (&["--agent", "magic"][..], "invalid value 'magic'"),
        (&["--cpus", "0"], "--cpus 0: this machine has"),
        (&["--budget", "1s"], "a study needs at least 15 s"),
    ] {
        let mut command = waggle(&["lab", "study", "vividcortex"]);
        let ended = Running::start(command.args(flags)).end();
        assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains(wanted), "{}", ended.stderr);
    }
}
