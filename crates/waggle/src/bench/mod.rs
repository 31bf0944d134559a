//! `waggle bench`: how much does a server carry under a workload, and how long does each
//! transaction take?
//!
//! [`args`] holds the flags, `plan` checks them (`offered` reads the small languages of the open
//! loop); `server` connects or starts a throw-away one; `fill` runs commands that are no load;
//! `measure` runs the load between two quiet moments, `search` does so step by step; `steady`
//! judges; `result` and `text` show what was found, `record` and `exports` keep it. The load itself
//! is `waggle-load`'s. With `--profile`, `crate::profiling` records where the measured time goes.
//!
//! Invariant: nothing is written to a server before the script, its options and the server's
//! answer have been checked, and nothing outside of the workload and its commands.

mod args;
mod checks;
mod exports;
mod fill;
mod interval;
mod measure;
mod offered;
mod plan;
mod progress;
mod record;
mod result;
mod search;
mod server;
mod steady;
mod text;

use std::io::{self, Write};
use std::time::Duration;

use anyhow::{Context, anyhow};
use waggle_load::{Load, LoadError, LoadSpec};
use waggle_report::run::Outcome;

pub(crate) use args::Args;
use checks::Checks;
use exports::Exports;
use fill::Filled;
use measure::{Early, Measured, Phases};
use plan::{Action, Plan, Search};
use progress::RunProgress;
use record::Recorder;
use result::{BenchResult, Parts};
use search::SearchResult;
use server::Server;

use crate::cli::{Failure, Output};
use crate::interrupt::{self, Interrupt};
use crate::open_files;
use crate::profiling;

// Server errors whose remedy is a command of this verb.
const ER_TABLE_EXISTS_ERROR: u16 = 1050;
const ER_NO_SUCH_TABLE: u16 = 1146;
/// Too many connections.
const ER_CON_COUNT_ERROR: u16 = 1040;

/// Runs the verb.
pub(crate) fn run(args: Args, out: &Output) -> Result<(), Failure> {
    let plan = Plan::from_args(args).map_err(Failure::Unusable)?;
    let interrupt = interrupt::catch()
        .context("cannot watch for Ctrl-C")
        .map_err(Failure::Unusable)?;
    let mut server = Server::open(&plan.target)?;
    open_files::allow_most();
    if plan.profile {
        profiling::check()?;
        // A server elsewhere cannot be profiled: that is known before anything is changed.
        profiling::server::pid_of(&server.dsn).map_err(Failure::Unusable)?;
    }
    let spec = plan.load_spec(server.dsn.clone());
    let bench = Bench {
        plan,
        spec,
        interrupt,
    };
    match &bench.plan.action {
        Action::All => bench.prepare_and_run(&mut server, out),
        Action::Run => bench.run_only(&mut server, out),
        Action::Prepare => print_json_if(out, &bench.prepared().map_err(Failure::Ran)?),
        Action::Cleanup => {
            bench.cleaned()?;
            print_json_if(out, &serde_json::json!({ "cleaned_up": true }))
        }
        Action::Command(name) => print_json_if(out, &bench.commanded(name)?),
    }
}

/// What is to be done, to which server.
struct Bench {
    plan: Plan,
    spec: LoadSpec,
    interrupt: Interrupt,
}

/// A run that is over, as far as the load goes.
struct Ran {
    measured: Measured,
    search: Option<SearchResult>,
}

impl Bench {
    /// A run on tables that are there. Whatever refuses it has changed nothing.
    fn run_only(&self, server: &mut Server, out: &Output) -> Result<(), Failure> {
        if let Some(search) = &self.plan.search {
            let recorder = Recorder::open(&self.plan, &server.facts).map_err(Failure::unusable)?;
            return self.searched(search, server, recorder, out);
        }
        let load = self.started().map_err(Failure::Unusable)?;
        let exports = Exports::open(&self.plan).map_err(Failure::Unusable)?;
        let recorder = Recorder::open(&self.plan, &server.facts).map_err(Failure::unusable)?;
        self.measured(load, server, recorder, exports, out)
    }

    /// Creates the tables, runs, and drops them. Tables that `prepare` did not create itself (it
    /// fails where one exists) are never dropped.
    fn prepare_and_run(&self, server: &mut Server, out: &Output) -> Result<(), Failure> {
        // Before the first change to the server: a file that cannot be made then costs nothing.
        let exports = Exports::open(&self.plan).map_err(Failure::Unusable)?;
        let recorder = Recorder::open(&self.plan, &server.facts).map_err(Failure::unusable)?;
        if let Err(error) = self.prepared_if_needed() {
            return Err(ended(recorder, Outcome::Failed, error));
        }
        let done = match &self.plan.search {
            Some(search) => self.searched(search, server, recorder, out),
            None => match self.started() {
                Ok(load) => self.measured(load, server, recorder, exports, out),
                Err(error) => Err(ended(recorder, Outcome::Failed, error)),
            },
        };
        // A throw-away server takes its tables with it.
        if matches!(self.plan.target, plan::Target::Named(_)) {
            match self.cleaned() {
                Err(failure) if is_no_command(failure.error()) => done,
                cleaned => done.and(cleaned),
            }
        } else {
            done
        }
    }

    fn prepared(&self) -> anyhow::Result<Filled> {
        let rows = self.plan.rows_expected;
        fill::command(&self.spec, "prepare", rows, &self.interrupt)
            .map_err(|error| self.explained(error))
            .context("cannot prepare the tables of the workload")
    }

    /// A script without tables of its own has nothing to prepare.
    fn prepared_if_needed(&self) -> anyhow::Result<()> {
        match self.prepared() {
            Err(error) if is_no_command(&error) => {
                note("the workload has no prepare: it runs on what is there");
                Ok(())
            }
            prepared => prepared.map(|_| ()),
        }
    }

    fn cleaned(&self) -> Result<(), Failure> {
        fill::command(&self.spec, "cleanup", None, &self.interrupt)
            .context("cannot drop the tables of the workload")
            .map_err(Failure::Ran)?;
        Ok(())
    }

    /// A command of the script's own.
    fn commanded(&self, name: &str) -> Result<Filled, Failure> {
        match fill::command(&self.spec, name, None, &self.interrupt) {
            Ok(filled) => Ok(filled),
            Err(error @ LoadError::NoCommand { .. }) => {
                Err(Failure::Unusable(anyhow!("{error}; {}", self.commands())))
            }
            Err(error) => Err(Failure::Ran(
                self.explained(error)
                    .context(format!("the command {name} of the workload failed")),
            )),
        }
    }

    fn started(&self) -> anyhow::Result<Load> {
        measure::start(&self.spec)
            .map_err(|error| self.explained(error))
            .context("cannot start the load")
    }

    fn measured(
        &self,
        load: Load,
        server: &mut Server,
        mut recorder: Recorder,
        mut exports: Exports,
        out: &Output,
    ) -> Result<(), Failure> {
        let plan = &self.plan;
        if plan.profile
            && let Err(error) = server.attach()
        {
            return Err(ended(recorder, Outcome::Failed, error));
        }
        let phases = Phases {
            warmup: plan.warmup,
            time: plan.time,
            interval: plan.interval,
            drain: plan.open.as_ref().and_then(|open| open.drain),
            rate_moves: plan.open.as_ref().is_some_and(|open| open.moves()),
        };
        let progress = RunProgress::new(plan.time);
        let each = &mut |interval: &interval::Interval, counted: &waggle_load::Snapshot| {
            progress.interval(interval);
            recorder.interval(interval);
            exports.interval(interval, counted);
        };
        let measured = measure::run(&phases, &self.spec, load, server, &self.interrupt, each);
        progress.done();
        match server.profiled() {
            Ok(Some(profile)) => recorder.profile(&profile),
            Ok(None) => {}
            Err(error) => note(&format!(
                "waggle: {error:#}; the figures are whole without it"
            )),
        }
        let search = None;
        self.concluded(Ran { measured, search }, server, recorder, out)
    }

    fn searched(
        &self,
        search: &Search,
        server: &mut Server,
        mut recorder: Recorder,
        out: &Output,
    ) -> Result<(), Failure> {
        let (plan, spec) = (&self.plan, &self.spec);
        match search::run(plan, search, spec, server, &self.interrupt, &mut recorder) {
            Ok(searched) => {
                let ran = Ran {
                    measured: searched.measured,
                    search: Some(searched.result),
                };
                self.concluded(ran, server, recorder, out)
            }
            Err(error) => {
                let error = error.context("the search for a rate failed");
                Err(ended(recorder, Outcome::Failed, error))
            }
        }
    }

    /// Shows and keeps what was found, and decides how the run ended.
    fn concluded(
        &self,
        ran: Ran,
        server: &Server,
        mut recorder: Recorder,
        out: &Output,
    ) -> Result<(), Failure> {
        let measured = ran.measured;
        let checked = self.checked(&measured);
        let (checks, check_failure) = match checked {
            Ok(checks) => (checks, None),
            Err(error) => (Checks::default(), Some(error)),
        };
        let parts = Parts {
            plan: &self.plan,
            server: &server.facts,
            checks,
            rate_search: ran.search,
            run: recorder.path(),
        };
        let result = BenchResult::new(parts, &measured);
        recorder.result(&result, &measured.total);
        self.show(&result, out)?;
        if let Some(early) = measured.failure {
            let outcome = match early {
                Early::Interrupted => Outcome::Interrupted,
                Early::Failed(_) | Early::Silent(_) => Outcome::Failed,
            };
            let error = match early {
                Early::Failed(error) => self.explained(error),
                other => anyhow!("{other}"),
            };
            let after = format!("the load failed after {:.1} s", measured.duration_s);
            return Err(ended(recorder, outcome, error.context(after)));
        }
        if let Some(error) = check_failure {
            return Err(ended(recorder, Outcome::Failed, error));
        }
        let failed = result.checks.failed();
        if !failed.is_empty() {
            let error = anyhow!("checks of the workload failed: {}", failed.join(", "));
            return Err(ended(recorder, Outcome::Failed, error));
        }
        if let (true, Some(run)) = (self.plan.profile, recorder.path()) {
            note(&format!("profile: waggle report {run} --format html"));
        }
        recorder.finish(Outcome::Done, None).map_err(Failure::ran)
    }

    /// The checks that the workload makes of its own run; a run that broke off makes none.
    fn checked(&self, measured: &Measured) -> anyhow::Result<Checks> {
        if measured.failure.is_some() {
            return Ok(Checks::default());
        }
        let length = Duration::from_secs_f64(measured.duration_s);
        let checks = waggle_load::checks(&self.spec, &measured.total, length)
            .context("the workload's checks() failed")?;
        Ok(checks.into())
    }

    /// What could have been typed in place of a command that is not there.
    fn commands(&self) -> String {
        let known = "waggle itself knows prepare, warmup, run, cleanup and all";
        let own = waggle_load::commands(&self.spec).unwrap_or_default();
        if own.is_empty() {
            return format!("it brings none of its own; {known}");
        }
        let names: Vec<String> = own.into_iter().map(|command| command.name).collect();
        format!("its own are {}; {known}", names.join(", "))
    }

    fn show(&self, result: &BenchResult, out: &Output) -> Result<(), Failure> {
        if out.json {
            return print_json_if(out, result);
        }
        let mut stdout = io::stdout().lock();
        stdout
            .write_all(result.text().as_bytes())
            .and_then(|()| stdout.flush())
            .context("cannot write the result to stdout")
            .map_err(Failure::Ran)
    }

    /// The error with what to try, where this verb has the remedy.
    fn explained(&self, error: LoadError) -> anyhow::Error {
        let worker = match &error {
            LoadError::Worker(worker) | LoadError::Connect { source: worker, .. } => worker,
            _ => return anyhow::Error::new(error),
        };
        let workload = self.plan.script.name();
        match worker.errno {
            Some(ER_NO_SUCH_TABLE) => anyhow!(
                "{error}; create the tables first: waggle bench {workload} prepare (with the \
                 same --tables and --table-size)"
            ),
            Some(ER_TABLE_EXISTS_ERROR) => anyhow!(
                "{error}; drop the tables first: waggle bench {workload} cleanup (with the same \
                 --tables)"
            ),
            Some(ER_CON_COUNT_ERROR) => anyhow!(
                "{error}; the server's max_connections is below --threads {} and what else is \
                 connected: raise it, or take fewer threads",
                self.plan.threads
            ),
            // It has the words of its source already.
            _ if matches!(error, LoadError::Connect { .. }) => anyhow!("{error}"),
            _ => anyhow::Error::new(error),
        }
    }
}

fn is_no_command(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(LoadError::NoCommand { .. }))
}

/// Ends the run directory and returns the failure it ended with.
fn ended(recorder: Recorder, outcome: Outcome, error: anyhow::Error) -> Failure {
    if let Err(recording) = recorder.finish(outcome, Some(format!("{error:#}"))) {
        note(&format!("waggle: {recording}"));
    }
    Failure::Ran(error)
}

/// A line on stderr. A reader that went away is no reason to end a measurement.
fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

fn print_json_if(out: &Output, document: &impl serde::Serialize) -> Result<(), Failure> {
    if !out.json {
        return Ok(());
    }
    out.json(document)
        .context("cannot write the result to stdout")
        .map_err(Failure::Ran)
}
