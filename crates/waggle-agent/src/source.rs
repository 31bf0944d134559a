//! Something that sees statements: the probe, packets, PERFORMANCE_SCHEMA, the slow log.
//!
//! A source belongs to one server. The agent polls it; it never blocks, never calls back on its
//! own, and owns no thread unless it must (packets). Neighbours: the aggregate takes what it
//! yields.

pub mod packets;
pub mod perfschema;
pub mod slowlog;
pub mod uprobe;

use crate::lock::{Deadlock, LockWait};
use crate::statement::Statement;

/// Which eye.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// One probe at the end of every statement (the default).
    Uprobe,
    /// The network's packets, decoded.
    Packets,
    /// The server's PERFORMANCE_SCHEMA, polled.
    Perfschema,
    /// The server's slow log, followed.
    Slowlog,
}

/// Sums over statements that were not seen one by one (PERFORMANCE_SCHEMA's digests).
#[derive(Debug, Clone)]
pub struct Summed<'a> {
    /// A statement of this digest: its text and names; its figures are below, as sums.
    pub statement: Statement<'a>,
    /// How many more ended since the last such record.
    pub count: u64,
    /// Of these, with an error.
    pub errors: u64,
    /// Their latencies together, ns.
    pub latency_ns: u64,
    /// Bars of a histogram of them, where the server keeps one: highest latency of the bar (ns) and
    /// how many.
    pub bars: Vec<(u64, u64)>,
    /// The longest so far, ns.
    pub max_ns: u64,
    /// CPU time together, ns, where the server counts it.
    pub cpu_ns: Option<u64>,
    /// Lock time together, ns.
    pub lock_ns: Option<u64>,
    /// Rows sent, examined, affected together.
    pub rows: [Option<u64>; 3],
    /// Warnings together.
    pub warnings: Option<u64>,
    /// Temporary tables, and of these on disk.
    pub tmp_tables: Option<(u64, u64)>,
    /// Tables read from end to end, and joins without a key: their number, where single
    /// statements count once.
    pub full_scans: Option<(u64, u64)>,
}

/// What a source yields.
#[derive(Debug)]
pub enum Observation<'a> {
    /// A statement ended.
    Statement(Statement<'a>),
    /// Several statements ended; only their sums are known.
    Summed(Summed<'a>),
    /// Somebody waits, or waited, for somebody else.
    LockWait(LockWait),
    /// The server found a deadlock.
    Deadlock(Deadlock),
    /// Of the statements yielded, `count` came with less than all, because of `cause`.
    Degraded {
        /// Stable, short, snake case (`fields_unread`).
        cause: &'static str,
        /// How many statements.
        count: u64,
    },
    /// `count` statements of the agent itself ended, of a source that knows its own.
    Own(u64),
    /// The kernel half has been hit so many times since the last such observation.
    Hits(u64),
    /// `count` statements ended that will never be seen, because of `cause` (a stable name, such
    /// as `ring_full`, `tls`, `packets_dropped`).
    Lost {
        /// Stable, short, snake case.
        cause: &'static str,
        /// How many statements.
        count: u64,
    },
}

/// What a source can know, for reports: a field that is not here is never filled.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub struct Abilities {
    /// Names of fields it cannot give, each with the reason.
    pub missing: Vec<(String, String)>,
    /// One line that says where it looks.
    pub place: String,
    /// GNU build id of the server, where it matters to the source.
    pub build_id: Option<String>,
    /// Where the probe stands, for a source that has one.
    pub site: Option<ProbeSite>,
    /// Live statements that the fields were held against.
    pub validated_on: Option<u32>,
}

/// Where a probe stands in a server.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ProbeSite {
    /// Function.
    pub function: String,
    /// Bytes from its beginning.
    pub function_offset: u64,
    /// The instruction there.
    pub instruction: String,
    /// How the kernel carries it out: `emulated` or `single-stepped`.
    pub trap: String,
}

/// An eye on one server.
pub trait Source: Send {
    /// Which.
    fn kind(&self) -> SourceKind;

    /// What it can know.
    fn abilities(&self) -> Abilities;

    /// Yields what came since the last call; returns how many observations. Does not block.
    ///
    /// # Errors
    /// It is broken for good; what it yielded stays valid.
    fn poll(&mut self, each: &mut dyn FnMut(Observation<'_>)) -> anyhow::Result<usize>;

    /// The watch ends: yields what [`poll`](Self::poll) held back until more would come. May take
    /// a few seconds.
    ///
    /// # Errors
    /// As [`poll`](Self::poll).
    fn finish(&mut self, each: &mut dyn FnMut(Observation<'_>)) -> anyhow::Result<usize> {
        self.poll(each)
    }
}
