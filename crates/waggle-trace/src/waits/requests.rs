//! The requests of a process: how long, of what made, and the slowest in full.
//!
//! Invariant: a request's parts add up to it. One that overlaps a loss is dropped and counted.

use hdrhistogram::Histogram;
use rustc_hash::FxHashMap;

use super::path::{self, Segment};
use crate::event::{Departure, Thread};
use crate::timeline::{Split, State, Timeline};

/// Longer requests count as this long: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// A request that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Whose.
    pub thread: Thread,
    /// When what it answers arrived, ns.
    pub from_ns: u64,
    /// When the thread waited for the next, ns.
    pub to_ns: u64,
    /// Whose doing its time was, in order, without a gap.
    pub path: Vec<Segment>,
}

impl Request {
    /// How long it took.
    pub fn ns(&self) -> u64 {
        self.to_ns - self.from_ns
    }
}

/// All requests, as they end.
#[derive(Debug)]
pub struct Requests {
    open: FxHashMap<Thread, u64>,
    histogram: Histogram<u64>,
    split: Split,
    slowest: Vec<Request>,
    slowest_max: usize,
    flagged: u64,
    lossy_until_ns: u64,
}

impl Requests {
    pub(super) fn new(slowest_max: usize) -> Self {
        Self {
            open: FxHashMap::default(),
            histogram: Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("usable bounds"),
            split: Split::default(),
            slowest: Vec::new(),
            slowest_max,
            flagged: 0,
            lossy_until_ns: 0,
        }
    }

    pub(super) fn begin(&mut self, thread: Thread, ns: u64) {
        self.open.insert(thread, ns);
    }

    pub(super) fn is_in(&self, thread: Thread) -> bool {
        self.open.contains_key(&thread)
    }

    pub(super) fn lossy(&mut self, until_ns: u64) {
        self.lossy_until_ns = self.lossy_until_ns.max(until_ns);
        self.flagged += self.open.len() as u64;
        self.open.clear();
    }

    pub(super) fn ended(&mut self, thread: Thread) {
        self.open.remove(&thread);
    }

    pub(super) fn end(&mut self, thread: Thread, ns: u64, timeline: &Timeline) {
        let Some(from_ns) = self.open.remove(&thread) else {
            return;
        };
        if ns <= from_ns {
            return;
        }
        if from_ns < timeline.kept_from_ns() || from_ns < self.lossy_until_ns {
            self.flagged += 1;
            return;
        }
        self.histogram.saturating_record(ns - from_ns);
        let split = timeline.split(thread, from_ns, ns);
        self.split.on_cpu_ns += split.on_cpu_ns;
        self.split.runnable_ns += split.runnable_ns;
        self.split.unseen_ns += split.unseen_ns;
        for (why, ns) in split.blocked {
            // Addresses are as many as there are locks.
            let why = match why {
                Departure::Futex(_) => Departure::Futex(0),
                other => other,
            };
            self.split.add(State::Blocked(why), ns);
        }
        let at = self.slowest.partition_point(|r| r.ns() >= ns - from_ns);
        if at < self.slowest_max {
            let path = path::of(timeline, thread, from_ns, ns);
            let request = Request {
                thread,
                from_ns,
                to_ns: ns,
                path,
            };
            self.slowest.insert(at, request);
            self.slowest.truncate(self.slowest_max);
        }
    }

    /// Their durations, ns.
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }

    /// What the time of all of them together was made of, futexes as one.
    pub fn split(&self) -> &Split {
        &self.split
    }

    /// The slowest, slowest first.
    pub fn slowest(&self) -> &[Request] {
        &self.slowest
    }

    /// Requests that may be part of a loss, or longer than what is kept; in no other figure.
    pub fn flagged(&self) -> u64 {
        self.flagged
    }
}
