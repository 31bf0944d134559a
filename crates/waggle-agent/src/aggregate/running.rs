//! Time of statements that go on, so that one of an hour shows as load within a second and not
//! after the hour.
//!
//! What was counted of a statement while it ran is left out when it ends. Invariant: no part of a
//! dimension ever shrinks, and in all a statement's time is counted once.

use std::collections::HashMap;

use waggle_probes::wait::WaitClass;

use super::session_time::Split;
use crate::statement::Times;

/// Most statements followed at once.
const RUNNING_MAX: usize = 20_000;

/// A statement that goes on, as one look saw it.
#[derive(Debug, Clone, Copy)]
pub struct Going<'a> {
    /// Connection id.
    pub connection_id: u64,
    /// When it began, ns of the monotonic clock.
    pub start_ns: u64,
    /// User name.
    pub user: &'a [u8],
    /// Default database.
    pub database: &'a [u8],
    /// What it waits for, if that is known.
    pub waits: Option<WaitClass>,
    /// Where all of its time went so far, if that is known.
    pub times: Option<Times>,
}

/// What was counted of one statement.
#[derive(Debug, Clone, Copy)]
struct Counted {
    start_ns: u64,
    split: Split,
    /// At which look it was seen last.
    look: u64,
}

/// Statements that go on.
#[derive(Debug, Default)]
pub(super) struct Running {
    counted: HashMap<u64, Counted>,
    looks: u64,
}

impl Running {
    /// Begins a look.
    pub(super) fn begin(&mut self) {
        self.looks += 1;
    }

    /// What is new of a statement at `now_ns`; nothing before it is a second old.
    pub(super) fn look(&mut self, going: &Going<'_>, now_ns: u64) -> Option<Split> {
        /// Shorter ones are counted at their end, as nearly all are.
        const AGE_MIN_NS: u64 = 1_000_000_000;
        let age_ns = now_ns.saturating_sub(going.start_ns);
        let is_known = self.counted.contains_key(&going.connection_id);
        if age_ns < AGE_MIN_NS || !is_known && self.counted.len() >= RUNNING_MAX {
            return None;
        }
        let fresh = Counted {
            start_ns: going.start_ns,
            split: Split::default(),
            look: self.looks,
        };
        let counted = self.counted.entry(going.connection_id).or_insert(fresh);
        // Start times are read from the server in us.
        if counted.start_ns.abs_diff(going.start_ns) > 1_000_000 {
            *counted = fresh;
        }
        counted.look = self.looks;
        let new = if let Some(times) = &going.times {
            Split::of(age_ns, Some(times)).without(&counted.split)
        } else {
            let new_ns = age_ns.saturating_sub(counted.split.total_ns());
            let mut times = Times::default();
            if let Some(class) = going.waits {
                times.blocked_ns[class.index()] = new_ns;
            }
            Split::of(new_ns, Some(&times))
        };
        counted.split.add(&new);
        Some(new)
    }

    /// Ends a look: statements that were not seen are over, and if they have not been counted as
    /// such by now, they never will be.
    pub(super) fn end(&mut self) {
        let looks = self.looks;
        // Two looks of grace: the end may still be in the ring buffer.
        self.counted.retain(|_, counted| counted.look + 2 > looks);
    }

    /// What is left to count of a statement that ended.
    #[inline]
    pub(super) fn ended(&mut self, connection_id: Option<u64>, split: Split) -> Split {
        if self.counted.is_empty() {
            return split;
        }
        let counted = connection_id.and_then(|id| self.counted.remove(&id));
        counted.map_or(split, |counted| split.without(&counted.split))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn going(waits: Option<WaitClass>) -> Going<'static> {
        Going {
            connection_id: 5,
            start_ns: 100 * SECOND,
            user: b"",
            database: b"",
            waits,
            times: None,
        }
    }

    #[test]
    fn a_running_statement_is_split_as_far_as_it_is_known() {
        let mut running = Running::default();
        let mut sum = Split::default();
        for age in [2, 5] {
            running.begin();
            let mut times = Times {
                cpu_ns: SECOND,
                runnable_ns: SECOND / 2,
                ..Times::default()
            };
            times.blocked_ns[WaitClass::DiskRead.index()] = (age - 2) * SECOND;
            let going = Going {
                times: Some(times),
                ..going(None)
            };
            let new = running.look(&going, (100 + age) * SECOND);
            sum.add(&new.expect("something new"));
            running.end();
        }
        let told = sum.seconds();
        assert_eq!((told.cpu_s, told.runnable_s), (1.0, 0.5), "{told:?}");
        assert_eq!(told.blocked_s[WaitClass::DiskRead.index()], 3.0, "{told:?}");
        assert_eq!(sum.total_ns(), 5 * SECOND);
    }

    #[test]
    fn a_long_statement_counts_while_it_runs_and_not_again_at_its_end() {
        let mut running = Running::default();
        let mut sum = Split::default();
        for (age, waits) in [(2, None), (3, Some(WaitClass::RowLock)), (7, None)] {
            running.begin();
            let new = running.look(&going(waits), (100 + age) * SECOND);
            sum.add(&new.expect("something new"));
            running.end();
            assert_eq!(sum.total_ns(), age * SECOND);
        }
        // It ends after 8 s, and the source knows where all of them went.
        let times = Times {
            cpu_ns: 8 * SECOND,
            ..Times::default()
        };
        let rest = running.ended(Some(5), Split::of(8 * SECOND, Some(&times)));
        sum.add(&rest);
        assert!(sum.total_ns().abs_diff(8 * SECOND) < 20, "{sum:?}");
        // The next statement of that connection counts in full.
        let next = Split::of(SECOND, None);
        assert_eq!(running.ended(Some(5), next), next);
    }

    #[test]
    fn short_statements_are_left_to_their_end_and_lost_ones_are_forgotten() {
        let mut running = Running::default();
        running.begin();
        assert_eq!(running.look(&going(None), 100 * SECOND + SECOND / 2), None);
        assert!(running.look(&going(None), 102 * SECOND).is_some());
        running.end();
        for _ in 0..2 {
            running.begin();
            running.end();
        }
        assert!(running.counted.is_empty());
    }
}
