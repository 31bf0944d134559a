//! What does the sample itself say about the error of its trimmed mean, without a t distribution?
//!
//! The percentile-t bootstrap: resample, studentise each resample by its own standard error, and
//! use the quantiles of what comes out in place of Student's. It answers for skew, which the t
//! interval does not, and is what the t interval is checked against.
//!
//! Correlation between values (windows that share a neighbour, autocorrelation) is not resampled:
//! at the sizes that occur, runs of neighbours resample it badly (coverage 89% to 92% in simulation
//! where this covers 97%). The factor by which it multiplies the variance is known, and
//! widens the interval as it widens the t interval; what is checked is the shape.
//!
//! Invariant: deterministic in values, settings and seed.

use super::interval::{CompareError, Interval};
use super::sample::trimmed_mean;
use crate::random::Random;

/// Resamples of a reported interval.
pub const RESAMPLES: usize = 2_000;

/// How to resample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BootstrapSettings {
    /// Share cut off at each end; 0 for the mean.
    pub trim: f64,
    /// What correlation multiplies the variance of the estimate by; 1 for independent values.
    pub variance_factor: f64,
    /// Number of resamples; [`RESAMPLES`] in reports.
    pub resamples: usize,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// Percentile-t interval of the trimmed mean of `values`.
///
/// # Errors
/// As [`trimmed_mean`]; also [`CompareError::TooFew`] below four values, where resamples repeat
/// themselves.
pub fn bootstrap_interval(
    values: &[f64],
    confidence: f64,
    settings: &BootstrapSettings,
) -> Result<Interval, CompareError> {
    let n = values.len();
    if n < 4 {
        return Err(CompareError::TooFew {
            what: "values to resample",
            needed: 4,
            found: n,
        });
    }
    let whole = trimmed_mean(values, settings.trim)?;
    let mut random = Random::new(settings.seed);
    let mut resample = vec![0.0; n];
    let mut studentised = Vec::with_capacity(settings.resamples);
    for _ in 0..settings.resamples.max(20) {
        for value in &mut resample {
            *value = values[random.next_below(n)];
        }
        let part = trimmed_mean(&resample, settings.trim)?;
        // A resample of equal values says nothing about the error.
        if part.standard_error > 0.0 {
            studentised.push((part.value - whole.value) / part.standard_error);
        }
    }
    studentised.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| match studentised.len() {
        0 => 0.0,
        len => studentised[((share * len as f64) as usize).min(len - 1)],
    };
    let (lower, upper) = (at(0.5 - 0.5 * confidence), at(0.5 + 0.5 * confidence));
    let scale = whole.standard_error * settings.variance_factor.sqrt();
    Ok(Interval {
        estimate: whole.value,
        low: whole.value - upper * scale,
        high: whole.value - lower * scale,
        n,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Efron and Tibshirani, An Introduction to the Bootstrap (1993), section 12.5: survival of the
    /// control mice, mean 56.22; the 90% bootstrap-t interval from 1,000 resamples is [35.82,
    /// 116.74]. Its upper end hangs on a quantile far out that 1,000 resamples know to some 10%.
    #[test]
    fn the_interval_is_the_published_one() {
        let control = [52., 104., 146., 10., 50., 31., 40., 27., 46.];
        let settings = BootstrapSettings {
            trim: 0.0,
            variance_factor: 1.0,
            resamples: 20_000,
            seed: 1,
        };
        let found = bootstrap_interval(&control, 0.90, &settings).unwrap();
        println!("{found:?}");
        assert!((found.estimate - 56.22).abs() < 5e-3);
        assert!((found.low / 35.82 - 1.0).abs() < 0.03, "{found:?}");
        assert!((found.high / 116.74 - 1.0).abs() < 0.10, "{found:?}");
        let few = bootstrap_interval(&control[..3], 0.90, &settings);
        assert!(matches!(few, Err(CompareError::TooFew { needed: 4, .. })));
    }
}
