use super::*;
use crate::compare::{CompareSettings, Estimate, Outcome, compare_chain};
use crate::distribution::normal_quantile;
use crate::schedule::{ArmPlan, chain_order};
use crate::simulation::{Machine, World};
use crate::tally::Tally;

fn run(effect: f64, seed: u64) -> Comparison {
    let plans = [1, 2].map(|arm| ArmPlan { arm, windows: 40 });
    let windows =
        Machine::new(World::ROUGH, seed).life(&chain_order(&plans, seed), &[0.0, 0.0, effect]);
    let quick = CompareSettings {
        resamples: 0,
        ..CompareSettings::default()
    };
    compare_chain(&windows, 2, Outcome::CpuUsPerStatement, &quick).unwrap()
}

#[test]
fn a_change_is_covered_and_none_is_rarely_called_one() {
    let (mut ratio, mut delta, mut called) = <(Tally, Tally, Tally)>::default();
    for seed in 0..500 {
        let (first, same) = (run(0.05, 2 * seed), run(0.05, 2 * seed + 1));
        let found = compare_runs(&first, &same, 0.02);
        ratio.add(found.ratio.contains(1.0));
        called.add(found.p_value < 0.05);
        let dearer = compare_runs(&first, &run(0.12, 7_000 + seed), 0.02);
        assert!(dearer.delta.estimate > 0.0);
        // The base of the simulated machine is 17.5 us under the log.
        let truth = 17.5 * (0.12_f64.exp() - 0.05_f64.exp());
        delta.add(dearer.delta.contains(truth));
    }
    println!("ratio {ratio}, called different {called}; delta {delta}");
    assert!(ratio.is_within(0.92, 0.98) && called.is_within(0.02, 0.08));
    assert!(delta.is_within(0.9, 0.99));
}

#[test]
fn the_verdict_is_about_the_change() {
    let (cheap, dear) = (run(0.02, 1), run(0.14, 2));
    assert_eq!(compare_runs(&cheap, &dear, 0.02).verdict, Verdict::Costs);
    assert_eq!(compare_runs(&dear, &cheap, 0.02).verdict, Verdict::Saves);
    let same = compare_runs(&cheap, &cheap, 0.05);
    assert_eq!(same.verdict, Verdict::NoDifference { margin: 0.05 });
    assert_eq!(
        compare_runs(&cheap, &cheap, 0.001).verdict,
        Verdict::NotEnoughEvidence
    );
    assert!((same.ratio.estimate - 1.0).abs() < 1e-12 && same.delta.contains(0.0));
    // One significant, the other not: no change for that.
    assert!(same.smallest_detectable > cheap.log_ratio.smallest_detectable(0.8).exp_m1());
}

fn wilson(hits: f64, of: f64) -> Interval {
    let z = normal_quantile(0.975);
    let (share, square) = (hits / of, z * z);
    let centre = (share + square / (2.0 * of)) / (1.0 + square / of);
    let spread = share * (1.0 - share) / of + square / (4.0 * of * of);
    let half = z * spread.sqrt() / (1.0 + square / of);
    Interval {
        estimate: share,
        low: centre - half,
        high: centre + half,
        n: of as usize,
    }
}

/// Newcombe, Statistics in Medicine 17 (1998) 873, table II, method 10: differences of shares from
/// Wilson's intervals by squaring and adding, the method that MOVER generalises.
#[test]
fn recovered_variances_give_the_published_intervals() {
    for (one, two, low, high) in [
        ((56.0, 70.0), (48.0, 80.0), 0.0524, 0.3339),
        ((9.0, 10.0), (3.0, 10.0), 0.1705, 0.8090),
        ((6.0, 7.0), (2.0, 7.0), 0.0582, 0.8062),
        ((5.0, 56.0), (0.0, 29.0), -0.0381, 0.1926),
        ((10.0, 10.0), (0.0, 10.0), 0.6075, 1.0),
    ] {
        let found = difference_of_intervals(&wilson(two.0, two.1), &wilson(one.0, one.1));
        assert!((found.low - low).abs() < 6e-5, "{one:?} {two:?}: {found:?}");
        assert!(
            (found.high - high).abs() < 6e-5,
            "{one:?} {two:?}: {found:?}"
        );
    }
}

#[test]
fn symmetric_intervals_add_their_squares_and_ratios_need_a_sign() {
    let interval = |estimate: f64, half: f64| Interval {
        estimate,
        low: estimate - half,
        high: estimate + half,
        n: 40,
    };
    let found = difference_of_intervals(&interval(2.0, 0.3), &interval(3.0, 0.4));
    assert!((found.estimate - 1.0).abs() < 1e-12 && (found.half_width() - 0.5).abs() < 1e-12);
    let ratio = ratio_of_intervals(&interval(2.0, 0.02), &interval(3.0, 0.03)).unwrap();
    assert!((ratio.estimate - 1.5).abs() < 1e-12);
    assert!((ratio.half_width() / 1.5 - 0.01 * 2.0_f64.sqrt()).abs() < 1e-4);
    assert!(ratio_of_intervals(&interval(0.1, 0.2), &interval(3.0, 0.03)).is_none());
}

/// What the intervals give is what the estimates give, as near as degrees of freedom allow.
#[test]
fn intervals_and_estimates_agree() {
    let estimate = |value, standard_error| Estimate {
        value,
        standard_error,
        df: 39.0,
        n: 40,
    };
    let (one, two) = (estimate(0.02, 0.005), estimate(0.05, 0.008));
    let exact = two.minus(&one).interval(0.95);
    let recovered = difference_of_intervals(&one.interval(0.95), &two.interval(0.95));
    assert!((exact.half_width() / recovered.half_width() - 1.0).abs() < 0.02);
    let back = two.interval(0.95).to_estimate(39.0);
    assert!((back.standard_error - two.standard_error).abs() < 1e-12 && back.n == 40);
}
