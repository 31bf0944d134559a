//! Which event is next in an open loop, and how many wait?
//!
//! There is no generator thread and no queue in memory: a worker that is free takes the next
//! intended time from the plan, sleeps if it is early, and begins at once if it is late. That is
//! a first-in-first-out queue in front of N servers. `context` does the sleeping and recording,
//! `waggle_stats::arrivals` makes the times.
//!
//! Invariant: two cursors walk the same times, one for what was claimed and one for what is due,
//! so the backlog is their distance, exact whatever the spacing and however long it is.

use std::sync::Mutex;

use waggle_stats::arrivals::{Arrivals, Times};

use crate::snapshot::Offered;
use crate::spec::Overflow;
use crate::tally::locked;

pub(crate) struct Pace {
    plan: Arrivals,
    seed: u64,
    overflow: Overflow,
    queue: Mutex<Queue>,
}

/// The next event of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It is due then, or was.
    At(u64),
    /// The plan has come to its end.
    Ended,
    /// More events wait than may.
    Overflow(TooMany),
}

/// How far the load is behind its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooMany {
    pub(crate) waiting: u64,
    pub(crate) age_ns: u64,
}

struct Queue {
    /// When the plan began, on the engine's clock; moved on by every pause.
    zero_ns: u64,
    /// While nothing may begin, the plan stands still here.
    halted_at: Option<u64>,
    claims: Cursor,
    due: Cursor,
    /// Events the claiming cursor has passed: begun, dropped, forgotten, or a sleeper's.
    claimed: u64,
    due_count: u64,
    dropped: u64,
    forgotten: u64,
    backlog_max: u64,
    restarts: u64,
}

#[derive(Clone)]
struct Cursor {
    times: Times,
    next: Option<u64>,
}

impl Cursor {
    fn new(mut times: Times) -> Cursor {
        let next = times.next();
        Cursor { times, next }
    }

    fn take(&mut self) -> Option<u64> {
        std::mem::replace(&mut self.next, self.times.next())
    }
}

impl Pace {
    /// Halted at the plan's beginning.
    pub(crate) fn new(plan: Arrivals, seed: u64, overflow: Overflow, now_ns: u64) -> Pace {
        let cursor = Cursor::new(plan.times(seed));
        Pace {
            queue: Mutex::new(Queue {
                zero_ns: now_ns,
                halted_at: Some(now_ns),
                claims: cursor.clone(),
                due: cursor,
                claimed: 0,
                due_count: 0,
                dropped: 0,
                forgotten: 0,
                backlog_max: 0,
                restarts: 0,
            }),
            plan,
            seed,
            overflow,
        }
    }

    /// The next event, for a worker that is free now.
    pub(crate) fn claim(&self, now_ns: u64) -> Claim {
        let mut queue = locked(&self.queue);
        if let Some(too_many) = queue.advance(now_ns, self.overflow) {
            return Claim::Overflow(too_many);
        }
        match queue.claims.take() {
            Some(at) => {
                queue.claimed += 1;
                Claim::At(queue.zero_ns + at)
            }
            None => Claim::Ended,
        }
    }

    /// Where the load stands; `begun` is what its workers counted.
    pub(crate) fn offered(&self, now_ns: u64, begun: u64) -> (Offered, Option<TooMany>) {
        let mut queue = locked(&self.queue);
        let too_many = queue.advance(now_ns, self.overflow);
        let gone = begun + queue.dropped + queue.forgotten;
        let backlog = match queue.halted_at {
            // Also what sleepers had taken when they were told not to begin it.
            Some(_) => queue.due_count.saturating_sub(gone),
            None => queue.backlog(),
        };
        let offered = Offered {
            due: queue.due_count,
            begun,
            dropped: queue.dropped,
            forgotten: queue.forgotten,
            backlog,
            backlog_max: queue.backlog_max,
            backlog_age_ns: queue.age_ns(now_ns),
        };
        (offered, too_many)
    }

    /// From now on nothing becomes due.
    pub(crate) fn halt(&self, now_ns: u64) {
        let mut queue = locked(&self.queue);
        queue.advance(now_ns, self.overflow);
        queue.halted_at.get_or_insert(now_ns);
    }

    /// What waits will never begin: while halted, with no worker under way.
    pub(crate) fn forget_backlog(&self, begun: u64) {
        let mut queue = locked(&self.queue);
        let gone = begun + queue.dropped;
        queue.forgotten = queue.due_count.saturating_sub(gone).max(queue.forgotten);
        queue.claims = queue.due.clone();
        queue.claimed = queue.due_count;
    }

    /// Takes the plan up where it was halted.
    pub(crate) fn go_on(&self, now_ns: u64, begun: u64) {
        let halted_at = locked(&self.queue).halted_at;
        let Some(halted_at) = halted_at else { return };
        self.forget_backlog(begun);
        let mut queue = locked(&self.queue);
        queue.zero_ns += now_ns.saturating_sub(halted_at);
        queue.halted_at = None;
    }

    /// While halted: the plan begins anew when it goes on.
    pub(crate) fn rewind(&self, now_ns: u64, begun: u64) {
        self.forget_backlog(begun);
        let mut queue = locked(&self.queue);
        queue.restarts += 1;
        // A run of its own: other times than those the warm-up saw.
        let seed = self.seed.wrapping_add(queue.restarts);
        queue.due = Cursor::new(self.plan.times(seed));
        queue.claims = queue.due.clone();
        queue.zero_ns = now_ns;
        queue.halted_at = Some(now_ns);
        queue.backlog_max = 0;
    }
}

impl Queue {
    /// Counts what has become due, and drops what may not wait.
    fn advance(&mut self, now_ns: u64, overflow: Overflow) -> Option<TooMany> {
        let now = self
            .halted_at
            .unwrap_or(now_ns)
            .saturating_sub(self.zero_ns);
        while self.due.next.is_some_and(|at| at <= now) {
            self.due.take();
            self.due_count += 1;
        }
        let (limit, drops) = match overflow {
            Overflow::Queue => (u64::MAX, false),
            Overflow::Drop { waiting } => (waiting, true),
            Overflow::Abort { waiting } => (waiting, false),
        };
        if drops {
            for _ in limit..self.backlog() {
                self.claims.take();
                self.claimed += 1;
                self.dropped += 1;
            }
        }
        let waiting = self.backlog();
        self.backlog_max = self.backlog_max.max(waiting);
        (waiting > limit).then(|| TooMany {
            waiting,
            age_ns: self.age_ns(now_ns),
        })
    }

    /// Events that are due and that no worker has taken.
    fn backlog(&self) -> u64 {
        self.due_count.saturating_sub(self.claimed)
    }

    fn age_ns(&self, now_ns: u64) -> u64 {
        let now = self
            .halted_at
            .unwrap_or(now_ns)
            .saturating_sub(self.zero_ns);
        let oldest = self.claims.next.filter(|_| self.backlog() > 0);
        oldest.map_or(0, |at| now.saturating_sub(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use waggle_stats::arrivals::Spacing;

    const MS: u64 = 1_000_000;

    /// One event a millisecond, from 1,000 ms of the clock on.
    fn pace(overflow: Overflow) -> Pace {
        let plan = Arrivals::constant(1_000.0, Spacing::Uniform);
        let pace = Pace::new(plan, 1, overflow, 900 * MS);
        pace.go_on(1_000 * MS, 0);
        pace
    }

    #[test]
    fn events_are_claimed_in_order_ahead_and_behind() {
        let pace = pace(Overflow::Queue);
        assert_eq!(pace.claim(1_000 * MS), Claim::At(1_001 * MS));
        assert_eq!(pace.claim(1_000 * MS), Claim::At(1_002 * MS));
        // 10 are due, 2 of them are taken.
        let (offered, too_many) = pace.offered(1_010 * MS, 2);
        assert_eq!((offered.due, offered.backlog, offered.begun), (10, 8, 2));
        assert_eq!((offered.backlog_age_ns, too_many), (7 * MS, None));
        assert_eq!(pace.claim(1_010 * MS), Claim::At(1_003 * MS));
        let (offered, _) = pace.offered(1_010 * MS, 3);
        assert_eq!((offered.backlog, offered.backlog_max), (7, 8));
    }

    #[test]
    fn the_oldest_are_dropped_above_the_limit() {
        let pace = pace(Overflow::Drop { waiting: 3 });
        assert_eq!(pace.claim(1_010 * MS), Claim::At(1_008 * MS));
        let (offered, too_many) = pace.offered(1_010 * MS, 1);
        assert_eq!((offered.dropped, offered.backlog), (7, 2));
        assert_eq!((offered.due, too_many), (10, None));
        let (offered, _) = pace.offered(1_020 * MS, 1);
        assert_eq!(
            (offered.dropped, offered.backlog, offered.backlog_max),
            (16, 3, 3)
        );
        assert_eq!(
            offered.due,
            offered.begun + offered.dropped + offered.backlog
        );
    }

    #[test]
    fn too_many_waiting_are_told_to_claims_and_readers() {
        let pace = pace(Overflow::Abort { waiting: 3 });
        assert_eq!(pace.claim(1_003 * MS), Claim::At(1_001 * MS));
        let too_many = TooMany {
            waiting: 4,
            age_ns: 3 * MS,
        };
        assert_eq!(pace.offered(1_005 * MS, 1).1, Some(too_many));
        assert_eq!(pace.claim(1_005 * MS), Claim::Overflow(too_many));
    }

    #[test]
    fn a_pause_stops_the_plan_and_forgets_what_waited() {
        let pace = pace(Overflow::Queue);
        for _ in 0..4 {
            pace.claim(1_000 * MS);
        }
        pace.halt(1_010 * MS);
        // Of 10 due ones 4 were begun; the others are nobody's.
        pace.forget_backlog(4);
        let (offered, _) = pace.offered(1_500 * MS, 4);
        assert_eq!(
            (offered.due, offered.forgotten, offered.backlog),
            (10, 6, 0)
        );
        pace.go_on(2_000 * MS, 4);
        assert_eq!(pace.claim(2_000 * MS), Claim::At(2_001 * MS));
        let (offered, _) = pace.offered(2_003 * MS, 5);
        assert_eq!(
            (offered.due, offered.forgotten, offered.backlog),
            (13, 6, 2)
        );
        // A sleeper's event that never was due is nobody's loss.
        pace.claim(2_003 * MS);
        pace.claim(2_003 * MS);
        pace.claim(2_003 * MS);
        pace.halt(2_003 * MS);
        pace.rewind(3_000 * MS, 7);
        pace.go_on(3_000 * MS, 7);
        assert_eq!(pace.claim(3_000 * MS), Claim::At(3_001 * MS));
        let (offered, _) = pace.offered(3_001 * MS, 8);
        assert_eq!(
            (offered.due, offered.forgotten, offered.backlog_max),
            (14, 6, 0)
        );
    }

    #[test]
    fn a_plan_that_ends_says_so() {
        let mut plan = Arrivals::constant(0.0, Spacing::Uniform);
        plan.stages[0].duration_s = 1.0;
        plan.stages[0].from = 4.0;
        let pace = Pace::new(plan, 1, Overflow::Queue, 0);
        pace.go_on(0, 0);
        assert!(matches!(pace.claim(0), Claim::At(_)));
        assert_eq!(pace.claim(0), Claim::Ended);
    }
}
