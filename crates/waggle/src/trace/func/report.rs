//! From what the probes counted to the document.

use std::collections::BTreeMap;

use waggle_probes::call::{CallCost, CallProbe, Options, REASONS, Series, SlowCall};
use waggle_report::trace::{
    FuncCall, FuncCalls, FuncCost, FuncCounts, FuncReport, FuncRow, TRACE_FORMAT_VERSION,
    TraceCost, TraceFacts, TraceProbe,
};
use waggle_symbols::TrapCost;
use waggle_trace::call::Summary;
use waggle_trace::stack::names::Names;

use super::{Functions, Measured, SLOW_MAX};
use crate::trace::session::Session;
use crate::trace::target::Process;

/// The document.
///
/// # Errors
/// The kernel half cannot be read.
pub(super) fn make(
    functions: &Functions,
    options: &Options,
    probe: &CallProbe,
    measured: &Measured,
    process: &Process,
    names: &mut Names,
    session: &Session,
) -> anyhow::Result<FuncReport> {
    let counters = measured.counters;
    let callers = if options.by_caller {
        probe.callers()?
    } else {
        Vec::new()
    };
    let mut rows = Vec::new();
    let mut hits = Vec::new();
    for (at, chosen) in functions.chosen.iter().enumerate() {
        let summary = Summary::of(&probe.chosen(at)?, measured.trace_ns);
        let mut children = Vec::new();
        for (number, child) in functions.children.iter().enumerate() {
            let summary = Summary::of(&probe.child(at, number)?, measured.trace_ns);
            children.push(calls(child.name.clone(), &summary, measured));
        }
        let mine = callers.iter().filter(|c| c.function as usize == at);
        let wanted = !functions.children.is_empty();
        hits.push(summary.latency.count);
        rows.push(FuncRow {
            signature: chosen.signature.clone(),
            calls: calls(chosen.name.clone(), &summary, measured),
            rest_ns: wanted.then_some(summary.rest_ns),
            rest_off_ns: wanted.then_some(summary.rest_off_ns),
            children,
            callers: by_caller(mine, process.pid, names, measured),
        });
    }
    let mut slow: Vec<SlowCall> = measured.slow.clone();
    super::keep_slowest(&mut slow);
    let listed = slow.len() as u64;
    let slow = slow
        .iter()
        .map(|call| slow_call(call, functions, process.pid, names));
    let counts = counts(measured, listed);
    let cost = cost(functions, measured, counters.entries);
    let mut report = FuncReport {
        facts: facts(functions, measured, process, session, &counts, &cost),
        functions: rows,
        slower_ns: options
            .slower
            .and_then(|t| u64::try_from(t.as_nanos()).ok()),
        slow: slow.collect(),
        calls: counts,
        watching: cost,
    };
    report.facts.notes = notes(&report);
    Ok(report)
}

/// What became of the calls, of which so many slow ones are listed.
fn counts(measured: &Measured, listed: u64) -> FuncCounts {
    let counters = measured.counters;
    FuncCounts {
        entered: counters.entries,
        returned: counters.returns,
        under_way_at_start: counters.early,
        not_seen_to_begin: counters.alone,
        under_way_at_end: measured.under_way,
        left: counters.missed,
        thread_ended: counters.ended,
        too_deep: counters.deep,
        outside: counters.outside,
        threads_full: counters.threads_full,
        callers_full: counters.callers_full,
        slow: counters.slow,
        slow_lost: counters.slow.saturating_sub(listed),
    }
}

/// Which check did not hold.
pub(super) fn failed(report: &FuncReport) -> Option<String> {
    let calls = &report.calls;
    let lost = calls.threads_full + calls.too_deep;
    (lost * 100 > calls.entered).then(|| {
        format!(
            "{lost} of {} calls could not be followed: the figures are not of all calls",
            calls.entered
        )
    })
}

fn calls(name: String, summary: &Summary, measured: &Measured) -> FuncCalls {
    FuncCalls {
        name,
        per_s: per_s(summary.latency.count, measured.trace_ns),
        latency_us: summary.latency,
        sum_ns: summary.wall_ns,
        off_sum_ns: summary.off_ns,
        off_mean_us: summary.off_mean_us(),
        off_us: summary.off,
        off_by_reason_ns: by_reason(&summary.off_by_reason_ns),
        queued_ns: summary.queued_ns,
        cpu_percent: summary.cpu_percent,
        recursive: summary.recursive,
        nested: summary.nested.0,
        nested_ns: summary.nested.1,
        unannounced: summary.unannounced,
        histogram: summary
            .histogram
            .iter()
            .map(|bar| (bar.low_ns, bar.high_ns, bar.calls, bar.off_calls))
            .collect(),
    }
}

fn per_s(count: u64, ns: u64) -> f64 {
    if ns == 0 {
        return 0.0;
    }
    count as f64 * 1e9 / ns as f64
}

fn by_reason(ns: &[u64; REASONS.len()]) -> BTreeMap<String, u64> {
    let named = REASONS.iter().zip(ns).filter(|(_, ns)| **ns > 0);
    named.map(|(name, ns)| ((*name).to_owned(), *ns)).collect()
}

/// One line for each calling function, whatever places it calls from; the most time first.
fn by_caller<'a>(
    series: impl Iterator<Item = &'a Series>,
    pid: u32,
    names: &mut Names,
    measured: &Measured,
) -> Vec<FuncCalls> {
    let mut by_name: BTreeMap<String, Series> = BTreeMap::new();
    for one in series {
        let name = names.of_address(pid, one.caller - 1);
        by_name.entry(name.to_string()).or_default().add(one);
    }
    let mut lines: Vec<FuncCalls> = by_name
        .into_iter()
        .map(|(name, series)| calls(name, &Summary::of(&series, measured.trace_ns), measured))
        .collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line.sum_ns));
    lines
}

fn slow_call(call: &SlowCall, functions: &Functions, pid: u32, names: &mut Names) -> FuncCall {
    let function = functions.chosen.get(call.function as usize);
    FuncCall {
        name: function.map_or_else(String::new, |f| f.name.clone()),
        tid: call.tid,
        thread: call.comm.clone(),
        start_ns: call.start_ns,
        wall_ns: call.end_ns.saturating_sub(call.start_ns),
        off_ns: call.off_ns.iter().sum(),
        off_by_reason_ns: by_reason(&call.off_ns),
        queued_ns: call.queued_ns,
        children_ns: call.children_ns,
        longest_off_ns: call.longest_ns,
        longest_off_reason: REASONS[call.longest_reason].to_owned(),
        stack: call
            .stack
            .iter()
            .map(|address| names.of_address(pid, address.saturating_sub(1)).to_string())
            .collect(),
    }
}

fn cost(functions: &Functions, measured: &Measured, entries: u64) -> FuncCost {
    let each = |(runs, ns): (u64, u64)| (runs > 0).then(|| ns as f64 / runs as f64);
    let (cost, over) = measured.cost.unwrap_or_default();
    let (entered, returned) = (each(cost.entered), each(cost.returned));
    // With functions of both kinds, the dearer is the honest one.
    let traps = if functions.is_stepped() {
        measured.stepped_traps_ns
    } else {
        measured.traps_ns
    };
    let sum = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
    let call_ns = sum(traps, sum(entered, returned));
    let switched = each(cost.switched);
    let seconds = over.as_secs_f64();
    let switches_per_s = (seconds > 0.0).then(|| cost.switched.0 as f64 / seconds);
    let calls_per_s = per_s(entries, measured.trace_ns);
    let of_calls = call_ns.map(|ns| ns * calls_per_s);
    let of_switches = switched.zip(switches_per_s).map(|(ns, n)| ns * n);
    FuncCost {
        traps_ns: measured.traps_ns,
        stepped_traps_ns: measured.stepped_traps_ns,
        entered_ns: entered,
        returned_ns: returned,
        switched_ns: switched,
        switches_per_s,
        call_ns,
        cpu_percent: sum(of_calls, of_switches).map(|ns| ns / 1e7),
    }
}

fn facts(
    functions: &Functions,
    measured: &Measured,
    process: &Process,
    session: &Session,
    counts: &FuncCounts,
    cost: &FuncCost,
) -> TraceFacts {
    let place = |at: &waggle_symbols::Site| format!("{}+{:#x}", at.function, at.function_offset);
    let probes = functions.watched.iter().map(|watched| TraceProbe {
        name: if watched.chosen { "call" } else { "callee" }.to_owned(),
        place: place(&watched.site),
        emulated: Some(watched.site.trap == TrapCost::Emulated),
        ..TraceProbe::default()
    });
    let mut lost = BTreeMap::new();
    for (cause, count) in [
        ("threads_full", counts.threads_full),
        ("too_deep", counts.too_deep),
        ("slow_calls_not_listed", counts.slow_lost),
    ] {
        if count > 0 {
            lost.insert(cause.to_owned(), count);
        }
    }
    TraceFacts {
        format_version: TRACE_FORMAT_VERSION,
        process: process.traced(),
        process_ended: session.process_ended(),
        duration_s: measured.trace_ns as f64 / 1e9,
        slices: None,
        events: counts.returned,
        lost,
        probes: probes.collect(),
        cost: TraceCost {
            hits_per_s: per_s(counts.entered + counts.returned, measured.trace_ns),
            program_ns_per_hit: cost.entered_ns,
            programs_s: over_all(measured, |cost| {
                let (entered, returned) = (cost.entered, cost.returned);
                (entered.0 + returned.0, entered.1 + returned.1)
            }),
            host_programs_s: over_all(measured, |cost| cost.switched),
            process_cpu_s: session.process_cpu_s(),
            waggle_cpu_s: own_cpu_s(),
            waggle_rss_bytes: own_rss_bytes(),
            counted_share: None,
        },
        notes: Vec::new(),
    }
}

/// Run time of the programs over the whole trace, from the time over which it was counted.
fn over_all(measured: &Measured, of: impl Fn(&CallCost) -> (u64, u64)) -> Option<f64> {
    let (cost, over) = measured.cost?;
    let (runs, ns) = of(&cost);
    if runs == 0 {
        // Nobody called while it was counted.
        return None;
    }
    let share = ns as f64 / over.as_nanos().max(1) as f64;
    Some(share * measured.trace_ns as f64 / 1e9)
}

fn notes(report: &FuncReport) -> Vec<String> {
    let calls = &report.calls;
    let mut notes = Vec::new();
    let counted = [
        (
            calls.under_way_at_start,
            "calls were under way when counting began: in no figure",
        ),
        (
            calls.not_seen_to_begin,
            "calls returned that were not seen to begin: in no figure",
        ),
        (
            calls.under_way_at_end,
            "calls were under way at the end: in no figure",
        ),
        (
            calls.left,
            "calls were left without returning (longjmp), or not seen to: in no figure",
        ),
        (
            calls.thread_ended,
            "calls ended with their thread: in no figure",
        ),
        (
            calls.too_deep,
            "calls were deeper than 64 watched calls: in no figure",
        ),
        (
            calls.threads_full,
            "calls were of threads for which there was no room: in no figure",
        ),
        (
            calls.callers_full,
            "calls are in no line by caller: there was no room",
        ),
        (
            calls.outside,
            "calls of callees were outside every chosen function: in no figure",
        ),
    ];
    let told = counted.iter().filter(|(count, _)| *count > 0);
    notes.extend(told.map(|(count, text)| format!("{count} {text}")));
    if calls.slow_lost > 0 {
        notes.push(format!(
            "{} of {} slow calls are not listed: the {SLOW_MAX} slowest are",
            calls.slow_lost, calls.slow
        ));
    }
    notes.extend(limits(report));
    notes
}

/// What bounds the figures, or makes them dear.
fn limits(report: &FuncReport) -> Vec<String> {
    let mut notes = Vec::new();
    let unannounced: u64 = report.functions.iter().map(|f| f.calls.unannounced).sum();
    if unannounced > 0 {
        notes.push(format!(
            "in {unannounced} calls the kernel did not announce every switch: their time off is a \
             lower bound"
        ));
    }
    let stepped = report
        .facts
        .probes
        .iter()
        .filter(|p| p.emulated == Some(false));
    let stepped: Vec<&str> = stepped.map(|p| p.place.as_str()).collect();
    if !stepped.is_empty() {
        notes.push(format!(
            "the kernel single-steps at {}: a call there costs many times more",
            stepped.join(", ")
        ));
    }
    notes
}

/// CPU time of this process so far, s.
fn own_cpu_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn own_rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}
