//! The documents of `waggle trace`: what each subject found, as `trace.json` and `--json` have it.
//!
//! A subject is a module with its document; [`TraceReport`] is any of them, told apart by the field
//! `subject`. What all share is in [`TraceFacts`]. The page is made of them.
//!
//! Invariants: times are ns as integers, so that sums can be checked; a figure says how many waits
//! it is made of; what was lost, refused or flagged stands beside what was found.

mod cost;
mod drawing;
mod func;
mod func_text;
mod latch;
mod latch_text;
mod pipeline;
mod pipeline_slow_text;
mod pipeline_text;
mod shown;
mod slices;
mod slices_text;
mod waits;
mod waits_text;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use func::{FuncCall, FuncCalls, FuncCost, FuncCounts, FuncReport, FuncRow};
pub use latch::{LatchAsked, LatchHolder, LatchProgram, LatchReport, LatchRow, LatchSpread};
pub use pipeline::{
    Doing, PipelineGroup, PipelineReport, PipelineSlice, PipelineStage, PipelineWait,
    PipelineWaitStage,
};
pub use shown::TracePage;
pub use slices::TraceSlices;
pub use waits::{
    WaitsEdge, WaitsReport, WaitsRequest, WaitsRequests, WaitsRow, WaitsSegment, WaitsShare,
    WaitsStacks, WaitsSum,
};

/// Version of the documents. Raised when an old reader would misread a new document.
pub const TRACE_FORMAT_VERSION: u32 = 1;

/// What a trace found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "subject", rename_all = "kebab-case")]
pub enum TraceReport {
    /// Where calls of functions spend their time.
    Func(Box<FuncReport>),
    /// Who held which latch.
    Latch(Box<LatchReport>),
    /// What waits were made of.
    Pipeline(Box<PipelineReport>),
    /// Who waits for whom.
    Waits(Box<WaitsReport>),
}

impl TraceReport {
    /// What all subjects share.
    pub fn facts(&self) -> &TraceFacts {
        match self {
            Self::Func(report) => &report.facts,
            Self::Latch(report) => &report.facts,
            Self::Pipeline(report) => &report.facts,
            Self::Waits(report) => &report.facts,
        }
    }

    /// The report as text, tables at most `width` columns wide.
    pub fn text(&self, width: usize) -> String {
        match self {
            Self::Func(report) => func_text::text(report),
            Self::Pipeline(report) => pipeline_text::text(report, width),
            Self::Waits(report) => waits_text::text(report, width),
            Self::Latch(report) => latch_text::text(report, width),
        }
    }
}

/// What all subjects share.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TraceFacts {
    /// [`TRACE_FORMAT_VERSION`] of the writer.
    pub format_version: u32,
    /// The process that was traced.
    pub process: Traced,
    /// It ended while it was traced.
    pub process_ended: bool,
    /// Seconds from the moment everything was attached until the end, also those between slices.
    pub duration_s: f64,
    /// The slices of time that were traced; absent: all of it was.
    pub slices: Option<TraceSlices>,
    /// Records that arrived.
    pub events: u64,
    /// Records that did not, by cause.
    pub lost: BTreeMap<String, u64>,
    /// Where probes were placed, or refused.
    pub probes: Vec<TraceProbe>,
    /// What the tracing cost.
    pub cost: TraceCost,
    /// What a reader must know.
    pub notes: Vec<String>,
}

/// A process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Traced {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub program: String,
    /// `MySQL` or `MariaDB`, if it is a server.
    pub flavour: Option<String>,
    /// The version as the server states it.
    pub version: Option<String>,
    /// The build id of its program, hexadecimal.
    pub build_id: Option<String>,
}

/// A probe of a trace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TraceProbe {
    /// What it is for: `wait start`, `stage written`.
    pub name: String,
    /// Where it stands: `log_write_up_to+0x4`, `sched_switch`.
    pub place: String,
    /// Why it could not be placed; what it is for is then missing.
    pub refused: Option<String>,
    /// The kernel emulates the instruction there; false: it single-steps it, which costs more;
    /// absent: no instruction.
    pub emulated: Option<bool>,
    /// How often it fired.
    pub hits: u64,
    /// Run time of its program, ns a hit, without the trap; absent: not counted.
    pub program_ns_per_hit: Option<f64>,
}

/// What the tracing cost the process and us.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TraceCost {
    /// CPU time of waggle itself while it traced, s.
    pub waggle_cpu_s: f64,
    /// Memory of waggle at the end, bytes.
    pub waggle_rss_bytes: u64,
    /// Probes that fired, a second of the time that was traced.
    pub hits_per_s: f64,
    /// Run time of the kernel's half, ns a hit, by the kernel's own account; absent: not counted.
    pub program_ns_per_hit: Option<f64>,
    /// Run time of the programs at places of the process, s, without the traps that lead to them;
    /// absent: not counted.
    pub programs_s: Option<f64>,
    /// Run time of the programs that run for every process of the host (switches, system calls), s;
    /// absent: there are none, or it was not counted.
    pub host_programs_s: Option<f64>,
    /// CPU time of the process meanwhile, s, also while nothing was attached; absent: not known, as
    /// it ended too soon.
    pub process_cpu_s: Option<f64>,
    /// Share of the traced time in which run times were counted, 0 to 1; what is above is scaled
    /// from it. Absent: in all of it, or not told.
    pub counted_share: Option<f64>,
}
