//! `waggle report` and `waggle compare` as a user runs them, on run directories that the real
//! writer made. No server is started.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
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

#[test]
fn every_kind_of_run_has_every_form() {
    let root = tempfile::tempdir().expect("a directory");
    let runs = [
        (write_lab(root.path(), &lab(1.2, 0.1)), "t_s,", 3),
        (
            write_study(root.path(), &study(&[("t1", 1.2), ("t8", 1.3)])),
            "cell,t_s,",
            5,
        ),
        (write_bench(root.path(), 500.0), "kind,at_s,", 31),
    ];
    for (run, head, lines) in &runs {
        let markdown = shown("report", &[run], &["--format", "md"]);
        assert!(markdown.starts_with("# ") && markdown.contains("| --- |"));
        assert!(!markdown.contains("<b>"), "{markdown}");
        let csv = shown("report", &[run], &["--format", "csv"]);
        assert!(csv.starts_with(head), "{csv}");
        assert_eq!(csv.lines().count(), *lines);
        let document: Value =
            serde_json::from_str(&shown("report", &[run], &["--format", "json"])).expect("JSON");
        let by_flag: Value =
            serde_json::from_str(&shown("report", &[run], &["--json"])).expect("JSON");
        assert_eq!(document, by_flag);
        let page = root.path().join("page.html");
        let flags = ["--format", "html", "-o", page.to_str().expect("UTF-8")];
        shown("report", &[run], &flags);
        let html = fs::read_to_string(&page).expect("the page");
        assert!(html.starts_with("<!doctype html>") && !html.contains("<b>|"));
        assert!(!shown("report", &[run], &[]).is_empty());
    }
    let results = ["--format", "csv", "--rows", "results"];
    let csv = shown("report", &[&runs[1].0], &results);
    assert!(csv.starts_with("cell,arm,outcome,"));
    assert!(csv.contains("t8,watch,server_cpu,us_per_statement,20,1.3,"));
    assert!(refused("report", &[&runs[2].0], &results).contains("--rows windows"));
}

#[test]
fn a_run_without_a_report_is_text_and_nothing_else() {
    let root = tempfile::tempdir().expect("a directory");
    let run = RunDir::create(root.path(), "watch", "").expect("a run");
    let run = run.finish(Outcome::Interrupted, None).expect("an end");
    for form in ["html", "md", "csv"] {
        let complaint = refused("report", &[&run], &["--format", form]);
        assert!(complaint.contains("run of watch"), "{complaint}");
    }
    assert!(shown("report", &[&run], &[]).contains("interrupted"));
    assert!(!run.join("report.html").exists());
}

#[test]
fn what_differs_around_two_runs_comes_before_the_figures() {
    let root = tempfile::tempdir().expect("a directory");
    let first = write_lab(root.path(), &lab(1.2, 0.1));
    let mut other = lab(2.4, 0.1);
    other.environment.kernel = Some("6.1.0".to_owned());
    other
        .server
        .settings
        .insert("sync_binlog".to_owned(), "0".to_owned());
    other.workload.threads = 16;
    let second = write_lab(root.path(), &other);
    let text = shown("compare", &[&first, &second], &[]);
    let at = |words: &str| {
        text.find(words)
            .unwrap_or_else(|| panic!("{words}:\n{text}"))
    };
    for fact in ["kernel", "setting sync_binlog", "threads"] {
        assert!(at(fact) < at("B less A"), "{text}");
    }
    let document: Value =
        serde_json::from_str(&shown("compare", &[&first, &second], &["--json"])).expect("JSON");
    let of = |arm: &str, outcome: &str| {
        let all = document["comparisons"].as_array().expect("a list");
        let found = all
            .iter()
            .find(|c| c["arm"] == arm && c["outcome"] == outcome);
        found.expect("the comparison").clone()
    };
    let watch = of("watch", "server CPU");
    assert_eq!(watch["verdict"], "higher");
    let difference = watch["difference"]["estimate"].as_f64().expect("a number");
    assert!((difference - 1.2).abs() < 1e-9);
    // Two independent intervals of ±0.1 leave ±0.141.
    let high = watch["difference"]["high"].as_f64().expect("a number");
    assert!((high - 1.2 - 0.02_f64.sqrt()).abs() < 1e-9);
    assert_eq!(of("none-again", "server CPU")["verdict"], "no-difference");
}

#[test]
fn nothing_is_claimed_of_a_run_whose_check_failed() {
    let root = tempfile::tempdir().expect("a directory");
    let first = write_lab(root.path(), &lab(1.2, 0.1));
    let unclean = LabReport {
        aa_clean: false,
        ..lab(2.4, 0.1)
    };
    let second = write_lab(root.path(), &unclean);
    let text = shown("compare", &[&first, &second], &[]);
    assert!(text.contains("not claimed") && text.contains("not clean in B"));
    assert!(!text.contains("higher in B"));
}

#[test]
fn studies_are_compared_cell_by_cell() {
    let root = tempfile::tempdir().expect("a directory");
    let first = write_study(
        root.path(),
        &study(&[("t1", 1.2), ("t2", 1.2), ("t8", 1.3)]),
    );
    let second = write_study(
        root.path(),
        &study(&[("t8", 0.3), ("t1", 1.2), ("t64", 1.0)]),
    );
    let document: Value =
        serde_json::from_str(&shown("compare", &[&first, &second], &["--json"])).expect("JSON");
    let all = document["comparisons"].as_array().expect("a list");
    let verdict = |cell: &str| {
        let found = all
            .iter()
            .find(|c| c["cell"] == cell && c["arm"] == "watch" && c["outcome"] == "server CPU");
        found.map(|c| c["verdict"].clone())
    };
    assert_eq!(verdict("t8"), Some(json!("lower")));
    assert_eq!(verdict("t1"), Some(json!("no-difference")));
    assert_eq!(verdict("t2"), None);
    let notes = document["notes"].to_string();
    assert!(notes.contains("t2 is in A alone") && notes.contains("t64 is in B alone"));
}

#[test]
fn bench_runs_are_compared_interval_by_interval() {
    let root = tempfile::tempdir().expect("a directory");
    let first = write_bench(root.path(), 500.0);
    let second = write_bench(root.path(), 450.0);
    let text = shown("compare", &[&first, &second], &[]);
    assert!(text.contains("lower in B"), "{text}");
    assert!(text.contains("one life of a server"), "{text}");
    assert!(text.contains("Nothing that was noted differs"), "{text}");
}

#[test]
fn apples_are_not_compared_with_oranges() {
    let root = tempfile::tempdir().expect("a directory");
    let apple = write_lab(root.path(), &lab(1.2, 0.1));
    let mut load = lab(1.2, 0.1);
    load.workload.name = "tpcc".to_owned();
    let tpcc = write_lab(root.path(), &load);
    let mut base = lab(1.2, 0.1);
    base.base.name = "perfschema".to_owned();
    let base = write_lab(root.path(), &base);
    let mut arms = lab(1.2, 0.1);
    arms.arms.clear();
    let arms = write_lab(root.path(), &arms);
    let bench = write_bench(root.path(), 500.0);
    let study = write_study(root.path(), &study(&[("t1", 1.2)]));
    let watch = RunDir::create(root.path(), "watch", "").expect("a run");
    let tuned = tuned(root.path());
    for (orange, reason) in [
        (&apple, "no difference to itself"),
        (&tpcc, "oltp_point_select and tpcc"),
        (&base, "compared with"),
        (&arms, "no arm in common"),
        (&bench, "a bench run"),
        (&study, "a lab study"),
        (&watch.path().to_path_buf(), "run of watch"),
        (&tuned, "runs of lab, bench and profile can be compared"),
        (&root.path().to_path_buf(), "not a run"),
    ] {
        let complaint = refused("compare", &[&apple, orange], &[]);
        assert!(complaint.contains(reason), "{reason}: {complaint}");
    }
    let complaint = refused("compare", &[&apple, &tpcc], &["--margin", "0"]);
    assert!(complaint.contains("--margin"), "{complaint}");
}

/// A tuning run that found nothing.
fn tuned(root: &Path) -> PathBuf {
    let run = RunDir::create(root, "tune", "x").expect("a run");
    run.write_tune(&TuneReport::default()).expect("a page");
    run.finish(Outcome::Done, None).expect("an end")
}

#[test]
fn the_help_names_every_kind_of_run_that_a_form_is_made_of() {
    let help = shown("report", &[], &["--help"]);
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let kinds = "(runs of lab, bench, trace, profile and tune)";
    assert_eq!(help.matches(kinds).count(), 3, "{help}");
    let root = tempfile::tempdir().expect("a directory");
    let run = tuned(root.path());
    for form in ["text", "html", "md", "csv", "json"] {
        let made = shown("report", &[&run], &["--format", form, "-o", "-"]);
        assert!(!made.is_empty(), "{form}");
    }
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

#[test]
fn two_profiles_are_compared_by_shares_and_drawn() {
    let root = tempfile::tempdir().expect("a directory");
    let one = profiled(root.path(), 400, 600);
    let two = profiled(root.path(), 1_600, 400);
    let svg = root.path().join("diff.svg");
    let page = root.path().join("diff.html");
    let files = [svg.display().to_string(), page.display().to_string()];
    let flags = ["--flame", &files[0], "--page", &files[1]];
    let text = shown("compare", &[&one, &two], &flags);
    let hot = text.lines().find(|line| line.starts_with("hot <b>;|"));
    assert!(
        hot.is_some_and(|line| line.contains("higher in B")),
        "{text}"
    );
    let svg = fs::read_to_string(svg).expect("a flame graph");
    assert!(svg.contains("hot &lt;b&gt;:|"), "{svg}");
    let page = fs::read_to_string(page).expect("a page");
    assert!(
        page.contains("waggle-profile-report") && !page.contains("hot <b>"),
        "{page}"
    );
    let folded = shown("report", &[&one], &["--format", "folded"]);
    assert_eq!(folded, "main;cold 6060606000\nmain;hot <b>:| 4040404000\n");
    let refusal = refused(
        "report",
        &[&one],
        &["--format", "svg", "--profile", "watch"],
    );
    assert!(refusal.contains("profile-watch.json"), "{refusal}");
    let none = root.path().join("lab");
    fs::create_dir(&none).expect("a directory");
    let run = RunDir::create(&none, "bench", "x").expect("a run");
    let path = run.finish(Outcome::Done, None).expect("an end");
    let refusal = refused("report", &[&path], &["--format", "folded"]);
    assert!(refusal.contains("holds no profile"), "{refusal}");
}
