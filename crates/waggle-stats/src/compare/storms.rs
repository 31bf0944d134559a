//! In which windows did the server's own housekeeping run: a checkpoint, a flush storm?
//!
//! A redo log that fills up makes the server write pages in bursts; the windows it falls into are
//! dearer or slower for a reason that is no arm's. [`super::disturbance`] judges windows by their
//! outcome; this module judges them by the server's counters, so that a report can say *why* a
//! window was off, and whether the result stands without such windows.
//!
//! The rule looks at counters and time only, never at arm or outcome:
//!
//! - **sync flush**: the checkpoint age reached 7/8 of what the log holds; beyond that the server
//!   makes statements wait for pages to be written;
//! - **checkpoint**: the checkpoint age fell within the window by at least 1/8 of what the log
//!   holds (of the largest age seen, where the capacity is not known);
//! - **flush storm**: pages written per second are [`STORM_FACTOR`] times the median of the life's
//!   windows and more, stand out of its spread by [`STORM_AT`] deviations (median absolute
//!   deviation), and are at least [`PAGES_MIN`] pages: a server that writes evenly has no storm,
//!   however much it writes, nor has one that writes next to nothing.
//!
//! Marked windows are not thrown away: an arm may cause the storm. [`compare_without_marked`] gives
//! the result without them beside the primary one, and [`StormMarks::uneven`] names the arms that
//! have more of them than chance allows (one-sided Fisher test at 1%).
//!
//! Neighbours: the experiment reads [`WindowCounters`] at both ends of a window; `comparison` does
//! the comparing.

use serde::{Deserialize, Serialize};

use super::comparison::{CompareSettings, Comparison, compare_chain};
use super::interval::CompareError;
use super::sample::median;
use super::window::{Outcome, Window};
use crate::distribution::hypergeometric_upper_tail;

/// Share of the log's capacity at which pages are written while statements wait.
pub const AGE_SYNC: f64 = 0.875;

/// Fall of the checkpoint age within a window, as a share of the capacity, that is a checkpoint.
pub const AGE_FALL: f64 = 0.125;

/// A storm writes this many times the life's median.
pub const STORM_FACTOR: f64 = 3.0;

/// A storm stands out of the spread by this many standard deviations.
pub const STORM_AT: f64 = 5.0;

/// Fewer pages in a window are never a storm: 1 MiB of 16 KiB pages.
pub const PAGES_MIN: u64 = 64;

/// Fewest windows of a life in which storms are told from the ordinary.
pub const STORM_WINDOWS_MIN: usize = 8;

/// Chance of marks falling as unevenly on an arm, below which the report says so.
const UNEVEN_P: f64 = 0.01;

/// Standard deviation of normal noise over its median absolute deviation.
const DEVIATION_PER_MAD: f64 = 1.4826;

/// What the server's counters said of one window. `None`: the server does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WindowCounters {
    /// Pages written from the buffer pool in the window (`Innodb_buffer_pool_pages_flushed`).
    pub pages_flushed: Option<u64>,
    /// Bytes written to the redo log in the window (`Innodb_os_log_written`).
    pub log_bytes: Option<u64>,
    /// Bytes from the last checkpoint to the end of the log, at the window's beginning.
    pub checkpoint_age_start: Option<u64>,
    /// The same at its end.
    pub checkpoint_age_end: Option<u64>,
    /// Bytes the redo log holds.
    pub log_capacity: Option<u64>,
    /// Dirty pages at the window's end (`Innodb_buffer_pool_pages_dirty`).
    pub pages_dirty: Option<u64>,
}

/// What ran in a window, the gravest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Storm {
    /// The log was so full that statements waited for pages to be written.
    SyncFlush,
    /// The checkpoint moved on by a good part of the log.
    Checkpoint,
    /// Pages were written several times faster than usual.
    FlushStorm,
}

/// How often one arm's windows were marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ArmStorms {
    /// The arm.
    pub arm: usize,
    /// Its windows that are marked.
    pub marked: usize,
    /// Its windows.
    pub windows: usize,
}

/// The marks of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StormMarks {
    /// For each window what ran in it.
    pub marks: Vec<Option<Storm>>,
    /// Marks by arm, in the order of arms.
    pub by_arm: Vec<ArmStorms>,
    /// Arms with more marks than chance allows: their doing, or the order's bad luck (1%).
    pub uneven: Vec<usize>,
}

/// Marks `windows` (in time order) by their `counters`, one for each. Windows beyond the shorter
/// of the two are not marked.
pub fn mark_storms(windows: &[Window], counters: &[WindowCounters]) -> StormMarks {
    let mut marks: Vec<Option<Storm>> = vec![None; windows.len()];
    let log_size = log_size(counters);
    for (mark, counters) in marks.iter_mut().zip(counters) {
        *mark = age_mark(counters, log_size);
    }
    for flushed in storms(windows, counters) {
        marks[flushed].get_or_insert(Storm::FlushStorm);
    }
    let by_arm = by_arm(windows, &marks);
    let uneven = by_arm
        .iter()
        .filter(|arm| is_uneven(arm, &by_arm))
        .map(|arm| arm.arm)
        .collect();
    StormMarks {
        marks,
        by_arm,
        uneven,
    }
}

/// The comparison without the marked windows: a check beside the primary one, never in its place.
///
/// # Errors
/// As [`compare_chain`]: too little is left.
pub fn compare_without_marked(
    windows: &[Window],
    marks: &StormMarks,
    arm: usize,
    outcome: Outcome,
    settings: &CompareSettings,
) -> Result<Comparison, CompareError> {
    let left: Vec<Window> = windows
        .iter()
        .zip(&marks.marks)
        .filter(|(_, mark)| mark.is_none())
        .map(|(window, _)| *window)
        .collect();
    compare_chain(&left, arm, outcome, settings)
}

/// What the log holds; the largest age seen where that is not known.
fn log_size(counters: &[WindowCounters]) -> f64 {
    let known = counters.iter().filter_map(|one| one.log_capacity).max();
    let ages = counters
        .iter()
        .flat_map(|one| [one.checkpoint_age_start, one.checkpoint_age_end])
        .flatten();
    known.filter(|bytes| *bytes > 0).or(ages.max()).unwrap_or(0) as f64
}

fn age_mark(counters: &WindowCounters, log_size: f64) -> Option<Storm> {
    let (start, end) = (
        counters.checkpoint_age_start? as f64,
        counters.checkpoint_age_end? as f64,
    );
    // How full the log is can be told only where its size is.
    if counters.log_capacity.is_some() && start.max(end) >= AGE_SYNC * log_size {
        return Some(Storm::SyncFlush);
    }
    (start - end >= AGE_FALL * log_size && start > end).then_some(Storm::Checkpoint)
}

/// Positions of windows that wrote far more pages than is usual in their life.
fn storms(windows: &[Window], counters: &[WindowCounters]) -> Vec<usize> {
    let rate = |at: usize| {
        let pages = counters.get(at)?.pages_flushed?;
        let per_s = pages as f64 / windows[at].duration_s;
        per_s.is_finite().then_some((at, pages, per_s))
    };
    let mut found = Vec::new();
    let positions: Vec<usize> = (0..windows.len()).collect();
    for life in positions.chunk_by(|one, two| windows[*one].life == windows[*two].life) {
        let rates: Vec<(usize, u64, f64)> = life.iter().filter_map(|&at| rate(at)).collect();
        if rates.len() < STORM_WINDOWS_MIN {
            continue;
        }
        let level = median(&mut rates.iter().map(|rate| rate.2).collect::<Vec<f64>>());
        let mut off: Vec<f64> = rates.iter().map(|rate| (rate.2 - level).abs()).collect();
        let spread = DEVIATION_PER_MAD * median(&mut off);
        let limit = (STORM_FACTOR * level).max(level + STORM_AT * spread);
        let is_storm = |rate: &&(usize, u64, f64)| rate.1 >= PAGES_MIN && rate.2 > limit;
        found.extend(rates.iter().filter(is_storm).map(|rate| rate.0));
    }
    found
}

fn by_arm(windows: &[Window], marks: &[Option<Storm>]) -> Vec<ArmStorms> {
    let mut found: std::collections::BTreeMap<usize, (usize, usize)> = Default::default();
    for (window, mark) in windows.iter().zip(marks) {
        let counts = found.entry(window.arm).or_default();
        counts.0 += usize::from(mark.is_some());
        counts.1 += 1;
    }
    found
        .into_iter()
        .map(|(arm, (marked, windows))| ArmStorms {
            arm,
            marked,
            windows,
        })
        .collect()
}

/// Whether the arm's windows are marked more often than those of all others.
fn is_uneven(arm: &ArmStorms, all: &[ArmStorms]) -> bool {
    let marked: usize = all.iter().map(|arm| arm.marked).sum();
    let windows: usize = all.iter().map(|arm| arm.windows).sum();
    let chance = hypergeometric_upper_tail(
        arm.marked as u64,
        arm.windows as u64,
        marked as u64,
        windows as u64,
    );
    arm.marked > 0 && chance < UNEVEN_P
}

#[cfg(test)]
mod tests;
