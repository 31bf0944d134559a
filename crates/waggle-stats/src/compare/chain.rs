//! What did an arm's window cost, measured against the `none` windows on both sides of it?
//!
//! The machine drifts by a factor of two within minutes, so a window is compared with the value
//! its two neighbouring `none` windows give for its own middle (linear in time). A drift that is
//! straight over three windows, about two seconds, cancels.
//!
//! **Shared neighbours.** In `none X none X none` both differences use the middle `none` with
//! weight 1/2. With window noise of variance v each difference has variance 3/2 v, and the two have
//! covariance v/4, a correlation of 1/6; a chain of one arm only would so understate the variance
//! of its mean by a third. The mean of the differences is a weighted sum of windows, so the exact
//! factor follows from the weights and is known before anything is measured:
//! [`shared_neighbour_factor`]. It is 1 when the arm's windows never share a neighbour.
//!
//! Neighbours: `disturbance` cleans the windows first, `comparison` makes the interval.

use serde::Serialize;

use super::window::{BASE_ARM, Outcome, Window};

/// On which scale differences are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Natural logarithm: a difference is a log-ratio.
    Log,
    /// The outcome's own unit.
    Plain,
}

/// Where one difference comes from: an arm's window and its two neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Link {
    /// Position of the arm's window.
    pub window: usize,
    /// Position of the last usable `none` window before it.
    pub left: usize,
    /// Position of the first usable `none` window after it.
    pub right: usize,
    /// Weight of the left one, 0 to 1 (1/2 in an even chain); the right one has the rest.
    pub left_weight: f64,
}

/// One difference: the arm's window minus its neighbours' interpolation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Which windows.
    pub link: Link,
    /// The difference, on the scale asked for.
    pub value: f64,
}

/// The differences of `arm`, in the order of `windows`, ready for a one-sample analysis.
///
/// `windows` are in time order. A window without a usable `none` on each side in the same life
/// gives no difference.
pub fn chain_differences(
    windows: &[Window],
    arm: usize,
    outcome: Outcome,
    scale: Scale,
) -> Vec<Difference> {
    let values = values_of(windows, outcome, scale);
    chain_links(windows, &values, arm)
        .into_iter()
        .map(|link| Difference {
            link,
            value: difference(&values, &link),
        })
        .collect()
}

/// By how much windows that share a neighbour multiply the variance of the mean difference, for
/// windows of independent noise: 1 when no neighbour is shared, up to 4/3 for a chain of one arm.
pub fn shared_neighbour_factor(links: &[Link]) -> f64 {
    let weights = |link: &Link| {
        [
            (link.window, 1.0),
            (link.left, -link.left_weight),
            (link.right, link.left_weight - 1.0),
        ]
    };
    let mut parts: Vec<(usize, f64)> = links.iter().flat_map(weights).collect();
    let apart: f64 = parts.iter().map(|(_, weight)| weight * weight).sum();
    if apart == 0.0 {
        return 1.0;
    }
    parts.sort_unstable_by_key(|(position, _)| *position);
    let together: f64 = parts
        .chunk_by(|one, two| one.0 == two.0)
        .map(|same| same.iter().map(|(_, weight)| weight).sum::<f64>().powi(2))
        .sum();
    together / apart
}

/// The outcome of every window on `scale`; NaN where it cannot be used.
pub(crate) fn values_of(windows: &[Window], outcome: Outcome, scale: Scale) -> Vec<f64> {
    let on_scale = |value: f64| {
        if scale == Scale::Log {
            value.ln()
        } else {
            value
        }
    };
    windows
        .iter()
        .map(|window| outcome.of(window).map_or(f64::NAN, on_scale))
        .collect()
}

/// The links of `arm` over the windows whose value is usable.
pub(crate) fn chain_links(windows: &[Window], values: &[f64], arm: usize) -> Vec<Link> {
    let is_base = |position: usize, life: usize| {
        let window = &windows[position];
        window.arm == BASE_ARM && window.life == life && !values[position].is_nan()
    };
    // The next usable base window at or after each position, from the back.
    let mut next_base = vec![None; windows.len() + 1];
    for position in (0..windows.len()).rev() {
        let usable = is_base(position, windows[position].life);
        next_base[position] = if usable {
            Some(position)
        } else {
            next_base[position + 1]
        };
    }
    let mut links = Vec::new();
    let mut left = None;
    for (position, window) in windows.iter().enumerate() {
        if is_base(position, window.life) {
            left = Some(position);
        }
        if window.arm != arm || arm == BASE_ARM || values[position].is_nan() {
            continue;
        }
        let left = left.filter(|&left| windows[left].life == window.life);
        let right = next_base[position].filter(|&right| windows[right].life == window.life);
        if let (Some(left), Some(right)) = (left, right) {
            let span = windows[right].middle_s() - windows[left].middle_s();
            let share = (windows[right].middle_s() - window.middle_s()) / span;
            let left_weight = if share.is_finite() {
                share.clamp(0.0, 1.0)
            } else {
                0.5
            };
            links.push(Link {
                window: position,
                left,
                right,
                left_weight,
            });
        }
    }
    links
}

pub(crate) fn difference(values: &[f64], link: &Link) -> f64 {
    let base = link.left_weight * values[link.left] + (1.0 - link.left_weight) * values[link.right];
    values[link.window] - base
}

#[cfg(test)]
mod tests;
