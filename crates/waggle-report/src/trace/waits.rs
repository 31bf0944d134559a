//! Who waits for whom: the document of `waggle trace waits`.
//!
//! Invariants: every wait that ended is in exactly one edge; a request's segments add up to it; a
//! stack is innermost first, and a name that begins with `~` is not exactly the function's.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use waggle_stats::latency::LatencySummary;

use super::TraceFacts;

/// Who waits for whom.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitsReport {
    /// What all subjects share.
    #[serde(flatten)]
    pub facts: TraceFacts,
    /// Waits that ended and are in the figures.
    pub ended: u64,
    /// Waits that may be part of a loss; in no other figure.
    pub flagged: u64,
    /// Waits whose end the kernel did not announce; in no other figure.
    pub unannounced: u64,
    /// Threads that still waited at the end; those waits are in no other figure.
    pub still_waiting: u64,
    /// What threads did between two waits for the network.
    pub requests: WaitsRequests,
    /// Who waits for whom, most time blocked first.
    pub edges: Vec<WaitsEdge>,
    /// Waits by where and by who ended them, those in requests first, most time blocked first.
    pub waits: Vec<WaitsRow>,
    /// Stacks that were walked, and how many do not reach the thread's beginning.
    pub stacks: WaitsStacks,
    /// Files of the run directory, by what they hold.
    pub files: BTreeMap<String, String>,
}

/// Requests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitsRequests {
    /// How many ended.
    pub count: u64,
    /// Those that may be part of a loss; in no other figure.
    pub flagged: u64,
    /// How long they took.
    pub latency_us: LatencySummary,
    /// What their own threads did, all of them together, ns: `on-cpu`, `runnable`, `futex`, `disk`,
    /// `network`, `sleep`, `other`, `unseen`.
    pub split_ns: BTreeMap<String, u64>,
    /// Whose doing the time of the slowest was, most first; adds up to theirs.
    pub path: Vec<WaitsShare>,
    /// The slowest in full, slowest first.
    pub slowest: Vec<WaitsRequest>,
}

/// A share of the time of the slowest requests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitsShare {
    /// Whose doing.
    pub role: String,
    /// What it did.
    pub doing: String,
    /// For how long, ns.
    pub ns: u64,
    /// Of their whole time.
    pub share: f64,
}

/// A request in full.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitsRequest {
    /// The thread.
    pub thread: String,
    /// Its role.
    pub role: String,
    /// When it began, ns since the trace did.
    pub at_ns: u64,
    /// How long it took.
    pub ns: u64,
    /// Whose doing the time was, in order, without a gap.
    pub segments: Vec<WaitsSegment>,
}

/// A part of a request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitsSegment {
    /// The thread.
    pub thread: String,
    /// Its role.
    pub role: String,
    /// What it did.
    pub doing: String,
    /// For how long.
    pub ns: u64,
    /// 0: the request's own thread; 1: who woke it; and so on.
    pub depth: u8,
    /// Where it waited, innermost first.
    pub stack: Vec<String>,
}

/// Who waits for whom.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitsEdge {
    /// The role that waited.
    pub waiter: String,
    /// The role that ended it; `interrupt (disk)` and the like are no threads.
    pub woken_by: String,
    /// All waits.
    pub all: WaitsSum,
    /// Those within requests.
    pub in_requests: WaitsSum,
}

/// Sums over waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitsSum {
    /// How many.
    pub count: u64,
    /// Until woken, ns.
    pub blocked_ns: u64,
    /// From then on until running, ns.
    pub runnable_ns: u64,
    /// The longest, both parts, ns.
    pub longest_ns: u64,
}

/// Waits that have all but their length in common.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitsRow {
    /// Who waited.
    pub role: String,
    /// What for: `futex`, `disk`, `network`, `sleep`, `other`.
    pub kind: String,
    /// Within a request.
    pub in_request: bool,
    /// Where, innermost first.
    pub stack: Vec<String>,
    /// Who ended it.
    pub woken_by: String,
    /// Where that one was, innermost first.
    pub waker_stack: Vec<String>,
    /// Their sums.
    #[serde(flatten)]
    pub sum: WaitsSum,
}

/// Stacks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitsStacks {
    /// Walked in the kernel.
    pub walked: u64,
    /// Of these: that do not reach the thread's beginning.
    pub cut: u64,
    /// Different ones.
    pub different: u64,
    /// Files walked by frame pointers, since their frames are not described or take too much room.
    pub by_frame_pointers: Vec<String>,
}
