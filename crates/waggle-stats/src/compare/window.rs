//! What was measured in one window, and which number of it is compared?
//!
//! The lab makes a [`Window`] each time it lets the load run under one arm; everything else in
//! this crate only reads them, so they are also what a run directory stores.

use serde::{Deserialize, Serialize};

/// The arm every other arm is compared with: nothing watches. Arms are numbers here; the lab keeps
/// their names. The A/A arm is another number under which nothing watches either.
pub const BASE_ARM: usize = 0;

const NS_PER_US: f64 = 1_000.0;

/// Latency percentiles of one window, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WindowLatency {
    /// Median.
    pub p50_us: f64,
    /// 95th percentile.
    pub p95_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
}

/// One measured stretch of load under one arm.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Which arm was on; [`BASE_ARM`] is `none`.
    pub arm: usize,
    /// Which life of the server, counted from 0; windows of different lives are no neighbours.
    pub life: usize,
    /// Start, in seconds since the experiment began.
    pub start_s: f64,
    /// Length, in seconds.
    pub duration_s: f64,
    /// Statements the server executed in it.
    pub statements: u64,
    /// CPU time of the server process in it, in nanoseconds.
    pub server_cpu_ns: u64,
    /// Latency in it, when it was measured.
    pub latency: Option<WindowLatency>,
}

/// A number that is compared between arms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Server CPU time per statement, in microseconds. The primary outcome.
    CpuUsPerStatement,
    /// Statements per second.
    Qps,
    /// Median latency, in microseconds.
    LatencyP50Us,
    /// 95th percentile of latency, in microseconds.
    LatencyP95Us,
    /// 99th percentile of latency, in microseconds.
    LatencyP99Us,
}

impl Outcome {
    /// Every outcome, the primary one first.
    pub const ALL: [Outcome; 5] = [
        Outcome::CpuUsPerStatement,
        Outcome::Qps,
        Outcome::LatencyP50Us,
        Outcome::LatencyP95Us,
        Outcome::LatencyP99Us,
    ];

    /// The value in `window`; `None` when it was not measured, or is not a positive number and so
    /// has no ratio (no statement ran, the clock stood still).
    pub fn of(self, window: &Window) -> Option<f64> {
        let statements = window.statements as f64;
        let value = match self {
            Outcome::CpuUsPerStatement => window.server_cpu_ns as f64 / NS_PER_US / statements,
            Outcome::Qps => statements / window.duration_s,
            Outcome::LatencyP50Us => window.latency?.p50_us,
            Outcome::LatencyP95Us => window.latency?.p95_us,
            Outcome::LatencyP99Us => window.latency?.p99_us,
        };
        (value.is_finite() && value > 0.0).then_some(value)
    }

    /// True when a larger value is what the user pays (time), false when it is what he gets (QPS).
    pub fn larger_is_worse(self) -> bool {
        self != Outcome::Qps
    }
}

impl Window {
    /// The middle of the window, in seconds since the experiment began.
    pub fn middle_s(&self) -> f64 {
        self.start_s + 0.5 * self.duration_s
    }
}
