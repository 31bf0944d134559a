//! What a run found: the document for `--json` and `result.json`, and the text for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;
use waggle_report::quantity;
use waggle_report::run::ServerFacts;

use super::args::Plan;
use super::measure::{Early, Interval, Measured};

/// The result of `waggle bench`; fields may be added, none renamed.
#[derive(Debug, Serialize)]
pub(super) struct BenchResult {
    queries: u64,
    transactions: u64,
    errors: u64,
    duration_s: f64,
    qps: f64,
    tps: f64,
    latency_us: Latency,
    /// Transactions a second that were asked for; none in a closed loop.
    offered_rate: Option<f64>,
    /// Transactions that were due and never begun; none in a closed loop.
    dropped: u64,
    reads: u64,
    writes: u64,
    other: u64,
    /// Errors that restarted a transaction, by the server's number.
    errors_by_code: BTreeMap<u16, u64>,
    client_cpu_s: f64,
    client_cpu_us_per_query: f64,
    workload: String,
    threads: u32,
    seed: u64,
    warmup_s: u64,
    server: ServerSide,
    /// Why it ended before its time; absent when it did not.
    failure: Option<String>,
    /// The run directory, if one was written.
    run: Option<String>,
}

/// In microseconds; `None` when no transaction ended.
#[derive(Debug, Serialize)]
struct Latency {
    mean: Option<f64>,
    p50: Option<f64>,
    p95: Option<f64>,
    p99: Option<f64>,
    max: Option<f64>,
}

#[derive(Debug, Serialize)]
struct ServerSide {
    flavour: String,
    version: String,
    /// What the server counted meanwhile, from all its clients.
    questions: Option<u64>,
}

impl BenchResult {
    pub(super) fn new(
        plan: &Plan,
        server: &ServerFacts,
        measured: &Measured,
        run: Option<String>,
    ) -> BenchResult {
        let counters = measured.report.counters;
        let latency = measured.latency.summary();
        let known = |us: f64| (latency.count > 0).then_some(us);
        let client_cpu_s = measured.report.cpu_ns as f64 / 1e9;
        let per_second = |count: u64| count as f64 / measured.duration_s.max(1e-9);
        BenchResult {
            queries: counters.queries,
            transactions: counters.transactions,
            errors: counters.errors,
            duration_s: measured.duration_s,
            qps: per_second(counters.queries),
            tps: per_second(counters.transactions),
            latency_us: Latency {
                mean: known(latency.mean_us),
                p50: known(latency.p50_us),
                p95: known(latency.p95_us),
                p99: known(latency.p99_us),
                max: known(latency.max_us),
            },
            offered_rate: None,
            dropped: 0,
            reads: counters.reads,
            writes: counters.writes,
            other: counters.other,
            errors_by_code: measured.report.errors_by_errno.clone(),
            client_cpu_s,
            client_cpu_us_per_query: client_cpu_s * 1e6 / counters.queries.max(1) as f64,
            workload: plan.script.name().to_owned(),
            threads: plan.threads,
            seed: plan.seed,
            warmup_s: plan.warmup.as_secs(),
            server: ServerSide {
                flavour: server.flavour.clone(),
                version: server.version.clone(),
                questions: measured.questions,
            },
            failure: measured.failure.as_ref().map(Early::to_string),
            run,
        }
    }

    /// The report for people, with a line break at the end.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        self.write_text(&mut text)
            .expect("writing to a String does not fail");
        text
    }

    fn write_text(&self, out: &mut String) -> std::fmt::Result {
        let ServerSide {
            flavour, version, ..
        } = &self.server;
        writeln!(out, "{} on {flavour} {version}", self.workload)?;
        writeln!(
            out,
            "  {} threads, {:.2} s measured after {} s of warm-up, seed {}",
            self.threads, self.duration_s, self.warmup_s, self.seed
        )?;
        writeln!(out)?;
        rate(out, "queries", self.queries, self.duration_s)?;
        rate(out, "  reads", self.reads, self.duration_s)?;
        rate(out, "  writes", self.writes, self.duration_s)?;
        rate(out, "  other", self.other, self.duration_s)?;
        rate(out, "transactions", self.transactions, self.duration_s)?;
        rate(out, "errors", self.errors, self.duration_s)?;
        for (errno, count) in &self.errors_by_code {
            rate(out, &format!("  error {errno}"), *count, self.duration_s)?;
        }
        writeln!(out)?;
        writeln!(out, "  transaction latency{:>16}", "ms")?;
        let Latency {
            mean,
            p50,
            p95,
            p99,
            max,
        } = self.latency_us;
        let rows = [
            ("mean", mean),
            ("p50", p50),
            ("p95", p95),
            ("p99", p99),
            ("max", max),
        ];
        for (name, us) in rows {
            writeln!(out, "    {name:<14}{:>19}", milliseconds(us))?;
        }
        writeln!(out)?;
        writeln!(
            out,
            "  client CPU {:.2} s, {:.2} us a query",
            self.client_cpu_s, self.client_cpu_us_per_query
        )?;
        if let Some(questions) = self.server.questions {
            let questions = quantity::count(questions);
            writeln!(
                out,
                "  the server counted {questions} statements from all its clients"
            )?;
        }
        writeln!(
            out,
            "  closed loop: the next transaction waits for the last one, so these latencies hide \
             what\n  a stall would have done to requests that were never sent (coordinated \
             omission)"
        )?;
        if let Some(failure) = &self.failure {
            writeln!(out, "\n  failed: {failure}")?;
        }
        if let Some(run) = &self.run {
            writeln!(out, "\nrecorded in {run}")?;
        }
        Ok(())
    }
}

fn milliseconds(us: Option<f64>) -> String {
    us.map_or_else(|| "-".to_owned(), |us| format!("{:.3}", us / 1e3))
}

fn rate(out: &mut String, name: &str, count: u64, duration_s: f64) -> std::fmt::Result {
    let per_second = count as f64 / duration_s.max(1e-9);
    let count = quantity::count(count);
    writeln!(out, "  {name:<16}{count:>19}{per_second:>14.1} /s")
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

/// One line of progress.
pub(super) fn interval_line(interval: &Interval, threads: u32) -> String {
    let per_second = |count: u64| count as f64 / interval.duration_s.max(1e-9);
    let note = if interval.kind == "warm-up" {
        "  warm-up"
    } else {
        ""
    };
    format!(
        "[{:>4.0} s] threads {threads}  qps {:>9.1} (r/w/o {:.0}/{:.0}/{:.0})  tps {:>8.1}  \
         p50 {} p95 {} p99 {} ms  errors/s {:.2}{note}",
        interval.at_s,
        per_second(interval.queries),
        per_second(interval.reads),
        per_second(interval.writes),
        per_second(interval.other),
        per_second(interval.transactions),
        milliseconds(interval.latency_us_p50),
        milliseconds(interval.latency_us_p95),
        milliseconds(interval.latency_us_p99),
        per_second(interval.errors),
    )
}
