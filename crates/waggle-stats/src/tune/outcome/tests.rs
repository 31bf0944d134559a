use super::super::guard::Guard;
use super::super::strategy::{Block, Decision, Kind, Settings};
use super::*;

/// A finished run on known values; the only guard is `guard[config]`.
fn outcome(values: &[f64], guard: &[f64], more_is_better: bool, noise: f64) -> Outcome {
    let settings = Settings {
        kind: Kind::Halving,
        more_is_better,
        margin: 0.02,
        rounds_most: 9,
        anchor: 0,
        guards: vec![Guard {
            name: "p99".to_owned(),
            tolerance: 0.05,
            limit: None,
        }],
        seed: 3,
    };
    let mut strategy = Strategy::new(values.len(), settings);
    let mut at = 0;
    while let Decision::Measure(order) = strategy.decide() {
        for config in order {
            let own = 1.0 + noise * ((at * 13 % 7) as f64 - 3.0) / 3.0;
            strategy.take(Block {
                config,
                round: strategy.rounds() - 1,
                at_s: 6.0 * at as f64,
                value: values[config] * own,
                guards: vec![Some(guard[config] * (2.0 - own))],
            });
            at += 1;
        }
    }
    strategy.outcome()
}

#[test]
fn a_change_needs_an_interval_and_its_guards() {
    let calm = [10.0, 10.0, 10.0];
    let found = outcome(&[100.0, 130.0, 90.0], &calm, true, 0.003);
    assert_eq!(found.answer, Answer::Change { config: 1 });
    assert_eq!(found.recommended, Some(1));
    let order: Vec<usize> = found.ranking.iter().map(|s| s.config).collect();
    assert_eq!(order, [1, 0, 2]);
    let ratio = found.ranking[0].ratio.expect("measured");
    assert!(ratio.contains(1.3) && ratio.low > 1.2, "{ratio:?}");
    let level = found.ranking[0].level.expect("measured");
    assert!((level.estimate - 130.0).abs() < 2.0, "{level:?}");
    // Less is better: the third is.
    let found = outcome(&[100.0, 130.0, 90.0], &calm, false, 0.003);
    assert_eq!(found.recommended, Some(2));
    let ratio = found.ranking[0].ratio.expect("measured");
    assert!(
        ratio.low <= 0.9 && 0.9 <= ratio.high && ratio.high < 1.0,
        "{ratio:?}"
    );
}

#[test]
fn a_guard_forbids_and_the_next_best_is_taken() {
    let worse = [10.0, 20.0, 10.0];
    let found = outcome(&[100.0, 130.0, 90.0], &worse, true, 0.003);
    let guard = "p99".to_owned();
    assert_eq!(found.answer, Answer::GuardForbids { config: 1, guard });
    assert_eq!(found.recommended, None);
    let found = outcome(&[100.0, 130.0, 115.0], &worse, true, 0.003);
    assert_eq!(found.answer, Answer::Change { config: 2 });
    assert_eq!(found.best, Some(1));
}

#[test]
fn the_same_is_an_answer_and_so_is_not_told_apart() {
    let calm = [10.0, 10.0];
    let same = outcome(&[100.0, 100.1], &calm, true, 0.004);
    assert_eq!(same.answer, Answer::Same);
    assert_eq!(same.recommended, None);
    assert!(
        same.smallest_detectable.is_some_and(|share| share < 0.02),
        "{same:?}"
    );
    let wide = outcome(&[100.0, 101.0], &calm, true, 0.2);
    assert_eq!(wide.answer, Answer::NotToldApart);
    assert!(
        wide.smallest_detectable.is_some_and(|share| share > 0.05),
        "{wide:?}"
    );
    let best = outcome(&[100.0, 60.0], &calm, true, 0.004);
    assert_eq!(best.answer, Answer::PresentIsBest);
    assert_eq!((best.best, best.equal_to_best.len()), (Some(0), 0));
}

#[test]
fn nothing_measured_is_not_an_answer() {
    let settings = Settings {
        kind: Kind::Sweep,
        more_is_better: true,
        margin: 0.01,
        rounds_most: 4,
        anchor: 0,
        guards: Vec::new(),
        seed: 1,
    };
    let mut strategy = Strategy::new(3, settings);
    assert_eq!(strategy.outcome().answer, Answer::NotEnough);
    strategy.fail(2, "refused");
    let outcome = strategy.outcome();
    assert_eq!(outcome.ranking.last().map(|s| s.place), Some(Place::Failed));
    assert_eq!(outcome.dropped.len(), 1);
    assert_eq!(outcome.blocks_of_sweep, 12);
}
