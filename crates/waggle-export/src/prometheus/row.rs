//! The sums of one digest, user, database or host, as whole numbers that add and subtract exactly.
//!
//! A counter that falls by a rounding error is a restart to Prometheus, which then counts all of
//! it again. So times are ns here, and become seconds only in the text. Neighbours:
//! [`selection`](super::selection) adds rows up; [`metrics`](super::metrics) prints them.

use waggle_agent::WaitClass;
use waggle_agent::view::{DigestView, SessionTime};

/// Bounds of the latency buckets: powers of two of a ns, 8 us to 17 s, where the agent's own
/// histograms have bounds too, so that no statement is counted on the wrong side.
pub(super) const BOUNDS_NS: [u64; 22] = {
    let mut bounds = [0; 22];
    let mut at = 0;
    while at < bounds.len() {
        bounds[at] = 1 << (13 + at);
        at += 1;
    }
    bounds
};

/// Classes of session time: cpu, runnable, unclassified, and what can be waited for.
pub(super) const CLASSES: usize = WaitClass::COUNT + 3;

/// The class's name in labels; `at` is below [`CLASSES`].
pub(super) fn class_name(at: usize) -> &'static str {
    match at {
        0 => "cpu",
        1 => "runnable",
        2 => "unclassified",
        _ => WaitClass::ALL[at - 3].as_str(),
    }
}

/// Places in a row. Every row begins with the classes.
pub(super) const COUNT: usize = CLASSES;
pub(super) const LATENCY_NS: usize = COUNT + 1;
pub(super) const BUCKETS: usize = LATENCY_NS + 1;
pub(super) const ERRORS: usize = BUCKETS + BOUNDS_NS.len();
pub(super) const ROWS_SENT: usize = ERRORS + 1;
pub(super) const ROWS_EXAMINED: usize = ERRORS + 2;
pub(super) const ROWS_AFFECTED: usize = ERRORS + 3;
pub(super) const WARNINGS: usize = ERRORS + 4;
pub(super) const LOCK_NS: usize = ERRORS + 5;
pub(super) const TMP_TABLES: usize = ERRORS + 6;
pub(super) const TMP_DISK_TABLES: usize = ERRORS + 7;
pub(super) const FULL_SCANS: usize = ERRORS + 8;
pub(super) const FULL_JOINS: usize = ERRORS + 9;
pub(super) const NO_INDEX: usize = ERRORS + 10;
pub(super) const STORAGE_READ: usize = ERRORS + 11;
pub(super) const STORAGE_WRITTEN: usize = ERRORS + 12;
pub(super) const SWITCHES_VOLUNTARY: usize = ERRORS + 13;
pub(super) const SWITCHES_FORCED: usize = ERRORS + 14;
const DIGEST_WIDTH: usize = ERRORS + 15;

/// Stands for a reading that did not happen.
const UNKNOWN: u64 = u64::MAX;

/// Cumulative sums by place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Row(Vec<u64>);

impl Row {
    /// Session time alone.
    pub(super) fn of_time(time: &SessionTime) -> Self {
        let mut row = Vec::with_capacity(CLASSES);
        row.extend([time.cpu_s, time.runnable_s, time.unclassified_s].map(ns));
        row.extend(time.blocked_s.map(ns));
        Self(row)
    }

    /// All of a digest.
    pub(super) fn of_digest(digest: &DigestView) -> Self {
        let mut row = Self::of_time(&digest.time);
        row.0.resize(DIGEST_WIDTH, UNKNOWN);
        row.set(COUNT, Some(digest.latency.count()));
        row.set(LATENCY_NS, Some(digest.latency.sum_ns()));
        let below = digest.latency.counts_below(&BOUNDS_NS);
        for (at, count) in below.into_iter().enumerate() {
            row.set(BUCKETS + at, Some(count));
        }
        row.set(ERRORS, Some(digest.errors));
        row.set(ROWS_SENT, digest.rows_sent);
        row.set(ROWS_EXAMINED, digest.rows_examined);
        row.set(ROWS_AFFECTED, digest.rows_affected);
        row.set(WARNINGS, digest.warnings);
        row.set(LOCK_NS, digest.lock_s.map(ns));
        row.pair([TMP_TABLES, TMP_DISK_TABLES], digest.tmp_tables);
        row.pair([FULL_SCANS, FULL_JOINS], digest.full_scans);
        row.set(NO_INDEX, digest.no_index);
        row.pair([STORAGE_READ, STORAGE_WRITTEN], digest.storage_bytes);
        row.pair([SWITCHES_VOLUNTARY, SWITCHES_FORCED], digest.switches);
        row
    }

    fn set(&mut self, at: usize, value: Option<u64>) {
        self.0[at] = value.map_or(UNKNOWN, |value| value.min(UNKNOWN - 1));
    }

    fn pair(&mut self, at: [usize; 2], values: Option<(u64, u64)>) {
        self.set(at[0], values.map(|both| both.0));
        self.set(at[1], values.map(|both| both.1));
    }

    /// The sum at a place; `None` if it is not known.
    pub(super) fn get(&self, at: usize) -> Option<u64> {
        self.0.get(at).copied().filter(|value| *value != UNKNOWN)
    }

    /// Time of all classes, ns.
    pub(super) fn time_ns(&self) -> u64 {
        (0..CLASSES).filter_map(|at| self.get(at)).sum()
    }

    /// Time of the classes that somebody told apart, ns.
    pub(super) fn classified_ns(&self) -> u64 {
        let all = (0..CLASSES).filter(|at| class_name(*at) != "unclassified");
        all.filter_map(|at| self.get(at)).sum()
    }

    /// Adds `other`; what only one of them knows counts as known.
    pub(super) fn add(&mut self, other: &Self) {
        self.combine(other, u64::saturating_add);
    }

    /// Takes `other` away, down to 0.
    pub(super) fn take(&mut self, other: &Self) {
        self.combine(other, u64::saturating_sub);
    }

    /// No place falls below that of `other`.
    pub(super) fn at_least(&mut self, other: &Self) {
        self.combine(other, u64::max);
    }

    /// Knows what `other` knows: what it did not know was 0.
    pub(super) fn know(&mut self, other: &Self) {
        self.combine(other, |mine, _| mine);
    }

    fn combine(&mut self, other: &Self, with: impl Fn(u64, u64) -> u64) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), UNKNOWN);
        }
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            if *theirs == UNKNOWN {
                continue;
            }
            let known = if *mine == UNKNOWN { 0 } else { *mine };
            *mine = with(known, *theirs).min(UNKNOWN - 1);
        }
    }
}

/// Seconds as ns; what is not a time is 0.
fn ns(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}
