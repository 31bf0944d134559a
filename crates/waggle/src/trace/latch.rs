//! `waggle trace latch`: which latch did threads wait for, and who held it meanwhile?

use std::time::{Duration, Instant};

use anyhow::anyhow;
use waggle_report::trace::{
    LatchAsked, LatchHolder, LatchProgram, LatchReport, LatchRow, LatchSpread,
    TRACE_FORMAT_VERSION, TraceCost, TraceFacts, TraceProbe, TraceReport,
};
use waggle_trace::latch::{HolderRow, Kind, Naming, Options, RequestRow, Row, Source, Spread};
use waggle_trace::stack::Stacks;

use super::args::{Common, CommonArgs};
use super::session::Session;
use super::slices::{Due, SliceArgs, Slices, Slicing};
use super::target::Process;
use crate::cli::{Failure, Output};

/// The ring is read this often.
const POLL: Duration = Duration::from_millis(5);
/// What is mapped is looked at again this often: programs load libraries as they run.
const MAPPINGS: Duration = Duration::from_secs(10);
/// A larger share of flagged waits fails the trace.
const FLAGGED_MAX: f64 = 0.01;
/// Latches, and holders and places of one, that the document has.
const LATCHES_MAX: usize = 200;
const PARTS_MAX: usize = 20;

/// Name the latches that threads wait for, and who held them meanwhile.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  waggle trace latch --pid $(pidof mysqld) --duration 30
  waggle trace latch --dsn 'mysql://root@127.0.0.1:3306/' --duration 30 --json
  waggle trace latch --usdt latch --pid 4711     a program with FOLLY_SDT(latch, ...) notes
  waggle trace latch --share 10% --duration 3600 --pid 4711

Needs root. Exit code 1: more than 1% of the waits are flagged, as records were lost.")]
pub(crate) struct Args {
    /// Static probes of this provider: `wait_start` (the latch's address), `wait_end`,
    /// `latch_exit` (the latch's address); nothing else is traced
    #[arg(long, value_name = "PROVIDER", conflicts_with_all = ["no_futexes", "rw_locks"])]
    usdt: Option<String>,

    /// Leave out mutexes of the C library and other futexes
    #[arg(long)]
    no_futexes: bool,

    /// Rw-locks of the C library, too; looks at every wait for a condition, to tell them apart
    #[arg(long, conflicts_with = "no_futexes")]
    rw_locks: bool,

    #[command(flatten)]
    slices: SliceArgs,

    #[command(flatten)]
    pub(super) common: CommonArgs,
}

/// What was asked for, checked.
#[derive(Debug)]
struct Asked {
    usdt: Option<String>,
    futexes: bool,
    rw_locks: bool,
    /// `None`: all of the time.
    slices: Option<Slices>,
    common: Common,
}

/// Runs the subject.
pub(super) fn run(args: Args, out: &Output) -> Result<(), Failure> {
    let common = args.common.plan()?;
    let asked = Asked {
        usdt: args.usdt,
        futexes: !args.no_futexes,
        rw_locks: args.rw_locks,
        slices: args.slices.plan(common.duration)?,
        common,
    };
    crate::preflight::can_trace()?;
    let process = Process::find(&asked.common.target)?;
    let result = trace(&asked, &process, out);
    let stopped = process.stop();
    result.and(stopped)
}

fn trace(asked: &Asked, process: &Process, out: &Output) -> Result<(), Failure> {
    let cpu_before_s = own_cpu_s();
    let mut source = Source::attach(&Options {
        pid: process.pid,
        flavour: process.server.as_ref().map(|server| server.flavour),
        ring_bytes: asked.common.ring_bytes,
        usdt: asked.usdt.clone(),
        futexes: asked.futexes,
        rw_locks: asked.rw_locks,
    })
    .map_err(|error| Failure::unusable(anyhow!("{}: {error}", process.words())))?;
    let mut session = Session::open(&asked.common, process, "latch")?;
    eprintln!("tracing latches of {}", process.words());
    let mut still_waiting = 0;
    let mut slicing = asked.slices.map(|slices| {
        // It could be attached; the first slice comes in its time, and this was none.
        source.ends_at(0);
        source.pause(u64::MAX, |_| ());
        source.forget_cost();
        Slicing::new(slices)
    });
    session.start();
    let mut looked = Instant::now();
    while !session.is_over(process) {
        if let Some(slicing) = &mut slicing {
            still_waiting += follow_slices(slicing, &mut source);
        }
        if slicing.as_ref().is_none_or(Slicing::is_attached) {
            source.poll(|_| ());
        }
        if looked.elapsed() >= MAPPINGS {
            looked = Instant::now();
            source.look_at_mappings();
        }
        let mut pause = session.pause(POLL);
        if let Some(slicing) = &slicing {
            pause = slicing.pause(pause);
        }
        std::thread::sleep(pause);
    }
    let elapsed = session.elapsed();
    still_waiting += match &mut slicing {
        Some(slicing) if slicing.is_attached() => end_slice(slicing, &mut source),
        Some(_) => 0,
        None => source.finish(|_| ()),
    };
    let programs = source.run_times();
    // Rates are of the time that was traced.
    let traced = slicing
        .as_ref()
        .map_or(elapsed, |s| Duration::from_secs_f64(s.traced_s()));
    let mut report = report(&mut source, still_waiting, traced, &programs);
    report.facts.duration_s = elapsed.as_secs_f64();
    report.facts.slices = slicing.map(|slicing| {
        let p99s = report.latches.iter().filter(|row| row.wait_us.count > 0);
        let p99_ns = p99s.map(|row| row.wait_us.p99 * 1e3).reduce(f64::max);
        slicing.facts(elapsed, source.counters().began, still_waiting, p99_ns)
    });
    report.facts.cost.counted_share = Some(source.counted_share());
    report.facts.process = process.traced();
    report.facts.process_ended = session.process_ended();
    report.facts.cost.process_cpu_s = session.process_cpu_s();
    report.facts.cost.waggle_cpu_s = own_cpu_s() - cpu_before_s;
    report.facts.cost.waggle_rss_bytes =
        waggle_server::cpu::process_rss_bytes(std::process::id()).unwrap_or(0);
    let failed = check(&report);
    let report = TraceReport::Latch(Box::new(report));
    let text = || report.text(waggle_report::table::WIDTH);
    session.finish(out, &report, text, failed)
}

/// Attaches for a slice and detaches after it, as it is due. Returns how many threads still slept
/// when one ended.
fn follow_slices(slicing: &mut Slicing, source: &mut Source) -> u64 {
    match slicing.due() {
        Due::Nothing => 0,
        Due::Attach => {
            if source.resume().unwrap_or(false) {
                source.begins_at(slicing.attached());
            } else {
                source.ends_at(0);
                source.pause(u64::MAX, |_| ());
                slicing.refused();
            }
            0
        }
        Due::Detach => end_slice(slicing, source),
    }
}

fn end_slice(slicing: &mut Slicing, source: &mut Source) -> u64 {
    source.ends_at(slicing.detaching());
    let ended = source.pause(slicing.long_ns(), |_| ());
    slicing.detached(ended.asleep_long);
    ended.asleep
}

/// Which check did not hold.
fn check(report: &LatchReport) -> Option<String> {
    (report.flagged_share > FLAGGED_MAX).then(|| {
        let lost: u64 = report.facts.lost.values().sum();
        format!(
            "{:.1}% of the waits are flagged, as {lost} records were lost: more than {:.0}%; use a \
             larger --ring-kib",
            100.0 * report.flagged_share,
            100.0 * FLAGGED_MAX,
        )
    })
}

fn report(
    source: &mut Source,
    still_waiting: u64,
    elapsed: Duration,
    programs: &[(&'static str, u64, u64)],
) -> LatchReport {
    let counters = source.counters();
    let all = counters.waits + counters.torn;
    let mut report = LatchReport {
        facts: facts(source, elapsed, programs),
        waits: counters.waits,
        flagged: counters.flagged,
        torn: counters.torn,
        flagged_share: (counters.flagged + counters.torn) as f64 / all.max(1) as f64,
        in_vain: counters.in_vain,
        still_waiting,
        conditions: source.conditions(),
        missing: source.found().missing.clone(),
        programs: programs
            .iter()
            .map(|(name, runs, ns)| LatchProgram {
                name: (*name).to_owned(),
                runs_per_s: *runs as f64 / elapsed.as_secs_f64(),
                ns_per_run: *ns as f64 / (*runs).max(1) as f64,
            })
            .collect(),
        ..LatchReport::default()
    };
    let Source {
        table,
        naming,
        stacks,
        ..
    } = source;
    for row in table.rows() {
        report.wait_sum_ns += row.total_ns;
        report.held_ns += row.held_ns;
        report.handing_over_ns += row.handing_over_ns;
        report.unobserved_ns += row.unobserved_ns;
        report.word_agrees += row.word_agrees;
        report.word_differs += row.word_differs;
        if report.latches.len() < LATCHES_MAX {
            report.latches.push(latch(row, naming, stacks, elapsed));
        }
    }
    report
}

fn facts(source: &Source, elapsed: Duration, programs: &[(&str, u64, u64)]) -> TraceFacts {
    let counters = source.probe_counters();
    let hits: u64 = counters.hits;
    // Those at system calls run for every process.
    let is_host = |name: &str| name.starts_with("futex_");
    let sum = |host: bool| {
        let all = programs.iter().filter(|(name, ..)| is_host(name) == host);
        all.fold((0, 0), |(runs, ns), program| {
            (runs + program.1, ns + program.2)
        })
    };
    let ((runs, ns), (host_runs, host_ns)) = (sum(false), sum(true));
    let probes = source.found().placed.iter().map(|placed| TraceProbe {
        name: placed.name.clone(),
        place: placed.place.clone(),
        refused: placed.refused.clone(),
        emulated: placed.emulated,
        ..TraceProbe::default()
    });
    let mut notes =
        vec!["spinning before a sleep is not part of a wait: nothing is seen of it".to_owned()];
    if counters.cut > 0 {
        notes.push(format!(
            "{} of {} stacks do not reach their thread's beginning",
            counters.cut, counters.stacks
        ));
    }
    TraceFacts {
        format_version: TRACE_FORMAT_VERSION,
        duration_s: elapsed.as_secs_f64(),
        events: counters.records,
        lost: [("ring full".to_owned(), counters.lost)].into(),
        probes: probes.collect(),
        cost: TraceCost {
            hits_per_s: hits as f64 / elapsed.as_secs_f64(),
            program_ns_per_hit: (runs > 0).then(|| ns as f64 / runs as f64),
            programs_s: (runs > 0).then_some(ns as f64 / 1e9),
            host_programs_s: (host_runs > 0).then_some(host_ns as f64 / 1e9),
            ..TraceCost::default()
        },
        notes,
        ..TraceFacts::default()
    }
}

fn latch(row: &Row, naming: &mut Naming, stacks: &Stacks, elapsed: Duration) -> LatchRow {
    let mut asked: Vec<_> = row.requests.iter().collect();
    asked.sort_by_key(|(_, request)| std::cmp::Reverse(request.wait_ns));
    let asked = asked.into_iter().take(PARTS_MAX);
    let asked = asked.map(|((at, mode, stack), request)| {
        let RequestRow {
            waits,
            wait_ns,
            longest_ns,
        } = *request;
        LatchAsked {
            at: at.map(|at| naming.request(at)).filter(|at| !at.is_empty()),
            mode: mode.as_str().to_owned(),
            waits,
            wait_sum_ns: wait_ns,
            max_us: longest_ns as f64 / 1e3,
            stack: stack.map_or_else(Vec::new, |stack| naming.stack(stacks, stack)),
        }
    });
    let asked = asked.collect();
    let mut holders: Vec<_> = row.holders.iter().collect();
    holders.sort_by_key(|(_, holder)| std::cmp::Reverse(holder.blocked_ns));
    let holders = holders.into_iter().take(PARTS_MAX);
    let holders = holders.map(|(key, holder)| {
        let stack = key
            .stack
            .map_or_else(Vec::new, |id| naming.stack(stacks, id));
        held(naming.text(key.role).to_owned(), stack, holder)
    });
    let holders = holders.collect();
    LatchRow {
        name: naming.text(row.name).to_owned(),
        kind: row.kind.as_str().to_owned(),
        latches: if row.kind == Kind::Metadata {
            1
        } else {
            row.latches.len() as u64
        },
        waiters: row.waiters.len() as u64,
        sleeps: row.sleeps,
        wait_us: spread(row.spread()),
        wait_sum_ns: row.total_ns,
        contended_share: row.contended_ns() as f64 / elapsed.as_nanos().max(1) as f64,
        held_ns: row.held_ns,
        handing_over_ns: row.handing_over_ns,
        unobserved_ns: row.unobserved_ns,
        hand_overs: row.releases,
        flagged: row.flagged,
        word_agrees: row.word_agrees,
        word_differs: row.word_differs,
        asked,
        holders,
    }
}

fn held(role: String, stack: Vec<String>, holder: &HolderRow) -> LatchHolder {
    LatchHolder {
        role,
        threads: holder.threads.len() as u64,
        waits: holder.waits,
        blocked_ns: holder.blocked_ns,
        max_us: holder.longest_ns as f64 / 1e3,
        hold_us: holder.hold().map(spread),
        stack,
    }
}

fn spread(spread: Spread) -> LatchSpread {
    let Spread {
        count,
        mean,
        p50,
        p95,
        p99,
        max,
    } = spread;
    LatchSpread {
        count,
        mean,
        p50,
        p95,
        p99,
        max,
    }
}

/// CPU time of this process so far, s.
fn own_cpu_s() -> f64 {
    let ns = waggle_server::cpu::process_cpu_ns(std::process::id()).unwrap_or(0);
    ns as f64 / 1e9
}
