use super::*;
use crate::compare::sample;

fn comparison(log_ratio: Estimate) -> Comparison {
    let ratio = log_ratio.interval(0.95).map(f64::exp);
    Comparison {
        arm: 1,
        outcome: Outcome::CpuUsPerStatement,
        unit: crate::compare::Unit::Windows,
        base: 17.5,
        ratio,
        delta: ratio,
        ratio_bootstrap: None,
        agree: None,
        ratio_all_windows: ratio,
        ratio_hodges_lehmann: None,
        difference: ratio,
        log_ratio,
        p_value: log_ratio.p_value(0.0),
        autocorrelation: 0.0,
        variance_factor: 1.0,
        disturbed_arm: 0,
        windows_arm: 40,
        disturbed_base: 0,
        windows_base: 40,
        bursts: false,
        levels: None,
        carry_over: None,
    }
}

use crate::compare::window::Outcome;

fn effect(value: f64, standard_error: f64) -> Comparison {
    comparison(Estimate {
        value,
        standard_error,
        df: 39.0,
        n: 40,
    })
}

#[test]
fn a_seen_cost_comes_before_the_margin() {
    let verdict = |value, standard_error| judge(&effect(value, standard_error), 0.015);
    assert_eq!(verdict(0.08, 0.005).verdict, Verdict::Costs);
    assert_eq!(verdict(-0.08, 0.005).verdict, Verdict::Saves);
    let small = verdict(0.004, 0.001);
    assert_eq!((small.verdict, small.within_margin), (Verdict::Costs, true));
    assert_eq!(
        verdict(0.001, 0.004).verdict,
        Verdict::NoDifference { margin: 0.015 }
    );
    let wide = verdict(0.001, 0.02);
    assert_eq!(
        (wide.verdict, wide.within_margin),
        (Verdict::NotEnoughEvidence, false)
    );
    // (t(0.975) + t(0.8)) * 0.02 with 39 degrees of freedom = (2.0227 + 0.8512) * 0.02.
    assert!((wide.smallest_detectable - 0.05748_f64.exp_m1()).abs() < 1e-4);
}

#[test]
fn fewer_statements_a_second_is_a_cost() {
    let slower = Comparison {
        outcome: Outcome::Qps,
        ..effect(-0.06, 0.005)
    };
    assert_eq!(judge(&slower, 0.015).verdict, Verdict::Costs);
    let faster = Comparison {
        outcome: Outcome::Qps,
        ..effect(0.06, 0.005)
    };
    assert_eq!(judge(&faster, 0.015).verdict, Verdict::Saves);
}

#[test]
fn equal_windows_have_an_exact_verdict() {
    assert_eq!(
        judge(&effect(0.0, 0.0), 0.015).verdict,
        Verdict::NoDifference { margin: 0.015 }
    );
    assert_eq!(judge(&effect(0.1, 0.0), 0.015).verdict, Verdict::Costs);
    assert_eq!(
        judge(&effect(0.0, 0.0), 0.0).verdict,
        Verdict::NotEnoughEvidence
    );
}

#[test]
fn the_margin_holds_when_the_ninety_percent_interval_lies_inside() {
    for (value, standard_error) in [
        (0.002, 0.004),
        (0.006, 0.0052),
        (0.006, 0.0053),
        (-0.009, 0.003),
    ] {
        let estimate = effect(value, standard_error).log_ratio;
        let inside = estimate
            .interval(0.90)
            .map(f64::exp)
            .is_within(0.985, 1.015);
        assert_eq!(
            equivalence_p(&estimate, 0.015) < 0.05,
            inside,
            "{value} {standard_error}"
        );
    }
}

/// The paired sleep data against bounds of half an hour, as in the vignette of R's TOSTER package:
/// t(9) = -2.78 with p = 0.989 at the lower bound, -5.35 with p < 0.001 at the upper.
#[test]
fn equivalence_is_the_published_one() {
    let sleep = sample::mean(&[-1.2, -2.4, -1.3, -1.3, 0.0, -1.0, -1.8, -0.8, -4.6, -1.4]).unwrap();
    let t = |bound: f64| (sleep.value - bound) / sleep.standard_error;
    assert!((t(-0.5) + 2.78).abs() < 0.005 && (t(0.5) + 5.35).abs() < 0.005);
    assert!((sleep.p_above(-0.5) - 0.989).abs() < 5e-4);
    assert!(sleep.p_below(0.5) < 0.001);
    assert!((equivalence_p_between(&sleep, -0.5, 0.5) - 0.989).abs() < 5e-4);
}

/// The documented example of R's TOSTER package: mean 0.54 against 0.5, standard deviation 1.2,
/// n = 100, bounds of 0.3 standard deviations: t(99) = 3.333 and -2.667 by its formula.
#[test]
fn equivalence_of_one_mean() {
    let estimate = Estimate {
        value: 0.04,
        standard_error: 0.12,
        df: 99.0,
        n: 100,
    };
    assert!((estimate.p_above(-0.36) - 0.000604).abs() < 1e-6);
    assert!((estimate.p_below(0.36) - 0.00447).abs() < 1e-5);
}

/// The example of the usual textbook page: 0.01, 0.04, 0.03, 0.005.
#[test]
fn holm_is_the_published_one() {
    let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
    for (found, expected) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
        assert!((found - expected).abs() < 1e-12, "{adjusted:?}");
    }
    assert_eq!(holm(&[]), [0.0; 0]);
    assert_eq!(holm(&[0.9, f64::NAN]), [1.0, 1.0]);
}

#[test]
fn several_arms_are_judged_together() {
    // Alone p = 0.03 would count as a cost; among three it does not.
    let arms = [
        effect(0.0225, 0.01),
        effect(0.2, 0.01),
        effect(0.001, 0.004),
    ];
    let verdicts: Vec<&str> = judge_all(&arms.iter().collect::<Vec<_>>(), 0.015)
        .iter()
        .map(|j| j.verdict.as_str())
        .collect();
    assert_eq!(judge(&arms[0], 0.015).verdict, Verdict::Costs);
    assert_eq!(verdicts, ["not-enough-evidence", "costs", "no-difference"]);
}

#[test]
fn the_same_arm_twice_is_clean_bounded_or_unsound() {
    assert_eq!(judge_same(&effect(0.004, 0.005), 0.015), SameVerdict::Clean);
    assert_eq!(
        judge_same(&effect(0.004, 0.001), 0.015),
        SameVerdict::Bounded
    );
    assert_eq!(judge_same(&effect(0.05, 0.01), 0.015), SameVerdict::Unsound);
}

#[test]
fn names_in_json_and_on_paper() {
    let named = |verdict: Verdict| serde_json::to_string(&verdict).unwrap();
    assert_eq!(named(Verdict::Costs), "\"costs\"");
    assert_eq!(named(Verdict::Saves), "\"saves\"");
    assert_eq!(
        named(Verdict::NoDifference { margin: 0.015 }),
        "\"no-difference\""
    );
    assert_eq!(named(Verdict::NotEnoughEvidence), "\"not-enough-evidence\"");
    let paper = Verdict::NoDifference { margin: 0.015 }.to_string();
    assert_eq!(paper, "no difference within ±1.5%");
}

#[test]
fn windows_needed_for_the_lab() {
    let windows = windows_needed(0.04, 0.015);
    println!("4% noise, half-width 1.5%: {windows}");
    assert!((45..60).contains(&windows), "{windows}");
    assert!(windows_needed(0.02, 0.015) < windows);
    assert_eq!(windows_needed(0.0, 0.015), 10);
    assert_eq!(windows_needed(1.0, 0.0), 1_000_000);
}
