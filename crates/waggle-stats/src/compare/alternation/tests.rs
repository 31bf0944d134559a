use super::*;

fn lives(count: usize, effect: f64, drift: impl Fn(f64) -> f64) -> Vec<(f64, bool)> {
    (0..count)
        .map(|life| {
            let on = life % 2 == 1;
            (drift(life as f64) + if on { effect } else { 0.0 }, on)
        })
        .collect()
}

#[test]
fn a_cubic_drift_cancels_over_five_lives() {
    let drift = |t: f64| 17.0 + 0.5 * t - 0.2 * t * t + 0.01 * t * t * t;
    let found = alternation_estimate(&lives(9, 1.8, drift)).unwrap();
    assert!((found.value - 1.8).abs() < 1e-9, "{found:?}");
    assert!(found.standard_error < 1e-9);
    assert_eq!(found.n, 9);
}

#[test]
fn a_straight_drift_cancels_over_three_lives() {
    let found = alternation_estimate(&lives(5, -0.7, |t| 3.0 * t)).unwrap();
    assert!((found.value + 0.7).abs() < 1e-9, "{found:?}");
}

#[test]
fn gaps_and_repeats_end_a_run() {
    let mut gap = lives(15, 1.0, |_| 10.0);
    gap[7].0 = f64::NAN;
    let found = alternation_estimate(&gap).unwrap();
    assert!((found.value - 1.0).abs() < 1e-9);
    assert_eq!(found.n, 14);
    let mut repeat = lives(14, 1.0, |_| 10.0);
    repeat.extend(
        lives(7, 1.0, |_| 20.0)
            .into_iter()
            .map(|(value, on)| (value + 1.0, on))
            .skip(1),
    );
    assert_eq!(
        alternating_runs(&repeat).len(),
        2,
        "two runs where `on` follows `on`"
    );
}

#[test]
fn too_few_lives_are_refused() {
    let error = alternation_estimate(&lives(4, 1.0, |_| 10.0)).unwrap_err();
    assert!(
        matches!(
            error,
            CompareError::TooFew {
                needed: 5,
                found: 4,
                ..
            }
        ),
        "{error}"
    );
    assert!(alternation_estimate(&[]).is_err());
}

/// With independent lives the estimate's own variance must come out right: against the known
/// variance of a difference of two means, n lives each, which is the least possible.
#[test]
fn the_standard_error_is_that_of_independent_lives() {
    let mut random = crate::random::Random::new(3);
    let (mut squares, mut said, rounds) = (0.0, 0.0, 4_000);
    for _ in 0..rounds {
        let noisy: Vec<(f64, bool)> = (0..21)
            .map(|life| (crate::simulation::normal(&mut random), life % 2 == 1))
            .collect();
        let found = alternation_estimate(&noisy).unwrap();
        squares += found.value * found.value;
        said += found.standard_error * found.standard_error;
    }
    assert!(
        (said / squares - 1.0).abs() < 0.05,
        "stated over true variance {}",
        said / squares
    );
    let least = 1.0 / 10.0 + 1.0 / 11.0;
    assert!(
        squares / f64::from(rounds) < 1.25 * least,
        "{}",
        squares / f64::from(rounds) / least
    );
}
