//! What do blocks say whose windows hang together: lives of a server, repeated pairs?
//!
//! Windows of one server life share its address layout and warm-up, so ten windows of one life are
//! not ten measurements of "a server". The unit is then the life: one value for each (what its
//! windows say), and a t interval over lives. The spread of the lives contains the spread of the
//! windows within them, so both levels are in the interval.

use serde::{Deserialize, Serialize};

use super::chain::Scale;
use super::interval::{CompareError, Estimate, Interval, check_finite};
use super::sample::{mean, mean_variance, trimmed_mean};
use super::window::{Outcome, Window};
use crate::distribution::t_quantile;

/// Two server lives next to each other in time, one under `none`, one under the arm, their order
/// drawn by lot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlockPair {
    /// Windows of the life under `none`.
    pub base: Vec<Window>,
    /// Windows of the life under the arm.
    pub arm: Vec<Window>,
}

/// Values in blocks, and how much of their spread lies where.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TwoLevel {
    /// Mean of the block means; its standard error is that of the block means, so it holds both
    /// levels; blocks minus one degrees of freedom.
    pub estimate: Estimate,
    /// Standard deviation between blocks beyond what their windows explain (0 when there is none).
    pub between_sd: f64,
    /// Standard deviation of single values within a block.
    pub within_sd: f64,
}

/// Mean of block means with a t interval over blocks.
///
/// With `k` blocks of `m` values the error is `between^2 / k + within^2 / (k m)`: more windows in
/// the same lives cannot bring it below `between^2 / k`, which tells when to start new lives.
///
/// # Errors
/// Fewer than two blocks that have a value, or a value that is not finite.
pub fn two_level(blocks: &[Vec<f64>]) -> Result<TwoLevel, CompareError> {
    let filled: Vec<&Vec<f64>> = blocks.iter().filter(|block| !block.is_empty()).collect();
    for block in &filled {
        check_finite(block, "block")?;
    }
    if filled.len() < 2 {
        return Err(CompareError::TooFew {
            what: "blocks",
            needed: 2,
            found: filled.len(),
        });
    }
    let means: Vec<f64> = filled.iter().map(|block| mean_variance(block).0).collect();
    let estimate = mean(&means)?;
    let freedom: f64 = filled.iter().map(|block| block.len() as f64 - 1.0).sum();
    let squares: f64 = filled
        .iter()
        .map(|block| mean_variance(block).1 * (block.len() as f64 - 1.0))
        .sum();
    let within = if freedom > 0.0 {
        squares / freedom
    } else {
        0.0
    };
    let per_block: f64 = filled.iter().map(|block| 1.0 / block.len() as f64).sum();
    let explained = within * per_block / filled.len() as f64;
    let between = (mean_variance(&means).1 - explained).max(0.0);
    Ok(TwoLevel {
        estimate,
        between_sd: between.sqrt(),
        within_sd: within.sqrt(),
    })
}

/// Ratio of means (sum of the second values over the sum of the first) of independent pairs
/// `(base, arm)`, with Fieller's interval.
///
/// For pairs of unequal size, where the ratio of totals is what is asked for. Where each pair is
/// a ratio of its own, as with windows on a drifting machine, the mean log-ratio is steadier.
///
/// # Errors
/// Fewer than two pairs, a value that is not finite, or a base so near zero (less than about two
/// standard errors away) that no ratio is bounded ([`CompareError::TooFew`] usable pairs).
pub fn ratio_of_means(pairs: &[(f64, f64)], confidence: f64) -> Result<Interval, CompareError> {
    let (base, arm): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    check_finite(&base, "base")?;
    check_finite(&arm, "arm")?;
    let n = pairs.len();
    if n < 2 {
        return Err(CompareError::TooFew {
            what: "pairs",
            needed: 2,
            found: n,
        });
    }
    let size = n as f64;
    let ((mean_base, var_base), (mean_arm, var_arm)) = (mean_variance(&base), mean_variance(&arm));
    let products = pairs
        .iter()
        .map(|(b, a)| (b - mean_base) * (a - mean_arm))
        .sum::<f64>();
    let covariance = products / (size - 1.0) / size;
    let (var_base, var_arm) = (var_base / size, var_arm / size);
    let t_square = t_quantile(0.5 + 0.5 * confidence, size - 1.0).powi(2);
    // The r for which mean_arm - r mean_base is not distinguishable from 0: a quadratic in r.
    let a = mean_base.powi(2) - t_square * var_base;
    let b = mean_arm * mean_base - t_square * covariance;
    let c = mean_arm.powi(2) - t_square * var_arm;
    let root = (b * b - a * c).max(0.0).sqrt();
    if a <= 0.0 {
        return Err(CompareError::TooFew {
            what: "pairs with a base above zero",
            needed: n,
            found: 0,
        });
    }
    Ok(Interval {
        estimate: mean_arm / mean_base,
        low: (b - root) / a,
        high: (b + root) / a,
        n,
    })
}

/// One value for a life: the 20% trimmed mean of its windows (the mean of fewer than five).
pub(crate) fn life_value(windows: &[Window], outcome: Outcome, scale: Scale) -> Option<f64> {
    let values = super::chain::values_of(windows, outcome, scale);
    let usable: Vec<f64> = values.into_iter().filter(|value| !value.is_nan()).collect();
    match usable.len() {
        0 => None,
        1 => Some(usable[0]),
        _ => trimmed_mean(&usable, super::primary::TRIM)
            .ok()
            .map(|estimate| estimate.value),
    }
}

/// The plain mean of a life's windows, disturbed ones included.
pub(crate) fn life_mean(windows: &[Window], outcome: Outcome, scale: Scale) -> Option<f64> {
    let values = super::chain::values_of(windows, outcome, scale);
    let usable: Vec<f64> = values.into_iter().filter(|value| !value.is_nan()).collect();
    (!usable.is_empty()).then(|| mean_variance(&usable).0)
}

#[cfg(test)]
mod tests;
