//! A histogram as the bars that have something in them: small enough to send.
//!
//! Invariant: what comes from elsewhere becomes a histogram only if it can be one.

use serde::{Deserialize, Serialize};

use super::{Exact, LATENCY_NS_MAX, LatencyHistogram};

/// More bars than three digits have from 1 ns to an hour.
const BARS_MAX: usize = 1 << 16;

/// The bars of a [`LatencyHistogram`], with what it knows exactly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SparseLatency {
    /// Value in nanoseconds, and count.
    bars: Vec<(u64, u64)>,
    clamped: u64,
    min_ns: u64,
    max_ns: u64,
    sum_ns: u128,
}

/// Why bars are no histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("bars that no histogram has")]
pub struct NoHistogram;

impl From<&LatencyHistogram> for SparseLatency {
    fn from(histogram: &LatencyHistogram) -> SparseLatency {
        let bars = histogram.buckets().map(|bar| (bar.high_ns, bar.count));
        SparseLatency {
            bars: bars.collect(),
            clamped: histogram.clamped,
            min_ns: histogram.exact.min_ns,
            max_ns: histogram.exact.max_ns,
            sum_ns: histogram.exact.sum_ns,
        }
    }
}

impl TryFrom<SparseLatency> for LatencyHistogram {
    type Error = NoHistogram;

    fn try_from(sparse: SparseLatency) -> Result<LatencyHistogram, NoHistogram> {
        let counts = sparse.bars.iter().map(|(_, count)| u128::from(*count));
        let count: u128 = counts.sum();
        let is_bounded = sparse.bars.len() <= BARS_MAX
            && count <= u128::from(u64::MAX / 2)
            && u128::from(sparse.clamped) <= count
            && sparse.sum_ns <= count * u128::from(LATENCY_NS_MAX)
            && (count == 0 || sparse.min_ns <= sparse.max_ns && sparse.max_ns <= LATENCY_NS_MAX);
        if !is_bounded {
            return Err(NoHistogram);
        }
        let mut histogram = LatencyHistogram::new();
        let exact = Exact {
            min_ns: sparse.min_ns,
            max_ns: sparse.max_ns,
            sum_ns: sparse.sum_ns,
        };
        let top = |(value, count): (u64, u64)| (value.min(LATENCY_NS_MAX), count);
        histogram.add_bars(sparse.bars.into_iter().map(top), exact);
        histogram.clamped = sparse.clamped;
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_on_the_way() {
        let mut histogram = LatencyHistogram::new();
        for value in [1, 17, 1_234, 1_234_567, 98_765_432_100, u64::MAX] {
            histogram.record_n(value, value % 7 + 1);
        }
        let back = LatencyHistogram::try_from(SparseLatency::from(&histogram)).unwrap();
        let bars = |histogram: &LatencyHistogram| histogram.buckets().collect::<Vec<_>>();
        assert_eq!(bars(&back), bars(&histogram));
        assert_eq!(back.exact, histogram.exact);
        assert_eq!(back.clamped(), histogram.clamped());
        let none = LatencyHistogram::new();
        let back = LatencyHistogram::try_from(SparseLatency::from(&none)).unwrap();
        assert!(back.is_empty());
        assert_eq!(back.exact, none.exact);
    }

    #[test]
    fn what_is_no_histogram_is_refused() {
        let mut one = LatencyHistogram::new();
        one.record(5);
        let good = SparseLatency::from(&one);
        let wrong = [
            SparseLatency {
                bars: vec![(5, u64::MAX), (6, u64::MAX)],
                ..good.clone()
            },
            SparseLatency {
                sum_ns: u128::MAX,
                ..good.clone()
            },
            SparseLatency {
                clamped: 2,
                ..good.clone()
            },
            SparseLatency {
                min_ns: 9,
                ..good.clone()
            },
            SparseLatency {
                bars: vec![(5, 1); BARS_MAX + 1],
                ..good
            },
        ];
        for sparse in wrong {
            assert_eq!(
                LatencyHistogram::try_from(sparse).map(|_| ()),
                Err(NoHistogram)
            );
        }
    }
}
