//! Waits under way: who waits, for what, and whom the server named as blockers.
//!
//! Invariant: nobody blocks themselves, and a blocker is kept once, however often it is named.

use waggle_probes::lock::Thread;

use super::{BLOCKERS_MAX, WaitDetail};
use crate::lock::{LockKind, LockObject, Party};

/// Somebody who blocks.
#[derive(Debug, Clone, Default)]
pub(super) struct Blocker {
    pub(super) thread: Thread,
    /// The server named it last; an earlier one is kept for the record.
    pub(super) is_current: bool,
    pub(super) detail: Option<WaitDetail>,
}

/// A wait that goes on, or is about to.
#[derive(Debug, Clone)]
pub(super) struct Open {
    pub(super) id: u64,
    pub(super) kind: LockKind,
    pub(super) waiter: Thread,
    pub(super) since_ns: u64,
    /// The wait itself was seen, not only that it might come.
    pub(super) has_begun: bool,
    /// A part of it ended; the next may follow.
    pub(super) paused_ns: Option<u64>,
    pub(super) context: u64,
    pub(super) blockers: Vec<Blocker>,
    pub(super) detail: Option<WaitDetail>,
    /// What the server's memory said of the object.
    pub(super) seen: Option<LockObject>,
    /// The waiter as last seen while it waited.
    pub(super) party: Option<Party>,
}

/// A wait that ended and waits for its statement to be known.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) open: Open,
    pub(super) end_ns: u64,
}

impl Open {
    pub(super) fn blocked_by(&mut self, thread: Thread, replaces: bool) {
        if thread.thd == self.waiter.thd {
            return;
        }
        if replaces {
            self.blockers.iter_mut().for_each(|b| b.is_current = false);
        }
        let same = |b: &Blocker| {
            b.thread.thd == thread.thd
                || b.thread.thd == 0 && b.thread.connection_id == thread.connection_id
        };
        match self.blockers.iter().position(same) {
            Some(place) => {
                let known = &mut self.blockers[place];
                known.is_current = true;
                if thread.connection_id != 0 {
                    known.thread = thread;
                }
            }
            None if self.blockers.len() < BLOCKERS_MAX => self.blockers.push(Blocker {
                thread,
                is_current: true,
                detail: None,
            }),
            None => {}
        }
    }
}
