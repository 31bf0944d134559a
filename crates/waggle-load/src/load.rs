//! A running load: its threads, what they counted, and the handles to pause and stop them.
//!
//! Closed loop: a worker begins its next event when the last one ended, so latencies hide what a
//! stalled server would have done to requests that were never sent (coordinated omission).
//!
//! Invariant: [`Load::start`] returns either workers that are all connected and ready, or an error
//! and no thread; every thread is joined by [`Load::finish`] or by dropping the load, except those
//! that ignore a shut-down socket, and these are reported.

use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use waggle_stats::latency::LatencyHistogram;

use crate::command::{log_of, mysql, open_state, setup, shared};
use crate::context::Shared;
use crate::driver::Driver;
use crate::state::{Called, Setup, State};
use crate::tally::{Counters, Tally, locked};
use crate::{LoadError, LoadSpec, WorkerError};

/// How long abandoned workers get after their sockets were shut down.
const AFTER_INTERRUPT: Duration = Duration::from_secs(5);

/// Threads that run a workload against one server.
pub struct Load {
    shared: Arc<Shared>,
    tallies: Vec<Arc<Tally>>,
    workers: Vec<JoinHandle<()>>,
    script: Option<ScriptThread>,
    since: Mutex<Baseline>,
    /// Empty histograms for the next take, so that taking allocates nothing after the first.
    spares: Mutex<Vec<LatencyHistogram>>,
    stop_grace: Duration,
}

/// What had been counted when the current measurement began.
#[derive(Debug, Clone)]
struct Baseline {
    at: Instant,
    counters: Counters,
    cpu_ns: u64,
    errors_by_errno: BTreeMap<u16, u64>,
}

/// The state that runs `init` before and `done` after the workers.
struct ScriptThread {
    finish: Sender<()>,
    handle: JoinHandle<Result<(), LoadError>>,
}

/// Where a load stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadState {
    /// Workers run or are paused.
    Active,
    /// A worker hit an error that ends the load.
    Failed,
    /// Every worker ended by itself: the script had nothing more to do.
    Ended,
}

/// What a load did since it started or was last reset.
#[derive(Debug, Clone)]
pub struct LoadReport {
    /// Statements, transactions, errors.
    pub counters: Counters,
    /// Latencies of transactions that no [`Load::take_latency`] took, in nanoseconds.
    pub latency: LatencyHistogram,
    /// From the start or reset until the last worker had ended.
    pub duration: Duration,
    /// CPU time of the worker threads, in nanoseconds.
    pub cpu_ns: u64,
    /// Errors that restarted an event, by the server's error number.
    pub errors_by_errno: BTreeMap<u16, u64>,
}

impl Load {
    /// Connects and prepares every worker, then lets them go (unless `start_paused` is set).
    pub fn start(spec: &LoadSpec) -> Result<Load, LoadError> {
        Load::start_with(spec, mysql(spec))
    }

    /// The same with a driver of the caller's.
    pub fn start_with(spec: &LoadSpec, driver: Arc<dyn Driver>) -> Result<Load, LoadError> {
        let setup = setup(spec, "run", log_of(spec));
        let shared = shared(spec, driver, Arc::default(), None);
        let script = ScriptThread::start(&setup, &shared)?;
        let mut load = Load {
            shared,
            tallies: (0..spec.threads)
                .map(|_| Arc::new(Tally::default()))
                .collect(),
            workers: Vec::new(),
            script: Some(script),
            since: Mutex::new(Baseline {
                at: Instant::now(),
                counters: Counters::default(),
                cpu_ns: 0,
                errors_by_errno: BTreeMap::new(),
            }),
            spares: Mutex::default(),
            stop_grace: spec.stop_grace,
        };
        for thread in 0..spec.threads {
            load.spawn(&setup, thread)?;
        }
        // A worker is ready when it parks before its first event.
        load.shared.gate.wait_idle();
        if load.shared.gate.has_failed() {
            return Err(load.stop().err().unwrap_or(LoadError::Cancelled));
        }
        load.rebase();
        if !spec.start_paused {
            load.resume();
        }
        Ok(load)
    }

    fn spawn(&mut self, setup: &Setup, thread: u32) -> Result<(), LoadError> {
        let (setup, shared) = (setup.clone(), self.shared.clone());
        let tally = self.tallies[thread as usize].clone();
        let spawned = thread::Builder::new()
            .name(format!("waggle-load-{thread}"))
            .spawn(move || worker(&setup, thread, &shared, &tally));
        match spawned {
            Ok(handle) => {
                self.workers.push(handle);
                Ok(())
            }
            Err(source) => {
                // The gate counts to the number of threads asked for.
                for _ in thread..self.tallies.len() as u32 {
                    self.shared.gate.worker_ended();
                }
                Err(LoadError::Spawn { thread, source })
            }
        }
    }

    /// What was counted since the start or the last [`reset`](Load::reset). Exact while paused;
    /// while running, each counter is at most one statement behind.
    pub fn counters(&self) -> Counters {
        self.counted().since(&locked(&self.since).counters)
    }

    fn counted(&self) -> Counters {
        self.tallies.iter().fold(Counters::default(), |sum, tally| {
            sum.plus(&tally.counters())
        })
    }

    /// Holds the workers between two transactions; returns when every one is held (or ended), so
    /// that no statement is in flight.
    pub fn pause(&self) {
        self.shared.gate.pause();
        self.shared.gate.wait_idle();
    }

    /// Like [`pause`](Load::pause) with a limit: false when a statement is still in flight then
    /// (the workers stay told to hold).
    pub fn pause_within(&self, limit: Duration) -> bool {
        self.shared.gate.pause();
        self.shared.gate.wait_idle_for(limit)
    }

    /// Lets paused workers go on.
    pub fn resume(&self) {
        self.shared.gate.resume();
    }

    /// Forgets what was counted, at a point where no transaction is in flight: the end of a
    /// warm-up. A paused load stays paused.
    pub fn reset(&self) {
        let was_paused = self.shared.gate.is_paused();
        self.pause();
        self.rebase();
        if !was_paused {
            self.resume();
        }
    }

    fn rebase(&self) {
        drop(self.take_latency());
        *locked(&self.since) = Baseline {
            at: Instant::now(),
            counters: self.counted(),
            cpu_ns: self.cpu_ns(),
            errors_by_errno: self.errors_by_errno(),
        };
    }

    /// Latencies of the transactions that ended since the last take, in nanoseconds.
    pub fn take_latency(&self) -> LatencyHistogram {
        let mut merged = LatencyHistogram::new();
        let mut spares = locked(&self.spares);
        for tally in &self.tallies {
            let mut taken = tally.take_latency(spares.pop().unwrap_or_default());
            merged.merge(&taken);
            taken.reset();
            spares.push(taken);
        }
        merged
    }

    /// CPU time of the worker threads since they started, in nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        self.tallies.iter().map(|tally| tally.cpu_ns()).sum()
    }

    fn errors_by_errno(&self) -> BTreeMap<u16, u64> {
        let mut sum = BTreeMap::new();
        for tally in &self.tallies {
            for (errno, count) in tally.errors_by_errno() {
                *sum.entry(errno).or_default() += count;
            }
        }
        sum
    }

    /// Waits for at most `limit`; returns earlier when the load failed or ended by itself.
    pub fn wait(&self, limit: Duration) -> LoadState {
        self.shared.gate.wait_over(limit);
        self.state()
    }

    /// Where the load stands now.
    pub fn state(&self) -> LoadState {
        if self.shared.gate.has_failed() {
            LoadState::Failed
        } else if self.shared.gate.all_ended() {
            LoadState::Ended
        } else {
            LoadState::Active
        }
    }

    /// Ends the load after the transactions in flight; the first error of a worker, if any.
    pub fn stop(self) -> Result<LoadReport, LoadError> {
        let (report, failure) = self.finish();
        failure.map_or(Ok(report), Err)
    }

    /// Like [`stop`](Load::stop), with what was measured also when a worker failed.
    pub fn finish(self) -> (LoadReport, Option<LoadError>) {
        let grace = self.stop_grace;
        self.finish_within(grace)
    }

    /// Like [`finish`](Load::finish), but events in flight get `grace` to end before the sockets
    /// are shut down.
    pub fn finish_within(mut self, grace: Duration) -> (LoadReport, Option<LoadError>) {
        let stuck = self.end_workers(grace);
        let since = locked(&self.since).clone();
        let mut errors_by_errno = self.errors_by_errno();
        for (errno, before) in &since.errors_by_errno {
            if let Some(count) = errors_by_errno.get_mut(errno) {
                *count -= before;
            }
        }
        errors_by_errno.retain(|_, count| *count > 0);
        let report = LoadReport {
            counters: self.counted().since(&since.counters),
            latency: self.take_latency(),
            duration: since.at.elapsed(),
            cpu_ns: self.cpu_ns().saturating_sub(since.cpu_ns),
            errors_by_errno,
        };
        let failure = self.shared.gate.take_failure().or(stuck);
        let done = self.script.take().map_or(Ok(()), ScriptThread::finish);
        (report, failure.or(done.err()))
    }

    fn end_workers(&mut self, grace: Duration) -> Option<LoadError> {
        let gate = &self.shared.gate;
        gate.stop();
        let mut waited = grace;
        let mut ended = gate.wait_ended(waited);
        if !ended {
            self.shared.abandoned.store(true, Ordering::Relaxed);
            for interrupt in locked(&self.shared.interrupters).values() {
                interrupt();
            }
            waited += AFTER_INTERRUPT;
            ended = gate.wait_ended(AFTER_INTERRUPT);
        }
        if ended {
            for worker in self.workers.drain(..) {
                // A panic was caught inside and is the failure of the load.
                let _ = worker.join();
            }
            return None;
        }
        let threads = self.tallies.len() as u32 - gate.ended();
        self.workers.clear();
        Some(LoadError::Stuck {
            threads,
            waited_s: waited.as_secs_f64(),
        })
    }
}

/// A load that nobody stopped is stopped all the same; its threads do not outlive it.
impl Drop for Load {
    fn drop(&mut self) {
        if !self.workers.is_empty() {
            self.end_workers(self.stop_grace);
        }
        if let Some(script) = self.script.take() {
            let _ = script.finish();
        }
    }
}

impl ScriptThread {
    /// Checks the script and runs its `init`, all before a worker is started.
    fn start(setup: &Setup, shared: &Arc<Shared>) -> Result<ScriptThread, LoadError> {
        let (finish, finished) = mpsc::channel();
        let (ready, is_ready) = mpsc::channel();
        let (setup, shared) = (setup.clone(), shared.clone());
        let body = move || {
            block_signals();
            let mut state = match open_and_init(&setup, &shared) {
                Ok(state) => state,
                Err(error) => {
                    // The receiver waits for this one message.
                    let _ = ready.send(Err(error));
                    return Ok(());
                }
            };
            let _ = ready.send(Ok(()));
            // An error means that the load was dropped: `done` is due all the same.
            let _ = finished.recv();
            let done = state.call_if_defined("done");
            state.disconnect_all();
            outcome(done)
        };
        let handle = thread::Builder::new()
            .name("waggle-script".to_owned())
            .spawn(body)
            .map_err(|source| LoadError::Spawn { thread: 0, source })?;
        match is_ready.recv() {
            Ok(Ok(())) => Ok(ScriptThread { finish, handle }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(panicked(0)),
        }
    }

    fn finish(self) -> Result<(), LoadError> {
        // It may have ended by a panic; the join tells.
        let _ = self.finish.send(());
        self.handle.join().unwrap_or_else(|_| Err(panicked(0)))
    }
}

fn open_and_init(setup: &Setup, shared: &Arc<Shared>) -> Result<State, LoadError> {
    let mut state = open_state(setup, 0, shared, &Arc::default())?;
    if state.global("event").is_none() {
        return Err(LoadError::NoEvent {
            script: setup.script.name().to_owned(),
        });
    }
    outcome(state.call_if_defined("init"))?;
    Ok(state)
}

/// The body of a worker thread.
fn worker(setup: &Setup, thread: u32, shared: &Arc<Shared>, tally: &Arc<Tally>) {
    block_signals();
    tally.thread_started();
    let result = panic::catch_unwind(AssertUnwindSafe(|| {
        run_script(setup, thread, shared, tally)
    }));
    if let Err(error) = result.unwrap_or_else(|_| Err(panicked(thread))) {
        shared.gate.fail(error);
    }
    tally.thread_ended();
    shared.gate.worker_ended();
}

fn run_script(
    setup: &Setup,
    thread: u32,
    shared: &Arc<Shared>,
    tally: &Arc<Tally>,
) -> Result<(), LoadError> {
    let mut state = open_state(setup, thread, shared, tally)?;
    let result = outcome(state.call_if_defined("thread_init"))
        .and_then(|()| outcome(state.call_if_defined("thread_run")))
        .and_then(|()| outcome(state.call_if_defined("thread_done")));
    state.disconnect_all();
    result
}

fn outcome(called: Called) -> Result<(), LoadError> {
    match called {
        Called::Done(_) | Called::Stopped => Ok(()),
        Called::Failed(error) => Err(LoadError::Worker(error)),
    }
}

fn panicked(thread: u32) -> LoadError {
    let message = "the thread panicked; this is a fault of waggle";
    LoadError::Worker(Box::new(WorkerError::plain(thread, message)))
}

/// Signals are for the thread that decides what they mean; a worker in a system call would only
/// be disturbed by them.
fn block_signals() {
    // SAFETY: the set is initialised by sigfillset before it is read, and the mask is that of the
    // calling thread alone.
    unsafe {
        let mut signals = std::mem::zeroed();
        libc::sigfillset(&mut signals);
        // Faults are raised in the thread at fault and must stay deliverable.
        for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL] {
            libc::sigdelset(&mut signals, fault);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &signals, std::ptr::null_mut());
    }
}
