//! What the client counted is what the server counted, and what the run directory holds.

use std::path::Path;

use serde_json::Value;
use waggle_server::Flavour;

use super::{connect, document, dsn, has, numbers, run, sandbox, stderr};

fn counts_like_the_server(flavour: Flavour) {
    if !has(flavour) {
        return;
    }
    let runs = tempfile::tempdir().unwrap();
    let name = flavour.name();
    let statements = [
        ("oltp_point_select", 1),
        ("oltp_read_only", 16),
        ("oltp_read_write", 20),
    ];
    for (workload, per_transaction) in statements {
        let output = run(
            &format!(
                "{workload} --sandbox {name} --tables 2 --table-size 1000 --threads 4 \
                 --warmup 0.5 --time 1 --report-interval 0.25 --json"
            ),
            runs.path(),
        );
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let result = document(&output);
        let number = |field: &str| result[field].as_u64().unwrap_or_else(|| panic!("{result}"));
        assert!(number("transactions") > 0, "{result}");
        assert_eq!(
            result["server"]["questions"], result["queries"],
            "{workload}: {result}"
        );
        if number("errors") == 0 {
            assert_eq!(
                number("queries"),
                number("transactions") * per_transaction,
                "{result}"
            );
            let parts = number("reads") + number("writes") + number("other");
            assert_eq!(parts, number("queries"), "{result}");
        }
        assert!(result["latency_us"]["p99"].as_f64() >= result["latency_us"]["p50"].as_f64());
        assert_eq!(result["offered_rate"], Value::Null);
        recorded(&result);
    }
}

/// The run directory holds the same result, and its intervals add up to no more than it.
fn recorded(result: &Value) {
    let run = Path::new(result["run"].as_str().expect("a run directory"));
    let read = |file: &str| std::fs::read_to_string(run.join(file)).expect(file);
    let json = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
    assert_eq!(json(&read("result.json")), *result);
    let facts = json(&read("run.json"));
    assert_eq!(
        (&facts["verb"], &facts["outcome"]),
        (&"bench".into(), &"done".into())
    );
    let samples: Vec<Value> = read("samples.jsonl").lines().map(json).collect();
    assert!(samples.iter().any(|sample| sample["kind"] == "warm-up"));
    let measured: u64 = samples
        .iter()
        .filter(|sample| sample["kind"] == "interval")
        .map(|sample| sample["queries"].as_u64().expect("a count"))
        .sum();
    let total = result["queries"].as_u64().expect("a count");
    assert!(
        measured <= total && measured * 10 >= total * 9,
        "{measured} of {total}"
    );
    assert!(run.join("histograms/response.hdr").is_file());
}

#[test]
fn counts_what_mariadb_counts() {
    counts_like_the_server(Flavour::MariaDb);
}

#[test]
fn counts_what_mysql_counts() {
    counts_like_the_server(Flavour::MySql);
}

#[test]
fn prepares_runs_and_cleans_up_a_named_server() {
    let Some(server) = sandbox(Flavour::MariaDb) else {
        return;
    };
    let runs = tempfile::tempdir().unwrap();
    let dsn = dsn(&server);
    let sizes = "--tables 3 --table-size 5000 --threads 2 --rand-seed 7";

    let missing = run(
        &format!("oltp_read_write --dsn {dsn} {sizes} --time 1"),
        runs.path(),
    );
    assert_eq!(missing.status.code(), Some(2), "{}", stderr(&missing));
    assert!(
        stderr(&missing).contains("create the tables first"),
        "{}",
        stderr(&missing)
    );
    assert_eq!(
        runs.path().read_dir().unwrap().count(),
        0,
        "a refusal leaves no run"
    );

    let prepared = run(
        &format!("oltp_read_write prepare --dsn {dsn} {sizes} --json"),
        runs.path(),
    );
    assert_eq!(
        document(&prepared)["rows_inserted"],
        15_000,
        "{}",
        stderr(&prepared)
    );
    let mut connection = connect(&server);
    let count = "SELECT COUNT(*), MIN(id), MAX(id) FROM sbtest3";
    assert_eq!(numbers(&mut connection, count), [5000, 1, 5000]);
    let indexes = "SELECT COUNT(*) FROM information_schema.statistics \
                   WHERE table_schema = 'sbtest' AND index_name LIKE 'k\\_%'";
    assert_eq!(numbers(&mut connection, indexes), [3]);

    // What is there already is not touched by `all`, which would drop it at the end.
    let all = run(
        &format!("oltp_read_write all --dsn {dsn} {sizes} --time 1"),
        runs.path(),
    );
    assert_eq!(all.status.code(), Some(1));
    assert!(stderr(&all).contains("already exists"), "{}", stderr(&all));

    let ran = run(
        &format!("oltp_read_write --dsn {dsn} {sizes} --time 1 --json"),
        runs.path(),
    );
    assert_eq!(ran.status.code(), Some(0), "{}", stderr(&ran));
    assert_eq!(
        numbers(&mut connection, count)[0],
        5000,
        "deletes and inserts balance"
    );

    let cleaned = run(
        &format!("oltp_read_write cleanup --dsn {dsn} {sizes}"),
        runs.path(),
    );
    assert_eq!(cleaned.status.code(), Some(0), "{}", stderr(&cleaned));
    let tables = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'sbtest'";
    assert_eq!(numbers(&mut connection, tables), [0]);
}
