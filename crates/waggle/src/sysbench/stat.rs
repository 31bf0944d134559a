//! Numbers of a report, made from what a load counted.
//!
//! Invariant: durations end where the snapshot was taken, so that a rate is over the very time in
//! which its events were counted.

use std::time::Instant;

use waggle_load::{ReportStat, Snapshot};
use waggle_stats::latency::LatencyBucket;

/// One interval, the part of a run since a checkpoint, or a whole run.
#[derive(Debug, Clone, Default)]
pub(super) struct Stat {
    pub(super) threads: u32,
    /// Length of what was counted.
    pub(super) seconds: f64,
    /// From the start of the measurement to its end.
    pub(super) total_s: f64,
    pub(super) events: u64,
    /// `None`: the script used no database.
    pub(super) statements: Option<Statements>,
    /// `None`: no rate was asked for.
    pub(super) queue: Option<Queue>,
    /// Percentiles asked for, and the latency at each in milliseconds.
    pub(super) percentiles: Vec<(f64, f64)>,
    pub(super) min_ms: f64,
    pub(super) avg_ms: f64,
    pub(super) max_ms: f64,
    pub(super) sum_ms: f64,
    pub(super) buckets: Vec<LatencyBucket>,
    pub(super) fairness: Vec<ThreadShare>,
}

/// Statements by what they did.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Statements {
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) other: u64,
    /// Errors that restarted an event.
    pub(super) errors: u64,
    pub(super) reconnects: u64,
}

/// An open loop at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Queue {
    /// Events that are due and wait for a thread.
    pub(super) length: u64,
    /// Events under way.
    pub(super) concurrency: u64,
}

/// What one thread did.
#[derive(Debug, Clone, Copy)]
pub(super) struct ThreadShare {
    pub(super) events: u64,
    /// The sum of its events' latencies.
    pub(super) busy_s: f64,
}

impl Statements {
    pub(super) fn total(&self) -> u64 {
        self.reads + self.writes + self.other
    }
}

/// Two moments of a load, and when its measurement began.
pub(super) struct Span<'a> {
    pub(super) began: Instant,
    pub(super) from: &'a Snapshot,
    pub(super) to: &'a Snapshot,
}

impl Span<'_> {
    pub(super) fn stat(&self, percentiles: &[f64], uses_database: bool) -> Stat {
        let (from, to) = (self.from, self.to);
        let counted = to.since(from);
        let latency = &counted.response;
        let ms = |ns: f64| ns / 1e6;
        let counters = counted.counters;
        Stat {
            threads: to.threads_running,
            seconds: to.at.duration_since(from.at).as_secs_f64(),
            total_s: to.at.duration_since(self.began).as_secs_f64(),
            events: counters.transactions,
            statements: uses_database.then_some(Statements {
                reads: counters.reads,
                writes: counters.writes,
                other: counters.other,
                errors: counters.errors,
                reconnects: counters.reconnects,
            }),
            queue: to.offered.map(|offered| Queue {
                length: offered.backlog,
                concurrency: offered
                    .begun
                    .saturating_sub(to.counters.transactions)
                    .min(to.threads.len() as u64),
            }),
            percentiles: percentiles
                .iter()
                .map(|percent| (*percent, ms(latency.quantile_ns(percent / 100.0) as f64)))
                .collect(),
            min_ms: ms(latency.min_ns() as f64),
            avg_ms: ms(latency.mean_ns()),
            max_ms: ms(latency.max_ns() as f64),
            sum_ms: ms(latency.sum_ns() as f64),
            buckets: latency.buckets().collect(),
            fairness: counted
                .threads
                .iter()
                .map(|thread| ThreadShare {
                    events: thread.transactions,
                    busy_s: thread.busy_ns as f64 / 1e9,
                })
                .collect(),
        }
    }
}

impl Stat {
    /// The same for the hook of a script, which counts in seconds.
    pub(super) fn for_hook(&self) -> ReportStat {
        let sql = self.statements.unwrap_or_default();
        ReportStat {
            threads_running: self.threads,
            time_interval: self.seconds,
            time_total: self.total_s,
            latency_pct: self.percentiles.first().map_or(0.0, |(_, ms)| ms / 1e3),
            events: self.events,
            reads: sql.reads,
            writes: sql.writes,
            other: sql.other,
            errors: sql.errors,
            reconnects: sql.reconnects,
            queue_length: self.queue.map_or(0, |queue| queue.length),
            concurrency: self.queue.map_or(0, |queue| queue.concurrency),
            latency_min: self.min_ms / 1e3,
            latency_max: self.max_ms / 1e3,
            latency_avg: self.avg_ms / 1e3,
            latency_sum: self.sum_ms / 1e3,
        }
    }
}
