//! Run files are foreign bytes: whatever stands in them, the reader answers and never panics.

use std::fs;

use proptest::prelude::*;
use waggle_report::lab;
use waggle_report::run::{LAB_FILE, RESULT_FILE, RUN_FILE, Run, SAMPLES_FILE};
use waggle_report::summary;

const FACTS: &str = r#"{"format_version":1,"verb":"lab","name":"x"}"#;

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
    let _ = run.histogram("none");
    let text = summary::text(&run, false).unwrap_or_default();
    let tame = |c: char| c == '\n' || !c.is_control();
    assert!(
        text.chars().all(tame),
        "control characters reach the terminal: {text:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        read_all(&[(RUN_FILE, &bytes)]);
        let facts = FACTS.as_bytes();
        read_all(&[(RUN_FILE, facts), (SAMPLES_FILE, &bytes), (LAB_FILE, &bytes)]);
        read_all(&[(RUN_FILE, facts), (RESULT_FILE, &bytes)]);
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
    read_all(&[(RUN_FILE, deep.as_bytes())]);
}
