//! The measured part of a run: warm-up, intervals, the exact end.
//!
//! Invariant: what is reported lies between two moments at which no statement was in flight, so
//! the client's counts and the server's are of the same statements.

use std::time::{Duration, Instant};

use waggle_load::{Load, LoadError, LoadSpec, LoadState, Snapshot};

use super::interval::Interval;
use super::server::Server;
use super::steady::{Series, Steady};
use crate::interrupt::Interrupt;

/// How soon Ctrl-C is noticed.
const INTERRUPT_PATIENCE: Duration = Duration::from_millis(100);

/// How long a load is run and how it is watched.
#[derive(Debug, Clone)]
pub(super) struct Phases {
    pub(super) warmup: Duration,
    /// `None`: until the load ends by itself.
    pub(super) time: Option<Duration>,
    pub(super) interval: Option<Duration>,
    /// At the end, how long what still waits may take to be run down.
    pub(super) drain: Option<Duration>,
    /// The offered rate changes by plan, so a change of throughput says nothing.
    pub(super) rate_moves: bool,
}

/// What was measured.
pub(super) struct Measured {
    /// Everything counted between the two moments; `total.offered` as it stood at the end.
    pub(super) total: Snapshot,
    pub(super) duration_s: f64,
    /// What the server's `Questions` grew by, less the readings themselves.
    pub(super) questions: Option<u64>,
    /// Why it ended before its time.
    pub(super) failure: Option<Early>,
    /// The script, or the number of events, ended it.
    pub(super) ended_by_itself: bool,
    pub(super) steady: Steady,
    /// Seconds that the end was put off to run down what waited.
    pub(super) drain_s: Option<f64>,
}

/// Why a run ended early, or later than it should.
pub(super) enum Early {
    Failed(LoadError),
    Interrupted,
    /// Statements were still in flight this long after the end, in seconds.
    Silent(f64),
}

/// Connects and prepares the workers; no statement of the workload runs yet.
pub(super) fn start(spec: &LoadSpec) -> Result<Load, LoadError> {
    Load::start(&LoadSpec {
        start_paused: true,
        ..spec.clone()
    })
}

/// Runs a started load as planned; `each` gets every interval, with everything counted in it.
pub(super) fn run(
    phases: &Phases,
    spec: &LoadSpec,
    load: Load,
    server: &mut Server,
    interrupt: &Interrupt,
    each: &mut dyn FnMut(&Interval, &Snapshot),
) -> Measured {
    let mut watcher = Watcher {
        load: &load,
        interrupt,
        interval: phases.interval,
        each,
    };
    if !phases.warmup.is_zero() {
        load.resume();
        watcher.until("warm-up", Some(phases.warmup), &mut Series::default());
    }
    // A load that cannot be brought to rest is not measured; the end below says so.
    let rested = load.pause_within(spec.stop_grace);
    if rested {
        // The plan of an open loop and the limit of events begin anew.
        load.reset();
    }
    let questions_before = if rested { server.questions() } else { None };
    let base = load.snapshot();
    let mut series = Series::of(phases.time);
    server.profile(true);
    let began = Instant::now();
    load.resume();
    watcher.until("interval", phases.time, &mut series);
    let drain_s = phases.drain.and_then(|limit| watcher.drain(limit));
    let ended_by_itself = load.state() == LoadState::Ended;
    // While the load is held nothing becomes due, and what waits is forgotten: look before.
    let waiting = load.snapshot().offered;
    let ended = Instant::now();
    let was_exact = load.pause_within(spec.stop_grace);
    // What was in flight at the end counts, and so does its time; not so the wait for a server
    // that never answered.
    let ended = if was_exact { Instant::now() } else { ended };
    server.profile(false);
    let questions_after = if was_exact { server.questions() } else { None };
    let grace = if was_exact {
        spec.stop_grace
    } else {
        Duration::ZERO
    };
    let (report, failed) = load.finish_within(grace);
    let mut total = report.last.since(&base);
    if let (Some(now), Some(waiting)) = (&mut total.offered, waiting) {
        now.backlog_age_ns = waiting.backlog_age_ns;
    }
    let failure = match failed.map(Early::Failed) {
        // What a signal cut off is no failure of the server's.
        _ if interrupt.requested() => Some(Early::Interrupted),
        None if !was_exact => Some(Early::Silent(spec.stop_grace.as_secs_f64())),
        failed => failed,
    };
    Measured {
        questions: questions_before
            .zip(questions_after)
            .map(|(before, after)| after.saturating_sub(before + 1)),
        steady: series.judged(phases.rate_moves, total.offered.is_some()),
        total,
        duration_s: ended.duration_since(began).as_secs_f64(),
        failure,
        ended_by_itself,
        drain_s,
    }
}

/// Waits for the end of a phase and reports its intervals.
struct Watcher<'a> {
    load: &'a Load,
    interrupt: &'a Interrupt,
    interval: Option<Duration>,
    each: &'a mut dyn FnMut(&Interval, &Snapshot),
}

impl Watcher<'_> {
    /// Returns when `length` is over, the load has ended, or an interrupt came.
    fn until(&mut self, kind: &'static str, length: Option<Duration>, series: &mut Series) {
        let began = Instant::now();
        let mut last = self.load.snapshot();
        let mut last_at = Duration::ZERO;
        let mut report_due = self.interval;
        series.begin(self.load.counters().transactions);
        loop {
            let dues = [report_due, length, Some(series.due())];
            let due = dues.into_iter().flatten().min().unwrap_or_default();
            let goes_on = self.wait_until(began + due);
            let at = began.elapsed();
            if at >= series.due() {
                series.take(at, self.load.counters().transactions);
            }
            let is_over = !goes_on || length.is_some_and(|length| at >= length);
            let Some(interval) = self.interval else {
                if is_over {
                    return;
                }
                continue;
            };
            if is_over || report_due.is_some_and(|due| at >= due) {
                let now = self.load.snapshot();
                let counted = now.since(&last);
                let length_s = at.saturating_sub(last_at).as_secs_f64();
                let interval = Interval::new(kind, at.as_secs_f64(), length_s, &counted);
                series.interval(&interval);
                (self.each)(&interval, &counted);
                (last, last_at) = (now, at);
            }
            if is_over {
                return;
            }
            while report_due.is_some_and(|due| due <= at) {
                report_due = report_due.map(|due| due + interval);
            }
        }
    }

    /// Waits until no event waits for a thread; the seconds it took, `None` if it was cut short.
    fn drain(&mut self, limit: Duration) -> Option<f64> {
        let began = Instant::now();
        while began.elapsed() < limit {
            if self
                .load
                .snapshot()
                .offered
                .is_none_or(|now| now.backlog == 0)
            {
                return Some(began.elapsed().as_secs_f64());
            }
            // A load with nothing more to do ends, and has run everything down.
            if !self.wait_until(Instant::now() + INTERRUPT_PATIENCE) {
                let is_done = self.load.state() == LoadState::Ended;
                return is_done.then(|| began.elapsed().as_secs_f64());
            }
        }
        None
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
