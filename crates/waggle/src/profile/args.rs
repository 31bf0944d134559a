//! The flags of `waggle profile`, and the plan they are checked into.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use clap::ValueEnum;
use signal_hook::consts::{SIGUSR1, SIGUSR2};
use waggle_probes::sample::FREQUENCY_HZ_MAX;
use waggle_profile::out::Root;
use waggle_wire::Dsn;

use crate::account;
use crate::cli::Failure;
use crate::profiling::kept::Format;
use crate::rights::Needs;

/// Show where processes spend their time: which calls run or wait, in which threads, for which
/// statement.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  waggle profile --pid $(pidof mysqld) --seconds 30
  waggle profile --all --seconds 30 --by digest --off-cpu      what each statement costs, and waits
  waggle profile --pid 4711 --signal USR2 --format svg,pprof   kill -USR2 switches it on and off
  waggle profile --hz 999 --command sysbench oltp_read_only run

The run directory holds profile.json, report.html, flame-*.svg and what --format asks for.

Needs root. Exit code 1: more than 1% of what was taken was lost, or the command failed.")]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs,

    /// Stop after this many seconds [default: until Ctrl-C, or until all processes have ended]
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,

    /// Samples of each processor in a second
    #[arg(long, value_name = "N", default_value_t = 99)]
    hz: u32,

    /// Record what waits, too: blocked, and runnable without a processor
    #[arg(long)]
    off_cpu: bool,

    /// What stands below each stack; `digest` watches the servers' statements as well
    #[arg(long, value_enum, default_value_t = By::Role)]
    by: By,

    /// Further files, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_value = "svg")]
    format: Vec<Format>,

    /// Source lines, where debug information is installed
    #[arg(long)]
    lines: bool,

    /// Functions that the compiler put into their callers, likewise
    #[arg(long)]
    inlined: bool,

    /// The kernel's own calls of threads that run
    #[arg(long)]
    kernel: bool,

    /// Begin switched off; this signal switches the recording on and off
    #[arg(long, value_name = "USR1|USR2", value_parser = signal)]
    signal: Option<i32>,

    /// Room between kernel and waggle for records of waits, KiB
    #[arg(long, value_name = "KIB", default_value_t = 16 << 10)]
    ring_kib: u32,

    /// Keep the run directory below DIR
    #[arg(long, value_name = "DIR", default_value = "waggle-runs")]
    out: PathBuf,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct TargetArgs {
    /// Profile the process with this id; repeat for several
    #[arg(long = "pid", value_name = "PID")]
    pids: Vec<u32>,

    /// Profile the server of this host at this address
    #[arg(long, value_name = "DSN")]
    dsn: Option<String>,

    /// Profile every MySQL and MariaDB server of this host
    #[arg(long)]
    all: bool,

    /// Start this command, the rest of the line, and profile it and what it starts, until it ends
    #[arg(long, value_name = "COMMAND", num_args = 1.., allow_hyphen_values = true)]
    command: Vec<String>,
}

impl Args {
    /// A command is started with what this process may do ([`Needs::AttachAndEnd`] follows).
    pub(crate) fn needs(&self) -> Needs {
        match self.target.command.is_empty() {
            true => Needs::Attach,
            false => Needs::Everything,
        }
    }
}

/// What stands below each stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// What the thread is there for
    Role,
    /// The statement that the thread ran
    Digest,
    /// The thread
    Thread,
    /// The process
    Process,
}

impl By {
    pub(super) fn root(self) -> Root {
        match self {
            Self::Role => Root::Role,
            Self::Digest => Root::Digest,
            Self::Thread => Root::Thread,
            Self::Process => Root::Process,
        }
    }
}

/// Which processes are profiled.
#[derive(Debug)]
pub(super) enum Target {
    Pids(Vec<u32>),
    Dsn(Box<Dsn>),
    All,
    Command(Vec<String>),
}

/// What was asked for, checked.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) target: Target,
    pub(super) duration: Option<Duration>,
    pub(super) hz: u32,
    pub(super) off_cpu: bool,
    pub(super) by: By,
    pub(super) formats: Vec<Format>,
    pub(super) lines: bool,
    pub(super) inlined: bool,
    pub(super) kernel: bool,
    pub(super) signal: Option<i32>,
    pub(super) ring_bytes: u32,
    pub(super) out: PathBuf,
}

impl Args {
    /// Checks the flags; nothing is opened.
    pub(super) fn plan(self) -> Result<Plan, Failure> {
        let unusable = |text: String| Failure::unusable(anyhow!(text));
        if !(1..=FREQUENCY_HZ_MAX).contains(&self.hz) {
            let text = format!("--hz {}: use 1 to {FREQUENCY_HZ_MAX}", self.hz);
            return Err(unusable(text));
        }
        if !(4..=1 << 20).contains(&self.ring_kib) {
            let text = format!("--ring-kib {}: use 4 to 1048576", self.ring_kib);
            return Err(unusable(text));
        }
        let duration = self.seconds.map(|seconds| {
            let usable = seconds.is_finite() && (0.01..=1e7).contains(&seconds);
            usable
                .then(|| Duration::from_secs_f64(seconds))
                .ok_or_else(|| unusable(format!("--seconds {seconds}: use 0.01 to 10000000")))
        });
        Ok(Plan {
            target: self.target.plan()?,
            duration: duration.transpose()?,
            hz: self.hz,
            off_cpu: self.off_cpu,
            by: self.by,
            formats: self.format,
            lines: self.lines,
            inlined: self.inlined,
            kernel: self.kernel,
            signal: self.signal,
            ring_bytes: self.ring_kib.next_power_of_two() << 10,
            out: self.out,
        })
    }
}

impl TargetArgs {
    fn plan(self) -> Result<Target, Failure> {
        if let Some(dsn) = self.dsn {
            let dsn = account::named(&dsn, None).map_err(Failure::Unusable)?;
            return Ok(Target::Dsn(Box::new(dsn)));
        }
        Ok(match (self.all, self.command.is_empty()) {
            (true, _) => Target::All,
            (false, false) => Target::Command(self.command),
            (false, true) => Target::Pids(self.pids),
        })
    }
}

fn signal(name: &str) -> Result<i32, String> {
    match name.trim_start_matches("SIG") {
        "USR1" => Ok(SIGUSR1),
        "USR2" => Ok(SIGUSR2),
        _ => Err("use USR1 or USR2".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn plan(words: &[&str]) -> Option<Plan> {
        let words = std::iter::once("profile").chain(words.iter().copied());
        Line::try_parse_from(words).ok()?.args.plan().ok()
    }

    #[test]
    fn flags_become_a_plan_or_are_refused() {
        let plan_of = plan(&["--pid", "1", "--pid", "2", "--format", "folded,pprof"]).unwrap();
        assert!(matches!(plan_of.target, Target::Pids(pids) if pids == [1, 2]));
        assert_eq!(plan_of.formats, [Format::Folded, Format::Pprof]);
        let command = plan(&["--hz", "7", "--command", "ls", "-l", "--all"]).unwrap();
        assert!(matches!(command.target, Target::Command(words) if words.len() == 3));
        assert_eq!(
            plan(&["--all", "--signal", "USR2"]).unwrap().signal,
            Some(SIGUSR2)
        );
        for wrong in [
            &[][..],
            &["--all", "--hz", "0"],
            &["--all", "--hz", "10001"],
            &["--all", "--seconds", "-1"],
            &["--all", "--seconds", "NaN"],
            &["--all", "--signal", "KILL"],
            &["--all", "--pid", "1"],
            &["--all", "--ring-kib", "1"],
            &["--dsn", "nonsense"],
        ] {
            assert!(plan(wrong).is_none(), "{wrong:?}");
        }
    }
}
