//! What does an arm cost, in one outcome, with everything a report must say about it?
//!
//! Data flow: windows, disturbed ones set aside ([`super::disturbance`]), differences against the
//! neighbours ([`super::chain`]), one estimate, then the checks beside it. The estimate is always
//! the same one (see [`crate::compare`] for why); no check ever replaces it. `over_chain` compares
//! arms that are switched within a life, `over_lives` those that last one; both put a
//! [`Comparison`] together here.

use serde::Serialize;

use super::bootstrap::RESAMPLES;
use super::interval::{CONFIDENCE, Estimate, Interval, intervals_agree};
use super::window::Outcome;
use crate::distribution::hypergeometric_upper_tail;

mod over_chain;
mod over_lives;

pub use over_chain::compare_chain;
pub use over_lives::{compare_blocks, compare_lives};

/// From this many differences on there is a bootstrap; below, it says less than the t interval.
pub const BOOTSTRAP_FROM: usize = 20;

/// Chance of the marks falling as unevenly as this on the arm, below which they are its doing.
const BURSTS_P: f64 = 0.01;

/// What one measurement is, and so what a result can be generalised to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Windows: the interval speaks of the server lives that were measured.
    #[default]
    Windows,
    /// Lives: the interval speaks of any life of such a server; needs several.
    Lives,
}

/// How to compare.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompareSettings {
    /// What one measurement is.
    pub unit: Unit,
    /// Seed of the bootstrap.
    pub seed: u64,
    /// Resamples of the bootstrap; [`RESAMPLES`] in reports, 0 leaves the bootstrap out (while a
    /// run goes on and only widths are asked for).
    pub resamples: usize,
}

impl Default for CompareSettings {
    fn default() -> Self {
        Self {
            unit: Unit::Windows,
            seed: 1,
            resamples: RESAMPLES,
        }
    }
}

/// How the error of a comparison over lives splits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Levels {
    /// Lives with enough windows of the arm.
    pub lives: usize,
    /// Standard deviation of the log-ratio from life to life, beyond what windows explain.
    pub between_sd: f64,
    /// Typical standard error of one life's own log-ratio.
    pub within_se: f64,
}

/// An arm against `none` in one outcome. Intervals are at 95%.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The arm.
    pub arm: usize,
    /// The outcome.
    pub outcome: Outcome,
    /// What one measurement is.
    pub unit: Unit,
    /// Typical value under `none` beside the arm's windows, in the outcome's unit (geometric mean).
    pub base: f64,
    /// Primary result: the outcome under the arm over that under `none`.
    pub ratio: Interval,
    /// The same in the outcome's unit: `base * (ratio - 1)`. Agrees with `ratio` on the sign.
    pub delta: Interval,
    /// The primary result by bootstrap; `None` when left out, over lives, and below
    /// [`BOOTSTRAP_FROM`] differences.
    pub ratio_bootstrap: Option<Interval>,
    /// Whether t interval and bootstrap tell the same story; `None` when there is no bootstrap.
    pub agree: Option<bool>,
    /// Plain mean of all log-ratios, disturbed windows included: what the arm cost with the bursts.
    pub ratio_all_windows: Interval,
    /// Robust check: Hodges-Lehmann median of the undisturbed log-ratios; `None` over lives.
    pub ratio_hodges_lehmann: Option<Interval>,
    /// Mean difference taken in the outcome's unit, not by way of the ratio.
    pub difference: Interval,
    /// The primary estimate as a log-ratio, for tests and power.
    pub log_ratio: Estimate,
    /// Two-sided p-value of "no difference".
    pub p_value: f64,
    /// Lag-1 autocorrelation of the differences.
    pub autocorrelation: f64,
    /// What shared neighbours and autocorrelation multiply the variance of the mean by.
    pub variance_factor: f64,
    /// Windows of the arm that were set aside as disturbed, out of `windows_arm`.
    pub disturbed_arm: usize,
    /// Windows of the arm that were measured.
    pub windows_arm: usize,
    /// Windows of `none` that were set aside, out of `windows_base`.
    pub disturbed_base: usize,
    /// Windows of `none` that were measured.
    pub windows_base: usize,
    /// True when the arm has more disturbed windows than chance allows (1%): then they are part of
    /// what it does, and `ratio_all_windows` is the figure to quote.
    pub bursts: bool,
    /// Where the error lies, when the unit is lives and each has windows of both arms.
    pub levels: Option<Levels>,
    /// Change of `none` from before the arm's window to after it, as a ratio: 1 unless the arm
    /// leaves something behind.
    pub carry_over: Option<Interval>,
}

impl Comparison {
    /// The cost in the outcome's unit with its error (by the delta method from the log-ratio), for
    /// sums, lines and differences of costs.
    pub fn delta_estimate(&self) -> Estimate {
        let ratio = self.log_ratio.value.exp();
        Estimate {
            value: self.base * (ratio - 1.0),
            standard_error: self.base * ratio * self.log_ratio.standard_error,
            ..self.log_ratio
        }
    }
}

#[derive(Default)]
struct Marks {
    disturbed_arm: usize,
    windows_arm: usize,
    disturbed_base: usize,
    windows_base: usize,
    carry_over: Option<Estimate>,
}

impl Marks {
    /// Whether the arm has more marks than a rule blind to arms would give it by chance.
    fn are_bursts(&self) -> bool {
        let marked = (self.disturbed_arm + self.disturbed_base) as u64;
        let chance = hypergeometric_upper_tail(
            self.disturbed_arm as u64,
            self.windows_arm as u64,
            marked,
            (self.windows_arm + self.windows_base) as u64,
        );
        marked > 0 && chance < BURSTS_P
    }
}

/// What a comparison is put together from; all on the logarithmic scale but `plain`.
struct Parts {
    log_ratio: Estimate,
    variance_factor: f64,
    autocorrelation: f64,
    base_log: f64,
    plain: Estimate,
    all: Estimate,
    bootstrap: Option<Interval>,
    robust: Option<Interval>,
    levels: Option<Levels>,
    marks: Marks,
}

impl Parts {
    fn into_comparison(self, arm: usize, outcome: Outcome, unit: Unit) -> Comparison {
        let base = self.base_log.exp();
        let log_interval = self.log_ratio.interval(CONFIDENCE);
        let ratio = log_interval.map(f64::exp);
        let exp = |interval: Interval| interval.map(f64::exp);
        Comparison {
            arm,
            outcome,
            unit,
            base,
            ratio,
            delta: ratio.map(|ratio| base * (ratio - 1.0)),
            ratio_bootstrap: self.bootstrap.map(exp),
            agree: self
                .bootstrap
                .map(|other| intervals_agree(&log_interval, &other, 0.0)),
            ratio_all_windows: exp(self.all.interval(CONFIDENCE)),
            ratio_hodges_lehmann: self.robust.map(exp),
            difference: self.plain.interval(CONFIDENCE),
            log_ratio: self.log_ratio,
            p_value: self.log_ratio.p_value(0.0),
            autocorrelation: self.autocorrelation,
            variance_factor: self.variance_factor,
            disturbed_arm: self.marks.disturbed_arm,
            windows_arm: self.marks.windows_arm,
            disturbed_base: self.marks.disturbed_base,
            windows_base: self.marks.windows_base,
            bursts: self.marks.are_bursts(),
            levels: self.levels,
            carry_over: self
                .marks
                .carry_over
                .map(|carry| exp(carry.interval(CONFIDENCE))),
        }
    }
}

#[cfg(test)]
mod tests;
