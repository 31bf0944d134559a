//! How often is the verdict right, when the truth is known? Seeded, so the rates are fixed numbers.

use super::*;
use crate::random::Random;
use crate::simulation::normal;

const RUNS: usize = 400;
const INTERVAL_S: f64 = 1.0;

/// Noise around 1: an AR(1) process with a standard deviation of `sd` of its own.
struct Noise {
    phi: f64,
    sd: f64,
    last: f64,
    random: Random,
}

impl Noise {
    fn new(phi: f64, sd: f64, seed: u64) -> Noise {
        let mut random = Random::new(seed);
        let last = sd * normal(&mut random);
        Noise {
            phi,
            sd,
            last,
            random,
        }
    }

    fn next(&mut self) -> f64 {
        let fresh = self.sd * (1.0 - self.phi * self.phi).sqrt();
        self.last = self.phi * self.last + fresh * normal(&mut self.random);
        self.last
    }
}

#[derive(Debug, Default)]
struct Rates {
    steady: f64,
    drifting: f64,
    /// Seconds, of the steady ones.
    from_s: Vec<f64>,
}

/// Verdicts on series of `length` intervals whose mean moves as `shape` says (0 to 1 on the way).
fn rates(length: usize, phi: f64, sd: f64, shape: impl Fn(usize, f64) -> f64) -> Rates {
    let mut rates = Rates::default();
    for run in 0..RUNS {
        let mut noise = Noise::new(phi, sd, run as u64);
        let series: Vec<f64> = (0..length)
            .map(|at| {
                let level = shape(at, at as f64 / length as f64);
                20_000.0 * (level * (1.0 + noise.next())).max(0.0)
            })
            .collect();
        match judge(&series, INTERVAL_S) {
            Steadiness::Steady { from_s, .. } => {
                rates.steady += 1.0 / RUNS as f64;
                rates.from_s.push(from_s);
            }
            Steadiness::Drifting { .. } => rates.drifting += 1.0 / RUNS as f64,
            Steadiness::TooShort { .. } => {}
        }
    }
    rates.from_s.sort_by(f64::total_cmp);
    rates
}

fn median(sorted: &[f64]) -> f64 {
    sorted[sorted.len() / 2]
}

#[test]
fn steady_noise_is_rarely_called_drifting() {
    for (length, phi, sd, wanted) in [
        (60, 0.0, 0.03, 0.95),
        (60, 0.3, 0.05, 0.5),
        (120, 0.5, 0.05, 0.8),
        (300, 0.7, 0.05, 0.9),
        (60, 0.0, 0.15, 0.0),
        (120, 0.7, 0.10, 0.0),
    ] {
        let found = rates(length, phi, sd, |_, _| 1.0);
        assert!(found.drifting <= 0.08, "{length} {phi} {sd}: {found:?}");
        assert!(found.steady >= wanted, "{length} {phi} {sd}: {found:?}");
        let late = found.from_s.iter().filter(|&&from_s| from_s > 0.0).count();
        assert!(
            late as f64 <= 0.05 * RUNS as f64,
            "a warm-up where there is none: {found:?}"
        );
    }
}

#[test]
fn a_drift_beyond_the_margin_is_not_called_steady() {
    // Up or down by a fifth or more over the run, by correlated noise of 3 to 5%.
    for (length, phi, sd, change, detected) in [
        (60, 0.0, 0.05, -0.20, 0.95),
        (60, 0.3, 0.03, 0.20, 0.95),
        (120, 0.5, 0.05, -0.25, 0.95),
        (300, 0.7, 0.05, 0.20, 0.95),
    ] {
        let found = rates(length, phi, sd, |_, way| 1.0 + change * way);
        assert!(
            found.drifting >= detected,
            "{length} {phi} {change}: {found:?}"
        );
        assert!(found.steady <= 0.03, "{length} {phi} {change}: {found:?}");
    }
}

#[test]
fn the_slope_is_given_in_percent_a_minute() {
    let series: Vec<f64> = (0..120).map(|at| 1000.0 - at as f64).collect();
    let Steadiness::Drifting { drift, from_s } = judge(&series, 0.5) else {
        panic!("{:?}", judge(&series, 0.5))
    };
    // 120 a minute of a mean of 940.5.
    assert!((drift.percent_per_minute + 12.76).abs() < 0.01, "{drift:?}");
    assert!(
        (drift.percent + 12.76).abs() < 0.01 && from_s == 0.0,
        "{drift:?}"
    );
}

#[test]
fn a_warm_up_is_cut_off_about_where_it_ends() {
    // From half speed, approaching full speed with a time constant of 4 s; from a cache that fills
    // evenly for 15 s; and from compilation that costs the first 6 s.
    type Shape = fn(usize) -> f64;
    let shapes: [(Shape, f64, f64); 3] = [
        (|at| 1.0 - 0.5 * (-(at as f64) / 4.0).exp(), 4.0, 20.0),
        (|at| 0.4 + 0.6 * (at as f64 / 15.0).min(1.0), 8.0, 18.0),
        (|at| if at < 6 { 0.6 } else { 1.0 }, 5.0, 8.0),
    ];
    for (shape, earliest, latest) in shapes {
        let found = rates(120, 0.3, 0.04, |at, _| shape(at));
        assert!(found.steady >= 0.85, "{found:?}");
        let from_s = median(&found.from_s);
        assert!((earliest..=latest).contains(&from_s), "{from_s}");
    }
}

#[test]
fn a_change_for_good_in_the_second_half_is_not_steady() {
    let found = rates(100, 0.3, 0.04, |_, way| if way < 0.6 { 1.0 } else { 0.7 });
    assert!(found.steady == 0.0 && found.drifting >= 0.95, "{found:?}");
}

#[test]
fn regular_stalls_are_a_steady_state() {
    // A checkpoint every 10 s takes a second down to 40%.
    let found = rates(120, 0.2, 0.03, |at, _| if at % 10 == 7 { 0.4 } else { 1.0 });
    assert!(found.drifting <= 0.05, "{found:?}");
    // And noise it stays: only a longer run can tell a steady one.
    let longer = rates(600, 0.2, 0.03, |at, _| if at % 10 == 7 { 0.4 } else { 1.0 });
    assert!(longer.steady >= 0.9, "{longer:?}");
}

#[test]
fn what_cannot_be_told_is_not_called_steady() {
    assert_eq!(
        judge(&[1.0; 19], 1.0),
        Steadiness::TooShort {
            intervals: 19,
            drift: None
        }
    );
    let stopped = judge(&[0.0; 50], 1.0);
    assert!(
        matches!(stopped, Steadiness::TooShort { .. }),
        "{stopped:?}"
    );
    let exact = judge(&[5.0; 50], 1.0);
    assert!(
        matches!(exact, Steadiness::Steady { from_s: 0.0, .. }),
        "{exact:?}"
    );
    // Noise of 40% over half a minute hides a drift of 20%, and its absence.
    let found = rates(30, 0.2, 0.4, |_, _| 1.0);
    assert!(found.steady <= 0.05, "{found:?}");
}
