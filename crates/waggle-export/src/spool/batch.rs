//! What goes into a spool and comes out, its limits, and why something does not go in.
//!
//! Neighbour: [`Spool`](super::Spool) deals in these.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Names one batch for good: no other batch of any spool has the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BatchId {
    /// Drawn at random each time a spool is opened.
    pub run: u64,
    /// Place among the batches of that run, from 0.
    pub sequence: u64,
}

impl fmt::Display for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{}", self.run, self.sequence)
    }
}

/// One batch, as it was appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Its name.
    pub id: BatchId,
    /// What the caller gave: which table, which signal.
    pub tag: u8,
    /// Records in it, for counts.
    pub records: u32,
    /// When it was appended, us since 1970.
    pub written_us: u64,
    /// Its bytes.
    pub payload: Vec<u8>,
}

/// How much a spool may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes on disk, at least 64 KiB.
    pub max_bytes: u64,
    /// The file system keeps so many bytes free for others.
    pub min_free_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_bytes: 256 << 20,
            min_free_bytes: 256 << 20,
        }
    }
}

/// Why a spool cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// The folder cannot be made, listed or written.
    #[error("the spool folder {path} cannot be used: {source}")]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process has it.
    #[error("the spool folder {path} is in use by another process; give each agent its own")]
    InUse {
        /// Which.
        path: PathBuf,
    },
}

/// Why a batch was not taken. It was counted.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The disk has no room, or would have less than it must keep free.
    #[error("the disk of the spool is full")]
    DiskFull,
    /// More than half of what the spool may hold.
    #[error("a batch of {0} bytes is too large for the spool")]
    TooLarge(usize),
    /// The disk failed.
    #[error("the spool cannot be written: {0}")]
    Failed(io::Error),
}

impl Refused {
    /// The name under which it is counted.
    pub fn cause(&self) -> &'static str {
        match self {
            Self::DiskFull => "disk_full",
            Self::TooLarge(_) => "batch_too_large",
            Self::Failed(_) => "spool_failed",
        }
    }
}

/// What a spool holds, and what became of what it held since it was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpoolStatus {
    /// Batches that wait.
    pub batches_waiting: u64,
    /// Records in these.
    pub records_waiting: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Records acknowledged.
    pub records_delivered: u64,
    /// Records given up, by cause: `spool_full`, `disk_full`, `batch_too_large`, `spool_failed`,
    /// `half_written` (the process died while it wrote; a batch counts as one record if no more is
    /// known), `damaged` (the bytes on disk are not those written), and the causes of
    /// [`Spool::reject`](super::Spool::reject).
    pub dropped: Vec<(&'static str, u64)>,
}
