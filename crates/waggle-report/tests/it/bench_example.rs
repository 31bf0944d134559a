//! A made-up bench run, written as the verb writes it: facts, intervals, result, histograms.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use waggle_report::run::{Outcome, RunDir, ServerFacts};
use waggle_stats::latency::LatencyHistogram;

/// Writes the run below `root` and returns its directory. `killed` leaves out how it ended and its
/// result, and its last line half-written.
pub(crate) fn write(root: &Path, killed: bool) -> PathBuf {
    let mut run = RunDir::create(root, "bench", "oltp_read_write").expect("a run");
    run.record(|facts| {
        facts.command = ["waggle", "bench", "oltp_read_write", "run"]
            .map(str::to_owned)
            .to_vec();
        facts.server = Some(ServerFacts {
            flavour: "MySQL".to_owned(),
            version: "9.7.4".to_owned(),
            variables: [("sync_binlog".to_owned(), "1".to_owned())].into(),
            ..ServerFacts::default()
        });
        facts.settings = [
            ("threads".to_owned(), json!(8)),
            ("loop".to_owned(), json!("open")),
        ]
        .into();
    })
    .expect("facts");
    for index in 0..40 {
        run.append(&interval(index)).expect("an interval");
    }
    let mut histogram = LatencyHistogram::new();
    for step in 0..4_000_u64 {
        histogram.record(800_000 + (step * step) % 3_000_000);
    }
    let bytes = histogram.to_v2_bytes().expect("bytes");
    run.write_histogram("response", &bytes).expect("a file");
    if killed {
        let samples = run.path().join("samples.jsonl");
        let mut text = std::fs::read_to_string(&samples).expect("samples");
        text.push_str("{\"kind\":\"inter");
        std::fs::write(&samples, text).expect("a wound");
        return run.path().to_path_buf();
    }
    run.write_result(&result()).expect("a result");
    run.finish(Outcome::Done, None).expect("an end")
}

fn interval(index: u32) -> Value {
    let warm = index < 4;
    let wave = f64::from(index * 37 % 11) / 11.0;
    json!({
        "kind": if warm { "warm-up" } else { "interval" },
        "at_s": f64::from(index + 1),
        "duration_s": 1.0,
        "queries": 18_000.0 + 900.0 * wave,
        "transactions": 900.0 + 45.0 * wave,
        "errors": 0,
        "latency_us_p50": 6_100.0 + 400.0 * wave,
        "latency_us_p95": 11_900.0 + 900.0 * wave,
        "latency_us_p99": if index == 20 { Value::Null } else { json!(19_000.0 + 6_000.0 * wave) },
        "backlog": 3,
    })
}

fn result() -> Value {
    let quantiles = |scale: f64| {
        json!({
            "count": 33_000, "mean": 6.4e3 * scale, "max": 88.0e3 * scale,
            "p50": 6.1e3 * scale, "p95": 12.0e3 * scale, "p99": 21.0e3 * scale,
            "p99.9": 44.0e3 * scale,
        })
    };
    json!({
        "queries": 660_000, "transactions": 33_000, "errors": 2, "duration_s": 36.0,
        "offered_rate": 925.0, "dropped": 0, "reads": 462_000, "writes": 132_000, "other": 66_000,
        "client_cpu_us_per_query": 4.12, "workload": "oltp_read_write", "threads": 8,
        "response_us": quantiles(1.0), "service_us": quantiles(0.9),
        "operations": {"<b>hostile</b>": {
            "count": 5, "per_second": 0.14, "response_us": quantiles(0.5),
        }},
        "statements": {"commit": quantiles(0.4)},
        "checks": [{"name": "rows found", "value": 100.0, "unit": "rows", "ok": true}],
        "generator_was_late": true, "failure": null,
    })
}
