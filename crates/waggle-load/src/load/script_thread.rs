//! The thread of a script's `init` and `done`, around the events of the workers.
//!
//! Invariant: no worker is started before `init` has returned, and `done` is due once it has.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::{AFTER_INTERRUPT, CANCEL_CHECK};
use crate::LoadError;
use crate::command::open_state;
use crate::context::Shared;
use crate::state::{Setup, State};
use crate::tally::locked;
use crate::workers::{block_signals, outcome, panicked};

/// The state that runs `init` before and `done` after the workers.
pub(super) struct ScriptThread {
    finish: Sender<()>,
    /// Behind a lock so that a load can be shared between threads.
    done: Mutex<Receiver<Result<(), LoadError>>>,
}

impl ScriptThread {
    /// Checks the script and runs its `init`, all before a worker is started.
    pub(super) fn start(
        setup: &Setup,
        shared: &Arc<Shared>,
        cancel: &AtomicBool,
    ) -> Result<ScriptThread, LoadError> {
        let (finish, finished) = mpsc::channel();
        let (tell, is_ready) = mpsc::channel();
        let (tell_done, done) = mpsc::channel();
        let (setup, shared) = (setup.clone(), shared.clone());
        let body = move || {
            block_signals();
            let mut state = match open_and_init(&setup, &shared) {
                Ok(state) => state,
                Err(error) => {
                    // Nobody listens when the start was cancelled.
                    let _ = tell.send(Err(error));
                    return;
                }
            };
            let _ = tell.send(Ok(()));
            // An error means that the load was dropped: `done` is due all the same.
            let _ = finished.recv();
            let result = state.call_if_defined("done");
            state.disconnect_all();
            let _ = tell_done.send(outcome(result));
        };
        thread::Builder::new()
            .name("waggle-script".to_owned())
            .spawn(body)
            .map_err(|source| LoadError::Spawn { thread: 0, source })?;
        loop {
            match is_ready.recv_timeout(CANCEL_CHECK) {
                Ok(Ok(())) => {
                    return Ok(ScriptThread {
                        finish,
                        done: Mutex::new(done),
                    });
                }
                Ok(Err(error)) => return Err(error),
                Err(RecvTimeoutError::Disconnected) => return Err(panicked(0)),
                Err(RecvTimeoutError::Timeout) if cancel.load(Ordering::Relaxed) => {
                    return Err(LoadError::Cancelled);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Runs `done`, which gets as long as the workers got.
    pub(super) fn finish(self, shared: &Shared, grace: Duration) -> Result<(), LoadError> {
        // It may have ended by a panic; the missing answer tells.
        let _ = self.finish.send(());
        let done = locked(&self.done);
        let mut answer = done.recv_timeout(grace);
        if answer.is_err() {
            shared.interrupt_all();
            answer = done.recv_timeout(AFTER_INTERRUPT);
        }
        match answer {
            Ok(result) => result,
            Err(RecvTimeoutError::Disconnected) => Err(panicked(0)),
            Err(RecvTimeoutError::Timeout) => Err(LoadError::Stuck {
                threads: 1,
                waited_s: (grace + AFTER_INTERRUPT).as_secs_f64(),
            }),
        }
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
