//! The flags of `waggle watch`, and the plan they are checked into.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use waggle_agent::aggregate::SampleSettings;
use waggle_agent::budget::Limits;
use waggle_probes::statement::{Options, TEXT_BYTES_MAX};
use waggle_server::Flavour;
use waggle_wire::Dsn;

use super::exports::{ExportArgs, Exports};
use crate::account::{self, AccountArgs};
use crate::cli::Failure;
use crate::rights::Needs;

/// Room for a further server, bytes: 7,000 point selects, or 20 ms at 350,000 a second.
const RING_BYTES_FURTHER: u32 = 2 << 20;

/// Watch every statement of running servers, from the kernel.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  waggle watch --all                          every MySQL and MariaDB server of this host
  waggle watch --pid $(pidof mysqld) --duration 60 --json
  waggle watch --sandbox mariadb              a throw-away server, watched until Ctrl-C

No restart, no setting: one probe at the end of each statement. Needs root.")]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs,

    /// Stop after this many seconds [default: until Ctrl-C]
    #[arg(long, value_name = "SECONDS")]
    duration: Option<f64>,

    /// Seconds between two reports
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    interval: f64,

    /// Digests shown in a report
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,

    /// Keep a run directory below DIR: one sample an interval, all digests at the end
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,

    /// Write every statement to FILE, a line of JSON each; statements that may carry a password are
    /// written without literals
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,

    /// Keep statements that took at least this long as samples [default: 1000]; with --log, write
    /// only these, and failed ones
    #[arg(long, value_name = "MILLISECONDS")]
    slower: Option<f64>,

    /// Keep one statement in N as a sample, drawn at random; 0 for none
    #[arg(long, value_name = "N", default_value_t = 1000)]
    sample: u32,

    /// Give samples the statements' own text; one that may carry a password is never shown
    #[arg(long)]
    literals: bool,

    /// CPU time waggle and its probes in the servers may use, percent of one core; over it, it
    /// leaves out texts, then samples, wait classes, and everything but the count, and says so
    #[arg(long, value_name = "PERCENT")]
    max_cpu: Option<f64>,

    /// Memory waggle may use, MiB; over it, the same is left out
    #[arg(long, value_name = "MIB")]
    max_memory: Option<u32>,

    /// Where statements are seen
    #[arg(long, value_enum, default_value_t = SourceArg::Uprobe)]
    source: SourceArg,

    /// With --source slowlog: the file to follow [default: the one that the server at --dsn names]
    #[arg(long, value_name = "FILE")]
    slow_log: Option<PathBuf>,

    /// Ask this server for counters and lock tables, and with --source perfschema for statements
    #[arg(long, value_name = "DSN")]
    dsn: Option<String>,

    #[command(flatten)]
    account: AccountArgs,

    /// Bytes copied of each statement's text; longer ones are cut and counted
    #[arg(long, value_name = "BYTES", default_value_t = Options::default().text_bytes_max)]
    text_bytes: u32,

    /// Room between kernel and agent, KiB a server; a full ring loses statements, and counts them
    /// [default: 8192, and 2048 for each further server]
    #[arg(long, value_name = "KIB")]
    ring_kib: Option<u32>,

    #[command(flatten)]
    exports: ExportArgs,

    /// Obey `attach`, `empty`, `burn NS`, `detach`, `quit` lines on standard input, one JSON line
    /// each
    #[arg(long, hide = true)]
    control: bool,
}

impl Args {
    /// A throw-away server is started, and ended, with what this process may do.
    pub(crate) fn needs(&self) -> Needs {
        match (self.target.sandbox, self.source) {
            (Some(_), _) => Needs::Everything,
            (None, SourceArg::Packets) => Needs::AttachPackets,
            (None, _) => Needs::Attach,
        }
    }
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct TargetArgs {
    /// Watch the server with this process id; repeat for several
    #[arg(long = "pid", value_name = "PID")]
    pids: Vec<u32>,

    /// Watch every MySQL and MariaDB server of this host, also those that start later
    #[arg(long)]
    all: bool,

    /// Start a throw-away server and watch it
    #[arg(long, value_name = "mysql|mariadb")]
    sandbox: Option<Flavour>,

    /// Watch no statement: only what the host uses
    #[arg(long)]
    host_only: bool,
}

/// Where statements are seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum SourceArg {
    /// One probe at the end of every statement
    Uprobe,
    /// The network's packets, decoded
    Packets,
    /// The server's PERFORMANCE_SCHEMA, polled
    Perfschema,
    /// The server's slow log, followed
    Slowlog,
}

/// Which servers are watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    Pids(Vec<u32>),
    All,
    Sandbox(Flavour),
    HostOnly,
}

/// What `watch` was asked to do, checked.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) target: Target,
    pub(super) duration: Option<Duration>,
    pub(super) interval: Duration,
    pub(super) top: usize,
    pub(super) record: Option<PathBuf>,
    pub(super) log: Option<PathBuf>,
    pub(super) slower: Option<Duration>,
    pub(super) samples: SampleSettings,
    pub(super) limits: Limits,
    pub(super) source: SourceArg,
    pub(super) dsn: Option<Dsn>,
    pub(super) slow_log: Option<PathBuf>,
    pub(super) probe: Options,
    pub(super) ring_bytes_further: u32,
    pub(super) exports: Exports,
    pub(super) control: bool,
}

impl TargetArgs {
    fn plan(&self) -> Target {
        let mut pids = self.pids.clone();
        pids.sort_unstable();
        pids.dedup();
        match (self.all, self.sandbox) {
            _ if !pids.is_empty() => Target::Pids(pids),
            (_, Some(flavour)) => Target::Sandbox(flavour),
            (true, _) => Target::All,
            _ => Target::HostOnly,
        }
    }
}

impl Args {
    pub(super) fn plan(self) -> Result<Plan, Failure> {
        let seconds = |name: &str, value: f64| {
            let usable = value.is_finite() && (0.01..=1e7).contains(&value);
            if usable {
                return Ok(Duration::from_secs_f64(value));
            }
            Err(Failure::unusable(anyhow::anyhow!(
                "--{name} {value}: use a number of seconds between 0.01 and 10000000"
            )))
        };
        let slower = |milliseconds: f64| {
            if milliseconds.is_finite() && (0.0..=1e9).contains(&milliseconds) {
                return Ok(Duration::from_secs_f64(milliseconds / 1e3));
            }
            Err(Failure::unusable(anyhow::anyhow!(
                "--slower {milliseconds}: use a number of milliseconds from 0 to 1000000000"
            )))
        };
        let dsn = self.dsn()?;
        let target = self.target.plan();
        if !(64..=TEXT_BYTES_MAX).contains(&self.text_bytes) {
            return Err(Failure::unusable(anyhow::anyhow!(
                "--text-bytes {}: use 64 to {TEXT_BYTES_MAX}",
                self.text_bytes
            )));
        }
        if let Some(kib) = self.ring_kib
            && !(64..=1 << 20).contains(&kib)
        {
            return Err(Failure::unusable(anyhow::anyhow!(
                "--ring-kib {kib}: use 64 to 1048576"
            )));
        }
        let ring_bytes = self.ring_kib.map(|kib| kib << 10);
        let limits = self.limits()?;
        let slower = self.slower.map(slower).transpose()?;
        let samples = SampleSettings {
            slower: slower.or(SampleSettings::default().slower),
            one_in: self.sample,
            literals: self.literals,
        };
        Ok(Plan {
            target,
            samples,
            limits,
            source: self.source,
            slow_log: self.slow_log,
            dsn,
            duration: self.duration.map(|d| seconds("duration", d)).transpose()?,
            interval: seconds("interval", self.interval)?,
            top: self.top.max(1),
            record: self.record,
            log: self.log,
            slower,
            probe: Options {
                text_bytes_max: self.text_bytes,
                ring_bytes: ring_bytes.unwrap_or(Options::default().ring_bytes),
            },
            ring_bytes_further: ring_bytes.unwrap_or(RING_BYTES_FURTHER),
            exports: self.exports.plan()?,
            control: self.control,
        })
    }

    fn limits(&self) -> Result<Limits, Failure> {
        if let Some(percent) = self.max_cpu
            && !(0.1..=100_000.0).contains(&percent)
        {
            return Err(Failure::unusable(anyhow::anyhow!(
                "--max-cpu {percent}: use a percentage of one core from 0.1 to 100000"
            )));
        }
        if self.max_memory.is_some_and(|mib| mib < 16) {
            return Err(Failure::unusable(anyhow::anyhow!(
                "--max-memory: use at least 16 MiB"
            )));
        }
        Ok(Limits {
            cpu: self.max_cpu.map(|percent| percent / 100.0),
            memory: self.max_memory.map(|mib| u64::from(mib) << 20),
        })
    }

    /// The one server that may be asked, if the flags name one.
    fn dsn(&self) -> Result<Option<Dsn>, Failure> {
        let wanted = match self.source {
            SourceArg::Perfschema => Some("asks the server: name it with --dsn or WAGGLE_DSN"),
            SourceArg::Slowlog if self.slow_log.is_none() => {
                Some("needs the file: name it with --slow-log, or its server with --dsn")
            }
            _ => None,
        };
        if self.source != SourceArg::Uprobe && self.target.pids.len() != 1 {
            return Err(Failure::unusable(anyhow::anyhow!(
                "--source other than uprobe watches one server: name it with --pid"
            )));
        }
        if self.dsn.is_some() && self.target.pids.len() != 1 {
            return Err(Failure::unusable(anyhow::anyhow!(
                "--dsn belongs to one server: name it with --pid"
            )));
        }
        let named = self.dsn.clone().or_else(|| {
            let variable = std::env::var("WAGGLE_DSN").ok();
            variable.filter(|_| wanted.is_some())
        });
        match (named, wanted) {
            (Some(text), _) => {
                let dsn = account::named(&text, Some(&self.account));
                Ok(Some(dsn.map_err(Failure::Unusable)?))
            }
            (None, Some(why)) => {
                let source = self.source.to_possible_value();
                let source = source.map_or_else(String::new, |s| s.get_name().to_owned());
                Err(Failure::unusable(anyhow::anyhow!(
                    "--source {source} {why}"
                )))
            }
            (None, None) => Ok(None),
        }
    }
}
