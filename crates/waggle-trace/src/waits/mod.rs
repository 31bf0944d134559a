//! Who waits for whom, from the scheduler's events alone: no symbol, no probe in the program.
//!
//! A wait lasts from the moment a thread leaves its processor without being able to run on until it
//! has one again; its first part is blocked, the second, from the wake-up on, runnable. A thread
//! serves requests if it waits for a socket or a pipe now and then: a request is the span between
//! the end of one such wait and the beginning of the next. Neighbours: `timeline` says what each
//! thread did, `path` whose doing a request's time was, `folded`, `graph` and `perfetto` write what
//! others draw.
//!
//! Invariants: a wait that may be part of a loss is counted as flagged and is in no other figure.
//! Blocked and runnable parts add up to the wait. What is kept is bounded.

pub mod export;
pub mod folded;
pub mod graph;
mod key;
pub mod naming;
pub mod path;
pub mod perfetto;
pub mod requests;
mod roles;
pub mod source;

pub use key::{Ender, Key, Kind, Tally};
pub use roles::RoleId;

use rustc_hash::FxHashMap;

use crate::event::{Departure, Event, StackId, Thread, What};
use crate::timeline::{CHANGES_MAX, EARLY_NS, Timeline, Waker};
use requests::Requests;
use roles::Roles;

/// A wait that goes on.
#[derive(Debug, Clone, Copy)]
struct Open {
    since_ns: u64,
    kind: Kind,
    stack: Option<StackId>,
    waker: Option<(u64, Waker)>,
    /// Who woke the thread just before it left, which is whom it owes to if nobody does since.
    early: Option<Waker>,
}

/// Limits, which bound the memory.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Sums; beyond, waits are summed without their stacks.
    pub keys_max: usize,
    /// Changes of state that the timeline keeps.
    pub changes_max: usize,
    /// Requests that are kept in full, the slowest.
    pub slowest: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            keys_max: 65_536,
            changes_max: CHANGES_MAX / 2,
            slowest: 10,
        }
    }
}

/// Threads whose roles are remembered, also after they ended: the slowest requests name them.
const THREADS_MAX: usize = 131_072;

/// All waits of a process, as they end.
#[derive(Debug)]
pub struct Waits {
    timeline: Timeline,
    requests: Requests,
    open: FxHashMap<Thread, Open>,
    /// Woken when they did not wait.
    early: FxHashMap<Thread, (u64, Waker)>,
    /// Records were lost until here, ns.
    lossy_until_ns: u64,
    sums: FxHashMap<Key, Tally>,
    roles: Roles,
    limits: Limits,
    first_ns: u64,
    events: u64,
    lost: u64,
    flagged: u64,
    unannounced: u64,
    without_stack: u64,
}

impl Waits {
    /// Nothing yet. `program` is the role of threads of which nothing better is known.
    pub fn new(program: &str, limits: Limits) -> Self {
        Self {
            timeline: Timeline::new(u64::MAX, limits.changes_max),
            requests: Requests::new(limits.slowest),
            open: FxHashMap::default(),
            early: FxHashMap::default(),
            lossy_until_ns: 0,
            sums: FxHashMap::default(),
            roles: Roles::new(program),
            limits,
            first_ns: 0,
            events: 0,
            lost: 0,
            flagged: 0,
            unannounced: 0,
            without_stack: 0,
        }
    }

    /// Takes the next event in the order of time. `role` says which role a thread has that is now
    /// in these calls, if that can be told.
    pub fn record(
        &mut self,
        event: &Event,
        role: impl FnOnce(Thread, Option<StackId>) -> Option<String>,
    ) {
        if self.events == 0 {
            self.first_ns = event.ns;
        }
        self.events += 1;
        self.timeline.record(event);
        let thread = event.thread;
        match event.what {
            What::Left { why, stack } => {
                self.roles.learn(thread, role(thread, stack));
                self.left(thread, event.ns, why, stack);
            }
            What::Came => self.came(thread, event.ns),
            What::Wakes {
                woken,
                stack,
                interrupt,
            } => {
                let waker = Waker {
                    thread,
                    stack,
                    interrupt,
                };
                if !interrupt {
                    self.roles.learn(thread, role(thread, stack));
                }
                if let Some(open) = self.open.get_mut(&woken) {
                    open.waker.get_or_insert((event.ns, waker));
                } else if self.early.len() < THREADS_MAX {
                    self.early.insert(woken, (event.ns, waker));
                }
            }
            What::Ended => {
                self.open.remove(&thread);
                self.early.remove(&thread);
                self.requests.ended(thread);
            }
            // The timeline took note of a loss; which waits it may touch, `lossy` is told.
            What::Began | What::Point { .. } | What::Lost { .. } => {}
        }
    }

    /// Records were lost, some time since the last telling and until `until_ns`: every wait and
    /// request that goes on, or has begun by then, is flagged.
    pub fn lossy(&mut self, until_ns: u64, count: u64) {
        self.lost += count;
        self.lossy_until_ns = self.lossy_until_ns.max(until_ns);
        self.flagged += self.open.len() as u64;
        self.open.clear();
        self.requests.lossy(until_ns);
    }

    fn left(&mut self, thread: Thread, ns: u64, why: Departure, stack: Option<StackId>) {
        // The kernel did not announce that it came.
        if self.open.remove(&thread).is_some() {
            self.unannounced += 1;
        }
        let Some(kind) = Kind::of(why) else { return };
        if kind == Kind::Network {
            self.requests.end(thread, ns, &self.timeline);
        }
        let open = Open {
            since_ns: ns,
            kind,
            stack,
            waker: None,
            early: self
                .early
                .remove(&thread)
                .filter(|(woken_ns, _)| ns.saturating_sub(*woken_ns) <= EARLY_NS)
                .map(|(_, waker)| waker),
        };
        self.open.insert(thread, open);
    }

    fn came(&mut self, thread: Thread, ns: u64) {
        let Some(open) = self.open.remove(&thread) else {
            return;
        };
        if open.since_ns < self.lossy_until_ns {
            self.flagged += 1;
            return;
        }
        let waker = open
            .waker
            .or(open.early.map(|waker| (open.since_ns, waker)));
        let woken_ns = waker.map_or(ns, |(woken, _)| woken).min(ns);
        if open.kind == Kind::Network {
            self.requests.begin(thread, woken_ns);
        }
        let (ender, ender_stack) = match waker {
            None => (Ender::Unknown, None),
            Some((_, waker)) if waker.interrupt => (Ender::Interrupt, None),
            Some((_, waker)) => (Ender::Role(self.roles.id(waker.thread)), waker.stack),
        };
        let mut key = Key {
            role: self.roles.id(thread),
            kind: open.kind,
            stack: open.stack,
            ender,
            ender_stack,
            in_request: open.kind != Kind::Network && self.requests.is_in(thread),
        };
        if self.sums.len() >= self.limits.keys_max && !self.sums.contains_key(&key) {
            key.stack = None;
            key.ender_stack = None;
            self.without_stack += 1;
        }
        let tally = self.sums.entry(key).or_default();
        tally.add(woken_ns.saturating_sub(open.since_ns), ns - woken_ns);
    }

    /// The role's name.
    pub fn role_name(&self, role: RoleId) -> &str {
        self.roles.name(role)
    }

    /// The role of a thread that was seen.
    pub fn role_of(&self, thread: Thread) -> &str {
        self.roles.of(thread)
    }

    /// All sums.
    pub fn sums(&self) -> impl Iterator<Item = (&Key, &Tally)> {
        self.sums.iter()
    }

    /// The requests that ended.
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// What each thread did, as far back as is kept.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// Time of the first event, ns.
    pub fn first_ns(&self) -> u64 {
        self.first_ns
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Records lost so far.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Waits that may be part of a loss; in no other figure.
    pub fn flagged(&self) -> u64 {
        self.flagged
    }

    /// Waits whose end the kernel did not announce; in no other figure.
    pub fn unannounced(&self) -> u64 {
        self.unannounced
    }

    /// Waits that were summed without their stacks, as there were too many different ones.
    pub fn without_stack(&self) -> u64 {
        self.without_stack
    }

    /// Threads that wait now, and since when: their waits are in no other figure.
    pub fn still_waiting(&self) -> impl Iterator<Item = (Thread, Kind, u64)> + '_ {
        let open = self.open.iter();
        open.map(|(thread, open)| (*thread, open.kind, open.since_ns))
    }
}

#[cfg(test)]
mod tests;
