//! From observations to bounded tables: who did what, how often, and where the time went?
//!
//! One [`Aggregate`] a server takes every [`Observation`] and is asked for its part of a view.
//! Neighbours: sources yield, the agent's loop owns. Invariants: statements captured = digests +
//! `other` + `retired`, and the agent's own are counted apart from them; memory is bounded by
//! [`Settings`]; an ordinary statement of a known digest
//! allocates nothing.

mod causes;
mod clocks;
mod contention;
mod digests;
pub(crate) mod redact;
mod running;
mod samples;
mod session_time;
mod sums;
mod table;
mod tap;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use causes::Causes;
pub use clocks::Clocks;
use contention::Contention;
use digests::Digests;
pub use running::Going;
use running::Running;
pub use samples::SampleSettings;
use samples::Sampler;
use session_time::{Dimension, Split};
pub use tap::{Hearers, Seen, Tap};

use crate::lock::{Deadlock, LockWait};
use crate::sample::Sample;
use crate::sessions::StatementEnd;
use crate::source::{Observation, Summed};
use crate::sql::OwnSessions;
use crate::statement::{Origin, ServerId, Statement, Text};
use crate::view::{Counted, LoadView, ServerView};

/// Protocol commands that servers do not count as statements (`Questions`).
const NOT_STATEMENTS: [u32; 7] = [
    1,  // COM_QUIT
    9,  // COM_STATISTICS
    14, // COM_PING
    22, // COM_STMT_PREPARE
    24, // COM_STMT_SEND_LONG_DATA
    25, // COM_STMT_CLOSE
    26, // COM_STMT_RESET
];

/// Bounds, and what is kept of single statements.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Digests kept apart.
    pub digests_max: usize,
    /// Users, databases and client hosts kept apart.
    pub names_max: usize,
    /// Single statements.
    pub samples: SampleSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            digests_max: 2000,
            names_max: 200,
            samples: SampleSettings::default(),
        }
    }
}

/// Sums of one server.
#[derive(Debug)]
pub struct Aggregate {
    server: ServerId,
    pid: u32,
    digests: Digests,
    users: Dimension,
    databases: Dimension,
    hosts: Dimension,
    sampler: Sampler,
    running: Running,
    /// The agent's sessions on this server, and how many statements they ended.
    own_sessions: Arc<OwnSessions>,
    own: u64,
    captured: u64,
    in_routines: u64,
    other_commands: u64,
    hits: u64,
    lost: Causes,
    degraded: Causes,
    contention: Contention,
}

impl Aggregate {
    /// Nothing counted yet of a server and its process. `seed` draws the random samples; `lost`
    /// names causes that are shown also while nothing is lost.
    pub fn new(
        (server, pid): (ServerId, u32),
        settings: &Settings,
        seed: u64,
        lost: &[&'static str],
    ) -> Self {
        Self {
            server,
            pid,
            digests: Digests::new(settings.digests_max),
            users: Dimension::new(settings.names_max),
            databases: Dimension::new(settings.names_max),
            hosts: Dimension::new(settings.names_max),
            sampler: Sampler::new(settings.samples, server, seed),
            running: Running::default(),
            own_sessions: Arc::default(),
            in_routines: 0,
            own: 0,
            captured: 0,
            other_commands: 0,
            hits: 0,
            lost: Causes::known(lost),
            degraded: Causes::known(&["text_truncated", "fields_unread", "latency_unknown"]),
            contention: Contention::default(),
        }
    }

    /// The sessions whose statements are the agent's own.
    pub fn set_own(&mut self, sessions: Arc<OwnSessions>) {
        self.own_sessions = sessions;
    }

    /// Takes one observation.
    #[inline]
    pub fn observe(
        &mut self,
        observation: Observation<'_>,
        clocks: Clocks,
        hearers: &mut Hearers<'_, '_>,
    ) {
        match observation {
            Observation::Statement(statement) => self.statement(&statement, clocks, hearers),
            Observation::Summed(summed) => self.summed(&summed),
            Observation::LockWait(wait) => self.wait(wait),
            Observation::Deadlock(deadlock) => self.contention.deadlock(deadlock),
            Observation::Degraded { cause, count } => self.degraded.add(cause, count),
            Observation::Own(count) => self.own += count,
            Observation::Hits(count) => self.hits += count,
            Observation::Lost { cause, count } => self.lost.add(cause, count),
        }
    }

    fn statement(
        &mut self,
        statement: &Statement<'_>,
        clocks: Clocks,
        hearers: &mut Hearers<'_, '_>,
    ) {
        if statement
            .command
            .is_some_and(|c| NOT_STATEMENTS.contains(&c))
        {
            self.other_commands += 1;
            return;
        }
        if self.is_own(statement) {
            self.own += 1;
            return;
        }
        self.captured += 1;
        self.note_lacks(statement);
        let split = Split::of(statement.latency_ns.unwrap_or(0), statement.times.as_ref());
        // A statement within a routine is part of the one that called it, whose time holds its own.
        let is_within = statement.origin == Some(Origin::Routine);
        if is_within {
            self.in_routines += 1;
        } else {
            let left = self.running.ended(statement.connection_id, split);
            self.users.add(statement.user, &left);
            self.databases.add(statement.database, &left);
            self.hosts.add(statement.host, &left);
        }
        let reason = self.sampler.reason(statement);
        let digest = self.digests.record(statement, &split);
        if let Some(reason) = reason {
            let time_us = clocks.realtime_us(statement.end_ns);
            self.sampler.keep(reason, statement, digest, time_us);
        }
        if let Some(locks) = &mut hearers.locks {
            locks.statement_ended(&StatementEnd {
                end_ns: statement.end_ns,
                start_ns: statement
                    .latency_ns
                    .map(|ns| statement.end_ns.saturating_sub(ns)),
                connection_id: statement.connection_id.unwrap_or(0),
                thd: statement.thread.map(|thread| thread.thd),
                tid: statement.thread.map(|thread| thread.tid),
                user: statement.user,
                database: statement.database,
                digest: &digest.id_text,
                fingerprint: &digest.fingerprint,
                in_transaction: statement.work.in_transaction,
                error: statement.work.error.unwrap_or(0),
                is_within,
            });
        }
        if let Some(tap) = &mut hearers.tap {
            let known =
                (!Digests::is_other(digest)).then(|| (digest.id, digest.fingerprint.clone()));
            self.show(statement, clocks, known, *tap);
        }
    }

    /// Counts what a captured statement came without.
    #[inline]
    fn note_lacks(&mut self, statement: &Statement<'_>) {
        if matches!(
            statement.text,
            Text::Whole {
                truncated: true,
                ..
            }
        ) {
            self.degraded.add("text_truncated", 1);
        }
        if statement.latency_ns.is_none() {
            self.degraded.add("latency_unknown", 1);
        }
        if self.digests.text_shed {
            self.degraded.add("text_shed", 1);
        }
    }

    #[inline]
    fn is_own(&self, statement: &Statement<'_>) -> bool {
        let text = match statement.text {
            Text::Whole { sql, .. } => sql,
            Text::Normalised(_) | Text::Unknown => b"",
        };
        self.own_sessions.owns(statement.connection_id, text)
    }

    fn summed(&mut self, summed: &Summed<'_>) {
        self.captured += summed.count;
        let split = Split::of_sums(summed.latency_ns, summed.cpu_ns);
        self.users.add(summed.statement.user, &split);
        self.databases.add(summed.statement.database, &split);
        self.hosts.add(summed.statement.host, &split);
        self.digests.record_summed(summed, &split);
    }

    /// Counts the time of statements that go on, as one look saw them.
    pub fn look<'a>(&mut self, going: impl Iterator<Item = Going<'a>>, now_ns: u64) {
        self.running.begin();
        for going in going {
            if let Some(new) = self.running.look(&going, now_ns) {
                self.users.add(going.user, &new);
                self.databases.add(going.database, &new);
                self.hosts.add(b"", &new);
            }
        }
        self.running.end();
    }

    fn wait(&mut self, wait: LockWait) {
        if !self.contention.wait(wait) {
            self.degraded.add("waits_dropped", 1);
        }
    }

    /// Takes the samples kept since the last call.
    pub fn take_samples(&mut self) -> Vec<Sample> {
        let dropped = std::mem::take(&mut self.sampler.dropped);
        self.degraded.add("samples_dropped", dropped);
        self.sampler.take()
    }

    /// Takes the waits that ended since the last call.
    pub fn take_waits(&mut self) -> Vec<LockWait> {
        self.contention.take_waits()
    }

    /// Takes the deadlocks since the last call.
    pub fn take_deadlocks(&mut self) -> Vec<Deadlock> {
        self.contention.take_deadlocks()
    }

    /// Stops or resumes looking at texts: without, all statements are of one digest.
    pub fn shed_text(&mut self, shed: bool) {
        self.digests.text_shed = shed;
    }

    /// Stops or resumes keeping samples.
    pub fn shed_samples(&mut self, shed: bool) {
        self.sampler.is_shed = shed;
    }

    /// Statements captured.
    pub fn captured(&self) -> u64 {
        self.captured
    }

    /// The agent's own statements.
    pub fn own(&self) -> u64 {
        self.own
    }

    /// Ends of commands that are no statements.
    pub fn other_commands(&self) -> u64 {
        self.other_commands
    }

    /// Hits of the probe.
    pub fn hits(&self) -> u64 {
        self.hits
    }

    /// Statements lost, by cause.
    pub fn lost(&self) -> Vec<(&'static str, u64)> {
        self.lost.view()
    }

    /// What was counted of statements.
    pub fn counted(&self) -> Counted {
        let mut degraded = self.degraded.view();
        degraded.push(("digests_beyond_bound", self.digests.beyond_bound()));
        Counted {
            hits: self.hits,
            captured: self.captured,
            in_routines: self.in_routines,
            own: self.own,
            other_commands: self.other_commands,
            lost: self.lost.view(),
            degraded,
        }
    }

    /// Writes everything counted into `view`, then makes room for new digests if it is short.
    pub fn fill(&mut self, view: &mut ServerView, clocks: Clocks) {
        let to_us = |ns| clocks.realtime_us(ns);
        let counted = self.counted();
        view.hits = counted.hits;
        view.captured = counted.captured;
        view.in_routines = counted.in_routines;
        view.own = counted.own;
        view.other_commands = counted.other_commands;
        view.lost = counted.lost;
        view.degraded = counted.degraded;
        view.digests = self.digests.view(to_us);
        [view.other, view.retired] = self.digests.rest(to_us);
        view.load = LoadView {
            all: self.users.all().seconds(),
            users: self.users.view(),
            databases: self.databases.view(),
            hosts: self.hosts.view(),
        };
        self.contention.fill(view);
        self.digests.make_room(clocks.monotonic_ns);
    }
}
