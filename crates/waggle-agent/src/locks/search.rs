//! One search of the server's for what blocks a metadata lock.
//!
//! Before a session waits for a metadata lock, the server looks for a deadlock: from the waiter to
//! each of its blockers, from each of these that waits to its own, depth first. Neighbours:
//! [`analysis`](super::analysis) takes the edges when the wait begins, or the path when a victim is
//! named.
//!
//! Invariant: an edge leads from the last waiter that was one step nearer to the start. If an event
//! was lost, edges are missing, never wrong.

use std::collections::HashMap;

use waggle_probes::lock::Thread;

use super::modes::{self, Numbering};
use crate::lock::LockObject;
use crate::sessions::printable;

/// Most contexts kept of one search.
const SEARCH_MAX: usize = 1024;

/// One thread's search for what blocks its metadata lock.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// The contexts from where it began to where it is.
    pub(super) path: Vec<u64>,
    pub(super) edges: Vec<(u64, u64)>,
    pub(super) objects: HashMap<u64, LockObject>,
    pub(super) threads: HashMap<u64, Thread>,
    pub(super) time_ns: u64,
}

impl Search {
    pub(super) fn from(&mut self, waiter: Thread, context: u64, depth: u32) {
        self.path.truncate(depth as usize);
        // A step that was not seen (its event was lost) makes the rest unknown.
        if self.path.len() == depth as usize && self.threads.len() < SEARCH_MAX {
            self.path.push(context);
            self.threads.insert(context, waiter);
        }
    }

    pub(super) fn by(&mut self, blocker: Thread, context: u64, depth: u32) {
        let above = (depth as usize).checked_sub(1);
        let Some(from) = above.and_then(|depth| self.path.get(depth).copied()) else {
            return;
        };
        if self.edges.len() >= SEARCH_MAX {
            return;
        }
        self.threads.insert(context, blocker);
        if !self.edges.contains(&(from, context)) {
            self.edges.push((from, context));
        }
    }
}

/// What a metadata lock is on, from its key.
pub(super) fn metadata_object(key: &[u8], mode: u32, numbering: Numbering) -> LockObject {
    let mut parts = key.get(1..).unwrap_or_default().split(|byte| *byte == 0);
    let (database, name) = (parts.next(), parts.next());
    let text = |part: Option<&[u8]>| printable(part.unwrap_or_default());
    let table = match (text(database), text(name)) {
        (database, name) if name.is_empty() => database,
        (database, name) if database.is_empty() => name,
        (database, name) => format!("{database}.{name}"),
    };
    LockObject {
        unknown_because: table
            .is_empty()
            .then(|| "a lock of the whole server".to_owned()),
        table,
        index: String::new(),
        mode_wanted: modes::name(mode, numbering).to_owned(),
        mode_held: String::new(),
    }
}
