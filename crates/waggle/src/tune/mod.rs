//! Which values of server variables are best for this load, and is a change worth it?
//!
//! Data flow: [`args`] and [`space_file`] make a [`plan`]; [`subject`] is what is tuned, one
//! throw-away server ([`mod@server`]) or a [`replica`]; [`engine`] measures blocks in the order
//! that `waggle_stats::tune` asks for; [`document`] says what came out. Shipped plans are
//! [`studies`].
//!
//! Invariant: every server of a run is a throw-away one, and a value that a server refuses, crashes
//! with or does not start with is a finding, not the end of the run.

mod args;
mod document;
mod engine;
mod plan;
mod replica;
mod server;
mod space_file;
mod studies;
pub(crate) mod subject;

use std::time::Instant;

use anyhow::{Context, anyhow};
use serde_json::json;
use waggle_report::run::{Outcome as Ending, RunDir, redact_argv};

pub(crate) use args::Args;

use crate::cli::{Failure, Output};
use crate::experiment::progress::Progress;
use crate::interrupt;
use engine::{Ended, Engine};
use plan::Plan;
use subject::{Objective, Subject};

/// Runs the verb.
pub(crate) fn run(args: Args, out: &Output) -> Result<(), Failure> {
    let plan = args.plan()?;
    crate::open_files::allow_most();
    let interrupt = interrupt::catch()
        .context("catching signals")
        .map_err(Failure::Unusable)?;
    let started = Instant::now();
    let mut run = RunDir::create(&plan.runs, "tune", &plan.name).map_err(Failure::unusable)?;
    let argv: Vec<String> = std::env::args().collect();
    run.record(|facts| {
        facts.command = redact_argv(&argv);
        facts.settings.insert("plan".to_owned(), facts_of(&plan));
    })
    .map_err(Failure::unusable)?;
    let progress = Progress::new(plan.budget);
    progress.note("making the data");
    let mut subject = match open(&plan) {
        Ok(subject) => subject,
        Err(error) => {
            progress.end();
            let words = format!("{error:#}");
            run.finish(Ending::Failed, Some(words))
                .map_err(Failure::ran)?;
            return Err(Failure::Ran(error.context("nothing was tuned")));
        }
    };
    if let Some(facts) = subject.facts() {
        run.record(|run| run.server = Some(facts))
            .map_err(Failure::ran)?;
    }
    let engine = Engine {
        plan: &plan,
        subject: subject.as_mut(),
        run: &mut run,
        interrupt: &interrupt,
        progress: &progress,
        started,
    };
    let found = engine.run();
    progress.end();
    drop(subject);
    let report = document::report(&plan, &found, run.facts(), started.elapsed());
    let page = run.write_tune(&report).map_err(Failure::ran)?;
    let interrupted = found
        .stages
        .last()
        .is_some_and(|s| s.ended == Ended::Interrupted);
    let ending = match &found.error {
        None => Ending::Done,
        Some(_) if interrupted => Ending::Interrupted,
        Some(_) => Ending::Failed,
    };
    run.finish(ending, found.error.clone())
        .map_err(Failure::ran)?;
    if out.json {
        let mut document = json!(report);
        document["report"] = json!(page);
        out.json(&document)
            .context("stdout")
            .map_err(Failure::Ran)?;
    } else {
        print!("{}", waggle_report::tune::text(&report, false));
        println!("\nreport: {}", page.display());
    }
    match found.error {
        None => Ok(()),
        Some(error) => Err(Failure::Ran(anyhow!(error))),
    }
}

/// The subject of a plan, ready to be measured.
fn open(plan: &Plan) -> anyhow::Result<Box<dyn Subject>> {
    Ok(match plan.setup.objective {
        Objective::ReplicaApplyRate => Box::new(replica::ReplicaSubject::start(&plan.setup)?),
        _ => Box::new(server::ServerSubject::open(&plan.setup)?),
    })
}

/// What the plan is, for `run.json`.
fn facts_of(plan: &Plan) -> serde_json::Value {
    let stage = |stage: &plan::Stage| {
        let variables = stage.space.variables.iter().map(|variable| {
            let values = variable.list().unwrap_or_default();
            (variable.name.clone(), values)
        });
        json!({
            "name": stage.name,
            "variables": variables.collect::<std::collections::BTreeMap<_, _>>(),
            "constraints": stage.space.constraints.iter().map(ToString::to_string)
                .collect::<Vec<_>>(),
        })
    };
    json!({
        "flavour": plan.setup.flavour.name(),
        "workload": plan.setup.script.name(),
        "options": plan.setup.options,
        "threads": plan.setup.threads,
        "rate": plan.setup.rate,
        "objective": plan.setup.objective.to_string(),
        "guards": plan.guards,
        "fixed": plan.setup.settings,
        "stages": plan.stages.iter().map(stage).collect::<Vec<_>>(),
        "strategy": plan.kind,
        "margin": plan.margin,
        "rounds": plan.rounds,
        "budget_s": plan.budget.as_secs_f64(),
        "seed": plan.setup.seed,
    })
}
