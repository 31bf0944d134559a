//! What the readings of two positions say: rates, and how far the replica is behind in time.
//!
//! Neighbour: `stage` reads the positions. Counts are of transactions since one common moment at
//! which the replica had everything. Pure: no clock and no server. Invariant: a rate is the
//! difference of two exact counts over the time between them.

/// How a count of transactions grew, from readings in the order of time.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Track {
    /// Seconds since the beginning, and transactions by then.
    points: Vec<(f64, u64)>,
}

impl Track {
    /// Adds a reading.
    pub(super) fn push(&mut self, at_s: f64, count: u64) {
        self.points.push((at_s, count));
    }

    /// The last reading's count; 0 if there is none.
    pub(super) fn last(&self) -> u64 {
        self.points.last().map_or(0, |(_, count)| *count)
    }

    /// Transactions a second between the first reading from `from_s` on and the last one whose
    /// count is at most `to_count`. `None`: there are no two such readings.
    pub(super) fn rate(&self, from_s: f64, to_count: u64) -> Option<Slope> {
        let mut within = self
            .points
            .iter()
            .filter(|(at, count)| *at >= from_s && *count <= to_count);
        let first = within.next()?;
        let last = within.next_back()?;
        let (seconds, transactions) = (last.0 - first.0, last.1.checked_sub(first.1)?);
        (seconds > 0.0).then_some(Slope {
            seconds,
            transactions,
        })
    }

    /// When the count was reached, between two readings in proportion; `None`: it was not.
    fn reached_at(&self, count: u64) -> Option<f64> {
        let after = self.points.iter().position(|(_, c)| *c >= count)?;
        let (at, there) = self.points[after];
        let Some((before_at, before)) = after.checked_sub(1).map(|i| self.points[i]) else {
            return Some(at);
        };
        // `before < count <= there`, so the divisor is not 0.
        let share = (count - before) as f64 / (there - before) as f64;
        Some(before_at + share * (at - before_at))
    }
}

/// A stretch of a track.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Slope {
    pub(super) seconds: f64,
    pub(super) transactions: u64,
}

impl Slope {
    /// Transactions a second.
    pub(super) fn per_s(self) -> f64 {
        self.transactions as f64 / self.seconds
    }
}

/// How far behind the replica was at each of its readings, in seconds: how long ago the primary had
/// committed no more than the replica has applied now. 0 where it has everything.
pub(super) fn lags_s(primary: &Track, replica: &Track) -> Vec<f64> {
    let lag = |&(at, applied): &(f64, u64)| {
        // What the primary had at that moment: its last reading before, at least.
        let before = primary.points.iter().take_while(|(p, _)| *p <= at);
        let written = before.last().map_or(0, |(_, count)| *count);
        if applied >= written {
            return 0.0;
        }
        primary
            .reached_at(applied)
            .map_or(0.0, |then| (at - then).max(0.0))
    };
    replica.points.iter().map(lag).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track(points: &[(f64, u64)]) -> Track {
        let mut track = Track::default();
        for (at, count) in points {
            track.push(*at, *count);
        }
        track
    }

    #[test]
    fn a_rate_leaves_out_the_beginning_and_the_end() {
        let drained = track(&[(0.0, 0), (0.5, 10), (1.0, 510), (2.0, 1510), (2.5, 1600)]);
        let slope = drained.rate(0.4, 1590).unwrap();
        assert_eq!((slope.transactions, slope.seconds), (1500, 1.5));
        assert_eq!(slope.per_s(), 1000.0);
        assert_eq!(drained.rate(2.2, 1600), None, "one reading is no stretch");
        assert_eq!(Track::default().rate(0.0, 9), None);
        assert_eq!(drained.last(), 1600);
    }

    #[test]
    fn lag_is_the_time_since_the_primary_was_there() {
        let primary = track(&[(0.0, 0), (1.0, 1000), (2.0, 2000), (3.0, 2000)]);
        let replica = track(&[(0.5, 0), (1.0, 500), (2.0, 1500), (3.0, 2000)]);
        let lags = lags_s(&primary, &replica);
        // At 0.5 s the primary's last reading was of 0.
        assert_eq!(lags, [0.0, 0.5, 0.5, 0.0]);
        assert_eq!(lags_s(&Track::default(), &replica), [0.0; 4]);
        let stuck = track(&[(3.0, 0)]);
        assert_eq!(lags_s(&primary, &stuck), [3.0]);
    }
}
