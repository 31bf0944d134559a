//! A wait on its way from its beginning to its outcome, and what its stages have reached.
//!
//! Neighbours: `tracker` keeps these, `progress` is what each stage has reached.

use super::decompose::{Reached, Wait};
use super::progress::{Known, Progress};
use crate::event::StackId;

/// A wait that is under way.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) start_ns: u64,
    pub(super) key: u64,
    pub(super) second: u64,
    pub(super) stack: Option<StackId>,
    /// What stages without a log have reached for this wait.
    pub(super) marks: Vec<Option<Reached>>,
    pub(super) sleeps: u32,
    pub(super) wake: Option<Reached>,
    pub(super) came: Option<Reached>,
}

/// Something that has ended, and since when a loss would matter to it.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) end_ns: u64,
    pub(super) known_from_ns: u64,
    pub(super) outcome: Outcome,
}

#[derive(Debug)]
pub(super) enum Outcome {
    Wait {
        wait: Wait,
        is_no_wait: bool,
        is_truncated: bool,
    },
    /// An end without a beginning: of a wait that is not asked for (whose test ruled it out where
    /// it began), unless that was before the trace's or was lost.
    Stray {
        /// Nothing was seen of the thread before.
        is_first: bool,
    },
}

/// What the stages have reached for a wait.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) stages: Vec<Option<Reached>>,
    /// A loss after this could have changed it.
    pub(super) known_from_ns: u64,
    /// A log did not go back far enough.
    pub(super) is_truncated: bool,
    /// A stage may have reached what is waited for before it was first seen in this slice.
    pub(super) is_unknown: bool,
}

impl Found {
    pub(super) fn search(&mut self, log: &Progress, open: &Open) -> Option<Reached> {
        match log.first(open.key) {
            Known::Reached { first, since_ns } => {
                // A stage that was never seen says nothing, also not when a loss would matter.
                if first.is_some() || since_ns > 0 {
                    self.known_from_ns = self.known_from_ns.min(since_ns);
                }
                first
            }
            Known::Forgotten(last) => {
                self.is_truncated |= last.ns > open.start_ns;
                Some(last)
            }
        }
    }
}
