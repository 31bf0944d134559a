//! What may be claimed: it costs, it saves, it makes no difference, or it is not known?
//!
//! "Not significant" is no claim. "No difference" is its own test (two one-sided tests, TOST)
//! against a margin that was fixed before the run, and is always printed with the smallest effect
//! that the experiment could have found.
//!
//! **Precedence.** [`judge`] asks in this order:
//! 1. Is the difference from zero significant at 5% (after Holm's adjustment, if several arms were
//!    asked about)? Then `costs` or `saves`, *also when all of it lies within the margin*: a cost
//!    that was seen is not hidden by the choice of a margin. [`Judgement::within_margin`] then says
//!    that it is small, and a report prints "costs 0.4%, within the margin of 1.5%".
//! 2. Else, does the 90% interval lie inside the margin (TOST at 5%)? Then `no-difference`.
//! 3. Else `not-enough-evidence`.

use std::fmt;

use serde::{Serialize, Serializer};

use super::comparison::Comparison;
use super::interval::Estimate;
use crate::distribution::t_quantile;

/// Level of the tests behind a verdict.
pub const SIGNIFICANCE: f64 = 0.05;

/// Power for which the smallest detectable effect is stated.
pub const POWER: f64 = 0.8;

/// What the evidence supports. Serialises as its name: `costs`, `saves`, `no-difference`,
/// `not-enough-evidence`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// The arm is worse than `none`: more time, or fewer statements a second.
    Costs,
    /// The arm is better than `none`.
    Saves,
    /// Any difference is smaller than the margin.
    NoDifference {
        /// The margin, as a share: 0.015 is 1.5%.
        margin: f64,
    },
    /// The interval is too wide for any of these.
    NotEnoughEvidence,
}

impl Verdict {
    /// The name used in `--json` and run files.
    pub fn as_str(&self) -> &'static str {
        match self {
            Verdict::Costs => "costs",
            Verdict::Saves => "saves",
            Verdict::NoDifference { .. } => "no-difference",
            Verdict::NotEnoughEvidence => "not-enough-evidence",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::NoDifference { margin } => {
                write!(
                    formatter,
                    "no difference within ±{}%",
                    (margin * 1e4).round() / 1e2
                )
            }
            Verdict::NotEnoughEvidence => formatter.write_str("not enough evidence"),
            named => formatter.write_str(named.as_str()),
        }
    }
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A verdict with what it rests on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// The margin it was judged by, as a share.
    pub margin: f64,
    /// Two-sided p-value of "no difference", after Holm's adjustment where there was one.
    pub p_difference: f64,
    /// p-value of "the difference is as large as the margin" (TOST).
    pub p_equivalence: f64,
    /// True when the 90% interval lies inside the margin, whatever the verdict.
    pub within_margin: bool,
    /// The smallest true effect, as a share, that this experiment would have found with 80%
    /// probability, at the level that is left for one of all that were judged together.
    pub smallest_detectable: f64,
}

/// Two one-sided tests of a log-ratio: the larger p-value of "the ratio is at most `1 - margin`"
/// and "the ratio is at least `1 + margin`". Below 0.05 exactly when the 90% interval lies inside.
/// A margin outside 0 to 1 is never met: 1.
pub fn equivalence_p(log_ratio: &Estimate, margin: f64) -> f64 {
    if !(margin > 0.0 && margin < 1.0) {
        return 1.0;
    }
    equivalence_p_between(log_ratio, (-margin).ln_1p(), margin.ln_1p())
}

/// Two one-sided tests of any estimate against bounds in its own unit.
pub fn equivalence_p_between(estimate: &Estimate, low: f64, high: f64) -> f64 {
    estimate.p_above(low).max(estimate.p_below(high))
}

/// Judges one comparison at `margin` (a share: 0.015 for ±1.5%), alone.
pub fn judge(comparison: &Comparison, margin: f64) -> Judgement {
    judge_adjusted(comparison, margin, comparison.p_value, 1)
}

/// Judges several arms in one outcome together: the p-values of difference are adjusted by Holm,
/// so the chance of any false `costs` or `saves` among them is 5%.
///
/// Leave the A/A arm out; it is judged alone by [`judge_same`]. An arm whose 95% interval just
/// excludes zero may so become `not-enough-evidence`; the interval printed is the plain one.
pub fn judge_all(comparisons: &[&Comparison], margin: f64) -> Vec<Judgement> {
    let p_values: Vec<f64> = comparisons
        .iter()
        .map(|comparison| comparison.p_value)
        .collect();
    let adjusted = holm(&p_values);
    let pairs = comparisons.iter().zip(adjusted);
    pairs
        .map(|(comparison, p)| judge_adjusted(comparison, margin, p, comparisons.len()))
        .collect()
}

fn judge_adjusted(
    comparison: &Comparison,
    margin: f64,
    p_difference: f64,
    tests: usize,
) -> Judgement {
    let log_ratio = &comparison.log_ratio;
    let p_equivalence = equivalence_p(log_ratio, margin);
    let within_margin = p_equivalence < SIGNIFICANCE;
    let worse = (log_ratio.value > 0.0) == comparison.outcome.larger_is_worse();
    let verdict = if p_difference < SIGNIFICANCE {
        if worse {
            Verdict::Costs
        } else {
            Verdict::Saves
        }
    } else if within_margin {
        Verdict::NoDifference { margin }
    } else {
        Verdict::NotEnoughEvidence
    };
    let smallest_detectable = log_ratio.smallest_detectable_of(tests, POWER).exp_m1();
    Judgement {
        verdict,
        margin,
        p_difference,
        p_equivalence,
        within_margin,
        smallest_detectable,
    }
}

/// What the A/A comparison says about the instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SameVerdict {
    /// The 95% interval contains "no difference", as it must in 19 of 20 sound experiments.
    Clean,
    /// It does not, but all of the 90% interval is inside the margin: what may be wrong is smaller
    /// than what is claimed. Expected in up to 1 of 20 sound experiments.
    Bounded,
    /// It does not, and more than the margin may be wrong: nothing may be claimed.
    Unsound,
}

/// Judges the arm that is `none` again.
pub fn judge_same(comparison: &Comparison, margin: f64) -> SameVerdict {
    if comparison.p_value >= SIGNIFICANCE {
        SameVerdict::Clean
    } else if equivalence_p(&comparison.log_ratio, margin) < SIGNIFICANCE {
        SameVerdict::Bounded
    } else {
        SameVerdict::Unsound
    }
}

/// Holm's step-down adjustment, in the order given: reject each whose adjusted p-value is below
/// the level, and the chance of any false rejection is at most the level. NaN counts as 1.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let p = |place: usize| {
        if p_values[place].is_nan() {
            1.0
        } else {
            p_values[place]
        }
    };
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&one, &two| p(one).total_cmp(&p(two)));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut highest: f64 = 0.0;
    for (rank, &place) in order.iter().enumerate() {
        let factor = (p_values.len() - rank) as f64;
        highest = highest.max((factor * p(place)).min(1.0));
        adjusted[place] = highest;
    }
    adjusted
}

/// Variance of the 20% trimmed mean over that of the mean, for normal noise: what robustness costs.
const TRIMMED_VARIANCE: f64 = 1.1447;

/// Variance of one difference over that of a window: 1 for its own noise, 1/4 for each neighbour.
const DIFFERENCE_VARIANCE: f64 = 1.5;

/// Variance of the mean difference over what its spread says, on average over independent ones:
/// what the guard against correlation costs (see [`super::primary`]).
const GUARD_VARIANCE: f64 = 1.07;

/// How many windows an arm needs for a 95% interval of `ratio` of half-width `half_width` (a share:
/// 0.015 for ±1.5%), when the noise of one window is `window_noise` (standard deviation of the
/// logarithm, see [`super::disturbance::window_noise`]). As many `none` windows come on top.
///
/// For an arm whose windows do not share neighbours; for a chain of one arm only, a third more.
/// At most a million.
pub fn windows_needed(window_noise: f64, half_width: f64) -> usize {
    let of_mean = TRIMMED_VARIANCE * DIFFERENCE_VARIANCE * GUARD_VARIANCE;
    let variance = of_mean * window_noise * window_noise;
    let wide = |n: usize| {
        let left = (n - 2 * (n / 5)) as f64;
        t_quantile(0.975, left - 1.0) * (variance / n as f64).sqrt() > half_width
    };
    let (mut low, mut high) = (super::primary::TRIM_FROM, 1_000_000);
    while low < high {
        let middle = (low + high) / 2;
        if wide(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests;
