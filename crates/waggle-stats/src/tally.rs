//! How often did something happen, and what does that say of how often it happens?
//!
//! The calibration counts: A/A experiments called different, intervals that covered a known cost.
//! A share of so few trials needs its own interval; Clopper and Pearson's is never too narrow.
//!
//! Neighbours: `cargo xtask calibrate` and the simulations print a [`Tally`].

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::compare::Interval;
use crate::compare::interval::CONFIDENCE;
use crate::distribution::beta_quantile;

/// `hits` of `of` trials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Trials in which it happened.
    pub hits: u64,
    /// Trials.
    pub of: u64,
}

impl Tally {
    /// Counts one more trial.
    pub fn add(&mut self, hit: bool) {
        self.hits += u64::from(hit);
        self.of += 1;
    }

    /// Counts the trials of another tally too.
    pub fn merge(&mut self, other: Tally) {
        self.hits += other.hits;
        self.of += other.of;
    }

    /// Hits over trials; `None` before the first trial.
    pub fn share(&self) -> Option<f64> {
        (self.of > 0).then(|| self.hits as f64 / self.of as f64)
    }

    /// The share with the 95% interval of Clopper and Pearson: the probabilities under which as few
    /// or as many hits are not surprising at 2.5% each. From 0 to 1 before the first trial.
    pub fn interval(&self) -> Interval {
        self.interval_at(CONFIDENCE)
    }

    /// The same at another confidence.
    pub fn interval_at(&self, confidence: f64) -> Interval {
        let tail = 0.5 - 0.5 * confidence;
        let (hits, misses) = (self.hits as f64, self.of.saturating_sub(self.hits) as f64);
        Interval {
            estimate: self.share().unwrap_or(f64::NAN),
            low: if hits > 0.0 {
                beta_quantile(tail, hits, misses + 1.0)
            } else {
                0.0
            },
            high: if misses > 0.0 {
                beta_quantile(1.0 - tail, hits + 1.0, misses)
            } else {
                1.0
            },
            n: self.of as usize,
        }
    }

    /// Whether the share lies in `low..=high`; never before the first trial.
    pub fn is_within(&self, low: f64, high: f64) -> bool {
        self.share()
            .is_some_and(|share| (low..=high).contains(&share))
    }
}

impl FromIterator<bool> for Tally {
    fn from_iter<I: IntoIterator<Item = bool>>(trials: I) -> Self {
        let mut tally = Tally::default();
        trials.into_iter().for_each(|hit| tally.add(hit));
        tally
    }
}

impl fmt::Display for Tally {
    /// `190 of 200, 95.0% (91.0% to 97.6%)`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} of {}", self.hits, self.of)?;
        let Some(share) = self.share() else {
            return Ok(());
        };
        let interval = self.interval();
        write!(
            formatter,
            ", {:.1}% ({:.1}% to {:.1}%)",
            100.0 * share,
            100.0 * interval.low,
            100.0 * interval.high
        )
    }
}

#[cfg(test)]
mod tests;
