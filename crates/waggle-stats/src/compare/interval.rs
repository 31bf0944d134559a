//! What is a number with its uncertainty?
//!
//! [`Interval`] is what reports print; [`Estimate`] is what it is made from and what tests and
//! power need. Both are plain values, in the unit of whatever was measured.

use serde::{Deserialize, Serialize};

use crate::distribution::{t_cdf, t_quantile, t_two_sided_p};

/// The confidence of every interval in a report.
pub const CONFIDENCE: f64 = 0.95;

/// Why a comparison cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// Too little was measured for any interval.
    #[error("comparing: {needed} {what} are needed, {found} can be used; measure longer")]
    TooFew {
        /// What there is too little of.
        what: &'static str,
        /// The least that is enough.
        needed: usize,
        /// What there is.
        found: usize,
    },
    /// A value is infinite or not a number.
    #[error("comparing: value {position} of the {what} is not a finite number")]
    NotFinite {
        /// Which values.
        what: &'static str,
        /// Its position, from 0.
        position: usize,
    },
}

/// An estimate with the interval that covers the truth at the stated confidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Best single value.
    pub estimate: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Independent measurements behind it (windows or blocks).
    pub n: usize,
}

impl Interval {
    /// Half the distance between the ends.
    pub fn half_width(&self) -> f64 {
        0.5 * (self.high - self.low)
    }

    /// True when `value` lies inside, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// True when all of it lies inside `low..=high`.
    pub fn is_within(&self, low: f64, high: f64) -> bool {
        low <= self.low && self.high <= high
    }

    /// The estimate behind an interval at [`CONFIDENCE`] that is symmetric and rests on `df`
    /// degrees of freedom: what a stored report still tells. Take the logarithm of a ratio first.
    pub fn to_estimate(&self, df: f64) -> Estimate {
        Estimate {
            value: self.estimate,
            standard_error: self.half_width() / t_quantile(0.5 + 0.5 * CONFIDENCE, df),
            df,
            n: self.n,
        }
    }

    /// The interval of `rising(x)`; `rising` must never fall.
    #[must_use]
    pub fn map(&self, rising: impl Fn(f64) -> f64) -> Interval {
        Interval {
            estimate: rising(self.estimate),
            low: rising(self.low),
            high: rising(self.high),
            n: self.n,
        }
    }
}

/// A location with its standard error and degrees of freedom.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The location, in the unit of the sample.
    pub value: f64,
    /// Its standard error, same unit.
    pub standard_error: f64,
    /// Degrees of freedom of the standard error; a fraction is allowed.
    pub df: f64,
    /// Measurements behind it.
    pub n: usize,
}

impl Estimate {
    /// The two-sided t interval at `confidence` (0.95 for reports, 0.90 for equivalence at 5%).
    pub fn interval(&self, confidence: f64) -> Interval {
        let half = t_quantile(0.5 + 0.5 * confidence, self.df) * self.standard_error;
        // A standard error of 0 means all values were equal: the interval is the value.
        let half = if self.standard_error == 0.0 {
            0.0
        } else {
            half
        };
        Interval {
            estimate: self.value,
            low: self.value - half,
            high: self.value + half,
            n: self.n,
        }
    }

    /// Two-sided p-value of "the truth is `null`".
    pub fn p_value(&self, null: f64) -> f64 {
        if self.standard_error == 0.0 {
            return if self.value == null { 1.0 } else { 0.0 };
        }
        t_two_sided_p((self.value - null) / self.standard_error, self.df)
    }

    /// One-sided p-value of "the truth is at most `bound`": small when it is clearly above.
    pub fn p_above(&self, bound: f64) -> f64 {
        if self.standard_error == 0.0 {
            return if self.value > bound { 0.0 } else { 1.0 };
        }
        t_cdf((bound - self.value) / self.standard_error, self.df)
    }

    /// One-sided p-value of "the truth is at least `bound`": small when it is clearly below.
    pub fn p_below(&self, bound: f64) -> f64 {
        if self.standard_error == 0.0 {
            return if self.value < bound { 0.0 } else { 1.0 };
        }
        t_cdf((self.value - bound) / self.standard_error, self.df)
    }

    /// The true effect that an experiment of this precision finds with probability `power`
    /// (0.8 by custom) in a two-sided test at 5%: `(t(0.975) + t(power)) * standard error`.
    pub fn smallest_detectable(&self, power: f64) -> f64 {
        self.smallest_detectable_of(1, power)
    }

    /// The same where it is the only effect among so many that are tested together: the smallest of
    /// several p-values has to be below its share of 5% (Bonferroni, and Holm's first step).
    pub fn smallest_detectable_of(&self, tests: usize, power: f64) -> f64 {
        let level = (1.0 - CONFIDENCE) / tests.max(1) as f64;
        (t_quantile(1.0 - 0.5 * level, self.df) + t_quantile(power, self.df)) * self.standard_error
    }

    /// This estimate minus an independent one, with Welch-Satterthwaite degrees of freedom: how
    /// one arm compares with another when both were compared with `none`.
    ///
    /// Two arms of one chain share some `none` windows; that makes the true error of the
    /// difference smaller than stated, never larger.
    #[must_use]
    pub fn minus(&self, other: &Estimate) -> Estimate {
        let (one, two) = (self.standard_error.powi(2), other.standard_error.powi(2));
        let variance = one + two;
        let df = if variance > 0.0 {
            variance.powi(2) / (one.powi(2) / self.df + two.powi(2) / other.df)
        } else {
            self.df.min(other.df)
        };
        Estimate {
            value: self.value - other.value,
            standard_error: variance.sqrt(),
            df,
            n: self.n.min(other.n),
        }
    }
}

/// Whether two intervals for the same thing tell the same story: the same side of `null`, or ends
/// that differ by at most a third of the mean half-width.
///
/// Used for the t interval against the bootstrap. Where they disagree the sample is too small or
/// too skewed for either, and a report says so.
pub fn intervals_agree(one: &Interval, two: &Interval, null: f64) -> bool {
    let scale = 0.5 * (one.half_width() + two.half_width());
    let furthest = (one.low - two.low).abs().max((one.high - two.high).abs());
    let same_side = one.contains(null) == two.contains(null);
    furthest <= scale / 3.0 || (same_side && furthest <= 0.5 * scale)
}

pub(crate) fn check_finite(values: &[f64], what: &'static str) -> Result<(), CompareError> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(position) => Err(CompareError::NotFinite { what, position }),
        None => Ok(()),
    }
}
