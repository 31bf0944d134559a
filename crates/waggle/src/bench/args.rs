//! Flags of `waggle bench`, as typed; [`super::plan`] makes a checked plan of them.

use std::path::PathBuf;

use clap::ValueEnum;
use waggle_load::{Dialect, IgnoreErrors, Overflow, WaitBy};
use waggle_server::Flavour;
use waggle_stats::arrivals::{Spacing, Stage};
use waggle_stats::latency::LATENCY_NS_MAX;

use super::offered::{self, Limit};
use crate::account::AccountArgs;
use crate::cli::LoadUser;
use crate::rights::Needs;

/// After the flags in `--help`.
const EXAMPLES: &str = "\
Examples:
  waggle bench oltp_read_write --sandbox mysql --threads 8 --warmup 5 --time 60
  waggle bench oltp_read_only prepare --dsn mysql://root@/sbtest?socket=/run/mysqld/mysqld.sock
  waggle bench oltp_read_write --dsn ... --threads 64 --rate 2000 --time 120 --csv run.csv
  waggle bench oltp_read_write --dsn ... --threads 64 --rate-search 'p99<5ms' --time 20

Exit codes: 0 done, and every check of the workload held; 1 it ran and something failed, with a
report of what was measured; 2 refused, nothing touched.";

/// Load a server with a workload and measure throughput and latency
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A shipped workload (such as oltp_read_write; a wrong name lists them all) or a Lua file
    pub(super) workload: String,

    /// prepare, warmup, run, cleanup, all (prepare, run, cleanup), or a command that the workload
    /// defines [default: run; with --sandbox: all]
    pub(super) command: Option<String>,

    /// The server: mysql://user:password@host:port/db or mysql://user@/db?socket=/path
    /// [env: WAGGLE_DSN]
    #[arg(long, value_name = "DSN", conflicts_with = "sandbox")]
    pub(super) dsn: Option<String>,

    #[command(flatten)]
    pub(super) account: AccountArgs,

    /// Start a throw-away server for this run: mysql or mariadb
    #[arg(long, value_name = "FLAVOUR")]
    pub(super) sandbox: Option<Flavour>,

    /// Worker threads, each with its own connection
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) threads: u32,

    /// Seconds to measure [default: 10; with --rate-steps their sum; with --events no limit]
    #[arg(long, value_name = "SECONDS", value_parser = offered::seconds)]
    pub(super) time: Option<f64>,

    /// Seconds to run before the measurement begins
    #[arg(long, default_value_t = 0.0, value_name = "SECONDS", value_parser = offered::seconds)]
    pub(super) warmup: f64,

    /// Events to run in all, over all threads
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) events: Option<u64>,

    /// Number of tables (the workload's option `tables`)
    #[arg(long, value_name = "N")]
    pub(super) tables: Option<u64>,

    /// Rows per table (the workload's option `table_size`)
    #[arg(long, value_name = "ROWS")]
    pub(super) table_size: Option<u64>,

    /// Open loop: events a second, due whether or not the last ones have ended
    #[arg(long, value_name = "RATE", value_parser = offered::rate, help_heading = "Open loop")]
    pub(super) rate: Option<f64>,

    /// Open loop whose rate changes: '100:30s,200:30s', or evenly: '0..500:60s'
    #[arg(long, value_name = "STEPS", value_parser = offered::steps, conflicts_with = "rate",
          help_heading = "Open loop")]
    pub(super) rate_steps: Option<Steps>,

    /// Find the highest rate at which this holds, such as 'p99<5ms' (p50 to p99.99, or max; us, ms
    /// or s); each step lasts for --time, and --rate is where it begins
    #[arg(long, value_name = "LIMIT", value_parser = offered::limit, help_heading = "Open loop",
          conflicts_with_all = ["rate_steps", "events", "csv", "hdr_log"])]
    pub(super) rate_search: Option<Limit>,

    /// Gaps between events: exponential (independent users) or equal
    #[arg(long, value_enum, help_heading = "Open loop")]
    pub(super) arrivals: Option<Gaps>,

    /// Events that are due while every thread is busy: queue them all; drop:N drops the oldest
    /// above N waiting; abort:N ends the run then [default: queue]
    #[arg(long, value_name = "POLICY", value_parser = offered::overflow,
          help_heading = "Open loop")]
    pub(super) overflow: Option<Overflow>,

    /// What still waits at the end: counted as such, or run down first [default: count]
    #[arg(long, value_enum, help_heading = "Open loop")]
    pub(super) at_end: Option<AtEnd>,

    /// Seconds between two reports and samples, 0.1 or more; 0 gives none
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS", value_parser = offered::seconds)]
    pub(super) report_interval: f64,

    /// Percentiles to report, with commas
    #[arg(long, default_value = "50,95,99,99.9", value_name = "LIST",
          value_delimiter = ',', value_parser = offered::percentile)]
    pub(super) percentiles: Vec<f64>,

    /// Measure the latency of each statement, too
    #[arg(long)]
    pub(super) statements: bool,

    /// Write a CSV file, a row an interval
    #[arg(long, value_name = "FILE")]
    pub(super) csv: Option<PathBuf>,

    /// Write an HdrHistogram interval log with the tags response, service and wait
    #[arg(long, value_name = "FILE")]
    pub(super) hdr_log: Option<PathBuf>,

    /// Seed of all random values; 0 draws one and reports it
    #[arg(long, default_value_t = 0)]
    pub(super) rand_seed: u64,

    /// Server errors that restart a transaction: numbers with commas, all, or none; with 2013 a
    /// lost connection is opened again
    #[arg(long, default_value_t, value_name = "ERRORS")]
    pub(super) ignore_errors: IgnoreErrors,

    /// Seconds to try to get a lost connection back
    #[arg(long, default_value_t = 30.0, value_name = "SECONDS", value_parser = offered::seconds)]
    pub(super) reconnect_limit: f64,

    /// Which sysbench the script was written for [default: 1.1]
    #[arg(long, value_enum)]
    pub(super) dialect: Option<SysbenchDialect>,

    /// How connections wait for the server [default: auto]
    #[arg(long, value_enum)]
    pub(super) io: Option<Waiting>,

    /// An option of the workload; may be repeated
    #[arg(short = 'o', long = "set-opt", value_name = "NAME=VALUE")]
    pub(super) set_opt: Vec<String>,

    /// Record where server and client spend the measured time, and for which statement: flame
    /// graphs in the run directory and on its page (`waggle report RUN --format html`). Needs root
    #[arg(long, conflicts_with_all = ["no_record", "rate_search"])]
    pub(super) profile: bool,

    #[command(flatten)]
    pub(crate) load_user: LoadUser,

    /// Where the run directory is made
    #[arg(long, default_value = "waggle-runs", value_name = "DIR")]
    pub(super) run_dir: PathBuf,

    /// Write no run directory
    #[arg(long)]
    pub(super) no_record: bool,

    /// Options of the workload after `--`, as --name=value
    #[arg(last = true, value_name = "--NAME=VALUE")]
    pub(super) workload_options: Vec<String>,
}

impl Args {
    /// A throw-away server is started with what this process may do, and a profile attaches;
    /// the load itself needs nothing.
    pub(crate) fn needs(&self) -> Needs {
        match (self.sandbox, self.profile) {
            (Some(_), _) => Needs::Everything,
            (None, true) => Needs::Attach,
            (None, false) => Needs::Nothing,
        }
    }
}

/// The stages of `--rate-steps`; a type of its own, so that the flag is given once.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Steps(pub(super) Vec<Stage>);

/// `--arrivals`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Gaps {
    Poisson,
    Uniform,
}

impl From<Gaps> for Spacing {
    fn from(gaps: Gaps) -> Spacing {
        match gaps {
            Gaps::Poisson => Spacing::Poisson,
            Gaps::Uniform => Spacing::Uniform,
        }
    }
}

/// `--at-end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(super) enum AtEnd {
    /// Stop at the end; what waits is counted and in no histogram
    #[default]
    Count,
    /// Offer nothing more and go on until nothing waits
    Drain,
}

/// `--io`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Waiting {
    /// Ring where it can be had and pays (more connections than processors, up to 1024 a
    /// processor), else threads
    Auto,
    /// A thread for each connection
    Threads,
    /// A thread for each processor, which it stays on; its connections wait together in an io_uring
    Ring,
    /// The same, but the scheduler moves the threads: for a server that is kept to fewer processors
    /// than the client
    FloatingRing,
}

impl From<Waiting> for WaitBy {
    fn from(waiting: Waiting) -> WaitBy {
        match waiting {
            Waiting::Auto => WaitBy::Auto,
            Waiting::Threads => WaitBy::Threads,
            Waiting::Ring | Waiting::FloatingRing => WaitBy::Ring,
        }
    }
}

/// `--dialect`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum SysbenchDialect {
    #[value(name = "1.0")]
    V1_0,
    #[value(name = "1.1")]
    V1_1,
}

impl From<SysbenchDialect> for Dialect {
    fn from(dialect: SysbenchDialect) -> Dialect {
        match dialect {
            SysbenchDialect::V1_0 => Dialect::V1_0,
            SysbenchDialect::V1_1 => Dialect::V1_1,
        }
    }
}

/// Latencies above this are not told apart, so no limit can lie there.
pub(super) const LIMIT_US_MAX: f64 = LATENCY_NS_MAX as f64 / 1e3;
