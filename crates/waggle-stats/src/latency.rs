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

mod sparse;

pub use sparse::{NoHistogram, SparseLatency};

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
mod tests;
