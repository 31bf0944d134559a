//! All that tells who waits for whom on one server, for the agent's loop.
//!
//! The loop calls [`LockWatch::statement_ended`] for every statement, [`LockWatch::poll`] each
//! time round, and takes what ended. Neighbours: `agent` above; the probe, the sessions and the
//! analysis below.
//!
//! Invariant: nothing here blocks, and without a wait nothing costs more than a look at an empty
//! ring buffer.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use waggle_probes::lock::{LockCounters, LockProbe};
use waggle_symbols::{LockHook, LockLayout, StatementLayout};

use super::analysis::{Analysis, WaitDetail};
use super::inspect::{Finding, Inspector, Question, StatusDeadlock};
use super::metadata;
use crate::lock::{Deadlock, LockObject, LockWait, Party};
use crate::sessions::memory::ServerMemory;
use crate::sessions::{Moment, Sessions, StatementEnd};
use crate::sql::Access;

/// Most events taken in one poll.
const EVENTS_MAX: usize = 50_000;
/// More hits than this in a second are a server with many sessions behind one metadata lock, whose
/// search for blockers would be slowed.
const HITS_PER_S_MAX: u64 = 20_000;
/// The server's error for a deadlock's victim.
const ER_LOCK_DEADLOCK: u32 = 1213;
/// How often those who wait or block are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Lock waits of one server.
pub struct LockWatch {
    probe: Option<LockProbe>,
    analysis: Analysis,
    sessions: Sessions,
    memory: Option<ServerMemory>,
    inspector: Option<Inspector>,
    problem: Option<String>,
    looked: Option<Instant>,
    /// When the second began in which hits are counted, and how many there were before.
    second: (Instant, u64),
    edges_shed: bool,
    /// A statement fell victim to a deadlock that no probe tells of.
    wants_deadlock: bool,
    /// The probe tells of deadlocks.
    sees_deadlocks: bool,
    /// The deadlock that the server's status told last.
    told: String,
}

impl LockWatch {
    /// Attaches to process `pid`, whose executable is `binary`. With access, the server's own
    /// tables are asked about waits.
    ///
    /// What cannot be had is left out and told by [`missing`](Self::missing).
    ///
    /// # Errors
    /// The kernel refuses the probe, or the binary cannot be read.
    pub fn attach(
        pid: u32,
        binary: &Path,
        statement: &StatementLayout,
        access: Option<Access>,
    ) -> anyhow::Result<Self> {
        let layout = LockLayout::open(binary).context("looking for the places of lock waits")?;
        let mut probe = LockProbe::load(statement, &layout)?;
        probe.attach(pid.cast_signed(), binary)?;
        let mut watch = Self::without_probe(access, layout.edge_replaces)?;
        let deadlock = [LockHook::RowDeadlock, LockHook::RowDeadlockPair];
        watch.sees_deadlocks = deadlock.iter().any(|hook| layout.site(*hook).is_some());
        watch.probe = Some(probe);
        watch.memory = ServerMemory::open(pid, statement.clone())
            .inspect_err(|e| watch.problem = Some(format!("reading the server's memory: {e}")))
            .ok();
        Ok(watch)
    }

    fn without_probe(access: Option<Access>, edge_replaces: bool) -> anyhow::Result<Self> {
        let unknown = match access {
            Some(_) => "not known: the server's tables had nothing about it",
            None => "not known: give --dsn",
        };
        let inspector = access.map(Inspector::start).transpose();
        Ok(Self {
            probe: None,
            analysis: Analysis::new(edge_replaces, unknown),
            sessions: Sessions::new(),
            memory: None,
            inspector: inspector.context("starting the thread that asks the server")?,
            problem: None,
            looked: None,
            second: (Instant::now(), 0),
            edges_shed: false,
            wants_deadlock: false,
            sees_deadlocks: false,
            told: String::new(),
        })
    }

    /// Takes in the end of a statement. Call it for every one.
    pub fn statement_ended(&mut self, end: &StatementEnd<'_>) {
        self.sessions.statement_ended(end);
        self.wants_deadlock |= end.error == ER_LOCK_DEADLOCK && !self.sees_deadlocks;
    }

    /// Where no probe tells of deadlocks, the engine's status does.
    fn ask_for_deadlock(&mut self) {
        if let Some(inspector) = self.inspector.as_mut().filter(|_| self.wants_deadlock)
            && inspector.ask(Question::Deadlock)
        {
            self.wants_deadlock = false;
        }
    }

    fn learn_deadlock(&mut self, status: &StatusDeadlock, moment: &Moment) {
        if status.mark == self.told {
            return;
        }
        self.told.clone_from(&status.mark);
        let cycle: Vec<Party> = status
            .members
            .iter()
            .map(|member| Party {
                digest: Some(member.digest.clone()).filter(|digest| !digest.is_empty()),
                fingerprint: member.fingerprint.as_str().into(),
                transaction_us: member.active_s.map(|s| s.saturating_mul(1_000_000)),
                ..self.sessions.party(member.connection_id, moment)
            })
            .collect();
        let victim = status
            .members
            .iter()
            .position(|member| Some(member.number) == status.victim);
        self.analysis.deadlocks.tell(Deadlock {
            time_us: moment.unix_us,
            victim: victim.map(|at| cycle[at].clone()).unwrap_or_default(),
            cycle,
        });
    }

    /// Takes in what the probe saw and what the server's tables answered. Does not block. Returns
    /// the number of events.
    pub fn poll(&mut self, moment: &Moment) -> usize {
        let Self {
            probe,
            analysis,
            sessions,
            ..
        } = self;
        let events = probe.as_mut().map_or(0, |probe| {
            probe.consume(EVENTS_MAX, |event| {
                analysis.observe(&event, sessions);
            })
        });
        if events > 0 {
            self.shed();
        }
        if let Some(finding) = self.inspector.as_mut().and_then(Inspector::answer) {
            self.learn(&finding);
        }
        self.ask_for_deadlock();
        if self.analysis.is_idle() {
            return events;
        }
        if events > 0 || self.looked.is_none_or(|looked| looked.elapsed() >= LOOK) {
            self.look(moment);
            self.looked = Some(Instant::now());
        }
        self.analysis.settle(&self.sessions, moment);
        if self.analysis.waiting().next().is_some()
            && let Some(inspector) = &mut self.inspector
        {
            inspector.ask(Question::Waits);
        }
        events
    }

    /// Takes the dearest sites off when they are passed too often: those counted too that found no
    /// room in the ring, of which there are most then.
    fn shed(&mut self) {
        let hits = self.counters().hits;
        let (since, before) = self.second;
        // Counted since the window began, which may be long ago if this process had no processor.
        let seconds = since.elapsed().as_secs_f64().max(1.0);
        if hits.saturating_sub(before) as f64 > HITS_PER_S_MAX as f64 * seconds
            && !self.edges_shed
            && let Some(probe) = &mut self.probe
        {
            probe.detach_metadata_edges();
            self.edges_shed = true;
        }
        if since.elapsed() >= Duration::from_secs(1) {
            self.second = (Instant::now(), hits);
        }
    }

    /// Looks at what those do now who wait or block.
    fn look(&mut self, moment: &Moment) {
        let Some(memory) = &self.memory else { return };
        self.analysis.identify(|thd| memory.connection_id(thd));
        for thread in self.analysis.parties() {
            self.sessions.note_thd(thread.connection_id, thread.thd);
            self.sessions.look_at(thread.connection_id, memory, moment);
        }
    }

    fn learn(&mut self, finding: &Finding) {
        self.problem.clone_from(&finding.problem);
        for row in &finding.rows {
            let detail = WaitDetail {
                object: LockObject {
                    table: row.table.clone(),
                    index: row.index.clone(),
                    mode_wanted: row.mode_wanted.clone(),
                    mode_held: row.mode_held.clone(),
                    unknown_because: None,
                },
                transaction_us: row.transaction_us,
                moment: finding.moment,
            };
            self.analysis.learn(row.waiter, row.blocker, detail, true);
        }
        metadata::learn(&mut self.analysis, finding);
        if let Some(deadlock) = &finding.deadlock {
            self.learn_deadlock(deadlock, &finding.moment);
        }
    }

    /// Looks at what every session does now, for average active sessions. Returns how many were
    /// looked at.
    pub fn look_at_sessions(&mut self, moment: &Moment) -> usize {
        let memory = self.memory.as_ref();
        memory.map_or(0, |memory| self.sessions.look_at_all(memory, moment))
    }

    /// The sessions.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Sessions that hold a transaction open and do nothing, longest idle first.
    pub fn idle_in_transaction(&self, moment: &Moment) -> Vec<Party> {
        self.sessions.idle_in_transaction(moment)
    }

    /// The waits that go on.
    pub fn waits(&mut self, moment: &Moment) -> Vec<LockWait> {
        self.analysis.waits(&self.sessions, moment)
    }

    /// Waits that ended since the last call; each is in one answer only.
    pub fn take_ended(&mut self) -> Vec<LockWait> {
        self.analysis.take_ended()
    }

    /// Deadlocks since the last call.
    pub fn take_deadlocks(&mut self) -> Vec<Deadlock> {
        self.analysis.take_deadlocks()
    }

    /// Waits that ended: count and total us, of row, metadata and table locks.
    pub fn ended_sums(&self) -> [(u64, u64); 3] {
        self.analysis.ended_sums()
    }

    /// Deadlocks in all.
    pub fn deadlock_count(&self) -> u64 {
        self.analysis.deadlock_count()
    }

    /// Waits, blockers and deadlocks that were not told for want of room, and events lost in the
    /// ring buffer.
    pub fn lost(&self) -> (u64, u64) {
        let ring_full = self.counters().ring_full;
        (self.analysis.dropped(), ring_full)
    }

    /// How often the server passed one of the sites, and how long the programs there ran, ns: what
    /// the watching of locks costs it, but for the traps.
    pub fn cost(&self) -> (u64, u64) {
        let counters = self.counters();
        (counters.hits, counters.run_ns)
    }

    fn counters(&self) -> LockCounters {
        let counters = self.probe.as_ref().and_then(|p| p.counters().ok());
        counters.unwrap_or_default()
    }

    /// True once the sites that name the blockers of metadata locks were taken off, because the
    /// server passed them too often.
    pub fn edges_shed(&self) -> bool {
        self.edges_shed
    }

    /// Connection id of the inspector's own session; 0 if there is none.
    pub fn own_connection_id(&self) -> u64 {
        self.inspector.as_ref().map_or(0, Inspector::connection_id)
    }

    /// What is not known of this server's lock waits, and why.
    pub fn missing(&self) -> Vec<(String, String)> {
        let layout = self.probe.as_ref().map(LockProbe::layout);
        let mut missing: Vec<(String, String)> = layout
            .into_iter()
            .flat_map(|layout| &layout.missing)
            .map(|(hook, why)| (LockHook::as_str(*hook).to_owned(), why.clone()))
            .collect();
        if let Some(layout) = layout.filter(|_| self.inspector.is_none()) {
            let (hook, why) = if layout.edge_replaces {
                let why = "MySQL does not list the holders of what plain statements need; \
                           give --dsn";
                (LockHook::MetadataBy, why)
            } else {
                let why = "MariaDB names it only with a binary log; give --dsn";
                (LockHook::RowEdge, why)
            };
            missing.push((hook.as_str().to_owned(), why.to_owned()));
        }
        if let Some(problem) = &self.problem {
            missing.push(("lock tables".to_owned(), problem.clone()));
        }
        missing
    }

    /// The server is gone: what was waited for is waited for no more, and nothing else is made of
    /// what was last seen.
    pub fn server_ended(&mut self, moment: &Moment) {
        let Self {
            probe,
            analysis,
            sessions,
            ..
        } = self;
        if let Some(probe) = probe {
            probe.consume(EVENTS_MAX, |event| {
                analysis.observe(&event, sessions);
            });
            probe.detach();
        }
        self.memory = None;
        self.inspector = None;
        self.analysis.server_ended(&self.sessions, moment);
    }
}
