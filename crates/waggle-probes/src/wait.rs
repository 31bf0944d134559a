//! What can a thread of a server wait for? The classes that wall time is split into.
//!
//! The kernel half writes a class as its index here (`enum wait_class` in `src/bpf/`); everything
//! above reads names. Invariant: the order never changes without the C enum.

/// Why a thread that carries out a statement was not on a processor, other than for want of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitClass {
    /// A row lock of the storage engine.
    RowLock,
    /// A metadata lock.
    MetadataLock,
    /// A table lock, or a global one.
    TableLock,
    /// The redo log: group commit, log flush.
    Redo,
    /// The binary log: order, flush, synchronisation.
    BinaryLog,
    /// Reading a file, or a page fault that had to.
    DiskRead,
    /// Writing or synchronising a file that is no log.
    DiskWrite,
    /// The client, to take what it is sent.
    NetworkWrite,
    /// The client, within a statement (`LOAD DATA LOCAL`).
    NetworkRead,
    /// A mutex, read-write lock or condition of the server that is none of the above.
    Latch,
    /// It asked to: `SLEEP`, `GET_LOCK`.
    Sleep,
    /// None of these.
    Other,
}

impl WaitClass {
    /// Every class, in the order of the kernel half.
    pub const ALL: [Self; 12] = [
        Self::RowLock,
        Self::MetadataLock,
        Self::TableLock,
        Self::Redo,
        Self::BinaryLog,
        Self::DiskRead,
        Self::DiskWrite,
        Self::NetworkWrite,
        Self::NetworkRead,
        Self::Latch,
        Self::Sleep,
        Self::Other,
    ];

    /// How many there are.
    pub const COUNT: usize = Self::ALL.len();

    /// The name in reports, labels and `--json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RowLock => "row_lock",
            Self::MetadataLock => "metadata_lock",
            Self::TableLock => "table_lock",
            Self::Redo => "redo",
            Self::BinaryLog => "binary_log",
            Self::DiskRead => "disk_read",
            Self::DiskWrite => "disk_write",
            Self::NetworkWrite => "network_write",
            Self::NetworkRead => "network_read",
            Self::Latch => "latch",
            Self::Sleep => "sleep",
            Self::Other => "other",
        }
    }

    /// Its place in [`ALL`](Self::ALL).
    pub fn index(self) -> usize {
        self as usize
    }
}
