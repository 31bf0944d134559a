//! Which windows were hit by something else than the arm?
//!
//! A checkpoint, a neighbour's burst or a collector's run lands in some windows and makes them
//! 10% to 100% dearer. Such windows must not widen the interval of all others. Nor may the cure
//! look at the differences: a burst in an arm's window moves one difference up by all of it, a
//! burst in a `none` window moves two down by half, so whatever trims *differences* alone (trimmed
//! mean, Hodges-Lehmann) cuts the two sides unequally and is biased, in an A/A comparison too. So
//! windows are judged, all by one rule that is blind to their arm:
//!
//! 1. each arm's typical effect (median of its differences) is taken out of its windows;
//! 2. a window's level is the median of the five windows around it, itself the middle one; this
//!    follows drift, and a step leaves both its sides unmarked;
//! 3. the noise of a window is told from the median change between neighbours;
//! 4. a window further than [`DISTURBED_AT`] noise deviations from its level is set aside: an arm's
//!    window gives no difference, a `none` window lends its place to the next one;
//! 5. again with the windows that are left, until the marks stand.
//!
//! What is left stands for the undisturbed window. An arm whose *own* cost comes in bursts would be
//! flattered, so the plain mean over all windows is reported beside it, and the marks of the arm
//! are counted against those of `none` ([`crate::compare::Comparison::bursts`]).

use super::chain::{Link, Scale, chain_links, difference, values_of};
use super::sample::median;
use super::window::{Outcome, Window};

/// Distance from the local level, in standard deviations of a window's noise, beyond which a
/// window is set aside. Normal noise goes that far in 2 windows of 10,000.
pub const DISTURBED_AT: f64 = 3.5;

/// Windows on each side that, with the window itself, make its level.
const REACH: usize = 2;

/// Marks stand after two or three rounds; some experiments swing between two sets of marks.
const ROUNDS_MAX: usize = 8;

/// The least noise that is believed, as a logarithm: histograms keep three digits, so equal values
/// may only look equal.
const NOISE_MIN: f64 = 0.002;

/// Standard deviation of normal noise over the median size of its change between two windows:
/// 1.4826 / sqrt(2).
const NOISE_PER_MEDIAN_CHANGE: f64 = 1.048_358;

/// Which of `windows` (in time order) were disturbed, judged by `outcome`: for marks on a timeline.
/// A window that has no value for the outcome is not marked.
pub fn disturbed_windows(windows: &[Window], outcome: Outcome) -> Vec<bool> {
    mark_disturbed(windows, &values_of(windows, outcome, Scale::Log))
}

/// Noise of one window: standard deviation of the outcome's logarithm after drift and effects are
/// taken out, disturbances not counted. `None` with fewer than two neighbouring windows.
pub fn window_noise(windows: &[Window], outcome: Outcome) -> Option<f64> {
    let values = values_of(windows, outcome, Scale::Log);
    let runs = runs_of_usable(windows, &values);
    let level = without_effects(windows, &values, &values);
    runs.iter()
        .any(|run| run.len() > 1)
        .then(|| noise_deviation(&level, &runs))
}

/// Marks among `values`, one a window, NaN where unusable.
pub(crate) fn mark_disturbed(windows: &[Window], values: &[f64]) -> Vec<bool> {
    let runs = runs_of_usable(windows, values);
    let mut kept = values.to_vec();
    let mut disturbed = vec![false; values.len()];
    for _ in 0..ROUNDS_MAX {
        let level = without_effects(windows, values, &kept);
        let limit = DISTURBED_AT * noise_deviation(&level, &runs).max(NOISE_MIN);
        let before = disturbed.clone();
        for run in &runs {
            for (place, &position) in run.iter().enumerate() {
                let off = level[position] - local_median(&level, run, place);
                disturbed[position] = off.abs() > limit;
                kept[position] = if disturbed[position] {
                    f64::NAN
                } else {
                    values[position]
                };
            }
        }
        if disturbed == before {
            break;
        }
    }
    disturbed
}

/// `values` less the typical effect of each window's arm, found from the `kept` values.
fn without_effects(windows: &[Window], values: &[f64], kept: &[f64]) -> Vec<f64> {
    let arms = windows
        .iter()
        .map(|window| window.arm + 1)
        .max()
        .unwrap_or(1);
    let typical = |links: &[Link]| {
        let mut all: Vec<f64> = links.iter().map(|link| difference(kept, link)).collect();
        if all.is_empty() {
            0.0
        } else {
            median(&mut all)
        }
    };
    let effects: Vec<f64> = (0..arms)
        .map(|arm| typical(&chain_links(windows, kept, arm)))
        .collect();
    values
        .iter()
        .zip(windows)
        .map(|(value, window)| value - effects[window.arm])
        .collect()
}

/// The positions of usable windows, a list for each life.
fn runs_of_usable(windows: &[Window], values: &[f64]) -> Vec<Vec<usize>> {
    let mut runs: Vec<Vec<usize>> = Vec::new();
    let mut life = None;
    for (position, window) in windows.iter().enumerate() {
        if life != Some(window.life) {
            runs.push(Vec::new());
            life = Some(window.life);
        }
        if let (false, Some(run)) = (values[position].is_nan(), runs.last_mut()) {
            run.push(position);
        }
    }
    runs
}

/// Standard deviation of one window's noise, from changes between neighbours.
fn noise_deviation(level: &[f64], runs: &[Vec<usize>]) -> f64 {
    let mut changes: Vec<f64> = runs
        .iter()
        .flat_map(|run| {
            run.windows(2)
                .map(|pair| (level[pair[1]] - level[pair[0]]).abs())
        })
        .collect();
    if changes.is_empty() {
        0.0
    } else {
        NOISE_PER_MEDIAN_CHANGE * median(&mut changes)
    }
}

fn local_median(level: &[f64], run: &[usize], place: usize) -> f64 {
    let from = place.saturating_sub(REACH);
    let to = (place + REACH + 1).min(run.len());
    let mut near = [0.0; 2 * REACH + 1];
    for (slot, &position) in near.iter_mut().zip(&run[from..to]) {
        *slot = level[position];
    }
    median(&mut near[..to - from])
}

#[cfg(test)]
mod tests;
