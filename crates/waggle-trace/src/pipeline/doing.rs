//! What was a thread doing over a span: how a stage is split.
//!
//! Neighbour: the scheduler's history ([`crate::timeline`]) answers; without it, nothing is known.
//! Invariant: the fields of a [`Doing`] sum to the span it was asked for.

use crate::event::{Departure, Thread};
use crate::timeline::{State, Timeline};

/// What a thread waited for while it slept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Another thread, by a futex: a mutex, a condition, work to come.
    Futex,
    /// A disk.
    Disk,
    /// The network or a pipe.
    Network,
    /// A set time.
    Sleep,
    /// Something else.
    Other,
}

impl Reason {
    /// All, in the order of [`Doing::blocked_ns`].
    pub const ALL: [Reason; 5] = [
        Reason::Futex,
        Reason::Disk,
        Reason::Network,
        Reason::Sleep,
        Reason::Other,
    ];

    /// Its name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Futex => "futex",
            Reason::Disk => "disk",
            Reason::Network => "network",
            Reason::Sleep => "sleep",
            Reason::Other => "other",
        }
    }

    /// Why a thread slept that left its processor like this; nothing if it could run on.
    pub fn of(departure: Departure) -> Option<Self> {
        match departure {
            Departure::Runnable => None,
            Departure::Futex(_) => Some(Reason::Futex),
            Departure::Disk => Some(Reason::Disk),
            Departure::Network => Some(Reason::Network),
            Departure::Sleep => Some(Reason::Sleep),
            Departure::Other => Some(Reason::Other),
        }
    }
}

/// What a thread was doing, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Doing {
    /// It was still at what came before, or at something else altogether.
    pub queued_ns: u64,
    /// It was on a processor.
    pub on_cpu_ns: u64,
    /// It could have run, and had no processor.
    pub runnable_ns: u64,
    /// It slept, by [`Reason::ALL`].
    pub blocked_ns: [u64; 5],
    /// Not known.
    pub unknown_ns: u64,
}

impl Doing {
    /// Nothing is known of a span.
    pub fn unknown(ns: u64) -> Self {
        Self {
            unknown_ns: ns,
            ..Self::default()
        }
    }

    /// All of it together, ns.
    pub fn sum_ns(&self) -> u64 {
        let known = self.queued_ns + self.on_cpu_ns + self.runnable_ns + self.unknown_ns;
        known + self.blocked_ns.iter().sum::<u64>()
    }

    /// Adds another span.
    pub fn add(&mut self, other: &Doing) {
        self.queued_ns += other.queued_ns;
        self.on_cpu_ns += other.on_cpu_ns;
        self.runnable_ns += other.runnable_ns;
        for (sum, ns) in self.blocked_ns.iter_mut().zip(other.blocked_ns) {
            *sum += ns;
        }
        self.unknown_ns += other.unknown_ns;
    }
}

/// The scheduler's history of threads.
pub trait Activity {
    /// What the thread was doing from `from_ns` to `to_ns`; sums to the span.
    fn doing(&self, thread: Thread, from_ns: u64, to_ns: u64) -> Doing;
}

/// No history: nothing is known of anybody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unknown;

impl Activity for Unknown {
    fn doing(&self, _thread: Thread, from_ns: u64, to_ns: u64) -> Doing {
        Doing::unknown(to_ns.saturating_sub(from_ns))
    }
}

impl Activity for Timeline {
    fn doing(&self, thread: Thread, from_ns: u64, to_ns: u64) -> Doing {
        let mut doing = Doing::default();
        self.each_state(thread, from_ns, to_ns, |state, ns| match state {
            State::OnCpu => doing.on_cpu_ns += ns,
            State::Runnable => doing.runnable_ns += ns,
            State::Elsewhere => doing.queued_ns += ns,
            State::Unseen => doing.unknown_ns += ns,
            State::Blocked(departure) => {
                let reason = Reason::of(departure).unwrap_or(Reason::Other);
                doing.blocked_ns[reason as usize] += ns;
            }
        });
        doing
    }
}
