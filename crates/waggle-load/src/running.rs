//! The handle on a running load, whose threads are this process's or those of the process apart.
//!
//! Invariant: nobody who uses it can tell which, but by the rights that scripts have.

use std::sync::Arc;
use std::time::Duration;

use waggle_stats::latency::LatencyHistogram;

use crate::apart::{self, Remote};
use crate::driver::Driver;
use crate::load::Threads;
use crate::{Counters, LoadError, LoadReport, LoadSpec, LoadState, Snapshot};

/// Threads that run a workload against one server.
pub struct Load(Side);

enum Side {
    Here(Box<Threads>),
    Apart(Box<Remote>),
}

/// Calls the method on whichever it is.
macro_rules! either {
    ($side:expr, $load:ident => $call:expr) => {
        match $side {
            Side::Here($load) => $call,
            Side::Apart($load) => $call,
        }
    };
}

impl Load {
    /// Connects and prepares every worker, then lets them go (unless `start_paused` is set).
    pub fn start(spec: &LoadSpec) -> Result<Load, LoadError> {
        let side = match apart::child() {
            Some(apart) => Side::Apart(Box::new(Remote::start(apart, spec)?)),
            None => Side::Here(Box::new(Threads::start(spec)?)),
        };
        Ok(Load(side))
    }

    /// The same with a driver of the caller's, and in this process.
    pub fn start_with(spec: &LoadSpec, driver: Arc<dyn Driver>) -> Result<Load, LoadError> {
        let threads = Threads::start_with(spec, driver)?;
        Ok(Load(Side::Here(Box::new(threads))))
    }

    #[cfg(test)]
    pub(crate) fn shared(&self) -> &Arc<crate::context::Shared> {
        match &self.0 {
            Side::Here(threads) => &threads.shared,
            Side::Apart(_) => panic!("it runs in another process"),
        }
    }

    /// Everything counted since the load started. Costs the workers nothing.
    pub fn snapshot(&self) -> Snapshot {
        either!(&self.0, load => load.snapshot())
    }

    /// What was counted since the start or the last [`reset`](Load::reset). Exact while paused;
    /// while running, each counter is at most one statement behind.
    pub fn counters(&self) -> Counters {
        either!(&self.0, load => load.counters())
    }

    /// Holds the workers between two transactions; returns when every one is held (or ended), so
    /// that no statement is in flight.
    pub fn pause(&self) {
        either!(&self.0, load => load.pause());
    }

    /// Like [`pause`](Load::pause) with a limit: false when a statement is still in flight then
    /// (the workers stay told to hold).
    pub fn pause_within(&self, limit: Duration) -> bool {
        either!(&self.0, load => load.pause_within(limit))
    }

    /// Workers that are still in an event after a pause that did not succeed within its limit.
    pub fn busy(&self) -> u32 {
        either!(&self.0, load => load.busy())
    }

    /// Lets paused workers go on. An open loop takes its plan up where it was paused, without
    /// what had become due and was not begun.
    pub fn resume(&self) {
        either!(&self.0, load => load.resume());
    }

    /// Forgets what was counted, at a point where no transaction is in flight: the end of a
    /// warm-up. A paused load stays paused; the plan of an open loop and the limit of events
    /// begin anew. (Snapshots go on counting from the start; take their difference.)
    pub fn reset(&self) {
        either!(&self.0, load => load.reset());
    }

    /// From now on this many events may be begun, over all threads; `None`: any number. Exact
    /// while paused.
    pub fn set_event_limit(&self, limit: Option<u64>) {
        either!(&self.0, load => load.set_event_limit(limit));
    }

    /// Latencies of the transactions that ended since the last take, in nanoseconds.
    pub fn take_latency(&self) -> LatencyHistogram {
        either!(&self.0, load => load.take_latency())
    }

    /// CPU time of the worker threads since they started, in nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        either!(&self.0, load => load.cpu_ns())
    }

    /// Waits for at most `limit`; returns earlier when the load failed or ended by itself.
    pub fn wait(&self, limit: Duration) -> LoadState {
        either!(&self.0, load => load.wait(limit))
    }

    /// Where the load stands now.
    pub fn state(&self) -> LoadState {
        either!(&self.0, load => load.state())
    }

    /// Ends the load after the transactions in flight; the first error of a worker, if any.
    pub fn stop(self) -> Result<LoadReport, LoadError> {
        let (report, failure) = self.finish();
        failure.map_or(Ok(report), Err)
    }

    /// Like [`stop`](Load::stop), with what was measured also when a worker failed.
    pub fn finish(self) -> (LoadReport, Option<LoadError>) {
        let grace = either!(&self.0, load => load.stop_grace());
        self.finish_within(grace)
    }

    /// Like [`finish`](Load::finish), but events in flight get `grace` to end before the sockets
    /// are shut down.
    pub fn finish_within(self, grace: Duration) -> (LoadReport, Option<LoadError>) {
        either!(self.0, load => load.finish_within(grace))
    }
}
