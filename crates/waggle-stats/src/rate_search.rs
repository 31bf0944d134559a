//! Which is the highest rate at which a limit on the latency holds?
//!
//! A state machine: [`RateSearch::next`] proposes a step (a rate and how long to hold it), the
//! caller runs it and hands the [`Step`] to [`RateSearch::take`]. From a first guess the rate
//! doubles or halves until one rate holds and a higher one does not; the gap is then halved until
//! it is within the tolerance; at last the rate that held must hold again, twice as long, and the
//! one that failed must fail again. One that does not changes sides, and the search goes on from
//! there. So what is claimed was seen twice, and a lucky or an unlucky step costs time, not
//! truth.
//!
//! Whether a rate holds is not only a matter of its latency: a server that falls behind must be
//! seen as failing even when the step ended before the percentile shows it.
//!
//! Invariant: pure, and it ends: every path either narrows the gap, or uses up one of a bounded
//! number of steps.

use serde::Serialize;

#[cfg(test)]
mod tests;

/// The share of the offered rate that must be carried.
const CARRIED_MIN: f64 = 0.98;

/// Steps after which the search ends with what it has.
const STEPS_MAX: usize = 40;

/// How often a rate that failed may turn out to hold. Without an end to that, the noise of steps
/// would lead the search up and down for ever; the other way round, each turn lowers the claim.
const RAISED_MAX: u32 = 2;

/// The first rate is not raised or lowered by more than this factor in all.
const SPAN_MAX: f64 = 1e6;

/// What to search for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchSettings {
    /// Where to begin, in events a second.
    pub first_rate: f64,
    /// Length of a step.
    pub step_s: f64,
    /// The percentile that is limited, 0 to 1; 1 is the maximum.
    pub quantile: f64,
    /// Its limit.
    pub limit_us: f64,
    /// The gap between the rate that holds and the one that does not, as a share of the latter.
    pub tolerance: f64,
}

/// A step to run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Proposal {
    /// Events a second to offer.
    pub rate: f64,
    /// For how long, in seconds.
    pub length_s: f64,
    /// True when this rate was tried before and the outcome must show again.
    pub confirms: bool,
}

/// What a step found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Step {
    /// Events a second that were offered.
    pub rate: f64,
    /// Events a second that ended.
    pub achieved: f64,
    /// The limited percentile of the response time; `None` when nothing ended.
    pub latency_us: Option<f64>,
    /// The oldest event that was waiting for a thread when the step ended, in microseconds.
    pub backlog_age_us: f64,
    /// Events that were due and were not begun because too many waited.
    pub dropped: u64,
    /// Events that failed for good.
    pub failed: bool,
}

/// Why a rate does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Broken {
    /// The percentile is above its limit.
    Latency,
    /// Less was carried than was offered.
    Throughput,
    /// What waited at the end had waited for longer than the limit.
    Backlog,
    /// Events were dropped.
    Dropped,
    /// The load ended with an error.
    Failed,
}

/// Where the search stands.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "found", rename_all = "kebab-case")]
pub enum Found {
    /// The limit lies between the two.
    Between {
        /// The highest rate that held, twice.
        holds: f64,
        /// The lowest rate that did not; twice, unless the search met steps that contradict each
        /// other.
        fails: f64,
    },
    /// Every rate held, up to this one.
    NoneFails {
        /// The highest rate tried.
        holds: f64,
    },
    /// No rate held, down to this one.
    NoneHolds {
        /// The lowest rate tried.
        fails: f64,
    },
    /// The steps were used up before both ends of a narrow gap were seen twice.
    Unfinished {
        /// The highest rate that held, once.
        holds: Option<f64>,
        /// The lowest rate that did not.
        fails: Option<f64>,
    },
}

/// The search.
#[derive(Debug, Clone)]
pub struct RateSearch {
    settings: SearchSettings,
    holds: Option<f64>,
    fails: Option<f64>,
    holds_again: bool,
    fails_again: bool,
    /// Rates that failed and then held.
    raised: u32,
    steps: Vec<(Step, Option<Broken>)>,
}

impl RateSearch {
    /// A search that has tried nothing.
    pub fn new(settings: SearchSettings) -> RateSearch {
        RateSearch {
            settings,
            holds: None,
            fails: None,
            holds_again: false,
            fails_again: false,
            raised: 0,
            steps: Vec::new(),
        }
    }

    /// The next step to run, or `None` when the search has ended.
    pub fn next(&self) -> Option<Proposal> {
        if self.steps.len() >= STEPS_MAX {
            return None;
        }
        let first = self.settings.first_rate;
        let (rate, confirms) = match (self.holds, self.fails) {
            (None, None) => (first, false),
            (Some(holds), None) if holds >= first * SPAN_MAX => return None,
            (Some(holds), None) => (holds * 2.0, false),
            (None, Some(fails)) if fails <= first / SPAN_MAX => return None,
            (None, Some(fails)) => (fails / 2.0, false),
            (Some(holds), Some(fails)) if self.is_wide(holds, fails) => {
                ((holds + fails) / 2.0, false)
            }
            (Some(holds), Some(_)) if !self.holds_again => (holds, true),
            (Some(_), Some(fails)) if !self.fails_again && self.raised < RAISED_MAX => {
                (fails, true)
            }
            (Some(_), Some(_)) => return None,
        };
        let factor = if confirms { 2.0 } else { 1.0 };
        Some(Proposal {
            rate,
            length_s: factor * self.step_s(rate),
            confirms,
        })
    }

    /// Takes what the proposed step found and says why its rate does not hold, if it does not.
    pub fn take(&mut self, step: Step) -> Option<Broken> {
        let confirms = self.next().is_some_and(|proposal| proposal.confirms);
        let broken = self.broken(&step);
        self.steps.push((step, broken));
        // A rate that was tried before and now changes sides has had its second chance.
        match broken {
            None if confirms && self.holds == Some(step.rate) => self.holds_again = true,
            None => {
                self.holds = Some(step.rate);
                self.holds_again = false;
                if confirms {
                    self.raised += 1;
                    self.fails = self.failed_above(step.rate);
                    self.fails_again = false;
                }
            }
            Some(_) => {
                self.fails = Some(step.rate);
                self.fails_again = confirms;
                if confirms && self.holds == Some(step.rate) {
                    self.holds = self.held_below(step.rate);
                    self.holds_again = false;
                }
            }
        }
        broken
    }

    /// Every step taken, in order.
    pub fn steps(&self) -> &[(Step, Option<Broken>)] {
        &self.steps
    }

    /// What has been found so far.
    pub fn found(&self) -> Found {
        match (self.holds, self.fails) {
            (Some(holds), Some(fails)) if self.next().is_none() && self.is_done() => {
                Found::Between { holds, fails }
            }
            (Some(holds), None) if self.next().is_none() => Found::NoneFails { holds },
            (None, Some(fails)) if self.next().is_none() => Found::NoneHolds { fails },
            (holds, fails) => Found::Unfinished { holds, fails },
        }
    }

    fn is_done(&self) -> bool {
        self.holds_again && (self.fails_again || self.raised == RAISED_MAX)
    }

    fn is_wide(&self, holds: f64, fails: f64) -> bool {
        fails - holds > self.settings.tolerance * fails
    }

    /// Long enough for about 20 events beyond the percentile, within four times what was asked for.
    fn step_s(&self, rate: f64) -> f64 {
        const BEYOND: f64 = 20.0;
        let asked = self.settings.step_s;
        let beyond_share = 1.0 - self.settings.quantile;
        if beyond_share <= 0.0 {
            return asked;
        }
        (BEYOND / beyond_share / rate).clamp(asked, 4.0 * asked)
    }

    fn held_below(&self, rate: f64) -> Option<f64> {
        let held = self.steps.iter().filter(|(_, broken)| broken.is_none());
        let below = held.map(|(step, _)| step.rate).filter(|&r| r < rate);
        below.max_by(f64::total_cmp)
    }

    fn failed_above(&self, rate: f64) -> Option<f64> {
        let failed = self.steps.iter().filter(|(_, broken)| broken.is_some());
        let above = failed.map(|(step, _)| step.rate).filter(|&r| r > rate);
        above.min_by(f64::total_cmp)
    }

    fn broken(&self, step: &Step) -> Option<Broken> {
        let limit_us = self.settings.limit_us;
        if step.failed {
            return Some(Broken::Failed);
        }
        if step.dropped > 0 {
            return Some(Broken::Dropped);
        }
        if step.latency_us.is_none_or(|us| us > limit_us) {
            return Some(Broken::Latency);
        }
        if step.backlog_age_us > limit_us {
            return Some(Broken::Backlog);
        }
        (step.achieved < CARRIED_MIN * step.rate).then_some(Broken::Throughput)
    }
}
