//! `waggle trace pipeline`: what were waits made of?
//!
//! A stage file, a built-in one or static probes say what the pipeline is; `waggle-trace` finds its
//! places in the process, attaches, and hands out events; [`measure`] feeds them to the tracker and
//! the aggregate, [`document`] makes the report of it.
//!
//! Invariant: more than [`FLAGGED_MAX`] of the waits touched by a loss is exit code 1.

mod document;
mod measure;

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use waggle_report::trace::TraceReport;
use waggle_trace::resolve::{Plan, Target};
use waggle_trace::stagefile::{self, Pipeline};

use super::args::{Common, CommonArgs};
use super::session::Session;
use super::slices::{SliceArgs, Slices};
use super::target::Process;
use crate::cli::{Failure, Output};
use measure::Measured;

/// Share of the waits that may be flagged.
const FLAGGED_MAX: f64 = 0.01;

/// Most waits that are kept in full.
const SLOWEST_MAX: usize = 10_000;

/// Break each wait into the stages that other threads carried out.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  waggle trace pipeline redo --pid $(pidof mysqld) --duration 30
  waggle trace pipeline --usdt wakeup --pid 4711      a program with FOLLY_SDT(wakeup, ...) notes
  waggle trace pipeline --file stages.toml --pid 4711 any other pipeline
  waggle trace pipeline redo --share 10% --duration 3600 --pid 4711

Needs root. Exit code 1: more than 1% of the waits are flagged, as records were lost.")]
pub(crate) struct Args {
    /// A built-in pipeline (redo, binlog, replica), or the one of this name in --file
    #[arg(value_name = "NAME", conflicts_with = "usdt")]
    name: Option<String>,

    /// Static probes of this provider: `wait_start` (the value waited for), `1` ... `N` (what each
    /// stage has reached), `wait_end`
    #[arg(long, value_name = "PROVIDER", conflicts_with = "file")]
    usdt: Option<String>,

    /// A pipeline as a TOML file says it
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Waits kept in full, the slowest
    #[arg(long, value_name = "N", default_value_t = 20)]
    slowest: usize,

    /// Do not follow the scheduler: cheaper, but what the stages' threads were doing is not known
    #[arg(long)]
    no_scheduler: bool,

    #[command(flatten)]
    slices: SliceArgs,

    #[command(flatten)]
    pub(super) common: CommonArgs,
}

/// Which pipeline.
#[derive(Debug)]
enum Wanted {
    Builtin(String),
    Static(String),
    File(Box<Pipeline>),
}

/// What was asked for, checked.
#[derive(Debug)]
struct Asked {
    wanted: Wanted,
    slowest: usize,
    scheduler: bool,
    /// `None`: all of the time.
    slices: Option<Slices>,
    common: Common,
}

impl Args {
    fn plan(self) -> Result<Asked, Failure> {
        if self.slowest > SLOWEST_MAX {
            return Err(Failure::unusable(anyhow!(
                "--slowest {}: use at most {SLOWEST_MAX}",
                self.slowest
            )));
        }
        let wanted = match (self.usdt, self.file, self.name) {
            (Some(provider), ..) => Wanted::Static(provider),
            (None, Some(file), name) => {
                let pipeline = of_file(&file, name.as_deref()).map_err(Failure::Unusable)?;
                Wanted::File(Box::new(pipeline))
            }
            (None, None, Some(name)) => Wanted::Builtin(name),
            (None, None, None) => {
                return Err(Failure::unusable(anyhow!(
                    "name a pipeline ({}), or give --usdt or --file",
                    stagefile::builtin_names().join(", ")
                )));
            }
        };
        let common = self.common.plan()?;
        Ok(Asked {
            wanted,
            slowest: self.slowest,
            scheduler: !self.no_scheduler,
            slices: self.slices.plan(common.duration)?,
            common,
        })
    }
}

/// The pipeline of that name, or the only one.
fn of_file(path: &Path, name: Option<&str>) -> anyhow::Result<Pipeline> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("reading the stage file {}", path.display()))?;
    let mut all =
        stagefile::parse(&text).with_context(|| format!("the stage file {}", path.display()))?;
    let names: Vec<String> = all.iter().map(|pipeline| pipeline.name.clone()).collect();
    let index = match name {
        Some(name) => names.iter().position(|known| known == name),
        None => (names.len() == 1).then_some(0),
    };
    let index = index.with_context(|| {
        let names = names.join(", ");
        format!("{} has pipelines {names}: name one of them", path.display())
    })?;
    Ok(all.swap_remove(index))
}

/// Runs the subject.
pub(super) fn run(args: Args, out: &Output) -> Result<(), Failure> {
    let asked = args.plan()?;
    crate::preflight::can_trace()?;
    let process = Process::find(&asked.common.target)?;
    let result = trace(&asked, &process, out);
    let stopped = process.stop();
    result.and(stopped)
}

fn trace(asked: &Asked, process: &Process, out: &Output) -> Result<(), Failure> {
    let plan = resolved(asked, process).map_err(Failure::Unusable)?;
    let attached = measure::attach(asked, &plan, process)?;
    let mut session = Session::open(&asked.common, process, "pipeline")?;
    eprintln!("tracing {} of {}", plan.pipeline, process.words());
    let measured = measure::run(asked, &plan, attached, process, &mut session);
    let Measured { mut taken, failed } = measured;
    let report = document::of(&plan, process, &session, &mut taken);
    let failed = failed.or_else(|| check(&taken));
    let report = TraceReport::Pipeline(Box::new(report));
    let text = || report.text(waggle_report::table::WIDTH);
    session.finish(out, &report, text, failed)
}

/// Which places the pipeline has in this process.
fn resolved(asked: &Asked, process: &Process) -> anyhow::Result<Plan> {
    let target =
        Target::open(process.pid).with_context(|| format!("looking at {}", process.words()))?;
    let pipeline = match &asked.wanted {
        Wanted::Builtin(name) => target.builtin(name),
        Wanted::Static(provider) => target.static_pipeline(provider),
        Wanted::File(pipeline) => match target.unfit(pipeline) {
            None => Ok((**pipeline).clone()),
            Some(reason) => Err(format!("{}: {reason}", pipeline.name)),
        },
    };
    let pipeline = pipeline.map_err(|why| anyhow!("{}: {why}", process.words()))?;
    let plan = target.plan(&pipeline);
    if plan.is_usable() {
        return Ok(plan);
    }
    let why: Vec<String> = plan
        .refusals
        .iter()
        .map(|refused| format!("{} at {}: {}", refused.part, refused.place, refused.reason))
        .collect();
    Err(anyhow!(
        "{} cannot be traced in {}: {}",
        plan.pipeline,
        process.words(),
        why.join("; ")
    ))
}

/// Which check did not hold.
fn check(taken: &measure::Taken) -> Option<String> {
    let counts = taken.counts;
    if counts.inexact > 0 {
        return Some(format!(
            "the stages of {} waits do not add up to them",
            counts.inexact
        ));
    }
    let share = counts.flagged_share();
    (share > FLAGGED_MAX).then(|| {
        format!(
            "{:.1}% of the waits are flagged, as {} records were lost: more than {:.0}%; use a \
             larger --ring-kib",
            100.0 * share,
            counts.lost,
            100.0 * FLAGGED_MAX
        )
    })
}
