//! When did a statement begin, if the server noted that by the wall clock, which may be set?
//!
//! A server that takes start times from the wall clock has a statement that goes on while the clock
//! is set begin an hour ago, or in an hour. Neighbour: `trust` asks. Invariants: what began before
//! a step is reckoned by the clock as it was then; a beginning after the end is none.

use crate::aggregate::Clocks;

/// Between two looks a clock that is only steered moves less than this, ns.
const STEP_NS: i64 = 10_000_000;
/// A beginning may seem this much after the end, ns: both clocks are not read in one moment.
const SKEW_NS: i64 = 1_000_000;

/// The wall clock, as it stands against the monotonic one.
#[derive(Debug, Clone, Default)]
pub(super) struct WallClock {
    /// Wall less monotonic at the last look, ns; when that was, monotonic, ns.
    looked: Option<(i64, i64)>,
    /// The same before the last step.
    before: Option<(i64, i64)>,
}

impl WallClock {
    /// Takes in how the clocks stand now.
    pub(super) fn look(&mut self, clocks: Clocks) {
        let now_ns = clocks.monotonic_ns.cast_signed();
        let ahead_ns = clocks.realtime_ns.cast_signed().wrapping_sub(now_ns);
        if let Some((former_ns, _)) = self.looked
            && (ahead_ns - former_ns).abs() > STEP_NS
        {
            self.before = self.looked;
        }
        self.looked = Some((ahead_ns, now_ns));
    }

    /// How long before `end_ns` (monotonic) `start_ns` of the wall clock was, ns; `None` if it was
    /// not before it.
    pub(super) fn age_ns(&self, start_ns: u64, end_ns: u64) -> Option<u64> {
        let (ahead_ns, _) = self.looked?;
        let (start_ns, end_ns) = (i64::try_from(start_ns).ok()?, end_ns.cast_signed());
        let age = |ahead_ns: i64| end_ns.checked_sub(start_ns.checked_sub(ahead_ns)?);
        let mut found = age(ahead_ns)?;
        if let Some((former_ns, stepped_ns)) = self.before {
            let is_after_the_step = end_ns - found >= stepped_ns;
            if !is_after_the_step || found < -SKEW_NS {
                found = age(former_ns)?;
            }
        }
        (found >= -SKEW_NS).then(|| found.max(0).unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_NS: i64 = 3_600_000_000_000;
    const MS: u64 = 1_000_000;
    const SET: u64 = 1_700_000_000_000_000_000;

    /// Clocks at `ms` after a moment, the wall clock set by `step_ns` from what it was then.
    fn clocks(ms: u64, step_ns: i64) -> Clocks {
        Clocks {
            monotonic_ns: 5_000_000_000 + ms * MS,
            realtime_ns: SET.wrapping_add_signed(step_ns) + ms * MS,
        }
    }

    fn age_ms(wall: &WallClock, start: Clocks, end: Clocks) -> Option<u64> {
        let age = wall.age_ns(start.realtime_ns, end.monotonic_ns);
        age.map(|ns| ns / MS)
    }

    #[test]
    fn a_step_lengthens_no_statement() {
        for step in [HOUR_NS, -HOUR_NS, 1_000_000_000, -60_000_000_000] {
            let mut wall = WallClock::default();
            wall.look(clocks(0, 0));
            wall.look(clocks(100, 0));
            // Set at some time until the next look.
            wall.look(clocks(200, step));
            wall.look(clocks(300, step));
            // Before it, across it, after it.
            let of = |start, end| age_ms(&wall, start, end);
            assert_eq!(of(clocks(20, 0), clocks(90, 0)), Some(70), "{step}");
            assert_eq!(of(clocks(20, 0), clocks(250, step)), Some(230), "{step}");
            assert_eq!(of(clocks(140, 0), clocks(160, 0)), Some(20), "{step}");
            assert_eq!(of(clocks(210, step), clocks(290, step)), Some(80), "{step}");
        }
    }

    #[test]
    fn steering_is_no_step_and_a_start_after_the_end_is_none() {
        let mut wall = WallClock::default();
        assert_eq!(wall.age_ns(SET, 5), None);
        for tenth in 0..100 {
            wall.look(clocks(tenth * 100, i64::try_from(tenth).unwrap() * 50_000));
        }
        assert_eq!(wall.before, None);
        let end = clocks(9900, 0).monotonic_ns;
        assert_eq!(wall.age_ns(clocks(20_000, 0).realtime_ns, end), None);
        // A hair after it is within what two readings differ.
        assert_eq!(
            wall.age_ns(clocks(9900, 99 * 50_000 + 10).realtime_ns, end),
            Some(0)
        );
        assert_eq!(wall.age_ns(u64::MAX, end), None);
    }
}
