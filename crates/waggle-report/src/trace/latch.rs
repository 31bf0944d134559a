//! Who held which latch: the document of `waggle trace latch`.
//!
//! Invariant: of every latch, `held_ns + handing_over_ns + unobserved_ns` is `wait_sum_ns`. Waits
//! that were flagged are counted and are in no other figure.

use serde::{Deserialize, Serialize};

use super::TraceFacts;

/// Who held which latch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LatchReport {
    /// What all subjects share.
    #[serde(flatten)]
    pub facts: TraceFacts,
    /// Waits that began and ended within the trace, flagged ones included.
    pub waits: u64,
    /// Of these: waits that overlap a loss of records.
    pub flagged: u64,
    /// Sleeps of which only the beginning or only the end was seen.
    pub torn: u64,
    /// Share of waits flagged or torn, 0 to 1.
    pub flagged_share: f64,
    /// Sleeps that were none, because the latch had become free.
    pub in_vain: u64,
    /// Threads that still slept for a latch when the trace ended; of slices, when each did.
    pub still_waiting: u64,
    /// Sleeps for a condition, which is no latch; in no other figure.
    pub conditions: u64,
    /// The waiting, summed over threads, ns.
    pub wait_sum_ns: u64,
    /// Of it, with a holder that is known, ns.
    pub held_ns: u64,
    /// Of it, between holders, or between the last release and the waiter's running, ns.
    pub handing_over_ns: u64,
    /// Of it, with a holder that could not be observed, ns.
    pub unobserved_ns: u64,
    /// Waits whose first holder was named by its release and by the latch's own word.
    pub word_agrees: u64,
    /// Waits in which these two differ.
    pub word_differs: u64,
    /// Latches, those with the most waiting first.
    pub latches: Vec<LatchRow>,
    /// What cannot be seen of this process: what, and why.
    pub missing: Vec<(String, String)>,
    /// What each program of the kernel half cost; empty if the kernel does not count.
    pub programs: Vec<LatchProgram>,
}

/// A distribution, us, two digits exact.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LatchSpread {
    /// How many.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

/// One latch, or all of one name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LatchRow {
    /// Its name, where it stands, or who asks for it.
    pub name: String,
    /// `mutex`, `rw-lock`, `metadata`, `pthread mutex`, `pthread rw-lock`, `futex`,
    /// `static probes`.
    pub kind: String,
    /// Different latches of that name.
    pub latches: u64,
    /// Threads that waited.
    pub waiters: u64,
    /// Sleeps; a wait has at least one.
    pub sleeps: u64,
    /// The waits.
    pub wait_us: LatchSpread,
    /// Their sum, ns.
    pub wait_sum_ns: u64,
    /// Share of the traced time during which at least one thread waited, 0 to 1.
    pub contended_share: f64,
    /// Waiting with a holder that is known, ns.
    pub held_ns: u64,
    /// Waiting between holders, or between the last release and the waiter's running, ns.
    pub handing_over_ns: u64,
    /// Waiting with a holder that could not be observed, ns.
    pub unobserved_ns: u64,
    /// Releases while a thread waited, each counted once for each wait that it fell in.
    pub hand_overs: u64,
    /// Waits flagged; in no other figure.
    pub flagged: u64,
    /// Waits whose first holder was named by its release and by the latch's own word.
    pub word_agrees: u64,
    /// Waits in which these two differ.
    pub word_differs: u64,
    /// Who asked where, those that waited most first.
    pub asked: Vec<LatchAsked>,
    /// Who held it, those that blocked most first.
    pub holders: Vec<LatchHolder>,
}

/// A place that asked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LatchAsked {
    /// File and line, if the request says so.
    pub at: Option<String>,
    /// `S`, `SX`, `X`; empty if there is one way only.
    pub mode: String,
    /// Waits.
    pub waits: u64,
    /// Their sum, ns.
    pub wait_sum_ns: u64,
    /// The longest, us.
    pub max_us: f64,
    /// The calls, innermost first.
    pub stack: Vec<String>,
}

/// Who held it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LatchHolder {
    /// What the thread does.
    pub role: String,
    /// Threads.
    pub threads: u64,
    /// Waits during which one of them held it.
    pub waits: u64,
    /// How long they kept waiters waiting, summed over waiters, ns.
    pub blocked_ns: u64,
    /// The longest, us.
    pub max_us: f64,
    /// How long they held it, of those times that began with a wake-up that was seen.
    pub hold_us: Option<LatchSpread>,
    /// Where they let go: calls, innermost first.
    pub stack: Vec<String>,
}

/// A program of the kernel half.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LatchProgram {
    /// Its name.
    pub name: String,
    /// Runs a second of the time that was traced.
    pub runs_per_s: f64,
    /// Without the trap that leads to it, ns a run.
    pub ns_per_run: f64,
}
