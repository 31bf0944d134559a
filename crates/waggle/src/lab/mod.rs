//! What does watching this server cost?
//!
//! Data flow: [`args`] makes a [`cell`] (a condition and its [`arm`]s) of the flags; [`mod@run`]
//! starts servers, load and observers and measures windows in the order that `waggle-stats` draws;
//! [`outcome`] turns windows into intervals, verdicts and the report. A [`study`] is many cells.
//! Neighbours: `waggle bench` is the load, `waggle watch` the observer, both as users run them.
//!
//! Invariant: every server of a run is a throw-away one, and none outlives the run.

mod args;
pub(crate) mod arm;
pub(crate) mod cell;
pub(crate) mod outcome;
pub(crate) mod run;
mod study;

pub(crate) use args::Args;

use std::time::Instant;

use anyhow::{Context, anyhow};
use waggle_report::lab::LabReport;
use waggle_report::profile::{ProfilePage, ProfilePart};
use waggle_report::run::{Outcome as Ending, RunDir, redact_argv, shell_line};
use waggle_server::{Flavour, install};

use crate::cli::{Failure, Output};
use crate::experiment::progress::Progress;
use crate::interrupt;
use crate::profiling::kept;
use args::{Asked, Plan};
use cell::CellRun;
use outcome::checks;
use run::{Budget, run_cells};

/// Runs the verb.
pub(crate) fn run(args: Args, out: &Output) -> Result<(), Failure> {
    match args.asked() {
        Asked::Run(args) => run_one(args.plan()?, out),
        Asked::Study(args) => study::run(args, out),
    }
}

fn run_one(plan: Plan, out: &Output) -> Result<(), Failure> {
    let started = Instant::now();
    let name = plan.cell.id.clone();
    let mut run = run::open(
        std::slice::from_ref(&plan.cell),
        plan.resume.as_deref(),
        &plan.runs,
        &name,
    )?;
    let interrupt = interrupt::catch()
        .context("catching signals")
        .map_err(Failure::Unusable)?;
    let budget = Budget::new(plan.budget, plan.until).firm(plan.quick);
    let progress = Progress::new(plan.budget);
    let cells = vec![plan.cell];
    let measured = run_cells(cells, &budget, &mut run, &interrupt, &progress);
    let cell = measured.map_err(Failure::Ran)?.remove(0);
    let report = report(&cell, &run, plan.margin, started);
    finish(&cell, report, run, out)
}

/// The report with what only the run knows.
fn report(cell: &CellRun, run: &RunDir, margin: f64, started: Instant) -> LabReport {
    let subject = match cell.spec.arms.iter().find(|arm| arm.name == "watch") {
        Some(watch) => watch.name.clone(),
        None => {
            let first = cell.spec.arms.iter().find(|arm| !arm.aa);
            first.map_or_else(|| "watch".to_owned(), |arm| arm.name.clone())
        }
    };
    let facts = run.facts();
    let arguments = facts.command.iter().skip(1).cloned();
    let argv: Vec<String> = std::iter::once("waggle".to_owned())
        .chain(arguments)
        .collect();
    let mut report = outcome::cell_report(cell, &subject, margin);
    if subject != "watch" {
        let label = report.subject_arm().map(|arm| arm.label.clone());
        report.question = format!(
            "What does it cost the server: {}?",
            label.unwrap_or(subject)
        );
    }
    report.command = shell_line(&redact_argv(&argv));
    report.started.clone_from(&facts.started);
    report.duration_s = started.elapsed().as_secs_f64();
    let parts: Vec<ProfilePart> = cell
        .profiles
        .iter()
        .map(|(arm, profile)| kept::part(arm, profile))
        .collect();
    if !parts.is_empty() {
        let mut page = ProfilePage::new(parts, facts);
        page.show(&report.subject, &report.base.name);
        report.profile = Some(Box::new(page));
    }
    report
}

/// Writes the report, ends the run and shows it.
fn finish(cell: &CellRun, report: LabReport, run: RunDir, out: &Output) -> Result<(), Failure> {
    let failed = checks::failed(cell, &report);
    let page = run.write_lab(&report).map_err(Failure::ran)?;
    let ending = if failed.is_empty() {
        Ending::Done
    } else {
        Ending::Failed
    };
    run.finish(ending, cell.error.clone())
        .map_err(Failure::ran)?;
    if out.json {
        out.json(&checks::document(&report, &page))
            .context("stdout")
            .map_err(Failure::Ran)?;
    } else {
        print!("{}", waggle_report::lab::text(&report, false));
        println!("\nreport: {}", page.display());
    }
    match failed.first() {
        None => Ok(()),
        Some(check) => Err(Failure::ran(anyhow!(check.clone()))),
    }
}

/// The server asked for; MySQL if it can be had, MariaDB otherwise.
pub(crate) fn flavour(asked: Option<Flavour>) -> Result<Flavour, Failure> {
    let installed = install::installed_servers();
    let has = |flavour| installed.iter().any(|server| server.flavour == flavour);
    match asked {
        Some(flavour) => Ok(flavour),
        None if has(Flavour::MySql) => Ok(Flavour::MySql),
        None if has(Flavour::MariaDb) => {
            eprintln!("no MySQL on this host (scripts/fetch-mysql gets one); using MariaDB");
            Ok(Flavour::MariaDb)
        }
        None => Err(Failure::unusable(anyhow!(
            "no MySQL or MariaDB server on this host; run scripts/fetch-mysql, or \
             apt-get install mariadb-server-core"
        ))),
    }
}
