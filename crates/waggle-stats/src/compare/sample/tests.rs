use super::*;
use crate::compare::interval::CONFIDENCE;

#[track_caller]
fn assert_near(found: f64, expected: f64, tolerance: f64) {
    assert!(
        (found - expected).abs() <= tolerance,
        "found {found}, expected {expected}"
    );
}

/// Student's sleep data (Cushny and Peebles 1905), extra hours under two drugs.
pub(crate) const DRUG_1: [f64; 10] = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
pub(crate) const DRUG_2: [f64; 10] = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];

pub(crate) fn sleep_differences() -> Vec<f64> {
    DRUG_1
        .iter()
        .zip(DRUG_2)
        .map(|(one, two)| one - two)
        .collect()
}

/// Dana's self-awareness data, from Wilcox, Introduction to Robust Estimation.
const AWARE_1: [f64; 19] = [
    77., 87., 88., 114., 151., 210., 219., 246., 253., 262., 296., 299., 306., 376., 428., 515.,
    666., 1310., 2611.,
];
const AWARE_2: [f64; 19] = [
    59., 106., 174., 207., 219., 237., 313., 365., 458., 497., 515., 529., 557., 615., 625., 645.,
    973., 1065., 3215.,
];

/// R's documented `t.test` of the paired sleep data.
#[test]
fn paired_t_interval_is_the_published_one() {
    let estimate = mean(&sleep_differences()).unwrap();
    let interval = estimate.interval(CONFIDENCE);
    assert_near(interval.estimate, -1.58, 1e-12);
    assert_near(interval.low, -2.4598858, 5e-8);
    assert_near(interval.high, -0.7001142, 5e-8);
    assert_near(estimate.p_value(0.0), 0.002833, 5e-7);
}

/// NIST/SEMATECH e-Handbook 1.3.5.2, confidence limits of the ZARR13 data.
#[test]
fn nist_t_interval_is_the_published_one() {
    let standard_error = 0.02278881 / 195_f64.sqrt();
    let zarr13 = Estimate {
        value: 9.261460,
        standard_error,
        df: 194.0,
        n: 195,
    };
    let interval = zarr13.interval(CONFIDENCE);
    assert_near(interval.low, 9.258242, 1e-6);
    assert_near(interval.high, 9.264679, 1e-6);
}

/// R's documented Welch test of the sleep data: Yuen's test without trimming.
#[test]
fn yuen_without_trimming_is_welch() {
    let welch = trimmed_difference(&DRUG_1, &DRUG_2, 0.0).unwrap();
    assert_near(welch.df, 17.776, 5e-4);
    assert_near(welch.p_value(0.0), 0.07939, 5e-6);
    let interval = welch.interval(CONFIDENCE);
    assert_near(interval.low, -3.3654832, 5e-8);
    assert_near(interval.high, 0.2054832, 5e-8);
}

/// Wilcox: trimmed mean 282.7; Yuen's test of the two groups gives 2.044 with 23 degrees of freedom
/// and p = 0.053.
#[test]
fn trimmed_means_are_the_published_ones() {
    let one = trimmed_mean(&AWARE_1, 0.2).unwrap();
    assert_near(one.value, 282.7, 0.05);
    assert_near(one.df, 12.0, 0.0);
    let both = trimmed_difference(&AWARE_1, &AWARE_2, 0.2).unwrap();
    assert_near(both.value / both.standard_error, -2.044, 5e-4);
    assert_near(both.df, 23.0, 0.05);
    assert_near(both.p_value(0.0), 0.0525, 5e-4);
}

#[test]
fn trimming_nothing_is_the_mean_and_one_outlier_does_not_move_a_trimmed_mean() {
    let values = sleep_differences();
    assert_eq!(trimmed_mean(&values, 0.0).unwrap(), mean(&values).unwrap());
    let mut spoilt = values.clone();
    spoilt[8] = -1e9;
    let (sound, spoilt) = (trimmed_mean(&values, 0.2), trimmed_mean(&spoilt, 0.2));
    assert_near(sound.unwrap().value, spoilt.unwrap().value, 1e-12);
}

/// Hollander and Wolfe, depression scale factors: -0.46 in (-0.786, -0.010).
#[test]
#[expect(clippy::approx_constant, reason = "3.14 is a measured value")]
fn hodges_lehmann_is_the_published_one() {
    let before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
    let after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29];
    let change: Vec<f64> = after
        .iter()
        .zip(before)
        .map(|(after, before)| after - before)
        .collect();
    let interval = hodges_lehmann(&change, CONFIDENCE).unwrap();
    assert_near(interval.estimate, -0.46, 1e-9);
    assert_near(interval.low, -0.786, 1e-9);
    assert_near(interval.high, -0.010, 1e-9);
}

#[test]
fn autocorrelation_of_a_ramp_and_of_a_zigzag() {
    // By hand: deviations -2 -1 0 1 2, lagged products 2 + 0 + 0 + 2 = 4, squares 10.
    assert_near(autocorrelation(&[1., 2., 3., 4., 5.], 1), 0.4, 1e-12);
    assert!(autocorrelation(&[1., -1., 1., -1., 1., -1.], 1) < -0.8);
    assert_near(autocorrelation(&[3., 3., 3.], 1), 0.0, 0.0);
}

#[test]
fn what_cannot_be_estimated_is_refused() {
    let too_few = CompareError::TooFew {
        what: "values",
        needed: 2,
        found: 1,
    };
    assert_eq!(mean(&[1.0]), Err(too_few));
    let not_finite = CompareError::NotFinite {
        what: "sample",
        position: 1,
    };
    assert_eq!(
        trimmed_mean(&[1.0, f64::NAN, 2.0], 0.2),
        Err(not_finite.clone())
    );
    assert_eq!(
        hodges_lehmann(&[1.0, f64::INFINITY], 0.95).unwrap_err(),
        not_finite
    );
    assert!(trimmed_mean(&[1.0, 2.0, 3.0, 4.0], 0.5).is_err());
}
