//! A script with its options, and the command that is run of it.
//!
//! Invariant: the order is sysbench's: a command of the script's own table, then `help`,
//! `prepare`, `cleanup`, `run`; what a script lacks is told on standard error.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use waggle_load::{LoadError, LoadSpec, Progress, Script, ScriptFace, run_command};
use waggle_wire::Endpoint;

use super::failure;
use super::grammar::{Given, Line};
use super::help;
use super::log::{Level, Log};
use super::options::Values;
use super::refusal::Refusal;
use super::run::{self, DONE, FAILED, Job};
use super::servers::{self, Servers};
use super::settings::{self, Settings};
use crate::interrupt::{self, Interrupt};

/// The longest wait for the answer to a statement of a run; longer than a lock wait.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(600);
/// The same for commands: an index on a large table takes its time.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(6 * 3600);

/// How soon a signal is noticed while a command runs.
const PATIENCE: Duration = Duration::from_millis(50);

/// Options of the generator: the engine knows them beside those of the script.
const RANDOM: [&str; 6] = [
    "rand-type",
    "rand-spec-iter",
    "rand-spec-pct",
    "rand-spec-res",
    "rand-pareto-h",
    "rand-zipfian-exp",
];

/// A loaded script, ready for a command.
pub(super) struct Session<'a> {
    settings: &'a Settings,
    values: &'a Values,
    spec: LoadSpec,
    face: ScriptFace,
    log: Arc<Log>,
}

/// Loads the test that the line names, with its options.
pub(super) fn prepare<'a>(
    settings: &'a Settings,
    values: &'a Values,
    line: &Line,
    words: &[String],
    log: &Arc<Log>,
) -> Result<Session<'a>, Refusal> {
    if let Some(typed) = &values.wrong_switch {
        return Err(Refusal::usage(format!("invalid option: {typed}")));
    }
    let test = match &line.test {
        Some(test) => test.as_str(),
        None if io::stdin().is_terminal() => {
            let usage = "Usage: sysbench [options]... [testname] [command] (see --help)";
            return Err(Refusal::usage(usage));
        }
        None => "-",
    };
    if help::NOT_DATABASES.contains(&test) {
        return Err(Refusal::fatal(format!(
            "the '{test}' test loads no database and is not part of waggle; sysbench has it"
        )));
    }
    let refused = |error: &LoadError| Refusal::fatal(failure::words(error));
    let script = Script::open_sysbench(test).map_err(|error| refused(&error))?;
    let command = line.command.as_deref().unwrap_or_default();
    let mut spec = spec(settings, values, script, words, log)?;
    // A configuration file may serve several scripts: what this one lacks is a warning.
    let face = loop {
        let driver = Servers::choose(values, None, Arc::clone(log))?;
        match ScriptFace::open_for(&spec, command, Arc::new(driver)) {
            Ok(face) => break face,
            Err(LoadError::UnknownOption { name, .. }) => {
                let given = values.rest.iter().rfind(|given| given.name == name);
                match given {
                    Some(given) if given.from_file => {
                        let text = format!("{test} has no option '{name}': {}", given.typed);
                        log.line(Level::Warning, &text);
                        spec.options.remove(&name);
                    }
                    _ => return Err(invalid(given, &name)),
                }
            }
            Err(LoadError::OptionValue { name, value, .. }) => {
                let given = values.rest.iter().rfind(|given| given.name == name);
                return Err(wrong_value(given, &name, &value));
            }
            Err(error) => return Err(refused(&error)),
        }
    };
    Ok(Session {
        settings,
        values,
        spec,
        face,
        log: Arc::clone(log),
    })
}

fn invalid(given: Option<&Given>, name: &str) -> Refusal {
    let typed = given.map_or(format!("--{name}"), |given| given.typed.clone());
    Refusal::usage(format!("invalid option: {typed}"))
}

/// sysbench calls a value that is neither on nor off an unknown option.
fn wrong_value(given: Option<&Given>, name: &str, value: &str) -> Refusal {
    match given {
        Some(given) if !matches!(value.parse::<f64>(), Ok(value) if value.is_finite()) => {
            Refusal::usage(format!("invalid option: {}", given.typed))
        }
        _ => Refusal::usage(format!("Invalid value for the '{name}' option: '{value}'")),
    }
}

fn spec(
    settings: &Settings,
    values: &Values,
    script: Script,
    words: &[String],
    log: &Arc<Log>,
) -> Result<LoadSpec, Refusal> {
    // Sessions are opened through `Servers`; the address here plays no part.
    let nowhere = servers::dsn(values, Endpoint::Socket("/".into()));
    let printed = Arc::clone(log);
    let random = RANDOM
        .iter()
        .filter(|name| values.is_known(name))
        .map(|name| (name.replace('-', "_"), values.text(name).to_owned()));
    let own = values.rest.iter().map(|given| {
        let value = given.value.clone().unwrap_or_default();
        (given.name.clone(), value)
    });
    let options: BTreeMap<String, String> = random.chain(own).collect();
    let argv = ["sysbench".to_owned()].into_iter().chain(words.to_vec());
    Ok(LoadSpec {
        options,
        general_options: settings::for_scripts(values),
        argv: argv.collect(),
        threads: settings.threads,
        seed: match settings.seed {
            0 => drawn_seed(),
            seed => seed,
        },
        ignore_errors: servers::ignored_errors(values)?,
        // As sysbench has it: an event is tried again until it succeeds or the run ends.
        restart_limit: u32::MAX,
        statement_timeout: Some(STATEMENT_TIMEOUT),
        client_prepare: settings.client_prepare,
        dialect: settings.dialect,
        log: Some(Arc::new(move |_, line| printed.raw(&format!("{line}\n")))),
        ..LoadSpec::new(nowhere, script)
    })
}

/// Different for every run. A hasher of the standard library is keyed by the operating system's
/// randomness.
fn drawn_seed() -> u64 {
    RandomState::new().hash_one(0).max(1)
}

/// Runs one command; the exit code.
pub(super) fn run(mut session: Session<'_>, name: &str) -> u8 {
    let own = session.face.commands();
    let own = own.iter().find(|command| command.name == name);
    match (own, name) {
        (Some(command), _) => {
            if command.parallel && session.settings.threads > 1 {
                session.log.text("Initializing worker threads...\n\n");
            }
            session.command(name, "sysbench.cmdline.call_command")
        }
        (None, "help") => session.help(),
        (None, "prepare" | "cleanup") if session.face.has_function(name) => {
            session.command(name, name)
        }
        (None, "prepare" | "cleanup") => session.lacks(name),
        (None, "run") => session.run_events(),
        (None, other) => {
            eprintln!("Unknown command: {other}");
            FAILED
        }
    }
}

impl Session<'_> {
    fn help(&mut self) -> u8 {
        let declared = self.face.options();
        if !declared.is_empty() {
            self.log
                .raw(&help::of_script(self.spec.script.name(), declared));
            return DONE;
        }
        if !self.face.has_function("help") {
            return self.lacks("help");
        }
        match self.face.call_function("help") {
            Ok(_) => DONE,
            Err(error) => {
                failure::tell(&self.log, "help", &error);
                FAILED
            }
        }
    }

    fn lacks(&self, command: &str) -> u8 {
        let script = self.spec.script.name();
        eprintln!("'{script}' test does not implement the '{command}' command.");
        FAILED
    }

    /// A command in every thread, or in one; `function` is what an error names.
    fn command(self, name: &str, function: &str) -> u8 {
        let (servers, interrupt) = match (self.servers(Some(COMMAND_TIMEOUT)), interrupt::catch()) {
            (Ok(servers), Ok(interrupt)) => (servers, interrupt),
            (Err(refusal), _) => return super::refused(&self.log, &refusal),
            (_, Err(error)) => return self.no_signals(&error),
        };
        let log = Arc::clone(&self.log);
        let told = move |progress: Progress<'_>| {
            if let Progress::Message { text, .. } = progress {
                log.raw(&format!("{text}\n"));
            }
        };
        // The hooks of this state are for runs.
        drop(self.face);
        match cancellable(&self.spec, &interrupt, || {
            run_command(&self.spec, name, servers, told)
        }) {
            Ok(()) => DONE,
            // The script said false; sysbench prints nothing more.
            Err(LoadError::Worker(error)) if failure::is_plain_false(&error) => FAILED,
            Err(error) => {
                failure::tell(&self.log, function, &error);
                FAILED
            }
        }
    }

    fn run_events(self) -> u8 {
        let (servers, interrupt) = match (self.servers(Some(STATEMENT_TIMEOUT)), interrupt::catch())
        {
            (Ok(servers), Ok(interrupt)) => (servers, interrupt),
            (Err(refusal), _) => return super::refused(&self.log, &refusal),
            (_, Err(error)) => return self.no_signals(&error),
        };
        run::run(Job {
            settings: self.settings,
            spec: self.spec,
            servers,
            face: self.face,
            log: self.log,
            interrupt,
        })
    }

    fn servers(&self, timeout: Option<Duration>) -> Result<Arc<Servers>, Refusal> {
        Servers::choose(self.values, timeout, Arc::clone(&self.log)).map(Arc::new)
    }

    fn no_signals(&self, error: &io::Error) -> u8 {
        let text = format!("cannot watch for signals: {error}");
        self.log.line(Level::Fatal, &text);
        FAILED
    }
}

/// Does `work` on this thread; a signal meanwhile cancels it at its next statement.
fn cancellable<T>(spec: &LoadSpec, interrupt: &Interrupt, work: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let (done, is_done) = std::sync::mpsc::channel::<()>();
        let cancel = Arc::clone(&spec.cancel);
        scope.spawn(move || {
            while is_done.recv_timeout(PATIENCE).is_err_and(|error| {
                error == std::sync::mpsc::RecvTimeoutError::Timeout && !interrupt.requested()
            }) {}
            if interrupt.requested() {
                cancel.store(true, Ordering::Relaxed);
            }
        });
        let result = work();
        drop(done);
        result
    })
}
