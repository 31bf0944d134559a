//! `prepare`, `cleanup` and the check of a workload before anything is opened.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::apart;
use crate::barrier::Barrier;
use crate::context::{Budget, Context, Names, ProgressSink, Shared};
use crate::driver::mysql::MySql;
use crate::driver::{Driver, DriverError, Session};
use crate::gate::Gate;
use crate::rand::{Rand, RandSettings, UniqueSource};
use crate::spec::LogSink;
use crate::state::{Called, Command, Setup, State};
use crate::tally::{Tally, locked};
use crate::{
    Check, CommandInfo, DeclaredOption, LoadError, LoadSpec, ScriptFace, Snapshot, WorkerError,
};

/// What a command reports while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress<'a> {
    /// A line that the script printed.
    Message {
        /// Index of the thread.
        thread: u32,
        /// The line.
        text: &'a str,
    },
    /// A bulk insert was sent; all threads together have inserted this many rows.
    Rows {
        /// Rows so far.
        inserted: u64,
    },
}

/// Creates and fills the workload's tables, in parallel where the script allows it.
pub fn prepare(
    spec: &LoadSpec,
    progress: impl Fn(Progress<'_>) + Send + Sync + 'static,
) -> Result<(), LoadError> {
    command(spec, "prepare", progress)
}

/// Drops the workload's tables.
pub fn cleanup(
    spec: &LoadSpec,
    progress: impl Fn(Progress<'_>) + Send + Sync + 'static,
) -> Result<(), LoadError> {
    command(spec, "cleanup", progress)
}

/// Runs a command of the workload by name (`prepare`, `warmup`, `check`, ...).
pub fn command(
    spec: &LoadSpec,
    name: &str,
    progress: impl Fn(Progress<'_>) + Send + Sync + 'static,
) -> Result<(), LoadError> {
    match apart::child() {
        Some(apart) => apart.command(spec, name, Arc::new(progress)),
        None => run(spec, name, mysql(spec), Arc::new(progress)),
    }
}

/// Loads the script and its options without connecting; returns the options it knows.
pub fn check(spec: &LoadSpec) -> Result<Vec<DeclaredOption>, LoadError> {
    if let Some(apart) = apart::child() {
        return apart.check(spec);
    }
    let shared = Arc::new(shared(spec, Arc::new(NoServer), Arc::default(), None));
    let state = open_state(
        &setup(spec, "run", log_of(spec)),
        0,
        &shared,
        &Arc::default(),
    )?;
    if state.global("event").is_none() {
        return Err(LoadError::NoEvent {
            script: spec.script.name().to_owned(),
        });
    }
    Ok(state.declared().to_vec())
}

/// The commands that the script brings.
pub fn commands(spec: &LoadSpec) -> Result<Vec<CommandInfo>, LoadError> {
    match apart::child() {
        Some(apart) => apart.commands(spec),
        None => ScriptFace::open(spec, mysql(spec)).map(|face| face.commands()),
    }
}

/// What the script's `checks` function says of a run; nothing if it has none.
pub fn checks(spec: &LoadSpec, run: &Snapshot, length: Duration) -> Result<Vec<Check>, LoadError> {
    match apart::child() {
        Some(apart) => apart.checks(spec, run, length),
        None => ScriptFace::open(spec, mysql(spec))?.checks(run, length),
    }
}

/// The process that loads run in: this one, or the one apart.
pub fn process_id() -> u32 {
    apart::process().unwrap_or_else(std::process::id)
}

pub(crate) fn mysql(spec: &LoadSpec) -> Arc<dyn Driver> {
    let driver = MySql::new(vec![spec.dsn.clone()], spec.statement_timeout);
    Arc::new(driver.with_client_prepare(spec.client_prepare))
}

pub(crate) fn log_of(spec: &LoadSpec) -> LogSink {
    match &spec.log {
        Some(log) => log.clone(),
        // A reader of stderr that went away is no reason to end a load.
        None => Arc::new(|_, line| _ = writeln!(io::stderr(), "{line}")),
    }
}

pub(crate) fn setup(spec: &LoadSpec, command: &str, log: LogSink) -> Setup {
    Setup::new(spec, command, log)
}

pub(crate) fn shared(
    spec: &LoadSpec,
    driver: Arc<dyn Driver>,
    cancelled: Arc<AtomicBool>,
    progress: Option<ProgressSink>,
) -> Shared {
    Shared {
        driver,
        gate: Gate::closed(spec.threads),
        barrier: progress.as_ref().map(|_| Barrier::new(1)),
        cancelled,
        abandoned: AtomicBool::new(false),
        ignore_errors: spec.ignore_errors.clone(),
        restart_limit: spec.restart_limit,
        interrupters: Mutex::default(),
        unique: UniqueSource::default(),
        rows_inserted: AtomicU64::new(0),
        progress,
        pace: None,
        budget: Budget::new(None),
        reconnect_limit: spec.reconnect_limit,
        times_statements: spec.statement_latency,
        contexts: AtomicU32::new(0),
        errors: Mutex::default(),
        operations: Names::default(),
        statements: Names::default(),
        user_counters: Names::default(),
    }
}

pub(crate) fn open_state(
    setup: &Setup,
    thread: u32,
    shared: &Arc<Shared>,
    tally: &Arc<Tally>,
) -> Result<State, LoadError> {
    // Seeded when the options are known; nothing draws before.
    let rand = Rand::new(0, 0, RandSettings::default(), shared.unique.clone());
    let context = Context::new(shared.clone(), tally.clone(), rand);
    State::open(setup, thread, context)
}

/// Runs a command of the workload by name (`warmup`, `check`, ...), with a driver of the caller's.
pub fn run_command(
    spec: &LoadSpec,
    name: &str,
    driver: Arc<dyn Driver>,
    progress: impl Fn(Progress<'_>) + Send + Sync + 'static,
) -> Result<(), LoadError> {
    run(spec, name, driver, Arc::new(progress))
}

/// Runs one command with a driver of the caller's.
pub(crate) fn run(
    spec: &LoadSpec,
    name: &str,
    driver: Arc<dyn Driver>,
    progress: ProgressSink,
) -> Result<(), LoadError> {
    let log: LogSink = {
        let progress = progress.clone();
        Arc::new(move |thread, text| progress(Progress::Message { thread, text }))
    };
    let setup = setup(spec, name, log);
    let shared = Arc::new(shared(spec, driver, spec.cancel.clone(), Some(progress)));
    let mut state = open_state(&setup, 0, &shared, &Arc::default())?;
    let Some(command) = state.command(name) else {
        let script = spec.script.name().to_owned();
        return Err(LoadError::NoCommand {
            script,
            command: name.to_owned(),
        });
    };
    if !command.parallel || spec.threads == 1 {
        return call(&mut state, &command);
    }
    drop((command, state));
    run_parallel(spec, &setup, &shared)
}

fn run_parallel(spec: &LoadSpec, setup: &Setup, shared: &Arc<Shared>) -> Result<(), LoadError> {
    let first_failure = Mutex::new(None);
    let barrier = shared.barrier.as_ref();
    if let Some(barrier) = barrier {
        barrier.set_threads(spec.threads);
    }
    let one = &|thread: u32| {
        let result = open_state(setup, thread, shared, &Arc::default()).and_then(|mut state| {
            match state.command(&setup.command) {
                Some(command) => call(&mut state, &command),
                None => Ok(()),
            }
        });
        if let Err(error) = result {
            // The first failure ends the others at their next statement.
            locked(&first_failure).get_or_insert(error);
            shared.abandoned.store(true, Ordering::Relaxed);
        }
        if let Some(barrier) = barrier {
            barrier.leave();
        }
    };
    thread::scope(|scope| {
        for thread in 0..spec.threads {
            let named = thread::Builder::new().name(format!("waggle-load-{thread}"));
            if let Err(source) = named.spawn_scoped(scope, move || one(thread)) {
                locked(&first_failure).get_or_insert(LoadError::Spawn { thread, source });
                shared.abandoned.store(true, Ordering::Relaxed);
                return;
            }
        }
    });
    locked(&first_failure).take().map_or(Ok(()), Err)
}

fn call(state: &mut State, command: &Command) -> Result<(), LoadError> {
    let called = state.call_command(command);
    state.disconnect_all();
    match called {
        // A command says false when it failed in a way of its own.
        Called::Done(Some(false)) => {
            let message = "the command of the workload returned false";
            Err(LoadError::Worker(Box::new(WorkerError::plain(
                state.thread(),
                message,
            ))))
        }
        Called::Done(_) => Ok(()),
        Called::Stopped => Err(LoadError::Cancelled),
        Called::Failed(error) => Err(LoadError::Worker(error)),
    }
}

/// For checks: a script that connects at its top level learns that there is nothing yet.
struct NoServer;

impl Driver for NoServer {
    fn name(&self) -> &str {
        "mysql"
    }

    fn connect(&self) -> Result<Box<dyn Session>, DriverError> {
        Err(DriverError::Refused(
            "the workload connects before it runs".to_owned(),
        ))
    }
}
