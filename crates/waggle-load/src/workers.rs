//! The workers of a load: as threads, or as fibers of a few threads.
//!
//! Invariant: every worker that is asked for reports to the gate exactly once that it has ended,
//! also when it could not be started.

use std::num::NonZero;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::clock::{now_ns, wake_on_time};
use crate::command::open_state;
use crate::context::Shared;
use crate::fiber::{self, Mailbox};
use crate::state::{Called, Setup};
use crate::tally::Tally;
use crate::{LoadError, WaitBy, WorkerError};

/// Address space of a worker's stack; memory is used as it is touched. Lua keeps its own stack
/// elsewhere; what is needed here is room for the parser of scripts and for TLS handshakes.
const STACK_BYTES: usize = 512 * 1024;

/// Above this, unless a ring is asked for, every worker is a thread (docs/design/0004).
const FIBERS_PER_THREAD_MAX: usize = 1024;

/// How many threads there are, and which worker is whose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Each of so many workers is a thread.
    Threads(usize),
    /// Workers are fibers of so many threads, dealt out in turn.
    Loops(usize),
    /// The same, each thread on a processor of its own.
    PinnedLoops(usize),
}

impl Plan {
    /// How many threads.
    pub(crate) fn threads(self) -> usize {
        let (Self::Threads(threads) | Self::Loops(threads) | Self::PinnedLoops(threads)) = self;
        threads
    }

    /// Which of them a worker is, or is a fiber of.
    pub(crate) fn thread_of(self, worker: usize) -> usize {
        match self {
            Self::Threads(_) => worker,
            Self::Loops(loops) | Self::PinnedLoops(loops) => worker % loops,
        }
    }
}

/// How to run so many workers; `floating`: the scheduler is to move the threads of rings.
///
/// # Errors
/// A ring was asked for, and this kernel or this driver has none.
pub(crate) fn plan(
    shared: &Shared,
    workers: usize,
    (wait_by, floating): (WaitBy, bool),
) -> Result<Plan, LoadError> {
    let loops = match wait_by {
        WaitBy::Threads => None,
        WaitBy::Auto | WaitBy::Ring => ring_threads(shared, workers, wait_by),
    };
    match loops {
        None if wait_by == WaitBy::Ring => Err(LoadError::NoRing),
        None => Ok(Plan::Threads(workers)),
        // Where there are more processors than threads, the scheduler knows better which are free.
        Some(loops) if !floating && processors().len() == loops => Ok(Plan::PinnedLoops(loops)),
        Some(loops) => Ok(Plan::Loops(loops)),
    }
}

/// The processors that this thread may use, in order; none if that cannot be told.
fn processors() -> Vec<usize> {
    let allowed = sched_getaffinity(None);
    let is_allowed = |cpu: &usize| allowed.as_ref().is_ok_and(|set| set.is_set(*cpu));
    (0..CpuSet::MAX_CPU).filter(is_allowed).collect()
}

/// Keeps the calling thread to the `number`th of its processors, if that can be done: a thread that
/// follows the idle processor of the moment is mostly woken from another one, which costs both
/// sides more than a statement does (docs/design/0004).
fn pin(number: usize) {
    if let Some(cpu) = processors().get(number) {
        let mut only = CpuSet::new();
        only.set(*cpu);
        let _ = sched_setaffinity(None, &only);
    }
}

/// Starts a worker for each tally.
pub(crate) fn spawn(
    setup: &Setup,
    shared: &Arc<Shared>,
    tallies: &[Arc<Tally>],
    plan: Plan,
    handles: &mut Vec<JoinHandle<()>>,
) -> Result<(), LoadError> {
    match plan {
        Plan::Threads(_) => spawn_threads(setup, shared, tallies, handles),
        Plan::Loops(_) | Plan::PinnedLoops(_) => spawn_loops(setup, shared, tallies, plan, handles),
    }
}

/// On how many threads to run so many workers as fibers; `None` where a thread each is better or
/// the only way.
fn ring_threads(shared: &Shared, workers: usize, wait_by: WaitBy) -> Option<usize> {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    // A fiber that has a thread for itself gains nothing; of more than this, nothing was measured.
    let pays = processors < workers && workers <= FIBERS_PER_THREAD_MAX * processors;
    let is_wanted = pays || wait_by != WaitBy::Auto;
    (is_wanted && shared.driver.waits_in_fibers() && fiber::is_available())
        .then_some(processors.min(workers))
}

fn spawn_threads(
    setup: &Setup,
    shared: &Arc<Shared>,
    tallies: &[Arc<Tally>],
    handles: &mut Vec<JoinHandle<()>>,
) -> Result<(), LoadError> {
    for (thread, tally) in tallies.iter().enumerate() {
        if shared.gate.has_failed() {
            never_started(shared, tallies.len() - thread);
            return Ok(());
        }
        let number = thread as u32;
        let (setup, shared_too, tally) = (setup.clone(), shared.clone(), tally.clone());
        let body = move || {
            block_signals();
            wake_on_time();
            tally.thread_started();
            worker(&setup, number, &shared_too, &tally);
            tally.thread_ended();
            shared_too.gate.worker_ended();
        };
        handles.push(named(number, body).inspect_err(|_| {
            never_started(shared, tallies.len() - thread);
        })?);
    }
    Ok(())
}

fn spawn_loops(
    setup: &Setup,
    shared: &Arc<Shared>,
    tallies: &[Arc<Tally>],
    plan: Plan,
    handles: &mut Vec<JoinHandle<()>>,
) -> Result<(), LoadError> {
    let loops = plan.threads();
    for number in 0..loops {
        let mine: Vec<(u32, Arc<Tally>)> = (0u32..)
            .zip(tallies.iter().cloned())
            .skip(number)
            .step_by(loops)
            .collect();
        let rest: usize = (number..loops)
            .map(|n| tallies.iter().skip(n).step_by(loops).count())
            .sum();
        let started = Mailbox::new().map_err(LoadError::Ring).and_then(|mailbox| {
            let mailbox = Arc::new(mailbox);
            shared.gate.add_mailbox(mailbox.clone());
            let (setup, shared) = (setup.clone(), shared.clone());
            named(number as u32, move || {
                if let Plan::PinnedLoops(_) = plan {
                    pin(number);
                }
                run_loop(&setup, &shared, mine, &mailbox)
            })
        });
        handles.push(started.inspect_err(|_| never_started(shared, rest))?);
    }
    Ok(())
}

/// The body of a thread whose workers are fibers.
fn run_loop(setup: &Setup, shared: &Arc<Shared>, mine: Vec<(u32, Arc<Tally>)>, mailbox: &Mailbox) {
    block_signals();
    wake_on_time();
    // The thread's CPU time is that of all its workers; one of them keeps the account.
    let accountant = mine.first().map(|(_, tally)| tally.clone());
    if let Some(tally) = &accountant {
        tally.thread_started();
    }
    let workers = mine.len() as u32;
    let ended = Arc::new(AtomicU32::new(0));
    let tasks = mine.into_iter().map(|(number, tally)| {
        let (setup, shared, ended) = (setup.clone(), shared.clone(), ended.clone());
        Box::new(move || {
            worker(&setup, number, &shared, &tally);
            // The last one reports after the thread's account is closed.
            if ended.fetch_add(1, Ordering::Relaxed) + 1 < workers {
                shared.gate.worker_ended();
            }
        }) as fiber::Task
    });
    let result = fiber::run(tasks.collect(), STACK_BYTES, mailbox);
    if let Some(tally) = &accountant {
        tally.thread_ended();
    }
    let open = match result {
        Ok(()) => 1,
        Err(error) => {
            shared.gate.fail(LoadError::Ring(error));
            let ended = ended.load(Ordering::Relaxed);
            workers - ended.min(workers - 1)
        }
    };
    never_started(shared, open as usize);
}

fn named(number: u32, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, LoadError> {
    thread::Builder::new()
        .name(format!("waggle-load-{number}"))
        .stack_size(STACK_BYTES)
        .spawn(body)
        .map_err(|source| LoadError::Spawn {
            thread: number,
            source,
        })
}

/// The gate counts to the number of workers asked for.
fn never_started(shared: &Shared, workers: usize) {
    for _ in 0..workers {
        shared.gate.worker_ended();
    }
}

/// A worker from its connection to its good-bye. It does not unwind.
fn worker(setup: &Setup, thread: u32, shared: &Arc<Shared>, tally: &Arc<Tally>) {
    let result = panic::catch_unwind(AssertUnwindSafe(|| {
        run_script(setup, thread, shared, tally)
    }));
    if let Err(error) = result.unwrap_or_else(|_| Err(panicked(thread))) {
        shared.gate.fail(error);
        if let Some(pace) = &shared.pace {
            pace.halt(now_ns());
        }
    }
}

fn run_script(
    setup: &Setup,
    thread: u32,
    shared: &Arc<Shared>,
    tally: &Arc<Tally>,
) -> Result<(), LoadError> {
    if shared.gate.has_failed() {
        return Ok(());
    }
    let mut state = open_state(setup, thread, shared, tally)?;
    let result = outcome(state.call_if_defined("thread_init"))
        .and_then(|()| outcome(state.call_if_defined("thread_run")))
        .and_then(|()| outcome(state.call_if_defined("thread_done")));
    state.disconnect_all();
    result
}

pub(crate) fn outcome(called: Called) -> Result<(), LoadError> {
    match called {
        Called::Done(_) | Called::Stopped => Ok(()),
        Called::Failed(error) => Err(LoadError::Worker(error)),
    }
}

pub(crate) fn panicked(thread: u32) -> LoadError {
    let message = "the thread panicked; this is a fault of waggle";
    LoadError::Worker(Box::new(WorkerError::plain(thread, message)))
}

/// Signals are for the thread that decides what they mean; a worker in a system call would only
/// be disturbed by them.
pub(crate) fn block_signals() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_stays_on_one_processor_and_one_without_its_own_on_all() {
        let all = processors();
        assert!(!all.is_empty());
        for (number, cpu) in all.iter().enumerate() {
            let kept = thread::spawn(move || {
                pin(number);
                processors()
            });
            assert_eq!(kept.join().unwrap(), [*cpu]);
        }
        let too_many = all.len();
        let free = thread::spawn(move || {
            pin(too_many);
            processors()
        });
        assert_eq!(free.join().unwrap(), all);
    }
}
