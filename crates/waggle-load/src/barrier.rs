//! Where the threads of a parallel command wait for each other: `waggle.barrier()`.
//!
//! Invariant: nobody waits for a thread that has ended, and a command that is over lets all go.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::tally::locked;

/// How often a waiting thread looks whether its command is over: that is told by plain flags.
const SLICE: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(crate) struct Barrier {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Threads that take part and have not ended.
    threads: u32,
    waiting: u32,
    /// Times that all came.
    passed: u64,
}

impl State {
    fn let_go_if_all_came(&mut self) -> bool {
        let all_came = self.waiting >= self.threads;
        if all_came {
            self.waiting = 0;
            self.passed += 1;
        }
        all_came
    }
}

impl Barrier {
    pub(crate) fn new(threads: u32) -> Barrier {
        let state = State {
            threads,
            ..State::default()
        };
        Barrier {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn set_threads(&self, threads: u32) {
        locked(&self.state).threads = threads;
    }

    /// The caller's thread has ended and will not come.
    pub(crate) fn leave(&self) {
        let mut state = locked(&self.state);
        state.threads = state.threads.saturating_sub(1);
        if state.waiting > 0 && state.let_go_if_all_came() {
            self.changed.notify_all();
        }
    }

    /// Waits until all threads that have not ended came here; false when `is_over` says so before.
    pub(crate) fn wait(&self, is_over: impl Fn() -> bool) -> bool {
        let mut state = locked(&self.state);
        let passed = state.passed;
        state.waiting += 1;
        if state.let_go_if_all_came() {
            self.changed.notify_all();
            return !is_over();
        }
        while state.passed == passed {
            if is_over() {
                state.waiting -= 1;
                return false;
            }
            let woken = self.changed.wait_timeout(state, SLICE);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        !is_over()
    }
}
