//! Which cell is measured next, and which of its arms, when time is short?
//!
//! A study has cells (conditions) and each cell has arms; a run has a budget, or goes on until
//! every interval is narrow enough. [`Allocator`] looks ahead with the rule that half-widths fall
//! with the square root of the windows, and finds the smallest factor by which all targets must be
//! missed so that the time left is enough: the interval that is widest against its target gets the
//! time, until all are equally wide against theirs. With endless time the factor is 1: go on until
//! each target is met.
//!
//! A round takes half of what is missing, so that widths are looked at again before all is spent,
//! and visits each cell once: no cell is measured only in a late, perhaps different, stretch of the
//! run. Going into a cell costs time (a load starts and warms up), so what is left of a cell is not
//! halved again when it would take less than [`STINT_TIMES`] that time.
//!
//! Simulated: three cells whose windows have 2%, 4% and 10% noise (heavy-tailed, with drift and
//! bursts), 600 s, 150 runs: the widest interval is ±1.50% where equal shares of the time give
//! ±2.19%, and intervals cover 94.2% of 450.
//!
//! Neighbours: the lab measures the [`Stint`]s with `none` around and between windows
//! ([`super::with_base`]). Invariant: same seed, same progress, same stints.

use serde::{Deserialize, Serialize};

use super::{ArmPlan, ArmProgress, draw_order};
use crate::random::Random;

/// A stint is not cut shorter than this many times what going into its cell costs.
pub const STINT_TIMES: f64 = 4.0;

/// Share of what is missing that one round measures.
const ROUND_SHARE: f64 = 0.5;

/// Targets are never missed by more than this factor before a run counts as hopeless: then the
/// time is shared in proportion to what is missing.
const FACTOR_MAX: f64 = 1e4;

/// An arm of a cell, and how far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellArm {
    /// The cell.
    pub cell: usize,
    /// The arm within it, its windows, its half-width and its target.
    pub progress: ArmProgress,
    /// Seconds that one more of its windows takes, the `none` window beside it and all switches
    /// included; for an arm of server lives, a life's share.
    pub window_s: f64,
}

/// One stay in a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stint {
    /// The cell.
    pub cell: usize,
    /// Its arms in the order to measure, without `none`.
    pub order: Vec<usize>,
    /// Seconds it will take, going into the cell included.
    pub seconds: f64,
}

/// Spends a budget over the arms of all cells.
#[derive(Clone, Debug)]
pub struct Allocator {
    random: Random,
    fewest: usize,
    entry_s: f64,
    last: Option<usize>,
}

impl Allocator {
    /// An allocator that gives every arm `fewest` windows before it believes a width (30 is fair,
    /// see [`super::Chooser::new`]; a study of many cells may have to do with 15), where going into
    /// a cell takes `entry_s` seconds.
    pub fn new(seed: u64, fewest: usize, entry_s: f64) -> Self {
        Self {
            random: Random::new(seed),
            fewest,
            entry_s: entry_s.max(0.0),
            last: None,
        }
    }

    /// The stints of the next round; none when every arm has what it needs, or when the time left
    /// (infinite for `--until`) is not enough for a window.
    pub fn next_round(&mut self, arms: &[CellArm], remaining_s: f64) -> Vec<Stint> {
        let factor = self.factor(arms, remaining_s);
        // Where even the fewest windows do not fit, all get their share of what there is.
        let windows_s: f64 = arms
            .iter()
            .map(|arm| self.missing(arm, factor) as f64 * arm.window_s)
            .sum();
        if windows_s == 0.0 {
            return Vec::new();
        }
        let entries_s = self.seconds(arms, factor) - windows_s;
        let share = ((remaining_s - entries_s) / windows_s).clamp(0.0, 1.0);
        let mut cells: Vec<usize> = arms.iter().map(|arm| arm.cell).collect();
        cells.sort_unstable();
        cells.dedup();
        self.random.shuffle(&mut cells);
        // Staying costs nothing.
        if let Some(place) = cells.iter().position(|cell| Some(*cell) == self.last) {
            cells.swap(0, place);
        }
        let mut stints = Vec::new();
        let mut left_s = remaining_s;
        for cell in cells {
            let of_cell: Vec<&CellArm> = arms.iter().filter(|arm| arm.cell == cell).collect();
            if let Some(stint) = self.stint(cell, &of_cell, factor, share, left_s) {
                left_s -= stint.seconds;
                self.last = Some(cell);
                stints.push(stint);
            }
        }
        stints
    }

    /// By how much all targets are missed at the end, as far as can be told now: 1 when the time is
    /// enough for each.
    pub fn factor(&self, arms: &[CellArm], remaining_s: f64) -> f64 {
        if self.seconds(arms, 1.0) <= remaining_s {
            return 1.0;
        }
        if self.seconds(arms, FACTOR_MAX) > remaining_s {
            return FACTOR_MAX;
        }
        let (mut low, mut high) = (1.0_f64, FACTOR_MAX);
        for _ in 0..60 {
            let middle = (low * high).sqrt();
            if self.seconds(arms, middle) > remaining_s {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }

    /// Seconds until every arm is within `factor` times its target.
    pub fn seconds(&self, arms: &[CellArm], factor: f64) -> f64 {
        let mut cells: Vec<usize> = Vec::new();
        let mut seconds = 0.0;
        for arm in arms {
            let missing = self.missing(arm, factor);
            seconds += missing as f64 * arm.window_s;
            if missing > 0 {
                cells.push(arm.cell);
            }
        }
        cells.sort_unstable();
        cells.dedup();
        let entries = cells
            .iter()
            .filter(|cell| Some(**cell) != self.last)
            .count();
        seconds + entries as f64 * self.entry_s
    }

    fn missing(&self, arm: &CellArm, factor: f64) -> usize {
        let progress = ArmProgress {
            target: factor * arm.progress.target,
            ..arm.progress
        };
        progress.windows_missing(self.fewest)
    }

    /// What one cell gets of a round, if that is anything: `share` of what its arms miss.
    fn stint(
        &mut self,
        cell: usize,
        arms: &[&CellArm],
        factor: f64,
        share: f64,
        left_s: f64,
    ) -> Option<Stint> {
        let entry_s = if self.last == Some(cell) {
            0.0
        } else {
            self.entry_s
        };
        let missing: Vec<f64> = arms
            .iter()
            .map(|arm| share * self.missing(arm, factor) as f64)
            .collect();
        let whole_s: f64 = missing
            .iter()
            .zip(arms)
            .map(|(n, arm)| n * arm.window_s)
            .sum();
        let halve = whole_s * ROUND_SHARE > STINT_TIMES * self.entry_s;
        let part = if halve { ROUND_SHARE } else { 1.0 };
        let mut seconds = entry_s;
        let mut plans: Vec<ArmPlan> = Vec::new();
        for (missing, arm) in missing.iter().zip(arms) {
            let fits = ((left_s - seconds) / arm.window_s).max(0.0);
            let wanted = if *missing == 0.0 {
                0.0
            } else if share < 1.0 {
                (part * missing).floor().max(1.0)
            } else {
                (part * missing).ceil()
            };
            let windows = wanted.min(fits.floor()) as usize;
            seconds += windows as f64 * arm.window_s;
            plans.push(ArmPlan {
                arm: arm.progress.arm,
                windows,
            });
        }
        let order = draw_order(&plans, None, &mut self.random);
        (!order.is_empty()).then_some(Stint {
            cell,
            order,
            seconds,
        })
    }
}

#[cfg(test)]
mod tests;
