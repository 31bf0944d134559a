//! Where calls of functions spend their time: the document of `waggle trace func`.
//!
//! Invariant: `rest_ns` and the wall time of the callees that are not within one another add up to
//! `sum_ns` of their function exactly.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use waggle_stats::latency::LatencySummary;

use super::TraceFacts;

/// Where calls of functions spend their time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FuncReport {
    /// What all subjects share.
    #[serde(flatten)]
    pub facts: TraceFacts,
    /// The functions, in the order they were asked for.
    pub functions: Vec<FuncRow>,
    /// What became of the calls that are in no figure.
    pub calls: FuncCounts,
    /// Calls as long as this are listed one by one, ns; absent: none were asked for.
    pub slower_ns: Option<u64>,
    /// These, the slowest first.
    pub slow: Vec<FuncCall>,
    /// What watching costs, in parts.
    pub watching: FuncCost,
}

/// A function, and what its calls do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FuncRow {
    /// With parameters.
    pub signature: String,
    /// Its calls.
    #[serde(flatten)]
    pub calls: FuncCalls,
    /// Of `sum_ns`, not in the callees below, ns; absent if none were asked for.
    pub rest_ns: Option<u64>,
    /// Of that, off the processor, ns.
    pub rest_off_ns: Option<u64>,
    /// Chosen callees, anywhere below a call of it.
    pub children: Vec<FuncCalls>,
    /// The same calls by who called; empty if not asked for.
    pub callers: Vec<FuncCalls>,
}

/// Calls that belong together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FuncCalls {
    /// The function, or who called.
    pub name: String,
    /// Calls a second.
    pub per_s: f64,
    /// From beginnings to returns; percentiles to 1.6%, all else exact.
    pub latency_us: LatencySummary,
    /// All calls together, ns.
    pub sum_ns: u64,
    /// Off the processor, all calls together, ns.
    pub off_sum_ns: u64,
    /// The same a call, us: over all calls.
    pub off_mean_us: f64,
    /// Time off of the calls that left their processor.
    pub off_us: LatencySummary,
    /// Time off by reason, ns.
    pub off_by_reason_ns: BTreeMap<String, u64>,
    /// Of the time off, ready to run and waiting for a processor, ns.
    pub queued_ns: u64,
    /// Time on a processor as a share of the trace: `100 * (mean - off) * count / trace`, where
    /// calls within one another count once.
    pub cpu_percent: f64,
    /// Calls within another call of the same function.
    pub recursive: u64,
    /// Of a callee: calls within another of the callees.
    pub nested: u64,
    /// And their time, ns.
    pub nested_ns: u64,
    /// Calls in which the kernel did not announce every switch: their time off is a lower bound.
    pub unannounced: u64,
    /// Low and high bound (ns, without), calls that took so long, calls that were off so long.
    pub histogram: Vec<(u64, u64, u64, u64)>,
}

/// Calls that are in no figure, by why.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FuncCounts {
    /// Calls seen to begin, callees' among them.
    pub entered: u64,
    /// Of these, seen to return.
    pub returned: u64,
    /// Under way when counting began, returned later.
    pub under_way_at_start: u64,
    /// Returned, but were not seen to begin.
    pub not_seen_to_begin: u64,
    /// Under way at the end.
    pub under_way_at_end: u64,
    /// Left without returning (`longjmp`), or not seen to return.
    pub left: u64,
    /// Their thread ended.
    pub thread_ended: u64,
    /// Deeper than 64 watched calls.
    pub too_deep: u64,
    /// Of callees, outside every chosen function.
    pub outside: u64,
    /// Of threads for which there was no room.
    pub threads_full: u64,
    /// Counted, but in no line by caller.
    pub callers_full: u64,
    /// As long as `slower_ns`.
    pub slow: u64,
    /// Of these, not listed: the ring buffer was full, or the list.
    pub slow_lost: u64,
}

/// A slow call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FuncCall {
    /// The function.
    pub name: String,
    /// The thread.
    pub tid: u32,
    /// Its name.
    pub thread: String,
    /// When it began, ns of the monotonic clock.
    pub start_ns: u64,
    /// How long it took, ns.
    pub wall_ns: u64,
    /// Of that, off the processor, ns.
    pub off_ns: u64,
    /// By reason, ns.
    pub off_by_reason_ns: BTreeMap<String, u64>,
    /// Of that, waiting for a processor, ns.
    pub queued_ns: u64,
    /// In the watched callees, ns.
    pub children_ns: u64,
    /// The longest time off at a stretch, ns.
    pub longest_off_ns: u64,
    /// Why that was.
    pub longest_off_reason: String,
    /// Who called, the nearest first.
    pub stack: Vec<String>,
}

/// What watching costs. Absent: not measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FuncCost {
    /// The two traps of a call on an emulated instruction, with empty programs, ns, in a loop of
    /// waggle's own.
    pub traps_ns: Option<f64>,
    /// The same where the kernel has to single-step; only if a function here is watched so.
    pub stepped_traps_ns: Option<f64>,
    /// The program where calls begin, ns a run, in the process.
    pub entered_ns: Option<f64>,
    /// The program where calls return.
    pub returned_ns: Option<f64>,
    /// The program at each switch of the host.
    pub switched_ns: Option<f64>,
    /// Switches a second of the host.
    pub switches_per_s: Option<f64>,
    /// A watched call, all together, ns.
    pub call_ns: Option<f64>,
    /// All of it, as a share of one processor, percent.
    pub cpu_percent: Option<f64>,
}
