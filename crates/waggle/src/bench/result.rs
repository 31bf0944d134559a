//! What a run found, as the document for `--json` and `result.json`; `text` shows it to people.

use std::collections::BTreeMap;

use serde::Serialize;
use waggle_load::{Offered, Snapshot};
use waggle_report::run::ServerFacts;
use waggle_stats::latency::LatencyHistogram;

use super::checks::Checks;
use super::interval::{Latency, Percentiles};
use super::measure::{Early, Measured};
use super::plan::Plan;
use super::search::SearchResult;
use super::steady::Steady;

/// The generator's lag is worth a warning above this, and above a tenth of the median response.
const LAG_US_MAX: f64 = 1_000.0;
const LAG_SHARE_MAX: f64 = 0.1;

/// The result of `waggle bench`; fields may be added, none renamed.
#[derive(Debug, Serialize)]
pub(super) struct BenchResult {
    pub(super) queries: u64,
    pub(super) transactions: u64,
    pub(super) errors: u64,
    pub(super) duration_s: f64,
    qps: f64,
    tps: f64,
    /// Response time: from when an event was due (in a closed loop: from its start).
    pub(super) latency_us: Latency,
    /// Transactions a second that were asked for; none in a closed loop.
    pub(super) offered_rate: Option<f64>,
    /// Transactions that were due and never begun; none in a closed loop.
    dropped: u64,
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) other: u64,
    prepares: u64,
    /// Errors that restarted a transaction, by the server's number.
    pub(super) errors_by_code: BTreeMap<u16, ErrorKind>,
    pub(super) client_cpu_s: f64,
    pub(super) client_cpu_us_per_query: f64,
    pub(super) workload: String,
    pub(super) threads: u32,
    pub(super) seed: u64,
    pub(super) warmup_s: f64,
    pub(super) server: ServerSide,
    /// The same as `latency_us` with the percentiles that were asked for.
    pub(super) response_us: Percentiles,
    /// Time that workers spent without a connection, summed over them.
    pub(super) downtime_s: f64,
    /// Open loop only; so for the next ones.
    pub(super) service_us: Option<Percentiles>,
    pub(super) wait_us: Option<Percentiles>,
    pub(super) lag_us: Option<Percentiles>,
    pub(super) backlog: Option<Backlog>,
    /// True when the generator's own lag is large enough to have changed the figures.
    pub(super) generator_was_late: bool,
    pub(super) operations: BTreeMap<String, OperationResult>,
    pub(super) statements: BTreeMap<String, Percentiles>,
    pub(super) user_counters: BTreeMap<String, f64>,
    pub(super) checks: Checks,
    pub(super) steady: Steady,
    pub(super) rate_search: Option<SearchResult>,
    /// True when the script, or its number of events, came to an end before the time did.
    ended_by_itself: bool,
    /// Why it ended before its time; absent when it did not.
    pub(super) failure: Option<String>,
    /// The run directory, if one was written.
    pub(super) run: Option<String>,
    #[serde(skip)]
    pub(super) lag_p99: Option<f64>,
    #[serde(skip)]
    pub(super) percentiles: Vec<f64>,
}

/// Errors of one number.
#[derive(Debug, Serialize)]
pub(super) struct ErrorKind {
    pub(super) count: u64,
    /// The first message, in the server's words.
    pub(super) example: String,
}

/// One kind of event.
#[derive(Debug, Serialize)]
pub(super) struct OperationResult {
    pub(super) count: u64,
    pub(super) per_second: f64,
    pub(super) response_us: Percentiles,
    /// Open loop only.
    pub(super) service_us: Option<Percentiles>,
}

/// What an open loop asked for, and what became of it.
#[derive(Debug, Serialize)]
pub(super) struct Backlog {
    /// Events that were due.
    pub(super) offered: u64,
    /// Of these, events that a thread began.
    pub(super) begun: u64,
    pub(super) dropped: u64,
    /// Events that were waiting at the end. They are in no histogram.
    pub(super) waiting_at_end: u64,
    /// How long the oldest of them had been waiting.
    pub(super) oldest_us: f64,
    /// The most that ever waited.
    pub(super) waiting_max: u64,
    /// Seconds that the end was put off to run down what waited; `None`: it was not.
    pub(super) drain_s: Option<f64>,
}

#[derive(Debug, Serialize)]
pub(super) struct ServerSide {
    pub(super) flavour: String,
    pub(super) version: String,
    /// What the server counted meanwhile, from all its clients.
    pub(super) questions: Option<u64>,
}

/// What a result is made of beside the measurement.
pub(super) struct Parts<'a> {
    pub(super) plan: &'a Plan,
    pub(super) server: &'a ServerFacts,
    pub(super) checks: Checks,
    pub(super) rate_search: Option<SearchResult>,
    pub(super) run: Option<String>,
}

impl BenchResult {
    pub(super) fn new(parts: Parts<'_>, measured: &Measured) -> BenchResult {
        let (plan, total) = (parts.plan, &measured.total);
        let counters = total.counters;
        let client_cpu_s = total.cpu_ns as f64 / 1e9;
        let per_second = |count: u64| count as f64 / measured.duration_s.max(1e-9);
        let shown = |histogram: &LatencyHistogram| Percentiles::of(histogram, &plan.percentiles);
        let open = |histogram| total.offered.is_some().then(|| shown(histogram));
        BenchResult {
            queries: counters.queries,
            transactions: counters.transactions,
            errors: counters.errors,
            duration_s: measured.duration_s,
            qps: per_second(counters.queries),
            tps: per_second(counters.transactions),
            latency_us: Latency::of(&total.response),
            offered_rate: total.offered.map(|offered| per_second(offered.due)),
            dropped: total.offered.map_or(0, |offered| offered.dropped),
            reads: counters.reads,
            writes: counters.writes,
            other: counters.other,
            prepares: counters.prepares,
            errors_by_code: errors(total),
            client_cpu_s,
            client_cpu_us_per_query: client_cpu_s * 1e6 / counters.queries.max(1) as f64,
            workload: plan.script.name().to_owned(),
            threads: plan.threads,
            seed: plan.seed,
            warmup_s: plan.warmup.as_secs_f64(),
            server: ServerSide {
                flavour: parts.server.flavour.clone(),
                version: parts.server.version.clone(),
                questions: measured.questions,
            },
            response_us: shown(&total.response),
            downtime_s: total.downtime_ns as f64 / 1e9,
            service_us: open(&total.service),
            wait_us: open(&total.wait),
            lag_us: open(&total.lag),
            backlog: total
                .offered
                .map(|offered| Backlog::new(&offered, measured.drain_s)),
            generator_was_late: is_late(total),
            operations: operations(total, measured.duration_s, &plan.percentiles),
            statements: total
                .statements
                .iter()
                .map(|(name, histogram)| (name.clone(), shown(histogram)))
                .collect(),
            user_counters: total.user_counters.clone(),
            checks: parts.checks,
            steady: measured.steady.clone(),
            rate_search: parts.rate_search,
            ended_by_itself: measured.ended_by_itself,
            failure: measured.failure.as_ref().map(Early::to_string),
            run: parts.run,
            lag_p99: Latency::of(&total.lag).p99,
            percentiles: plan.percentiles.clone(),
        }
    }
}

impl Backlog {
    fn new(offered: &Offered, drain_s: Option<f64>) -> Backlog {
        Backlog {
            offered: offered.due,
            begun: offered.begun,
            dropped: offered.dropped,
            waiting_at_end: offered.due.saturating_sub(offered.begun + offered.dropped),
            oldest_us: offered.backlog_age_ns as f64 / 1e3,
            waiting_max: offered.backlog_max,
            drain_s,
        }
    }
}

/// The 99th percentile of the lag against 1 ms, or a tenth of the median response if that is more.
pub(super) fn is_late(total: &Snapshot) -> bool {
    let lag_us = total.lag.quantile_us(0.99);
    let tolerated_us = LAG_US_MAX.max(LAG_SHARE_MAX * total.response.quantile_us(0.5));
    !total.lag.is_empty() && lag_us > tolerated_us
}

fn errors(total: &Snapshot) -> BTreeMap<u16, ErrorKind> {
    let kinds = total.errors.iter().map(|(&errno, error)| {
        let kind = ErrorKind {
            count: error.count,
            example: error.example.clone(),
        };
        (errno, kind)
    });
    kinds.collect()
}

fn operations(
    total: &Snapshot,
    duration_s: f64,
    percentiles: &[f64],
) -> BTreeMap<String, OperationResult> {
    let is_open = total.offered.is_some();
    let results = total.operations.iter().map(|(name, operation)| {
        let count = operation.response.count();
        let result = OperationResult {
            count,
            per_second: count as f64 / duration_s.max(1e-9),
            response_us: Percentiles::of(&operation.response, percentiles),
            service_us: is_open.then(|| Percentiles::of(&operation.service, percentiles)),
        };
        (name.clone(), result)
    });
    results.collect()
}

impl std::fmt::Display for Early {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Early::Failed(error) => error.fmt(f),
            Early::Interrupted => f.write_str("interrupted"),
            Early::Silent(seconds) => write!(
                f,
                "statements were still in flight {seconds:.0} s after the end: the server does \
                 not answer, or one statement takes longer than that"
            ),
        }
    }
}
