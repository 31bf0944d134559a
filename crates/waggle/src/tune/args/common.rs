//! What do the flags of every tuning run, beside its space file, ask for?
//!
//! The file counts where no flag says anything, the default where neither does. Neighbours:
//! [`super`] has the flags that name what is tuned.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use clap::ValueEnum;
use waggle_load::{LoadSpec, Script};
use waggle_server::Flavour;
use waggle_stats::tune::{Guard, Kind};
use waggle_wire::{Dsn, Endpoint};

use super::{named, unusable};
use crate::cli::Failure;
use crate::experiment::flags::{duration, share};
use crate::tune::plan::{self, Plan, Stage};
use crate::tune::space_file::{SpaceFile, plain};
use crate::tune::subject::{Objective, Setup};

/// What a study takes too.
#[derive(Debug, clap::Args)]
pub(super) struct Common {
    /// Which server to start [default: mysql, or mariadb if there is no MySQL]
    #[arg(long, value_name = "mysql|mariadb")]
    pub(super) sandbox: Option<Flavour>,

    /// What to make better: tps, qps, p99@RATE (response time at that many transactions a second),
    /// cpu-per-statement or replica-apply-rate [default: tps]
    #[arg(long, value_name = "OBJECTIVE")]
    objective: Option<Objective>,

    /// What must not get worse: p99, errors, memory or replica-lag; with =10% it may rise by that,
    /// with <20000 it has a limit (us, errors a second, bytes, seconds); none for none; repeat for
    /// several [default: p99 and errors]
    #[arg(long = "guard", value_name = "GUARD")]
    guards: Vec<String>,

    /// Server setting for every server of the run, not tuned
    #[arg(long = "fixed", value_name = "NAME=VALUE", value_parser = named)]
    fixed: Vec<(String, String)>,

    /// Workload of `waggle bench` [default: oltp_read_write]
    #[arg(long)]
    workload: Option<String>,

    /// Option of the workload
    #[arg(long = "option", value_name = "NAME=VALUE", value_parser = named)]
    options: Vec<(String, String)>,

    /// Connections [default: 8]
    #[arg(long)]
    threads: Option<u32>,

    /// Tables [default: 4]
    #[arg(long)]
    tables: Option<u32>,

    /// Rows in each table [default: 20000]
    #[arg(long)]
    table_size: Option<u64>,

    /// Time to spend, start of servers and load included, such as 90s or 15m [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    budget: Option<Duration>,

    /// How blocks are shared out [default: halving]
    #[arg(long, value_enum)]
    strategy: Option<Strategy>,

    /// Most blocks of a configuration in a stage; a sweep gives as many to each [default: 16]
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,

    /// Measured part of a block, such as 5s [default: 1s to 10s, by the budget]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    block: Option<Duration>,

    /// Unmeasured part of a block after a switch [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    warm_up: Option<Duration>,

    /// The same after a restart of the server [default: 3s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    warm_up_restarted: Option<Duration>,

    /// What differs by less than this is the same, such as 1% [default: 1%]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    margin: Option<f64>,

    /// Seed of the order of blocks and of the load
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Where the run directory is made
    #[arg(long, value_name = "DIR", default_value = "waggle-runs")]
    runs: PathBuf,
}

/// How blocks are shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Strategy {
    /// Every configuration gets as many
    Sweep,
    /// What was shown to be worse gets no more, near-ties go on
    Halving,
}

impl Common {
    pub(super) fn plan(
        self,
        file: &SpaceFile,
        flavour: Flavour,
        own: Vec<Stage>,
    ) -> Result<Plan, Failure> {
        let words = |error: String| Failure::unusable(anyhow!(error));
        let mut stages = file.stages(flavour).map_err(words)?;
        stages.extend(own);
        if stages.is_empty() {
            return unusable(
                "nothing to tune: name variables with --set NAME=V1,V2, or a file with --space, \
                 or take a study (waggle tune study redo-durability)",
            );
        }
        for stage in &stages {
            let space = stage.space.configurations();
            space.map_err(|error| {
                Failure::unusable(anyhow!(error).context(format!("stage {}", stage.name)))
            })?;
        }
        let time = |text: &Option<String>| -> Result<Option<Duration>, Failure> {
            text.as_deref().map(duration).transpose().map_err(words)
        };
        let budget = self.budget.or(time(&file.budget)?);
        let budget = budget.unwrap_or(Duration::from_secs(600));
        if !(15.0..=30.0 * 86_400.0).contains(&budget.as_secs_f64()) {
            return unusable(format!(
                "--budget {} s: use 15s to 30d",
                budget.as_secs_f64()
            ));
        }
        let block = self.block.or(time(&file.block)?);
        if block.is_some_and(|block| !(0.1..=3600.0).contains(&block.as_secs_f64())) {
            return unusable("--block: use 100ms to 1h");
        }
        let rounds = self.rounds.or(file.rounds).unwrap_or(16);
        if !(2..=1000).contains(&rounds) {
            return unusable(format!("--rounds {rounds}: use 2 to 1000"));
        }
        let (margin, kind) = (self.margin(file)?, self.kind(file)?);
        let objective = self.objective(file)?;
        let guards = self.guards(file, objective)?;
        let name = file.name.clone().unwrap_or_else(|| stages[0].name.clone());
        let question = file.question.clone().unwrap_or_else(|| {
            let names = stages.iter().flat_map(|stage| &stage.space.variables);
            let names: Vec<&str> = names.map(|variable| variable.name.as_str()).collect();
            format!(
                "Which value of {} is best for {objective}?",
                names.join(", ")
            )
        });
        let restart = stages.iter().flat_map(|stage| stage.restart.clone());
        let restart = restart.collect();
        let setup = self.setup(file, flavour, objective, restart)?;
        Ok(Plan {
            name,
            question,
            setup,
            guards,
            stages,
            kind,
            margin,
            rounds,
            block,
            budget,
            runs: self.runs,
        })
    }

    fn margin(&self, file: &SpaceFile) -> Result<f64, Failure> {
        match (self.margin, &file.margin) {
            (Some(margin), _) => Ok(margin),
            (None, Some(text)) => share(text).map_err(|error| Failure::unusable(anyhow!(error))),
            (None, None) => Ok(0.01),
        }
    }

    fn kind(&self, file: &SpaceFile) -> Result<Kind, Failure> {
        match (self.strategy, file.strategy.as_deref()) {
            (Some(Strategy::Sweep), _) | (None, Some("sweep")) => Ok(Kind::Sweep),
            (Some(Strategy::Halving), _) | (None, Some("halving") | None) => Ok(Kind::Halving),
            (None, Some(other)) => {
                unusable(format!("strategy = \"{other}\": use sweep or halving"))
            }
        }
    }

    fn objective(&self, file: &SpaceFile) -> Result<Objective, Failure> {
        match (self.objective, &file.objective) {
            (Some(objective), _) => Ok(objective),
            (None, Some(text)) => text
                .parse()
                .map_err(|error: String| Failure::unusable(anyhow!(error))),
            (None, None) => Ok(Objective::Tps),
        }
    }

    fn guards(&self, file: &SpaceFile, objective: Objective) -> Result<Vec<Guard>, Failure> {
        let texts = match (self.guards.as_slice(), &file.guards) {
            ([], Some(texts)) => texts.clone(),
            ([], None) if matches!(objective, Objective::P99AtRate(_)) => {
                vec!["errors".to_owned()]
            }
            ([], None) => vec!["p99".to_owned(), "errors".to_owned()],
            ([only], _) if only == "none" => Vec::new(),
            (texts, _) => texts.to_vec(),
        };
        let mut guards: Vec<Guard> = Vec::new();
        for text in texts {
            let guard = plan::guard(&text).map_err(|error| Failure::unusable(anyhow!(error)))?;
            if guards.iter().any(|known| known.name == guard.name) {
                return unusable(format!("guard {} is there twice", guard.name));
            }
            if guard.name == "replica-lag" && objective != Objective::ReplicaApplyRate {
                return unusable(
                    "guard replica-lag needs a replica: use --objective replica-apply-rate, or \
                     the study replica-workers",
                );
            }
            guards.push(guard);
        }
        Ok(guards)
    }

    fn setup(
        &self,
        file: &SpaceFile,
        flavour: Flavour,
        objective: Objective,
        restart: Vec<String>,
    ) -> Result<Setup, Failure> {
        let words = |error: String| Failure::unusable(anyhow!(error));
        let time = |own: Option<Duration>, text: &Option<String>, default: f64| {
            let given = match (own, text) {
                (Some(own), _) => own,
                (None, Some(text)) => duration(text).map_err(words)?,
                (None, None) => Duration::from_secs_f64(default),
            };
            match given.as_secs_f64() <= 3600.0 {
                true => Ok(given),
                false => unusable("--warm-up: use at most 1h"),
            }
        };
        let threads = self.threads.or(file.threads).unwrap_or(8);
        if !(1..=10_000).contains(&threads) {
            return unusable(format!("--threads {threads}: use 1 to 10000"));
        }
        let workload = self.workload.as_deref().or(file.workload.as_deref());
        let script = Script::open(workload.unwrap_or("oltp_read_write"));
        let script = script.map_err(Failure::unusable)?;
        let mut options = BTreeMap::new();
        for (name, value) in &file.options {
            options.insert(name.clone(), plain(value).map_err(words)?);
        }
        options.extend(self.options.iter().cloned());
        let tables = self.tables.or(file.tables).unwrap_or(4);
        let table_size = self.table_size.or(file.table_size).unwrap_or(20_000);
        sizes(&script, &mut options, u64::from(tables), table_size)?;
        let mut settings = file.settings(flavour).map_err(words)?;
        settings.extend(self.fixed.iter().cloned());
        let rate = match objective {
            Objective::P99AtRate(rate) => Some(rate),
            _ => None,
        };
        Ok(Setup {
            flavour,
            script,
            options,
            threads,
            rate,
            objective,
            settings,
            restart,
            warm_up: time(self.warm_up, &file.warm_up, 1.0)?,
            warm_up_restarted: time(self.warm_up_restarted, &file.warm_up_restarted, 3.0)?,
            seed: self.seed,
        })
    }
}

/// Adds the data's size to the options of a workload that has these; checks the options.
fn sizes(
    script: &Script,
    options: &mut BTreeMap<String, String>,
    tables: u64,
    table_size: u64,
) -> Result<(), Failure> {
    if tables == 0 || table_size == 0 {
        return unusable("--tables and --table-size must be at least 1");
    }
    let nowhere = Endpoint::Tcp {
        host: "127.0.0.1".to_owned(),
        port: 1,
    };
    let mut spec = LoadSpec::new(Dsn::new(nowhere, "nobody"), script.clone());
    spec.options = options.clone();
    let declared = waggle_load::check(&spec).map_err(Failure::unusable)?;
    for (name, value) in [("tables", tables), ("table_size", table_size)] {
        let given = options.keys().any(|known| known.replace('-', "_") == name);
        if !given && declared.iter().any(|option| option.name == name) {
            options.insert(name.to_owned(), value.to_string());
        }
    }
    Ok(())
}
