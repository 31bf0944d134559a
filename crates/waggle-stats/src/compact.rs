//! A latency histogram small enough to keep one per statement digest.
//!
//! 32 buckets to the octave from 1 us to 73 minutes, so a percentile is off by at most 1.6%. Only
//! the octaves between the shortest and the longest latency seen are stored: 256 bytes each, eight
//! kilobytes at most. Neighbour: [`crate::latency`] is exact to three digits and fifty times
//! larger.

/// Buckets to the octave.
const STEPS: u64 = 32;
/// Logarithm of [`STEPS`].
const STEP_BITS: u32 = 5;
/// The first octave begins at 2^10 ns, about 1 us; shorter latencies share linear buckets below.
const OCTAVE_FIRST: u32 = 10;
/// Octaves covered.
const OCTAVES: usize = 32;

/// Buckets in all.
const BUCKETS: usize = (OCTAVES + 1) * STEPS as usize;

/// Counts of latencies by size.
#[derive(Debug, Clone, Default)]
pub struct CompactHistogram {
    /// Counts of the buckets from `first` on, whole octaves.
    buckets: Vec<u64>,
    first: usize,
    count: u64,
    sum_ns: u64,
    max_ns: u64,
}

/// The bucket that holds `ns`.
fn bucket(ns: u64) -> usize {
    let octave = (64 - ns.leading_zeros()).saturating_sub(OCTAVE_FIRST + 1);
    let index = if ns < 1 << OCTAVE_FIRST {
        ns >> (OCTAVE_FIRST - STEP_BITS)
    } else {
        let within = (ns >> (octave + OCTAVE_FIRST - STEP_BITS)) & (STEPS - 1);
        (u64::from(octave) + 1) * STEPS + within
    };
    usize::try_from(index)
        .unwrap_or(usize::MAX)
        .min(BUCKETS - 1)
}

/// Where bucket `index` begins, and how wide it is, ns.
fn span_ns(index: usize) -> (f64, f64) {
    let (octave, within) = (index / STEPS as usize, index % STEPS as usize);
    let width = if octave == 0 {
        f64::from(1u32 << (OCTAVE_FIRST - STEP_BITS))
    } else {
        2f64.powi(i32::try_from(octave).unwrap_or(0) - 1 + (OCTAVE_FIRST - STEP_BITS) as i32)
    };
    let start = if octave == 0 {
        0.0
    } else {
        width * STEPS as f64
    };
    (start + width * within as f64, width)
}

/// The middle of bucket `index`, ns.
fn middle_ns(index: usize) -> f64 {
    let (start, width) = span_ns(index);
    start + width * 0.5
}

impl CompactHistogram {
    /// Counts one latency, ns.
    pub fn record(&mut self, ns: u64) {
        self.add(bucket(ns), 1);
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Counts `count` latencies of which only the sum, the longest so far and perhaps a histogram
    /// (`bars`: highest latency of the bar, and how many) are known, ns. Those without a bar are
    /// put where their mean is.
    pub fn record_summed(&mut self, count: u64, sum_ns: u64, max_ns: u64, bars: &[(u64, u64)]) {
        let mut left = count;
        for &(highest, number) in bars {
            let number = number.min(left);
            self.add(bucket(highest), number);
            left -= number;
        }
        if left > 0 {
            self.add(bucket(sum_ns / count.max(1)), left);
        }
        self.count += count;
        self.sum_ns = self.sum_ns.saturating_add(sum_ns);
        self.max_ns = self.max_ns.max(max_ns);
    }

    /// Adds all that `other` counted.
    pub fn merge(&mut self, other: &Self) {
        for (at, count) in other.buckets.iter().enumerate() {
            if *count > 0 {
                self.add(other.first + at, *count);
            }
        }
        self.count += other.count;
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    #[inline]
    fn add(&mut self, bucket: usize, count: u64) {
        // Below `first` this wraps to beyond the end.
        match self.buckets.get_mut(bucket.wrapping_sub(self.first)) {
            Some(slot) => *slot = slot.saturating_add(count),
            None => self.grow(bucket, count),
        }
    }

    #[cold]
    fn grow(&mut self, bucket: usize, count: u64) {
        let octave = bucket - bucket % STEPS as usize;
        if self.buckets.is_empty() {
            self.first = octave;
        } else if octave < self.first {
            let more = self.first - octave;
            self.buckets.splice(0..0, std::iter::repeat_n(0, more));
            self.first = octave;
        }
        let end = octave + STEPS as usize - self.first;
        if self.buckets.len() < end {
            self.buckets.reserve_exact(end - self.buckets.len());
            self.buckets.resize(end, 0);
        }
        let slot = &mut self.buckets[bucket - self.first];
        *slot = slot.saturating_add(count);
    }

    /// The buckets that hold something, shortest first: where each begins and ends (ns), and how
    /// many latencies it holds.
    pub fn bars(&self) -> impl Iterator<Item = (f64, f64, u64)> + '_ {
        let held = self.buckets.iter().enumerate().filter(|(_, n)| **n > 0);
        held.map(|(at, count)| {
            let (start, width) = span_ns(self.first + at);
            (start, start + width, *count)
        })
    }

    /// Latencies counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many latencies are below each of `bounds_ns`, which ascend: exact for powers of two of
    /// at least 1024, else all of the bucket that holds the bound are left out.
    pub fn counts_below<const N: usize>(&self, bounds_ns: &[u64; N]) -> [u64; N] {
        let (mut from, mut sum) = (0, 0);
        bounds_ns.map(|ns| {
            let to = bucket(ns).min(self.buckets.len()).max(from);
            let more = self.buckets[from..to].iter().copied();
            sum += more.sum::<u64>();
            from = to;
            sum
        })
    }

    /// Their sum, ns.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// Mean, us; 0 if nothing was counted.
    pub fn mean_us(&self) -> f64 {
        if self.count == 0 {
            0.0
        } else {
            self.sum_ns as f64 / self.count as f64 / 1e3
        }
    }

    /// The longest, us.
    pub fn max_us(&self) -> f64 {
        self.max_ns as f64 / 1e3
    }

    /// The latency that a share `quantile` (0 to 1) does not exceed, us; 0 if nothing was counted.
    pub fn quantile_us(&self, quantile: f64) -> f64 {
        let wanted = (self.count as f64 * quantile.clamp(0.0, 1.0))
            .ceil()
            .max(1.0) as u64;
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += *count;
            if seen >= wanted {
                return (middle_ns(self.first + index) / 1e3).min(self.max_us());
            }
        }
        self.max_us()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latency_falls_within_two_percent_of_its_buckets_middle() {
        let mut ns = 1_100u64;
        while ns < 1 << 41 {
            let off = (middle_ns(bucket(ns)) - ns as f64).abs() / ns as f64;
            assert!(off < 0.017, "{ns} ns is off by {off}");
            ns = ns * 129 / 128;
        }
    }

    #[test]
    fn buckets_grow_with_latency_and_the_ends_do_not_panic() {
        let all = [
            0,
            1,
            31,
            32,
            1023,
            1024,
            1025,
            2047,
            2048,
            1 << 30,
            u64::MAX,
        ];
        let found: Vec<usize> = all.iter().map(|ns| bucket(*ns)).collect();
        assert!(found.is_sorted(), "{found:?}");
    }

    #[test]
    fn counts_below_powers_of_two_are_exact() {
        let mut histogram = CompactHistogram::default();
        let all: Vec<u64> = (0..2000).map(|n| n * n * 977).collect();
        all.iter().for_each(|ns| histogram.record(*ns));
        let bounds: [u64; 30] = std::array::from_fn(|at| 1 << (10 + at));
        let below = |bound: &u64| all.iter().filter(|ns| *ns < bound).count() as u64;
        let expected: Vec<u64> = bounds.iter().map(below).collect();
        assert_eq!(histogram.counts_below(&bounds).to_vec(), expected);
        assert_eq!(CompactHistogram::default().counts_below(&bounds), [0; 30]);
    }

    #[test]
    fn quantiles_of_a_known_sample() {
        let mut histogram = CompactHistogram::default();
        assert_eq!(histogram.quantile_us(0.5), 0.0);
        for us in 1..=1000u64 {
            histogram.record(us * 1000);
        }
        assert_eq!(histogram.count(), 1000);
        assert!((histogram.quantile_us(0.5) / 500.0 - 1.0).abs() < 0.02);
        assert!((histogram.quantile_us(0.99) / 990.0 - 1.0).abs() < 0.02);
        assert!((histogram.mean_us() - 500.5).abs() < 1e-9);
        assert_eq!(histogram.max_us(), 1000.0);
        assert_eq!(histogram.sum_ns(), 500_500_000);
    }

    #[test]
    fn only_the_octaves_in_use_are_stored_whatever_the_order() {
        let latencies = [5_000_000, 900, 70, 1 << 45, 5_000_000, 33_000];
        let mut one_by_one = CompactHistogram::default();
        let mut merged = CompactHistogram::default();
        for ns in latencies {
            one_by_one.record(ns);
            let mut single = CompactHistogram::default();
            single.record(ns);
            assert_eq!(single.buckets.len(), STEPS as usize);
            merged.merge(&single);
        }
        assert_eq!(one_by_one.buckets, merged.buckets);
        assert_eq!(one_by_one.bars().map(|bar| bar.2).sum::<u64>(), 6);
        let mut sorted = latencies;
        sorted.sort_unstable();
        for (bar, ns) in one_by_one.bars().zip([70, 900, 33_000, 5_000_000]) {
            assert!(bar.0 <= ns as f64 && (ns as f64) < bar.1, "{bar:?} {ns}");
        }
    }

    #[test]
    fn sums_without_single_latencies_keep_count_and_sum() {
        let mut histogram = CompactHistogram::default();
        histogram.record_summed(10, 10_000_000, 4_000_000, &[(900_000, 4), (1_100_000, 5)]);
        assert_eq!((histogram.count(), histogram.sum_ns()), (10, 10_000_000));
        assert_eq!(histogram.max_us(), 4000.0);
        assert_eq!(histogram.bars().map(|bar| bar.2).sum::<u64>(), 10);
        // More in the bars than there were: the count is what stands.
        histogram.record_summed(1, 1000, 1000, &[(900, 7)]);
        assert_eq!(histogram.bars().map(|bar| bar.2).sum::<u64>(), 11);
    }
}
