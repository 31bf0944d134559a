//! Percona's benchmark of the VividCortex agent, repeated with waggle's agent.
//!
//! LinkBench under three limits, each at its maximum and then at 75% of that ([`cells`]); each with
//! the four combinations of PERFORMANCE_SCHEMA and an agent, over pairs of servers that live at the
//! same time and take turns, as PERFORMANCE_SCHEMA needs a server of its own. [`tables`] lays it
//! out as the benchmark does, beside its figures ([`figures`]), and [`mod@report`] says the rest.
//!
//! Invariant: the rate of a workload is 75% of what the same workload carried with nothing on, in
//! this run; a resumed run keeps the rates it began with.

mod args;
mod cells;
mod figures;
mod measured;
mod report;
mod tables;

pub(crate) use args::Args;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::Opened;
use super::published::Figure;
use crate::cli::{Failure, Output};
use crate::experiment::progress::Progress;
use crate::lab::cell::{CellRun, CellSpec};
use crate::lab::run::{Budget, run_cells};
use args::Plan;
use cells::{Agent, CellPlan, Condition, Mode};

/// Part of the time that goes to the maximum; the other goes to the rate.
const THROUGHPUT_SHARE: f64 = 0.5;
/// Of the maximum, as Percona set it.
const RATE_SHARE: f64 = 0.75;
/// "No difference" means within this share of the base.
const MARGIN: f64 = 0.02;
/// Where `run.json` keeps the rates.
const RATES: &str = "rates_per_s";

/// What was measured, condition by condition.
#[derive(Debug, Default)]
struct Found {
    throughput: Vec<(Condition, CellRun)>,
    rate: Vec<(Condition, CellRun)>,
}

/// Runs the study.
pub(super) fn run(args: Args, out: &Output) -> Result<(), Failure> {
    let plan = args.plan()?;
    crate::preflight::can_trace()?;
    let flavour = crate::lab::flavour(plan.common.sandbox)?;
    let cells = CellPlan {
        flavour,
        agent: plan.agent,
        scale: plan.scale,
        cpus: plan.cpus,
        io_bytes_per_s: plan.io_bytes_per_s,
        seed: plan.common.seed,
    };
    // The rates follow from these; what these are says what is measured.
    let most = plan
        .workloads
        .iter()
        .map(|one| Ok((*one, cells.cell(*one, Mode::Throughput)?)));
    let most: Vec<_> = most
        .collect::<anyhow::Result<_>>()
        .map_err(Failure::Unusable)?;
    let specs: Vec<CellSpec> = most.iter().map(|(_, spec)| spec.clone()).collect();
    let mut opened = Opened::create(&plan.common, "vividcortex", flavour, &specs)?;
    let mut found = Found::default();
    let error = measure(&plan, &cells, most, &mut opened, &mut found).err();
    let report = report::report(&plan, &cells, &found, &opened, error.as_ref());
    opened.close(&report, error, out)
}

/// Measures every workload at its maximum, then at the rate that follows from it.
fn measure(
    plan: &Plan,
    cells: &CellPlan,
    most: Vec<(Condition, CellSpec)>,
    opened: &mut Opened,
    found: &mut Found,
) -> anyhow::Result<()> {
    let progress = Progress::new(plan.budget);
    let firm = |time| Budget::new(time, None).firm(plan.common.quick);
    let budget = firm(plan.budget.mul_f64(THROUGHPUT_SHARE));
    found.throughput = run_named(most, &budget, opened, &progress)?;
    interrupted(opened)?;
    let rates = rates(&found.throughput, opened)?;
    let mut at_rate = Vec::new();
    for one in &plan.workloads {
        // What has no maximum is among the failed ones below.
        if let Some(rate) = rates.get(one.key()) {
            at_rate.push((*one, cells.cell(*one, Mode::Rate(*rate))?));
        }
    }
    // What a run that was killed had spent is spent.
    let spent = opened
        .started
        .elapsed()
        .max(measured_for(&found.throughput));
    let left = plan.budget.saturating_sub(spent);
    found.rate = run_named(at_rate, &firm(left), opened, &progress)?;
    progress.end();
    interrupted(opened)?;
    failed(found, plan.agent)
}

/// From the first window to the last.
fn measured_for(runs: &[(Condition, CellRun)]) -> Duration {
    let samples = runs
        .iter()
        .flat_map(|(_, run)| run.in_life.iter().chain(&run.pairs));
    let (mut first, mut last) = (f64::INFINITY, 0.0_f64);
    for window in samples.map(|sample| sample.window) {
        first = first.min(window.start_s);
        last = last.max(window.start_s + window.duration_s);
    }
    Duration::try_from_secs_f64(last - first).unwrap_or_default()
}

fn run_named(
    cells: Vec<(Condition, CellSpec)>,
    budget: &Budget,
    opened: &mut Opened,
    progress: &Progress,
) -> anyhow::Result<Vec<(Condition, CellRun)>> {
    let (conditions, specs): (Vec<_>, Vec<_>) = cells.into_iter().unzip();
    let runs = run_cells(specs, budget, &mut opened.run, &opened.interrupt, progress)?;
    Ok(conditions.into_iter().zip(runs).collect())
}

fn interrupted(opened: &Opened) -> anyhow::Result<()> {
    if opened.interrupt.requested() {
        bail!("interrupted; the figures are of the windows measured until then");
    }
    Ok(())
}

/// The first thing that did not hold: an arm that was stopped, a condition that was lost, or of
/// which nothing was measured.
fn failed(found: &Found, agent: Agent) -> anyhow::Result<()> {
    let subject = agent.arm_name(cells::Watched::Agent);
    for (_, run) in found.throughput.iter().chain(&found.rate) {
        let id = &run.spec.id;
        let report = super::cell_report(run, &subject, MARGIN);
        if let Some(why) = super::failed_in(run, &report).first() {
            bail!("{id}: {why}");
        }
        if run.pairs.is_empty() {
            bail!("{id}: no whole pair of servers was measured");
        }
    }
    Ok(())
}

/// The rates to offer: those the run began with, or 75% of what was carried.
fn rates(
    measured: &[(Condition, CellRun)],
    opened: &mut Opened,
) -> anyhow::Result<BTreeMap<String, f64>> {
    let kept = opened
        .run
        .facts()
        .settings
        .get(RATES)
        .and_then(Value::as_object);
    let mut rates: BTreeMap<String, f64> = kept
        .into_iter()
        .flatten()
        .filter_map(|(key, rate)| Some((key.clone(), rate.as_f64()?)))
        .collect();
    for (condition, run) in measured {
        let carried = measured::operations_per_s(run).map(|rate| (rate * RATE_SHARE).max(1.0));
        if let Some(rate) = carried {
            rates.entry(condition.key().to_owned()).or_insert(rate);
        }
    }
    let kept = json!(rates);
    opened
        .run
        .record(|facts| drop(facts.settings.insert(RATES.to_owned(), kept)))
        .context("keeping the rates")?;
    Ok(rates)
}
