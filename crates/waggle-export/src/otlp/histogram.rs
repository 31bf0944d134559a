//! How does our histogram become one of OpenTelemetry's exponential ones?
//!
//! Ours has 32 linear buckets to the octave, theirs a fixed ratio between bounds, so a bucket is
//! put where its middle lies: no count is lost, and none moves by more than half of one of our
//! buckets (1.6%). Neighbour: `metrics`. Invariant: at most [`BUCKETS_MAX`] buckets, as many as the
//! SDKs of OpenTelemetry allow.

use super::proto::Buckets;

/// Sixteen buckets to the octave, a ratio of 4.4%, if the range allows.
const SCALE: i32 = 4;
/// Most that a point has.
pub(crate) const BUCKETS_MAX: usize = 160;

/// Scale and buckets for `bars`: upper bound, ns, and count, by bound. Values are in seconds.
pub(crate) fn exponential(bars: &[(u64, u64)]) -> (i32, Buckets) {
    let index = |upper: u64| {
        let ratio = 2f64.powi(SCALE);
        // Bounds belong to the bucket below.
        (((middle_ns(upper) / 1e9).log2() * ratio).ceil() as i32) - 1
    };
    let (Some(first), Some(last)) = (bars.first(), bars.last()) else {
        return (SCALE, Buckets::default());
    };
    let (first, last) = (index(first.0), index(last.0));
    // Two neighbours become one for each step down.
    let mut down = 0;
    while ((last >> down) - (first >> down)) as usize >= BUCKETS_MAX {
        down += 1;
    }
    let offset = first >> down;
    let mut counts = vec![0; ((last >> down) - offset) as usize + 1];
    for &(upper, count) in bars {
        counts[((index(upper) >> down) - offset) as usize] += count;
    }
    (SCALE - down, Buckets { offset, counts })
}

/// The middle of the bucket of ours that ends at `upper`, ns.
fn middle_ns(upper: u64) -> f64 {
    let width = if upper <= 1024 {
        32
    } else {
        1 << ((upper - 1).ilog2() - 5)
    };
    upper as f64 - width.min(upper) as f64 / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use waggle_stats::compact::CompactHistogram;

    fn bars(histogram: &CompactHistogram) -> Vec<(u64, u64)> {
        histogram
            .bars()
            .map(|(_, upper, n)| (upper as u64, n))
            .collect()
    }

    #[test]
    fn middles_are_those_of_our_buckets() {
        let mut histogram = CompactHistogram::default();
        let mut ns = 1;
        while ns < 1 << 41 {
            histogram.record(ns);
            ns = ns * 9 / 8 + 1;
        }
        for (lower, upper, _) in histogram.bars() {
            assert_eq!(middle_ns(upper as u64), (lower + upper) / 2.0, "{upper}");
        }
    }

    #[test]
    fn every_latency_is_in_its_bucket_or_beside_it() {
        for ns in [
            17,
            1000,
            1024,
            50_123,
            999_999,
            1_000_000_000,
            3_600_000_000_000,
        ] {
            let mut histogram = CompactHistogram::default();
            histogram.record(ns);
            let (scale, buckets) = exponential(&bars(&histogram));
            assert_eq!((scale, buckets.counts.len()), (SCALE, 1), "{ns}");
            let base = 2f64.powf(2f64.powi(-scale));
            let lower = base.powi(buckets.offset) * 1e9;
            let upper = base.powi(buckets.offset + 1) * 1e9;
            // Below 1 us our buckets are 32 ns wide.
            let slack = if ns < 1024 { 32.0 } else { ns as f64 * 0.017 };
            assert!(
                lower - slack <= ns as f64 && ns as f64 <= upper + slack,
                "{ns}"
            );
        }
    }

    #[test]
    fn a_wide_range_gets_coarser_buckets_and_loses_no_count() {
        let mut histogram = CompactHistogram::default();
        let mut ns = 1_000;
        while ns < 4_000_000_000_000 {
            histogram.record(ns);
            ns = ns * 5 / 4;
        }
        let (scale, buckets) = exponential(&bars(&histogram));
        assert!(scale < SCALE && buckets.counts.len() <= BUCKETS_MAX);
        assert_eq!(buckets.counts.iter().sum::<u64>(), histogram.count());
        assert_eq!(exponential(&[]), (SCALE, Buckets::default()));
    }
}
