//! A window of a cell and everything counted in it, and what switches carry into windows.
//!
//! Neighbour: `waggle_stats::compare` finds what is carried over and takes it out. Invariant: what
//! is taken out is the same for all arms.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use waggle_stats::compare::{
    CarryOvers, Outcome, Slice, SlicedWindow, Window, WindowCounters, carry_overs, settled_window,
};

/// Latency of one kind of event in one window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct OperationWindow {
    /// Events that ended well.
    pub(crate) count: u64,
    /// Mean, microseconds.
    pub(crate) mean_us: f64,
    /// Median, microseconds.
    pub(crate) p50_us: f64,
    /// 95th percentile, microseconds.
    pub(crate) p95_us: f64,
    /// 99th percentile, microseconds.
    pub(crate) p99_us: f64,
}

/// One window and everything counted in it: a line of `samples.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// [`CellSpec::id`](super::CellSpec::id).
    pub(crate) cell: String,
    /// Name of the arm.
    pub(crate) name: String,
    /// It is of a pair of servers, not of the life in which arms are switched.
    pub(crate) pair: bool,
    /// What is compared.
    #[serde(flatten)]
    pub(crate) window: Window,
    /// When the load went on after the switch, on the clock of the window's start.
    #[serde(default)]
    pub(crate) switched_s: f64,
    /// From there on, in parts: end (nanoseconds since the switch), statements, the server's CPU
    /// time (nanoseconds).
    #[serde(default)]
    pub(crate) slices: Vec<[u64; 3]>,
    /// What the server's own counters said, of a workload that writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) counters: Option<WindowCounters>,
    /// Transactions in the measured part.
    pub(crate) transactions: u64,
    /// Errors from switching on to switching off.
    pub(crate) errors: u64,
    /// One of them, in the server's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error_example: Option<String>,
    /// Statements executed from switching on to switching off.
    pub(crate) executed: u64,
    /// Statements captured meanwhile; `None` if the arm captures none.
    pub(crate) captured: Option<u64>,
    /// Statements lost, by cause.
    pub(crate) lost: BTreeMap<String, u64>,
    /// CPU time of the observer over the measured part, ns.
    pub(crate) tool_cpu_ns: u64,
    /// Its resident set, bytes.
    pub(crate) tool_rss_bytes: u64,
    /// Events due and not yet begun at the end, of an open loop.
    pub(crate) backlog: Option<u64>,
    /// By name: the kinds of events, if the cell keeps them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) operations: BTreeMap<String, OperationWindow>,
}

impl Sample {
    /// The window with its slices.
    pub(crate) fn sliced(&self) -> SlicedWindow {
        let mut from_s = 0.0;
        let slice = |[end_ns, statements, server_cpu_ns]: &[u64; 3]| {
            let to_s = *end_ns as f64 / 1e9;
            let slice = Slice {
                from_s,
                to_s,
                statements: *statements,
                server_cpu_ns: *server_cpu_ns,
            };
            from_s = to_s;
            slice
        };
        SlicedWindow {
            window: self.window,
            switched_s: self.switched_s,
            slices: self.slices.iter().map(slice).collect(),
        }
    }
}

/// What switches carry into windows, beyond what is not measured after a switch.
pub(crate) fn carried_over(samples: &[Sample], settle: Duration) -> Option<CarryOvers> {
    let sliced: Vec<SlicedWindow> = samples.iter().map(Sample::sliced).collect();
    let found = carry_overs(&sliced, Outcome::CpuUsPerStatement);
    (found.settle_s > settle.as_secs_f64()).then_some(found)
}

/// The windows without what switches carry into them: one trim for all, blind to arms.
pub(crate) fn settled(samples: &[Sample], settle: Duration) -> Vec<Window> {
    match carried_over(samples, settle) {
        None => samples.iter().map(|sample| sample.window).collect(),
        Some(found) => samples
            .iter()
            .map(|sample| settled_window(&sample.sliced(), found.settle_s))
            .collect(),
    }
}
