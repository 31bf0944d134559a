//! From events to waits and deadlocks.
//!
//! A wait is known by its waiter's `THD`: a session waits for one lock at a time. Neighbours:
//! [`watch`](super::watch) feeds events, findings and the ends of statements.
//!
//! Invariants: a wait that was told as going on is told as ended exactly once; a blocker that was
//! reported for a lock which was then granted at once makes no wait.

mod metadata_waits;
mod open;
mod told;

use std::collections::{HashMap, VecDeque};

use waggle_probes::lock::{LockEvent, LockReport, Thread};

use super::deadlocks::{Deadlocks, Pending};
use super::modes::Numbering;
use super::search::Search;
use crate::lock::{Deadlock, LockKind, LockObject, LockWait};
use crate::sessions::{Moment, Sessions};
use open::{Blocker, Ended, Open};

/// Most waits that are open at a time.
const OPEN_MAX: usize = 10_000;
/// Most blockers kept of one wait, and most members of a deadlock.
pub(super) const BLOCKERS_MAX: usize = 16;
/// Most ended waits that wait to be taken.
const PENDING_MAX: usize = 10_000;
/// How long the end of a wait is held back for its statement to be known, ns.
const HOLD_BACK_NS: u64 = 1_000_000_000;
/// How long a blocker is remembered that was reported before the wait itself, ns.
const EXPECTED_NS: u64 = 10_000_000_000;

/// Table, modes and age of one edge, from the server's own tables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WaitDetail {
    /// On what.
    pub object: LockObject,
    /// Age of the waiter's and of the blocker's transaction, us.
    pub transaction_us: [Option<u64>; 2],
    /// The moment these ages are of.
    pub moment: Moment,
}

/// Waits and deadlocks of one server.
pub struct Analysis {
    edge_replaces: bool,
    modes: Numbering,
    next_id: u64,
    open: HashMap<u64, Open>,
    ended: VecDeque<Ended>,
    searches: HashMap<u32, Search>,
    ready: Vec<LockWait>,
    /// Deadlocks, told and untold.
    pub(super) deadlocks: Deadlocks,
    ended_sums: [(u64, u64); 3],
    dropped: u64,
    unknown_object: String,
}

impl Analysis {
    /// None yet. `edge_replaces` (MySQL): a newly reported blocker of a row lock takes the place
    /// of the one before. `unknown_object` is the reason given where table and mode are not known.
    pub fn new(edge_replaces: bool, unknown_object: &str) -> Self {
        Self {
            edge_replaces,
            modes: if edge_replaces {
                Numbering::MySql
            } else {
                Numbering::MariaDb
            },
            next_id: 1,
            open: HashMap::new(),
            ended: VecDeque::new(),
            searches: HashMap::new(),
            ready: Vec::new(),
            deadlocks: Deadlocks::default(),
            ended_sums: [(0, 0); 3],
            dropped: 0,
            unknown_object: unknown_object.to_owned(),
        }
    }

    /// Takes in one event of the probe.
    pub fn observe(&mut self, event: &LockEvent<'_>, sessions: &mut Sessions) {
        let time_ns = event.time_ns;
        match event.report {
            LockReport::RowEdge { waiter, blocker } => {
                note(sessions, &[waiter, blocker]);
                let replaces = self.edge_replaces;
                if let Some(open) = self.open_of(waiter, LockKind::Row, time_ns) {
                    open.blocked_by(blocker, replaces);
                }
            }
            LockReport::RowBegin { waiter, is_table } => {
                note(sessions, &[waiter]);
                let kind = if is_table {
                    LockKind::Table
                } else {
                    LockKind::Row
                };
                self.begin_row(waiter, kind, time_ns);
            }
            LockReport::RowEnd { waiter } => self.end(waiter.thd, time_ns),
            LockReport::RowDeadlock { victim, members } => {
                let members: Vec<Thread> = threads(members).collect();
                note(sessions, &members);
                self.deadlocks.push(Pending {
                    time_ns,
                    tid: event.tid,
                    members,
                    victim: Some(victim),
                    kind: LockKind::Row,
                });
            }
            LockReport::RowPair { one, two } => {
                note(sessions, &[one, two]);
                self.deadlocks.pair(event.tid, one, two, time_ns);
            }
            _ => self.observe_metadata(event, sessions),
        }
    }

    fn open_of(&mut self, waiter: Thread, kind: LockKind, time_ns: u64) -> Option<&mut Open> {
        if waiter.thd == 0 {
            return None;
        }
        if self.open.len() >= OPEN_MAX && !self.open.contains_key(&waiter.thd) {
            self.dropped += 1;
            return None;
        }
        let next_id = &mut self.next_id;
        let open = self.open.entry(waiter.thd).or_insert_with(|| {
            let id = *next_id;
            *next_id += 1;
            Open {
                id,
                kind,
                waiter,
                since_ns: time_ns,
                has_begun: false,
                paused_ns: None,
                context: 0,
                blockers: Vec::new(),
                detail: None,
                seen: None,
                party: None,
            }
        });
        Some(open)
    }

    fn begin_row(&mut self, waiter: Thread, kind: LockKind, time_ns: u64) {
        // An end that was lost: what it waits for now is another lock.
        if self.open.get(&waiter.thd).is_some_and(|o| o.has_begun) {
            self.end(waiter.thd, time_ns);
        }
        if let Some(open) = self.open_of(waiter, kind, time_ns) {
            open.kind = kind;
            open.has_begun = true;
            open.since_ns = time_ns;
        }
    }

    /// A wait is over. One that had not begun never was.
    fn end(&mut self, thd: u64, end_ns: u64) {
        let Some(open) = self.open.remove(&thd).filter(|open| open.has_begun) else {
            return;
        };
        let sum = &mut self.ended_sums[open.kind.index()];
        sum.0 += 1;
        sum.1 += end_ns.saturating_sub(open.since_ns) / 1000;
        if self.ended.len() >= PENDING_MAX {
            self.dropped += 1;
            return;
        }
        self.ended.push_back(Ended { open, end_ns });
    }

    /// Closes what the ends of statements prove to be over, and completes what ended.
    pub fn settle(&mut self, sessions: &Sessions, moment: &Moment) {
        self.open
            .retain(|_, o| o.has_begun || moment.time_ns < o.since_ns + EXPECTED_NS);
        let over: Vec<(u64, u64)> = self
            .open
            .values()
            .filter_map(|open| {
                let session = sessions.get(open.waiter.connection_id)?;
                let last = open.paused_ns.unwrap_or(open.since_ns);
                (session.end_ns > last)
                    .then(|| (open.waiter.thd, open.paused_ns.unwrap_or(session.end_ns)))
            })
            .collect();
        for (thd, end_ns) in over {
            self.end(thd, end_ns);
        }
        for open in self.open.values_mut().filter(|open| open.has_begun) {
            let id = open.waiter.connection_id;
            let running = sessions.get(id).and_then(|s| s.running.as_ref());
            if running.is_some_and(|running| running.start_ns <= open.since_ns) {
                open.party = Some(sessions.party(id, moment));
            }
        }
        while let Some(first) = self.ended.front() {
            let id = first.open.waiter.connection_id;
            let statement_known = first.open.party.is_some()
                || sessions.get(id).is_some_and(|s| s.end_ns >= first.end_ns);
            if !statement_known && moment.time_ns < first.end_ns + HOLD_BACK_NS {
                break;
            }
            if let Some(ended) = self.ended.pop_front() {
                self.complete(&ended, sessions, moment);
            }
        }
        self.deadlocks.judge(sessions, moment);
    }

    fn complete(&mut self, ended: &Ended, sessions: &Sessions, moment: &Moment) {
        let waits = self.waits_of(&ended.open, Some(ended.end_ns), sessions, moment);
        self.ready.extend(waits);
    }

    /// Adds what the server's tables say about the wait of one connection for another; 0 as the
    /// blocker stands for what is true of the wait whoever blocks it. Returns false if that
    /// connection does not wait.
    pub fn learn(&mut self, waiter: u64, blocker: u64, detail: WaitDetail, names: bool) -> bool {
        let mut open = self.open.values_mut();
        let Some(open) = open.find(|o| o.has_begun && o.waiter.connection_id == waiter) else {
            return false;
        };
        if blocker == 0 {
            open.detail = Some(detail);
            return true;
        }
        let known = open
            .blockers
            .iter()
            .position(|b| b.thread.connection_id == blocker);
        match known {
            Some(place) => {
                let known = &mut open.blockers[place];
                known.is_current |= names;
                known.detail = Some(detail);
            }
            None if names && open.blockers.len() < BLOCKERS_MAX => open.blockers.push(Blocker {
                thread: Thread {
                    thd: 0,
                    connection_id: blocker,
                },
                is_current: true,
                detail: Some(detail),
            }),
            None => {}
        }
        true
    }

    /// Connections that wait, with the kind of lock, and whether table and mode are known.
    pub fn waiting(&self) -> impl Iterator<Item = (u64, LockKind, bool)> {
        let begun = self.open.values().filter(|open| open.has_begun);
        begun.map(|open| {
            let is_known =
                open.detail.is_some() || open.blockers.iter().any(|b| b.detail.is_some());
            (open.waiter.connection_id, open.kind, is_known)
        })
    }

    /// Every connection that waits or blocks, with its `THD`.
    pub fn parties(&self) -> impl Iterator<Item = Thread> {
        self.open.values().flat_map(|open| {
            let blockers = open.blockers.iter().map(|b| b.thread);
            std::iter::once(open.waiter).chain(blockers)
        })
    }

    /// True if the server, or its tables, named `blocker` as one of the waiter's.
    pub fn is_blocked_by(&self, waiter: u64, blocker: u64) -> bool {
        let mut open = self.open.values();
        open.find(|o| o.has_begun && o.waiter.connection_id == waiter)
            .is_some_and(|o| {
                let mut blockers = o.blockers.iter();
                blockers.any(|b| b.thread.connection_id == blocker)
            })
    }

    /// Finds the connection ids of those who were named by their `THD` only.
    pub fn identify(&mut self, connection_id: impl Fn(u64) -> Option<u64>) {
        for open in self.open.values_mut() {
            let blockers = open.blockers.iter_mut().map(|b| &mut b.thread);
            for thread in std::iter::once(&mut open.waiter).chain(blockers) {
                if thread.connection_id == 0 && thread.thd != 0 {
                    thread.connection_id = connection_id(thread.thd).unwrap_or(0);
                }
            }
        }
    }

    /// True if nobody waits and nothing waits to be told.
    pub fn is_idle(&self) -> bool {
        self.open.is_empty() && self.ended.is_empty() && self.deadlocks.is_settled()
    }

    /// The server is gone: what was waited for is waited for no more.
    pub fn server_ended(&mut self, sessions: &Sessions, moment: &Moment) {
        let open: Vec<u64> = self.open.keys().copied().collect();
        for thd in open {
            self.end(thd, moment.time_ns);
        }
        while let Some(ended) = self.ended.pop_front() {
            self.complete(&ended, sessions, moment);
        }
        self.searches.clear();
        self.deadlocks.forget();
    }

    /// Waits that ended since the last call; each is in one answer only.
    pub fn take_ended(&mut self) -> Vec<LockWait> {
        std::mem::take(&mut self.ready)
    }

    /// Deadlocks that became known since the last call.
    pub fn take_deadlocks(&mut self) -> Vec<Deadlock> {
        self.deadlocks.take()
    }

    /// Waits that ended: count and total us, of row, metadata and table locks.
    pub fn ended_sums(&self) -> [(u64, u64); 3] {
        self.ended_sums
    }

    /// Deadlocks in all.
    pub fn deadlock_count(&self) -> u64 {
        self.deadlocks.count()
    }

    /// Waits, blockers and deadlocks beyond a bound, or that could not be told whole.
    pub fn dropped(&self) -> u64 {
        self.dropped + self.deadlocks.dropped()
    }
}

fn threads<'a>((thds, ids): (&'a [u64], &'a [u64])) -> impl Iterator<Item = Thread> + 'a {
    thds.iter().zip(ids).map(|(thd, id)| Thread {
        thd: *thd,
        connection_id: *id,
    })
}

fn note(sessions: &mut Sessions, threads: &[Thread]) {
    for thread in threads {
        sessions.note_thd(thread.connection_id, thread.thd);
    }
}
