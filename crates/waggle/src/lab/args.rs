//! The flags of `waggle lab`, and the plan they are checked into.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use clap::Subcommand;
use waggle_load::Script;
use waggle_server::Flavour;

use super::arms::Arm;
use crate::cli::Failure;
use crate::experiment::Timing;

/// Measure what watching a server costs, with intervals.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(Debug, Subcommand)]
enum Subject {
    Run(RunArgs),
}

/// Measure each arm against nothing, on one throw-away server under a steady load.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  waggle lab run --quick                          MySQL (MariaDB if there is no MySQL), 4 minutes
  waggle lab run --sandbox mariadb --budget 600   longer, so narrower
  waggle lab run --arm watch --workload oltp_read_write

Every arm is switched on for short windows between windows of nothing, in random order;
PERFORMANCE_SCHEMA needs a restart and is measured on pairs of servers. Needs root.")]
struct RunArgs {
    /// At most four minutes, and precise where it matters
    #[arg(long, conflicts_with = "budget")]
    quick: bool,

    /// Seconds to spend, start of servers and load included [default: 230]
    #[arg(long, value_name = "SECONDS")]
    budget: Option<u64>,

    /// Which server to start [default: mysql, or mariadb if there is no MySQL]
    #[arg(long, value_name = "mysql|mariadb")]
    sandbox: Option<Flavour>,

    /// Measure this arm only; repeat for several [default: all]. The A/A arm is always measured
    #[arg(long = "arm", value_name = "ARM")]
    arms: Vec<Arm>,

    /// Workload of `waggle bench`
    #[arg(long, default_value = "oltp_point_select")]
    workload: String,

    /// Connections, each with a thread of its own
    #[arg(long, default_value_t = 8)]
    threads: u32,

    /// Tables
    #[arg(long, default_value_t = 1)]
    tables: u32,

    /// Rows in each table
    #[arg(long, default_value_t = 20_000)]
    table_size: u64,

    /// Server setting, for every server of the run
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,

    /// Length of a window, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 0.15)]
    window: f64,

    /// "No difference" means within this share of the base's CPU a statement
    #[arg(long, value_name = "SHARE", default_value_t = 0.02)]
    margin: f64,

    /// Seed of the order of windows and of the load
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Where the run directory is made
    #[arg(long, value_name = "DIR", default_value = "waggle-runs")]
    runs: PathBuf,
}

/// What `lab run` was asked to do, checked.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) budget: Duration,
    pub(super) sandbox: Option<Flavour>,
    pub(super) arms: Vec<Arm>,
    pub(super) workload: String,
    pub(super) script: Script,
    pub(super) threads: u32,
    pub(super) tables: u32,
    pub(super) table_size: u64,
    pub(super) settings: Vec<(String, String)>,
    pub(super) timing: Timing,
    pub(super) margin: f64,
    pub(super) seed: u64,
    pub(super) runs: PathBuf,
}

fn unusable<T>(message: String) -> Result<T, Failure> {
    Err(Failure::unusable(anyhow!(message)))
}

impl Args {
    pub(super) fn plan(self) -> Result<Plan, Failure> {
        let Subject::Run(args) = self.subject;
        let budget = args.budget.unwrap_or(230);
        if !(30..=86_400).contains(&budget) {
            return unusable(format!("--budget {budget}: use 30 to 86400 seconds"));
        }
        if !(0.05..=60.0).contains(&args.window) {
            return unusable(format!("--window {}: use 0.05 to 60 seconds", args.window));
        }
        if !(0.0001..=0.5).contains(&args.margin) {
            return unusable(format!("--margin {}: use 0.0001 to 0.5", args.margin));
        }
        if !(1..=10_000).contains(&args.threads) || args.tables == 0 || args.table_size == 0 {
            return unusable("--threads, --tables and --table-size must be at least 1".to_owned());
        }
        let script = Script::open(&args.workload).map_err(Failure::unusable)?;
        let mut settings = Vec::new();
        for setting in &args.settings {
            match setting.split_once('=') {
                Some((name, value)) if !name.is_empty() => {
                    settings.push((name.to_owned(), value.to_owned()));
                }
                _ => return unusable(format!("--set {setting}: use NAME=VALUE")),
            }
        }
        let mut arms = if args.arms.is_empty() {
            Arm::ALL.to_vec()
        } else {
            args.arms
        };
        arms.push(Arm::NoneAgain);
        arms.sort_unstable();
        arms.dedup();
        Ok(Plan {
            budget: Duration::from_secs(budget),
            sandbox: args.sandbox,
            arms,
            workload: script.short_name().to_owned(),
            script,
            threads: args.threads,
            tables: args.tables,
            table_size: args.table_size,
            settings,
            timing: Timing {
                window: Duration::from_secs_f64(args.window),
                settle: Duration::from_millis(40),
            },
            margin: args.margin,
            seed: args.seed,
            runs: args.runs,
        })
    }
}
