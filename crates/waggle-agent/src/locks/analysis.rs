//! From events to waits and deadlocks.
//!
//! A wait is known by its waiter's `THD`: a session waits for one lock at a time. Neighbours:
//! [`watch`](super::watch) feeds events, findings and the ends of statements.
//!
//! Invariants: a wait that was told as going on is told as ended exactly once; a blocker that was
//! reported for a lock which was then granted at once makes no wait.

use std::collections::{HashMap, VecDeque};

use waggle_probes::lock::{LockEvent, LockReport, Thread};

use super::deadlocks::{Deadlocks, Pending};
use super::modes::Numbering;
use super::search::{Search, metadata_object};
use crate::lock::{Deadlock, LockKind, LockObject, LockWait, Party};
use crate::sessions::{Moment, Sessions};

/// Most waits that are open at a time.
const OPEN_MAX: usize = 10_000;
/// Most blockers kept of one wait, and most members of a deadlock.
pub(super) const BLOCKERS_MAX: usize = 16;
/// Most ended waits that wait to be taken.
const PENDING_MAX: usize = 10_000;
/// Most searches that go on at a time.
const SEARCHES_MAX: usize = 256;
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

/// Somebody who blocks.
#[derive(Debug, Clone, Default)]
struct Blocker {
    thread: Thread,
    /// The server named it last; an earlier one is kept for the record.
    is_current: bool,
    detail: Option<WaitDetail>,
}

/// A wait that goes on, or is about to.
#[derive(Debug, Clone)]
struct Open {
    id: u64,
    kind: LockKind,
    waiter: Thread,
    since_ns: u64,
    /// The wait itself was seen, not only that it might come.
    has_begun: bool,
    /// A part of it ended; the next may follow.
    paused_ns: Option<u64>,
    context: u64,
    blockers: Vec<Blocker>,
    detail: Option<WaitDetail>,
    /// What the server's memory said of the object.
    seen: Option<LockObject>,
    /// The waiter as last seen while it waited.
    party: Option<Party>,
}

/// A wait that ended and waits for its statement to be known.
#[derive(Debug)]
struct Ended {
    open: Open,
    end_ns: u64,
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

fn kind_index(kind: LockKind) -> usize {
    match kind {
        LockKind::Row => 0,
        LockKind::Metadata => 1,
        LockKind::Table => 2,
    }
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

    fn observe_metadata(&mut self, event: &LockEvent<'_>, sessions: &mut Sessions) {
        let time_ns = event.time_ns;
        match event.report {
            LockReport::RowEdge { .. }
            | LockReport::RowBegin { .. }
            | LockReport::RowEnd { .. }
            | LockReport::RowDeadlock { .. }
            | LockReport::RowPair { .. } => {}
            LockReport::MetadataFrom {
                waiter,
                context,
                depth,
                mode,
                key,
            } => {
                let modes = self.modes;
                if let Some(search) = self.search(event.tid, time_ns) {
                    if depth == 0 {
                        *search = Search::default();
                        search.time_ns = time_ns;
                    }
                    search.from(waiter, context, depth);
                    let object = metadata_object(key, mode, modes);
                    search.objects.insert(context, object);
                }
            }
            LockReport::MetadataBy {
                blocker,
                context,
                depth,
            } => {
                if let Some(search) = self.search(event.tid, time_ns) {
                    search.by(blocker, context, depth);
                }
            }
            LockReport::MetadataVictim { victim, context } => {
                self.metadata_victim(event.tid, victim, context, time_ns, sessions);
            }
            LockReport::MetadataBegin {
                waiter, context, ..
            } => {
                note(sessions, &[waiter]);
                self.begin_metadata(event.tid, waiter, context, time_ns, sessions);
            }
            LockReport::MetadataEnd {
                waiter, is_decided, ..
            } => self.end_metadata(waiter, is_decided, time_ns),
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

    fn search(&mut self, tid: u32, time_ns: u64) -> Option<&mut Search> {
        if self.searches.len() >= SEARCHES_MAX && !self.searches.contains_key(&tid) {
            // A search is followed by a wait or a verdict at once; what is this old is over.
            let newest = self.searches.values().map(|s| s.time_ns).max();
            self.searches.retain(|_, s| Some(s.time_ns) == newest);
        }
        let search = self.searches.entry(tid).or_default();
        search.time_ns = time_ns;
        Some(search)
    }

    fn begin_metadata(
        &mut self,
        tid: u32,
        waiter: Thread,
        context: u64,
        time_ns: u64,
        sessions: &mut Sessions,
    ) {
        let search = self.searches.remove(&tid).unwrap_or_default();
        let distance = context.wrapping_sub(waiter.thd);
        let thread = |context: u64| {
            let seen = search.threads.get(&context).copied().unwrap_or_default();
            Thread {
                thd: context.wrapping_sub(distance),
                ..seen
            }
        };
        let goes_on = self
            .open
            .get_mut(&waiter.thd)
            .filter(|o| o.kind == LockKind::Metadata && o.has_begun && o.paused_ns.is_some());
        if let Some(open) = goes_on {
            open.paused_ns = None;
        } else {
            if self.open.get(&waiter.thd).is_some_and(|o| o.has_begun) {
                self.end(waiter.thd, time_ns);
            }
            self.open.remove(&waiter.thd);
            if let Some(open) = self.open_of(waiter, LockKind::Metadata, time_ns) {
                open.has_begun = true;
                open.context = context;
            }
        }
        // The search passed through the other waiters in its way, too.
        for open in self.open.values_mut().filter(|o| o.context != 0) {
            let source = open.context;
            if open.seen.is_none() {
                open.seen = search.objects.get(&source).cloned();
            }
            let mut found = search.edges.iter().filter(|(from, _)| *from == source);
            if let Some((_, first)) = found.next() {
                open.blocked_by(thread(*first), true);
                for (_, context) in found {
                    open.blocked_by(thread(*context), false);
                }
            }
        }
        let seen = search.threads.keys().map(|context| thread(*context));
        note(sessions, &seen.collect::<Vec<_>>());
    }

    fn end_metadata(&mut self, waiter: Thread, is_decided: bool, time_ns: u64) {
        if is_decided {
            return self.end(waiter.thd, time_ns);
        }
        if let Some(open) = self.open.get_mut(&waiter.thd) {
            open.paused_ns = Some(time_ns);
        }
    }

    /// A wait is over. One that had not begun never was.
    fn end(&mut self, thd: u64, end_ns: u64) {
        let Some(open) = self.open.remove(&thd).filter(|open| open.has_begun) else {
            return;
        };
        let sum = &mut self.ended_sums[kind_index(open.kind)];
        sum.0 += 1;
        sum.1 += end_ns.saturating_sub(open.since_ns) / 1000;
        if self.ended.len() >= PENDING_MAX {
            self.dropped += 1;
            return;
        }
        self.ended.push_back(Ended { open, end_ns });
    }

    fn metadata_victim(
        &mut self,
        tid: u32,
        victim: Thread,
        context: u64,
        time_ns: u64,
        sessions: &mut Sessions,
    ) {
        let Some(search) = self.searches.remove(&tid) else {
            return;
        };
        // Only the victim's statement tells whether it failed or was carried out anew.
        let members: Vec<Thread> = search
            .path
            .iter()
            .map(|c| search.threads.get(c).copied().unwrap_or_default())
            .collect();
        note(sessions, &members);
        let is_member = search.path.contains(&context);
        if !is_member {
            return;
        }
        self.deadlocks.push(Pending {
            time_ns,
            tid,
            members,
            victim: Some(victim),
            kind: LockKind::Metadata,
        });
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

    /// The waits that go on, longest first; one entry for each blocker.
    pub fn waits(&self, sessions: &Sessions, moment: &Moment) -> Vec<LockWait> {
        let open = self.open.values().filter(|open| open.has_begun);
        let mut waits: Vec<LockWait> = open
            .flat_map(|open| self.waits_of(open, None, sessions, moment))
            .collect();
        waits.sort_by_key(|wait| (wait.since_us, wait.id));
        waits
    }

    fn waits_of(
        &self,
        open: &Open,
        end_ns: Option<u64>,
        sessions: &Sessions,
        moment: &Moment,
    ) -> Vec<LockWait> {
        let until = end_ns.unwrap_or(moment.time_ns);
        let mut waiter = match (&open.party, end_ns) {
            (Some(party), Some(_)) => party.clone(),
            _ => sessions.party(open.waiter.connection_id, moment),
        };
        let shown = open
            .blockers
            .iter()
            .filter(|b| b.is_current || end_ns.is_some());
        let nobody = Blocker::default();
        let mut shown: Vec<&Blocker> = shown.collect();
        if shown.is_empty() {
            shown.push(&nobody);
        }
        let mut waits = Vec::with_capacity(shown.len());
        for blocker in shown {
            let mut party = sessions.party(blocker.thread.connection_id, moment);
            let detail = blocker.detail.as_ref().or(open.detail.as_ref());
            if let Some(detail) = detail {
                let elapsed = moment.unix_us.saturating_sub(detail.moment.unix_us);
                let age = |age: Option<u64>| age.map(|us| us + elapsed);
                waiter.transaction_us = age(detail.transaction_us[0]).or(waiter.transaction_us);
                party.transaction_us = age(detail.transaction_us[1]).or(party.transaction_us);
            }
            let object = detail.map(|d| d.object.clone());
            let object = object.or_else(|| open.seen.clone());
            waits.push(LockWait {
                id: open.id,
                kind: open.kind,
                waiter: waiter.clone(),
                blocker: party,
                object: object.unwrap_or_else(|| LockObject {
                    unknown_because: Some(self.unknown_object.clone()),
                    ..LockObject::default()
                }),
                since_us: moment.unix_us_of(open.since_ns),
                waited_us: until.saturating_sub(open.since_ns) / 1000,
                ended: end_ns.is_some(),
            });
        }
        waits
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

impl Open {
    fn blocked_by(&mut self, thread: Thread, replaces: bool) {
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
