//! Which waits for locks and which deadlocks ended, one by one and in all?
//!
//! Neighbour: the aggregate of a server has one. Invariant: what is held between two collections is
//! bounded; the sums count what found no room as well.

use crate::lock::{Deadlock, LockWait};
use crate::view::ServerView;

/// Most ended waits and deadlocks held between two collections.
const ENDED_MAX: usize = 4096;
/// Most deadlocks in a view.
const DEADLOCKS_SHOWN: usize = 16;

/// What ended of waits for locks on one server.
#[derive(Debug, Default)]
pub(super) struct Contention {
    waits: Vec<LockWait>,
    /// Count and total us, by kind.
    waits_ended: [(u64, u64); 3],
    deadlocks: Vec<Deadlock>,
    deadlocks_shown: Vec<Deadlock>,
    deadlock_count: u64,
}

impl Contention {
    /// Takes a wait, which is passed over if it goes on. False if there was no room to hold it.
    pub(super) fn wait(&mut self, wait: LockWait) -> bool {
        if !wait.ended {
            return true;
        }
        let (count, sum_us) = &mut self.waits_ended[wait.kind.index()];
        *count += 1;
        *sum_us += wait.waited_us;
        let has_room = self.waits.len() < ENDED_MAX;
        if has_room {
            self.waits.push(wait);
        }
        has_room
    }

    /// Takes a deadlock.
    pub(super) fn deadlock(&mut self, deadlock: Deadlock) {
        self.deadlock_count += 1;
        if self.deadlocks_shown.len() == DEADLOCKS_SHOWN {
            self.deadlocks_shown.remove(0);
        }
        self.deadlocks_shown.push(deadlock.clone());
        if self.deadlocks.len() < ENDED_MAX {
            self.deadlocks.push(deadlock);
        }
    }

    /// Takes the waits that ended since the last call.
    pub(super) fn take_waits(&mut self) -> Vec<LockWait> {
        std::mem::take(&mut self.waits)
    }

    /// Takes the deadlocks since the last call.
    pub(super) fn take_deadlocks(&mut self) -> Vec<Deadlock> {
        std::mem::take(&mut self.deadlocks)
    }

    /// Writes the sums and the latest deadlocks into `view`.
    pub(super) fn fill(&self, view: &mut ServerView) {
        view.waits_ended = self.waits_ended;
        view.deadlocks.clone_from(&self.deadlocks_shown);
        view.deadlock_count = self.deadlock_count;
    }
}
