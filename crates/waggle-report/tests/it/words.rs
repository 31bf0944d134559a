//! The sentence that answers a lab run, for every verdict, and its text report.

use waggle_report::lab::{Arm, Difference, LabReport, LabVerdict, Primary, headline, text};
use waggle_report::study;

use crate::example::realistic;
use crate::study_example::realistic_study;

fn check(change: impl FnOnce(&mut LabReport), expected: &str) {
    let mut report = realistic();
    change(&mut report);
    assert_eq!(headline(&report), expected);
}

fn arm<'a>(report: &'a mut LabReport, name: &str) -> &'a mut Arm {
    report
        .arms
        .iter_mut()
        .find(|arm| arm.name == name)
        .expect("an arm of that name")
}

fn set(report: &mut LabReport, name: &str, verdict: LabVerdict, delta: f64, half: f64) {
    let arm = arm(report, name);
    arm.verdict = verdict;
    let base = arm.cpu_us_per_statement.map_or(17.5, |cpu| cpu.base);
    arm.cpu_us_per_statement = Some(Difference {
        base,
        delta,
        low: delta - half,
        high: delta + half,
    });
    arm.detectable_us = Some(half * 1.4);
}

#[test]
fn costs() {
    check(
        |_| {},
        "Watching every statement of MySQL 9.7.4 with waggle cost 1.2 µs of server CPU per \
         statement (95% CI 1.0 to 1.4, 6.9% of 17.5 µs); PERFORMANCE_SCHEMA cost 1.8 µs.",
    );
}

#[test]
fn saves() {
    check(
        |report| set(report, "watch", LabVerdict::Saves, -0.42, 0.2),
        "Watching every statement of MySQL 9.7.4 with waggle saved 0.4 µs of server CPU per \
         statement (95% CI 0.2 to 0.6, 2.4% of 17.5 µs); PERFORMANCE_SCHEMA cost 1.8 µs.",
    );
}

#[test]
fn no_difference_says_what_would_have_been_seen() {
    check(
        |report| {
            set(report, "watch", LabVerdict::NoDifference, 0.02, 0.07);
            set(report, "perfschema", LabVerdict::NoDifference, 0.1, 0.1);
        },
        "Watching every statement of MySQL 9.7.4 with waggle made no difference to server CPU per \
         statement within ±1.5% of 17.5 µs (+0.02 µs, 95% CI -0.05 to +0.09; 0.10 µs would have \
         been seen); PERFORMANCE_SCHEMA made no difference.",
    );
}

#[test]
fn not_enough_evidence_is_a_verdict() {
    check(
        |report| {
            set(report, "watch", LabVerdict::NotEnoughEvidence, 0.4, 1.0);
            set(
                report,
                "perfschema",
                LabVerdict::NotEnoughEvidence,
                1.6,
                1.8,
            );
        },
        "Watching every statement of MySQL 9.7.4 with waggle: not enough evidence to say what it \
         costs; the estimate is +0.4 µs of server CPU per statement (95% CI -0.6 to +1.4 of \
         17.5 µs); for PERFORMANCE_SCHEMA there is not enough evidence (+1.6 µs, 95% CI -0.2 to \
         +3.4).",
    );
}

#[test]
fn nothing_is_claimed_when_the_base_differs_from_itself() {
    check(
        |report| {
            report.aa_clean = false;
            set(report, "none-again", LabVerdict::Costs, 0.9, 0.5);
        },
        "Nothing is claimed: the same arm measured twice differed by +0.9 µs of server CPU per \
         statement (95% CI 0.4 to 1.4), so this run cannot tell an arm from the drift of the \
         machine.",
    );
    check(
        |report| {
            report.aa_clean = false;
            report.arms.retain(|arm| !arm.aa);
        },
        "Nothing is claimed: the same arm was not measured twice, so the method is unchecked.",
    );
}

#[test]
fn missed_statements_are_in_the_answer() {
    check(
        |report| {
            let watch = arm(report, "watch");
            watch.executed = 2_000_000;
            watch.captured = Some(1_999_988);
            report.arms.retain(|arm| arm.name != "perfschema");
        },
        "Watching MySQL 9.7.4 with waggle cost 1.2 µs of server CPU per statement (95% CI 1.0 to \
         1.4, 6.9% of 17.5 µs). It missed 12 of 2,000,000 statements (less than 0.01%).",
    );
    check(
        |report| {
            let watch = arm(report, "watch");
            watch.executed = 10;
            watch.captured = Some(12);
            report.arms.retain(|arm| arm.name != "perfschema");
        },
        "Watching every statement of MySQL 9.7.4 with waggle cost 1.2 µs of server CPU per \
         statement (95% CI 1.0 to 1.4, 6.9% of 17.5 µs). It captured 12 statements where MySQL \
         9.7.4 counted 10.",
    );
}

#[test]
fn what_was_not_measured_is_not_zero() {
    check(
        |report| {
            let watch = arm(report, "watch");
            watch.cpu_us_per_statement = None;
            watch.note = Some("the probe could not be attached".to_owned());
        },
        "The cost of watching every statement of MySQL 9.7.4 with waggle was not measured: the \
         probe could not be attached.",
    );
    check(
        |report| report.subject = "agent".to_owned(),
        "Nothing was measured: this run has no arm named agent.",
    );
}

#[test]
fn other_arms_can_be_the_question() {
    check(
        |report| report.subject = "perfschema".to_owned(),
        "PERFORMANCE_SCHEMA on MySQL 9.7.4 cost 1.8 µs of server CPU per statement (95% CI 1.2 to \
         2.5, 12.7% of 14.4 µs).",
    );
}

#[test]
fn throughput_and_latency_can_be_the_question() {
    check(
        |report| {
            report.primary = Primary::Throughput;
            report.subject = "perfschema".to_owned();
        },
        "PERFORMANCE_SCHEMA on MySQL 9.7.4 changed throughput by -8.9% (95% CI -13.0 to -4.8).",
    );
    check(
        |report| {
            report.primary = Primary::LatencyP99;
            arm(report, "watch").verdict = LabVerdict::NotEnoughEvidence;
        },
        "Watching every statement of MySQL 9.7.4 with waggle: not enough evidence of what it does \
         to p99 latency; the estimate is +12.9% (95% CI +10.7 to +15.2).",
    );
    check(
        |report| {
            report.primary = Primary::Throughput;
            arm(report, "watch").qps_ratio = None;
        },
        "What watching every statement of MySQL 9.7.4 with waggle does to throughput was not \
         measured.",
    );
}

#[test]
fn the_text_of_a_study_says_what_is_not_claimed() {
    let report = realistic_study();
    let text = study::text(&report, false);
    assert!(text.contains("A/A NOT CLEAN in one cell"), "{text}");
    assert!(text.contains("not claimed"), "{text}");
    assert!(text.contains("-1.25 (-2.10 to -0.40)"), "{text}");
    assert!(!text.contains('\x1b'));
}

#[test]
fn the_text_fits_a_terminal_and_says_it_all() {
    let report = realistic();
    let text = text(&report, false);
    for line in text.lines() {
        assert!(
            line.chars().count() <= 100,
            "{} columns: {line}",
            line.chars().count()
        );
    }
    assert!(!text.contains('\x1b'));
    let unwrapped = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "A/A clean",
        "+1.21 (+1.04 to +1.38)",
        "costs",
        "24.6 MiB",
        "two server lives",
    ] {
        assert!(unwrapped.contains(words), "{words} is missing:\n{text}");
    }
}
