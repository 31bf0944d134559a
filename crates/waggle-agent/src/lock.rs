//! Who waits for whom, on what.
//!
//! Edges come from the server's own reports of a wait (probes) and, where a DSN was given, from its
//! lock tables, which add table, index and mode. The blocking tree is made of edges and sessions.

use std::sync::Arc;

/// What kind of lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LockKind {
    /// A row lock of the storage engine.
    Row,
    /// A metadata lock.
    Metadata,
    /// A table lock of the storage engine, `LOCK TABLES`, or a global one.
    Table,
}

impl LockKind {
    /// Its place in sums by kind: row, metadata, table.
    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

/// One side of a wait: a connection, and what is known of it.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct Party {
    /// Connection id, as in the process list; `None` if it could not be told.
    pub connection_id: Option<u64>,
    /// User name.
    pub user: Arc<str>,
    /// Default database.
    pub database: Arc<str>,
    /// Digest of the statement it carries out, or of its last one if idle.
    pub digest: Option<String>,
    /// That statement, without literals.
    pub fingerprint: Arc<str>,
    /// It carries out a statement now (else it is idle).
    pub is_running: bool,
    /// Age of its transaction, us; `None` if not known.
    pub transaction_us: Option<u64>,
    /// How long it has been idle, us, if it is.
    pub idle_us: Option<u64>,
}

/// What is waited for.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct LockObject {
    /// Schema and table; empty if not known.
    pub table: String,
    /// Index; empty if not known or none.
    pub index: String,
    /// The mode asked for, in the server's words (`X,REC_NOT_GAP`, `SHARED_WRITE`).
    pub mode_wanted: String,
    /// The mode held.
    pub mode_held: String,
    /// Why the object is not known, if it is not.
    pub unknown_because: Option<String>,
}

/// Somebody waits, or waited, for somebody else.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct LockWait {
    /// The same wait has the same number in every record of it.
    pub id: u64,
    /// What kind.
    pub kind: LockKind,
    /// Who waits.
    pub waiter: Party,
    /// For whom. Several edges of one wait have one `id`.
    pub blocker: Party,
    /// On what.
    pub object: LockObject,
    /// When it began, us since 1970.
    pub since_us: u64,
    /// How long so far, or in all if it ended, us.
    pub waited_us: u64,
    /// It is over.
    pub ended: bool,
}

/// A deadlock that the server resolved.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Deadlock {
    /// When, us since 1970.
    pub time_us: u64,
    /// Who was rolled back.
    pub victim: Party,
    /// All who were in the cycle, the victim among them, in its order.
    pub cycle: Vec<Party>,
}
