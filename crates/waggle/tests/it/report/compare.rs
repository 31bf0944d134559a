//! Two runs: what differs, what is claimed of it, and what cannot be compared.

use std::fs;

use serde_json::{Value, json};
use waggle_report::lab::LabReport;
use waggle_report::run::{Outcome, RunDir};

use super::{lab, profiled, refused, shown, study, tuned, write_bench, write_lab, write_study};

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
