//! Percona's benchmark of the VividCortex agent, repeated with waggle's agent.
//!
//! LinkBench under three limits, each at its maximum and then at 75% of that ([`cells`]); each with
//! the four combinations of PERFORMANCE_SCHEMA and an agent, over pairs of servers that live at the
//! same time and take turns, as PERFORMANCE_SCHEMA needs a server of its own. [`tables`] lays it
//! out as the benchmark does, beside its figures ([`figures`]).
//!
//! Invariant: the rate of a workload is 75% of what the same workload carried with nothing on, in
//! this run; a resumed run keeps the rates it began with.

mod cells;
mod figures;
mod tables;

use std::collections::BTreeMap;
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use serde_json::{Value, json};
use waggle_report::study::{StudyCell, StudyReport};

use super::published::Figure;
use super::{Common, Opened};
use crate::cli::{Failure, Output};
use crate::lab::cell::{CellRun, CellSpec};
use crate::lab::progress::Progress;
use crate::lab::run::{Budget, run_cells};
use cells::{Agent, CellPlan, Condition, Mode, Scale};
use tables::{Measured, Results};

/// LinkBench with PERFORMANCE_SCHEMA and an agent, as in Percona's benchmark of VividCortex's
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  waggle lab study vividcortex --quick                  all of it in 15 minutes
  waggle lab study vividcortex                          intervals of 10 s, 6 hours
  waggle lab study vividcortex --quick --agent uprobe   the probe in place of packets
  waggle lab study vividcortex --workload cpu --budget 10m

Needs root.")]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,

    /// The agent: decodes packets, as the original did, or probes the server
    #[arg(long, value_enum, default_value_t = Agent::Packets)]
    agent: Agent,

    /// Measure under this limit only; repeat for several [default: all]
    #[arg(long = "workload", value_enum)]
    workloads: Vec<Condition>,

    /// Connections [default: 4 a processor]
    #[arg(long)]
    threads: Option<u32>,

    /// Nodes of the graph [default: 1,000,000; with --quick 35,000]
    #[arg(long)]
    nodes: Option<u64>,

    /// Processors for server and agent where they are few [default: 4, half of them if there are
    /// fewer than 8]
    #[arg(long)]
    cpus: Option<u32>,

    /// MiB a second that the disk may read, and write, where it is the limit
    #[arg(long, value_name = "MIB", default_value_t = 48)]
    io_limit: u64,

    /// Seconds of an interval [default: 10; with --quick 0.4]
    #[arg(long, value_name = "SECONDS")]
    interval: Option<f64>,
}

/// A quick study, as a whole.
const QUICK: Duration = Duration::from_secs(870);
/// A full one: 24 combinations of workload, load and what is on, a quarter of an hour each.
const FULL: Duration = Duration::from_secs(6 * 3600);
/// Below this, everything is as small as it gets.
const SMALL: Duration = Duration::from_secs(120);
/// Part of the time that goes to the maximum; the other goes to the rate.
const THROUGHPUT_SHARE: f64 = 0.5;
/// Of the maximum, as Percona set it.
const RATE_SHARE: f64 = 0.75;
/// "No difference" means within this share of the base.
const MARGIN: f64 = 0.02;
/// Where `run.json` keeps the rates.
const RATES: &str = "rates_per_s";

/// What the study was asked to do, checked.
#[derive(Debug)]
struct Plan {
    common: Common,
    workloads: Vec<Condition>,
    agent: Agent,
    budget: Duration,
    scale: Scale,
    cpus: u32,
    io_bytes_per_s: u64,
}

fn unusable<T>(message: String) -> Result<T, Failure> {
    Err(Failure::unusable(anyhow!(message)))
}

impl Args {
    pub(super) fn common(&mut self) -> &mut Common {
        &mut self.common
    }

    fn plan(self) -> Result<Plan, Failure> {
        let processors = available_parallelism().map_or(1, |count| count.get() as u32);
        let budget = match (self.common.budget, self.common.quick) {
            (Some(budget), _) => budget,
            (None, true) => QUICK,
            (None, false) => FULL,
        };
        let threads = self.threads.unwrap_or(4 * processors);
        let mut scale = match budget {
            budget if budget < SMALL => Scale::tiny(),
            budget if budget < FULL / 6 => Scale::quick(threads),
            _ => Scale::full(threads),
        };
        scale.threads = self.threads.unwrap_or(scale.threads);
        scale.nodes = self.nodes.unwrap_or(scale.nodes);
        if let Some(seconds) = self.interval {
            if !(0.05..=600.0).contains(&seconds) {
                return unusable(format!("--interval {seconds}: use 0.05 to 600 seconds"));
            }
            scale.window = Duration::from_secs_f64(seconds);
        }
        if !(1..=10_000).contains(&scale.threads) || !(100..=1_000_000_000).contains(&scale.nodes) {
            return unusable("--threads: use 1 to 10000; --nodes: 100 to 1000000000".to_owned());
        }
        let cpus = self.cpus.unwrap_or(match processors {
            8.. => 4,
            _ => (processors / 2).max(1),
        });
        if !(1..=processors).contains(&cpus) {
            return unusable(format!("--cpus {cpus}: this machine has {processors}"));
        }
        if !(1..=1 << 20).contains(&self.io_limit) {
            return unusable(format!(
                "--io-limit {}: use 1 to 1048576 MiB",
                self.io_limit
            ));
        }
        let mut workloads = Condition::ALL.to_vec();
        workloads.retain(|one| self.workloads.is_empty() || self.workloads.contains(one));
        Ok(Plan {
            common: self.common,
            workloads,
            agent: self.agent,
            budget,
            scale,
            cpus,
            io_bytes_per_s: self.io_limit << 20,
        })
    }
}

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
    let report = report(&plan, &cells, &found, &opened, error.as_ref());
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
        let carried = tables::operations_per_s(run).map(|rate| (rate * RATE_SHARE).max(1.0));
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

/// What is reported, whole or not.
fn report(
    plan: &Plan,
    cells: &CellPlan,
    found: &Found,
    opened: &Opened,
    error: Option<&anyhow::Error>,
) -> StudyReport {
    let shown = |runs: &[(Condition, CellRun)], load: &str| -> Vec<StudyCell> {
        let cell = |(condition, run): &(Condition, CellRun)| {
            study_cell(run, plan.agent, &cells.title(*condition), load)
        };
        runs.iter().map(cell).collect()
    };
    let most = shown(&found.throughput, "at the maximum");
    let rate = shown(&found.rate, "at 75% of it");
    let results = Results {
        agent: plan.agent,
        throughput: measured(cells, &found.throughput, &most),
        rate: measured(cells, &found.rate, &rate),
    };
    let mut notes: Vec<String> = error
        .map(|error| format!("It failed in part: {error:#}."))
        .into_iter()
        .collect();
    notes.extend(limits_told(&most));
    notes.extend(super::within_cells(most.len() + rate.len()));
    notes.extend(standing_notes(plan, cells));
    let mut report = StudyReport {
        title: "Percona's benchmark of the VividCortex agent, repeated".to_owned(),
        question: "What do PERFORMANCE_SCHEMA, an agent, and both cost a server under LinkBench?"
            .to_owned(),
        answer: results.answer(),
        tables: results.tables(),
        agent: results.agent_costs(),
        published: results.published(),
        notes,
        ..opened.report("vividcortex")
    };
    let mut runs = found.throughput.iter().map(|(_, run)| run);
    if let Some(run) = runs.find(|run| !run.server.version.is_empty()) {
        report.server = super::server_of(run);
    }
    report.cells = most.into_iter().chain(rate).collect();
    report
}

/// A cell of the report, with its kinds of events.
fn study_cell(run: &CellRun, agent: Agent, title: &str, load: &str) -> StudyCell {
    let subject = agent.arm_name(cells::Watched::Agent);
    let report = crate::lab::outcome::cell_report(run, &subject, MARGIN);
    let failed = super::failed_in(run, &report);
    let mut cell = StudyCell::of(&run.spec.id, title, load, report);
    cell.notes.splice(0..0, failed);
    cell
}

fn measured<'a>(
    plan: &CellPlan,
    runs: &[(Condition, CellRun)],
    cells: &'a [StudyCell],
) -> Vec<Measured<'a>> {
    let one = |((condition, _), cell): (&(Condition, CellRun), &'a StudyCell)| Measured {
        condition: *condition,
        title: plan.title(*condition),
        cell,
    };
    runs.iter().zip(cells).map(one).collect()
}

/// What the kernel enforced of each limit, and what it refused.
fn limits_told(cells: &[StudyCell]) -> Vec<String> {
    let told = cells.iter().filter(|cell| !cell.workload.limits.is_empty());
    told.map(|cell| {
        format!(
            "Limits, {}: {}.",
            cell.part,
            cell.workload.limits.join("; ")
        )
    })
    .collect()
}

/// What a reader must know, whatever came out.
fn standing_notes(plan: &Plan, cells: &CellPlan) -> Vec<String> {
    let mib = |bytes: u64| bytes >> 20;
    let mut notes = vec![
        "PERFORMANCE_SCHEMA needs a restart: pairs of servers, one with it and one without, live \
         at the same time and take turns, and intervals are over pairs. The agent is switched on \
         either. Between two windows of anything lies one of neither."
            .to_owned(),
        "The load goes over TCP on the loopback device, and from the machine it loads; Percona's \
         came over a network."
            .to_owned(),
        "At the maximum the load is a closed loop, whose latencies hide coordinated omission. At \
         75% of it requests are due by a Poisson process of that rate, for all connections \
         together; a response time runs from when the request was due."
            .to_owned(),
    ];
    if plan.workloads.iter().any(|one| *one != Condition::Io) {
        notes.push(
            "CPU-bound: innodb_flush_log_at_trx_commit = 2, so that commits do not wait for the \
             disk; I/O-bound it is 1."
                .to_owned(),
        );
    }
    if plan.agent == Agent::Packets {
        notes.push(
            "The agent that decodes packets is started for each of its windows, in the middle of \
             sessions: it misses the statement that each session begins with, some of the \
             difference between captured and executed."
                .to_owned(),
        );
    }
    if plan.workloads.contains(&Condition::Io) {
        notes.push(format!(
            "I/O-bound: a buffer pool of {} MiB for about {} MiB of data (estimated from its {} \
             nodes), O_DIRECT, and the disk limited to {} MiB a second each way where the kernel \
             lets us. Version 1 of control groups lets traffic through in steps of a tenth of a \
             second, which the longest response times show.",
            mib(cells.pool_bytes(Condition::Io)),
            mib(plan.scale.data_bytes()),
            plan.scale.nodes,
            mib(plan.io_bytes_per_s),
        ));
    }
    if plan.workloads.contains(&Condition::FewCpus) {
        notes.push(format!(
            "With few CPUs, server and agent share {}, and the load keeps off them where there are \
             others; Percona left them 4.",
            plan.cpus
        ));
    }
    notes.push(
        "Percona printed response times for the CPU-bound workload alone, and no spread with any \
         figure."
            .to_owned(),
    );
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn plan(words: &[&str]) -> Result<Plan, String> {
        let line = ["study"].iter().chain(words);
        let args = Line::try_parse_from(line)
            .map_err(|error| error.to_string())?
            .args;
        args.plan().map_err(|failure| match failure {
            Failure::Unusable(error) | Failure::Ran(error) => error.to_string(),
        })
    }

    #[test]
    fn how_long_it_may_take_says_how_large_it_is() {
        let quick = plan(&["--quick"]).expect("a plan");
        assert!(quick.budget <= Duration::from_secs(15 * 60));
        assert_eq!(quick.scale.lives, Scale::quick(1).lives);
        let full = plan(&[]).expect("a plan");
        assert_eq!(full.scale.window, Duration::from_secs(10));
        let tiny = plan(&["--budget", "60"]).expect("a plan");
        assert_eq!(tiny.scale, Scale::tiny());
        let own = plan(&[
            "--quick",
            "--nodes",
            "1000",
            "--interval",
            "2",
            "--threads",
            "3",
        ]);
        let own = own.expect("a plan").scale;
        assert_eq!((own.nodes, own.threads), (1000, 3));
        assert_eq!(own.window, Duration::from_secs(2));
    }

    #[test]
    fn what_cannot_be_is_refused_before_anything_is_opened() {
        for (words, wanted) in [
            (&["--budget", "3"][..], "a study needs at least 15 s"),
            (&["--budget", "31d"], "a study takes 30d at most"),
            (&["--cpus", "0"], "--cpus 0: this machine has"),
            (&["--cpus", "100000"], "--cpus 100000: this machine has"),
            (
                &["--interval", "0"],
                "--interval 0: use 0.05 to 600 seconds",
            ),
            (&["--io-limit", "0"], "--io-limit 0: use 1 to"),
            (&["--nodes", "5"], "--nodes: 100 to"),
            (&["--agent", "magic"], "invalid value 'magic'"),
        ] {
            let error = plan(words).expect_err(wanted);
            assert!(error.contains(wanted), "{error}");
        }
        let one = plan(&["--workload", "io"]).expect("a plan");
        assert_eq!(one.workloads, [Condition::Io]);
    }
}
