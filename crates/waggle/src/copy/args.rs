//! The flags of `waggle copy`, and the plan they are checked into.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::ValueEnum;
use waggle_copy::progress::Job;
use waggle_copy::throttle::Limits;
use waggle_copy::{Plan, TableName, Until};
use waggle_wire::Dsn;

use crate::account::{self, AccountArgs};
use crate::rights::Needs;

/// Sessions at each server without `--ranges`.
const RANGES: usize = 4;
const MIB: u64 = 1 << 20;

/// Copy tables to another server while they are written to, and keep up with what changes
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  waggle copy --from mysql://me:secret@old/shop --to mysql://me:secret@new/
  waggle copy --from … --to … --tables orders,customers --until stopped
  waggle copy --from … --to … --max-rate 20 --pause-file /run/pause

A copy that was ended, by whatever, goes on when the same command runs again. SIGUSR1 pauses it,
SIGUSR2 lets it go on. WAGGLE_COPY_FROM and WAGGLE_COPY_TO keep passwords out of the process list,
as do option files and login paths."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(super) subject: Option<Subject>,

    #[command(flatten)]
    pub(super) copy: CopyArgs,
}

impl Args {
    /// A comparison starts servers; a copy connects.
    pub(crate) fn needs(&self) -> Needs {
        match self.subject {
            Some(Subject::Bench(_)) => Needs::Everything,
            Some(Subject::Verify(_)) | None => Needs::Nothing,
        }
    }
}

/// What else there is to do about a copy.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Subject {
    Verify(super::verify::VerifyArgs),
    Bench(super::bench::BenchArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct CopyArgs {
    /// The server to copy from, with the database
    #[arg(
        long,
        value_name = "DSN",
        env = "WAGGLE_COPY_FROM",
        hide_env_values = true
    )]
    from: Option<String>,

    /// The server to copy to; its database, if given, is the one that the tables go into
    #[arg(
        long,
        value_name = "DSN",
        env = "WAGGLE_COPY_TO",
        hide_env_values = true
    )]
    to: Option<String>,

    #[command(flatten)]
    account: AccountArgs,

    /// Tables, `name` or `database.name`, separated by commas [default: all of the database]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    tables: Vec<String>,

    /// How far to go
    #[arg(long, value_enum, default_value_t = UntilArg::CaughtUp)]
    until: UntilArg,

    /// What the target keeps the progress under; two copies to one target need two
    #[arg(long, value_name = "NAME", default_value = "copy")]
    job: String,

    /// Ranges copied at once; each takes a session and a snapshot at the source
    #[arg(long, value_name = "N", default_value_t = RANGES)]
    ranges: usize,

    /// Rows of a range, at most, about
    #[arg(long, value_name = "ROWS", default_value_t = 1_000_000)]
    range_rows: u64,

    /// Row data stored in one transaction of the target, about
    #[arg(long, value_name = "MIB", default_value_t = 32)]
    slice: u64,

    /// Create tables with all their keys, in place of building keys after the rows
    #[arg(long)]
    keys_first: bool,

    /// Copy each JSON by its text alone: a DECIMAL, time or binary inside becomes what that says
    #[arg(long)]
    json_as_text: bool,

    /// Compare source and target at the end
    #[arg(long)]
    verify: bool,

    /// Row data a second, at most
    #[arg(long, value_name = "MIB")]
    max_rate: Option<f64>,

    /// Pause while a counter of the source is above a value, such as Threads_running=40; repeat
    #[arg(long, value_name = "NAME=N")]
    max_load: Vec<String>,

    /// Pause while the source's history list is longer
    #[arg(long, value_name = "N")]
    max_history: Option<u64>,

    /// Pause while the target, as a replica, is further behind
    #[arg(long, value_name = "SECONDS")]
    max_lag: Option<f64>,

    /// Pause while this file exists
    #[arg(long, value_name = "FILE")]
    pause_file: Option<PathBuf>,

    /// Where the binary log is kept until it is applied [default: waggle-spool/JOB]
    #[arg(long, value_name = "DIR")]
    spool: Option<PathBuf>,

    /// How much of it is kept there, at most
    #[arg(long, value_name = "MIB", default_value_t = 4096)]
    spool_max: u64,

    /// Where the run directory is made
    #[arg(long, value_name = "DIR", default_value = "waggle-runs")]
    out: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum UntilArg {
    /// The rows of the snapshot, and all keys
    Copied,
    /// And what changed since, up to now
    CaughtUp,
    /// Changes are applied until SIGINT or SIGTERM
    Stopped,
}

/// What was asked for, checked.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) plan: Plan,
    pub(super) out: PathBuf,
}

impl CopyArgs {
    pub(super) fn plan(self) -> anyhow::Result<Checked> {
        let source = dsn(self.from, "--from", &self.account)?;
        let target = dsn(self.to, "--to", &self.account)?;
        let tables = names(&self.tables, source.database.as_deref())?;
        if source.endpoint == target.endpoint && source.database == target.database {
            bail!("--from and --to name the same database; give --to another one");
        }
        if tables.is_empty() && source.database.is_none() {
            bail!("nothing says what to copy; name a database in --from, or --tables");
        }
        if !(1..=64).contains(&self.ranges) {
            bail!("--ranges {}: 1 to 64 can be copied at once", self.ranges);
        }
        if self.slice == 0 || self.range_rows == 0 || self.spool_max == 0 {
            bail!("--slice, --range-rows and --spool-max are above 0");
        }
        let job = Job::new(&self.job).context("--job")?;
        let spool = self
            .spool
            .unwrap_or_else(|| PathBuf::from(waggle_copy::spool::DIRECTORY).join(job.name()));
        let limits = Limits {
            rate_bytes_per_s: self.max_rate.map(rate).transpose()?,
            pause_file: self.pause_file,
            load_max: self
                .max_load
                .iter()
                .map(|text| load(text))
                .collect::<anyhow::Result<_>>()?,
            history_max: self.max_history,
            lag_max: self.max_lag.map(seconds).transpose()?,
        };
        if self.verify && matches!(self.until, UntilArg::Stopped) {
            anyhow::bail!(
                "--verify with --until stopped: nothing is compared after the end was asked for; \
                 run `waggle copy verify` while this copy goes on"
            );
        }
        let plan = Plan {
            target_schema: target.database.clone(),
            source,
            target,
            job,
            tables,
            until: match self.until {
                UntilArg::Copied => Until::Copied,
                UntilArg::CaughtUp => Until::CaughtUp,
                UntilArg::Stopped => Until::Stopped,
            },
            workers: self.ranges,
            slice_bytes: self.slice * MIB,
            range_rows: self.range_rows,
            defers_keys: !self.keys_first,
            json_as_text: self.json_as_text,
            verifies: self.verify,
            limits,
            spool,
            spool_bytes_max: self.spool_max * MIB,
        };
        Ok(Checked {
            plan,
            out: self.out,
        })
    }
}

pub(super) fn dsn(text: Option<String>, flag: &str, account: &AccountArgs) -> anyhow::Result<Dsn> {
    let text = text.with_context(|| format!("{flag} is missing; name a server"))?;
    account::named(&text, Some(account)).with_context(|| flag.to_owned())
}

pub(super) fn names(texts: &[String], database: Option<&str>) -> anyhow::Result<Vec<TableName>> {
    let name = |text: &String| -> anyhow::Result<TableName> {
        let (schema, name) = match (text.split_once('.'), database) {
            (Some((schema, name)), _) => (schema, name),
            (None, Some(database)) => (database, text.as_str()),
            (None, None) => bail!("--tables {text}: of which database? Write database.{text}"),
        };
        if schema.is_empty() || name.is_empty() {
            bail!("--tables {text:?} is no table's name");
        }
        Ok(TableName {
            schema: schema.to_owned(),
            name: name.to_owned(),
        })
    };
    texts.iter().map(name).collect()
}

fn rate(mib: f64) -> anyhow::Result<u64> {
    let bytes = mib * MIB as f64;
    match (1.0..1e15).contains(&bytes) {
        true => Ok(bytes as u64),
        false => bail!("--max-rate {mib} is no rate; write MiB a second"),
    }
}

fn seconds(text: f64) -> anyhow::Result<Duration> {
    Duration::try_from_secs_f64(text).with_context(|| format!("--max-lag {text}"))
}

fn load(text: &str) -> anyhow::Result<(String, u64)> {
    let (name, most) = text
        .split_once('=')
        .with_context(|| format!("--max-load {text}: write NAME=N"))?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.is_empty() || !name.bytes().all(is_name) {
        bail!("--max-load {text}: {name:?} is no status counter");
    }
    let most = most.parse().with_context(|| format!("--max-load {text}"))?;
    Ok((name.to_owned(), most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn plan(flags: &[&str]) -> anyhow::Result<Checked> {
        let servers = [
            "copy",
            "--from",
            "mysql://me@a/shop",
            "--to",
            "mysql://me@b/",
        ];
        let line = Line::try_parse_from(servers.iter().chain(flags))?;
        line.args.copy.plan()
    }

    #[test]
    fn tables_are_of_the_sources_database_unless_they_say() {
        let plan = plan(&["--tables", "a,x.b"]).unwrap().plan;
        let names: Vec<String> = plan.tables.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["shop.a", "x.b"]);
        assert_eq!(plan.target_schema, None);
        assert_eq!(plan.spool, PathBuf::from("waggle-spool/copy"));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for flags in [
            &["--to", "mysql://me@a/shop"][..],
            &["--from", "mysql://me@a/"],
            &["--ranges", "0"],
            &["--slice", "0"],
            &["--job", "a b"],
            &["--max-rate", "0"],
            &["--max-load", "Threads_running"],
            &["--max-load", "x'=1"],
            &["--max-lag", "-1"],
            &["--tables", "."],
        ] {
            let mut all = vec!["copy"];
            if !flags.contains(&"--from") {
                all.extend(["--from", "mysql://me@a/shop"]);
            }
            if !flags.contains(&"--to") {
                all.extend(["--to", "mysql://me@b/"]);
            }
            all.extend(flags);
            let line = Line::try_parse_from(&all);
            let refused = line
                .map_err(drop)
                .and_then(|line| line.args.copy.plan().map_err(drop));
            assert!(refused.is_err(), "{flags:?}");
        }
    }

    #[test]
    fn limits_are_read() {
        let flags = [
            "--max-rate",
            "0.5",
            "--max-load",
            "Threads_running=40",
            "--max-lag",
            "2",
        ];
        let limits = plan(&flags).unwrap().plan.limits;
        assert_eq!(limits.rate_bytes_per_s, Some(1 << 19));
        assert_eq!(limits.load_max, [("Threads_running".to_owned(), 40)]);
        assert_eq!(limits.lag_max, Some(Duration::from_secs(2)));
    }
}
