//! What must not get worse while the objective gets better?
//!
//! Guards are readings beside the objective, of which less is better: the 99th percentile, errors,
//! memory, a replica's lag. Neighbour: `outcome` asks them before it recommends.
//!
//! Invariant: a guard that was not read is not held.

use serde::{Deserialize, Serialize};

use super::fit::{Fit, Point};
use super::strategy::Block;
use crate::compare::{CONFIDENCE, Interval};

/// A reading that must not get worse.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Guard {
    /// Its name.
    pub name: String,
    /// By how much the estimate may rise before a rise counts, as a share (of a reading that is
    /// never 0) or in the reading's unit (of one that is).
    pub tolerance: f64,
    /// A level that must not be passed at all, in the reading's unit.
    pub limit: Option<f64>,
}

/// Whether a guard was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuardVerdict {
    /// It did not rise, as far as was seen.
    Held,
    /// It rose: its 95% interval lies above 0 and its estimate above the tolerance, or the level
    /// is above the limit.
    Worse,
    /// It was not read often enough.
    Unknown,
}

/// What a guard says of a configuration against the present one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GuardStanding {
    /// The guard's name.
    pub name: String,
    /// Its verdict.
    pub verdict: GuardVerdict,
    /// Mean of the readings, in the reading's unit.
    pub level: Option<f64>,
    /// Change against the present configuration with its own 95% interval: a ratio, or a difference
    /// where `is_ratio` is false.
    pub change: Option<Interval>,
    /// Whether `change` is a ratio.
    pub is_ratio: bool,
}

/// What guard number `at` says of every configuration.
pub(super) fn standings(
    guard: &Guard,
    at: usize,
    blocks: &[Block],
    configs: usize,
    anchor: usize,
) -> Vec<GuardStanding> {
    let read: Vec<(&Block, f64)> = blocks
        .iter()
        .filter_map(|block| {
            let value = block.guards.get(at).copied().flatten()?;
            value.is_finite().then_some((block, value))
        })
        .collect();
    let is_ratio = !read.is_empty() && read.iter().all(|(_, value)| *value > 0.0);
    let points: Vec<Point> = read
        .iter()
        .map(|(block, value)| Point {
            config: block.config,
            round: block.round,
            at_s: block.at_s,
            value: if is_ratio { value.ln() } else { *value },
        })
        .collect();
    let fit = Fit::new(&points, configs, anchor).ok();
    let standing = |config: usize| {
        let own: Vec<f64> = read
            .iter()
            .filter(|(block, _)| block.config == config)
            .map(|(_, value)| *value)
            .collect();
        let level = (!own.is_empty()).then(|| own.iter().sum::<f64>() / own.len() as f64);
        let difference = fit.as_ref().and_then(|fit| fit.difference(config, anchor));
        let interval = difference.map(|estimate| estimate.interval(CONFIDENCE));
        let change = match (interval, is_ratio) {
            (Some(interval), true) => Some(interval.map(f64::exp)),
            (interval, _) => interval,
        };
        let nothing = if is_ratio { 1.0 } else { 0.0 };
        let rose = change.is_some_and(|change| {
            change.low > nothing && change.estimate - nothing > guard.tolerance
        });
        let passed = match (guard.limit, level) {
            (Some(limit), Some(level)) => level > limit,
            _ => false,
        };
        let verdict = match (level, change) {
            _ if rose || passed => GuardVerdict::Worse,
            (Some(_), Some(_)) => GuardVerdict::Held,
            _ => GuardVerdict::Unknown,
        };
        GuardStanding {
            name: guard.name.clone(),
            verdict,
            level,
            change,
            is_ratio,
        }
    };
    (0..configs).map(standing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(of: impl Fn(usize, usize) -> Option<f64>) -> Vec<Block> {
        let one = |place: usize| Block {
            config: place % 2,
            round: place / 2,
            at_s: place as f64,
            value: 1.0,
            guards: vec![of(place % 2, place / 2)],
        };
        (0..12).map(one).collect()
    }

    fn verdict(guard: &Guard, blocks: &[Block]) -> GuardVerdict {
        standings(guard, 0, blocks, 2, 0)[1].verdict
    }

    #[test]
    fn a_rise_counts_when_it_is_seen_and_large_enough() {
        let mut guard = Guard {
            name: "p99".to_owned(),
            tolerance: 0.05,
            limit: None,
        };
        let noise = |round: usize| 1.0 + 0.002 * (round * 7 % 5) as f64;
        let rising = |by: f64| {
            blocks(move |config, round| Some((1.0 + by * config as f64) * noise(round + config)))
        };
        assert_eq!(verdict(&guard, &rising(0.2)), GuardVerdict::Worse);
        assert_eq!(verdict(&guard, &rising(0.02)), GuardVerdict::Held);
        assert_eq!(verdict(&guard, &rising(-0.2)), GuardVerdict::Held);
        guard.limit = Some(0.5);
        assert_eq!(verdict(&guard, &rising(-0.2)), GuardVerdict::Worse);
    }

    #[test]
    fn a_reading_that_is_zero_is_compared_by_difference() {
        let guard = Guard {
            name: "errors".to_owned(),
            tolerance: 0.0,
            limit: None,
        };
        let none = blocks(|_, _| Some(0.0));
        assert_eq!(verdict(&guard, &none), GuardVerdict::Held);
        let some = blocks(|config, _| Some(3.0 * config as f64));
        assert_eq!(verdict(&guard, &some), GuardVerdict::Worse);
        let standing = &standings(&guard, 0, &some, 2, 0)[1];
        assert!(!standing.is_ratio);
        assert_eq!(standing.level, Some(3.0));
    }

    #[test]
    fn what_was_not_read_is_not_held() {
        let guard = Guard {
            name: "memory".to_owned(),
            tolerance: 0.0,
            limit: None,
        };
        assert_eq!(verdict(&guard, &blocks(|_, _| None)), GuardVerdict::Unknown);
        let only_present = blocks(|config, _| (config == 0).then_some(1.0));
        assert_eq!(verdict(&guard, &only_present), GuardVerdict::Unknown);
        assert_eq!(verdict(&guard, &[]), GuardVerdict::Unknown);
    }
}
