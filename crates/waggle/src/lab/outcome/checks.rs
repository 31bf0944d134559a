//! What did not hold, and the document of a run.

use std::path::Path;

use serde_json::{Value, json};
use waggle_report::lab::{LabReport, LabVerdict};

use crate::experiment::Totals;
use crate::lab::arm::ObserverSpec;
use crate::lab::cell::CellRun;

/// Standard errors between two error rates from which they are not called equal. Errors come in
/// bursts (a deadlock rarely comes alone), so this is far out.
const FAR_APART: f64 = 6.0;
/// Errors that one arm has and the other has not, from which that is no accident.
const ERRORS_FEW: u64 = 10;

/// A workload that errors under one arm and not under nothing (or the other way round) does not do
/// the same work under both: a finding, in words.
pub(crate) fn errors_differ(run: &CellRun, number: usize) -> Option<String> {
    let arm = run.totals_of(number);
    let base = base_of(run, number);
    if !differs(&arm, &base) {
        return None;
    }
    let example = arm.error_example.as_ref().or(base.error_example.as_ref());
    let example = example.map_or_else(String::new, |text| format!(" (such as {text})"));
    Some(format!(
        "a finding, not a comparison: {} errors in {} transactions under it, {} in {} under \
         nothing{example}",
        arm.errors, arm.transactions, base.errors, base.transactions
    ))
}

/// The base's sums over the windows that the arm is compared in.
fn base_of(run: &CellRun, number: usize) -> Totals {
    let in_pairs = run
        .spec
        .arm(number)
        .is_some_and(|arm| run.spec.is_in_pairs(arm));
    let totals = if in_pairs {
        &run.totals_pairs
    } else {
        &run.totals
    };
    totals.get(&0).cloned().unwrap_or_default()
}

fn differs(arm: &Totals, base: &Totals) -> bool {
    let (a, b) = (arm.errors as f64, base.errors as f64);
    let n = (a + arm.transactions as f64).max(1.0);
    let m = (b + base.transactions as f64).max(1.0);
    if arm.errors.max(base.errors) < ERRORS_FEW || arm.errors + arm.transactions == 0 {
        return false;
    }
    if (arm.errors == 0) != (base.errors == 0) {
        // None where as many as in the other would have been expected.
        let expected = if arm.errors == 0 {
            b / m * n
        } else {
            a / n * m
        };
        return expected >= ERRORS_FEW as f64;
    }
    let pooled = (a + b) / (n + m);
    let error = (pooled * (1.0 - pooled) * (1.0 / n + 1.0 / m)).sqrt();
    error > 0.0 && ((a / n - b / m) / error).abs() > FAR_APART
}

/// What did not hold, each as an error for the user.
pub(crate) fn failed(run: &CellRun, report: &LabReport) -> Vec<String> {
    let mut failed: Vec<String> = run.error.iter().cloned().collect();
    for (number, spec) in run.spec.numbered() {
        if let Some(why) = run.stopped.get(&number) {
            failed.push(format!("arm {} was stopped: {why}", spec.name));
        }
        if let Some(finding) = errors_differ(run, number) {
            failed.push(format!("arm {}: {finding}", spec.name));
        }
        let totals = run.totals_of(number);
        let Some(captured) = totals.captured else {
            continue;
        };
        let lost: u64 = totals.lost.values().sum();
        let counts_all = match &spec.observer {
            Some(ObserverSpec::Watch { source, .. }) => source == "uprobe",
            _ => false,
        };
        if counts_all && captured + lost != totals.executed {
            failed.push(format!(
                "{}: captured {captured} + lost {lost} is not the {} statements executed",
                spec.name, totals.executed
            ));
        }
    }
    if !report.aa_clean && failed.is_empty() {
        failed.push(
            "the A/A arm is not clean: nothing is claimed; try a quieter moment or --budget 10m"
                .to_owned(),
        );
    }
    failed
}

/// The JSON document of `lab run`.
pub(crate) fn document(report: &LabReport, page: &Path) -> Value {
    let arms: Vec<Value> = report
        .arms
        .iter()
        .map(|arm| {
            let mut value = serde_json::to_value(arm).unwrap_or_default();
            value["arm"] = arm.name.clone().into();
            if !report.aa_clean {
                value["verdict"] = json!(LabVerdict::NotEnoughEvidence);
            }
            value["server_cpu_us_per_statement"] = value["cpu_us_per_statement"].take();
            value
        })
        .collect();
    json!({
        "answer": waggle_report::lab::headline(report),
        "arms": arms,
        "aa_clean": report.aa_clean,
        "margin": report.margin,
        "server": report.server,
        "workload": report.workload,
        "duration_s": report.duration_s,
        "notes": report.notes,
        "report": page,
    })
}

#[cfg(test)]
mod tests {
    use waggle_report::lab::Arm;

    use super::*;

    fn totals(transactions: u64, errors: u64) -> Totals {
        Totals {
            transactions,
            errors,
            ..Totals::default()
        }
    }

    #[test]
    fn a_document_claims_nothing_where_the_base_differs_from_itself() {
        let report = |aa_clean| LabReport {
            aa_clean,
            arms: vec![Arm {
                name: "watch".to_owned(),
                verdict: LabVerdict::Costs,
                ..Arm::default()
            }],
            ..LabReport::default()
        };
        let verdict = |aa_clean| {
            let document = document(&report(aa_clean), Path::new("page"));
            document["arms"][0]["verdict"].clone()
        };
        assert_eq!(verdict(true), "costs");
        assert_eq!(verdict(false), "not-enough-evidence");
    }

    #[test]
    fn errors_under_one_arm_only_are_a_finding() {
        assert!(differs(&totals(0, 5_000), &totals(9_000, 0)));
        assert!(differs(&totals(9_000, 0), &totals(1_000, 500)));
        assert!(differs(&totals(9_000, 900), &totals(90_000, 90)));
        assert!(!differs(&totals(9_000, 0), &totals(9_000, 0)));
        // Deadlocks as often under both.
        assert!(!differs(&totals(9_000, 30), &totals(90_000, 280)));
        // Too short a time to expect one.
        assert!(!differs(&totals(90, 0), &totals(90_000, 20)));
        assert!(!differs(&totals(0, 0), &totals(90_000, 20)));
    }
}
