//! How long do calls of a function take, where do they spend it, and who calls?
//!
//! [`choose()`] turns names into functions; the kernel half of `waggle_probes::call` sums their
//! calls; a [`Summary`] makes figures of the sums. What a call spends in watched callees, those
//! within one another once, and what is left add up to it exactly.
//!
//! Invariant: sums, counts and the largest are exact; a percentile is the middle of a histogram's
//! bucket, at most 1.6% off, and never above the largest.

pub mod choose;

pub use choose::{ChooseError, Chosen, choose};

use waggle_probes::call::{REASONS, Series, bucket_bounds};
use waggle_stats::latency::LatencySummary;

/// Figures of calls that belong together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Summary {
    /// From beginnings to returns.
    pub latency: LatencySummary,
    /// All calls together, ns; calls within one another count each.
    pub wall_ns: u64,
    /// Off the processor, all calls together, ns.
    pub off_ns: u64,
    /// The same by reason, in the order of [`REASONS`].
    pub off_by_reason_ns: [u64; REASONS.len()],
    /// Of the time off, waiting for a processor, ns.
    pub queued_ns: u64,
    /// Time off of the calls that left their processor; `count` is how many did.
    pub off: LatencySummary,
    /// Share of the trace's time on a processor, percent; above 100 if several threads call.
    pub cpu_percent: f64,
    /// Calls within another call of the same function.
    pub recursive: u64,
    /// Wall time not in watched callees, ns.
    pub rest_ns: u64,
    /// Of that, off the processor, ns.
    pub rest_off_ns: u64,
    /// Of a callee: calls within another watched callee, and their time, ns.
    pub nested: (u64, u64),
    /// Calls whose time off is a lower bound.
    pub unannounced: u64,
    /// Calls by wall time, and by time off.
    pub histogram: Vec<Bar>,
}

/// A bar of the two histograms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bar {
    /// From, ns.
    pub low_ns: u64,
    /// To, without it, ns.
    pub high_ns: u64,
    /// Calls that took so long.
    pub calls: u64,
    /// Calls that were off the processor so long.
    pub off_calls: u64,
}

impl Summary {
    /// The figures of `series` in a trace of `trace_ns`.
    pub fn of(series: &Series, trace_ns: u64) -> Self {
        let off_ns = series.off_sum_ns();
        let on_ns = series.outer_wall_ns.saturating_sub(series.outer_off_ns);
        Self {
            latency: latency(&series.wall, series.count, series.wall_ns, series.max_ns),
            wall_ns: series.wall_ns,
            off_ns,
            off_by_reason_ns: series.off_ns,
            queued_ns: series.queued_ns,
            off: latency(&series.off, series.went_off, off_ns, series.off_max_ns),
            cpu_percent: if trace_ns == 0 {
                0.0
            } else {
                100.0 * on_ns as f64 / trace_ns as f64
            },
            recursive: series.again,
            rest_ns: series.wall_ns.saturating_sub(series.children_ns),
            rest_off_ns: off_ns.saturating_sub(series.children_off_ns),
            nested: (series.nested, series.nested_ns),
            unannounced: series.unannounced,
            histogram: bars(series),
        }
    }

    /// Time off a call, on average over all calls, us.
    pub fn off_mean_us(&self) -> f64 {
        if self.latency.count == 0 {
            return 0.0;
        }
        self.off_ns as f64 / self.latency.count as f64 / 1e3
    }
}

fn latency(buckets: &[u32], count: u64, sum_ns: u64, max_ns: u64) -> LatencySummary {
    let at = |share| quantile(buckets, share, max_ns) / 1e3;
    LatencySummary {
        count,
        mean_us: if count == 0 {
            0.0
        } else {
            sum_ns as f64 / count as f64 / 1e3
        },
        p50_us: at(0.50),
        p95_us: at(0.95),
        p99_us: at(0.99),
        max_us: max_ns as f64 / 1e3,
    }
}

/// The value that this share of the values is at most, ns: the middle of its bucket.
fn quantile(buckets: &[u32], share: f64, max_ns: u64) -> f64 {
    let total: u64 = buckets.iter().map(|count| u64::from(*count)).sum();
    let mut left = (total as f64 * share).ceil().max(1.0) as u64;
    for (bucket, count) in buckets.iter().enumerate() {
        let count = u64::from(*count);
        if count >= left {
            let (low, high) = bucket_bounds(bucket);
            return ((low + high - 1) as f64 / 2.0).min(max_ns as f64);
        }
        left -= count;
    }
    0.0
}

fn bars(series: &Series) -> Vec<Bar> {
    let count = |buckets: &[u32], at: usize| u64::from(buckets.get(at).copied().unwrap_or(0));
    let all = 0..series.wall.len().max(series.off.len());
    all.map(|at| Bar {
        low_ns: bucket_bounds(at).0,
        high_ns: bucket_bounds(at).1,
        calls: count(&series.wall, at),
        off_calls: count(&series.off, at),
    })
    .filter(|bar| bar.calls + bar.off_calls > 0)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The bucket that a value is in.
    fn bucket_of(ns: u64) -> usize {
        (0..1216).rfind(|b| bucket_bounds(*b).0 <= ns).unwrap_or(0)
    }

    fn series(values: &[u64]) -> Series {
        let mut wall = vec![0; 1216];
        values.iter().for_each(|ns| wall[bucket_of(*ns)] += 1);
        Series {
            count: values.len() as u64,
            wall_ns: values.iter().sum(),
            outer_wall_ns: values.iter().sum(),
            max_ns: values.iter().copied().max().unwrap_or(0),
            wall,
            ..Series::default()
        }
    }

    proptest! {
        #[test]
        fn percentiles_are_within_their_error_of_the_exact_ones(
            mut values in prop::collection::vec(1u64..4_000_000_000, 1..300),
        ) {
            let summary = Summary::of(&series(&values), 1);
            values.sort_unstable();
            let exact = |share: f64| {
                let rank = (values.len() as f64 * share).ceil().max(1.0) as usize;
                values[rank - 1] as f64
            };
            let latency = summary.latency;
            let shown = [latency.p50_us, latency.p95_us, latency.p99_us];
            for (share, us) in [0.5, 0.95, 0.99].into_iter().zip(shown) {
                let exact = exact(share);
                prop_assert!((us * 1e3 - exact).abs() <= exact * 0.016 + 0.5, "{us} {exact}");
            }
            prop_assert!(latency.p99_us <= latency.max_us);
            let bars = &summary.histogram;
            prop_assert_eq!(bars.iter().map(|b| b.calls).sum::<u64>(), values.len() as u64);
        }
    }

    #[test]
    fn time_in_callees_and_the_rest_are_the_whole() {
        let mut series = series(&[1000, 3000]);
        series.children_ns = 2500;
        series.off_ns = [0, 700, 0, 0, 0, 0];
        series.outer_off_ns = 700;
        series.children_off_ns = 600;
        let summary = Summary::of(&series, 10_000);
        assert_eq!((summary.rest_ns, summary.rest_off_ns), (1500, 100));
        assert!((summary.cpu_percent - 33.0).abs() < 1e-9);
        assert!((summary.off_mean_us() - 0.35).abs() < 1e-9);
    }

    #[test]
    fn nothing_seen_is_all_zero() {
        let summary = Summary::of(&Series::default(), 0);
        assert_eq!(summary, Summary::default());
    }
}
