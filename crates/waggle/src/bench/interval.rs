//! One interval of a run, as it is printed and recorded, and the latencies of any stretch of it.

use std::collections::BTreeMap;

use serde::Serialize;
use waggle_load::{Offered, Snapshot};
use waggle_stats::latency::LatencyHistogram;

/// Latencies in microseconds; `None` when nothing ended. What was not measured is not a zero.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Latency {
    pub(super) mean: Option<f64>,
    pub(super) p50: Option<f64>,
    pub(super) p95: Option<f64>,
    pub(super) p99: Option<f64>,
    pub(super) max: Option<f64>,
}

impl Latency {
    pub(super) fn of(histogram: &LatencyHistogram) -> Latency {
        let summary = histogram.summary();
        let known = |us: f64| (summary.count > 0).then_some(us);
        Latency {
            mean: known(summary.mean_us),
            p50: known(summary.p50_us),
            p95: known(summary.p95_us),
            p99: known(summary.p99_us),
            max: known(summary.max_us),
        }
    }
}

/// The same with the percentiles that were asked for, by name (`99.9`).
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Percentiles {
    pub(super) count: u64,
    pub(super) mean: Option<f64>,
    pub(super) max: Option<f64>,
    #[serde(flatten)]
    pub(super) at: BTreeMap<String, Option<f64>>,
}

impl Percentiles {
    pub(super) fn of(histogram: &LatencyHistogram, percentiles: &[f64]) -> Percentiles {
        let summary = Latency::of(histogram);
        let at = percentiles.iter().map(|&percentile| {
            let us = (!histogram.is_empty()).then(|| histogram.quantile_us(percentile / 100.0));
            (format!("p{percentile}"), us)
        });
        Percentiles {
            count: histogram.count(),
            mean: summary.mean,
            max: summary.max,
            at: at.collect(),
        }
    }

    pub(super) fn of_percentile(&self, percentile: f64) -> Option<f64> {
        self.at.get(&format!("p{percentile}")).copied().flatten()
    }
}

/// One interval.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Interval {
    /// `interval`, `warm-up` or `drain`.
    pub(super) kind: &'static str,
    /// End of the interval, in seconds since the measurement (or the warm-up) began.
    pub(super) at_s: f64,
    pub(super) duration_s: f64,
    pub(super) queries: u64,
    pub(super) transactions: u64,
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) other: u64,
    pub(super) errors: u64,
    pub(super) latency_us_mean: Option<f64>,
    pub(super) latency_us_p50: Option<f64>,
    pub(super) latency_us_p95: Option<f64>,
    pub(super) latency_us_p99: Option<f64>,
    pub(super) latency_us_max: Option<f64>,
    pub(super) client_cpu_s: f64,
    pub(super) threads_running: u32,
    /// Open loop only.
    #[serde(flatten)]
    pub(super) open: Option<OpenInterval>,
    /// By name: the kinds of events that a script labels, those that ended in the interval.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) operations: BTreeMap<String, OperationInterval>,
}

/// One kind of event in an interval.
#[derive(Debug, Clone, Serialize)]
pub(super) struct OperationInterval {
    pub(super) count: u64,
    pub(super) response_us: Latency,
}

/// What an open loop adds to an interval.
#[derive(Debug, Clone, Serialize)]
pub(super) struct OpenInterval {
    /// Events that were due in the interval.
    pub(super) offered: u64,
    pub(super) dropped: u64,
    /// Events that waited at its end, and for how long the oldest had.
    pub(super) backlog: u64,
    pub(super) backlog_age_us: f64,
    pub(super) service_us: Latency,
    pub(super) wait_us: Latency,
    pub(super) lag_us: Latency,
}

impl Interval {
    pub(super) fn new(kind: &'static str, at_s: f64, duration_s: f64, counted: &Snapshot) -> Self {
        let latency = Latency::of(&counted.response);
        let counters = &counted.counters;
        Interval {
            kind,
            at_s,
            duration_s,
            queries: counters.queries,
            transactions: counters.transactions,
            reads: counters.reads,
            writes: counters.writes,
            other: counters.other,
            errors: counters.errors,
            latency_us_mean: latency.mean,
            latency_us_p50: latency.p50,
            latency_us_p95: latency.p95,
            latency_us_p99: latency.p99,
            latency_us_max: latency.max,
            client_cpu_s: counted.cpu_ns as f64 / 1e9,
            threads_running: counted.threads_running,
            open: counted
                .offered
                .map(|offered| OpenInterval::new(&offered, counted)),
            operations: operations(counted),
        }
    }

    fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.duration_s.max(1e-9)
    }

    /// A line of progress.
    pub(super) fn line(&self) -> String {
        let offered = self.open.as_ref().map_or(String::new(), |open| {
            format!(
                "  offered/s {:.1} waiting {}",
                self.per_second(open.offered),
                open.backlog
            )
        });
        let note = match self.kind {
            "interval" => String::new(),
            kind => format!("  {kind}"),
        };
        format!(
            "[{:>5.1} s] threads {}  qps {:>9.1} (r/w/o {:.0}/{:.0}/{:.0})  tps {:>8.1}  \
             p50 {} p95 {} p99 {} ms  errors/s {:.2}{offered}{note}",
            self.at_s,
            self.threads_running,
            self.per_second(self.queries),
            self.per_second(self.reads),
            self.per_second(self.writes),
            self.per_second(self.other),
            self.per_second(self.transactions),
            milliseconds(self.latency_us_p50),
            milliseconds(self.latency_us_p95),
            milliseconds(self.latency_us_p99),
            self.per_second(self.errors),
        )
    }
}

impl OpenInterval {
    fn new(offered: &Offered, counted: &Snapshot) -> OpenInterval {
        OpenInterval {
            offered: offered.due,
            dropped: offered.dropped,
            backlog: offered.backlog,
            backlog_age_us: offered.backlog_age_ns as f64 / 1e3,
            service_us: Latency::of(&counted.service),
            wait_us: Latency::of(&counted.wait),
            lag_us: Latency::of(&counted.lag),
        }
    }
}

fn operations(counted: &Snapshot) -> BTreeMap<String, OperationInterval> {
    let ended = counted.operations.iter();
    let ended = ended.filter(|(_, operation)| !operation.response.is_empty());
    ended
        .map(|(name, operation)| {
            let interval = OperationInterval {
                count: operation.response.count(),
                response_us: Latency::of(&operation.response),
            };
            (name.clone(), interval)
        })
        .collect()
}

/// To the microsecond; a dash for what was not measured.
pub(super) fn milliseconds(us: Option<f64>) -> String {
    us.map_or_else(|| "-".to_owned(), |us| format!("{:.3}", us / 1e3))
}
