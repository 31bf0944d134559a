//! What is told of a wait: one entry for each blocker, with parties, lock and ages.
//!
//! Invariant: while a wait goes on, only blockers that the server named last are told; once it has
//! ended, all that it had.

use super::Analysis;
use super::open::{Blocker, Open};
use crate::lock::{LockObject, LockWait};
use crate::sessions::{Moment, Sessions};

impl Analysis {
    /// The waits that go on, longest first; one entry for each blocker.
    pub fn waits(&self, sessions: &Sessions, moment: &Moment) -> Vec<LockWait> {
        let open = self.open.values().filter(|open| open.has_begun);
        let mut waits: Vec<LockWait> = open
            .flat_map(|open| self.waits_of(open, None, sessions, moment))
            .collect();
        waits.sort_by_key(|wait| (wait.since_us, wait.id));
        waits
    }

    pub(super) fn waits_of(
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
}
