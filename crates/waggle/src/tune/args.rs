//! The flags of `waggle tune`, and the plan they are checked into.

mod common;

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Subcommand;
use clap::builder::PossibleValuesParser;
use waggle_server::Flavour;
use waggle_stats::tune::{Constraint, Scale, Space, Values, Variable, amount};

use super::plan::{Plan, Stage};
use super::space_file::SpaceFile;
use super::studies;
use crate::cli::{Failure, LoadUser};
use common::Common;

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

    #[command(flatten)]
    pub(crate) load_user: LoadUser,
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
