//! What waits were made of: the document of `waggle trace pipeline`.
//!
//! Invariant: the stages of every wait sum to the wait to the nanosecond, and so do the sums here:
//! `stages[].sum_ns` over all stages is `wait_ns.sum` of the same waits.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use waggle_stats::latency::LatencySummary;

use super::TraceFacts;

/// What waits were made of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PipelineReport {
    /// What all subjects share.
    #[serde(flatten)]
    pub facts: TraceFacts,
    /// The pipeline's name, such as `redo`.
    pub pipeline: String,
    /// What it shows, a line.
    pub about: String,
    /// Waits that began and ended within the trace: decomposed, flagged and no-waits together.
    pub seen: u64,
    /// Of these: what was waited for had been reached when the wait began, so there was none.
    pub no_wait: u64,
    /// Of these: waits that may be affected by lost records; in no other figure.
    pub flagged: u64,
    /// Of these: waits whose stages are known. All figures below are of them.
    pub decomposed: u64,
    /// Waits that were under way when the trace, or the knowledge of any stage, began, or when it
    /// ended; not in `seen`.
    pub cut: u64,
    /// Of the cut: ends without a beginning, with nothing lost before: it was before the trace
    /// began.
    pub begun_before: u64,
    /// Ends without a beginning and beginnings without an end, while records were lost; flagged.
    pub torn: u64,
    /// Of the torn: ends without a beginning, which may have been lost.
    pub begin_lost: u64,
    /// Waits whose stages do not sum to the wait. Always 0: counted, so that it can be believed.
    pub inexact: u64,
    /// Two records of different processors closer than this may be in either order, ns.
    pub resolution_ns: u64,
    /// The whole wait.
    pub wait_us: LatencySummary,
    /// The same, exactly: all waits together, ns.
    pub wait_sum_ns: u64,
    /// The stages in order; the last is what was left until the wait ended.
    pub stages: Vec<PipelineStage>,
    /// Wake-ups that led to another sleep within the same wait.
    pub spurious_wakes: u64,
    /// The slowest 1% of the waits.
    pub slowest_percent: PipelineSlice,
    /// Waits by the role of the waiter.
    pub by_role: Vec<PipelineGroup>,
    /// Waits by the waiter.
    pub by_thread: Vec<PipelineGroup>,
    /// Waits by who called; empty if stacks were not asked for.
    pub by_caller: Vec<PipelineGroup>,
    /// The slowest waits in full, the slowest first.
    pub slowest: Vec<PipelineWait>,
}

/// A stage over all decomposed waits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PipelineStage {
    /// Its name.
    pub name: String,
    /// Its time in the same waits, those that skipped it with 0.
    pub latency_us: LatencySummary,
    /// All waits together, ns.
    pub sum_ns: u64,
    /// Share of the waits' time, 0 to 1.
    pub share: f64,
    /// Waits that it was no part of: it was passed over, or a later stage was reached before.
    pub skipped: u64,
    /// Waits in which it had been reached before the wait began or the stage before ended.
    pub instant: u64,
    /// What the thread that carried it out was doing meanwhile, ns over all waits; sums to
    /// `sum_ns`.
    pub doing: Doing,
    /// Who carried it out, by role: waits.
    pub by_role: BTreeMap<String, u64>,
}

/// What a thread was doing, ns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Doing {
    /// The stage's thread was still at what came before: the wait was queued.
    pub queued_ns: u64,
    /// It was on a processor.
    pub on_cpu_ns: u64,
    /// It could have run, and had no processor.
    pub runnable_ns: u64,
    /// It slept, by what it waited for.
    pub blocked_ns: BTreeMap<String, u64>,
    /// Not known.
    pub unknown_ns: u64,
}

/// A part of the waits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PipelineSlice {
    /// Waits in it.
    pub waits: u64,
    /// Each of them took at least this, ns (to about 1%).
    pub at_least_ns: u64,
    /// All of them together, ns.
    pub sum_ns: u64,
    /// The stages' sums, in order, ns.
    pub stages_ns: Vec<u64>,
}

/// Waits that have something in common.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PipelineGroup {
    /// What.
    pub name: String,
    /// The waits.
    pub waits: u64,
    /// All of them together, ns.
    pub sum_ns: u64,
    /// Median, ns (to about 1%).
    pub p50_ns: u64,
    /// 95th percentile, ns.
    pub p95_ns: u64,
    /// 99th percentile, ns.
    pub p99_ns: u64,
    /// The longest, ns.
    pub max_ns: u64,
    /// The stages' sums, in order, ns.
    pub stages_ns: Vec<u64>,
}

/// A single wait.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PipelineWait {
    /// The waiter.
    pub tid: u32,
    /// Its name.
    pub thread: String,
    /// Who called, outermost last.
    pub caller: Vec<String>,
    /// When it began, ns of the monotonic clock.
    pub start_ns: u64,
    /// How long it took, ns.
    pub wait_ns: u64,
    /// What it waited for.
    pub key: u64,
    /// Wake-ups that led to another sleep.
    pub spurious_wakes: u32,
    /// Its stages, in order.
    pub stages: Vec<PipelineWaitStage>,
}

/// A stage of a single wait.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PipelineWaitStage {
    /// Its part of the wait, ns.
    pub ns: u64,
    /// It was no part of this wait.
    pub skipped: bool,
    /// Who carried it out.
    pub tid: Option<u32>,
    /// Its name.
    pub thread: Option<String>,
    /// The value it had reached then.
    pub value: Option<u64>,
    /// When it was reached, ns before (negative) or after the wait began.
    pub reached_ns: Option<i64>,
    /// What that thread was doing.
    pub doing: Doing,
}
