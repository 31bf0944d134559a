//! From flags to a checked plan.
//!
//! Invariant: a [`Plan`] is complete and consistent; what cannot be checked without opening
//! something (the server, the files) is all that can still be refused.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use waggle_load::{
    DeclaredOption, Dialect, IgnoreErrors, LoadError, LoadSpec, OptionValue, Overflow, Script,
    WaitBy,
};
use waggle_server::Flavour;
use waggle_stats::arrivals::{Arrivals, Spacing, Stage};
use waggle_wire::Dsn;

use super::args::{Args, AtEnd, Waiting};
use super::offered::{self, Limit};
use crate::account;

#[cfg(test)]
mod tests;

/// The database that workloads use when the DSN names none.
const DATABASE_DEFAULT: &str = "sbtest";

/// Where a DSN comes from when no flag names a server.
const DSN_VARIABLE: &str = "WAGGLE_DSN";

/// Seconds measured when no flag says otherwise.
const TIME_DEFAULT_S: f64 = 10.0;

/// Shorter runs and intervals would measure the measuring.
const SECONDS_MIN: f64 = 0.1;

/// How long `--at-end drain` may take before what still waits is counted as waiting.
const DRAIN_LIMIT: Duration = Duration::from_secs(60);

/// What to do with a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    Prepare,
    Run,
    Cleanup,
    /// Prepare and run, and clean up except where the server goes away by itself.
    All,
    /// `warmup`, or a command that the script defines.
    Command(String),
}

/// Where the load goes.
#[derive(Debug, Clone)]
pub(super) enum Target {
    Named(Box<Dsn>),
    Sandbox(Flavour),
}

/// When events are due.
#[derive(Debug, Clone)]
pub(super) struct OpenLoop {
    /// Of the measurement, without the warm-up; one of no length for a constant rate.
    pub(super) stages: Vec<Stage>,
    pub(super) spacing: Spacing,
    pub(super) overflow: Overflow,
    /// `None`: what still waits at the end is counted as waiting.
    pub(super) drain: Option<Duration>,
}

/// Everything `waggle bench` was asked to do, checked.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) target: Target,
    pub(super) action: Action,
    pub(super) script: Script,
    pub(super) options: BTreeMap<String, String>,
    pub(super) threads: u32,
    pub(super) seed: u64,
    pub(super) ignore_errors: IgnoreErrors,
    pub(super) reconnect_limit: Duration,
    pub(super) dialect: Dialect,
    pub(super) io: WaitBy,
    pub(super) floating: bool,
    pub(super) warmup: Duration,
    /// `None`: until the events are used up.
    pub(super) time: Option<Duration>,
    pub(super) events: Option<u64>,
    /// `None`: closed loop.
    pub(super) open: Option<OpenLoop>,
    pub(super) search: Option<Search>,
    /// `None`: no lines of progress, no samples.
    pub(super) interval: Option<Duration>,
    /// In rising order, above 0 and up to 100.
    pub(super) percentiles: Vec<f64>,
    pub(super) statements: bool,
    pub(super) csv: Option<PathBuf>,
    pub(super) hdr_log: Option<PathBuf>,
    /// `None`: nothing is recorded.
    pub(super) run_root: Option<PathBuf>,
    /// Server and client are profiled while it is measured.
    pub(super) profile: bool,
    /// Rows that `prepare` will insert, if the workload's options tell.
    pub(super) rows_expected: Option<u64>,
}

/// `--rate-search`.
#[derive(Debug, Clone)]
pub(super) struct Search {
    pub(super) limit: Limit,
    /// `None`: half of what a short closed loop carries.
    pub(super) first_rate: Option<f64>,
    pub(super) spacing: Spacing,
    pub(super) overflow: Overflow,
}

impl OpenLoop {
    /// True when the offered rate changes.
    pub(super) fn moves(&self) -> bool {
        let first = self.stages.first().map_or(0.0, |stage| stage.from);
        let mut ends = self.stages.iter().flat_map(|stage| [stage.from, stage.to]);
        ends.any(|rate| rate != first)
    }
}

impl Plan {
    /// Checks the flags, the script and its options; connects to nothing.
    pub(super) fn from_args(args: Args) -> anyhow::Result<Plan> {
        let target = target(&args)?;
        let action = action(args.command.as_deref(), &target)?;
        let open = open_loop(&args)?;
        let search = search(&args);
        let time = time(&args)?;
        let mut percentiles = args.percentiles.clone();
        percentiles.sort_by(f64::total_cmp);
        percentiles.dedup();
        let mut plan = Plan {
            target,
            action,
            script: Script::open(&args.workload)?,
            options: workload_options(&args)?,
            threads: args.threads,
            seed: if args.rand_seed == 0 {
                drawn_seed()
            } else {
                args.rand_seed
            },
            ignore_errors: args.ignore_errors,
            reconnect_limit: Duration::from_secs_f64(args.reconnect_limit),
            dialect: args.dialect.map_or(Dialect::default(), Dialect::from),
            io: args.io.map_or(WaitBy::default(), WaitBy::from),
            floating: args.io == Some(Waiting::FloatingRing),
            warmup: Duration::from_secs_f64(args.warmup),
            time,
            events: args.events,
            open,
            search,
            interval: interval(args.report_interval)?,
            percentiles,
            statements: args.statements,
            csv: args.csv,
            hdr_log: args.hdr_log,
            run_root: (!args.no_record).then_some(args.run_dir),
            profile: args.profile,
            rows_expected: None,
        };
        if plan.profile && !plan.runs() {
            bail!("--profile is of a measured run; leave it out of other commands");
        }
        plan.check_open_loop()?;
        if plan.interval.is_none() && (plan.csv.is_some() || plan.hdr_log.is_some()) {
            bail!("--csv and --hdr-log write a line an interval; --report-interval 0 has none");
        }
        // The address plays no part in what a script declares.
        let nowhere = "mysql://nobody@localhost/"
            .parse()
            .context("a constant DSN")?;
        let declared = match waggle_load::check(&plan.load_spec(nowhere)) {
            // A script may have commands and nothing to run.
            Err(LoadError::NoEvent { .. }) if !plan.runs() => Vec::new(),
            checked => checked?,
        };
        plan.rows_expected = rows_expected(&declared, &plan.options);
        Ok(plan)
    }

    fn runs(&self) -> bool {
        matches!(self.action, Action::Run | Action::All)
    }

    /// A plan that ends with nothing to do ends the workers, so a warm-up must not reach its end.
    fn check_open_loop(&self) -> anyhow::Result<()> {
        let Some(open) = &self.open else {
            return Ok(());
        };
        if open.drain.is_some() && !self.warmup.is_zero() {
            bail!("--at-end drain and --warmup exclude each other: warm up in a run before");
        }
        let ends = open.stages.last().is_some_and(|stage| stage.to <= 0.0);
        if ends && self.warmup >= offered::length(&open.stages) {
            bail!("--warmup must be shorter than --rate-steps that end at a rate of 0");
        }
        Ok(())
    }

    /// The load of this plan against one server.
    pub(super) fn load_spec(&self, dsn: Dsn) -> LoadSpec {
        LoadSpec {
            options: self.options.clone(),
            threads: self.threads,
            seed: self.seed,
            ignore_errors: self.ignore_errors.clone(),
            reconnect_limit: self.reconnect_limit,
            dialect: self.dialect,
            io: self.io,
            floating: self.floating,
            event_limit: self.events,
            statement_latency: self.statements,
            arrivals: self.open.as_ref().map(|open| self.arrivals(open)),
            overflow: self
                .open
                .as_ref()
                .map_or(Overflow::Queue, |open| open.overflow),
            ..LoadSpec::new(dsn, self.script.clone())
        }
    }

    /// What the engine is to offer: the plan's stages, and nothing after their end where what waits
    /// is to be run down.
    fn arrivals(&self, open: &OpenLoop) -> Arrivals {
        let mut stages = open.stages.clone();
        if let (Some(time), true) = (self.time, open.drain.is_some()) {
            if let [only] = stages.as_mut_slice() {
                only.duration_s = only.duration_s.max(time.as_secs_f64());
            }
            stages.push(Stage {
                duration_s: 0.0,
                from: 0.0,
                to: 0.0,
            });
        }
        Arrivals {
            stages,
            spacing: open.spacing,
        }
    }
}

fn action(command: Option<&str>, target: &Target) -> anyhow::Result<Action> {
    let in_sandbox = matches!(target, Target::Sandbox(_));
    let action = match command {
        Some("prepare") => Action::Prepare,
        Some("run") => Action::Run,
        Some("cleanup") => Action::Cleanup,
        Some("all") => Action::All,
        Some(other) => Action::Command(other.to_owned()),
        None if in_sandbox => Action::All,
        None => Action::Run,
    };
    if in_sandbox && action != Action::All {
        bail!(
            "a throw-away server starts empty and is gone afterwards, so it takes the command all \
             (or none), not {}",
            command.unwrap_or_default()
        );
    }
    Ok(action)
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
    let mut dsn = account::named(&text, Some(&args.account))
        .with_context(|| format!("{source} names no server that can be used"))?;
    dsn.database
        .get_or_insert_with(|| DATABASE_DEFAULT.to_owned());
    Ok(Target::Named(Box::new(dsn)))
}

fn time(args: &Args) -> anyhow::Result<Option<Duration>> {
    let time = match (args.time, &args.rate_steps, args.events) {
        (Some(time), _, _) => Some(Duration::from_secs_f64(time)),
        (None, Some(steps), _) => Some(offered::length(&steps.0)),
        (None, None, Some(_)) => None,
        (None, None, None) => Some(Duration::from_secs_f64(TIME_DEFAULT_S)),
    };
    if time.is_some_and(|time| time.as_secs_f64() < SECONDS_MIN) {
        bail!("--time must be {SECONDS_MIN} s or more");
    }
    Ok(time)
}

fn interval(seconds: f64) -> anyhow::Result<Option<Duration>> {
    if seconds > 0.0 && seconds < SECONDS_MIN {
        bail!("--report-interval must be {SECONDS_MIN} s or more, or 0 for none");
    }
    Ok((seconds > 0.0).then(|| Duration::from_secs_f64(seconds)))
}

fn open_loop(args: &Args) -> anyhow::Result<Option<OpenLoop>> {
    let stages = match (args.rate, &args.rate_steps, &args.rate_search) {
        (_, _, Some(_)) => return Ok(None),
        (Some(rate), _, None) => Arrivals::constant(rate, Spacing::default()).stages,
        (None, Some(steps), None) => steps.0.clone(),
        (None, None, None) => {
            let given = [
                ("--arrivals", args.arrivals.is_some()),
                ("--overflow", args.overflow.is_some()),
                ("--at-end", args.at_end.is_some()),
            ];
            if let Some((flag, _)) = given.iter().find(|(_, given)| *given) {
                bail!("{flag} is for an open loop: give --rate, --rate-steps or --rate-search too");
            }
            return Ok(None);
        }
    };
    let at_end = args.at_end.unwrap_or_default();
    Ok(Some(OpenLoop {
        stages,
        spacing: args.arrivals.map_or(Spacing::default(), Spacing::from),
        overflow: args.overflow.unwrap_or_default(),
        drain: (at_end == AtEnd::Drain).then_some(DRAIN_LIMIT),
    }))
}

fn search(args: &Args) -> Option<Search> {
    args.rate_search.clone().map(|limit| Search {
        limit,
        first_rate: args.rate,
        spacing: args.arrivals.map_or(Spacing::default(), Spacing::from),
        overflow: args.overflow.unwrap_or_default(),
    })
}

/// `tables` times `table_size`, where a workload has both.
fn rows_expected(declared: &[DeclaredOption], given: &BTreeMap<String, String>) -> Option<u64> {
    let number = |name: &str| {
        let option = declared.iter().find(|option| option.name == name)?;
        match (given.get(name), &option.default) {
            (Some(text), _) => text.parse::<f64>().ok(),
            (None, OptionValue::Number(number)) => Some(*number),
            (None, _) => None,
        }
    };
    Some((number("tables")? * number("table_size")?) as u64)
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
