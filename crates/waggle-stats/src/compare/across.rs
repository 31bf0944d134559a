//! Did an arm's cost change from one run to another?
//!
//! Two runs are independent: other servers, another hour, perhaps another machine or version. The
//! difference of their effects is asked about, not whether each is significant: two costs of 4%
//! ± 3% and 2% ± 3% are no sign of a change though only the first is "significant".
//!
//! Where a run's estimate is at hand with its degrees of freedom, the difference is Welch's
//! ([`Estimate::minus`](super::Estimate::minus)). A stored report holds intervals only, and those
//! of ratios are not symmetric; from these [`difference_of_intervals`] recovers the variances at
//! the ends that matter
//! (MOVER: Zou and Donner, Statistics in Medicine 27, 2008, 1693).
//!
//! Neighbours: `waggle compare` prints it.

use serde::Serialize;

use super::comparison::Comparison;
use super::interval::{CONFIDENCE, Interval};
use super::verdict::{POWER, SIGNIFICANCE, Verdict, equivalence_p};

/// One arm's effect in two runs. "First" is what the second is compared with.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AcrossRuns {
    /// The ratio of the second run over that of the first: 1.02 when watching costs 2% more there.
    pub ratio: Interval,
    /// The cost in the outcome's unit in the second run less that in the first.
    pub delta: Interval,
    /// Two-sided p-value of "the same ratio in both".
    pub p_value: f64,
    /// What may be said of the change: [`Verdict::Costs`] means dearer in the second run.
    pub verdict: Verdict,
    /// The smallest change of the ratio, as a share, that the two runs would have shown with 80%
    /// probability.
    pub smallest_detectable: f64,
}

/// Compares an arm's effect in two independent runs at `margin` (a share).
pub fn compare_runs(first: &Comparison, second: &Comparison, margin: f64) -> AcrossRuns {
    let change = second.log_ratio.minus(&first.log_ratio);
    let p_value = change.p_value(0.0);
    let worse = (change.value > 0.0) == second.outcome.larger_is_worse();
    let verdict = match (p_value < SIGNIFICANCE, worse) {
        (true, true) => Verdict::Costs,
        (true, false) => Verdict::Saves,
        (false, _) if equivalence_p(&change, margin) < SIGNIFICANCE => {
            Verdict::NoDifference { margin }
        }
        (false, _) => Verdict::NotEnoughEvidence,
    };
    AcrossRuns {
        ratio: change.interval(CONFIDENCE).map(f64::exp),
        delta: difference_of_intervals(&first.delta, &second.delta),
        p_value,
        verdict,
        smallest_detectable: change.smallest_detectable(POWER).exp_m1(),
    }
}

/// `second - first` of two independent estimates of which only the intervals are known, both at
/// the same confidence, which the result has too. Intervals need not be symmetric.
pub fn difference_of_intervals(first: &Interval, second: &Interval) -> Interval {
    let estimate = second.estimate - first.estimate;
    let down = (second.estimate - second.low).hypot(first.high - first.estimate);
    let up = (second.high - second.estimate).hypot(first.estimate - first.low);
    Interval {
        estimate,
        low: estimate - down,
        high: estimate + up,
        n: first.n.min(second.n),
    }
}

/// `second / first` of two independent positive estimates of which only the intervals are known:
/// the difference of their logarithms. `None` where one reaches 0.
pub fn ratio_of_intervals(first: &Interval, second: &Interval) -> Option<Interval> {
    let positive = first.low > 0.0 && second.low > 0.0;
    let log = |interval: &Interval| interval.map(f64::ln);
    positive.then(|| difference_of_intervals(&log(first), &log(second)).map(f64::exp))
}

#[cfg(test)]
mod tests;
