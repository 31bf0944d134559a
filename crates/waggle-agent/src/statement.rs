//! One finished statement, as far as its source can know it.
//!
//! Every source fills what it has and leaves the rest `None`: a reading that did not happen is not
//! a zero. Times are ns; `end_ns` is on the monotonic clock.

use waggle_probes::wait::WaitClass;

/// Which server of this host: its place among all the agent ever watched, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct ServerId(pub u32);

/// Who had it carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A client's connection.
    Client,
    /// A thread that applies a replication stream.
    Replication,
    /// The event scheduler.
    Event,
    /// A stored procedure, function or trigger, on behalf of a statement.
    Routine,
}

/// Where the wall time went. `wall = cpu + runnable + sum(blocked)`, and what is missing to
/// that is not hidden: `remainder` = wall - (the others), which a reader shows when it is not 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// On a processor, ns.
    pub cpu_ns: u64,
    /// Ready to run, but not running, ns.
    pub runnable_ns: u64,
    /// Blocked, by class in the order of [`WaitClass::ALL`], ns.
    pub blocked_ns: [u64; WaitClass::COUNT],
}

/// What the statement did, as far as known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Work {
    /// Rows sent to the client.
    pub rows_sent: Option<u64>,
    /// Rows read from the storage engines.
    pub rows_examined: Option<u64>,
    /// Rows changed.
    pub rows_affected: Option<u64>,
    /// Warnings raised.
    pub warnings: Option<u32>,
    /// The server's error number, 0 for none.
    pub error: Option<u32>,
    /// The server's own lock time (waits for table locks and, on MySQL, row locks), ns.
    pub lock_ns: Option<u64>,
    /// Context switches that the thread asked for, and those that were forced on it.
    pub switches: Option<(u32, u32)>,
    /// Bytes read from storage, and written to it, on behalf of the thread.
    pub storage_bytes: Option<(u64, u64)>,
    /// Bytes received from the client and sent to it.
    pub network_bytes: Option<(u64, u64)>,
    /// Temporary tables made, and of these on disk.
    pub tmp_tables: Option<(u32, u32)>,
    /// Tables read from end to end, and joins without a key.
    pub full_scans: Option<(u32, u32)>,
    /// No key, or no good one, was used.
    pub no_index: Option<bool>,
    /// The connection was in a transaction when the statement ended.
    pub in_transaction: Option<bool>,
}

/// What the text of a statement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Text<'a> {
    /// As the client sent it, literals and all; `truncated` if only its beginning is here.
    Whole {
        /// Bytes, not always UTF-8.
        sql: &'a [u8],
        /// Only the beginning was kept.
        truncated: bool,
    },
    /// The server's own normalised text (PERFORMANCE_SCHEMA's `DIGEST_TEXT`).
    Normalised(&'a [u8]),
    /// Not known (a prepared statement whose preparation was not seen, TLS).
    Unknown,
}

/// The thread that carried a statement out, in the server's own terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread {
    /// Address of the session object.
    pub thd: u64,
    /// Thread id.
    pub tid: u32,
}

/// One finished statement.
#[derive(Debug, Clone, Copy)]
pub struct Statement<'a> {
    /// When it ended, ns of the monotonic clock.
    pub end_ns: u64,
    /// How long it took, ns.
    pub latency_ns: Option<u64>,
    /// Connection id, as in the process list.
    pub connection_id: Option<u64>,
    /// Who carried it out, for sources that look into the server.
    pub thread: Option<Thread>,
    /// User name; empty if not known.
    pub user: &'a [u8],
    /// The client's host or address; empty if not known.
    pub host: &'a [u8],
    /// Default database; empty if none or not known.
    pub database: &'a [u8],
    /// Its text.
    pub text: Text<'a>,
    /// The protocol command (3: query, 23: execute, ...).
    pub command: Option<u32>,
    /// Who had it carried out.
    pub origin: Option<Origin>,
    /// Where its time went.
    pub times: Option<Times>,
    /// What it did.
    pub work: Work,
}
