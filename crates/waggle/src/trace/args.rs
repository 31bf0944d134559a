//! The flags that every subject of `waggle trace` has, and the plan they are checked into.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use waggle_server::Flavour;
use waggle_wire::Dsn;

use crate::account;
use crate::cli::Failure;
use crate::rights::Needs;

/// What every subject shares.
#[derive(Debug, clap::Args)]
pub(super) struct CommonArgs {
    #[command(flatten)]
    target: TargetArgs,

    /// Stop after this many seconds [default: until Ctrl-C]
    #[arg(long, value_name = "SECONDS")]
    duration: Option<f64>,

    /// Room between kernel and waggle, KiB; what does not fit is lost, counted, and flags the waits
    /// it may have been part of
    #[arg(long, value_name = "KIB", default_value_t = 16 << 10)]
    ring_kib: u32,

    /// Keep the run directory below DIR
    #[arg(long, value_name = "DIR", default_value = "waggle-runs")]
    out: PathBuf,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct TargetArgs {
    /// Trace the process with this id
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,

    /// Trace the server of this host at this address; nothing is sent to it
    #[arg(long, value_name = "DSN")]
    dsn: Option<String>,

    /// Start a throw-away server and trace it
    #[arg(long, value_name = "mysql|mariadb")]
    sandbox: Option<Flavour>,
}

impl CommonArgs {
    /// A throw-away server is started, and ended, with what this process may do.
    pub(super) fn needs(&self) -> Needs {
        match self.target.sandbox {
            Some(_) => Needs::Everything,
            None => Needs::Attach,
        }
    }
}

/// Which process is traced.
#[derive(Debug)]
pub(super) enum Target {
    Pid(u32),
    Dsn(Box<Dsn>),
    Sandbox(Flavour),
}

/// What every subject shares, checked.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) target: Target,
    pub(super) duration: Option<Duration>,
    /// Bytes of the ring buffer: a power of two.
    pub(super) ring_bytes: u32,
    /// Below which directory the run's own is made.
    pub(super) out: PathBuf,
}

impl CommonArgs {
    /// Checks the flags; nothing is opened.
    pub(super) fn plan(self) -> Result<Common, Failure> {
        let duration = self.duration.map(|value| seconds("duration", value));
        if !(4..=1 << 20).contains(&self.ring_kib) {
            return Err(Failure::unusable(anyhow!(
                "--ring-kib {}: use 4 to 1048576",
                self.ring_kib
            )));
        }
        Ok(Common {
            target: self.target.plan()?,
            duration: duration.transpose()?,
            ring_bytes: self.ring_kib.next_power_of_two() << 10,
            out: self.out,
        })
    }
}

impl TargetArgs {
    fn plan(self) -> Result<Target, Failure> {
        match (self.pid, self.dsn, self.sandbox) {
            (Some(pid), ..) => Ok(Target::Pid(pid)),
            (_, Some(dsn), _) => {
                let dsn = account::named(&dsn, None).map_err(Failure::Unusable)?;
                Ok(Target::Dsn(Box::new(dsn)))
            }
            (.., Some(flavour)) => Ok(Target::Sandbox(flavour)),
            // The group is required; said all the same, as nothing below `main` may panic.
            _ => Err(Failure::unusable(anyhow!(
                "name what to trace: --pid, --dsn or --sandbox"
            ))),
        }
    }
}

/// A number of seconds that can be waited for.
pub(super) fn seconds(flag: &str, value: f64) -> Result<Duration, Failure> {
    let usable = value.is_finite() && (0.01..=1e7).contains(&value);
    if usable {
        return Ok(Duration::from_secs_f64(value));
    }
    Err(Failure::unusable(anyhow!(
        "--{flag} {value}: use a number of seconds between 0.01 and 10000000"
    )))
}
