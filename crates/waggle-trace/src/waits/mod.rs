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
pub mod naming;
pub mod path;
pub mod perfetto;
pub mod requests;
pub mod source;

use std::collections::HashMap;

use rustc_hash::FxHashMap;

use crate::event::{Departure, Event, StackId, Thread, What};
use crate::timeline::{CHANGES_MAX, EARLY_NS, Timeline, Waker};
use requests::Requests;

/// What a thread waits for, without addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A lock, a condition, a semaphore.
    Futex,
    /// A disk.
    Disk,
    /// A socket or a pipe.
    Network,
    /// A set time.
    Sleep,
    /// Something else.
    Other,
}

impl Kind {
    /// Of a departure; `None` for one that is no wait.
    pub fn of(why: Departure) -> Option<Self> {
        Some(match why {
            Departure::Runnable => return None,
            Departure::Futex(_) => Self::Futex,
            Departure::Disk => Self::Disk,
            Departure::Network => Self::Network,
            Departure::Sleep => Self::Sleep,
            Departure::Other => Self::Other,
        })
    }

    /// As the tables have it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Futex => "futex",
            Self::Disk => "disk",
            Self::Network => "network",
            Self::Sleep => "sleep",
            Self::Other => "other",
        }
    }
}

/// A role, by its number among [`Waits::role_name`]'s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoleId(pub u16);

/// Who ended waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ender {
    /// A thread of this role.
    Role(RoleId),
    /// An interrupt: a disk or a network card was done, a time had come.
    Interrupt,
    /// It was not seen.
    Unknown,
}

/// What waits have in common that are summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// Who waited.
    pub role: RoleId,
    /// What for.
    pub kind: Kind,
    /// Where.
    pub stack: Option<StackId>,
    /// Who ended it.
    pub ender: Ender,
    /// Where that one was.
    pub ender_stack: Option<StackId>,
    /// The wait was part of a request.
    pub in_request: bool,
}

/// Sums over waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many.
    pub count: u64,
    /// Until woken, ns.
    pub blocked_ns: u64,
    /// From then on until running, ns.
    pub runnable_ns: u64,
    /// The longest, both parts, ns.
    pub longest_ns: u64,
}

impl Tally {
    /// Adds one wait.
    fn add(&mut self, blocked_ns: u64, runnable_ns: u64) {
        self.count += 1;
        self.blocked_ns += blocked_ns;
        self.runnable_ns += runnable_ns;
        self.longest_ns = self.longest_ns.max(blocked_ns + runnable_ns);
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.blocked_ns += other.blocked_ns;
        self.runnable_ns += other.runnable_ns;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}

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

/// Roles that are told apart; beyond, they are one.
const ROLES_MAX: usize = 1024;
/// Threads whose roles are remembered, also after they ended: the slowest requests name them.
const THREADS_MAX: usize = 131_072;
const OTHERS: &str = "(others)";

/// All waits of a process, as they end.
#[derive(Debug)]
pub struct Waits {
    program: String,
    timeline: Timeline,
    requests: Requests,
    open: FxHashMap<Thread, Open>,
    /// Woken when they did not wait.
    early: FxHashMap<Thread, (u64, Waker)>,
    /// Records were lost until here, ns.
    lossy_until_ns: u64,
    sums: FxHashMap<Key, Tally>,
    roles: Vec<String>,
    by_name: HashMap<String, RoleId>,
    of_thread: FxHashMap<Thread, RoleId>,
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
            program: program.to_owned(),
            timeline: Timeline::new(u64::MAX, limits.changes_max),
            requests: Requests::new(limits.slowest),
            open: FxHashMap::default(),
            early: FxHashMap::default(),
            lossy_until_ns: 0,
            sums: FxHashMap::default(),
            roles: Vec::new(),
            by_name: HashMap::new(),
            of_thread: FxHashMap::default(),
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
                self.learn_role(thread, role(thread, stack));
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
                    self.learn_role(thread, role(thread, stack));
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
            Some((_, waker)) => (Ender::Role(self.role(waker.thread)), waker.stack),
        };
        let mut key = Key {
            role: self.role(thread),
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

    fn learn_role(&mut self, thread: Thread, role: Option<String>) {
        let Some(role) = role else { return };
        let known = self.of_thread.get(&thread);
        if known.is_some_and(|id| self.roles[usize::from(id.0)] == role) {
            return;
        }
        let id = self.intern(&role);
        if self.of_thread.len() >= THREADS_MAX {
            // Those that still live are learnt again.
            self.of_thread.clear();
        }
        self.of_thread.insert(thread, id);
    }

    fn intern(&mut self, role: &str) -> RoleId {
        if let Some(id) = self.by_name.get(role) {
            return *id;
        }
        let role = if self.roles.len() < ROLES_MAX {
            role
        } else {
            OTHERS
        };
        if let Some(id) = self.by_name.get(role) {
            return *id;
        }
        let id = RoleId(u16::try_from(self.roles.len()).unwrap_or(u16::MAX));
        self.roles.push(role.to_owned());
        self.by_name.insert(role.to_owned(), id);
        id
    }

    fn role(&mut self, thread: Thread) -> RoleId {
        match self.of_thread.get(&thread) {
            Some(id) => *id,
            None => {
                let program = self.program.clone();
                self.intern(&program)
            }
        }
    }

    /// The role's name.
    pub fn role_name(&self, role: RoleId) -> &str {
        let name = self.roles.get(usize::from(role.0));
        name.map_or(&self.program, String::as_str)
    }

    /// The role of a thread that was seen.
    pub fn role_of(&self, thread: Thread) -> &str {
        let role = self.of_thread.get(&thread);
        role.map_or(&self.program, |id| self.role_name(*id))
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
