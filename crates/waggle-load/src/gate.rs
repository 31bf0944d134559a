//! When workers may run: start together, pause between two events, stop.
//!
//! A worker asks [`Gate::may_run`] before each event and before each retry of one; while nothing
//! is to be done that is one relaxed load. Invariant: when [`Gate::wait_idle`] returns, every
//! worker is parked in `may_run` or has ended, so no statement is in flight.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::LoadError;
use crate::clock::{self, Woken};
use crate::fiber::{self, Mailbox};
use crate::tally::locked;

const RUN: u32 = 0;
const PAUSE: u32 = 1;
const STOP: u32 = 2;

/// Shared by the workers and the one controller of a load.
#[derive(Debug)]
pub(crate) struct Gate {
    phase: AtomicU32,
    state: Mutex<State>,
    workers: Condvar,
    controller: Condvar,
    threads: u32,
    /// Of the threads whose workers are fibers.
    mailboxes: Mutex<Vec<Arc<Mailbox>>>,
}

#[derive(Debug, Default)]
struct State {
    parked: u32,
    ended: u32,
    failure: Option<LoadError>,
    /// Workers that were parked when it came.
    parked_at_failure: u32,
}

/// What a worker learns at the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Permit {
    /// Go on; the time it was held up.
    Run { held: Duration },
    /// The load is over.
    Stop,
}

impl Gate {
    /// Closed: workers park until [`resume`](Gate::resume).
    pub(crate) fn closed(threads: u32) -> Gate {
        Gate {
            phase: AtomicU32::new(PAUSE),
            state: Mutex::default(),
            workers: Condvar::new(),
            controller: Condvar::new(),
            threads,
            mailboxes: Mutex::default(),
        }
    }

    /// Changes of the phase are told to these fibers too.
    pub(crate) fn add_mailbox(&self, mailbox: Arc<Mailbox>) {
        locked(&self.mailboxes).push(mailbox);
    }

    pub(crate) fn may_run(&self) -> Permit {
        fiber::let_others();
        if self.phase.load(Ordering::Relaxed) == RUN {
            return Permit::Run {
                held: Duration::ZERO,
            };
        }
        self.park()
    }

    #[cold]
    fn park(&self) -> Permit {
        let parked_at = Instant::now();
        let mut state = locked(&self.state);
        state.parked += 1;
        self.controller.notify_all();
        // The phase only changes under the lock, so no wake-up is missed; mail is never lost.
        while self.phase.load(Ordering::Relaxed) == PAUSE {
            if fiber::is_fiber() {
                drop(state);
                fiber::park();
                state = locked(&self.state);
                continue;
            }
            state = self
                .workers
                .wait(state)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        state.parked -= 1;
        match self.phase.load(Ordering::Relaxed) {
            RUN => Permit::Run {
                held: parked_at.elapsed(),
            },
            _ => Permit::Stop,
        }
    }

    /// Sleeps while events may begin; told when that changes.
    pub(crate) fn sleep_until(&self, at_ns: u64) -> Woken {
        if fiber::is_fiber() {
            return self.sleep_in_fiber(at_ns);
        }
        clock::sleep_until(at_ns, &self.phase, RUN)
    }

    fn sleep_in_fiber(&self, at_ns: u64) -> Woken {
        loop {
            if self.phase.load(Ordering::Relaxed) != RUN {
                return Woken::Told;
            }
            let left = at_ns.saturating_sub(clock::now_ns());
            if left == 0 {
                return Woken::Due;
            }
            fiber::sleep_until(Instant::now() + Duration::from_nanos(left));
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == STOP
    }

    /// The worker will not come back.
    pub(crate) fn worker_ended(&self) {
        locked(&self.state).ended += 1;
        self.controller.notify_all();
    }

    /// Keeps the first failure and stops everybody.
    pub(crate) fn fail(&self, error: LoadError) {
        let mut state = locked(&self.state);
        // What breaks while the load is being stopped is a consequence, not a cause.
        if !self.is_stopped() {
            state.failure = Some(error);
            state.parked_at_failure = state.parked;
        }
        drop(state);
        self.set_phase(STOP);
    }

    pub(crate) fn take_failure(&self) -> Option<LoadError> {
        locked(&self.state).failure.take()
    }

    /// Before the start: workers that were ready when another one failed.
    pub(crate) fn parked_at_failure(&self) -> u32 {
        locked(&self.state).parked_at_failure
    }

    pub(crate) fn has_failed(&self) -> bool {
        locked(&self.state).failure.is_some()
    }

    pub(crate) fn all_ended(&self) -> bool {
        locked(&self.state).ended == self.threads
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == PAUSE
    }

    pub(crate) fn pause(&self) {
        self.set_phase(PAUSE);
    }

    pub(crate) fn resume(&self) {
        self.set_phase(RUN);
    }

    pub(crate) fn stop(&self) {
        self.set_phase(STOP);
    }

    fn set_phase(&self, phase: u32) {
        let state = locked(&self.state);
        // A stop is final: a resume that comes after a failure must not undo it.
        if self.phase.load(Ordering::Relaxed) != STOP {
            self.phase.store(phase, Ordering::Relaxed);
        }
        drop(state);
        self.workers.notify_all();
        self.controller.notify_all();
        clock::wake_all(&self.phase);
        for mailbox in locked(&self.mailboxes).iter() {
            mailbox.post();
        }
    }

    /// Waits until every worker is parked or has ended.
    pub(crate) fn wait_idle(&self) {
        let mut state = locked(&self.state);
        while state.parked + state.ended < self.threads {
            state = self
                .controller
                .wait(state)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    /// The same with a limit; false if the time ran out before.
    pub(crate) fn wait_idle_for(&self, limit: Duration) -> bool {
        let threads = self.threads;
        self.wait_until(limit, |state| state.parked + state.ended >= threads)
    }

    /// Waits until every worker is parked or has ended, or one failed; false if the time ran out.
    pub(crate) fn wait_ready(&self, limit: Duration) -> bool {
        self.wait_until(limit, |state| {
            state.failure.is_some() || state.parked + state.ended >= self.threads
        })
    }

    /// Waits until every worker has ended; false if the time ran out before.
    pub(crate) fn wait_ended(&self, limit: Duration) -> bool {
        self.wait_until(limit, |state| state.ended == self.threads)
    }

    /// Waits until a worker failed or all ended; false if the time ran out before.
    pub(crate) fn wait_over(&self, limit: Duration) -> bool {
        self.wait_until(limit, |state| {
            state.failure.is_some() || state.ended == self.threads
        })
    }

    /// Workers that neither wait at the gate nor have ended.
    pub(crate) fn busy(&self) -> u32 {
        let state = locked(&self.state);
        self.threads.saturating_sub(state.parked + state.ended)
    }

    pub(crate) fn ended(&self) -> u32 {
        locked(&self.state).ended
    }

    fn wait_until(&self, limit: Duration, reached: impl Fn(&State) -> bool) -> bool {
        let state = locked(&self.state);
        let (state, _) = self
            .controller
            .wait_timeout_while(state, limit, |state| !reached(state))
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        reached(&state)
    }
}
