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

/// What switches carry into windows, beyond what is not measured after a switch (`settle`), and the
/// outcome in which it lasts longest: CPU a statement, or `primary` where that is throughput.
pub(crate) fn carried_over(
    samples: &[Sample],
    settle: Duration,
    primary: Outcome,
) -> Option<(Outcome, CarryOvers)> {
    let sliced: Vec<SlicedWindow> = samples.iter().map(Sample::sliced).collect();
    let cpu = carry_overs(&sliced, Outcome::CpuUsPerStatement);
    let mut longest = (Outcome::CpuUsPerStatement, cpu);
    if primary == Outcome::Qps {
        let rate = carry_overs(&sliced, Outcome::Qps);
        if rate.settle_s > longest.1.settle_s {
            longest = (Outcome::Qps, rate);
        }
    }
    (longest.1.settle_s > settle.as_secs_f64()).then_some(longest)
}

/// The windows without what switches carry into them: one trim for all, blind to arms.
pub(crate) fn settled(samples: &[Sample], settle: Duration, primary: Outcome) -> Vec<Window> {
    match carried_over(samples, settle, primary) {
        None => samples.iter().map(|sample| sample.window).collect(),
        Some((_, found)) => samples
            .iter()
            .map(|sample| settled_window(&sample.sliced(), found.settle_s))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICES: u64 = 10;

    /// A window of 0.4 s whose first two slices have `burst` times the statements of the others, at
    /// the same CPU time each.
    fn sample(place: u64, burst: u64) -> Sample {
        let (mut statements, mut slices) = (0, Vec::new());
        for slice in 0..SLICES {
            // Neighbours differ a little, so that there is noise to test against.
            let level = 1_000 + (place * 7 + slice * 3) % 11;
            let many = if slice < 2 { burst * level } else { level };
            statements += many;
            slices.push([(slice + 1) * 40_000_000, many, many * 20_000]);
        }
        let document = serde_json::json!({
            "cell": "c", "name": "n", "pair": false, "arm": place % 2, "life": 0,
            "start_s": place as f64 * 0.5, "duration_s": 0.4, "statements": statements,
            "server_cpu_ns": statements * 20_000, "latency": null,
            "switched_s": place as f64 * 0.5, "slices": slices, "transactions": statements,
            "errors": 0, "executed": statements, "captured": null, "lost": {}, "tool_cpu_ns": 0,
            "tool_rss_bytes": 0, "backlog": null, "operations": {},
        });
        serde_json::from_value(document).expect("a sample")
    }

    #[test]
    fn a_burst_after_a_switch_is_left_out_of_throughput() {
        let settle = Duration::from_millis(10);
        let even: Vec<Sample> = (0..41).map(|place| sample(place, 1)).collect();
        let bursts: Vec<Sample> = (0..41).map(|place| sample(place, 2)).collect();
        assert!(carried_over(&even, settle, Outcome::Qps).is_none());
        assert!(carried_over(&bursts, settle, Outcome::CpuUsPerStatement).is_none());
        let (outcome, found) = carried_over(&bursts, settle, Outcome::Qps).expect("a burst");
        assert_eq!(outcome, Outcome::Qps);
        assert!(found.settle_s >= 0.08, "{found:?}");
        let rate = |window: &Window| window.statements as f64 / window.duration_s;
        let kept = settled(&bursts, settle, Outcome::Qps);
        assert!(kept.iter().all(|w| (rate(w) / 25_000.0 - 1.0).abs() < 0.02));
        assert!(rate(&bursts[1].window) > 1.15 * 25_000.0);
    }
}
