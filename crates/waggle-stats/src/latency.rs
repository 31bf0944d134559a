//! How long did each transaction take, over a range from nanoseconds to an hour?
//!
//! A load thread records into its own [`LatencyHistogram`]; the lab merges them per window and
//! stores the merged one in the run directory as HdrHistogram V2, which other tools read too.
//!
//! Invariant: every recorded value is counted. A value above the range is stored at its top and
//! counted in [`LatencyHistogram::clamped`], so an overflow is visible and never lost.

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use serde::{Deserialize, Serialize};

/// Largest value that is told apart, in nanoseconds: one hour.
pub const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// Decimal digits kept of every value.
const SIGNIFICANT_DIGITS: u8 = 3;

const NS_PER_US: f64 = 1_000.0;

/// Latencies in nanoseconds, 1 ns to one hour, each kept to three significant digits.
///
/// Takes about 260 KiB whatever is recorded. Recording is O(1) and allocates nothing. The sum, the
/// smallest and the largest value are kept exactly, but not in the V2 bytes.
#[derive(Clone, Debug)]
pub struct LatencyHistogram {
    histogram: Histogram<u64>,
    clamped: u64,
    exact: Exact,
}

/// What is known about values beside the bars they fall into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exact {
    /// The smallest value; `u64::MAX` when there is none.
    pub min_ns: u64,
    /// The largest value; 0 when there is none.
    pub max_ns: u64,
    /// The sum of all values.
    pub sum_ns: u128,
}

impl Exact {
    const NONE: Exact = Exact {
        min_ns: u64::MAX,
        max_ns: 0,
        sum_ns: 0,
    };

    fn add(&mut self, other: &Exact) {
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns += other.sum_ns;
    }
}

/// The figures a table shows, latencies in microseconds.
///
/// `mean_us` and the percentiles of an empty histogram are 0 with `count` 0: a reader must look at
/// `count` before it believes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Values recorded.
    pub count: u64,
    /// Arithmetic mean.
    pub mean_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 95th percentile.
    pub p95_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// Largest value.
    pub max_us: f64,
}

/// One bar of a density chart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LatencyBucket {
    /// Lowest value in the bar, in nanoseconds.
    pub low_ns: u64,
    /// Highest value in the bar, in nanoseconds.
    pub high_ns: u64,
    /// Values recorded in it.
    pub count: u64,
}

/// Why bytes were not read as a histogram, or a histogram not written as bytes.
#[derive(Debug, thiserror::Error)]
pub enum LatencyError {
    /// The bytes are not HdrHistogram V2 (uncompressed), or are cut short.
    #[error("reading a latency histogram: not HdrHistogram V2 bytes: {reason}")]
    NotV2 {
        /// What the decoder met.
        reason: String,
    },
    /// The histogram could not be encoded.
    #[error("writing a latency histogram as HdrHistogram V2: {reason}")]
    NotEncoded {
        /// What the encoder met.
        reason: String,
    },
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl LatencyHistogram {
    /// An empty histogram.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, LATENCY_NS_MAX, SIGNIFICANT_DIGITS)
            .expect("constant bounds are valid: 1 <= low, 2 * low <= high, digits <= 5");
        Self {
            histogram,
            clamped: 0,
            exact: Exact::NONE,
        }
    }

    /// Records one latency in nanoseconds; 0 counts as 1 ns, more than an hour as one hour.
    #[inline]
    pub fn record(&mut self, latency_ns: u64) {
        self.record_n(latency_ns, 1);
    }

    /// Records the same latency `count` times.
    #[inline]
    pub fn record_n(&mut self, latency_ns: u64, count: u64) {
        if count == 0 {
            return;
        }
        if latency_ns > LATENCY_NS_MAX {
            self.clamped = self.clamped.saturating_add(count);
        }
        let kept = latency_ns.clamp(1, LATENCY_NS_MAX);
        self.histogram.saturating_record_n(kept, count);
        self.exact.add(&Exact {
            min_ns: kept,
            max_ns: kept,
            sum_ns: u128::from(kept) * u128::from(count),
        });
    }

    /// Adds bars of another counting, as value and count, with what it knows exactly. The bars
    /// and `exact` must belong together.
    pub fn add_bars(&mut self, bars: impl IntoIterator<Item = (u64, u64)>, exact: Exact) {
        let before = self.exact;
        let count = self.count();
        for (value_ns, count) in bars {
            self.record_n(value_ns, count);
        }
        if self.count() > count {
            self.exact = before;
            self.exact.add(&Exact {
                min_ns: exact.min_ns.clamp(1, LATENCY_NS_MAX),
                max_ns: exact.max_ns.clamp(1, LATENCY_NS_MAX),
                ..exact
            });
        }
    }

    /// Takes away what was recorded in `earlier`, a former state of the same counting. The sum
    /// stays exact; the smallest and largest value are then known as well as their bars, unless
    /// they show to be those of the whole.
    pub fn subtract(&mut self, earlier: &LatencyHistogram) {
        if earlier.is_empty() {
            return;
        }
        let whole = self.exact;
        let subtracted = self.histogram.subtract(&earlier.histogram);
        debug_assert!(
            subtracted.is_ok(),
            "not a former state of the same counting"
        );
        self.clamped = self.clamped.saturating_sub(earlier.clamped);
        self.exact = Exact::NONE;
        if !self.is_empty() {
            // A new extreme of the whole was recorded since; else the bar is all that is known.
            self.exact = Exact {
                min_ns: match whole.min_ns < earlier.exact.min_ns {
                    true => whole.min_ns,
                    false => self.histogram.min().max(whole.min_ns),
                },
                max_ns: match whole.max_ns > earlier.exact.max_ns {
                    true => whole.max_ns,
                    false => self.histogram.max().min(whole.max_ns),
                },
                sum_ns: whole.sum_ns.saturating_sub(earlier.exact.sum_ns),
            };
        }
    }

    /// Adds everything recorded in `other`.
    pub fn merge(&mut self, other: &LatencyHistogram) {
        self.histogram
            .add(&other.histogram)
            .expect("both have the same bounds");
        self.clamped = self.clamped.saturating_add(other.clamped);
        self.exact.add(&other.exact);
    }

    /// Forgets everything, keeps the memory.
    pub fn reset(&mut self) {
        self.histogram.reset();
        self.clamped = 0;
        self.exact = Exact::NONE;
    }

    /// Values recorded.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// True when nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.histogram.is_empty()
    }

    /// Values above an hour, stored as one hour. Not part of the V2 bytes.
    pub fn clamped(&self) -> u64 {
        self.clamped
    }

    /// The value below which the share `quantile` (0 to 1) of all values lies, in nanoseconds;
    /// 0 when empty.
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        let value = self.histogram.value_at_quantile(quantile.clamp(0.0, 1.0));
        // The upper end of a bar may lie beyond the largest value.
        value.clamp(self.min_ns(), self.max_ns())
    }

    /// The smallest value in nanoseconds; 0 when empty.
    pub fn min_ns(&self) -> u64 {
        self.exact.min_ns.min(self.exact.max_ns)
    }

    /// The largest value in nanoseconds; 0 when empty.
    pub fn max_ns(&self) -> u64 {
        self.exact.max_ns
    }

    /// The sum of all values in nanoseconds.
    pub fn sum_ns(&self) -> u128 {
        self.exact.sum_ns
    }

    /// The arithmetic mean in nanoseconds; 0 when empty.
    pub fn mean_ns(&self) -> f64 {
        match self.count() {
            0 => 0.0,
            count => self.exact.sum_ns as f64 / count as f64,
        }
    }

    /// The same in microseconds.
    pub fn quantile_us(&self, quantile: f64) -> f64 {
        self.quantile_ns(quantile) as f64 / NS_PER_US
    }

    /// The figures for a table.
    pub fn summary(&self) -> LatencySummary {
        LatencySummary {
            count: self.count(),
            mean_us: self.mean_ns() / NS_PER_US,
            p50_us: self.quantile_us(0.50),
            p95_us: self.quantile_us(0.95),
            p99_us: self.quantile_us(0.99),
            max_us: self.max_ns() as f64 / NS_PER_US,
        }
    }

    /// The non-empty bars in rising order, at the full resolution of three digits.
    pub fn buckets(&self) -> impl Iterator<Item = LatencyBucket> + '_ {
        self.histogram.iter_recorded().map(|bar| {
            let value = bar.value_iterated_to();
            LatencyBucket {
                low_ns: self.histogram.lowest_equivalent(value),
                high_ns: self.histogram.highest_equivalent(value),
                count: bar.count_at_value(),
            }
        })
    }

    /// The bars of a chart with a logarithmic axis: `per_decade` bars for each factor of ten,
    /// empty ones between the first and the last included, in rising order.
    ///
    /// A bar counts the values whose stored value falls into it, so below about 1 us / `per_decade`
    /// neighbouring bars may share one stored value; none is counted twice.
    pub fn density(&self, per_decade: u32) -> Vec<LatencyBucket> {
        let per_decade = f64::from(per_decade.max(1));
        let index_of = |ns: u64| ((ns.max(1) as f64).log10() * per_decade).floor() as i64;
        let edge_of = |index: i64| 10_f64.powf(index as f64 / per_decade).ceil() as u64;
        let mut bars: Vec<LatencyBucket> = Vec::new();
        let mut first = None;
        for bucket in self.buckets() {
            let middle = bucket.low_ns + (bucket.high_ns - bucket.low_ns) / 2;
            let index = index_of(middle);
            let first = *first.get_or_insert(index);
            while bars.len() as i64 <= index - first {
                let here = first + bars.len() as i64;
                let (low_ns, next) = (edge_of(here), edge_of(here + 1));
                bars.push(LatencyBucket {
                    low_ns,
                    high_ns: next.max(low_ns + 1) - 1,
                    count: 0,
                });
            }
            bars[(index - first) as usize].count += bucket.count;
        }
        bars
    }

    pub(crate) fn as_hdr(&self) -> &Histogram<u64> {
        &self.histogram
    }

    /// HdrHistogram V2 bytes, uncompressed; values are nanoseconds.
    ///
    /// # Errors
    /// [`LatencyError::NotEncoded`] when a count does not fit the format (above 2^63).
    pub fn to_v2_bytes(&self) -> Result<Vec<u8>, LatencyError> {
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(&self.histogram, &mut bytes)
            .map_err(|error| LatencyError::NotEncoded {
                reason: format!("{error:?}"),
            })?;
        Ok(bytes)
    }

    /// Reads HdrHistogram V2 bytes, also from another program with other bounds.
    ///
    /// Values above an hour are clamped and counted; values are taken to be nanoseconds.
    ///
    /// # Errors
    /// [`LatencyError::NotV2`] when the bytes are something else or are cut short.
    pub fn from_v2_bytes(mut bytes: &[u8]) -> Result<LatencyHistogram, LatencyError> {
        let foreign: Histogram<u64> =
            Deserializer::new()
                .deserialize(&mut bytes)
                .map_err(|error| LatencyError::NotV2 {
                    reason: error.to_string(),
                })?;
        let mut read = LatencyHistogram::new();
        for bar in foreign.iter_recorded() {
            read.record_n(bar.value_iterated_to(), bar.count_at_value());
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_in_microseconds_to_three_digits() {
        let mut histogram = LatencyHistogram::new();
        for us in 1..=1_000 {
            histogram.record(us * 1_000);
        }
        let summary = histogram.summary();
        assert_eq!(summary.count, 1_000);
        let all = [
            (summary.mean_us, 500.5),
            (summary.p50_us, 500.0),
            (summary.p95_us, 950.0),
            (summary.p99_us, 990.0),
            (summary.max_us, 1_000.0),
        ];
        for (found, expected) in all {
            assert!(
                (found / expected - 1.0).abs() < 0.002,
                "{found} for {expected}"
            );
        }
        assert_eq!(LatencyHistogram::new().summary(), LatencySummary::default());
    }

    #[test]
    fn values_outside_the_range_are_kept_at_its_ends_and_counted() {
        let mut histogram = LatencyHistogram::new();
        histogram.record(0);
        histogram.record(u64::MAX);
        histogram.record(LATENCY_NS_MAX);
        assert_eq!((histogram.count(), histogram.clamped()), (3, 1));
        assert_eq!(histogram.quantile_ns(0.0), 1);
        let top = histogram.summary().max_us;
        assert!((top / 3.6e9 - 1.0).abs() < 0.001, "{top}");
        let mut other = LatencyHistogram::new();
        other.merge(&histogram);
        assert_eq!((other.count(), other.clamped()), (3, 1));
        other.reset();
        assert!(other.is_empty() && other.clamped() == 0);
    }

    #[test]
    fn a_difference_keeps_the_sum_and_what_is_known_of_the_extremes() {
        let mut earlier = LatencyHistogram::new();
        earlier.record(5_001);
        earlier.record(9_000_011);
        let mut later = earlier.clone();
        later.record(4_999);
        later.record(1_000_003);
        let mut between = later.clone();
        between.subtract(&earlier);
        assert_eq!((between.count(), between.sum_ns()), (2, 1_005_002));
        assert_eq!(
            between.min_ns(),
            4_999,
            "a new least value is known exactly"
        );
        let max = between.max_ns() as f64;
        assert!((max / 1_000_003.0 - 1.0).abs() < 1e-3, "{max}");
        between.subtract(&between.clone());
        assert_eq!(
            (between.count(), between.min_ns(), between.max_ns()),
            (0, 0, 0)
        );
        later.subtract(&LatencyHistogram::new());
        assert_eq!((later.count(), later.max_ns()), (4, 9_000_011));
    }

    #[test]
    fn v2_bytes_give_back_every_bar() {
        let mut histogram = LatencyHistogram::new();
        for step in 0..4_000_u64 {
            histogram.record(1 + step * step * 97);
        }
        let bytes = histogram.to_v2_bytes().unwrap();
        let read = LatencyHistogram::from_v2_bytes(&bytes).unwrap();
        assert!(histogram.buckets().eq(read.buckets()));
        let (before, after) = (histogram.summary(), read.summary());
        assert_eq!((before.count, before.p50_us), (after.count, after.p50_us));
        // Sum and extremes are in the bytes as well as their bars are.
        assert!((before.mean_us / after.mean_us - 1.0).abs() < 1e-3);
        assert!((before.max_us / after.max_us - 1.0).abs() < 1e-3);
        let empty = LatencyHistogram::new().to_v2_bytes().unwrap();
        assert!(LatencyHistogram::from_v2_bytes(&empty).unwrap().is_empty());
    }

    #[test]
    fn a_histogram_of_another_range_is_read_and_clamped() {
        let mut foreign = Histogram::<u64>::new_with_bounds(1, u64::MAX / 4, 2).unwrap();
        foreign.record(5_000).unwrap();
        foreign.record(2 * LATENCY_NS_MAX).unwrap();
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&foreign, &mut bytes).unwrap();
        let read = LatencyHistogram::from_v2_bytes(&bytes).unwrap();
        assert_eq!((read.count(), read.clamped()), (2, 1));
    }

    #[test]
    fn other_bytes_are_refused() {
        let bytes = LatencyHistogram::new().to_v2_bytes().unwrap();
        for wrong in [
            &b""[..],
            b"nonsense, and long enough for a header of forty bytes",
            &bytes[..9],
        ] {
            let error = LatencyHistogram::from_v2_bytes(wrong).unwrap_err();
            assert!(error.to_string().contains("V2"), "{error}");
        }
    }

    #[test]
    fn density_counts_every_value_once_in_even_bars() {
        let mut histogram = LatencyHistogram::new();
        for ns in [900, 1_500, 15_000, 150_000, 150_001, 9_000_000] {
            histogram.record(ns);
        }
        let bars = histogram.density(10);
        assert_eq!(bars.iter().map(|bar| bar.count).sum::<u64>(), 6);
        assert!(
            bars.windows(2)
                .all(|pair| pair[0].high_ns + 1 == pair[1].low_ns)
        );
        assert_eq!(bars.len(), 41, "four decades, both ends in");
        assert!(LatencyHistogram::new().density(10).is_empty());
    }
}
