//! `run`: the load, its lines of progress, its checkpoints, its end, its report.
//!
//! Neighbours: `waggle-load` runs the events; [`super::report`] has the text. Invariant: whatever
//! ends a run that had begun (a signal, an error of the script, a server that died, a forced
//! shutdown), the report of what was measured is printed before the process ends.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use waggle_load::{Load, LoadError, LoadSpec, LoadState, ScriptFace, Snapshot};
use waggle_stats::arrivals::{Arrivals, Spacing};

use super::failure;
use super::log::{Level, Log};
use super::report;
use super::servers::Servers;
use super::settings::Settings;
use super::stat::{Span, Stat};
use crate::interrupt::Interrupt;

/// How soon a signal is noticed.
const PATIENCE: Duration = Duration::from_millis(50);

/// How long `thread_done` may take when every event has ended.
const DONE_GRACE: Duration = Duration::from_secs(60);

/// How long workers get after a forced shutdown before their sockets are shut down.
const FORCED_GRACE: Duration = Duration::from_millis(10);

/// Exit codes.
pub(super) const DONE: u8 = 0;
pub(super) const FAILED: u8 = 1;
pub(super) const TIMED_OUT: u8 = 2;
/// What a shell says of a process that a SIGINT ended.
const INTERRUPTED: u8 = 130;

/// Everything a run needs.
pub(super) struct Job<'a> {
    pub(super) settings: &'a Settings,
    pub(super) spec: LoadSpec,
    pub(super) servers: Arc<Servers>,
    pub(super) face: ScriptFace,
    pub(super) log: Arc<Log>,
    pub(super) interrupt: Interrupt,
}

/// Runs the events and prints everything; the exit code.
pub(super) fn run(mut job: Job<'_>) -> u8 {
    if !job.face.has_function("event") {
        let script = job.spec.script.name();
        let text = format!("cannot find the event() function in {script}");
        job.log.line(Level::Fatal, &text);
        return FAILED;
    }
    job.log.text(&head(job.settings));
    if job.settings.events.is_none() && job.settings.time.is_none() {
        let text = "Both event and time limits are disabled, running an endless test";
        job.log.line(Level::Warning, text);
    }
    job.log.text("Initializing worker threads...\n\n");
    let load = match started(&job) {
        Ok(load) => load,
        Err(code) => return code,
    };
    for thread in 0..job.settings.threads {
        let text = format!("Worker thread (#{thread}) initialized");
        job.log.line(Level::Debug, &text);
    }
    job.log.text("Threads started!\n\n");
    measured(&mut job, load)
}

/// What is going to be run.
fn head(settings: &Settings) -> String {
    let mut head = format!(
        "Running the test with following options:\nNumber of threads: {}\n",
        settings.threads
    );
    let warmup = settings.warmup.as_secs();
    if warmup > 0 {
        head += &format!("Warmup time: {warmup}s\n");
    }
    if settings.rate > 0.0 {
        head += &format!("Target transaction rate: {}/sec\n", settings.rate);
    }
    if let Some(interval) = settings.interval {
        let seconds = interval.as_secs();
        head += &format!("Report intermediate results every {seconds} second(s)\n");
    }
    if !settings.checkpoints.is_empty() {
        let points: Vec<String> = settings.checkpoints.iter().map(u64::to_string).collect();
        head += &format!("Report checkpoint(s) at {} seconds\n", points.join(", "));
    }
    if settings.debug {
        head += "Debug mode enabled.\n\n";
    }
    if settings.validate {
        head += "Validation checks: on.\n\n";
    }
    head += &match settings.seed {
        0 => "Initializing random number generator from current time\n\n".to_owned(),
        seed => format!("Initializing random number generator from seed ({seed}).\n\n"),
    };
    if let (Some(time), Some(forced)) = (settings.time, settings.forced_shutdown) {
        head += &format!(
            "Forcing shutdown in {} seconds\n",
            (time + forced).as_secs()
        );
    }
    head + "\n"
}

/// Starts the workers, which then wait; the exit code if they do not get ready.
fn started(job: &Job<'_>) -> Result<Load, u8> {
    let settings = job.settings;
    let spec = LoadSpec {
        start_paused: true,
        // Warm-up does not count, so the limit is set after it.
        event_limit: settings.events.filter(|_| settings.warmup.is_zero()),
        arrivals: (settings.rate > 0.0)
            .then(|| Arrivals::constant(settings.rate, Spacing::Poisson)),
        ..job.spec.clone()
    };
    let driver = Arc::clone(&job.servers);
    let (ready, is_ready) = mpsc::channel();
    // On a thread of its own: what hangs while it connects must not hold the limit up.
    let starting = thread::Builder::new()
        .name("waggle-start".to_owned())
        .spawn(move || _ = ready.send(Load::start_with(&spec, driver)));
    if let Err(error) = starting {
        let text = format!("cannot start a thread: {error}");
        job.log.line(Level::Fatal, &text);
        return Err(FAILED);
    }
    match wait_ready(job, &is_ready) {
        Ok(Ok(load)) => Ok(load),
        Ok(Err(error)) => {
            failure::tell(&job.log, "thread_init", &error);
            job.log.line(Level::Fatal, "Thread initialization failed!");
            Err(FAILED)
        }
        Err(code) => Err(code),
    }
}

fn wait_ready(
    job: &Job<'_>,
    ready: &mpsc::Receiver<Result<Load, LoadError>>,
) -> Result<Result<Load, LoadError>, u8> {
    let limit = job.settings.init_timeout;
    let deadline = Instant::now() + limit;
    loop {
        match ready.recv_timeout(PATIENCE) {
            Ok(started) => return Ok(started),
            Err(mpsc::RecvTimeoutError::Disconnected) => return Err(FAILED),
            Err(mpsc::RecvTimeoutError::Timeout) if job.interrupt.requested() => {
                return Err(INTERRUPTED);
            }
            Err(mpsc::RecvTimeoutError::Timeout) if Instant::now() >= deadline => {
                let seconds = limit.as_secs();
                let text = format!("Worker threads failed to initialize within {seconds} seconds!");
                job.log.line(Level::Fatal, &text);
                return Err(TIMED_OUT);
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Warm-up, the measurement and its end.
fn measured(job: &mut Job<'_>, load: Load) -> u8 {
    let warmup = job.settings.warmup;
    if !warmup.is_zero() {
        let text = format!("Warming up for {} seconds...\n\n", warmup.as_secs());
        job.log.text(&text);
        load.resume();
        let until = Instant::now() + warmup;
        wait_until(&load, &job.interrupt, Some(until));
        // Nothing of the warm-up, and no queue of its, reaches into the measurement.
        if quiet(&load, &job.interrupt, None) {
            load.reset();
        }
        load.set_event_limit(job.settings.events);
    }
    let first = load.snapshot();
    let began = first.at;
    load.resume();
    let mut measurement = Measurement {
        began,
        line_from: first.clone(),
        report_from: first,
    };
    measurement.watch(job, &load);
    measurement.end(job, load)
}

/// A measurement and how far it was reported.
struct Measurement {
    began: Instant,
    /// Where the next line of progress begins.
    line_from: Snapshot,
    /// Where the next report begins.
    report_from: Snapshot,
}

impl Measurement {
    /// Lines and checkpoints until the time is over or the load is.
    fn watch(&mut self, job: &mut Job<'_>, load: &Load) {
        let end = job.settings.time.map(|time| self.began + time);
        let interval = job.settings.interval;
        let mut line = interval.map(|interval| self.began + interval);
        let points = job.settings.checkpoints.clone();
        let began = self.began;
        let mut points = points.iter().map(|s| began + Duration::from_secs(*s));
        let mut checkpoint = points.next();
        loop {
            let due = [line, checkpoint, end].into_iter().flatten().min();
            if !wait_until(load, &job.interrupt, due) {
                return;
            }
            let Some(due) = due else { return };
            if line == Some(due) {
                self.line(job, load.snapshot());
                line = interval.map(|interval| due + interval);
            }
            if checkpoint == Some(due) {
                self.checkpoint(job, load.snapshot());
                checkpoint = points.next();
            }
            if end == Some(due) {
                job.log.line(Level::Info, "Time limit exceeded, exiting...");
                return;
            }
        }
    }

    fn line(&mut self, job: &mut Job<'_>, now: Snapshot) {
        let stat = self.stat(job, &self.line_from, &now);
        self.line_from = now;
        match job.face.report_intermediate(&stat.for_hook()) {
            Ok(true) => {}
            Ok(false) => job.log.text(&report::interval_lines(&stat)),
            Err(error) => failure::tell(&job.log, "report_intermediate", &error),
        }
    }

    fn checkpoint(&mut self, job: &mut Job<'_>, now: Snapshot) {
        let seconds = now.at.duration_since(self.began).as_secs_f64();
        let text = format!("[ {seconds:.0}s ] Checkpoint report:\n");
        job.log.text(&text);
        self.report(job, now, None);
    }

    /// `unfinished`: events that a forced shutdown gave up.
    fn report(&mut self, job: &mut Job<'_>, now: Snapshot, unfinished: Option<u32>) {
        let stat = self.stat(job, &self.report_from, &now);
        self.report_from = now;
        match job.face.report_cumulative(&stat.for_hook()) {
            Ok(true) => {}
            Ok(false) => {
                let settings = job.settings;
                let dialect = settings.dialect;
                let text = report::report(&stat, dialect, settings.histogram, unfinished);
                job.log.text(&text);
            }
            Err(error) => failure::tell(&job.log, "report_cumulative", &error),
        }
        for (thread, share) in stat.fairness.iter().enumerate() {
            let (events, busy_s) = (share.events, share.busy_s);
            let text = format!("    thread #{thread:3}: events: {events}, time: {busy_s:.4}s");
            job.log.line(Level::Debug, &text);
        }
    }

    fn stat(&self, job: &Job<'_>, from: &Snapshot, to: &Snapshot) -> Stat {
        let span = Span {
            began: self.began,
            from,
            to,
        };
        span.stat(&job.settings.percentiles, job.servers.were_used())
    }

    /// Waits for events in flight, as long as the options allow, then reports.
    fn end(mut self, job: &mut Job<'_>, load: Load) -> u8 {
        let settings = job.settings;
        let has_ended = load.state() == LoadState::Ended;
        if has_ended {
            job.log
                .line(Level::Info, "Event limit exceeded, exiting...");
        }
        // Before the pause, which forgets what still waits.
        let waiting = match load.snapshot().offered {
            Some(offered) if !has_ended => offered.backlog,
            _ => 0,
        };
        let forced = settings
            .forced_shutdown
            .and_then(|forced| Some(self.began + settings.time? + forced));
        let is_quiet = quiet(&load, &job.interrupt, forced);
        let unfinished = load.busy();
        let last = load.snapshot();
        let interrupted = job.interrupt.requested();
        if !is_quiet && !interrupted {
            let text = "The --max-time limit has expired, forcing shutdown...";
            job.log.line(Level::Fatal, text);
        }
        let grace = if is_quiet { DONE_GRACE } else { FORCED_GRACE };
        let (_, error) = load.finish_within(grace);
        let error = error.filter(|error| is_quiet || !matches!(error, LoadError::Stuck { .. }));
        if let Some(error) = &error {
            failure::tell(&job.log, "thread_run", error);
        }
        job.log.line(Level::Info, "Done.\n");
        job.face.end_of_intervals();
        self.report(job, last, (!is_quiet).then_some(unfinished));
        if waiting > 0 {
            let text = format!("Events that were due and still waited at the end: {waiting}\n\n");
            job.log.text(&text);
        }
        match error {
            _ if interrupted => INTERRUPTED,
            Some(_) => FAILED,
            None if !is_quiet => TIMED_OUT,
            None => DONE,
        }
    }
}

/// False when the load ended or a signal came before.
fn wait_until(load: &Load, interrupt: &Interrupt, due: Option<Instant>) -> bool {
    loop {
        let left = due.map_or(PATIENCE, |due| {
            due.saturating_duration_since(Instant::now())
        });
        if load.wait(left.min(PATIENCE)) != LoadState::Active || interrupt.requested() {
            return false;
        }
        if due.is_some() && left.is_zero() {
            return true;
        }
    }
}

/// Holds the workers; true when no event is in flight. Gives up at `deadline`, or at a signal.
fn quiet(load: &Load, interrupt: &Interrupt, deadline: Option<Instant>) -> bool {
    loop {
        let left = deadline.map_or(PATIENCE, |at| at.saturating_duration_since(Instant::now()));
        if load.pause_within(left.min(PATIENCE)) {
            return true;
        }
        if interrupt.requested() || left.is_zero() {
            return false;
        }
    }
}
