//! The flags of `waggle watch`, and the plan they are checked into.

use std::path::PathBuf;
use std::time::Duration;

use waggle_probes::statement::{Options, TEXT_BYTES_MAX};
use waggle_server::Flavour;

use crate::cli::Failure;

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

    /// With --log: only statements that took at least this long, and failed ones
    #[arg(long, value_name = "MILLISECONDS", requires = "log")]
    slower: Option<f64>,

    /// Bytes copied of each statement's text; longer ones are cut and counted
    #[arg(long, value_name = "BYTES", default_value_t = Options::default().text_bytes_max)]
    text_bytes: u32,

    /// Room between kernel and agent, KiB; a full ring loses statements, and counts them
    #[arg(long, value_name = "KIB", default_value_t = Options::default().ring_bytes >> 10)]
    ring_kib: u32,

    /// Obey `attach`, `empty`, `detach`, `quit` lines on standard input, one JSON line each
    #[arg(long, hide = true)]
    control: bool,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct TargetArgs {
    /// Watch the server with this process id
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,

    /// Watch every MySQL and MariaDB server of this host, also those that start later
    #[arg(long)]
    all: bool,

    /// Start a throw-away server and watch it
    #[arg(long, value_name = "mysql|mariadb")]
    sandbox: Option<Flavour>,
}

/// Which servers are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Pid(u32),
    All,
    Sandbox(Flavour),
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
    pub(super) probe: Options,
    pub(super) control: bool,
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
        let target = match (self.target.pid, self.target.all, self.target.sandbox) {
            (Some(pid), _, _) => Target::Pid(pid),
            (_, _, Some(flavour)) => Target::Sandbox(flavour),
            _ => Target::All,
        };
        if !(64..=TEXT_BYTES_MAX).contains(&self.text_bytes) {
            return Err(Failure::unusable(anyhow::anyhow!(
                "--text-bytes {}: use 64 to {TEXT_BYTES_MAX}",
                self.text_bytes
            )));
        }
        if !(64..=1 << 20).contains(&self.ring_kib) {
            return Err(Failure::unusable(anyhow::anyhow!(
                "--ring-kib {}: use 64 to 1048576",
                self.ring_kib
            )));
        }
        Ok(Plan {
            target,
            duration: self.duration.map(|d| seconds("duration", d)).transpose()?,
            interval: seconds("interval", self.interval)?,
            top: self.top.max(1),
            record: self.record,
            log: self.log,
            slower: self.slower.map(slower).transpose()?,
            probe: Options {
                text_bytes_max: self.text_bytes,
                ring_bytes: self.ring_kib << 10,
            },
            control: self.control,
        })
    }
}
