//! `waggle trace waits`: who waits for whom, in any program, by the scheduler's events alone?
//!
//! Neighbours: `waggle_trace::waits` sums and follows waits, [`document`] makes the document of
//! them, [`files`] writes what other programs draw.
//!
//! Invariant: nothing is placed in the program itself; it is only looked at.

mod document;
mod files;

use std::time::Duration;

use anyhow::{Context, anyhow};
use waggle_probes::clock;
use waggle_probes::timeline::Options;
use waggle_report::trace::TraceReport;
use waggle_trace::waits::source::Source;
use waggle_trace::waits::{Limits, Waits};

use super::args::CommonArgs;
use super::session::Session;
use super::target::Process;
use crate::cli::{Failure, Output};

/// The ring holds some tenths of a second of a busy server.
const POLL: Duration = Duration::from_millis(20);
/// What a process maps while it runs is noticed this late.
const REFRESH: Duration = Duration::from_secs(2);
/// Above this share of flagged waits the exit code is 1.
const FLAGGED_MAX: f64 = 0.01;

/// Show who waits for whom, from the scheduler's events alone: any program, no symbols needed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  waggle trace waits --pid $(pidof mysqld) --duration 10
  waggle trace waits --pid 4711 --chrome        any program; open chrome.json in a trace viewer

A request is what a thread does between two waits for a socket or a pipe. The run directory holds
trace.json, waits.folded, waits.svg (off-CPU stacks below, who ended the wait above), waits.dot and
waits.perfetto-trace (for ui.perfetto.dev).

Needs root. Exit code 1: more than 1% of the waits are flagged, as records were lost.")]
pub(crate) struct Args {
    /// Requests shown in full, the slowest first
    #[arg(long, value_name = "N", default_value_t = 10)]
    slowest: usize,

    /// Record no stacks: cheaper, but it is not seen where threads wait
    #[arg(long)]
    no_stacks: bool,

    /// Write chrome.json, too: the time line in Chrome's format
    #[arg(long)]
    chrome: bool,

    #[command(flatten)]
    pub(super) common: CommonArgs,
}

/// Runs the subject.
pub(super) fn run(args: Args, out: &Output) -> Result<(), Failure> {
    if args.slowest > 1000 {
        return Err(Failure::unusable(anyhow!(
            "--slowest {}: use at most 1000",
            args.slowest
        )));
    }
    let common = args.common.plan()?;
    crate::preflight::can_trace()?;
    let process = Process::find(&common.target)?;
    // Asked now: a process that has ended has no name.
    let traced = process.traced();
    let program = traced.program.clone();
    let mut session = Session::open(&common, &process, "waits")?;
    let options = Options {
        ring_bytes: common.ring_bytes,
        stacks: !args.no_stacks,
        waker_stacks: !args.no_stacks,
        followed_only: false,
    };
    let mut source = Source::attach(process.pid, &program, &options).map_err(Failure::unusable)?;
    let limits = Limits {
        slowest: args.slowest,
        ..Limits::default()
    };
    let mut waits = Waits::new(&program, limits);
    // Everything is attached: who waits for this line may begin.
    eprintln!("tracing the waits of {}", process.words());
    session.start();
    follow(&mut session, &process, &mut source, &mut waits);
    let seconds = session.elapsed().as_secs_f64();
    let runs = source.finish(&mut waits);
    let mut report = document::of(&waits, &mut source, traced, seconds);
    report.facts.process_ended = session.process_ended();
    document::add_cost(&mut report, &runs, seconds);
    report.facts.cost.process_cpu_s = session.process_cpu_s();
    let target = (process.pid, program.as_str());
    report.files = files::write(session.run_dir(), &waits, &mut source, target, args.chrome)
        .context("writing the run directory")
        .map_err(Failure::Ran)?;
    let failed = failure(&report);
    let report = TraceReport::Waits(Box::new(report));
    let text = || report.text(waggle_report::table::WIDTH);
    let shown = session.finish(out, &report, text, failed);
    shown.and(process.stop())
}

fn follow(session: &mut Session, process: &Process, source: &mut Source, waits: &mut Waits) {
    let mut refreshed = Duration::ZERO;
    while !session.is_over(process) {
        source.poll(clock::now_ns(), waits);
        if session.elapsed() >= refreshed + REFRESH {
            refreshed = session.elapsed();
            // It has ended, which the session notices.
            let _ = source.refresh();
        }
        // sleep: the ring is read at intervals, since wake-ups by the kernel would cost the server.
        std::thread::sleep(session.pause(POLL));
    }
}

/// Which check did not hold.
fn failure(report: &waggle_report::trace::WaitsReport) -> Option<String> {
    let all = report.ended + report.flagged;
    let share = report.flagged as f64 / all.max(1) as f64;
    (share > FLAGGED_MAX).then(|| {
        format!(
            "{} of {all} waits ({:.1}%) may be part of {} lost records; use a larger --ring-kib, \
             or --no-stacks",
            report.flagged,
            100.0 * share,
            report.facts.lost.values().sum::<u64>(),
        )
    })
}
