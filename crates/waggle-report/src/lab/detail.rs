//! The finer parts of a lab report: which outcome counts, statement types apart, the probes.
//!
//! Neighbours: [`super::LabReport`] and [`crate::study::StudyCell`] hold these. Every field came
//! after the first reports were written, so a report without them reads as one that had none.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Difference, Ratio, finite_difference, finite_ratio, number};

/// The outcome that an experiment's verdicts are about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Primary {
    /// CPU time in the server per statement, microseconds.
    #[default]
    ServerCpu,
    /// Statements a second in closed loop, as a ratio to the base.
    Throughput,
    /// 99th percentile of latency at a fixed rate, from the intended start.
    LatencyP99,
}

/// One type of statement, such as `ADD_LINK`, compared arm by arm.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TypeReport {
    /// The type's name in the workload.
    pub name: String,
    /// Every arm compared with the base, in the report's order.
    pub arms: Vec<TypeArm>,
    /// Latency by arm name, the base's too: ascending upper bounds in microseconds, each with the
    /// count of values at or below it and above the bound before.
    #[serde(default)]
    pub histograms: BTreeMap<String, Vec<(f64, u64)>>,
}

/// One type of statement under one arm.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TypeArm {
    /// Name of the arm.
    pub arm: String,
    /// Statements of the type that were executed while the arm was on.
    pub executed: u64,
    /// Statements a second, as a ratio to the base.
    #[serde(default, serialize_with = "finite_ratio")]
    pub rate_ratio: Option<Ratio>,
    /// Mean latency, microseconds.
    #[serde(default, serialize_with = "finite_difference")]
    pub mean_us: Option<Difference>,
    /// Median latency, microseconds.
    #[serde(default, serialize_with = "finite_difference")]
    pub p50_us: Option<Difference>,
    /// 95th percentile of latency, microseconds.
    #[serde(default, serialize_with = "finite_difference")]
    pub p95_us: Option<Difference>,
    /// 99th percentile of latency, microseconds.
    #[serde(default, serialize_with = "finite_difference")]
    pub p99_us: Option<Difference>,
}

/// One type of statement in one window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TypeWindow {
    /// Statements executed.
    pub statements: u64,
    /// Mean latency, microseconds; NaN (`null`) if none was executed.
    #[serde(deserialize_with = "number")]
    pub mean_us: f64,
    /// 99th percentile of latency, microseconds; NaN (`null`) if none was executed.
    #[serde(deserialize_with = "number")]
    pub p99_us: f64,
}

/// A probe that was attached for an arm, as it is checked and measured on this machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProbeFacts {
    /// Name of the arm that attached it.
    pub arm: String,
    /// Where, such as `log_slow_statement+4`.
    pub place: String,
    /// How the kernel runs the instruction there: `emulated` or `single-stepped`; `null` where it
    /// does not apply (a tracepoint) or is not known.
    pub mode: Option<String>,
    /// Times it was hit.
    pub hits: Option<u64>,
    /// Time in the program itself a hit, nanoseconds, as the kernel counts it; without the trap.
    pub program_ns: Option<f64>,
}
