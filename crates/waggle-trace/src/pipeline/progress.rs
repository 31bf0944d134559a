//! What has a stage reached, and when did it first?
//!
//! Invariant: a log grows in time and in value, so that "the first time it was at least this" is a
//! search; entries nobody can ask for any more are let go, and a log is never longer than
//! [`ENTRIES_MAX`].

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::decompose::Reached;
use crate::event::Thread;

/// Entries of a log: 20 seconds at 10,000 steps a second, should a wait last that long.
pub(super) const ENTRIES_MAX: usize = 200_000;

/// The log of a stage whose value only grows.
#[derive(Debug, Default)]
pub(super) struct Progress {
    entries: VecDeque<Reached>,
    /// The last entry that was let go; what was reached before it is not known any more.
    dropped: Option<Reached>,
    /// When it was first seen to reach anything, ns.
    since_ns: Option<u64>,
}

/// What a log knows of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// It was first reached then; nothing if it was not reached yet. `since_ns`: the last time at
    /// which it is known not to have been reached; 0 if there is none.
    Reached {
        /// When it was.
        first: Option<Reached>,
        /// The step before.
        since_ns: u64,
    },
    /// It was reached at this step or before; the steps before are let go.
    Forgotten(Reached),
}

impl Progress {
    /// The stage has reached this.
    pub(super) fn reach(&mut self, reached: Reached) {
        self.since_ns.get_or_insert(reached.ns);
        if self.best().is_some_and(|best| best.value >= reached.value) {
            return;
        }
        if self.entries.len() >= ENTRIES_MAX {
            self.dropped = self.entries.pop_front();
        }
        self.entries.push_back(reached);
    }

    /// When was it first at least `key`?
    pub(super) fn first(&self, key: u64) -> Known {
        let at = self.entries.partition_point(|entry| entry.value < key);
        if at > 0 {
            return Known::Reached {
                first: self.entries.get(at).copied(),
                since_ns: self.entries[at - 1].ns,
            };
        }
        match self.dropped {
            Some(dropped) if dropped.value >= key => Known::Forgotten(dropped),
            dropped => Known::Reached {
                first: self.entries.front().copied(),
                since_ns: dropped.map_or(0, |dropped| dropped.ns),
            },
        }
    }

    /// True if something had been reached at that time.
    pub(super) fn was_known_at(&self, ns: u64) -> bool {
        self.since_ns.is_some_and(|since| since <= ns)
    }

    /// The largest value so far, and when it was reached.
    fn best(&self) -> Option<&Reached> {
        self.entries.back().or(self.dropped.as_ref())
    }

    /// Lets go of what was over before `ns`, but for the last step.
    pub(super) fn forget(&mut self, ns: u64) {
        // Two have to lie before: the second says when the first was overtaken.
        while self.entries.get(1).is_some_and(|next| next.ns < ns) {
            self.dropped = self.entries.pop_front();
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

/// When each thread last carried a stage out.
#[derive(Debug, Clone, Default)]
pub(super) struct Turns(FxHashMap<Thread, u64>);

impl Turns {
    /// Threads that are remembered; beyond, all are forgotten, which makes a queue look shorter.
    const THREADS_MAX: usize = 16_384;

    /// When the thread's last turn was, ns; 0 if there was none.
    pub(super) fn last(&self, thread: Thread) -> u64 {
        self.0.get(&thread).copied().unwrap_or(0)
    }

    /// Notes a turn; returns when the one before was, 0 if there was none.
    pub(super) fn next(&mut self, thread: Thread, ns: u64) -> u64 {
        if self.0.len() >= Self::THREADS_MAX && !self.0.contains_key(&thread) {
            self.0.clear();
        }
        self.0.insert(thread, ns).unwrap_or(0)
    }

    /// The thread ended.
    pub(super) fn forget(&mut self, thread: Thread) {
        self.0.remove(&thread);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const THREAD: Thread = Thread {
        tid: 9,
        began_ns: 1,
    };

    fn step(ns: u64, value: u64) -> Reached {
        Reached {
            ns,
            thread: Some(THREAD),
            value,
            before_ns: 0,
        }
    }

    #[test]
    fn the_first_time_is_found_and_what_is_not_greater_is_no_step() {
        let mut log = Progress::default();
        for (ns, value) in [(10, 5), (20, 5), (30, 3), (40, 9)] {
            log.reach(step(ns, value));
        }
        let first = |key| match log.first(key) {
            Known::Reached { first, since_ns } => (first.map(|first| first.ns), since_ns),
            Known::Forgotten(_) => panic!("{key} is known"),
        };
        assert_eq!(first(1), (Some(10), 0));
        assert_eq!(first(5), (Some(10), 0));
        assert_eq!(first(6), (Some(40), 10));
        assert_eq!(first(10), (None, 40));
        assert!(log.was_known_at(10) && !log.was_known_at(9));
    }

    proptest! {
        /// Against a plain search of everything that ever happened.
        #[test]
        fn forgetting_never_changes_an_answer(
            steps in prop::collection::vec((1_u64..10, 0_u64..50), 1..60),
            keys in prop::collection::vec(0_u64..60, 1..20),
            forget in 0_u64..400,
        ) {
            let mut log = Progress::default();
            let mut all: Vec<(u64, u64)> = Vec::new();
            let mut ns = 0;
            for (later, value) in steps {
                ns += later;
                log.reach(step(ns, value));
                all.push((ns, value));
            }
            log.forget(forget);
            prop_assert!(log.len() <= all.len());
            for key in keys {
                let truth = all.iter().find(|(_, value)| *value >= key).map(|(ns, _)| *ns);
                match log.first(key) {
                    Known::Reached { first, .. } => {
                        prop_assert_eq!(first.map(|first| first.ns), truth);
                    }
                    // Only what was over before.
                    Known::Forgotten(last) => {
                        prop_assert!(truth.is_some_and(|ns| ns <= last.ns && ns < forget));
                    }
                }
            }
        }
    }
}
