//! How does an arm's cost grow with the load: threads, or the request rate?
//!
//! A straight line through the costs measured at several doses, weighted by the inverse of their
//! squared standard errors. Each cost comes with its own error, so the line's error follows from
//! them; where the costs scatter about the line more than their errors allow (the law is not
//! straight, or cells differ in more than the dose), the errors are widened by Birge's ratio and
//! [`DoseLine::misfit`] says so. Then the line is a summary, not a law.
//!
//! Degrees of freedom: those of Satterthwaite for the weighted sum when the line fits; points minus
//! two at most when it does not, for then the scatter is what the error is told from.
//!
//! Simulated (seven doses, 40 windows each, noise that grows with the dose, 2,000 studies): the
//! slope is covered in 96.6%, the cost at dose 0 in 97.0%; 5.5% of true lines are called a misfit,
//! and a parabola from 1.4 to 2.5 in at least 95% of 200.
//!
//! Neighbours: the lab gives one [`DosePoint`] a cell; take `x` as the logarithm of the threads
//! where the chart's axis is logarithmic.

use serde::Serialize;

use super::comparison::Comparison;
use super::interval::{CONFIDENCE, CompareError, Estimate, Interval, check_finite};
use super::nested::combined;
use crate::distribution::f_upper_tail;

/// Fewest doses for a line with an error.
pub const DOSES_MIN: usize = 3;

/// Scatter over what the errors allow, from which a line is called a misfit: chance gives more in
/// about 5% of straight lines of five to ten points.
const MISFIT_P: f64 = 0.05;

/// More degrees of freedom make no difference, endless ones no F distribution.
const DF_MAX: f64 = 1e6;

/// An arm's cost at one dose.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DosePoint {
    /// The dose: threads, statements a second, or the logarithm of either.
    pub x: f64,
    /// The cost there, in any unit, with its error.
    pub cost: Estimate,
}

impl DosePoint {
    /// The cost at dose `x` in the outcome's unit.
    pub fn in_unit(x: f64, comparison: &Comparison) -> Self {
        let cost = comparison.delta_estimate();
        Self { x, cost }
    }

    /// The cost at dose `x` as a log-ratio: 0.05 is about 5%.
    pub fn relative(x: f64, comparison: &Comparison) -> Self {
        let cost = comparison.log_ratio;
        Self { x, cost }
    }
}

/// A line through the costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DoseLine {
    /// Cost per unit of dose, at 95%.
    pub slope: Interval,
    /// The slope with its error, for tests.
    pub slope_estimate: Estimate,
    /// Cost at dose 0, at 95%; far outside the measured doses it is an extrapolation.
    pub at_zero: Interval,
    /// Two-sided p-value of "the cost does not depend on the dose".
    pub p_value: f64,
    /// p-value of "the costs lie on a line".
    pub p_line: f64,
    /// True when they do not (5%): the errors are widened by the scatter.
    pub misfit: bool,
}

/// The line through `points`.
///
/// # Errors
/// Fewer than [`DOSES_MIN`] different doses, or a value that is not finite.
pub fn dose_line(points: &[DosePoint]) -> Result<DoseLine, CompareError> {
    let xs: Vec<f64> = points.iter().map(|point| point.x).collect();
    let costs: Vec<f64> = points.iter().map(|point| point.cost.value).collect();
    let errors: Vec<f64> = points
        .iter()
        .map(|point| point.cost.standard_error)
        .collect();
    check_finite(&xs, "doses")?;
    check_finite(&costs, "costs")?;
    check_finite(&errors, "costs' errors")?;
    let found = different(&xs);
    if found < DOSES_MIN {
        return Err(CompareError::TooFew {
            what: "different doses",
            needed: DOSES_MIN,
            found,
        });
    }
    // An error of 0 (all windows equal) may not outweigh every other point.
    let least = errors.iter().copied().fold(0.0, f64::max) * 1e-3;
    let weights: Vec<f64> = if least > 0.0 {
        errors
            .iter()
            .map(|error| error.max(least).powi(-2))
            .collect()
    } else {
        vec![1.0; points.len()]
    };
    let total: f64 = weights.iter().sum();
    let middle = weights.iter().zip(&xs).map(|(w, x)| w * x).sum::<f64>() / total;
    let spread: f64 = weights
        .iter()
        .zip(&xs)
        .map(|(w, x)| w * (x - middle).powi(2))
        .sum();
    // Both the slope and the cost at dose 0 are weighted sums of the costs.
    let slope_shares: Vec<f64> = weights
        .iter()
        .zip(&xs)
        .map(|(w, x)| w * (x - middle) / spread)
        .collect();
    let zero_shares: Vec<f64> = weights
        .iter()
        .zip(&slope_shares)
        .map(|(w, share)| w / total - middle * share)
        .collect();
    let scatter = Scatter::about_line(points, &weights, &slope_shares, &zero_shares)?;
    let (slope, zero) = (
        scatter.widened(points, &slope_shares)?,
        scatter.widened(points, &zero_shares)?,
    );
    Ok(DoseLine {
        slope: slope.interval(CONFIDENCE),
        slope_estimate: slope,
        at_zero: zero.interval(CONFIDENCE),
        p_value: slope.p_value(0.0),
        p_line: scatter.p,
        misfit: scatter.p < MISFIT_P,
    })
}

/// How the costs scatter about their line.
struct Scatter {
    /// Weighted squares over degrees of freedom: 1 when the errors explain them.
    birge: f64,
    freedom: f64,
    p: f64,
}

impl Scatter {
    fn about_line(
        points: &[DosePoint],
        weights: &[f64],
        slope: &[f64],
        zero: &[f64],
    ) -> Result<Self, CompareError> {
        let sum = |shares: &[f64]| -> f64 {
            shares
                .iter()
                .zip(points)
                .map(|(share, point)| share * point.cost.value)
                .sum()
        };
        let (slope, zero) = (sum(slope), sum(zero));
        let squares: f64 = weights
            .iter()
            .zip(points)
            .map(|(weight, point)| weight * (point.cost.value - zero - slope * point.x).powi(2))
            .sum();
        let freedom = points.len() as f64 - 2.0;
        // The errors are estimates too: an F distribution, not a chi-square.
        let errors_df = points
            .iter()
            .map(|point| point.cost.df)
            .sum::<f64>()
            .min(DF_MAX);
        let birge = squares / freedom;
        Ok(Self {
            birge,
            freedom,
            p: f_upper_tail(birge, freedom, errors_df),
        })
    }

    /// The weighted sum of costs, its error widened if the line does not fit.
    fn widened(&self, points: &[DosePoint], shares: &[f64]) -> Result<Estimate, CompareError> {
        let parts: Vec<(f64, Estimate)> = shares
            .iter()
            .zip(points)
            .map(|(share, point)| (*share, point.cost))
            .collect();
        let sum = combined(&parts)?;
        if self.birge <= 1.0 {
            return Ok(sum);
        }
        Ok(Estimate {
            standard_error: sum.standard_error * self.birge.sqrt(),
            df: sum.df.min(self.freedom),
            ..sum
        })
    }
}

fn different(xs: &[f64]) -> usize {
    let mut sorted = xs.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.dedup();
    sorted.len()
}

#[cfg(test)]
mod tests;
