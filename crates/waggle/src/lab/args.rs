//! The flags of `waggle lab`, and the plan they are checked into.

mod resumed;

pub(super) use resumed::study_of;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use clap::Subcommand;
use waggle_load::{LoadSpec, Script};
use waggle_server::Flavour;
use waggle_stats::compare::Outcome;
use waggle_wire::{Dsn, Endpoint};

use super::arm::{ArmSpec, builtin, file};
use super::cell::{CellSpec, LivesPlan};
use crate::cli::{Failure, LoadUser};
use crate::experiment::flags::{duration, share};

/// Half-width that is aimed at for an arm that was asked for by name, as a share of the base.
const TARGET_ASKED: f64 = 0.01;

/// Measure what watching a server costs, with intervals.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    subject: Subject,

    #[command(flatten)]
    pub(crate) load_user: LoadUser,
}

#[derive(Debug, Subcommand)]
enum Subject {
    Run(Box<RunArgs>),
    Study(super::study::StudyArgs),
}

/// Measure each arm against nothing, on one throw-away server under a steady load.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  waggle lab run --quick                          MySQL (MariaDB if there is no MySQL), 4 minutes
  waggle lab run --sandbox mariadb --budget 10m   longer, so narrower
  waggle lab run --arm watch --until '±0.5%'      until it is known to half a percent
  waggle lab run --arm watch --workload oltp_read_write --rate 500
  waggle lab run --arm 'q:on SET GLOBAL long_query_time = 0; off SET GLOBAL long_query_time = 10'
  waggle lab run --arm 'dump:run tcpdump -i lo -w /dev/null;ready listening on'
  waggle lab run --arms arms.toml                 arms of a file: see docs/commands/lab.md

Every arm is switched on for short windows between windows of nothing, in random order; arms with
server settings (PERFORMANCE_SCHEMA) are measured on pairs of servers. Probes need root.")]
pub(super) struct RunArgs {
    /// At most four minutes, and precise where it matters
    #[arg(long, conflicts_with = "budget")]
    quick: bool,

    /// Time to spend, start of servers and load included, such as 90s, 10m or 8h [default: 230s;
    /// with --until or --windows 24h]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    budget: Option<Duration>,

    /// Go on until every arm is known to within this share of nothing's value, such as '±0.5%'
    #[arg(long, value_name = "SHARE", value_parser = share)]
    until: Option<f64>,

    /// Measure this many windows of every arm (and three pairs of servers where an arm needs
    /// them) and no more, however long it takes
    #[arg(long, value_name = "N", conflicts_with_all = ["quick", "until"])]
    windows: Option<usize>,

    /// Which server to start [default: mysql, or mariadb if there is no MySQL]
    #[arg(long, value_name = "mysql|mariadb")]
    sandbox: Option<Flavour>,

    /// Measure this arm only; repeat for several. A built-in one (probe-empty, watch,
    /// watch-packets, watch-perfschema, watch-slowlog, perfschema, general-log, slow-log-all), or
    /// NAME:PART;PART with parts 'set VAR=VALUE', 'on SQL', 'off SQL', 'file VARIABLE',
    /// 'watch SOURCE', 'burn NS', 'run COMMAND', 'ready TEXT'. The A/A arm is always measured
    /// [default: probe-empty, watch, perfschema, general-log, slow-log-all]
    #[arg(long = "arm", value_name = "ARM", value_parser = file::flag)]
    arms: Vec<ArmSpec>,

    /// Measure the arms of this TOML file
    #[arg(long = "arms", value_name = "FILE")]
    arms_file: Option<PathBuf>,

    /// Compare the arms with this one instead of nothing, such as probe-empty; written as for
    /// --arm, without server settings
    #[arg(long, value_name = "ARM", value_parser = file::flag)]
    base: Option<ArmSpec>,

    /// Workload of `waggle bench`
    #[arg(long, default_value = "oltp_point_select")]
    workload: String,

    /// Option of the workload
    #[arg(long = "option", value_name = "NAME=VALUE")]
    options: Vec<String>,

    /// Connections
    #[arg(long, default_value_t = 8)]
    threads: u32,

    /// Transactions a second, timed from their intended start [default: as many as go]
    #[arg(long, value_name = "PER_SECOND")]
    rate: Option<f64>,

    /// Tables
    #[arg(long, default_value_t = 1)]
    tables: u32,

    /// Rows in each table
    #[arg(long, default_value_t = 20_000)]
    table_size: u64,

    /// Server setting, for every server of the run
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,

    /// Processors for server and observers together; the load has the others
    #[arg(long, value_name = "N")]
    limit_cpus: Option<u32>,

    /// Profile the server in every window, arms and nothing alike: a flame graph of each arm, and
    /// on the page what an arm changes, call by call (arms with server settings are left out)
    #[arg(long)]
    profile: bool,

    /// Length of a window, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 0.15)]
    window: f64,

    /// "No difference" means within this share of the base's CPU a statement: 0.02 is 2%
    /// (`waggle compare --margin` is in percent)
    #[arg(long, value_name = "SHARE", default_value_t = 0.02)]
    margin: f64,

    /// Seed of the order of windows and of the load
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Where the run directory is made
    #[arg(long, value_name = "DIR", default_value = "waggle-runs")]
    runs: PathBuf,

    /// Go on with a run that was killed or interrupted: what it measured is not measured again.
    /// Its flags are those it was started with, but for --budget and --until
    #[arg(long, value_name = "RUN")]
    resume: Option<PathBuf>,
}

/// What `lab run` was asked to do, checked.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) cell: CellSpec,
    pub(super) budget: Duration,
    pub(super) until: Option<f64>,
    pub(super) quick: bool,
    pub(super) margin: f64,
    pub(super) runs: PathBuf,
    pub(super) resume: Option<PathBuf>,
}

fn unusable<T>(message: String) -> Result<T, Failure> {
    Err(Failure::unusable(anyhow!(message)))
}

/// What the verb was asked to do.
pub(super) enum Asked {
    Run(Box<RunArgs>),
    Study(super::study::StudyArgs),
}

impl Args {
    pub(super) fn asked(self) -> Asked {
        match self.subject {
            Subject::Run(args) => Asked::Run(args),
            Subject::Study(args) => Asked::Study(args),
        }
    }
}

/// `NAME=VALUE` flags.
fn named(flag: &str, texts: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let one = |text: &String| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => unusable(format!("{flag} {text}: use NAME=VALUE")),
    };
    texts.iter().map(one).collect()
}

impl RunArgs {
    pub(super) fn plan(self) -> Result<Plan, Failure> {
        let args = self.effective()?;
        let is_open = args.until.is_some() || args.windows.is_some();
        let default = if is_open { 86_400 } else { 230 };
        let budget = args.budget.unwrap_or(Duration::from_secs(default));
        if !(15.0..=30.0 * 86_400.0).contains(&budget.as_secs_f64()) {
            let seconds = budget.as_secs_f64();
            return unusable(format!("--budget {seconds} s: use 15s to 30d"));
        }
        if !(0.0001..=0.5).contains(&args.margin) {
            return unusable(format!("--margin {}: use 0.0001 to 0.5", args.margin));
        }
        Ok(Plan {
            cell: args.cell()?,
            budget,
            until: args.until,
            quick: args.quick,
            margin: args.margin,
            runs: args.runs,
            resume: args.resume,
        })
    }

    fn cell(&self) -> Result<CellSpec, Failure> {
        if !(0.05..=60.0).contains(&self.window) {
            return unusable(format!("--window {}: use 0.05 to 60 seconds", self.window));
        }
        if !(1..=10_000).contains(&self.threads) || self.tables == 0 || self.table_size == 0 {
            return unusable("--threads, --tables and --table-size must be at least 1".to_owned());
        }
        if self.rate.is_some_and(|rate| !(0.01..=1e7).contains(&rate)) {
            return unusable("--rate: use 0.01 to 10000000 transactions a second".to_owned());
        }
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        if self
            .limit_cpus
            .is_some_and(|cpus| !(1..=processors).contains(&cpus))
        {
            return unusable(format!(
                "--limit-cpus: this host has {processors}; use 1 to that"
            ));
        }
        let script = Script::open(&self.workload).map_err(Failure::unusable)?;
        let options: BTreeMap<_, _> = named("--option", &self.options)?.into_iter().collect();
        let sizes = self.sizes(&script, &options)?;
        let flavour = super::flavour(self.sandbox)?;
        let id = script.short_name().to_owned();
        let mut cell = CellSpec::new(&id, &id, flavour, script);
        (cell.data.tables, cell.data.table_size) = sizes;
        cell.data.options = options;
        cell.threads = self.threads;
        cell.rate = self.rate;
        cell.settings = named("--set", &self.settings)?;
        cell.limits.cpus = self.limit_cpus;
        cell.profile = self.profile;
        cell.timing.window = Duration::from_secs_f64(self.window);
        cell.seed = self.seed;
        cell.base = self.base()?;
        cell.arms = self.arms()?;
        // An interval needs three; a budget that is spent buys no more.
        cell.lives.fewest = 3;
        if let Some(windows) = self.windows {
            if !(1..=file::WINDOWS_MAX).contains(&windows) {
                return unusable(format!("--windows {windows}: use 1 to 1000000"));
            }
            for arm in &mut cell.arms {
                (arm.windows_planned, arm.target) = (windows, None);
            }
            cell.lives = LivesPlan {
                windows: windows.min(cell.lives.windows),
                fewest: 3,
                most: 3,
            };
        }
        if self.rate.is_some() {
            cell.primary = Outcome::LatencyP99Us;
        }
        Ok(cell)
    }

    /// Tables and rows, 0 where the workload has no such option; checks the options.
    fn sizes(
        &self,
        script: &Script,
        options: &BTreeMap<String, String>,
    ) -> Result<(u32, u64), Failure> {
        let nowhere = Dsn::new(
            Endpoint::Tcp {
                host: "127.0.0.1".to_owned(),
                port: 1,
            },
            "nobody",
        );
        let mut spec = LoadSpec::new(nowhere, script.clone());
        spec.options = options.clone();
        let declared = waggle_load::check(&spec).map_err(Failure::unusable)?;
        let has = |name: &str| declared.iter().any(|option| option.name == name);
        let tables = if has("tables") { self.tables } else { 0 };
        let rows = if has("table_size") {
            self.table_size
        } else {
            0
        };
        Ok((tables, rows))
    }

    /// What the arms are compared with, if it is not nothing.
    fn base(&self) -> Result<Option<ArmSpec>, Failure> {
        let Some(base) = &self.base else {
            return Ok(None);
        };
        if !base.is_in_life() || base.aa {
            return unusable(format!(
                "--base {}: it has to be something that is switched while the server lives",
                base.name
            ));
        }
        Ok(Some(base.clone()))
    }

    /// The arms asked for, the A/A arm first, no name twice.
    fn arms(&self) -> Result<Vec<ArmSpec>, Failure> {
        let mut asked = self.arms.clone();
        if let Some(file) = &self.arms_file {
            asked.extend(file::read(file).map_err(Failure::Unusable)?);
        }
        if asked.is_empty() {
            let base = self.base.as_ref().map(|base| base.name.as_str());
            let names = builtin::DEFAULT.iter().filter(|name| Some(**name) != base);
            asked.extend(names.filter_map(|name| builtin::arm(name)));
        } else {
            // Who names an arm wants to know it: it gets its share of the time that is left.
            let without = asked.iter_mut().filter(|arm| arm.settings.is_empty());
            for arm in without {
                arm.target.get_or_insert(TARGET_ASKED);
            }
        }
        let mut arms: Vec<ArmSpec> = builtin::arm(builtin::AA_NAME).into_iter().collect();
        for arm in asked {
            if self.base.as_ref().is_some_and(|b| b.name == arm.name) {
                return unusable(format!("{} is the base and an arm; drop one", arm.name));
            }
            match arms.iter().find(|known| known.name == arm.name) {
                None => arms.push(arm),
                Some(known) if *known == arm => {}
                Some(_) => {
                    return unusable(format!("two arms are called {}; rename one", arm.name));
                }
            }
        }
        // The built-in ones in the order of reports, others as they came.
        let place = |arm: &ArmSpec| {
            let names = builtin::NAMES.iter();
            names
                .clone()
                .position(|name| *name == arm.name)
                .unwrap_or(names.len())
        };
        arms.sort_by_key(place);
        Ok(arms)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn an_arm_that_was_asked_for_gets_of_the_time_that_is_left() {
        #[derive(Parser)]
        struct Flags {
            #[command(flatten)]
            run: RunArgs,
        }
        let targets = |flags: &[&str]| {
            let flags = Flags::parse_from([&["lab"], flags].concat());
            let arms = flags.run.arms().unwrap().into_iter();
            arms.map(|arm| (arm.name, arm.target))
                .collect::<BTreeMap<_, _>>()
        };
        let asked = targets(&["--arm", "mine:run true", "--arm", "general-log"]);
        assert_eq!(asked["mine"], Some(TARGET_ASKED));
        assert_eq!(asked["general-log"], Some(TARGET_ASKED));
        assert_eq!(targets(&[])["general-log"], None);
        assert_eq!(targets(&["--arm", "perfschema"])["perfschema"], None);
    }
}
