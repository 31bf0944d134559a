//! The DBdoctor agent's overhead study, repeated with waggle's agent.
//!
//! Scenes A, B and C are cells ([`cells`]); what the programs of one statement cost ([`statement`])
//! and what the agent itself uses ([`own_cost`]) is measured on a server of their own ([`stage`]);
//! [`tables`] lays all of it out as the article does, beside the article's figures.
//!
//! Invariant: a part that fails is a note in the report, and the other parts stand.

mod cells;
mod own_cost;
mod report;
mod stage;
mod statement;
mod tables;
mod tables_own;
mod tables_statement;

use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::ValueEnum;
use waggle_report::lab::LabServer;
use waggle_report::study::StudyCell;
use waggle_server::Flavour;

use super::{Common, Opened, cell_report, failed_in, server_of};
use crate::cli::{Failure, Output};
use crate::experiment::progress::Progress;
use crate::lab::cell::CellSpec;
use crate::lab::run::{Budget, run_cells};
use cells::{CellPlan, Condition};
use own_cost::OwnPlan;
use report::Found;
use stage::{Slices, Stage, StagePlan};

/// Scenes A to C and the agent's own cost, as in DBdoctor's study of its agent
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  waggle lab study dbdoctor --quick                 all scenes in 15 minutes
  waggle lab study dbdoctor                         as long as the original: 30 minutes a point
  waggle lab study dbdoctor --scene C --quick       what one statement pays
  waggle lab study dbdoctor --scene A --threads 64 --budget 10m

Needs root.")]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,

    /// Measure this part only; repeat for several [default: all]
    #[arg(
        long = "scene",
        value_name = "A|B|C|own",
        ignore_case = true,
        hide_possible_values = true
    )]
    scenes: Vec<Scene>,

    /// The agent: probes in the kernel, or packets off the network
    #[arg(long, value_enum, default_value_t = AgentKind::Uprobe)]
    agent: AgentKind,

    /// Scene A at these numbers of threads
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', default_values_t = cells::THREADS)]
    threads: Vec<u32>,
}

/// A part of the study.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Scene {
    /// sysbench's mixes at rising numbers of threads
    #[value(name = "A")]
    A,
    /// TPC-C
    #[value(name = "B")]
    B,
    /// One statement
    #[value(name = "C")]
    C,
    /// What the agent itself uses
    Own,
}

/// Which agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum AgentKind {
    /// `waggle watch`
    Uprobe,
    /// `waggle watch --source packets`
    Packets,
}

impl AgentKind {
    /// The arm that is this agent.
    fn arm(self) -> &'static str {
        match self {
            Self::Uprobe => "watch",
            Self::Packets => "watch-packets",
        }
    }
}

/// A quick study, as a whole.
const QUICK: Duration = Duration::from_secs(880);
/// A point of the original, and of a full study.
const POINT: Duration = Duration::from_secs(30 * 60);
/// A condition of the agent's own cost in a full study.
const OWN_POINT: Duration = Duration::from_secs(5 * 60);
/// Below this, data is as small as it gets and only extremes are measured.
const SMALL: Duration = Duration::from_secs(120);
/// Shares of one budget, by part.
const SHARES: [(Scene, f64); 4] = [
    (Scene::A, 0.56),
    (Scene::B, 0.10),
    (Scene::C, 0.12),
    (Scene::Own, 0.22),
];
/// The part of scene C's share that goes to timing programs.
const PROGRAMS_SHARE: f64 = 0.25;
/// A slice in which programs are timed.
const PROGRAM_SLICE: Duration = Duration::from_millis(500);
const PROGRAM_SLICES_MIN: usize = 4;
const PROGRAM_SLICES_MAX: usize = 120;
/// Ending servers and writing the report.
const END: Duration = Duration::from_secs(5);
/// Rows of that server's table.
const STAGE_ROWS: u64 = 10_000;
/// "No difference" means within this share of the base's CPU a statement.
const MARGIN: f64 = 0.02;

/// What the study was asked to do, checked.
#[derive(Debug)]
struct Plan {
    common: Common,
    scenes: Vec<Scene>,
    agent: AgentKind,
    threads: Vec<u32>,
    /// Time for all of it; `None`: as long as the original.
    budget: Option<Duration>,
}

impl Args {
    pub(super) fn common(&mut self) -> &mut Common {
        &mut self.common
    }

    fn plan(self) -> Result<Plan, Failure> {
        let wrong = self.threads.iter().find(|n| !(1..=10_000).contains(*n));
        if let Some(threads) = wrong {
            return Err(Failure::unusable(anyhow!(
                "--threads {threads}: use numbers from 1 to 10000"
            )));
        }
        let budget = self.common.budget.or(self.common.quick.then_some(QUICK));
        let scenes = if self.scenes.is_empty() {
            SHARES.map(|(scene, _)| scene).to_vec()
        } else {
            self.scenes
        };
        Ok(Plan {
            common: self.common,
            scenes,
            agent: self.agent,
            threads: self.threads,
            budget,
        })
    }
}

impl Plan {
    fn has(&self, scene: Scene) -> bool {
        self.scenes.contains(&scene)
    }

    fn is_small(&self) -> bool {
        self.budget.is_some_and(|budget| budget < SMALL)
    }

    /// Time for a part: its share of the budget among the parts asked for, or the original's.
    fn time_of(&self, scene: Scene) -> Duration {
        if !self.has(scene) {
            return Duration::ZERO;
        }
        let Some(budget) = self.budget else {
            let threads = u32::try_from(self.threads.len()).unwrap_or(1);
            return match scene {
                Scene::A => POINT * threads * 3,
                Scene::B | Scene::C => POINT,
                Scene::Own => OWN_POINT * own_cost::CONDITIONS,
            };
        };
        let asked = SHARES.iter().filter(|(scene, _)| self.has(*scene));
        let all: f64 = asked.map(|(_, share)| share).sum();
        let own = SHARES.iter().find(|(other, _)| *other == scene);
        budget.mul_f64(own.map_or(0.0, |(_, share)| *share) / all)
    }

    /// Time for the windows of scenes A, B and C.
    fn time_of_cells(&self) -> Duration {
        self.time_of(Scene::A)
            + self.time_of(Scene::B)
            + self.time_of(Scene::C).mul_f64(1.0 - PROGRAMS_SHARE)
    }

    /// Time for all of it.
    fn time(&self) -> Duration {
        let all = SHARES.iter().map(|(scene, _)| self.time_of(*scene));
        all.sum()
    }

    /// The agent's own cost, with what is left of a budget of which so much was spent: a slow
    /// machine takes its time to fill servers.
    fn own(&self, spent: Duration) -> OwnPlan {
        let own = self.time_of(Scene::Own);
        let left = self.budget.map_or(own, |all| all.saturating_sub(spent));
        OwnPlan {
            time: own.min(left).saturating_sub(END),
            several: self.agent == AgentKind::Uprobe,
            fewest: self.is_small(),
        }
    }

    fn stage(&self, flavour: Flavour) -> StagePlan {
        StagePlan {
            flavour,
            agent: self.agent,
            table_size: STAGE_ROWS,
            seed: self.common.seed,
        }
    }

    fn cells(&self, flavour: Flavour) -> CellPlan {
        CellPlan {
            flavour,
            agent: self.agent,
            seed: self.common.seed,
            threads: self.threads.clone(),
            full: self.budget.is_none(),
            small: self.is_small(),
        }
    }
}

/// Runs the study.
pub(super) fn run(args: Args, out: &Output) -> Result<(), Failure> {
    let plan = args.plan()?;
    if plan.agent == AgentKind::Uprobe {
        crate::preflight::can_trace()?;
    }
    let flavour = crate::lab::flavour(plan.common.sandbox)?;
    let conditions = plan.cells(flavour).conditions(&plan.scenes);
    let conditions = conditions.map_err(Failure::Unusable)?;
    let specs: Vec<CellSpec> = conditions.iter().map(|c| c.spec.clone()).collect();
    let mut opened = Opened::create(&plan.common, "dbdoctor", flavour, &specs)?;
    let mut study = Study {
        progress: Progress::new(plan.time()),
        plan,
        found: Found::default(),
        server: LabServer::default(),
        failed: Vec::new(),
    };
    let measured = study.measure(conditions, &mut opened);
    study.progress.end();
    let mut report = opened.report("dbdoctor");
    report.server = study.server;
    let report = report::fill(report, study.found);
    let failed = study.failed.first().map(|why| anyhow!(why.clone()));
    opened.close(&report, measured.err().or(failed), out)
}

/// The study being measured.
struct Study {
    plan: Plan,
    progress: Progress,
    found: Found,
    server: LabServer,
    /// What did not hold, each as an error for the user.
    failed: Vec<String>,
}

impl Study {
    fn measure(&mut self, conditions: Vec<Condition>, opened: &mut Opened) -> anyhow::Result<()> {
        if !conditions.is_empty() {
            self.measure_cells(conditions, opened)?;
        }
        let programs = self.plan.has(Scene::C);
        if (programs || self.plan.has(Scene::Own)) && !opened.interrupt.requested() {
            self.progress
                .say("starting a server for the agent's own cost");
            let stage = Stage::start(self.plan.stage(opened.flavour), &opened.interrupt)?;
            if self.server.version.is_empty() {
                self.server = stage.server();
            }
            if programs {
                self.measure_programs(&stage);
            }
            if self.plan.has(Scene::Own) {
                let plan = self.plan.own(opened.started.elapsed());
                let say = |what: &str| self.progress.say(what);
                self.found.own = own_cost::measure(&stage, plan, &say);
            }
            stage.end()?;
        }
        if opened.interrupt.requested() {
            bail!("interrupted; the figures are of what was measured until then");
        }
        Ok(())
    }

    fn measure_cells(
        &mut self,
        conditions: Vec<Condition>,
        opened: &mut Opened,
    ) -> anyhow::Result<()> {
        let budget = Budget::new(self.plan.time_of_cells(), None).firm(self.plan.common.quick);
        let specs = conditions.iter().map(|c| c.spec.clone()).collect();
        let runs = run_cells(
            specs,
            &budget,
            &mut opened.run,
            &opened.interrupt,
            &self.progress,
        )?;
        for (condition, run) in conditions.iter().zip(&runs) {
            let cell = cell_report(run, self.plan.agent.arm(), MARGIN);
            let failed = failed_in(run, &cell);
            let mut cell = StudyCell::of(&run.spec.id, &condition.part, &condition.title, cell);
            cell.notes.splice(0..0, failed.iter().cloned());
            let of_cell = |why: String| format!("{}: {why}", cell.full_title());
            self.failed.extend(failed.into_iter().map(of_cell));
            self.found.cells.push(cell);
        }
        if let Some(run) = runs.iter().find(|run| !run.server.version.is_empty()) {
            self.server = server_of(run);
        }
        Ok(())
    }

    /// What the agent's programs cost a statement; without them the rest of the study stands.
    fn measure_programs(&mut self, stage: &Stage<'_>) {
        self.progress
            .say("scene C: the run time of the agent's programs");
        let time = self.plan.time_of(Scene::C).mul_f64(PROGRAMS_SHARE);
        let most = if self.plan.is_small() {
            PROGRAM_SLICES_MIN
        } else {
            PROGRAM_SLICES_MAX
        };
        let count = (time.as_secs_f64() / PROGRAM_SLICE.as_secs_f64()) as usize;
        let slices = Slices {
            count: count.clamp(PROGRAM_SLICES_MIN, most),
            length: PROGRAM_SLICE,
            settle: PROGRAM_SLICE,
        };
        match statement::programs(stage, slices) {
            Ok(programs) => self.found.programs = programs,
            Err(error) => self
                .found
                .notes
                .push(format!("The agent's programs were not timed: {error:#}")),
        }
    }
}
