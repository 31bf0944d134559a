//! `waggle trace func`: how long do calls of a function take, and where do they spend it?
//!
//! Names become functions, functions become probes, and the kernel half sums; [`report`] makes the
//! document. Neighbours: `waggle_trace::call` does the arithmetic.
//!
//! Invariant: nothing is attached before all names are known to be functions that can be watched.

mod report;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow};
use waggle_probes::call::{
    CHILDREN_MAX, CallCost, CallProbe, Counters, FUNCTIONS_MAX, Options, SlowCall, Watched, pair_ns,
};
use waggle_probes::kernel::RunTimeStats;
use waggle_report::table::WIDTH;
use waggle_report::trace::TraceReport;
use waggle_symbols::TrapCost;
use waggle_trace::call::{Chosen, choose};

use super::args::{Common, CommonArgs};
use super::session::Session;
use super::target::Process;
use crate::cli::{Failure, Output};

/// How often slow calls are fetched.
const FETCH: Duration = Duration::from_millis(50);
/// How long the programs' own time is measured, after all else.
const COST: Duration = Duration::from_millis(500);
/// Slow calls that are listed.
const SLOW_MAX: usize = 100;

/// Time calls of functions: how long, how often, how much of it off the processor.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  waggle trace func dispatch_command --pid $(pidof mysqld) --duration 10
  waggle trace func dispatch_command --children 'trans_commit_stmt,handler::ha_*' --pid 4711
  waggle trace func ha_write_row --by caller --slower 10ms --pid 4711

A name is a function's C++ name, with or without scope and parameters; * stands for anything.
Needs root. Never choose a function that C++ exceptions pass through: see the page of this verb.")]
pub(crate) struct Args {
    /// Functions of the program, by name or pattern
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,

    /// Also time these functions wherever a chosen one calls them, at any depth
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    children: Vec<String>,

    /// Split the calls by who called
    #[arg(long, value_name = "caller")]
    by: Option<By>,

    /// Print each call of at least this time, with who called: 500us, 10ms, 1.5s
    #[arg(long, value_name = "TIME", value_parser = time)]
    slower: Option<Duration>,

    #[command(flatten)]
    pub(super) common: CommonArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// The function that called
    Caller,
}

/// A time with its unit.
fn time(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return Err("write a number and us, ms or s, such as 10ms".into()),
    };
    let number: f64 = digits.parse().map_err(|_| "that is no number")?;
    let seconds = number * unit;
    if !seconds.is_finite() || !(1e-6..=3600.0).contains(&seconds) {
        return Err("use a time between 1us and 3600s".into());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// The functions of a trace: each once, whatever it was named by.
#[derive(Debug)]
struct Functions {
    watched: Vec<Watched>,
    /// Of the chosen ones, in their order; then of the children.
    chosen: Vec<Chosen>,
    children: Vec<Chosen>,
}

impl Functions {
    fn find(binary: &Path, names: &[String], children: &[String]) -> Result<Self, Failure> {
        let all = |names: &[String]| -> Result<Vec<Chosen>, Failure> {
            let mut found: BTreeMap<u64, Chosen> = BTreeMap::new();
            let mut order = Vec::new();
            for name in names {
                for function in choose(binary, name.trim()).map_err(Failure::unusable)? {
                    let at = function.site.file_offset;
                    if found.insert(at, function).is_none() {
                        order.push(at);
                    }
                }
            }
            Ok(order.iter().filter_map(|at| found.remove(at)).collect())
        };
        let chosen = all(names)?;
        let children = all(children)?;
        let mut watched: Vec<Watched> = chosen.iter().map(|f| of(f, true, false)).collect();
        for child in &children {
            match watched.iter_mut().find(|w| w.site == child.site) {
                // Its calls by itself are counted too.
                Some(both) => both.child = true,
                None => watched.push(of(child, false, true)),
            }
        }
        if watched.len() > FUNCTIONS_MAX || children.len() > CHILDREN_MAX {
            return Err(Failure::unusable(anyhow!(
                "{} functions and {} children are meant; at most {FUNCTIONS_MAX} together and \
                 {CHILDREN_MAX} children can be watched: narrow the pattern",
                chosen.len(),
                children.len()
            )));
        }
        // Children are numbered in the order they are watched in.
        let numbered = |watched: &Watched| children.iter().find(|c| c.site == watched.site);
        let children = watched.iter().filter(|w| w.child).filter_map(numbered);
        let children = children.cloned().collect();
        Ok(Self {
            watched,
            chosen,
            children,
        })
    }

    fn is_stepped(&self) -> bool {
        let mut traps = self.watched.iter().map(|w| w.site.trap);
        traps.any(|trap| trap == TrapCost::SingleStepped)
    }
}

fn of(function: &Chosen, chosen: bool, child: bool) -> Watched {
    Watched {
        site: function.site.clone(),
        chosen,
        child,
    }
}

/// What was measured beside the calls.
#[derive(Debug, Default)]
struct Measured {
    trace_ns: u64,
    under_way: u64,
    /// As they stood when counting ended: while probes are detached, beginnings are seen whose
    /// returns are not.
    counters: Counters,
    slow: Vec<SlowCall>,
    traps_ns: Option<f64>,
    stepped_traps_ns: Option<f64>,
    /// The programs' cost, and over which time.
    cost: Option<(CallCost, Duration)>,
}

/// Runs the subject.
pub(super) fn run(args: Args, out: &Output) -> Result<(), Failure> {
    let common = args.common.plan()?;
    crate::preflight::can_trace()?;
    let process = Process::find(&common.target)?;
    let binary = PathBuf::from(format!("/proc/{}/exe", process.pid));
    let functions = Functions::find(&binary, &args.names, &args.children)?;
    let options = Options {
        by_caller: args.by.is_some(),
        slower: args.slower,
        ring_bytes: common.ring_bytes,
    };
    let traced = trace(&functions, &options, &common, &process, &binary, out);
    let stopped = process.stop();
    traced.and(stopped)
}

fn trace(
    functions: &Functions,
    options: &Options,
    common: &Common,
    process: &Process,
    binary: &Path,
    out: &Output,
) -> Result<(), Failure> {
    let mut probe = CallProbe::load(process.pid, &functions.watched, options)
        .context("loading the probes")
        .map_err(Failure::Unusable)?;
    let mut measured = Measured {
        traps_ns: pair_ns(&probe, TrapCost::Emulated).ok(),
        ..Measured::default()
    };
    if functions.is_stepped() {
        measured.stepped_traps_ns = pair_ns(&probe, TrapCost::SingleStepped).ok();
    }
    let mut names = waggle_trace::stack::names::Names::default();
    // What cannot be named has its address.
    let _ = names.watch(process.pid);
    probe.attach(binary).map_err(Failure::unusable)?;
    let mut session = Session::open(common, process, "func")?;
    let since = probe.start().map_err(Failure::ran)?;
    session.start();
    eprintln!(
        "timing calls of {} functions in {}",
        functions.watched.len(),
        process.words()
    );
    while !session.is_over(process) {
        thread::sleep(session.pause(FETCH));
        probe.find_trampoline().map_err(Failure::ran)?;
        fetch(&mut probe, &mut measured.slow);
    }
    measured.trace_ns = probe.stop().map_err(Failure::ran)?.saturating_sub(since);
    measured.counters = probe.counters().map_err(Failure::ran)?;
    measured.under_way = probe.under_way().map_err(Failure::ran)?;
    if !session.process_ended() {
        measured.cost = programs_cost(&probe);
    }
    // The programs run no more: what they wrote is whole.
    probe.detach();
    fetch(&mut probe, &mut measured.slow);
    let report = report::make(
        functions, options, &probe, &measured, process, &mut names, &session,
    )
    .map_err(Failure::Ran)?;
    let failed = report::failed(&report);
    let report = TraceReport::Func(Box::new(report));
    session.finish(out, &report, || report.text(WIDTH), failed)
}

/// Takes the slow calls, and keeps the slowest.
fn fetch(probe: &mut CallProbe, slow: &mut Vec<SlowCall>) {
    probe.each_slow(|call| slow.push(call));
    if slow.len() > 2 * SLOW_MAX {
        keep_slowest(slow);
    }
}

fn keep_slowest(slow: &mut Vec<SlowCall>) {
    slow.sort_by_key(|call| std::cmp::Reverse(call.end_ns.saturating_sub(call.start_ns)));
    slow.truncate(SLOW_MAX);
}

/// What the programs take in the process, by the kernel's account. It counts only now: counting
/// itself costs.
fn programs_cost(probe: &CallProbe) -> Option<(CallCost, Duration)> {
    let _counting = RunTimeStats::hold().ok()?;
    let before = probe.cost();
    thread::sleep(COST);
    let after = probe.cost();
    let less = |after: (u64, u64), before: (u64, u64)| (after.0 - before.0, after.1 - before.1);
    let cost = CallCost {
        entered: less(after.entered, before.entered),
        returned: less(after.returned, before.returned),
        switched: less(after.switched, before.switched),
    };
    Some((cost, COST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_bounds() {
        assert_eq!(time("10ms"), Ok(Duration::from_millis(10)));
        assert_eq!(time("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(time("250us"), Ok(Duration::from_micros(250)));
        for wrong in [
            "", "10", "ms", "10 m", "-1ms", "1e9s", "NaNs", "10ns", "0us",
        ] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
