//! The part of the time that was traced, if it was not all of it, and what that means for figures.
//!
//! Invariant: times are measured, from time stamps, not asked for; what is an estimate is called
//! one.

use serde::{Deserialize, Serialize};

/// Slices of time in which everything was attached; between them nothing was.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TraceSlices {
    /// Share of the time that was asked for, 0 to 1.
    pub share_asked: f64,
    /// Length of a slice that was asked for, ns.
    pub slice_ns: u64,
    /// From which their places were drawn.
    pub seed: u32,
    /// Slices that were traced.
    pub count: u64,
    /// Slices that were left out, as something could not be attached again; in no figure.
    pub refused: u64,
    /// All of them together, from the moment everything was attached until it was about to be
    /// detached, ns.
    pub traced_ns: u64,
    /// Share of the time that was traced, 0 to 1.
    pub share: f64,
    /// Waits that began in a slice, whatever became of them.
    pub began: u64,
    /// The same a second of traced time: of all waits, those between slices too.
    pub began_per_s: f64,
    /// Estimate of all waits that began: as many a second between slices as within.
    pub estimated: u64,
    /// Waits cut by an edge of their slice, or of which not all stages were known yet after it; in
    /// no figure of times.
    pub cut: u64,
    /// Of the cut: those that had lasted for half of a slice or longer when it ended.
    pub cut_long: u64,
    /// Of waits as long as the 99th percentile that is shown (of latches, the largest), the share
    /// that ends in its slice, 0 to 1; absent: there was no wait.
    pub whole_at_p99: Option<f64>,
}

impl TraceSlices {
    /// Of the waits of so many ns that begin in a slice, the share that ends there, 0 to 1.
    pub fn whole(&self, wait_ns: f64) -> f64 {
        (1.0 - wait_ns / (self.slice_ns.max(1) as f64)).clamp(0.0, 1.0)
    }

    /// The slowest waits are more, and slower, than what was seen of them.
    pub fn hides_slow_waits(&self) -> bool {
        self.cut_long > 0 || self.whole_at_p99.is_some_and(|whole| whole < WHOLE_MIN)
    }
}

/// A lesser share of the waits that are seen whole, and the figure is flagged.
const WHOLE_MIN: f64 = 0.9;
