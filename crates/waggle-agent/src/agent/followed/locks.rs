//! What of a server's locks and sessions gets into its sums, and what is not known of them?
//!
//! Neighbours: `crate::locks` watches; the aggregate takes what ended, and what goes on.
//!
//! Invariant: a server whose locks cannot be watched is watched all the same, and says why.

use std::collections::HashMap;

use waggle_probes::sched::LiveThread;
use waggle_probes::wait::WaitClass;

use super::Followed;
use crate::aggregate::{Clocks, Going, Hearers};
use crate::lock::LockKind;
use crate::locks::LockWatch;
use crate::sessions::Moment;
use crate::source::Observation;
use crate::statement::Times;

impl Followed {
    /// Begins to watch lock waits; without, all the rest is watched.
    pub(super) fn watch_locks(&mut self) {
        let (pid, exe) = (self.process.pid, self.process.exe_file());
        let Some(layout) = self.probe().map(|probe| probe.layout().clone()) else {
            return;
        };
        match LockWatch::attach(pid, &exe, &layout, self.access.clone()) {
            Ok(locks) => self.locks = Some(Box::new(locks)),
            Err(error) => self.no_locks = Some(format!("{error:#}")),
        }
    }

    /// Takes what is new of lock waits.
    pub(super) fn drain_locks(&mut self, clocks: Clocks) {
        let Some(locks) = &mut self.locks else {
            return;
        };
        locks.poll(&moment(clocks));
        let mut take = |observation| {
            let nobody = &mut Hearers::default();
            self.aggregate.observe(observation, clocks, nobody);
        };
        locks
            .take_ended()
            .into_iter()
            .for_each(|wait| take(Observation::LockWait(wait)));
        locks
            .take_deadlocks()
            .into_iter()
            .for_each(|deadlock| take(Observation::Deadlock(deadlock)));
    }

    /// Looks at what every session does now, and at what the threads that do it did.
    pub(super) fn look_at_sessions(&mut self, threads: &HashMap<u32, LiveThread>) {
        let Some(locks) = &mut self.locks else {
            return;
        };
        let clocks = Clocks::now();
        let moment = moment(clocks);
        locks.look_at_sessions(&moment);
        let waits = locks.waits(&moment);
        let class = |id: u64| {
            let wait = waits.iter().find(|w| w.waiter.connection_id == Some(id))?;
            Some(match wait.kind {
                LockKind::Row => WaitClass::RowLock,
                LockKind::Metadata => WaitClass::MetadataLock,
                LockKind::Table => WaitClass::TableLock,
            })
        };
        let access = self.access.as_ref();
        let is_own = |id| access.is_some_and(|access| access.own.owns(Some(id), b""));
        let going = locks.sessions().iter().filter_map(|session| {
            let running = session.running.as_ref()?;
            (!is_own(session.connection_id)).then(|| Going {
                connection_id: session.connection_id,
                start_ns: running.start_ns,
                user: session.user.as_bytes(),
                database: session.database.as_bytes(),
                waits: class(session.connection_id),
                times: threads
                    .get(&session.tid)
                    // Another session's by now, where threads are pooled or kept.
                    .filter(|thread| thread.thd == session.thd)
                    .and_then(|thread| thread.times(running.start_ns, clocks.monotonic_ns))
                    .map(|t| Times {
                        cpu_ns: t.cpu_ns,
                        runnable_ns: t.runnable_ns,
                        blocked_ns: t.blocked_ns,
                    }),
            })
        });
        self.aggregate.look(going, clocks.monotonic_ns);
    }

    /// The server is gone: what was waited for is waited for no more.
    pub(super) fn end_locks(&mut self) {
        if let Some(locks) = &mut self.locks {
            locks.server_ended(&moment(Clocks::now()));
            self.drain_locks(Clocks::now());
        }
        self.locks = None;
    }

    /// What is not known of its locks, and why.
    pub(super) fn missing_of_locks(&self) -> Vec<(String, String)> {
        let mut missing = Vec::new();
        if let Some(locks) = &self.locks {
            missing.extend(locks.missing());
            if locks.edges_shed() {
                let why = "thousands of sessions waited at once: the probes that name whom a wait \
                           for a metadata lock is for were taken off, to spare the server";
                missing.push(("metadata-lock blockers".to_owned(), why.to_owned()));
            }
            let (untold, ring_full) = locks.lost();
            if untold + ring_full > 0 {
                let why = format!(
                    "{ring_full} steps of waits for locks found no room between kernel and agent, \
                     {untold} waits none in its tables: waits that ended may be more than counted"
                );
                missing.push(("some lock waits".to_owned(), why));
            }
        }
        let refused = self.no_locks.iter();
        missing.extend(refused.map(|why| ("lock_waits".to_owned(), why.clone())));
        missing
    }
}

pub(super) fn moment(clocks: Clocks) -> Moment {
    Moment {
        time_ns: clocks.monotonic_ns,
        unix_us: clocks.realtime_ns / 1000,
    }
}
