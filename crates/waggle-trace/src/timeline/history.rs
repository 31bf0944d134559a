//! What is remembered of one thread: when its state changed, and to what.
//!
//! Neighbour: the timeline has one of each thread. Invariant: changes are in the order of their
//! time, and each differs from the one before it.

use std::collections::VecDeque;

use super::spans::{State, Waker};
use crate::event::StackId;

/// A change of state: it holds until the next.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    pub(super) ns: u64,
    pub(super) state: State,
    pub(super) stack: Option<StackId>,
    pub(super) waker: Option<Waker>,
}

/// A thread's changes in the order of their time.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) changes: VecDeque<Change>,
    /// Woken when it was not asleep.
    pub(super) early: Option<(u64, Waker)>,
    pub(super) ended_ns: Option<u64>,
}

impl History {
    /// Appends a change, unless the state is that of the last; returns how many were appended.
    pub(super) fn change(&mut self, ns: u64, state: State) -> usize {
        if self.changes.back().is_some_and(|last| last.state == state) {
            return 0;
        }
        self.changes.push_back(Change {
            ns,
            state,
            stack: None,
            waker: None,
        });
        1
    }

    /// How many changes there were up to `ns`. Nearly always asked of the recent past, which is
    /// looked at first: a search of the whole would touch memory that nobody has for seconds.
    pub(super) fn count_until(&self, ns: u64) -> usize {
        let is_later = |index: usize| self.changes[index].ns > ns;
        // Those before `low` are not later, those from `high` on are.
        let (mut low, mut high, mut step) = (0, self.changes.len(), 1);
        while let Some(at) = high.checked_sub(step) {
            if !is_later(at) {
                low = at + 1;
                break;
            }
            high = at;
            step *= 2;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if is_later(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }
}
