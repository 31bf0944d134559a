//! What does watching this server cost?
//!
//! Data flow: [`bed`] starts servers, load and observer; `crate::experiment` measures windows in
//! the order that `waggle-stats` draws; [`outcome`] turns windows into intervals, verdicts and the
//! report. Neighbours: `waggle bench` is the load, `waggle watch` the observer, both as users run
//! them.
//!
//! Invariant: every server of a run is a throw-away one, and none outlives the run.

mod args;
mod arms;
mod bed;
mod observer;
mod outcome;
mod progress;

pub(crate) use args::Args;

use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use waggle_report::run::{Outcome as Ending, RunDir, ServerFacts, redact_argv};
use waggle_server::{Flavour, install, status};
use waggle_stats::compare::{CompareSettings, Outcome, compare_chain};
use waggle_stats::schedule::{ArmPlan, ArmProgress, Chooser, chain_order, with_base};

use crate::cli::{Failure, Output};
use crate::experiment::{Bed, Record};
use crate::interrupt::{self, Interrupt};
use args::Plan;
use arms::Arm;
use bed::{InLife, Lives};
use progress::Progress;

/// Pairs of server lives for the arm that needs a restart: fewest, and most of a run.
const LIVES_FEWEST: usize = 5;
const LIVES_MOST: usize = 60;
/// Windows of the arm in one pair of lives.
const LIVES_WINDOWS: usize = 15;
/// Arm windows between two looks at what is still too wide.
const ROUND: usize = 16;
/// Share of the budget that the pairs of lives get.
const LIVES_SHARE: f64 = 0.36;
/// Kept back for ending servers and writing the report.
const RESERVE: Duration = Duration::from_secs(6);

/// Runs the verb.
pub(crate) fn run(args: Args, out: &Output) -> Result<(), Failure> {
    let plan = args.plan()?;
    crate::preflight::can_trace()?;
    let flavour = flavour(&plan)?;
    let interrupt = interrupt::catch()
        .context("catching signals")
        .map_err(Failure::Unusable)?;
    let mut run = RunDir::create(&plan.runs, "lab", &plan.workload).map_err(Failure::unusable)?;
    let argv: Vec<String> = std::env::args().collect();
    run.record(|facts| facts.command = redact_argv(&argv))
        .map_err(Failure::unusable)?;
    let mut lab = Lab::new(plan, flavour, interrupt);
    let result = lab.experiment(&mut run);
    let error = result.as_ref().err().map(|e| format!("{e:#}"));
    let report = lab.report(&run, error.clone());
    let checks = outcome::failed_checks(&report);
    let page = run.write_lab(&report).map_err(Failure::ran)?;
    let ending = if error.is_none() && checks.is_empty() {
        Ending::Done
    } else {
        Ending::Failed
    };
    run.finish(ending, error).map_err(Failure::ran)?;
    if out.json {
        out.json(&outcome::document(&report, &page))
            .context("stdout")
            .map_err(Failure::Ran)?;
    } else {
        print!("{}", waggle_report::lab::text(&report, false));
        println!("\nreport: {}", page.display());
    }
    result.map_err(Failure::Ran)?;
    match checks.first() {
        None => Ok(()),
        Some(check) => Err(Failure::ran(anyhow!(check.clone()))),
    }
}

/// The server asked for; MySQL if it can be had, MariaDB otherwise.
fn flavour(plan: &Plan) -> Result<Flavour, Failure> {
    let installed = install::installed_servers();
    let has = |flavour| installed.iter().any(|server| server.flavour == flavour);
    match plan.sandbox {
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

/// A lab run in progress.
struct Lab {
    plan: Plan,
    flavour: Flavour,
    started: Instant,
    in_life: Record,
    lives: Record,
    server: ServerFacts,
    notes: Vec<String>,
    interrupt: Interrupt,
}

impl Lab {
    fn new(plan: Plan, flavour: Flavour, interrupt: Interrupt) -> Self {
        let started = Instant::now();
        Self {
            plan,
            flavour,
            started,
            in_life: Record::new(started),
            lives: Record::new(started),
            server: ServerFacts::default(),
            notes: Vec::new(),
            interrupt,
        }
    }

    fn has(&self, arm: Arm) -> bool {
        self.plan.arms.contains(&arm)
    }

    fn remaining(&self) -> Duration {
        self.plan
            .budget
            .saturating_sub(self.started.elapsed())
            .saturating_sub(RESERVE)
    }

    fn check_interrupt(&self) -> anyhow::Result<()> {
        if self.interrupt.requested() {
            bail!("interrupted; the figures are of the windows measured until then");
        }
        Ok(())
    }

    fn experiment(&mut self, run: &mut RunDir) -> anyhow::Result<()> {
        let progress = Progress::new(self.plan.budget);
        progress.say("starting a server, its load and the observer");
        let mut bed = InLife::start(&self.plan, self.flavour)?;
        self.server = server_facts(&mut bed)?;
        let facts = self.server.clone();
        run.record(|run| run.server = Some(facts))?;
        let measured = self.measure_in_life(&mut bed, run, &progress);
        let ended = bed.end();
        measured?;
        ended?;
        if self.has(Arm::Perfschema) {
            self.measure_lives(run, &progress)?;
        }
        progress.end();
        Ok(())
    }

    fn measure_in_life(
        &mut self,
        bed: &mut InLife,
        run: &mut RunDir,
        progress: &Progress,
    ) -> anyhow::Result<()> {
        let share = if self.has(Arm::Perfschema) {
            LIVES_SHARE
        } else {
            0.0
        };
        let until = self.started + (self.plan.budget - RESERVE).mul_f64(1.0 - share);
        let in_life: Vec<Arm> = self
            .plan
            .arms
            .iter()
            .copied()
            .filter(|a| a.is_in_life())
            .collect();
        let planned: Vec<ArmPlan> = in_life
            .iter()
            .map(|arm| ArmPlan {
                arm: arm.number(),
                windows: arm.windows_planned(),
            })
            .collect();
        let order = chain_order(&planned, self.plan.seed);
        self.chain(bed, &order, until, run, progress)?;
        let mut chooser = Chooser::new(self.plan.seed, 0);
        while Instant::now() < until {
            let open = self.progress_of(&in_life);
            let round = chooser.next_round(&open, ROUND);
            if round.is_empty() {
                break;
            }
            let order = with_base(&round);
            // The chain goes on: its last window was the base already.
            self.chain(bed, &order[1..], until, run, progress)?;
        }
        Ok(())
    }

    /// How wide the arms with a target still are.
    fn progress_of(&self, arms: &[Arm]) -> Vec<ArmProgress> {
        let settings = CompareSettings {
            resamples: 0,
            ..CompareSettings::default()
        };
        let windows = &self.in_life.windows;
        let open = |arm: &Arm| {
            let number = arm.number();
            let cpu = Outcome::CpuUsPerStatement;
            Some(ArmProgress {
                arm: number,
                windows: windows.iter().filter(|w| w.arm == number).count(),
                half_width: compare_chain(windows, number, cpu, &settings)
                    .ok()
                    .map(|c| c.ratio.half_width()),
                target: arm.target()?,
            })
        };
        arms.iter().filter_map(open).collect()
    }

    fn chain(
        &mut self,
        bed: &mut dyn Bed,
        order: &[usize],
        until: Instant,
        run: &mut RunDir,
        progress: &Progress,
    ) -> anyhow::Result<()> {
        for arm in order {
            // A chain that ends with an arm would leave its last window without a neighbour.
            if Instant::now() >= until && *arm != 0 {
                break;
            }
            self.check_interrupt()?;
            let window = self.in_life.measure(bed, *arm, 0, self.plan.timing)?;
            run.append(window)?;
            progress.window(name(*arm), window);
        }
        Ok(())
    }

    fn measure_lives(&mut self, run: &mut RunDir, progress: &Progress) -> anyhow::Result<()> {
        let mut longest = Duration::ZERO;
        let mut whole = 0;
        for life in 1..=LIVES_MOST {
            self.check_interrupt()?;
            // One more than fits is begun only to have the fewest, and only if none was lost.
            let fits = self.remaining() >= longest;
            if !fits && (whole >= LIVES_FEWEST || whole + 1 < life) {
                break;
            }
            let begun = Instant::now();
            progress.say(&format!(
                "pair of servers {life} (PERFORMANCE_SCHEMA off and on)"
            ));
            match self.measure_pair(life, run, progress) {
                Ok(()) => whole += 1,
                // A pair that died costs its block only.
                Err(error) => {
                    self.notes
                        .push(format!("Pair of servers {life} was lost: {error:#}"));
                    self.lives.windows.retain(|window| window.life != life);
                }
            }
            longest = longest.max(begun.elapsed());
        }
        Ok(())
    }

    /// One pair of server lives, taking turns.
    fn measure_pair(
        &mut self,
        life: usize,
        run: &mut RunDir,
        progress: &Progress,
    ) -> anyhow::Result<()> {
        let on_first = self.plan.seed.wrapping_mul(life as u64 * 2 + 1) >> 3 & 1 == 1;
        let mut bed = Lives::start(&self.plan, self.flavour, on_first)?;
        for number in with_base(&[Arm::Perfschema.number(); LIVES_WINDOWS]) {
            self.check_interrupt()?;
            let window = self
                .lives
                .measure(&mut bed, number, life, self.plan.timing)?;
            run.append(window)?;
            progress.window(name(number), window);
        }
        bed.end()
    }
}

fn name(arm: usize) -> &'static str {
    Arm::from_number(arm).map_or(arms::BASE_NAME, Arm::name)
}

/// Settings that a reader needs to judge the figures.
const VARIABLES: [&str; 14] = [
    "performance_schema",
    "innodb_buffer_pool_size",
    "innodb_flush_log_at_trx_commit",
    "innodb_redo_log_capacity",
    "innodb_log_file_size",
    "innodb_flush_method",
    "innodb_doublewrite",
    "log_bin",
    "sync_binlog",
    "long_query_time",
    "slow_query_log",
    "general_log",
    "thread_handling",
    "max_connections",
];

fn server_facts(bed: &mut InLife) -> anyhow::Result<ServerFacts> {
    let process = waggle_server::process::from_pid(bed.server().pid())?;
    let all = status::variables(bed.admin()).context("reading the server's variables")?;
    let chosen = VARIABLES
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), all.get(*name)?.clone())))
        .collect();
    Ok(ServerFacts {
        flavour: match process.flavour {
            Flavour::MySql => "MySQL".to_owned(),
            Flavour::MariaDb => "MariaDB".to_owned(),
        },
        version: all
            .get("version")
            .cloned()
            .or(process.version)
            .unwrap_or_default(),
        build_id: process.build_id,
        variables: chosen,
    })
}
