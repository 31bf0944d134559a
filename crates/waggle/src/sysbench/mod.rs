//! `waggle sysbench`: everything that runs sysbench runs this, with the same words and the same
//! answers.
//!
//! [`grammar`] takes the line apart, [`options`] and [`settings`] check it, [`servers`] chooses the
//! driver, [`session`] loads the script; then a command of it runs, or [`mod@run`] does, and
//! [`report`] prints what a wrapper around sysbench parses. `docs/commands/sysbench-compat.md` says
//! what is the same, better, or different on purpose. Descriptions and code are waggle's own.
//!
//! Invariant: exit codes and streams are sysbench's, not those of the other verbs: 1 for anything
//! that failed, 2 for threads that did not start or end in time.

mod failure;
mod grammar;
mod help;
mod histogram;
mod log;
mod options;
mod refusal;
mod report;
mod run;
mod servers;
mod session;
mod settings;
mod stat;
mod values;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use waggle_load::Dialect;

use grammar::Line;
use log::{Level, Log};
use options::Values;
use refusal::Refusal;
use run::{DONE, FAILED};
use settings::Settings;

/// Run scripts written for sysbench, with its options, report and exit codes
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub(crate) struct Args {
    /// As for sysbench: `[options]... [testname] [command]`
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGS"
    )]
    words: Vec<OsString>,
}

impl Args {
    /// The words of this process, if it was started as `sysbench`, or as `waggle sysbench`: they
    /// reach this verb as they are, before the grammar of the other verbs sees them.
    pub(crate) fn of_process(words: &[OsString]) -> Option<Args> {
        let mut words = words.iter();
        let program = words.next()?;
        let is_sysbench = Path::new(program)
            .file_name()
            .is_some_and(|name| name == "sysbench");
        if !is_sysbench && words.next()? != "sysbench" {
            return None;
        }
        let words = words.cloned().collect();
        Some(Args { words })
    }
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> ExitCode {
    let words: Vec<String> = args
        .words
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    ExitCode::from(answered(&words))
}

fn answered(words: &[String]) -> u8 {
    let opened = open(words).and_then(|(values, line)| {
        let settings = Settings::check(&values)?;
        Ok((settings, values, line))
    });
    match opened {
        Ok((settings, values, line)) => {
            crate::open_files::allow_most();
            let log = Arc::new(Log::new(settings.verbosity));
            let code = load_and_run(&settings, &values, &line, words, &log);
            log.finish();
            code
        }
        Err(Opened::Answered) => DONE,
        Err(Opened::Refused(refusal)) => refused(&Log::new(5), &refusal),
    }
}

/// Why a line needs no session.
enum Opened {
    /// Help or the version was asked for, and printed.
    Answered,
    Refused(Refusal),
}

impl From<Refusal> for Opened {
    fn from(refusal: Refusal) -> Opened {
        Opened::Refused(refusal)
    }
}

/// The first pass: words to options, and the questions that need no test.
fn open(words: &[String]) -> Result<(Values, Line), Opened> {
    let mut line = grammar::parse(words, &|path| {
        std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))
    })?;
    if line.test_was_option {
        eprintln!(
            "WARNING: the --test option is deprecated. You can pass a script name or path on the \
             command line without any options."
        );
    }
    let values = Values::take(std::mem::take(&mut line.given))?;
    let log = Log::new(5);
    for (old, new) in &values.old_names {
        let text = format!("--{old} is deprecated, use --{new} instead");
        log.line(Level::Warning, &text);
    }
    let answer = if values.is_on("help") {
        help::page(values.dialect)
    } else if values.is_on("version") {
        format!("sysbench {}\n", version(values.dialect))
    } else if values.text("db-driver") == "help" {
        servers::DRIVERS.to_owned()
    } else {
        return Ok((values, line));
    };
    log.raw(&answer);
    Err(Opened::Answered)
}

fn refused(log: &Log, refusal: &Refusal) -> u8 {
    match refusal {
        Refusal::Usage(text) => eprintln!("{text}"),
        Refusal::Fatal(text) => log.line(Level::Fatal, text),
        Refusal::Plain(text) => log.raw(&format!("{text}\n")),
    }
    FAILED
}

/// What scripts that look for a version find.
fn version(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::V1_0 => "1.0.20",
        Dialect::V1_1 => "1.1.0",
    }
}

/// A checked line: the test is loaded and its command runs.
fn load_and_run(
    settings: &Settings,
    values: &Values,
    line: &Line,
    words: &[String],
    log: &Arc<Log>,
) -> u8 {
    log.text(&format!(
        "sysbench {} (waggle {}, LuaJIT 2.1)\n\n",
        version(settings.dialect),
        env!("CARGO_PKG_VERSION")
    ));
    match session::prepare(settings, values, line, words, log) {
        Ok(session) => match &line.command {
            Some(command) => session::run(session, command),
            None => DONE,
        },
        Err(refusal) => refused(log, &refusal),
    }
}
