//! `waggle report` and `waggle compare` as a user runs them, on run directories that the real
//! writer made. No server is started.
//!
//! Here the runs are made up; [`forms`] holds what is shown of one, [`compare`] what is said of
//! two.

mod compare;
mod forms;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::json;
use waggle_report::lab::{
    Arm, BaseArm, Difference, LabReport, LabServer, LabVerdict, Ratio, Window, Workload,
};
use waggle_report::run::{Outcome, RunDir, ServerFacts};
use waggle_report::study::{StudyCell, StudyReport};
use waggle_report::tune::TuneReport;

fn waggle(verb: &str, runs: &[&Path], flags: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_waggle"))
        .arg(verb)
        .args(runs)
        .args(flags)
        .output()
        .expect("waggle runs")
}

/// Standard output of a call that must end well.
fn shown(verb: &str, runs: &[&Path], flags: &[&str]) -> String {
    let output = waggle(verb, runs, flags);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{complaint}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The complaint of a call that must be refused before anything is done.
fn refused(verb: &str, runs: &[&Path], flags: &[&str]) -> String {
    let output = waggle(verb, runs, flags);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).expect("UTF-8")
}

/// A lab run in which watching cost `cost` µs ± `half`.
fn lab(cost: f64, half: f64) -> LabReport {
    let arm = |name: &str, cost: f64, verdict| Arm {
        name: name.to_owned(),
        label: format!("{name} <b>|"),
        aa: name == "none-again",
        windows: 40,
        cpu_us_per_statement: Some(Difference {
            base: 20.0,
            delta: cost,
            low: cost - half,
            high: cost + half,
        }),
        qps_ratio: Some(Ratio {
            estimate: 1.0 - cost / 20.0,
            low: 1.0 - (cost + half) / 20.0,
            high: 1.0 - (cost - half) / 20.0,
        }),
        executed: 1_000,
        verdict,
        ..Arm::default()
    };
    let window = |arm: &str| Window {
        duration_s: 0.8,
        arm: arm.to_owned(),
        statements: 800,
        qps: 1_000.0,
        ..Window::default()
    };
    LabReport {
        format_version: 1,
        question: "What does it cost?".to_owned(),
        command: "waggle lab run".to_owned(),
        server: LabServer {
            flavour: "MySQL".to_owned(),
            version: "9.7.4".to_owned(),
            settings: [("sync_binlog".to_owned(), "1".to_owned())].into(),
            ..LabServer::default()
        },
        workload: Workload {
            name: "oltp_point_select".to_owned(),
            threads: 8,
            ..Workload::default()
        },
        base: BaseArm {
            name: "none".to_owned(),
            label: "nothing attached".to_owned(),
        },
        subject: "watch".to_owned(),
        arms: vec![
            arm("none-again", 0.0, LabVerdict::NoDifference),
            arm("watch", cost, LabVerdict::Costs),
        ],
        aa_clean: true,
        margin: 0.01,
        windows: vec![window("none"), window("watch")],
        latency_of: "statement".to_owned(),
        ..LabReport::default()
    }
}

fn study(cells: &[(&str, f64)]) -> StudyReport {
    let cell = |(id, cost): &(&str, f64)| StudyCell::of(id, "Scene A", id, lab(*cost, 0.1));
    StudyReport {
        format_version: 1,
        name: "dbdoctor".to_owned(),
        answer: "It cost something.".to_owned(),
        cells: cells.iter().map(cell).collect(),
        ..StudyReport::default()
    }
}

fn write_lab(root: &Path, report: &LabReport) -> PathBuf {
    let run = RunDir::create(root, "lab", "made-up").expect("a run");
    run.write_lab(report).expect("a report");
    run.finish(Outcome::Done, None).expect("an end")
}

fn write_study(root: &Path, report: &StudyReport) -> PathBuf {
    let run = RunDir::create(root, "lab", "study").expect("a run");
    run.write_study(report).expect("a report");
    run.finish(Outcome::Done, None).expect("an end")
}

/// A bench run of 30 intervals at about `tps`.
fn write_bench(root: &Path, tps: f64) -> PathBuf {
    let mut run = RunDir::create(root, "bench", "oltp_read_only").expect("a run");
    run.record(|facts| {
        facts.server = Some(ServerFacts {
            flavour: "MariaDB".to_owned(),
            version: "10.11.19".to_owned(),
            ..ServerFacts::default()
        });
    })
    .expect("facts");
    for index in 0..30_u32 {
        let wave = 1.0 + f64::from(index * 7 % 5) / 100.0;
        run.append(&json!({
            "kind": "interval", "at_s": index + 1, "duration_s": 1.0,
            "transactions": tps * wave, "queries": tps * wave * 16.0,
            "latency_us_p50": 900.0, "latency_us_p99": 4_000.0 / wave,
        }))
        .expect("an interval");
    }
    let result = json!({
        "transactions": tps * 30.0, "duration_s": 30.0, "workload": "oltp_read_only",
        "offered_rate": null, "response_us": {"count": 30, "mean": 900.0, "p99": 4_000.0},
    });
    run.write_result(&result).expect("a result");
    run.finish(Outcome::Done, None).expect("an end")
}

/// A tuning run that found nothing.
fn tuned(root: &Path) -> PathBuf {
    let run = RunDir::create(root, "tune", "x").expect("a run");
    run.write_tune(&TuneReport::default()).expect("a page");
    run.finish(Outcome::Done, None).expect("an end")
}

/// A run of `waggle profile` with so many samples in a function and in another.
fn profiled(root: &Path, hot: u64, cold: u64) -> PathBuf {
    let run = RunDir::create(root, "profile", "mysqld").expect("a run");
    let entry = |stack: u32, samples: u64| {
        json!({ "who": 0, "kind": "on-cpu", "stack": stack, "samples": samples,
                "ns": samples * 10_101_010 })
    };
    let profile = json!({
        "started": "2026-11-22T01:02:03Z", "duration_ns": 10_000_000_000u64, "frequency_hz": 99,
        "frames": [
            { "name": "main", "module": "mysqld" },
            { "name": "hot <b>;|", "module": "mysqld" },
            { "name": "cold", "module": "mysqld" },
        ],
        "stacks": [{ "frames": [0, 1] }, { "frames": [0, 2] }],
        "whos": [{ "process": "mysqld 7", "pid": 7, "role": "user thread" }],
        "entries": [entry(0, hot), entry(1, cold)],
        "timeline": [], "threads": {}, "digests": [],
        "lost": { "samples": 0, "stacks": 0, "truncated": 0, "unknown_frames": 0, "by_cause": {} },
    });
    run.write_profile("", profile.to_string().as_bytes())
        .expect("a profile");
    run.finish(Outcome::Done, None).expect("an end")
}
