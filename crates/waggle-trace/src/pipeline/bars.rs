//! How are many times taken down at next to no cost while a trace runs?
//!
//! What a wait touches is cold by the next look at the rings, so memory that is touched is what
//! recording costs. [`Latencies`] keeps times until there are enough to be worth a walk over a
//! histogram of three digits; [`Bars`] is small enough for one a thread and one a caller.
//! Neighbours: `waggle_stats::latency` is the histogram, `aggregate` says what is recorded.
//!
//! Invariant: what is told has every time in it that was recorded.

use waggle_stats::latency::{LatencyHistogram, LatencySummary};

/// Times kept before they are put into their histogram.
const PENDING_MAX: usize = 512;

/// Times to three digits.
#[derive(Debug, Clone, Default)]
pub struct Latencies {
    histogram: LatencyHistogram,
    pending: Vec<u64>,
}

impl Latencies {
    /// Records a time, ns.
    pub fn record(&mut self, ns: u64) {
        self.pending.push(ns);
        if self.pending.len() >= PENDING_MAX {
            let pending = self.pending.drain(..);
            pending.for_each(|ns| self.histogram.record(ns));
        }
    }

    /// The histogram of all of them.
    pub fn histogram(&self) -> LatencyHistogram {
        let mut all = self.histogram.clone();
        self.pending.iter().for_each(|ns| all.record(*ns));
        all
    }

    /// The figures for a table.
    pub fn summary(&self) -> LatencySummary {
        self.histogram().summary()
    }
}

/// Which of the buckets `ns` falls into that divide every doubling into 2^`bits`: from there on
/// each is at most 1/2^`bits` of its value wide, below each is 1 ns.
pub(super) fn bucket_of(ns: u64, bits: u32) -> u16 {
    let magnitude = (63 - (ns | 1).leading_zeros()).saturating_sub(bits);
    // At most (57 << 6) + 127, or (56 << 7) + 255.
    ((magnitude << bits) + (ns >> magnitude) as u32) as u16
}

/// The least that falls into a bucket, ns.
pub(super) fn bucket_begin(bucket: u16, bits: u32) -> u64 {
    let bucket = u64::from(bucket);
    let steps = 1 << bits;
    let magnitude = (bucket / steps).saturating_sub(1);
    (bucket - magnitude * steps) << magnitude
}

/// Steps of a doubling that [`Bars`] tell apart: 128, so that a bucket is at most 0.8% wide.
const BARS_BITS: u32 = 7;

/// How many times fall into each bucket, to two digits. Only the buckets between the shortest time
/// and the longest are kept.
#[derive(Debug, Clone, Default)]
pub(super) struct Bars {
    first: u16,
    counts: Vec<u32>,
}

impl Bars {
    /// Adds times that fall into one bucket.
    fn add(&mut self, bucket: u16, count: u32) {
        if self.counts.is_empty() {
            self.first = bucket;
        }
        if bucket < self.first {
            let before = usize::from(self.first - bucket);
            drop(self.counts.splice(0..0, std::iter::repeat_n(0, before)));
            self.first = bucket;
        }
        let at = usize::from(bucket - self.first);
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] = self.counts[at].saturating_add(count);
    }

    /// Records a time, ns.
    pub(super) fn record(&mut self, ns: u64) {
        self.add(bucket_of(ns, BARS_BITS), 1);
    }

    /// Adds all times of another.
    pub(super) fn merge(&mut self, other: &Bars) {
        for (bucket, count) in (other.first..).zip(&other.counts) {
            if *count > 0 {
                self.add(bucket, *count);
            }
        }
    }

    /// The value up to which this share of the times lies: the largest of its bucket, ns; 0 if
    /// there are none.
    pub(super) fn quantile_ns(&self, quantile: f64) -> u64 {
        let total: u64 = self.counts.iter().map(|count| u64::from(*count)).sum();
        let wanted = ((quantile * total as f64).ceil() as u64).clamp(1, total.max(1));
        let mut sum = 0;
        for (bucket, count) in (self.first..).zip(&self.counts) {
            sum += u64::from(*count);
            if sum >= wanted {
                // The last bucket of all ends where numbers do.
                return bucket_begin(bucket + 1, BARS_BITS).wrapping_sub(1);
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_that_wait_to_be_put_in_are_told() {
        let mut latencies = Latencies::default();
        let mut known = LatencyHistogram::new();
        for ns in 0..PENDING_MAX as u64 * 5 / 2 {
            latencies.record(ns * 1_000);
            known.record(ns * 1_000);
            if ns % 100 == 0 {
                assert_eq!(latencies.histogram().count(), known.count());
            }
        }
        assert_eq!(latencies.summary(), known.summary());
    }

    proptest! {
        /// The same as a histogram of two digits, to the nanosecond.
        #[test]
        fn quantiles_are_those_of_the_bucket_that_holds_them(
            times in prop::collection::vec(0_u64..1 << 42, 0..200),
            short in prop::collection::vec(0_u64..600, 0..50),
            quantile in 0.001_f64..1.0,
        ) {
            let mut known = Histogram::<u32>::new(2).unwrap();
            let (mut bars, mut others) = (Bars::default(), Bars::default());
            for (index, ns) in times.iter().chain(&short).enumerate() {
                known.record(*ns).unwrap();
                if index % 3 == 0 {
                    others.record(*ns);
                } else {
                    bars.record(*ns);
                }
            }
            bars.merge(&others);
            prop_assert_eq!(bars.quantile_ns(quantile), known.value_at_quantile(quantile));
            prop_assert_eq!(bars.quantile_ns(1.0), known.value_at_quantile(1.0));
        }
    }
}
