//! When is a process traced that is traced for a part of the time only?
//!
//! Time is cut into periods of one length, each with one slice in it, at a place that is drawn at
//! random: a program that does something every second is not always met at the same moment of it.
//! Neighbours: [`crate::source`] and [`crate::latch`] attach and detach, the binary's verb asks
//! here when.
//!
//! Invariant: pure, no clock. A seed gives the same slices again. Slices are as long as was asked
//! for, each within its period, so that their share of the time is met however they are placed.

use waggle_stats::random::Random;

/// Where slices are.
#[derive(Debug, Clone)]
pub struct Schedule {
    slice_ns: u64,
    period_ns: u64,
    random: Random,
    /// The number of the period whose slice comes next.
    period: u64,
}

impl Schedule {
    /// Slices of `slice_ns`, which are `share` of the time: more than 0, at most 1.
    pub fn new(slice_ns: u64, share: f64, seed: u64) -> Self {
        let slice_ns = slice_ns.max(1);
        Self {
            slice_ns,
            period_ns: period_ns(slice_ns, share),
            random: Random::new(seed),
            period: 0,
        }
    }

    /// How long a slice is, ns.
    pub fn slice_ns(&self) -> u64 {
        self.slice_ns
    }

    /// When the next slice begins, ns since the first period did. `now_ns`, on the same scale, is
    /// of use only to somebody who was held up: periods that are over are passed over.
    pub fn next(&mut self, now_ns: u64) -> u64 {
        self.period = self.period.max(now_ns / self.period_ns);
        let room_ns = self.period_ns - self.slice_ns;
        let within_ns = (self.random.next_unit() * room_ns as f64) as u64;
        let begins_ns = self.period * self.period_ns + within_ns;
        self.period += 1;
        begins_ns
    }
}

/// How long a period is of which `slice_ns` are `share`.
pub fn period_ns(slice_ns: u64, share: f64) -> u64 {
    let period_ns = (slice_ns as f64 / share.clamp(1e-6, 1.0)).round();
    (period_ns as u64).max(slice_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Slices as they come to be: one that would begin while the one before is still being
    /// detached begins when that is over.
    fn slices(share: f64, slice_ns: u64, periods: u64, held_up_ns: u64) -> Vec<(u64, u64)> {
        let mut schedule = Schedule::new(slice_ns, share, 7);
        let mut now_ns = 0;
        let slice = |_| {
            let from_ns = schedule.next(now_ns).max(now_ns);
            let to_ns = from_ns + schedule.slice_ns();
            now_ns = to_ns + held_up_ns;
            (from_ns, to_ns)
        };
        (0..periods).map(slice).collect()
    }

    #[test]
    fn the_share_is_met_within_a_hundredth_over_a_thousand_periods() {
        for share in [0.01, 0.1, 0.25, 0.5] {
            let all = slices(share, 500 * MS, 1_000, 120 * MS);
            let traced_ns: u64 = all.iter().map(|(from, to)| to - from).sum();
            let periods_ns = 1_000 * period_ns(500 * MS, share);
            let met = traced_ns as f64 / periods_ns as f64;
            assert!((met / share - 1.0).abs() < 0.01, "{share}: {met}");
            let last_ns = all.last().expect("a thousand").1;
            assert!(last_ns <= periods_ns + 500 * MS, "{share}: {last_ns}");
            assert!(all.is_sorted_by(|a, b| a.1 <= b.0), "{share}");
        }
    }

    #[test]
    fn phases_are_spread_over_the_period() {
        let share = 0.1;
        let period_ns = period_ns(500 * MS, share);
        let room_ns = period_ns - 500 * MS;
        let mut tenths = [0_u32; 10];
        for (from_ns, _) in slices(share, 500 * MS, 1_000, 0) {
            let tenth = from_ns % period_ns * 10 / room_ns;
            tenths[usize::try_from(tenth.min(9)).expect("a tenth")] += 1;
        }
        // 100 each, more than four standard deviations either way.
        assert!(tenths.iter().all(|n| (58..=142).contains(n)), "{tenths:?}");
    }

    #[test]
    fn a_seed_gives_the_same_slices_and_what_is_over_is_passed_over() {
        let (mut one, mut same) = (Schedule::new(5, 0.5, 3), Schedule::new(5, 0.5, 3));
        for _ in 0..100 {
            assert_eq!(one.next(0), same.next(0));
        }
        let mut late = Schedule::new(10, 0.1, 3);
        assert!((0..=90).contains(&late.next(0)));
        let next = late.next(1_234);
        assert!((1_200..=1_290).contains(&next), "{next}");
        assert!((1_300..=1_390).contains(&late.next(1_290)));
    }
}
