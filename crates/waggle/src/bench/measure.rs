//! The measured part of a run: warm-up, intervals, the exact end.
//!
//! Invariant: what is reported lies between two moments at which no statement was in flight, so
//! the client's counts and the server's are of the same statements.

use std::time::{Duration, Instant};

use waggle_load::{Counters, Load, LoadError, LoadReport, LoadSpec, LoadState};
use waggle_stats::latency::LatencyHistogram;

use super::args::Plan;
use super::server::Server;
use crate::interrupt::Interrupt;

/// How soon Ctrl-C is noticed.
const INTERRUPT_PATIENCE: Duration = Duration::from_millis(100);

/// What was measured.
pub(super) struct Measured {
    pub(super) report: LoadReport,
    pub(super) latency: LatencyHistogram,
    pub(super) duration_s: f64,
    /// What the server's `Questions` grew by, less the readings themselves.
    pub(super) questions: Option<u64>,
    /// Why it ended before its time.
    pub(super) failure: Option<Early>,
}

/// Why a run ended early, or later than it should.
pub(super) enum Early {
    Failed(LoadError),
    Interrupted,
    /// Statements were still in flight this long after the end, in seconds.
    Silent(f64),
}

/// One interval, as it is printed and recorded.
#[derive(Debug, Clone, serde::Serialize)]
pub(super) struct Interval {
    /// `interval` or `warm-up`.
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
    /// `None`: no transaction ended in the interval. So for the next ones.
    pub(super) latency_us_mean: Option<f64>,
    pub(super) latency_us_p50: Option<f64>,
    pub(super) latency_us_p95: Option<f64>,
    pub(super) latency_us_p99: Option<f64>,
    pub(super) latency_us_max: Option<f64>,
    pub(super) client_cpu_s: f64,
}

/// Connects and prepares the workers; no statement of the workload runs yet.
pub(super) fn start(spec: &LoadSpec) -> Result<Load, LoadError> {
    Load::start(&LoadSpec {
        start_paused: true,
        ..spec.clone()
    })
}

/// Runs a started load as planned; `each` gets every interval.
pub(super) fn run(
    plan: &Plan,
    spec: &LoadSpec,
    load: Load,
    server: &mut Server,
    interrupt: &Interrupt,
    mut each: impl FnMut(&Interval),
) -> Measured {
    let mut watcher = Watcher {
        load: &load,
        interrupt,
        latency: LatencyHistogram::new(),
    };
    if !plan.warmup.is_zero() {
        load.resume();
        watcher.until("warm-up", plan.warmup, plan.interval, &mut each);
    }
    // A load that cannot be brought to rest is not measured; the end below says so.
    let rested = load.pause_within(spec.stop_grace);
    let questions_before = if rested { server.questions() } else { None };
    if rested {
        load.reset();
    }
    watcher.latency.reset();
    let began = Instant::now();
    load.resume();
    watcher.until("interval", plan.time, plan.interval, &mut each);
    let ended = Instant::now();
    let was_exact = load.pause_within(spec.stop_grace);
    // What was in flight at the end counts, and so does its time; not so the wait for a server
    // that never answered.
    let ended = if was_exact { Instant::now() } else { ended };
    let duration_s = ended.duration_since(began).as_secs_f64();
    let questions_after = if was_exact { server.questions() } else { None };
    let mut latency = watcher.latency;
    let grace = if was_exact {
        spec.stop_grace
    } else {
        Duration::ZERO
    };
    let (report, failed) = load.finish_within(grace);
    latency.merge(&report.latency);
    let failure = match failed.map(Early::Failed) {
        Some(failed) => Some(failed),
        None if !was_exact => Some(Early::Silent(spec.stop_grace.as_secs_f64())),
        None => interrupt.requested().then_some(Early::Interrupted),
    };
    Measured {
        questions: questions_before
            .zip(questions_after)
            .map(|(before, after)| after.saturating_sub(before + 1)),
        report,
        latency,
        duration_s,
        failure,
    }
}

/// Waits for the end of a phase and reports its intervals.
struct Watcher<'a> {
    load: &'a Load,
    interrupt: &'a Interrupt,
    /// Everything taken from the load so far.
    latency: LatencyHistogram,
}

impl Watcher<'_> {
    fn until(
        &mut self,
        kind: &'static str,
        length: Duration,
        interval: Option<Duration>,
        each: &mut impl FnMut(&Interval),
    ) {
        let began = Instant::now();
        let mut last = Reading::of(self.load, Duration::ZERO);
        let mut due = interval.unwrap_or(length).min(length);
        loop {
            let goes_on = self.wait_until(began + due);
            if interval.is_some() {
                let reading = Reading::of(self.load, began.elapsed());
                let taken = self.load.take_latency();
                each(&last.interval(kind, &reading, &taken));
                self.latency.merge(&taken);
                last = reading;
            }
            if !goes_on || due >= length {
                return;
            }
            due = (due + interval.unwrap_or(length)).min(length);
        }
    }

    /// False when the load ended or an interrupt came.
    fn wait_until(&self, end: Instant) -> bool {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if self.load.wait(left.min(INTERRUPT_PATIENCE)) != LoadState::Active
                || self.interrupt.requested()
            {
                return false;
            }
            if left.is_zero() {
                return true;
            }
        }
    }
}

/// The load's counters at one moment.
struct Reading {
    at: Duration,
    counters: Counters,
    cpu_ns: u64,
}

impl Reading {
    fn of(load: &Load, at: Duration) -> Reading {
        Reading {
            at,
            counters: load.counters(),
            cpu_ns: load.cpu_ns(),
        }
    }

    fn interval(&self, kind: &'static str, now: &Reading, latency: &LatencyHistogram) -> Interval {
        let counted = now.counters.since(&self.counters);
        let summary = latency.summary();
        // What was not measured is not a zero.
        let known = |us: f64| (summary.count > 0).then_some(us);
        Interval {
            kind,
            at_s: now.at.as_secs_f64(),
            duration_s: now.at.saturating_sub(self.at).as_secs_f64(),
            queries: counted.queries,
            transactions: counted.transactions,
            reads: counted.reads,
            writes: counted.writes,
            other: counted.other,
            errors: counted.errors,
            latency_us_mean: known(summary.mean_us),
            latency_us_p50: known(summary.p50_us),
            latency_us_p95: known(summary.p95_us),
            latency_us_p99: known(summary.p99_us),
            latency_us_max: known(summary.max_us),
            client_cpu_s: now.cpu_ns.saturating_sub(self.cpu_ns) as f64 / 1e9,
        }
    }
}
