//! What was seen of latches, in the words of the join.
//!
//! Invariant: everything here was seen; what follows from it is the join's to say.

use crate::event::{StackId, Thread};

/// What sort of latch it is, and so which of its releases are seen while somebody sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// InnoDB's mutex with an event: a release with sleepers wakes all of them.
    Mutex,
    /// InnoDB's rw-lock: likewise, by an event of the lock.
    RwLock,
    /// A metadata lock: the holder that leaves last grants it.
    Metadata,
    /// A mutex of the C library: one sleeper is woken at a time. While that one is on its way,
    /// another may take the mutex and leave it without a word to the kernel.
    PthreadMutex,
    /// A rw-lock of the C library.
    PthreadRwLock,
    /// A word the program sleeps on by itself (MariaDB's latches): every release with sleepers
    /// wakes one.
    Futex,
    /// A latch that the program tells of by static probes: every release is seen.
    Static,
}

impl Kind {
    /// The name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::RwLock => "rw-lock",
            Self::Metadata => "metadata",
            Self::PthreadMutex => "pthread mutex",
            Self::PthreadRwLock => "pthread rw-lock",
            Self::Futex => "futex",
            Self::Static => "static probes",
        }
    }

    /// While a thread sleeps for it, no holder comes and goes unseen.
    pub fn shows_every_release(self) -> bool {
        !matches!(self, Self::PthreadMutex | Self::PthreadRwLock)
    }

    /// A thread that slept for it and got it does not let go of it unseen, even if nobody sleeps
    /// any more.
    pub fn shows_own_release(self) -> bool {
        self == Self::PthreadMutex
    }
}

/// How the latch was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Mode {
    /// There is only one way, or it is not known.
    #[default]
    Plain,
    /// Shared.
    Shared,
    /// Shared with readers, exclusive among its like.
    SharedExclusive,
    /// Exclusive.
    Exclusive,
    /// Exclusive, granted, but readers have to leave first.
    ExclusiveDraining,
}

impl Mode {
    /// The letter in reports; empty if there is only one mode.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Shared => "S",
            Self::SharedExclusive => "SX",
            Self::Exclusive => "X",
            Self::ExclusiveDraining => "X, readers leaving",
        }
    }
}

/// Which latch: by its address, or by a name that several addresses share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LatchId(pub u64);

/// A place in the source that asked for the latch, in the table of places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Request(pub u32);

/// Something seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// When, ns of the monotonic clock.
    pub ns: u64,
    /// Whose doing it was.
    pub thread: Thread,
    /// What sleepers and releases have in common: an event's, a word's, a wait's address.
    pub key: u64,
    /// What it was.
    pub what: What,
}

/// What was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The thread goes to sleep for a latch.
    Sleeps {
        /// Which.
        latch: LatchId,
        /// Of what sort.
        kind: Kind,
        /// How it is asked for.
        mode: Mode,
        /// The thread that holds it now, if the latch says so.
        owner: Option<u32>,
        /// File and line, if the request says so.
        request: Option<Request>,
        /// Where the thread is.
        stack: Option<StackId>,
        /// Its stack pointer: the same for the sleeps of one request.
        frame: u64,
    },
    /// It wakes.
    Wakes {
        /// Nobody let go: its time was up, a signal came, or the latch had become free before.
        in_vain: bool,
    },
    /// It lets go of a latch that is waited for.
    Releases {
        /// Where it is.
        stack: Option<StackId>,
    },
    /// Something was lost between now and `until_ns`.
    Lost {
        /// When nothing more was known to be lost.
        until_ns: u64,
        /// How much was lost.
        count: u64,
    },
}
