//! Which estimate does every comparison of windows rest on?
//!
//! One, chosen before any result was seen; [`crate::compare`] says why this one.

use super::interval::{CompareError, Estimate};
use super::sample::{autocorrelation, mean, newey_west_factor, trimmed_mean, winsorise};

/// Share of the differences cut off at each end by the primary estimator.
pub const TRIM: f64 = 0.2;

/// From this many differences on the primary estimator trims; below, cutting costs more degrees
/// of freedom than a disturbance costs width.
pub const TRIM_FROM: usize = 10;

/// Fewest differences (or blocks) for which there is a comparison.
pub const DIFFERENCES_MIN: usize = 3;

/// The estimate that every comparison rests on, of differences in time order; `shared_factor` from
/// [`super::shared_neighbour_factor`] (1 for independent ones).
///
/// The 20% trimmed mean from [`TRIM_FROM`] values on, else the mean. Its variance is multiplied by
/// the shared-neighbour factor; when the lag-1 autocorrelation lies more than two standard errors
/// above what shared neighbours explain, by the Newey-West factor if that is larger.
///
/// # Errors
/// Fewer than [`DIFFERENCES_MIN`] values, or one that is not finite.
pub fn primary_estimate(
    differences: &[f64],
    shared_factor: f64,
) -> Result<(Estimate, f64), CompareError> {
    let n = differences.len();
    if n < DIFFERENCES_MIN {
        let what = "undisturbed windows of the arm, each with a `none` window on both sides,";
        return Err(CompareError::TooFew {
            what,
            needed: DIFFERENCES_MIN,
            found: n,
        });
    }
    let trim = trim_for(n);
    let estimate = trimmed_mean(differences, trim)?;
    let factor = variance_factor(&winsorise(differences, trim).values, shared_factor);
    let standard_error = estimate.standard_error * factor.sqrt();
    Ok((
        Estimate {
            standard_error,
            ..estimate
        },
        factor,
    ))
}

pub(crate) fn trim_for(n: usize) -> f64 {
    if n >= TRIM_FROM { TRIM } else { 0.0 }
}

fn variance_factor(values: &[f64], shared_factor: f64) -> f64 {
    let n = values.len() as f64;
    let explained = 0.5 * (shared_factor - 1.0);
    if autocorrelation(values, 1) <= explained + 2.0 / n.sqrt() {
        return shared_factor;
    }
    // The customary rule for the number of lags: 4 (n / 100)^(2/9).
    let lags = (4.0 * (n / 100.0).powf(2.0 / 9.0)).floor().max(1.0) as usize;
    newey_west_factor(values, lags).max(shared_factor)
}

/// The mean of at least [`DIFFERENCES_MIN`] values.
pub(crate) fn mean_over(values: &[f64], what: &'static str) -> Result<Estimate, CompareError> {
    if values.len() < DIFFERENCES_MIN {
        return Err(CompareError::TooFew {
            what,
            needed: DIFFERENCES_MIN,
            found: values.len(),
        });
    }
    mean(values)
}
