use super::*;

/// Rounds of these effects in turn, a block a second, on a drift.
fn points(effects: &[f64], rounds: usize, drift: impl Fn(f64) -> f64) -> Vec<Point> {
    let mut points = Vec::new();
    for round in 0..rounds {
        for (place, _) in effects.iter().enumerate() {
            let config = (place + round) % effects.len();
            let at_s = points.len() as f64;
            points.push(Point {
                config,
                round,
                at_s,
                value: effects[config] + drift(at_s),
            });
        }
    }
    points
}

#[test]
fn a_drift_that_is_a_line_or_has_corners_at_rounds_cancels() {
    let effects = [0.0, 0.3, -0.2, 0.1];
    for drift in [|_: f64| 5.0, |at: f64| 0.4 * at - 3.0] {
        let fit = Fit::new(&points(&effects, 6, drift), 4, 0).expect("enough");
        for (config, effect) in effects.iter().enumerate().skip(1) {
            let found = fit.difference(config, 0).expect("measured");
            assert!((found.value - effect).abs() < 1e-9, "{found:?}");
            assert!(found.standard_error < 1e-9);
            assert_eq!(found.n, 6);
        }
        let between = fit.difference(1, 2).expect("measured");
        assert!((between.value - 0.5).abs() < 1e-9);
    }
}

#[test]
fn the_level_is_that_of_the_blocks() {
    let fit = Fit::new(&points(&[2.0, 3.0], 5, |_| 10.0), 2, 0).expect("enough");
    assert!((fit.level(0).expect("measured").value - 12.0).abs() < 1e-9);
    assert!((fit.level(1).expect("measured").value - 13.0).abs() < 1e-9);
    assert_eq!(fit.level(2), None);
}

/// Two groups of four and no drift: the pooled t test of any book.
#[test]
fn without_drift_it_is_the_textbook_standard_error() {
    let values = [[1.0, 2.0, 4.0, 3.0], [5.0, 4.0, 7.0, 6.0]];
    let mut points = Vec::new();
    for (config, values) in values.iter().enumerate() {
        for value in values {
            points.push(Point {
                config,
                round: 0,
                at_s: 0.0,
                value: *value,
            });
        }
    }
    let found = Fit::new(&points, 2, 0).expect("enough").difference(1, 0);
    let found = found.expect("measured");
    assert!((found.value - 3.0).abs() < 1e-12);
    assert_eq!(found.df, 6.0);
    // Both variances are 5/3: sqrt(5/3 * (1/4 + 1/4)).
    assert!((found.standard_error - (5.0f64 / 6.0).sqrt()).abs() < 1e-12);
}

#[test]
fn too_little_is_said_to_be() {
    assert!(Fit::new(&[], 2, 0).is_err());
    let two = points(&[0.0, 1.0], 1, |_| 0.0);
    assert!(matches!(
        Fit::new(&two, 2, 0),
        Err(CompareError::TooFew { .. })
    ));
    let mut broken = points(&[0.0, 1.0], 6, |_| 0.0);
    broken[3].value = f64::NAN;
    assert!(matches!(
        Fit::new(&broken, 2, 0),
        Err(CompareError::NotFinite { .. })
    ));
    let foreign = points(&[0.0, 1.0], 6, |_| 0.0);
    assert!(Fit::new(&foreign, 1, 0).is_err());
}

#[test]
fn one_that_stalls_has_its_own_variance() {
    let mut points = points(&[0.0, 0.0, 0.0, 0.0], 12, |_| 0.0);
    for (place, point) in points.iter_mut().enumerate() {
        let sign = if (place / 4) % 2 == 0 { 1.0 } else { -1.0 };
        point.value += sign * if point.config == 3 { 1.0 } else { 0.01 };
    }
    let fit = Fit::new(&points, 4, 0).expect("enough");
    let (calm, wild) = (fit.difference(1, 0), fit.difference(3, 0));
    let (calm, wild) = (calm.expect("measured"), wild.expect("measured"));
    assert!(
        wild.standard_error > 1.2 * calm.standard_error,
        "{wild:?} {calm:?}"
    );
}

/// Three blocks are too few for the test, and enough to be careful.
#[test]
fn one_that_may_stall_has_its_own_variance_at_the_first_look() {
    let mut points = points(&[0.0; 9], 3, |_| 0.0);
    for point in &mut points {
        let sign = [1.0, -2.0, 1.0][(point.round + point.config) % 3];
        point.value += sign * if point.config == 8 { 1.0 } else { 0.01 };
    }
    let fit = Fit::new(&points, 9, 0).expect("enough");
    let (calm, wild) = (fit.difference(1, 0), fit.difference(8, 0));
    let (calm, wild) = (calm.expect("measured"), wild.expect("measured"));
    assert!(
        wild.standard_error > 1.5 * calm.standard_error,
        "{wild:?} {calm:?}"
    );
}
