//! What goes between the two processes, as plain data.
//!
//! The parent believes nothing that it has not checked: lengths are bounded by `socket`, figures by
//! `figures`, and here texts lose what a terminal would act upon. Invariant: what became of a
//! message is a value of the crate's own types, or the run fails.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use waggle_stats::arrivals::Arrivals;
use waggle_stats::latency::SparseLatency;
use waggle_wire::Dsn;

use super::figures::{ReportForm, SnapshotForm};
use crate::{
    Check, CommandInfo, Counters, DeclaredOption, Dialect, IgnoreErrors, LoadError, LoadSpec,
    LoadState, OptionValue, Overflow, Script, WaitBy, WorkerError,
};

/// What a session is for; the first message in it.
#[derive(Serialize, Deserialize)]
pub(super) enum Open {
    /// [`crate::check`].
    Check(Box<SpecForm>),
    /// `crate::command`.
    Command(Box<SpecForm>, String),
    /// [`crate::commands`].
    Commands(Box<SpecForm>),
    /// [`crate::checks`].
    Checks(Box<SpecForm>, Box<SnapshotForm>, Duration),
    /// [`crate::Load::start`]; [`Ask`]s follow.
    Start(Box<SpecForm>),
}

/// What is asked of a running load.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) enum Ask {
    Snapshot,
    Counters,
    Pause,
    PauseWithin(Duration),
    Busy,
    Resume,
    Reset,
    SetEventLimit(Option<u64>),
    TakeLatency,
    CpuNs,
    Wait(Duration),
    State,
    Finish(Duration),
}

/// The answer to each.
#[derive(Serialize, Deserialize)]
pub(super) enum Answer {
    Done,
    Failed(ErrorForm),
    Options(Vec<DeclaredOption>),
    Commands(Vec<CommandInfo>),
    Checks(Vec<Check>),
    Snapshot(Box<SnapshotForm>),
    Counters(Counters),
    Flag(bool),
    Number(u64),
    Latency(SparseLatency),
    State(LoadState),
    Finished(Box<ReportForm>, Option<ErrorForm>),
}

/// What happens meanwhile.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Event {
    /// A script printed a line.
    Line { thread: u32, text: String },
    /// A bulk insert was sent.
    Rows { inserted: u64 },
}

/// A [`LoadSpec`]; `cancel` and `log` are carried out by the session. It holds a password, so it
/// has no `Debug`.
#[derive(Serialize, Deserialize)]
pub(super) struct SpecForm {
    pub(super) server: ServerForm,
    script: Script,
    options: BTreeMap<String, String>,
    threads: u32,
    seed: u64,
    ignored_errors: Option<BTreeSet<u16>>,
    restart_limit: u32,
    statement_timeout: Option<Duration>,
    stop_grace: Duration,
    start_paused: bool,
    pub(super) wants_lines: bool,
    event_limit: Option<u64>,
    arrivals: Option<Arrivals>,
    overflow: Overflow,
    reconnect_limit: Duration,
    statement_latency: bool,
    client_prepare: bool,
    dialect: Dialect,
    io: WaitBy,
    floating: bool,
    general_options: BTreeMap<String, OptionValue>,
    argv: Vec<String>,
}

/// The server, with what stands in for the files that its name names (`server`).
#[derive(Default, Serialize, Deserialize)]
pub(super) struct ServerForm {
    /// Without the password.
    pub(super) dsn: String,
    pub(super) password: Option<String>,
    /// Whose descriptor is handed over.
    pub(super) door: Option<DoorForm>,
    /// Whether a descriptor stands for the authority, the certificate, the key, the server's key.
    pub(super) files: [bool; 4],
}

/// What leads to a server's socket, by name.
#[derive(Serialize, Deserialize)]
pub(super) enum DoorForm {
    Folder(String),
    Socket(String),
}

impl SpecForm {
    pub(super) fn new(spec: &LoadSpec, server: ServerForm) -> SpecForm {
        // By name, so that a field that comes later is not forgotten.
        let LoadSpec {
            dsn: _,
            script,
            options,
            threads,
            seed,
            ignore_errors,
            restart_limit,
            statement_timeout,
            stop_grace,
            start_paused,
            cancel: _,
            log,
            event_limit,
            arrivals,
            overflow,
            reconnect_limit,
            statement_latency,
            client_prepare,
            dialect,
            io,
            floating,
            general_options,
            argv,
        } = spec;
        SpecForm {
            server,
            script: script.clone(),
            options: options.clone(),
            threads: *threads,
            seed: *seed,
            ignored_errors: match ignore_errors {
                IgnoreErrors::All => None,
                IgnoreErrors::Only(errnos) => Some(errnos.clone()),
            },
            restart_limit: *restart_limit,
            statement_timeout: *statement_timeout,
            stop_grace: *stop_grace,
            start_paused: *start_paused,
            wants_lines: log.is_some(),
            event_limit: *event_limit,
            arrivals: arrivals.clone(),
            overflow: *overflow,
            reconnect_limit: *reconnect_limit,
            statement_latency: *statement_latency,
            client_prepare: *client_prepare,
            dialect: *dialect,
            io: *io,
            floating: *floating,
            general_options: general_options.clone(),
            argv: argv.clone(),
        }
    }

    pub(super) fn into_spec(self, dsn: Dsn, cancel: Arc<AtomicBool>) -> LoadSpec {
        LoadSpec {
            dsn,
            script: self.script,
            options: self.options,
            threads: self.threads,
            seed: self.seed,
            ignore_errors: self
                .ignored_errors
                .map_or(IgnoreErrors::All, IgnoreErrors::Only),
            restart_limit: self.restart_limit,
            statement_timeout: self.statement_timeout,
            stop_grace: self.stop_grace,
            start_paused: self.start_paused,
            cancel,
            log: None,
            event_limit: self.event_limit,
            arrivals: self.arrivals,
            overflow: self.overflow,
            reconnect_limit: self.reconnect_limit,
            statement_latency: self.statement_latency,
            client_prepare: self.client_prepare,
            dialect: self.dialect,
            io: self.io,
            floating: self.floating,
            general_options: self.general_options,
            argv: self.argv,
        }
    }
}

/// A [`LoadError`]: those that callers tell apart, and all others as their text.
#[derive(Serialize, Deserialize)]
pub(super) enum ErrorForm {
    NoEvent(String),
    NoCommand(String, String),
    Worker(Box<WorkerError>),
    Connect(u32, u32, Box<WorkerError>),
    Cancelled,
    Overflow(u64, Duration),
    Stuck(u32, f64),
    Told(String),
}

impl From<LoadError> for ErrorForm {
    fn from(error: LoadError) -> ErrorForm {
        match error {
            LoadError::NoEvent { script } => ErrorForm::NoEvent(script),
            LoadError::NoCommand { script, command } => ErrorForm::NoCommand(script, command),
            LoadError::Worker(error) => ErrorForm::Worker(error),
            LoadError::Connect {
                connected,
                threads,
                source,
            } => ErrorForm::Connect(connected, threads, source),
            LoadError::Cancelled => ErrorForm::Cancelled,
            LoadError::Overflow { waiting, age } => ErrorForm::Overflow(waiting, age),
            LoadError::Stuck { threads, waited_s } => ErrorForm::Stuck(threads, waited_s),
            other => ErrorForm::Told(chain(&other)),
        }
    }
}

impl ErrorForm {
    /// With `from` called `to` in what it says.
    pub(super) fn renamed(mut self, from: &str, to: &str) -> ErrorForm {
        match &mut self {
            ErrorForm::Worker(error) | ErrorForm::Connect(_, _, error) => {
                error.message = error.message.replace(from, to);
            }
            ErrorForm::Told(text) => *text = text.replace(from, to),
            _ => {}
        }
        self
    }

    /// The error, with its texts changed by `told`.
    pub(super) fn into_error(self, told: &dyn Fn(String) -> String) -> LoadError {
        let told = |text: String| told(plain(text));
        let worker = |error: Box<WorkerError>| {
            Box::new(WorkerError {
                statement: error.statement.map(plain),
                at: error.at.map(plain),
                message: told(error.message),
                answer: error
                    .answer
                    .map(|(state, text)| (plain(state), plain(text))),
                function: error.function.map(plain),
                ..*error
            })
        };
        match self {
            ErrorForm::NoEvent(script) => LoadError::NoEvent {
                script: plain(script),
            },
            ErrorForm::NoCommand(script, command) => LoadError::NoCommand {
                script: plain(script),
                command: plain(command),
            },
            ErrorForm::Worker(error) => LoadError::Worker(worker(error)),
            ErrorForm::Connect(connected, threads, source) => LoadError::Connect {
                connected,
                threads,
                source: worker(source),
            },
            ErrorForm::Cancelled => LoadError::Cancelled,
            ErrorForm::Overflow(waiting, age) => LoadError::Overflow { waiting, age },
            ErrorForm::Stuck(threads, waited_s) => LoadError::Stuck { threads, waited_s },
            ErrorForm::Told(text) => LoadError::Apart(told(text)),
        }
    }
}

/// An error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Without what a terminal acts upon.
pub(super) fn plain(text: String) -> String {
    let is_plain = |c: char| {
        // Marks that turn the order of what follows around.
        let turns = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        matches!(c, '\n' | '\t') || !(c.is_control() || turns)
    };
    if text.chars().all(is_plain) {
        return text;
    }
    let chars = text.chars();
    chars
        .map(|c| if is_plain(c) { c } else { '\u{fffd}' })
        .collect()
}
