//! Flags of `waggle bench`, and the checked plan they become.
//!
//! Invariant: a [`Plan`] is complete and consistent; what cannot be checked without opening
//! something (the server, the run directory) is all that can still be refused.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::ValueEnum;
use waggle_load::{IgnoreErrors, LoadSpec, Script};
use waggle_server::Flavour;
use waggle_wire::Dsn;

/// The database that workloads use when the DSN names none.
const DATABASE_DEFAULT: &str = "sbtest";

/// Where a DSN comes from when no flag names a server.
const DSN_VARIABLE: &str = "WAGGLE_DSN";

/// Load a server with a workload and measure throughput and latency
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A shipped workload (oltp_point_select, oltp_read_only, oltp_read_write) or a Lua file
    workload: String,

    /// What to do [default: run; with --sandbox: all]
    #[arg(value_enum)]
    command: Option<Command>,

    /// The server: mysql://user:password@host:port/db or mysql://user@/db?socket=/path
    /// [env: WAGGLE_DSN]
    #[arg(long, value_name = "DSN", conflicts_with = "sandbox")]
    dsn: Option<String>,

    /// Start a throw-away server for this run: mysql or mariadb
    #[arg(long, value_name = "FLAVOUR")]
    sandbox: Option<Flavour>,

    /// Worker threads, each with its own connection
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    threads: u32,

    /// Seconds to measure
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    time: u64,

    /// Seconds to run before the measurement begins
    #[arg(long, default_value_t = 0)]
    warmup: u64,

    /// Number of tables (the workload's option `tables`)
    #[arg(long, value_name = "N")]
    tables: Option<u64>,

    /// Rows per table (the workload's option `table_size`)
    #[arg(long, value_name = "ROWS")]
    table_size: Option<u64>,

    /// Seconds between two lines of progress; 0 prints none
    #[arg(long, default_value_t = 1)]
    report_interval: u64,

    /// Seed of all random values; 0 draws one and reports it
    #[arg(long, default_value_t = 0)]
    rand_seed: u64,

    /// Server errors that restart a transaction: numbers with commas, all, or none
    #[arg(long, default_value_t, value_name = "ERRORS")]
    ignore_errors: IgnoreErrors,

    /// An option of the workload; may be repeated
    #[arg(short = 'o', long = "set-opt", value_name = "NAME=VALUE")]
    set_opt: Vec<String>,

    /// Where the run directory is made
    #[arg(long, default_value = "waggle-runs", value_name = "DIR")]
    run_dir: PathBuf,

    /// Write no run directory
    #[arg(long)]
    no_record: bool,

    /// Options of the workload after `--`, as --name=value
    #[arg(last = true, value_name = "--NAME=VALUE")]
    workload_options: Vec<String>,
}

/// What to do with a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Command {
    /// Create and fill the tables
    Prepare,
    /// Run the workload and measure
    Run,
    /// Drop the tables
    Cleanup,
    /// All three, in this order
    All,
}

/// Where the load goes.
#[derive(Debug, Clone)]
pub(super) enum Target {
    Named(Dsn),
    Sandbox(Flavour),
}

/// Everything `waggle bench` was asked to do, checked.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) target: Target,
    pub(super) prepare: bool,
    pub(super) run: bool,
    pub(super) cleanup: bool,
    pub(super) script: Script,
    pub(super) options: BTreeMap<String, String>,
    pub(super) threads: u32,
    pub(super) seed: u64,
    pub(super) ignore_errors: IgnoreErrors,
    pub(super) warmup: Duration,
    pub(super) time: Duration,
    /// `None`: no lines of progress, no samples.
    pub(super) interval: Option<Duration>,
    /// `None`: nothing is recorded.
    pub(super) run_root: Option<PathBuf>,
}

impl Plan {
    /// Checks the flags, the script and its options; connects to nothing.
    pub(super) fn from_args(args: Args) -> anyhow::Result<Plan> {
        let target = target(&args)?;
        let in_sandbox = matches!(target, Target::Sandbox(_));
        let command = match (args.command, in_sandbox) {
            (Some(command), _) => command,
            (None, true) => Command::All,
            (None, false) => Command::Run,
        };
        if in_sandbox && command != Command::All {
            bail!(
                "a throw-away server starts empty and is gone afterwards, so it takes the \
                 command all (or none), not {}",
                command
                    .to_possible_value()
                    .map_or(String::new(), |v| v.get_name().to_owned())
            );
        }
        let plan = Plan {
            prepare: matches!(command, Command::Prepare | Command::All),
            run: matches!(command, Command::Run | Command::All),
            // A throw-away server takes its tables with it.
            cleanup: command == Command::Cleanup || (command == Command::All && !in_sandbox),
            target,
            script: Script::open(&args.workload)?,
            options: workload_options(&args)?,
            threads: args.threads,
            seed: if args.rand_seed == 0 {
                drawn_seed()
            } else {
                args.rand_seed
            },
            ignore_errors: args.ignore_errors,
            warmup: Duration::from_secs(args.warmup),
            time: Duration::from_secs(args.time),
            interval: (args.report_interval > 0).then(|| Duration::from_secs(args.report_interval)),
            run_root: (!args.no_record).then_some(args.run_dir),
        };
        // The address plays no part in what a script declares.
        let nowhere = "mysql://nobody@localhost/"
            .parse()
            .context("a constant DSN")?;
        waggle_load::check(&plan.load_spec(nowhere))?;
        Ok(plan)
    }

    /// The load of this plan against one server.
    pub(super) fn load_spec(&self, dsn: Dsn) -> LoadSpec {
        LoadSpec {
            options: self.options.clone(),
            threads: self.threads,
            seed: self.seed,
            ignore_errors: self.ignore_errors.clone(),
            ..LoadSpec::new(dsn, self.script.clone())
        }
    }
}

fn target(args: &Args) -> anyhow::Result<Target> {
    if let Some(flavour) = args.sandbox {
        return Ok(Target::Sandbox(flavour));
    }
    let (text, source) = match (&args.dsn, std::env::var(DSN_VARIABLE)) {
        (Some(text), _) => (text.clone(), "--dsn"),
        (None, Ok(text)) => (text, DSN_VARIABLE),
        (None, Err(_)) => bail!(
            "no server to load: name one with --dsn mysql://user:password@host:port/db (or \
             {DSN_VARIABLE}), or take a throw-away one with --sandbox mariadb"
        ),
    };
    let mut dsn: Dsn = text
        .parse()
        .with_context(|| format!("{source} names no server"))?;
    dsn.database
        .get_or_insert_with(|| DATABASE_DEFAULT.to_owned());
    Ok(Target::Named(dsn))
}

fn workload_options(args: &Args) -> anyhow::Result<BTreeMap<String, String>> {
    let mut options = BTreeMap::new();
    let counts = [("tables", args.tables), ("table_size", args.table_size)];
    for (name, count) in counts {
        if let Some(count) = count {
            options.insert(name.to_owned(), count.to_string());
        }
    }
    for text in args.set_opt.iter().chain(&args.workload_options) {
        // As sysbench has it, a name alone switches an option on.
        let (name, value) = match text.split_once('=') {
            Some(pair) => pair,
            None if text.starts_with("--") => (text.as_str(), "on"),
            None => return Err(anyhow!("'{text}' is no NAME=VALUE")),
        };
        let name = name.trim_start_matches('-').replace('-', "_");
        if name.is_empty() {
            bail!("'{text}' has no name before the =");
        }
        options.insert(name, value.to_owned());
    }
    Ok(options)
}

/// Different for every run; printed and recorded, so that the run can be repeated.
fn drawn_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    // A hasher of the standard library is keyed by the operating system's randomness. Kept below
    // 2^32 so that it is short to type and exact in every JSON reader.
    u64::from(RandomState::new().hash_one(0) as u32).max(1)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn plan(line: &str) -> anyhow::Result<Plan> {
        let words = std::iter::once("bench").chain(line.split_whitespace());
        Plan::from_args(Cli::try_parse_from(words)?.args)
    }

    fn refusal(line: &str) -> String {
        format!("{:#}", plan(line).unwrap_err())
    }

    const DSN: &str = "--dsn mysql://root@127.0.0.1:3306/";

    #[test]
    fn defaults_run_against_the_database_of_sysbench() {
        let plan = plan(&format!("oltp_read_only {DSN}")).unwrap();
        assert_eq!((plan.prepare, plan.run, plan.cleanup), (false, true, false));
        let Target::Named(dsn) = &plan.target else {
            panic!("{:?}", plan.target)
        };
        assert_eq!(dsn.database.as_deref(), Some("sbtest"));
        assert!(plan.seed > 0);
    }

    #[test]
    fn a_sandbox_is_prepared_and_run() {
        let plan = plan("oltp_read_only --sandbox mariadb --tables 2 --rand-seed 7").unwrap();
        assert_eq!((plan.prepare, plan.run, plan.cleanup), (true, true, false));
        assert_eq!(plan.seed, 7);
        assert_eq!(plan.options["tables"], "2");
        let refused = refusal("oltp_read_only run --sandbox mariadb");
        assert!(
            refused.contains("takes the command all (or none), not run"),
            "{refused}"
        );
    }

    #[test]
    fn workload_options_come_in_three_ways_and_the_last_wins() {
        let line = format!(
            "oltp_read_only {DSN} --table-size 5 -o range-size=7 -o skip_trx=on \
             -- --table-size=9 --secondary"
        );
        let options = plan(&line).unwrap().options;
        let wanted = [
            ("range_size", "7"),
            ("secondary", "on"),
            ("skip_trx", "on"),
            ("table_size", "9"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(options, wanted.into());
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_the_reason() {
        let sandbox = "--sandbox mariadb";
        let cases = [
            ("oltp_all --sandbox mariadb", "no workload 'oltp_all'"),
            (
                &format!("oltp_read_only {sandbox} -o tabels=2"),
                "has no option 'tabels'",
            ),
            (
                &format!("oltp_read_only {sandbox} -o tables=two"),
                "wants a number, not 'two'",
            ),
            (
                &format!("oltp_read_only {sandbox} -o tables"),
                "'tables' is no NAME=VALUE",
            ),
            (
                &format!("oltp_read_only {sandbox} --threads 0"),
                "0 is not in 1..=10000",
            ),
            ("oltp_read_only --dsn postgres://x", "--dsn names no server"),
            (
                "oltp_read_only --sandbox oracle",
                "it is `mysql` or `mariadb`",
            ),
            (
                &format!("oltp_read_only {DSN} {sandbox}"),
                "cannot be used with",
            ),
        ];
        for (line, wanted) in cases {
            let refused = refusal(line);
            assert!(refused.contains(wanted), "{line}: {refused}");
        }
    }
}
