//! Deadlocks, from the report that there is one to the victim's failure.
//!
//! The server resolves a deadlock before anybody can ask about it. The probe tells the cycle, in
//! part also the victim; the statement that ends with the server's error for it settles who lost.
//! Neighbours: [`analysis`](super::analysis).
//!
//! Invariants: the order in which events and the ends of statements are read does not matter. A
//! victim is one that the engine named or whose statement failed.

use std::sync::Arc;

use waggle_probes::lock::Thread;

use super::analysis::BLOCKERS_MAX;
use crate::lock::{Deadlock, LockKind, Party};
use crate::sessions::{Moment, Sessions};

/// Most deadlocks that wait for their victim.
const PENDING_MAX: usize = 256;
/// Most that wait to be taken.
const READY_MAX: usize = 10_000;
/// How long one is held back for its victim to fail, ns.
const VERDICT_NS: u64 = 5_000_000_000;

/// A deadlock whose victim has not failed yet.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) time_ns: u64,
    /// The thread that found it.
    pub(super) tid: u32,
    pub(super) members: Vec<Thread>,
    pub(super) victim: Option<Thread>,
    pub(super) kind: LockKind,
}

/// What became of a deadlock.
enum Verdict {
    /// Not known yet.
    Open,
    /// Nobody failed: the server had the victim's statement carried out anew.
    None,
    /// Nobody is known to have failed within the time.
    Unknown,
    /// This one failed.
    Victim(Party),
}

/// The deadlocks of one server.
#[derive(Debug, Default)]
pub(super) struct Deadlocks {
    pending: Vec<Pending>,
    ready: Vec<Deadlock>,
    count: u64,
    dropped: u64,
}

impl Deadlocks {
    /// Takes in one whose victim has not failed yet.
    pub(super) fn push(&mut self, pending: Pending) {
        if self.pending.len() >= PENDING_MAX {
            self.pending.remove(0);
            self.dropped += 1;
        }
        self.pending.push(pending);
    }

    /// Takes in one of which all is known.
    pub(super) fn tell(&mut self, deadlock: Deadlock) {
        self.count += 1;
        if self.ready.len() >= READY_MAX {
            self.dropped += 1;
            return;
        }
        self.ready.push(deadlock);
    }

    /// MariaDB compares the members of a cycle two by two, all from the thread that found it.
    pub(super) fn pair(&mut self, tid: u32, one: Thread, two: Thread, time_ns: u64) {
        const SAME_NS: u64 = 100_000_000;
        let same = self.pending.iter().position(|p| {
            p.kind == LockKind::Row
                && p.tid == tid
                && time_ns.saturating_sub(p.time_ns) < SAME_NS
                && p.members
                    .iter()
                    .any(|m| m.thd == one.thd || m.thd == two.thd)
        });
        let place = match same {
            Some(place) => place,
            None => {
                self.push(Pending {
                    time_ns,
                    tid,
                    members: Vec::new(),
                    victim: None,
                    kind: LockKind::Row,
                });
                self.pending.len() - 1
            }
        };
        let pending = &mut self.pending[place];
        for thread in [one, two] {
            let known = pending.members.iter().any(|m| m.thd == thread.thd);
            if !known && pending.members.len() < BLOCKERS_MAX {
                pending.members.push(thread);
            }
        }
    }

    /// Tells of deadlocks whose victim's statement has failed by now. The order in which the ends
    /// of statements and the events of the probe are read does not matter.
    pub(super) fn judge(&mut self, sessions: &Sessions, moment: &Moment) {
        let mut at = 0;
        while at < self.pending.len() {
            match verdict(&self.pending[at], sessions, moment) {
                Verdict::Open => at += 1,
                Verdict::None => _ = self.pending.swap_remove(at),
                Verdict::Unknown => {
                    self.pending.swap_remove(at);
                    self.dropped += 1;
                }
                Verdict::Victim(victim) => {
                    let pending = self.pending.swap_remove(at);
                    let id = victim.connection_id;
                    let mut cycle = parties(&pending.members, sessions, moment);
                    for party in cycle.iter_mut().filter(|p| p.connection_id == id) {
                        *party = victim.clone();
                    }
                    self.tell(Deadlock {
                        time_us: moment.unix_us_of(pending.time_ns),
                        victim,
                        cycle,
                    });
                }
            }
        }
    }

    /// Those that became known since the last call.
    pub(super) fn take(&mut self) -> Vec<Deadlock> {
        std::mem::take(&mut self.ready)
    }

    /// In all.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Those whose victim stayed unknown, or that found no room.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// True if none waits for its victim.
    pub(super) fn is_settled(&self) -> bool {
        self.pending.is_empty()
    }

    /// The server is gone: no statement will fail any more.
    pub(super) fn forget(&mut self) {
        self.pending.clear();
    }
}

fn verdict(pending: &Pending, sessions: &Sessions, moment: &Moment) -> Verdict {
    let candidates = match &pending.victim {
        Some(victim) => std::slice::from_ref(victim),
        None => &pending.members[..],
    };
    for thread in candidates {
        let Some(session) = sessions.get(thread.connection_id) else {
            continue;
        };
        let victim = session.victim.as_ref();
        if let Some(victim) = victim.filter(|v| v.end_ns >= pending.time_ns) {
            let mut party = sessions.party(thread.connection_id, moment);
            party.digest = Some(victim.digest.to_string());
            party.fingerprint = Arc::clone(&victim.fingerprint);
            return Verdict::Victim(party);
        }
        let was_spared = session.end_ns >= pending.time_ns && pending.victim.is_some();
        if was_spared && pending.kind == LockKind::Metadata {
            return Verdict::None;
        }
    }
    if moment.time_ns < pending.time_ns + VERDICT_NS {
        return Verdict::Open;
    }
    match &pending.victim {
        // The engine named it, whatever became of its statement.
        Some(victim) if pending.kind == LockKind::Row => {
            Verdict::Victim(sessions.party(victim.connection_id, moment))
        }
        _ => Verdict::Unknown,
    }
}

fn parties(threads: &[Thread], sessions: &Sessions, moment: &Moment) -> Vec<Party> {
    let party = |thread: &Thread| sessions.party(thread.connection_id, moment);
    threads.iter().map(party).collect()
}
