//! By what are waits summed, and into what?
//!
//! Neighbours: [`Waits`](super::Waits) sums, tables and graphs read. Invariant: the two parts of a
//! tally are those of its waits together.

use super::roles::RoleId;
use crate::event::{Departure, StackId};

/// What a thread waits for, without addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A lock, a condition, a semaphore.
    Futex,
    /// A disk.
    Disk,
    /// A socket or a pipe.
    Network,
    /// A set time.
    Sleep,
    /// Something else.
    Other,
}

impl Kind {
    /// Of a departure; `None` for one that is no wait.
    pub fn of(why: Departure) -> Option<Self> {
        Some(match why {
            Departure::Runnable => return None,
            Departure::Futex(_) => Self::Futex,
            Departure::Disk => Self::Disk,
            Departure::Network => Self::Network,
            Departure::Sleep => Self::Sleep,
            Departure::Other => Self::Other,
        })
    }

    /// As the tables have it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Futex => "futex",
            Self::Disk => "disk",
            Self::Network => "network",
            Self::Sleep => "sleep",
            Self::Other => "other",
        }
    }
}

/// Who ended waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ender {
    /// A thread of this role.
    Role(RoleId),
    /// An interrupt: a disk or a network card was done, a time had come.
    Interrupt,
    /// It was not seen.
    Unknown,
}

/// What waits have in common that are summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// Who waited.
    pub role: RoleId,
    /// What for.
    pub kind: Kind,
    /// Where.
    pub stack: Option<StackId>,
    /// Who ended it.
    pub ender: Ender,
    /// Where that one was.
    pub ender_stack: Option<StackId>,
    /// The wait was part of a request.
    pub in_request: bool,
}

/// Sums over waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many.
    pub count: u64,
    /// Until woken, ns.
    pub blocked_ns: u64,
    /// From then on until running, ns.
    pub runnable_ns: u64,
    /// The longest, both parts, ns.
    pub longest_ns: u64,
}

impl Tally {
    /// Adds one wait.
    pub(super) fn add(&mut self, blocked_ns: u64, runnable_ns: u64) {
        self.count += 1;
        self.blocked_ns += blocked_ns;
        self.runnable_ns += runnable_ns;
        self.longest_ns = self.longest_ns.max(blocked_ns + runnable_ns);
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.blocked_ns += other.blocked_ns;
        self.runnable_ns += other.runnable_ns;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}
