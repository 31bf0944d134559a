//! The reading end of the ring buffer: each event with what it leaves out.
//!
//! A session's user and host are sent when they are new, and sums of its statements so far instead
//! of the statement's own: what came before is remembered, by thread. Neighbour: `event` parses
//! records.
//!
//! Invariant: threads that have ended are forgotten before there are twice as many.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::path::Path;

use super::event::{StatementEvent, Sums};
use super::plan::Places;
use super::skeleton::types;
use crate::ring::Ring;

/// What is remembered of a thread: what its events leave out.
#[derive(Debug, Default)]
struct Session {
    user: Vec<u8>,
    host: Vec<u8>,
    sums: Sums,
}

/// Thread ids are spread well enough by a multiplication.
#[derive(Debug, Default)]
struct TidHasher(u64);

impl Hasher for TidHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, tid: u32) {
        self.0 = (self.0 ^ u64::from(tid)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// Threads remembered before those that have ended are looked for.
const SESSIONS_FIRST: usize = 4096;

/// The reading end of a probe's ring buffer.
#[derive(Debug)]
pub struct Events {
    ring: Ring,
    places: Places,
    sessions: HashMap<u32, Session, BuildHasherDefault<TidHasher>>,
    sessions_max: usize,
}

impl Events {
    pub(super) fn new(ring: Ring, places: Places) -> Self {
        Self {
            ring,
            places,
            sessions: HashMap::default(),
            sessions_max: SESSIONS_FIRST,
        }
    }

    /// Lends every finished event to `each`, at most `limit`; returns how many.
    pub fn consume(&mut self, limit: usize, mut each: impl FnMut(StatementEvent<'_>)) -> usize {
        let Self {
            ring,
            places,
            sessions,
            ..
        } = self;
        let count = ring.consume(limit, |record| {
            let Some(mut event) = StatementEvent::parse(record, places) else {
                return;
            };
            if !event.has(types::event_flag::EVENT_TIMES) {
                return each(event);
            }
            let session = sessions.entry(event.tid()).or_default();
            if event.has(types::event_flag::EVENT_NAMES) {
                session.user.clear();
                session.user.extend_from_slice(event.user);
                session.host.clear();
                session.host.extend_from_slice(event.host);
            }
            let sums = event.sums();
            let before = std::mem::replace(&mut session.sums, sums);
            if event.has(types::event_flag::EVENT_CONTINUES) {
                event.before = Some(before);
            }
            event.user = &session.user;
            event.host = &session.host;
            each(event);
        });
        if self.sessions.len() > self.sessions_max {
            self.forget_ended();
        }
        count
    }

    fn forget_ended(&mut self) {
        self.sessions
            .retain(|tid, _| Path::new(&format!("/proc/{tid}")).exists());
        self.sessions_max = (self.sessions.len() * 2).max(SESSIONS_FIRST);
    }

    /// Bytes waiting to be read.
    pub fn backlog_bytes(&self) -> u64 {
        self.ring.backlog_bytes()
    }
}
