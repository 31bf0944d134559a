//! What may a thread's time be made of?
//!
//! Neighbour: the timeline fills these in. Invariant: a split has a place for every state, what was
//! not seen included.

use crate::event::{Departure, StackId, Thread};

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// It runs.
    OnCpu,
    /// It could run, but has no processor.
    Runnable,
    /// It waits.
    Blocked(Departure),
    /// It is at something else, of which nothing is told.
    Elsewhere,
    /// Not known.
    Unseen,
}

/// Who ended a wait, and where that was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waker {
    /// The thread; whoever was on the processor, if an interrupt woke.
    pub thread: Thread,
    /// Where it was.
    pub stack: Option<StackId>,
    /// True if an interrupt woke.
    pub interrupt: bool,
}

/// A span in one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// When it began, ns.
    pub from_ns: u64,
    /// When it ended, ns; for the last one the time of the last event of any thread.
    pub to_ns: u64,
    /// The state.
    pub state: State,
    /// Where the thread waits, if blocked.
    pub stack: Option<StackId>,
    /// Who ended the wait, if blocked and if it was seen.
    pub waker: Option<Waker>,
}

/// What a span of a thread's time was made of, ns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Split {
    /// Running.
    pub on_cpu_ns: u64,
    /// Ready to run, without a processor.
    pub runnable_ns: u64,
    /// Waiting, by what for.
    pub blocked: Vec<(Departure, u64)>,
    /// At something else.
    pub elsewhere_ns: u64,
    /// Not known.
    pub unseen_ns: u64,
}

impl Split {
    /// All waiting together.
    pub fn blocked_ns(&self) -> u64 {
        self.blocked.iter().map(|(_, ns)| ns).sum()
    }

    /// The span that was split.
    pub fn whole_ns(&self) -> u64 {
        let known = self.on_cpu_ns + self.runnable_ns + self.blocked_ns();
        known + self.elsewhere_ns + self.unseen_ns
    }

    /// Adds a span.
    pub fn add(&mut self, state: State, ns: u64) {
        match state {
            _ if ns == 0 => {}
            State::OnCpu => self.on_cpu_ns += ns,
            State::Runnable => self.runnable_ns += ns,
            State::Elsewhere => self.elsewhere_ns += ns,
            State::Unseen => self.unseen_ns += ns,
            State::Blocked(why) => match self.blocked.iter_mut().find(|(w, _)| *w == why) {
                Some((_, sum)) => *sum += ns,
                None => self.blocked.push((why, ns)),
            },
        }
    }
}
