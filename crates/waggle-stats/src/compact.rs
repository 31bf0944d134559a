//! A latency histogram small enough to keep one per statement digest.
//!
//! Four kilobytes each: 32 buckets to the octave from 1 us to 73 minutes, so a percentile is off
//! by at most 1.6%. Neighbour: [`crate::latency`] is exact to three digits and fifty times larger.

/// Buckets to the octave.
const STEPS: u64 = 32;
/// Logarithm of [`STEPS`].
const STEP_BITS: u32 = 5;
/// The first octave begins at 2^10 ns, about 1 us; shorter latencies share linear buckets below.
const OCTAVE_FIRST: u32 = 10;
/// Octaves covered.
const OCTAVES: usize = 32;

/// Counts of latencies by size.
#[derive(Debug, Clone)]
pub struct CompactHistogram {
    buckets: Box<[u32]>,
    count: u64,
    sum_ns: u64,
    max_ns: u64,
}

impl Default for CompactHistogram {
    fn default() -> Self {
        Self {
            buckets: vec![0; (OCTAVES + 1) * STEPS as usize].into_boxed_slice(),
            count: 0,
            sum_ns: 0,
            max_ns: 0,
        }
    }
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
        .min((OCTAVES + 1) * STEPS as usize - 1)
}

/// The middle of bucket `index`, ns.
fn middle_ns(index: usize) -> f64 {
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
    start + width * (within as f64 + 0.5)
}

impl CompactHistogram {
    /// Counts one latency, ns.
    pub fn record(&mut self, ns: u64) {
        let slot = &mut self.buckets[bucket(ns)];
        *slot = slot.saturating_add(1);
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Latencies counted.
    pub fn count(&self) -> u64 {
        self.count
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
            seen += u64::from(*count);
            if seen >= wanted {
                return (middle_ns(index) / 1e3).min(self.max_us());
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
}
