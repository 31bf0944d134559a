//! A load whose threads are this process's: what they counted, and the handles to pause and stop
//! them. Neighbour: `running` has the handle that verbs use, here or apart.
//!
//! Closed loop: a worker begins its next event when the last one ended, so latencies hide what a
//! stalled server would have done to requests that were never sent (coordinated omission). Open
//! loop (`pace`): events are due by a plan, and their latency runs from there.
//!
//! Invariant: [`Threads::start`] returns either workers that are all connected and ready, or an
//! error and no thread; every thread is joined by [`Threads::finish_within`] or by dropping the
//! load, except those that ignore a shut-down socket, and these are reported.

mod script_thread;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use waggle_stats::latency::LatencyHistogram;

use crate::clock::now_ns;
use crate::command::{log_of, mysql, setup, shared};
use crate::context::{Budget, Shared};
use crate::driver::Driver;
use crate::pace::Pace;
use crate::snapshot;
use crate::tally::{Counters, Recorders, Tally, locked};
use crate::workers;
use crate::{LoadError, LoadSpec, Overflow, Snapshot};
use script_thread::ScriptThread;

/// How long abandoned workers get after their sockets were shut down.
pub(crate) const AFTER_INTERRUPT: Duration = Duration::from_secs(5);

/// How often they are told meanwhile.
const INTERRUPT_AGAIN: Duration = Duration::from_millis(250);

/// The same when the load could not start: nobody waits for what it measured.
const AFTER_FAILED_START: Duration = Duration::from_millis(500);

/// How often a start that waits for a server looks whether it is still wanted.
const CANCEL_CHECK: Duration = Duration::from_millis(50);

/// How often a waiting caller looks whether the backlog ends the load.
const BACKLOG_CHECK: Duration = Duration::from_millis(20);

/// Threads that run a workload against one server.
pub(crate) struct Threads {
    pub(crate) shared: Arc<Shared>,
    tallies: Vec<Arc<Tally>>,
    workers: Vec<JoinHandle<()>>,
    script: Option<ScriptThread>,
    /// What had been counted when the current measurement began.
    since: Mutex<Snapshot>,
    /// Latencies that were taken.
    taken: Mutex<LatencyHistogram>,
    event_limit: Option<u64>,
    overflow: Overflow,
    stop_grace: Duration,
}

/// Where a load stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Latencies of transactions that no [`Load::take_latency`](crate::Load::take_latency) took,
    /// in nanoseconds.
    pub latency: LatencyHistogram,
    /// From the start or reset until the last worker had ended.
    pub duration: Duration,
    /// CPU time of the worker threads, in nanoseconds.
    pub cpu_ns: u64,
    /// Errors that restarted an event, by the server's error number.
    pub errors_by_errno: BTreeMap<u16, u64>,
    /// Everything since the load started, read after the last worker had ended.
    pub last: Snapshot,
}

impl Threads {
    /// Connects and prepares every worker, then lets them go (unless `start_paused` is set).
    pub(crate) fn start(spec: &LoadSpec) -> Result<Threads, LoadError> {
        Threads::start_with(spec, mysql(spec))
    }

    /// The same with a driver of the caller's.
    pub(crate) fn start_with(
        spec: &LoadSpec,
        driver: Arc<dyn Driver>,
    ) -> Result<Threads, LoadError> {
        let setup = setup(spec, "run", log_of(spec));
        let mut shared = shared(spec, driver, Arc::default(), None);
        shared.budget = Budget::new(spec.event_limit);
        if let Some(plan) = &spec.arrivals {
            plan.check()?;
            let pace = Pace::new(plan.clone(), spec.seed, spec.overflow, now_ns());
            shared.pace = Some(pace);
        }
        let shared = Arc::new(shared);
        let plan = workers::plan(&shared, spec.threads as usize, (spec.io, spec.floating))?;
        let recorders: Vec<_> = (0..plan.threads())
            .map(|_| Recorders::new(shared.pace.is_some()))
            .collect();
        let tallies: Vec<Arc<Tally>> = (0..spec.threads as usize)
            .map(|worker| Arc::new(Tally::new(recorders[plan.thread_of(worker)].clone())))
            .collect();
        let since = Mutex::new(snapshot::read(&shared, &tallies));
        let script = ScriptThread::start(&setup, &shared, &spec.cancel)?;
        let mut load = Threads {
            shared,
            tallies,
            workers: Vec::new(),
            script: Some(script),
            since,
            taken: Mutex::default(),
            event_limit: spec.event_limit,
            overflow: spec.overflow,
            stop_grace: spec.stop_grace,
        };
        workers::spawn(&setup, &load.shared, &load.tallies, plan, &mut load.workers)?;
        // A worker is ready when it parks before its first event.
        while !load.shared.gate.wait_ready(CANCEL_CHECK) {
            if spec.cancel.load(Ordering::Relaxed) {
                return Err(load.abandon_start());
            }
        }
        if load.shared.gate.has_failed() {
            return Err(load.abandon_start());
        }
        load.rebase();
        if !spec.start_paused {
            load.resume();
        }
        Ok(load)
    }

    /// Why the load did not start: the others do not go on connecting, nor wait for a server.
    fn abandon_start(self) -> LoadError {
        self.shared.abandoned.store(true, Ordering::Relaxed);
        let connected = self.shared.gate.parked_at_failure();
        let threads = self.tallies.len() as u32;
        match self.finish_within(AFTER_FAILED_START).1 {
            Some(LoadError::Worker(source)) if source.connecting => LoadError::Connect {
                connected,
                threads,
                source,
            },
            Some(error @ LoadError::Worker(_)) => error,
            _ => LoadError::Cancelled,
        }
    }

    /// Everything counted since the load started. Costs the workers nothing.
    pub(crate) fn snapshot(&self) -> Snapshot {
        snapshot::read(&self.shared, &self.tallies)
    }

    /// What was counted since the start or the last [`reset`](Threads::reset). Exact while paused;
    /// while running, each counter is at most one statement behind.
    pub(crate) fn counters(&self) -> Counters {
        snapshot::counted(&self.tallies).since(&locked(&self.since).counters)
    }

    /// Holds the workers between two transactions; returns when every one is held (or ended), so
    /// that no statement is in flight.
    pub(crate) fn pause(&self) {
        self.hold();
        self.shared.gate.wait_idle();
        self.forget_backlog();
    }

    /// Like [`pause`](Threads::pause) with a limit: false when a statement is still in flight then
    /// (the workers stay told to hold).
    pub(crate) fn pause_within(&self, limit: Duration) -> bool {
        self.hold();
        let idle = self.shared.gate.wait_idle_for(limit);
        if idle {
            self.forget_backlog();
        }
        idle
    }

    fn hold(&self) {
        self.shared.gate.pause();
        if let Some(pace) = &self.shared.pace {
            pace.halt(now_ns());
        }
    }

    /// Workers that are still in an event after a pause that did not succeed within its limit.
    pub(crate) fn busy(&self) -> u32 {
        self.shared.gate.busy()
    }

    /// Events begun in an open loop.
    fn begun(&self) -> u64 {
        self.tallies.iter().map(|tally| tally.begun()).sum()
    }

    fn forget_backlog(&self) {
        if let Some(pace) = &self.shared.pace {
            pace.forget_backlog(self.begun());
        }
    }

    /// Lets paused workers go on. An open loop takes its plan up where it was paused, without
    /// what had become due and was not begun.
    pub(crate) fn resume(&self) {
        if let Some(pace) = &self.shared.pace
            && !self.shared.gate.is_stopped()
        {
            pace.go_on(now_ns(), self.begun());
        }
        self.shared.gate.resume();
    }

    /// Forgets what was counted, at a point where no transaction is in flight: the end of a
    /// warm-up. A paused load stays paused; the plan of an open loop and the limit of events
    /// begin anew. (Snapshots go on counting from the start; take their difference.)
    pub(crate) fn reset(&self) {
        let was_paused = self.shared.gate.is_paused();
        self.pause();
        if let Some(pace) = &self.shared.pace {
            pace.rewind(now_ns(), self.begun());
        }
        self.shared.budget.set(self.event_limit);
        self.rebase();
        if !was_paused {
            self.resume();
        }
    }

    /// From now on this many events may be begun, over all threads; `None`: any number. Exact
    /// while paused.
    pub(crate) fn set_event_limit(&self, limit: Option<u64>) {
        self.shared.budget.set(limit);
    }

    fn rebase(&self) {
        let now = self.snapshot();
        *locked(&self.taken) = now.response.clone();
        *locked(&self.since) = now;
    }

    /// Latencies of the transactions that ended since the last take, in nanoseconds.
    pub(crate) fn take_latency(&self) -> LatencyHistogram {
        let mut taken = locked(&self.taken);
        let all = snapshot::response(&self.tallies);
        let mut since = all.clone();
        since.subtract(&taken);
        *taken = all;
        since
    }

    /// CPU time of the worker threads since they started, in nanoseconds.
    pub(crate) fn cpu_ns(&self) -> u64 {
        snapshot::cpu_ns(&self.tallies)
    }

    /// Waits for at most `limit`; returns earlier when the load failed or ended by itself.
    pub(crate) fn wait(&self, limit: Duration) -> LoadState {
        let deadline = Instant::now() + limit;
        let watches = matches!(self.overflow, Overflow::Abort { .. });
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let slice = if watches {
                left.min(BACKLOG_CHECK)
            } else {
                left
            };
            if self.shared.gate.wait_over(slice) || left <= slice {
                return self.state();
            }
            // When all workers are stuck in statements, nobody else looks at the backlog.
            if let Some(pace) = &self.shared.pace
                && let (_, Some(too_many)) = pace.offered(now_ns(), self.begun())
            {
                self.shared.overflowed(too_many);
            }
        }
    }

    /// Where the load stands now.
    pub(crate) fn state(&self) -> LoadState {
        if self.shared.gate.has_failed() {
            LoadState::Failed
        } else if self.shared.gate.all_ended() {
            LoadState::Ended
        } else {
            LoadState::Active
        }
    }

    pub(crate) fn stop_grace(&self) -> Duration {
        self.stop_grace
    }

    /// Ends the load: events in flight get `grace` to end before the sockets are shut down.
    pub(crate) fn finish_within(mut self, grace: Duration) -> (LoadReport, Option<LoadError>) {
        let stuck = self.end_workers(grace);
        let last = self.snapshot();
        let latency = self.take_latency();
        let since = locked(&self.since);
        let measured = last.since(&since);
        let errors = measured.errors.iter();
        let report = LoadReport {
            counters: measured.counters,
            latency,
            duration: since.at.elapsed(),
            cpu_ns: measured.cpu_ns,
            errors_by_errno: errors.map(|(errno, error)| (*errno, error.count)).collect(),
            last,
        };
        drop(since);
        let failure = self.shared.gate.take_failure().or(stuck);
        let script = self.script.take();
        let done = script.map_or(Ok(()), |script| script.finish(&self.shared, grace));
        (report, failure.or(done.err()))
    }

    fn end_workers(&mut self, grace: Duration) -> Option<LoadError> {
        let gate = &self.shared.gate;
        gate.stop();
        if let Some(pace) = &self.shared.pace {
            pace.halt(now_ns());
        }
        let mut waited = grace;
        let mut ended = gate.wait_ended(waited);
        let give_up = waited + AFTER_INTERRUPT;
        while !ended && waited < give_up {
            // Again and again: a socket that is only about to connect does not notice.
            self.shared.interrupt_all();
            waited += INTERRUPT_AGAIN;
            ended = gate.wait_ended(INTERRUPT_AGAIN);
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
impl Drop for Threads {
    fn drop(&mut self) {
        if !self.workers.is_empty() {
            self.end_workers(self.stop_grace);
        }
        if let Some(script) = self.script.take() {
            let _ = script.finish(&self.shared, self.stop_grace);
        }
    }
}
