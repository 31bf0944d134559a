//! How long after a switch does the outcome still differ from its steady level?
//!
//! Switching an arm on warms its maps and code, switching it off leaves queues and caches behind;
//! and the load itself stood still. The experiment reads the clocks at about ten equal slices of
//! every window, counted from the switch; here each early slice is compared with the second half
//! of its own window, for every arm apart ([`Switch::On`]) and for the `none` windows that follow
//! it ([`Switch::Off`]).
//!
//! **The test.** The slice's rank among the steady slices of the same window, averaged over
//! windows. If nothing carries over, all ranks are equally likely whatever the shape of the noise,
//! so bursts and heavy tails raise no alarm, where a t test of log-ratios is off by half the
//! variance of a slice. A tail that is too weak to show in one slice shows in several: "nothing
//! deviates from slice k on" is judged by slice k alone and by the mean rank of it and all early
//! slices after it, the smaller p-value doubled. These hypotheses are tested in order, k = 0, 1,
//! ..., until one stands. Each contains the one before, so the chance of going too far is that of
//! one test; over the switches of a run it is kept at 5% by Bonferroni.
//!
//! **The trim.** One for all windows, so that it is blind to arms: the last slice, of whatever
//! switch, that was rejected and is off by at least [`LEAST`], and one slice more, since a tail
//! fades and what is not proven off is not proven steady. If the last slice that was tested is
//! rejected, the window never settled: [`CarryOvers::settled`] is false, and longer windows are the
//! cure, not a longer trim.
//!
//! Simulated (3 arms, 40 windows of 0.7 s each, ten slices, 4% noise a window, half of it from the
//! slices; 300 runs for false alarms, 200 for the rest). Something that decays is put into the
//! windows of one arm, or into `none` after it; coverage and bias are those of that arm's cost:
//!
//! | | found | cover untrimmed, bias | cover trimmed, bias |
//! |---|---|---|---|
//! | nothing; quiet, drift, rough, steps | 6.0%, 5.0%, 5.3%, 3.0% | | |
//! | after it +30%, 70 ms, quiet | 100% | 71%, -1.30% | 95.5%, -0.06% |
//! | the same, rough | 100% | 65%, -1.27% | 94.0%, +0.00% |
//! | in it +10%, 70 ms, rough | 92% | 75%, +1.05% | 92.0%, +0.30% |
//! | after it +10%, 70 ms, rough | 93% | 89%, -0.41% | 92.5%, +0.01% |
//! | both +30%, 150 ms, quiet | 100%, unsettled 15% | 8.5%, +3.10% | 92.0%, +0.67% |
//! | both +5%, 50 ms, rough | 32% | 95%, +0.24% | 93.5%, +0.16% |
//!
//! So it finds what matters to an interval, and what it misses is small against one. A tail of a
//! fifth of the window (150 ms) is not all removed: then windows are too short, which a settle time
//! above a third of the window tells.
//!
//! Neighbours: the experiment hands over [`SlicedWindow`]s and compares the trimmed ones. What
//! lasts longer than a window is seen by [`crate::compare::Comparison::carry_over`].

use serde::{Deserialize, Serialize};

use super::interval::{CONFIDENCE, Interval};
use super::primary::primary_estimate;
use super::sample::{mean, mean_variance};
use super::verdict::SIGNIFICANCE;
use super::window::{BASE_ARM, Outcome, Window};

/// Fewest slices of a window that is looked at; ten are usual.
pub const SLICES_MIN: usize = 6;

/// Fewest windows of a switch that are tested.
pub const WINDOWS_MIN: usize = 8;

/// A smaller deviation, as a share of the steady level, is not trimmed however sure it is: in one
/// slice of ten it moves the window by a tenth of it.
pub const LEAST: f64 = 0.005;

/// A part of a window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// Its beginning, in seconds since the load went on after the switch.
    pub from_s: f64,
    /// Its end, likewise.
    pub to_s: f64,
    /// Statements the server executed in it.
    pub statements: u64,
    /// CPU time of the server process in it, in nanoseconds.
    pub server_cpu_ns: u64,
}

/// A window with what was read on the way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlicedWindow {
    /// The window as it was measured.
    pub window: Window,
    /// When the load went on after the switch, in seconds since the experiment began.
    pub switched_s: f64,
    /// Its slices in time order, all about equally long, the first one beginning at the switch.
    pub slices: Vec<Slice>,
}

/// What was switched before a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Switch {
    /// This arm was switched on: its own windows.
    On(usize),
    /// This arm was switched off: the `none` windows right after its own.
    Off(usize),
}

/// How far a slice, and the early ones after it, lie from the steady level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SliceDeviation {
    /// Beginning of the slice, in seconds since the switch (mean over windows).
    pub from_s: f64,
    /// Its end, likewise.
    pub to_s: f64,
    /// The slice over the steady level of its window; 1 is no deviation. 95%, not adjusted.
    pub ratio: Interval,
    /// The same for the mean of this slice and the early ones after it.
    pub rest: Interval,
    /// p-value of "no deviation from this slice on", adjusted over the switches of the run.
    pub p_value: f64,
}

impl SliceDeviation {
    /// Whether it is sure and large enough to be trimmed.
    pub fn stands_out(&self) -> bool {
        let off = |interval: &Interval| (interval.estimate - 1.0).abs();
        self.p_value < SIGNIFICANCE && off(&self.ratio).max(off(&self.rest)) >= LEAST
    }
}

/// What one switch carries into the window after it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CarryOver {
    /// The switch.
    pub switch: Switch,
    /// Windows behind it.
    pub windows: usize,
    /// How long it lasts, in seconds since the switch; 0 when nothing was found.
    pub lasts_s: f64,
    /// False when it lasts to the end of what was tested, half the window.
    pub settled: bool,
    /// The slices that were tested: the first half.
    pub slices: Vec<SliceDeviation>,
}

/// What all switches of a run carry over, and what to leave out.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CarryOvers {
    /// Each switch with at least [`WINDOWS_MIN`] windows of at least [`SLICES_MIN`] slices.
    pub switches: Vec<CarryOver>,
    /// What to leave out at the beginning of every window, in seconds since the switch.
    pub settle_s: f64,
    /// False when some switch had not settled after half a window.
    pub settled: bool,
}

/// Looks for what switches carry over, in an outcome that slices have: CPU per statement or
/// statements a second. Other outcomes, and too few windows or slices, find nothing.
pub fn carry_overs(windows: &[SlicedWindow], outcome: Outcome) -> CarryOvers {
    let mut found: Vec<CarryOver> = Vec::new();
    for (switch, members) in by_switch(windows) {
        found.extend(deviations(switch, &members, outcome));
    }
    let switches = found.len() as f64;
    for one in &mut found {
        for slice in &mut one.slices {
            slice.p_value = (switches * slice.p_value).min(1.0);
        }
        let lasts = one
            .slices
            .iter()
            .take_while(|slice| slice.stands_out())
            .count();
        one.lasts_s = lasts
            .checked_sub(1)
            .map_or(0.0, |last| one.slices[last].to_s);
        one.settled = lasts < one.slices.len();
    }
    CarryOvers {
        settle_s: found.iter().map(settle_s).fold(0.0, f64::max),
        settled: found.iter().all(|one| one.settled),
        switches: found,
    }
}

/// What one switch asks to leave out: a slice more than was found, for a tail fades and the first
/// slice that is not proven off is not proven steady.
fn settle_s(one: &CarryOver) -> f64 {
    if one.lasts_s == 0.0 {
        return 0.0;
    }
    let next = one.slices.iter().find(|slice| slice.to_s > one.lasts_s);
    next.or(one.slices.last()).map_or(0.0, |slice| slice.to_s)
}

/// The window without what lies before `settle_s`; the window as it was measured when it has no
/// slices after that. Its latency stays that of the whole window: latencies are not sliced.
pub fn settled_window(sliced: &SlicedWindow, settle_s: f64) -> Window {
    let whole = sliced.window;
    // Slices end where a clock was read, a little off the plan.
    let kept = |slice: &&Slice| slice.from_s >= settle_s - 0.25 * (slice.to_s - slice.from_s);
    let slices: Vec<&Slice> = sliced.slices.iter().filter(kept).collect();
    let (Some(first), Some(last)) = (slices.first(), slices.last()) else {
        return whole;
    };
    Window {
        start_s: sliced.switched_s + first.from_s,
        duration_s: last.to_s - first.from_s,
        statements: slices.iter().map(|slice| slice.statements).sum(),
        server_cpu_ns: slices.iter().map(|slice| slice.server_cpu_ns).sum(),
        ..whole
    }
}

/// The windows behind each switch, in time order, switches in the order of [`Switch`].
fn by_switch(windows: &[SlicedWindow]) -> Vec<(Switch, Vec<&SlicedWindow>)> {
    let mut found: std::collections::BTreeMap<Switch, Vec<&SlicedWindow>> = Default::default();
    let mut before: Option<&Window> = None;
    for sliced in windows {
        let window = &sliced.window;
        let left = before.filter(|left| left.life == window.life && left.arm != BASE_ARM);
        match (window.arm, left) {
            (BASE_ARM, Some(left)) => found.entry(Switch::Off(left.arm)).or_default().push(sliced),
            (BASE_ARM, None) => {}
            (arm, _) => found.entry(Switch::On(arm)).or_default().push(sliced),
        }
        before = Some(window);
    }
    found.into_iter().collect()
}

/// The early slices of one switch, p-values not yet adjusted.
fn deviations(switch: Switch, windows: &[&SlicedWindow], outcome: Outcome) -> Option<CarryOver> {
    let usable: Vec<(&SlicedWindow, Vec<f64>)> = windows
        .iter()
        .filter_map(|sliced| Some((*sliced, values(sliced, outcome)?)))
        .collect();
    let count = usable.iter().map(|(_, values)| values.len()).min()?;
    if count < SLICES_MIN || usable.len() < WINDOWS_MIN {
        return None;
    }
    let early = count / 2;
    let slice = |at: usize| -> Option<SliceDeviation> {
        let parts = || {
            usable
                .iter()
                .map(|(_, values)| values[..count].split_at(early))
        };
        let scores = |range: std::ops::Range<usize>| -> Vec<f64> {
            let score = |(first, steady): (&[f64], &[f64])| {
                let scores = first[range.clone()]
                    .iter()
                    .map(|value| rank_score(*value, steady));
                scores.sum::<f64>() / range.len() as f64
            };
            parts().map(score).collect()
        };
        let ratio = |range: std::ops::Range<usize>| -> Option<Interval> {
            let log = |(first, steady): (&[f64], &[f64])| {
                (mean_variance(&first[range.clone()]).0 / mean_variance(steady).0).ln()
            };
            let logs: Vec<f64> = parts().map(log).collect();
            let estimate = primary_estimate(&logs, 1.0).ok()?.0;
            Some(estimate.interval(CONFIDENCE).map(f64::exp))
        };
        let alone = mean_rank_p(&scores(at..at + 1))?;
        let together = mean_rank_p(&scores(at..early))?;
        let n = usable.len() as f64;
        let mean_of = |end: fn(&Slice) -> f64| {
            usable
                .iter()
                .map(|(one, _)| end(&one.slices[at]))
                .sum::<f64>()
                / n
        };
        Some(SliceDeviation {
            from_s: mean_of(|slice| slice.from_s),
            to_s: mean_of(|slice| slice.to_s),
            ratio: ratio(at..at + 1)?,
            rest: ratio(at..early)?,
            p_value: (2.0 * alone.min(together)).min(1.0),
        })
    };
    Some(CarryOver {
        switch,
        windows: usable.len(),
        lasts_s: 0.0,
        settled: true,
        slices: (0..early).map(slice).collect::<Option<_>>()?,
    })
}

/// The outcome of every slice; `None` where one cannot be used.
fn values(sliced: &SlicedWindow, outcome: Outcome) -> Option<Vec<f64>> {
    let value = |slice: &Slice| {
        let part = Window {
            duration_s: slice.to_s - slice.from_s,
            statements: slice.statements,
            server_cpu_ns: slice.server_cpu_ns,
            latency: None,
            ..sliced.window
        };
        outcome.of(&part)
    };
    sliced.slices.iter().map(value).collect()
}

/// Where `value` stands among `others`, from -1 (below all) to 1 (above all).
fn rank_score(value: f64, others: &[f64]) -> f64 {
    let above = others.iter().filter(|other| value > **other).count() as f64;
    let below = others.iter().filter(|other| value < **other).count() as f64;
    (above - below) / others.len() as f64
}

/// Two-sided p-value of "the mean rank score is 0", over windows.
fn mean_rank_p(scores: &[f64]) -> Option<f64> {
    // Ranks have no outliers: the plain mean, with the correction for windows that hang together.
    let (_, factor) = primary_estimate(scores, 1.0).ok()?;
    let mut estimate = mean(scores).ok()?;
    estimate.standard_error *= factor.sqrt();
    Some(estimate.p_value(0.0))
}

#[cfg(test)]
mod tests;
