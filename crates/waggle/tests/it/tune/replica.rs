//! The study `replica-workers` with next to no time: it runs on a primary and its replica and
//! counts.

use super::*;

fn study(flavour: Flavour, runs: &Path) -> Output {
    let mut command = waggle(&["tune", "study", "replica-workers", "--json"]);
    command.args([
        "--sandbox",
        flavour.name(),
        "--threads",
        "4",
        "--tables",
        "2",
    ]);
    command.args([
        "--table-size",
        "500",
        "--block",
        "300ms",
        "--warm-up",
        "50ms",
    ]);
    command
        .args(["--rounds", "2", "--budget", "4m", "--runs"])
        .arg(runs);
    command.output().expect("waggle runs")
}

fn both_stages(flavour: Flavour, workers: &str) {
    let runs = tempfile::tempdir().expect("a folder");
    let report = document(&study(flavour, runs.path()));
    let stages = report["stages"].as_array().expect("stages");
    assert_eq!(stages.len(), 2, "{report}");
    for (stage, most) in stages.iter().zip([6, 6]) {
        let all = stage["configurations"].as_array().expect("configurations");
        // The present value may be one that is not among those to try.
        assert!((most..=most + 1).contains(&all.len()), "{stage}");
        for config in all {
            let rate = config["level"]["estimate"].as_f64();
            assert!(rate.is_some_and(|rate| rate > 0.0), "{config}");
            assert_eq!(config["restarted"], false, "{config}");
        }
    }
    assert!(stages[0].to_string().contains(workers), "{}", stages[0]);

    let run = run_directory(runs.path());
    let samples = std::fs::read_to_string(run.join("samples.jsonl")).expect("samples");
    let blocks = samples
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .filter(|line| line.get("objective").is_some());
    let mut backlogs = Vec::new();
    for block in blocks {
        let details = &block["details"];
        let recorded = details["record"]["transactions"].as_u64().expect("a count");
        let drained = details["drain"]["transactions"].as_u64().expect("a count");
        assert!(0 < drained && drained <= recorded, "{block}");
        assert!(
            details["live"]["primary_tps"].as_f64().expect("a rate") > 0.0,
            "{block}"
        );
        assert!(
            block["guards"]["replica-lag"].as_f64().expect("a lag") >= 0.0,
            "{block}"
        );
        backlogs.push(recorded);
    }
    assert!(backlogs.len() >= 2 * 12, "{samples}");
    // Every block has the first one's backlog, or more.
    assert!(
        backlogs.iter().all(|count| *count >= backlogs[0]),
        "{backlogs:?}"
    );
}

#[test]
fn the_workers_of_a_mariadb_replica_are_studied() {
    let _turn = turn();
    if can_start(Flavour::MariaDb) {
        both_stages(Flavour::MariaDb, "slave_parallel_threads");
    }
}

#[test]
fn the_workers_of_a_mysql_replica_are_studied() {
    let _turn = turn();
    if can_start(Flavour::MySql) {
        both_stages(Flavour::MySql, "replica_parallel_workers");
    }
}
