//! Where does one sample of numbers lie, and how far off can that be?
//!
//! The estimators for independent values: the mean with Student's t, the trimmed mean (Tukey and
//! McLaughlin; two samples: Yuen and Welch), and the Hodges-Lehmann median of pairwise means. What
//! a chain of windows adds (shared neighbours, disturbances) is in `chain` and `disturbance`.
//!
//! Invariant: functions reject values that are not finite and samples that are too small; they
//! never return NaN.

use super::interval::{CompareError, Estimate, Interval, check_finite};
use crate::distribution::normal_quantile;

/// Mean with its standard error `s / sqrt(n)`; `n - 1` degrees of freedom.
///
/// # Errors
/// Fewer than two values, or one that is not finite.
pub fn mean(values: &[f64]) -> Result<Estimate, CompareError> {
    check_finite(values, "sample")?;
    let n = values.len();
    if n < 2 {
        return Err(CompareError::TooFew {
            what: "values",
            needed: 2,
            found: n,
        });
    }
    let (mean, variance) = mean_variance(values);
    Ok(Estimate {
        value: mean,
        standard_error: (variance / n as f64).sqrt(),
        df: n as f64 - 1.0,
        n,
    })
}

/// Mean of what is left when the lowest and the highest `share` of the values are cut off (the
/// number cut at each end is rounded down), with the standard error of Tukey and McLaughlin in
/// Yuen's form: the squared distances of the winsorised values over `h (h - 1)`, where `h` values
/// are left; `h - 1` degrees of freedom. A share of 0 gives [`mean`].
///
/// # Errors
/// Fewer than two values left, or a value that is not finite.
pub fn trimmed_mean(values: &[f64], share: f64) -> Result<Estimate, CompareError> {
    let part = trimmed_part(values, share)?;
    Ok(Estimate {
        value: part.mean,
        standard_error: part.variance_of_mean.sqrt(),
        df: part.left - 1.0,
        n: values.len(),
    })
}

/// Yuen's test of two independent samples: trimmed mean of `one` minus that of `two`, with Welch's
/// degrees of freedom.
///
/// # Errors
/// As [`trimmed_mean`].
pub fn trimmed_difference(one: &[f64], two: &[f64], share: f64) -> Result<Estimate, CompareError> {
    let (part1, part2) = (trimmed_part(one, share)?, trimmed_part(two, share)?);
    let (d1, d2) = (part1.variance_of_mean, part2.variance_of_mean);
    let variance = d1 + d2;
    let df = if variance > 0.0 {
        variance.powi(2) / (d1.powi(2) / (part1.left - 1.0) + d2.powi(2) / (part2.left - 1.0))
    } else {
        part1.left.min(part2.left) - 1.0
    };
    Ok(Estimate {
        value: part1.mean - part2.mean,
        standard_error: variance.sqrt(),
        df,
        n: one.len().min(two.len()),
    })
}

/// Hodges-Lehmann estimate (median of all pairwise means) with the interval that Wilcoxon's
/// signed-rank test gives (normal approximation with continuity correction).
///
/// Assumes a symmetric distribution and nothing else. O(n^2 log n): meant for n up to a thousand.
/// Below six values the widest interval of 95% that exists is the range, and is narrower than
/// stated.
///
/// # Errors
/// Fewer than two values, or one that is not finite.
pub fn hodges_lehmann(values: &[f64], confidence: f64) -> Result<Interval, CompareError> {
    check_finite(values, "sample")?;
    let n = values.len();
    if n < 2 {
        return Err(CompareError::TooFew {
            what: "values",
            needed: 2,
            found: n,
        });
    }
    let mut means = Vec::with_capacity(n * (n + 1) / 2);
    for (i, one) in values.iter().enumerate() {
        means.extend(values[i..].iter().map(|two| 0.5 * (one + two)));
    }
    means.sort_unstable_by(f64::total_cmp);
    let size = n as f64;
    let centre = size * (size + 1.0) / 4.0;
    let spread = (size * (size + 1.0) * (2.0 * size + 1.0) / 24.0).sqrt();
    let rank = centre - 0.5 - normal_quantile(0.5 + 0.5 * confidence) * spread;
    let cut = (rank.max(0.0).floor() as usize).min((means.len() - 1) / 2);
    Ok(Interval {
        estimate: median_of_sorted(&means),
        low: means[cut],
        high: means[means.len() - 1 - cut],
        n,
    })
}

/// Lag-`lag` autocorrelation of values in time order; 0 when it cannot be told.
pub fn autocorrelation(values: &[f64], lag: usize) -> f64 {
    if lag == 0 || values.len() <= lag + 1 {
        return if lag == 0 { 1.0 } else { 0.0 };
    }
    let (mean, variance) = mean_variance(values);
    let total = variance * (values.len() as f64 - 1.0);
    if total <= 0.0 {
        return 0.0;
    }
    let shifted = values[lag..].iter();
    values
        .iter()
        .zip(shifted)
        .map(|(a, b)| (a - mean) * (b - mean))
        .sum::<f64>()
        / total
}

/// Mean and variance (divisor `n - 1`; 0 for a single value).
pub(crate) fn mean_variance(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (
        mean,
        if values.len() < 2 {
            0.0
        } else {
            squares / (n - 1.0)
        },
    )
}

/// Median; reorders `values`, which must not be empty.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    median_of_sorted(values)
}

fn median_of_sorted(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        0.5 * (sorted[middle - 1] + sorted[middle])
    }
}

struct TrimmedPart {
    mean: f64,
    variance_of_mean: f64,
    /// Values left after the cut.
    left: f64,
}

fn trimmed_part(values: &[f64], share: f64) -> Result<TrimmedPart, CompareError> {
    check_finite(values, "sample")?;
    let winsorised = winsorise(values, share);
    let cut = cut_count(values.len(), share);
    let left = values.len().saturating_sub(2 * cut);
    if left < 2 {
        return Err(CompareError::TooFew {
            what: "values after trimming",
            needed: 2,
            found: left,
        });
    }
    // Each end of the winsorised values stands cut + 1 times; once is the value itself.
    let ends = cut as f64 * (winsorised.low + winsorised.high);
    let left = left as f64;
    let mean = (winsorised.values.iter().sum::<f64>() - ends) / left;
    let spread = mean_variance(&winsorised.values).1 * (values.len() as f64 - 1.0);
    Ok(TrimmedPart {
        mean,
        variance_of_mean: spread / (left * (left - 1.0)),
        left,
    })
}

/// How many values `share` cuts off at each end.
fn cut_count(n: usize, share: f64) -> usize {
    // The small addition keeps 0.2 * 15 at 3.
    ((n as f64 * share.clamp(0.0, 0.5)) + 1e-9).floor() as usize
}

/// Values in their own order, the outer ones moved in.
pub(crate) struct Winsorised {
    pub(crate) values: Vec<f64>,
    low: f64,
    high: f64,
}

/// Moves the lowest and the highest `share` of `values` to the ends of what is left.
pub(crate) fn winsorise(values: &[f64], share: f64) -> Winsorised {
    let cut = cut_count(values.len(), share);
    if values.len() <= 2 * cut {
        return Winsorised {
            values: values.to_vec(),
            low: 0.0,
            high: 0.0,
        };
    }
    let mut scratch = values.to_vec();
    let high_place = values.len() - 1 - cut;
    let low = *scratch.select_nth_unstable_by(cut, f64::total_cmp).1;
    let high = *scratch.select_nth_unstable_by(high_place, f64::total_cmp).1;
    let values = values.iter().map(|value| value.clamp(low, high)).collect();
    Winsorised { values, low, high }
}

#[cfg(test)]
mod tests;
