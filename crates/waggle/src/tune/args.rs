//! The flags of `waggle tune`, and the plan they are checked into.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use clap::builder::PossibleValuesParser;
use clap::{Subcommand, ValueEnum};
use waggle_load::{LoadSpec, Script};
use waggle_server::Flavour;
use waggle_stats::tune::{Constraint, Guard, Kind, Scale, Space, Values, Variable, amount};
use waggle_wire::{Dsn, Endpoint};

use super::plan::{self, Plan, Stage};
use super::space_file::{SpaceFile, plain};
use super::studies;
use super::subject::{Objective, Setup};
use crate::cli::Failure;
use crate::lab::args::{duration, share};

/// Find the best values of server variables by experiment, with intervals
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  waggle tune --sandbox mysql --set innodb_flush_log_at_trx_commit=0,1,2
  waggle tune --sandbox mariadb --set innodb_io_capacity=100..10000:log:5 --budget 15m
  waggle tune --space space.toml --objective p99@500 --guard errors
  waggle tune study redo-durability

Every configuration is measured in short blocks, interleaved in random order with the present one.
Variables that can be set while the server runs are; others by restarting a throw-away server on
the same data. A change is recommended only if its interval excludes no difference and no guard
got worse."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    subject: Option<Subject>,

    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, Subcommand)]
enum Subject {
    Study(StudyArgs),
}

/// Repeat a shipped study: buffer-pool, log-writer-threads, redo-durability or replica-workers
#[derive(Debug, clap::Args)]
struct StudyArgs {
    /// Which
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(studies::names()))]
    name: String,

    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
struct RunArgs {
    /// What to tune, as a TOML file: see docs/commands/tune.md
    #[arg(long, value_name = "FILE")]
    space: Option<PathBuf>,

    /// Try these values of a variable; repeat for several, which are tried in every combination.
    /// NAME=FROM..TO:lin:STEPS or NAME=FROM..TO:log:STEPS is a range
    #[arg(long = "set", value_name = "NAME=V1,V2", value_parser = variable)]
    set: Vec<Variable>,

    /// Try only what fulfils this comparison, such as 'a <= b' or 'a * 2 < b'; repeat for several
    #[arg(long = "constraint", value_name = "COMPARISON", value_parser = constraint)]
    constraints: Vec<Constraint>,

    /// Change this variable by a restart even if it can be set while the server runs
    #[arg(long = "restart", value_name = "NAME")]
    restart: Vec<String>,

    #[command(flatten)]
    common: Common,
}

/// What a study takes too.
#[derive(Debug, clap::Args)]
struct Common {
    /// Which server to start [default: mysql, or mariadb if there is no MySQL]
    #[arg(long, value_name = "mysql|mariadb")]
    sandbox: Option<Flavour>,

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

/// `NAME=VALUE`.
fn named(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.to_owned()))
        }
        _ => Err(format!("'{text}': use NAME=VALUE")),
    }
}

/// `NAME=V1,V2` or `NAME=FROM..TO:SCALE:STEPS`.
fn variable(text: &str) -> Result<Variable, String> {
    let (name, rest) = named(text)?;
    let list = |values: &str| {
        let values = values.split(',').map(|value| value.trim().to_owned());
        Values::List(values.collect())
    };
    let values = match rest.split_once("..") {
        None => list(&rest),
        Some((from, rest)) => range(from, rest)
            .ok_or_else(|| format!("'{text}': write a range as {name}=1..64:log:7"))?,
    };
    let variable = Variable { name, values };
    variable.list().map_err(|error| error.to_string())?;
    Ok(variable)
}

fn range(from: &str, rest: &str) -> Option<Values> {
    let mut parts = rest.split(':');
    let (to, scale, steps) = (parts.next()?, parts.next()?, parts.next()?);
    let scale = match scale.trim() {
        "lin" => Scale::Lin,
        "log" => Scale::Log,
        _ => return None,
    };
    let steps = steps.trim().parse().ok()?;
    parts.next().is_none().then_some(())?;
    Some(Values::Range {
        from: amount(from)?,
        to: amount(to)?,
        steps,
        scale,
    })
}

fn constraint(text: &str) -> Result<Constraint, String> {
    Constraint::parse(text).map_err(|error| error.to_string())
}

fn unusable<T>(message: impl std::fmt::Display) -> Result<T, Failure> {
    Err(Failure::unusable(anyhow!("{message}")))
}

impl Args {
    /// Checks everything that can be checked without a server.
    pub(super) fn plan(self) -> Result<Plan, Failure> {
        match self.subject {
            Some(Subject::Study(args)) => {
                let file = studies::study(&args.name)
                    .map_err(|error| Failure::unusable(anyhow!(error)))?;
                let flavour = study_flavour(&args.common, &file, &args.name)?;
                args.common.plan(&file, flavour, Vec::new())
            }
            None => self.run.plan(),
        }
    }
}

/// The server asked for, or the first that is there and that the study has something for.
fn study_flavour(common: &Common, file: &SpaceFile, name: &str) -> Result<Flavour, Failure> {
    let flavour = crate::lab::flavour(common.sandbox)?;
    let stages = file.stages(flavour);
    if stages.is_ok_and(|stages| stages.is_empty()) {
        return unusable(format!(
            "the study {name} has nothing to tune on {flavour}; try --sandbox {}",
            match flavour {
                Flavour::MySql => "mariadb",
                Flavour::MariaDb => "mysql",
            }
        ));
    }
    Ok(flavour)
}

impl RunArgs {
    fn plan(self) -> Result<Plan, Failure> {
        let flavour = crate::lab::flavour(self.common.sandbox)?;
        let file = match &self.space {
            Some(path) => SpaceFile::read(path).map_err(Failure::Unusable)?,
            None => SpaceFile::default(),
        };
        let mut own = Vec::new();
        if !self.set.is_empty() {
            let name = match self.set.as_slice() {
                [only] => only.name.clone(),
                _ => "values".to_owned(),
            };
            own.push(Stage {
                name,
                space: Space {
                    variables: self.set,
                    constraints: self.constraints,
                },
                restart: self.restart,
            });
        } else if !self.constraints.is_empty() || !self.restart.is_empty() {
            return unusable(
                "--constraint and --restart are about variables of --set; a space file has its own",
            );
        }
        self.common.plan(&file, flavour, own)
    }
}

impl Common {
    fn plan(self, file: &SpaceFile, flavour: Flavour, own: Vec<Stage>) -> Result<Plan, Failure> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_flag_are_a_list_or_a_range() {
        let list = |text: &str| variable(text).and_then(|v| v.list().map_err(|e| e.to_string()));
        assert_eq!(list("a=1, 2,2,4").unwrap(), ["1", "2", "4"]);
        assert_eq!(list("a=1..64:log:4").unwrap(), ["1", "4", "16", "64"]);
        assert_eq!(list("a=1K..3K:lin:3").unwrap(), ["1024", "2048", "3072"]);
        for text in [
            "a",
            "=1",
            "a=1..2",
            "a=1..2:cubic:3",
            "a=2..1:lin:3",
            "a=1..2:lin:x",
        ] {
            assert!(list(text).is_err(), "{text}");
        }
    }
}
