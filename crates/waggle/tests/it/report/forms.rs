//! A run in every form that `waggle report` has.

use std::fs;

use serde_json::Value;
use waggle_report::run::{Outcome, RunDir};

use super::{lab, refused, shown, study, tuned, write_bench, write_lab, write_study};

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
