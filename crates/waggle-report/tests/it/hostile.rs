//! Run files are foreign bytes: whatever stands in them, the reader answers and never panics.

use std::fs;
use std::sync::OnceLock;

use proptest::prelude::*;
use waggle_report::document::Document;
use waggle_report::lab;
use waggle_report::run::{LAB_FILE, RESULT_FILE, RUN_FILE, Run, SAMPLES_FILE, STUDY_FILE};
use waggle_report::summary;

const FACTS: &str = r#"{"format_version":1,"verb":"lab","name":"x"}"#;

const BENCH: &str = r#"{"format_version":1,"verb":"bench","name":"<img src=x>"}"#;

const RESULT: &str = r#"{"queries":660000,"transactions":33000,"duration_s":36.0,
"offered_rate":925.0,"workload":"<img src=x>","threads":8,
"response_us":{"count":33000,"mean":6400.0,"p50":6100.0,"p99.9":44000.0,"max":88000.0},
"operations":{"<img src=x>":{"count":5,"per_second":0.14,"response_us":{"mean":1.0,"p99":2e3}}},
"statements":{"commit":{"count":1,"mean":3.5}},"failure":"<img src=x>",
"checks":[{"name":"<img src=x>","value":1e300,"ok":false}]}"#;

const SAMPLE: &str = r#"{"kind":"interval","at_s":1.0,"duration_s":1.0,"queries":18000,
"transactions":900,"errors":0,"latency_us_p50":6100.0,"latency_us_p99":19000.0,"backlog":3}"#;

/// A study with hostile strings, as it is written; made once, for it takes a while.
fn study() -> &'static [u8] {
    static STUDY: OnceLock<Vec<u8>> = OnceLock::new();
    STUDY.get_or_init(|| {
        serde_json::to_vec(&crate::study_example::every_study_variant()).expect("JSON")
    })
}

/// The bytes with a piece put in at `at`, or cut off there.
fn wound(bytes: &[u8], at: usize, with: &[u8], cut: bool) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let at = at % bytes.len();
    if cut {
        bytes.truncate(at);
    } else {
        bytes.splice(at..at, with.iter().copied());
    }
    bytes
}

/// Reads everything a reader reads.
fn read_all(files: &[(&str, &[u8])]) {
    let root = tempfile::tempdir().expect("a directory");
    for (name, bytes) in files {
        fs::write(root.path().join(name), bytes).expect("a file");
    }
    let Ok(run) = Run::open(root.path()) else {
        return;
    };
    let _ = run.samples();
    if let Ok(document) = Document::read(&run) {
        show_all(&run, &document);
    }
    let _ = run.histogram("none");
    let text = summary::text(&run, false).unwrap_or_default();
    let tame = |c: char| c == '\n' || !c.is_control();
    assert!(
        text.chars().all(tame),
        "control characters reach the terminal: {text:?}"
    );
}

/// Every form a run has, and that no string of it became markup.
fn show_all(run: &Run, document: &Document) {
    let _ = document.windows_csv();
    let _ = document.results_csv();
    let _ = document.json(run);
    if let Some(html) = document.html() {
        assert_eq!(
            html.matches("<script").count(),
            html.matches("</script>").count()
        );
        assert!(!html.contains("<img"), "a string became markup");
    }
    if let Some(markdown) = document.markdown() {
        assert!(!markdown.contains("<img"), "a string became markup");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        read_all(&[(RUN_FILE, &bytes)]);
        let facts = FACTS.as_bytes();
        read_all(&[(RUN_FILE, facts), (SAMPLES_FILE, &bytes), (LAB_FILE, &bytes)]);
        read_all(&[(RUN_FILE, facts), (RESULT_FILE, &bytes)]);
        read_all(&[(RUN_FILE, facts), (STUDY_FILE, &bytes)]);
        let bench = BENCH.as_bytes();
        read_all(&[(RUN_FILE, bench), (RESULT_FILE, &bytes), (SAMPLES_FILE, &bytes)]);
    }

    #[test]
    fn real_files_with_a_wound(
        at in 0_usize..40_000,
        with in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'9'), Just(b'e')], 0..6),
        cut in any::<bool>(),
    ) {
        let mut report = serde_json::to_vec(&crate::example::every_variant()).expect("JSON");
        let at = at % report.len();
        if cut {
            report.truncate(at);
        } else {
            report.splice(at..at, with.iter().copied());
        }
        let mut facts = FACTS.as_bytes().to_vec();
        let wound = at % facts.len();
        facts.splice(wound..wound, with.iter().copied());
        read_all(&[(RUN_FILE, FACTS.as_bytes()), (LAB_FILE, &report), (SAMPLES_FILE, &report)]);
        read_all(&[(RUN_FILE, &facts), (RESULT_FILE, &report)]);
    }

    #[test]
    fn studies_with_a_wound(
        at in 0_usize..400_000,
        with in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'9'), Just(b'e')], 0..6),
        cut in any::<bool>(),
    ) {
        let mut study = wound(study(), at, &with, cut);
        read_all(&[(RUN_FILE, FACTS.as_bytes()), (STUDY_FILE, &study)]);
        // The same bytes as what a bench run would have written.
        let bench = BENCH.as_bytes();
        read_all(&[(RUN_FILE, bench), (RESULT_FILE, &study), (SAMPLES_FILE, &study)]);
        study.push(b'\n');
        read_all(&[(RUN_FILE, bench), (SAMPLES_FILE, &study)]);
    }

    #[test]
    fn bench_results_with_a_wound(
        at in 0_usize..2_000,
        with in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'9'), Just(b'e')], 0..6),
        cut in any::<bool>(),
    ) {
        let result = wound(RESULT.as_bytes(), at, &with, cut);
        let bench = BENCH.as_bytes();
        read_all(&[(RUN_FILE, bench), (RESULT_FILE, &result), (SAMPLES_FILE, SAMPLE.as_bytes())]);
        let sample = wound(SAMPLE.as_bytes(), at, &with, cut);
        read_all(&[(RUN_FILE, bench), (RESULT_FILE, RESULT.as_bytes()), (SAMPLES_FILE, &sample)]);
    }

    #[test]
    fn extreme_figures_have_words(
        base in any::<f64>(), delta in any::<f64>(), half in any::<f64>(),
        captured in any::<u64>(), executed in any::<u64>(), clean in any::<bool>(),
    ) {
        let mut report = crate::example::every_variant();
        report.aa_clean = clean;
        report.margin = half;
        report.duration_s = base;
        for arm in &mut report.arms {
            let low = delta - half;
            let high = delta + half;
            arm.cpu_us_per_statement = Some(lab::Difference { base, delta, low, high });
            arm.captured = Some(captured);
            arm.executed = executed;
            arm.lost.insert("every one".to_owned(), u64::MAX);
        }
        prop_assert!(!lab::headline(&report).is_empty());
        prop_assert!(!lab::text(&report, true).is_empty());
    }
}

#[test]
fn deep_nesting_is_damage() {
    let deep = "[".repeat(100_000);
    let facts = FACTS.as_bytes();
    read_all(&[
        (RUN_FILE, facts),
        (LAB_FILE, deep.as_bytes()),
        (SAMPLES_FILE, deep.as_bytes()),
    ]);
    read_all(&[(RUN_FILE, facts), (STUDY_FILE, deep.as_bytes())]);
    read_all(&[(RUN_FILE, BENCH.as_bytes()), (RESULT_FILE, deep.as_bytes())]);
    read_all(&[(RUN_FILE, deep.as_bytes())]);
}

/// A run of a night: hundreds of thousands of lines, and a histogram file that is none.
#[test]
fn a_long_run_is_read_whole() {
    let root = tempfile::tempdir().expect("a directory");
    fs::write(root.path().join(RUN_FILE), BENCH).expect("a file");
    let line = SAMPLE.replace('\n', "") + "\n";
    fs::write(root.path().join(SAMPLES_FILE), line.repeat(50_000)).expect("a file");
    fs::create_dir(root.path().join("histograms")).expect("a directory");
    fs::write(root.path().join("histograms/response.hdr"), b"no histogram").expect("a file");
    let run = Run::open(root.path()).expect("a run");
    let Document::Bench(report) = Document::read(&run).expect("readable") else {
        panic!("not read as a bench run");
    };
    assert_eq!(report.intervals.len(), 50_000);
    assert!(report.histograms.is_empty());
    let notes = report.notes.join(" ");
    assert!(
        notes.contains("histogram response cannot be read"),
        "{notes}"
    );
}

#[test]
fn a_document_of_a_newer_waggle_is_refused_and_an_old_one_is_read() {
    let root = tempfile::tempdir().expect("a directory");
    fs::write(root.path().join(RUN_FILE), FACTS).expect("a file");
    let run = Run::open(root.path()).expect("a run");
    let mut study: serde_json::Value = serde_json::from_slice(study()).expect("JSON");
    study["format_version"] = 2.into();
    fs::write(root.path().join(STUDY_FILE), study.to_string()).expect("a file");
    let refusal = run.study().expect_err("too new").to_string();
    assert!(refusal.contains("reads up to 1"), "{refusal}");

    // The first lab reports had none of these fields.
    let mut lab = serde_json::to_value(crate::example::every_variant()).expect("JSON");
    let fields = lab.as_object_mut().expect("an object");
    for field in ["primary", "types", "probes"] {
        fields.remove(field).expect("the field");
    }
    for field in ["rate", "limits"] {
        fields["workload"]
            .as_object_mut()
            .expect("an object")
            .remove(field);
    }
    for arm in fields["arms"].as_array_mut().expect("a list") {
        let arm = arm.as_object_mut().expect("an object");
        arm.remove("sees");
        arm.remove("switched_by");
    }
    for window in fields["windows"].as_array_mut().expect("a list") {
        let window = window.as_object_mut().expect("an object");
        window.remove("marks");
        window.remove("types");
    }
    fs::write(root.path().join(LAB_FILE), lab.to_string()).expect("a file");
    let report = run.lab().expect("readable").expect("a report");
    assert_eq!(report.windows.len(), 3);
    assert!(lab::text(&report, false).contains("watch"));
}
