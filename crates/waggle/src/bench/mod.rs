//! `waggle bench`: how much does a server carry under a workload, and how long does each
//! transaction take?
//!
//! [`args`] turns flags into a checked `Plan`; `server` connects or starts a throw-away one;
//! `fill` creates and drops tables; `measure` runs the load between two quiet moments; `result`
//! shows what was found and `record` keeps it. The load itself is `waggle-load`'s.
//!
//! Invariant: nothing is written to a server before the script, its options and the server's
//! answer have been checked, and nothing outside of `prepare`, the workload and `cleanup`.

mod args;
mod fill;
mod measure;
mod record;
mod result;
mod server;

use std::io::{self, Write};

use anyhow::{Context, anyhow};
use waggle_load::{Load, LoadError, LoadSpec};
use waggle_report::run::Outcome;

pub(crate) use args::Args;
use args::Plan;
use fill::Filled;
use measure::Early;
use record::Recorder;
use result::{BenchResult, interval_line};
use server::Server;

use crate::cli::{Failure, Output};
use crate::interrupt::{self, Interrupt};

// Server errors whose remedy is a command of this verb.
const ER_TABLE_EXISTS_ERROR: u16 = 1050;
const ER_NO_SUCH_TABLE: u16 = 1146;

/// Runs the verb.
pub(crate) fn run(args: Args, out: &Output) -> Result<(), Failure> {
    let plan = Plan::from_args(args).map_err(Failure::Unusable)?;
    let interrupt = interrupt::catch()
        .context("cannot watch for Ctrl-C")
        .map_err(Failure::Unusable)?;
    let mut server = Server::open(&plan.target)?;
    let spec = plan.load_spec(server.dsn.clone());
    let bench = Bench {
        plan,
        spec,
        interrupt,
    };
    match (bench.plan.prepare, bench.plan.run) {
        (true, true) => bench.prepare_and_run(&mut server, out),
        (true, false) => print_json_if(out, &bench.prepared().map_err(Failure::Ran)?),
        (false, true) => bench.run_only(&mut server, out),
        (false, false) => {
            bench.cleaned()?;
            print_json_if(out, &serde_json::json!({ "cleaned_up": true }))
        }
    }
}

/// What is to be done, to which server.
struct Bench {
    plan: Plan,
    spec: LoadSpec,
    interrupt: Interrupt,
}

impl Bench {
    /// A run on tables that are there. Whatever refuses it has changed nothing.
    fn run_only(&self, server: &mut Server, out: &Output) -> Result<(), Failure> {
        let load = self.started().map_err(Failure::Unusable)?;
        let recorder = Recorder::open(&self.plan, &server.facts).map_err(Failure::unusable)?;
        self.measured(load, server, recorder, out)
    }

    /// Creates the tables, runs, and drops them. Tables that `prepare` did not create itself (it
    /// fails where one exists) are never dropped.
    fn prepare_and_run(&self, server: &mut Server, out: &Output) -> Result<(), Failure> {
        // Before the first change to the server: a directory that cannot be made then costs
        // nothing.
        let recorder = Recorder::open(&self.plan, &server.facts).map_err(Failure::unusable)?;
        if let Err(error) = self.prepared() {
            return Err(ended(recorder, Outcome::Failed, error));
        }
        let done = match self.started() {
            Ok(load) => self.measured(load, server, recorder, out),
            Err(error) => Err(ended(recorder, Outcome::Failed, error)),
        };
        if self.plan.cleanup {
            done.and(self.cleaned())
        } else {
            done
        }
    }

    fn prepared(&self) -> anyhow::Result<Filled> {
        fill::prepare(&self.spec, &self.interrupt)
            .map_err(|error| self.explained(error))
            .context("cannot prepare the tables of the workload")
    }

    fn cleaned(&self) -> Result<(), Failure> {
        fill::cleanup(&self.spec)
            .context("cannot drop the tables of the workload")
            .map_err(Failure::Ran)
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
        out: &Output,
    ) -> Result<(), Failure> {
        let plan = &self.plan;
        let measured = measure::run(
            plan,
            &self.spec,
            load,
            server,
            &self.interrupt,
            |interval| {
                note(&interval_line(interval, plan.threads));
                recorder.interval(interval);
            },
        );
        let result = BenchResult::new(plan, &server.facts, &measured, recorder.path());
        recorder.result(&result, &measured.latency);
        self.show(&result, out)?;
        let Some(early) = measured.failure else {
            return recorder.finish(Outcome::Done, None).map_err(Failure::ran);
        };
        let outcome = match early {
            Early::Interrupted => Outcome::Interrupted,
            Early::Failed(_) | Early::Silent(_) => Outcome::Failed,
        };
        let error = match early {
            Early::Failed(error) => self.explained(error),
            other => anyhow!("{other}"),
        };
        let error = error.context(format!(
            "the load failed after {:.1} s",
            measured.duration_s
        ));
        Err(ended(recorder, outcome, error))
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
        let LoadError::Worker(worker) = &error else {
            return error.into();
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
            _ => error.into(),
        }
    }
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
