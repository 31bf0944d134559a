//! The sessions of one server: who they are, what they did last, what they do now.
//!
//! Built from the ends of statements, and looked at in the server's memory without connecting
//! ([`memory`]). Neighbours: the sources call [`Sessions::statement_ended`]; lock analysis asks for
//! [`Party`]s; the view adds what goes on now to the average active sessions.
//!
//! Invariant: the table is bounded. What a session does now was read from its own `THD`, whose
//! connection id was the expected one before and after the read.

pub mod memory;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use waggle_digest::{Fingerprinter, digest_id};

use crate::aggregate::redact;
pub(crate) use crate::aggregate::redact::{printable, printable_name};
use crate::lock::Party;
use memory::ServerMemory;

/// Most sessions kept.
const SESSIONS_MAX: usize = 20_000;
/// The server's error for a deadlock's victim.
const ER_LOCK_DEADLOCK: u32 = 1213;
/// Longest fingerprint kept of a statement that goes on, bytes.
const FINGERPRINT_BYTES_MAX: usize = 4096;

/// One moment on both clocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moment {
    /// Monotonic, ns.
    pub time_ns: u64,
    /// Since 1970, us.
    pub unix_us: u64,
}

impl Moment {
    /// This one.
    pub fn now() -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            time_ns: waggle_probes::clock::now_ns(),
            unix_us: unix.map_or(0, |d| u64::try_from(d.as_micros()).unwrap_or(0)),
        }
    }

    /// The same moment as `time_ns` since 1970, us.
    pub fn unix_us_of(&self, time_ns: u64) -> u64 {
        if time_ns > self.time_ns {
            return self.unix_us.saturating_add((time_ns - self.time_ns) / 1000);
        }
        self.unix_us.saturating_sub((self.time_ns - time_ns) / 1000)
    }

    /// The same moment as `unix_us` on the monotonic clock, ns.
    pub fn time_ns_of(&self, unix_us: u64) -> u64 {
        let ago = self.unix_us.saturating_sub(unix_us);
        self.time_ns.saturating_sub(ago.saturating_mul(1000))
    }
}

/// A statement that ended, as far as sessions care.
#[derive(Debug, Clone, Copy)]
pub struct StatementEnd<'a> {
    /// Monotonic clock, ns.
    pub end_ns: u64,
    /// When it began, if known; same clock.
    pub start_ns: Option<u64>,
    /// Connection id; 0 if not known, and then nothing is kept.
    pub connection_id: u64,
    /// Address of the session's `THD`, if known.
    pub thd: Option<u64>,
    /// The thread that carried it out, if known.
    pub tid: Option<u32>,
    /// User name.
    pub user: &'a [u8],
    /// Default database.
    pub database: &'a [u8],
    /// Digest, as Percona's tools print it.
    pub digest: &'a Arc<str>,
    /// Without literals.
    pub fingerprint: &'a Arc<str>,
    /// The session was in a transaction when it ended, if known.
    pub in_transaction: Option<bool>,
    /// The server's error number, 0 for none.
    pub error: u32,
    /// It ran within a routine or trigger: the statement that called it goes on.
    pub is_within: bool,
}

/// A statement that goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// When it began, ns of the monotonic clock.
    pub start_ns: u64,
    /// The protocol command (3: query, 23: execute, ...).
    pub command: u32,
    /// Digest, as Percona's tools print it.
    pub digest: Arc<str>,
    /// Without literals.
    pub fingerprint: Arc<str>,
}

/// A statement that fell victim to a deadlock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Victim {
    /// When it ended, ns of the monotonic clock.
    pub end_ns: u64,
    /// Digest, as Percona's tools print it.
    pub digest: Arc<str>,
    /// Without literals.
    pub fingerprint: Arc<str>,
}

/// What is known of one session.
#[derive(Debug, Clone, Default)]
pub struct Session {
    /// Connection id, as in the process list.
    pub connection_id: u64,
    /// Address of its `THD`; 0 if not known.
    pub thd: u64,
    /// The thread that last carried out a statement of it; 0 if not known.
    pub tid: u32,
    /// User name.
    pub user: Arc<str>,
    /// Default database.
    pub database: Arc<str>,
    /// Digest of its last statement.
    pub digest: Arc<str>,
    /// Its last statement, without literals.
    pub fingerprint: Arc<str>,
    /// When that ended, ns of the monotonic clock; 0 if none was seen.
    pub end_ns: u64,
    /// Its error number, 0 for none.
    pub error: u32,
    /// The last statement of it that fell victim to a deadlock.
    pub victim: Option<Victim>,
    /// In a transaction, as of the last statement's end or of the last look; `None`: not known.
    pub in_transaction: Option<bool>,
    /// Since when, if its beginning was seen; ns of the monotonic clock.
    pub transaction_ns: Option<u64>,
    /// What it carried out at the last look.
    pub running: Option<Running>,
}

/// The sessions of one server.
#[derive(Default)]
pub struct Sessions {
    by_id: HashMap<u64, Session>,
    fingerprinter: Fingerprinter,
    text: Vec<u8>,
}

impl Sessions {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// True if none is known.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// What is known of a connection.
    pub fn get(&self, connection_id: u64) -> Option<&Session> {
        self.by_id.get(&connection_id)
    }

    /// All, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Session> {
        self.by_id.values()
    }

    /// Takes in the end of a statement.
    pub fn statement_ended(&mut self, end: &StatementEnd<'_>) {
        let Some(session) = self.entry(end.connection_id) else {
            return;
        };
        if let Some(thd) = end.thd {
            session.thd = thd;
        }
        if let Some(tid) = end.tid {
            session.tid = tid;
        }
        set(&mut session.user, end.user);
        set(&mut session.database, end.database);
        if !end.is_within {
            if !Arc::ptr_eq(&session.fingerprint, end.fingerprint) {
                session.fingerprint = Arc::clone(end.fingerprint);
                session.digest = Arc::clone(end.digest);
            }
            session.end_ns = end.end_ns;
            session.running = None;
        }
        session.error = end.error;
        if end.error == ER_LOCK_DEADLOCK {
            session.victim = Some(Victim {
                end_ns: end.end_ns,
                digest: Arc::clone(end.digest),
                fingerprint: Arc::clone(end.fingerprint),
            });
        }
        match (session.in_transaction, end.in_transaction) {
            (_, Some(false) | None) => session.transaction_ns = None,
            (Some(true), Some(true)) => {}
            (Some(false), Some(true)) => session.transaction_ns = end.start_ns,
            (None, Some(true)) => {
                let begins = ["begin", "start transaction"]
                    .iter()
                    .any(|word| end.fingerprint.starts_with(word));
                session.transaction_ns = end.start_ns.filter(|_| begins);
            }
        }
        session.in_transaction = end.in_transaction;
    }

    /// Learns which `THD` a connection has, from a probe that read both together.
    pub fn note_thd(&mut self, connection_id: u64, thd: u64) {
        if let Some(session) = self.entry(connection_id)
            && thd != 0
        {
            session.thd = thd;
        }
    }

    fn entry(&mut self, connection_id: u64) -> Option<&mut Session> {
        if connection_id == 0 {
            return None;
        }
        if self.by_id.len() >= SESSIONS_MAX && !self.by_id.contains_key(&connection_id) {
            self.forget_oldest();
        }
        let session = self.by_id.entry(connection_id).or_default();
        session.connection_id = connection_id;
        Some(session)
    }

    /// Makes room: the tenth that was longest without a sign of life goes.
    fn forget_oldest(&mut self) {
        let mut ends: Vec<u64> = self.by_id.values().map(|s| s.end_ns).collect();
        let (_, limit, _) = ends.select_nth_unstable(SESSIONS_MAX / 10);
        let limit = *limit;
        self.by_id.retain(|_, session| session.end_ns > limit);
    }

    /// Looks at what every session does now. Sessions that are gone are forgotten. Returns how
    /// many were looked at.
    pub fn look_at_all(&mut self, memory: &ServerMemory, moment: &Moment) -> usize {
        let known = self.by_id.values().filter(|session| session.thd != 0);
        let ids: Vec<u64> = known.map(|session| session.connection_id).collect();
        for id in &ids {
            self.look_at(*id, memory, moment);
        }
        ids.len()
    }

    /// Looks at what one session does now.
    pub fn look_at(&mut self, connection_id: u64, memory: &ServerMemory, moment: &Moment) {
        let Some(session) = self.by_id.get_mut(&connection_id) else {
            return;
        };
        if session.thd == 0 {
            return;
        }
        let Some(glance) = memory.look(session.thd, connection_id, &mut self.text) else {
            // Another session has its place, or the server is gone.
            session.running = None;
            session.thd = 0;
            if session.end_ns != 0 {
                self.by_id.remove(&connection_id);
            }
            return;
        };
        if let Some(in_transaction) = glance.in_transaction {
            if session.in_transaction == Some(false) && in_transaction {
                session.transaction_ns = Some(memory.start_ns(glance.start_us, moment));
            }
            session.in_transaction = Some(in_transaction);
        }
        if session.database.is_empty() {
            set(&mut session.database, &glance.database);
        }
        if session.user.is_empty() {
            set(&mut session.user, &glance.user);
        }
        if !glance.is_running {
            session.running = None;
            return;
        }
        let start_ns = memory.start_ns(glance.start_us, moment);
        // The start time keeps its value through a statement: the same one need not be read again.
        let is_same = |r: &Running| r.start_ns.abs_diff(start_ns) < 1_000_000;
        let fingerprint = if glance.truncated {
            self.fingerprinter.fingerprint_truncated(&self.text).text
        } else {
            self.fingerprinter.fingerprint(&self.text)
        };
        // What the server thinks of its quotes is not known yet.
        let hidden = redact::hidden_running(&self.text, fingerprint);
        let fingerprint = hidden.as_deref().unwrap_or(fingerprint);
        let kept = &fingerprint[..fingerprint.len().min(FINGERPRINT_BYTES_MAX)];
        let text = printable(kept);
        if session
            .running
            .as_ref()
            .is_some_and(|r| is_same(r) && *r.fingerprint == *text)
        {
            return;
        }
        session.running = Some(Running {
            start_ns,
            command: glance.command,
            digest: digest_id(fingerprint).to_string().into(),
            fingerprint: text.into(),
        });
    }

    /// One side of a wait.
    pub fn party(&self, connection_id: u64, moment: &Moment) -> Party {
        let Some(session) = self.by_id.get(&connection_id) else {
            return Party {
                connection_id: (connection_id != 0).then_some(connection_id),
                ..Party::default()
            };
        };
        let since = |time_ns: u64| moment.time_ns.saturating_sub(time_ns) / 1000;
        let (digest, fingerprint) = match &session.running {
            Some(running) => (&running.digest, &running.fingerprint),
            None => (&session.digest, &session.fingerprint),
        };
        let is_running = session.running.is_some();
        Party {
            connection_id: Some(connection_id),
            user: Arc::clone(&session.user),
            database: Arc::clone(&session.database),
            digest: (!digest.is_empty()).then(|| digest.to_string()),
            fingerprint: Arc::clone(fingerprint),
            is_running,
            transaction_us: session.transaction_ns.map(since),
            idle_us: (!is_running && session.end_ns != 0).then(|| since(session.end_ns)),
        }
    }

    /// Sessions that hold a transaction open and do nothing, longest idle first.
    pub fn idle_in_transaction(&self, moment: &Moment) -> Vec<Party> {
        let mut idle: Vec<&Session> = self
            .by_id
            .values()
            .filter(|s| s.in_transaction == Some(true) && s.running.is_none())
            .collect();
        idle.sort_by_key(|s| (s.end_ns, s.connection_id));
        idle.iter()
            .map(|session| self.party(session.connection_id, moment))
            .collect()
    }
}

/// Keeps `to` if it says `bytes` already.
fn set(to: &mut Arc<str>, bytes: &[u8]) {
    if to.as_bytes() != bytes {
        *to = printable_name(bytes).into();
    }
}

#[cfg(test)]
mod tests;
