use super::*;

fn settings(kind: Kind, rounds_most: usize) -> Settings {
    Settings {
        kind,
        more_is_better: true,
        margin: 0.01,
        rounds_most,
        anchor: 0,
        guards: Vec::new(),
        seed: 7,
    }
}

/// Runs to the end on values without drift, with noise of 0.3%.
fn run(strategy: &mut Strategy, values: &[f64]) -> Stop {
    let mut random = Random::new(5);
    let mut at = 0;
    loop {
        match strategy.decide() {
            Decision::Stop(stop) => return stop,
            Decision::Measure(order) => {
                let round = strategy.rounds() - 1;
                for config in order {
                    let noise = 1.0 + 0.01 * (random.next_unit() - 0.5);
                    strategy.take(Block {
                        config,
                        round,
                        at_s: f64::from(at),
                        value: values[config] * noise,
                        guards: Vec::new(),
                    });
                    at += 1;
                }
            }
        }
    }
}

#[test]
fn looks_are_few_and_end_with_the_last_round() {
    assert_eq!(looks(12), [3, 4, 6, 9, 12]);
    assert_eq!(looks(3), [3]);
    assert_eq!(looks(1), [1]);
    let many = looks(100);
    assert!(many.len() < 12, "{many:?}");
    assert!(many.windows(2).all(|pair| pair[0] < pair[1]), "{many:?}");
}

#[test]
fn a_sweep_gives_all_as_many_and_halving_does_not() {
    let values = [100.0, 110.0, 150.0, 80.0, 149.9, 60.0];
    let mut sweep = Strategy::new(6, settings(Kind::Sweep, 6));
    assert_eq!(run(&mut sweep, &values), Stop::Rounds);
    assert_eq!(sweep.blocks().len(), sweep.blocks_of_sweep());
    let mut halving = Strategy::new(6, settings(Kind::Halving, 12));
    assert_eq!(run(&mut halving, &values), Stop::Same);
    let dropped: Vec<usize> = halving.dropped().iter().map(|d| d.config).collect();
    assert_eq!(dropped, [0, 1, 3, 5]);
    let of = |config| {
        halving
            .blocks()
            .iter()
            .filter(|b| b.config == config)
            .count()
    };
    // The present one is measured on, now and then, though it is behind.
    assert!(
        of(0) > 3 || halving.rounds() < 5,
        "{} {}",
        of(0),
        halving.rounds()
    );
    assert_eq!(of(5), 3);
    assert!(of(2) > 3);
}

#[test]
fn it_ends_when_one_is_left_and_less_may_be_better() {
    let values = [100.0, 110.0, 150.0];
    let mut strategy = Strategy::new(3, settings(Kind::Halving, 12));
    assert_eq!(run(&mut strategy, &values), Stop::OneLeft);
    assert_eq!(strategy.rounds(), 3);
    let less = Settings {
        more_is_better: false,
        ..settings(Kind::Halving, 12)
    };
    let mut strategy = Strategy::new(3, less);
    assert_eq!(run(&mut strategy, &values), Stop::OneLeft);
    assert_eq!(strategy.dropped().len(), 2);
    assert!(strategy.dropped().iter().all(|dropped| dropped.config != 0));
}

#[test]
fn what_failed_gets_no_more_and_nothing_left_is_an_end() {
    let mut strategy = Strategy::new(2, settings(Kind::Halving, 12));
    let mut equal = strategy.clone();
    assert_eq!(strategy.decide(), equal.decide());
    strategy.fail(1, "refused: no such value");
    assert_eq!(strategy.decide(), Decision::Stop(Stop::NothingToCompare));
    let dropped = strategy.dropped();
    assert_eq!(
        dropped[0].why,
        WhyDropped::Failed("refused: no such value".to_owned())
    );
    // The present one stays in, whatever happens to it.
    strategy.fail(0, "gone");
    assert!(strategy.is_in(0) && !strategy.is_in(1) && !strategy.is_in(2));
}

#[test]
fn what_was_dropped_for_one_that_fails_is_measured_again() {
    let mut strategy = Strategy::new(4, settings(Kind::Halving, 12));
    strategy.lives[1] = Life::Behind { round: 3, than: 3 };
    strategy.lives[2] = Life::Behind { round: 3, than: 1 };
    strategy.fail(3, "the server crashed");
    assert!(strategy.is_in(1) && !strategy.is_in(2) && !strategy.is_in(3));
    let dropped: Vec<usize> = strategy.dropped().iter().map(|d| d.config).collect();
    assert_eq!(dropped, [2, 3]);
}

#[test]
fn nothing_is_dropped_that_a_change_would_not_be_seen_from() {
    for rounds_most in [1, 3, 4, 12, 100] {
        for kind in [Kind::Sweep, Kind::Halving] {
            let level = Strategy::new(5, settings(kind, rounds_most)).level();
            assert!(level <= 0.5 * SIGNIFICANCE / 4.0, "{rounds_most}: {level}");
        }
    }
}

#[test]
fn a_value_of_zero_is_far_behind_and_no_infinity() {
    let mut strategy = Strategy::new(3, settings(Kind::Halving, 12));
    assert_eq!(run(&mut strategy, &[100.0, 0.0, 140.0]), Stop::OneLeft);
    let all_zero = run(
        &mut Strategy::new(2, settings(Kind::Halving, 4)),
        &[0.0, 0.0],
    );
    assert_eq!(all_zero, Stop::Rounds);
}
