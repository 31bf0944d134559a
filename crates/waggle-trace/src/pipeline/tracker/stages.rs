//! Which thread carried out each stage for a wait, and when?
//!
//! Neighbours: `progress` keeps how far each stage has got; [`super`] asks when a wait ends.
//!
//! Invariant: what a thread carried out is of account for the waits under way to which the stage's
//! rule says that it belongs, and for no other.

use super::{Tracker, reached};
use crate::event::{Event, Thread, What};
use crate::pipeline::decompose::Reached;
use crate::pipeline::layout::Seen;
use crate::pipeline::open::{Found, Open};
use crate::pipeline::progress::Known;
use crate::stagefile::Rule;

impl Tracker {
    /// The stage by which it is judged whether there was anything to wait for: the last whose
    /// progress only grows, of those that had been seen; in a slice, of all that are expected or
    /// were seen by now, if this one was.
    pub(super) fn decisive(&self, start_ns: u64) -> Option<usize> {
        let known = |index: usize, ns| self.logs[index].was_known_at(ns);
        let mut growing = (0..self.logs.len()).rev().filter(|at| self.grows(*at));
        let Some(expected) = &self.expected else {
            return growing.find(|index| known(*index, start_ns));
        };
        let is_there = |index: usize| known(index, u64::MAX) || is_expected(expected, index);
        let last = growing.find(|index| is_there(*index));
        last.filter(|index| known(*index, u64::MAX))
    }

    /// In a slice: what a stage reached before it was first seen is of account for this wait.
    fn is_unknown(&self, stage: usize, open: &Open) -> bool {
        let Some(expected) = &self.expected else {
            return false;
        };
        match self.logs[stage].first(open.key) {
            Known::Reached {
                first: Some(first),
                since_ns: 0,
            } => first.ns > open.start_ns,
            Known::Reached {
                first: None,
                since_ns: 0,
            } => is_expected(expected, stage),
            _ => false,
        }
    }

    pub(super) fn grows(&self, stage: usize) -> bool {
        let seen = &self.layout.stages[stage].seen;
        matches!(seen, Seen::Points(_, Rule::AtLeast))
    }

    /// What every stage has reached for a wait that ends now; put into `room`, which is empty.
    pub(super) fn reached(&self, open: &Open, end_ns: u64, room: Vec<Option<Reached>>) -> Found {
        let mut found = Found {
            stages: room,
            known_from_ns: open.start_ns,
            is_truncated: false,
            is_unknown: false,
        };
        // The latest stage that other threads have carried out so far.
        let mut latest_ns = 0;
        for (index, stage) in self.layout.stages.iter().enumerate() {
            // A wake-up before that was not for what is waited for.
            let credited = |wake: &Option<Reached>| wake.filter(|wake| wake.ns >= latest_ns);
            let reached = match stage.seen {
                Seen::Points(_, Rule::AtLeast) => {
                    found.is_unknown |= self.is_unknown(index, open);
                    found.search(&self.logs[index], open)
                }
                Seen::Points(..) => open.marks[index],
                Seen::Waking => credited(&open.wake),
                Seen::SwitchIn => credited(&open.wake).and(open.came),
                Seen::Nowhere => None,
            };
            let reached = reached.filter(|reached| reached.ns <= end_ns);
            let others = matches!(stage.seen, Seen::Points(..));
            latest_ns = latest_ns.max(reached.filter(|_| others).map_or(0, |r| r.ns));
            found.stages.push(reached);
        }
        found
    }

    /// A thread has carried out a stage.
    pub(super) fn stage(&mut self, index: usize, event: &Event) {
        let What::Point { value, .. } = event.what else {
            return;
        };
        let Seen::Points(_, rule) = self.layout.stages[index].seen else {
            return;
        };
        // With a point where a turn begins, that is since when the thread was at it; else since
        // its last turn ended.
        let before_ns = if self.layout.stages[index].begin.is_empty() {
            self.turns[index].next(event.thread, event.ns)
        } else {
            self.turns[index].last(event.thread)
        };
        if rule == Rule::AtLeast {
            let at = reached(event.ns, Some(event.thread), value, before_ns);
            self.logs[index].reach(at);
            return;
        }
        let reached = reached(event.ns, Some(event.thread), value, before_ns);
        // Who carried out the stage before, for a wait; nothing if it was not carried out yet.
        let before = |open: &Open| match index.checked_sub(1) {
            None => Some(None),
            Some(before) => self.carrier(before, open).map(Some),
        };
        let belongs = |waiter: &Thread, open: &Open| match rule {
            Rule::AtLeast => false,
            Rule::Equal | Rule::SamePointer => open.key == value,
            Rule::SameThread => *waiter == event.thread && before(open).is_some(),
            Rule::Epoch => before(open).is_some(),
            Rule::SameLeader => match before(open) {
                Some(Some(leader)) => leader == Some(event.thread),
                before => before.is_some(),
            },
        };
        let waiters: Vec<Thread> = self
            .open
            .iter()
            .filter(|(waiter, open)| open.marks[index].is_none() && belongs(waiter, open))
            .map(|(waiter, _)| *waiter)
            .collect();
        for waiter in waiters {
            if let Some(open) = self.open.get_mut(&waiter) {
                open.marks[index] = Some(reached);
            }
        }
    }

    /// Who carried out a stage for a wait under way: the outer `None` if nobody did yet.
    fn carrier(&self, index: usize, open: &Open) -> Option<Option<Thread>> {
        let reached = match self.layout.stages[index].seen {
            Seen::Points(_, Rule::AtLeast) => match self.logs[index].first(open.key) {
                Known::Reached { first, .. } => first,
                Known::Forgotten(last) => Some(last),
            },
            Seen::Points(..) => open.marks[index],
            Seen::Waking => open.wake,
            Seen::SwitchIn => open.came,
            Seen::Nowhere => None,
        };
        reached.map(|reached| reached.thread)
    }
}

fn is_expected(expected: &[bool], stage: usize) -> bool {
    expected.get(stage).copied().unwrap_or(false)
}
