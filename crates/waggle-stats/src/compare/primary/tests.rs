use super::*;
use crate::random::Random;
use crate::simulation::normal;
use crate::tally::Tally;

/// A stationary AR(1) series of variance 1.
fn series(n: usize, correlation: f64, random: &mut Random) -> Vec<f64> {
    let fresh = (1.0 - correlation * correlation).sqrt();
    let mut value = normal(random);
    let mut next = || {
        let now = value;
        value = correlation * value + fresh * normal(random);
        now
    };
    (0..n).map(|_| next()).collect()
}

#[test]
fn correlated_differences_are_covered() {
    // As far as the length allows: 15 values do not know their correlation.
    let bounds = [
        (0.0, [0.94, 0.94, 0.94, 0.94]),
        (0.3, [0.91, 0.92, 0.925, 0.935]),
        (0.6, [0.87, 0.905, 0.92, 0.93]),
    ];
    for (correlation, least) in bounds {
        for (n, least) in [15, 30, 60, 150].into_iter().zip(least) {
            let mut random = Random::new(n as u64);
            let (mut covered, mut width) = (Tally::default(), 0.0);
            for _ in 0..4_000 {
                let values = series(n, correlation, &mut random);
                let interval = primary_estimate(&values, 1.0).unwrap().0.interval(0.95);
                covered.add(interval.contains(0.0));
                width += interval.half_width() / 4_000.0;
            }
            println!("{n} differences correlated by {correlation}: {covered} ±{width:.3}");
            assert!(
                covered.is_within(least, 0.97),
                "{n} by {correlation}: {covered}"
            );
        }
    }
}

#[test]
fn independent_values_cost_little_and_negative_correlation_narrows_nothing() {
    let zigzag: Vec<f64> = (0..40)
        .map(|i| if i % 2 == 0 { 1.0 } else { -1.0 })
        .collect();
    let (estimate, factor) = primary_estimate(&zigzag, 1.0).unwrap();
    assert_eq!(factor, 1.0);
    assert_eq!(estimate.df, trimmed_mean(&zigzag, TRIM).unwrap().df);
    let (_, shared) = primary_estimate(&zigzag, 4.0 / 3.0).unwrap();
    assert_eq!(
        shared,
        4.0 / 3.0,
        "what shared neighbours do is known, not estimated"
    );
}

#[test]
fn a_drifting_effect_has_few_degrees_of_freedom() {
    let ramp: Vec<f64> = (0..60).map(f64::from).collect();
    let (estimate, factor) = primary_estimate(&ramp, 1.0).unwrap();
    assert!(
        factor > 20.0 && estimate.df == FREEDOM_MIN,
        "{factor} {estimate:?}"
    );
    let three = primary_estimate(&[1.0, 1.1, 1.2], 1.0).unwrap().0;
    assert_eq!(three.df, 2.0);
}

/// A level told second by second, as of an agent whose work comes in waves.
#[test]
fn the_mean_of_a_series_is_covered() {
    for (correlation, least) in [(0.0, 0.935), (0.5, 0.92)] {
        let mut random = Random::new(5);
        let covered: Tally = (0..2_000)
            .map(|_| {
                let values = series(60, correlation, &mut random);
                series_mean(&values).unwrap().interval(0.95).contains(0.0)
            })
            .collect();
        println!("mean of 60 correlated by {correlation}: {covered}");
        assert!(covered.is_within(least, 0.97), "{covered}");
    }
    assert!(series_mean(&[1.0]).is_err());
    assert_eq!(series_mean(&[2.0, 2.0]).unwrap().standard_error, 0.0);
}
