//! From sums and requests to the document: names for roles and stacks, rows in order.
//!
//! Invariant: what the document leaves out (rows beyond the limit) is counted in a note.

use std::collections::BTreeMap;

use waggle_report::trace::{
    TRACE_FORMAT_VERSION, TraceFacts, TraceProbe, Traced, WaitsEdge, WaitsReport, WaitsRequest,
    WaitsRequests, WaitsRow, WaitsSegment, WaitsShare, WaitsStacks, WaitsSum,
};
use waggle_stats::latency::LatencySummary;
use waggle_trace::stack::{Stacks, names::Names};
use waggle_trace::waits::requests::Request;
use waggle_trace::waits::source::Source;
use waggle_trace::waits::{Ender, Tally, Waits, graph};
use waggle_trace::{Departure, StackId, Thread};

/// Most rows of waits in the document; the folded file has all.
const ROWS_MAX: usize = 500;

/// All but what the tracing cost, and the files.
pub(super) fn of(waits: &Waits, source: &mut Source, process: Traced, seconds: f64) -> WaitsReport {
    let counters = source.counters();
    let mut notes = Vec::new();
    let mut note = |count: u64, words: &str| {
        if count > 0 {
            notes.push(format!("{count} {words}"));
        }
    };
    note(
        waits.without_stack(),
        "waits are summed without their stacks: there were too many different ones",
    );
    note(
        source.late(),
        "records came late and were given the time of the one before",
    );
    note(
        counters.cut,
        "stacks do not reach the beginning of their thread; they end with [cut] or [deeper]",
    );
    let rows = waits.sums().count() as u64;
    note(
        rows.saturating_sub(ROWS_MAX as u64),
        "rows of waits are in waits.folded alone",
    );
    let lost = [
        ("ring-full", counters.lost),
        ("stacks-unsent", counters.unsent),
    ];
    let lost = lost.into_iter().map(|(cause, n)| (cause.to_owned(), n));
    let ended = waits.sums().map(|(_, tally)| tally.count).sum();
    let mut report = WaitsReport {
        facts: TraceFacts {
            format_version: TRACE_FORMAT_VERSION,
            process,
            duration_s: seconds,
            events: counters.events,
            lost: lost.collect(),
            notes,
            ..TraceFacts::default()
        },
        ended,
        flagged: waits.flagged(),
        unannounced: waits.unannounced(),
        still_waiting: waits.still_waiting().count() as u64,
        stacks: WaitsStacks {
            walked: counters.stacks,
            cut: counters.cut,
            by_frame_pointers: source.by_frame_pointers().to_vec(),
            ..WaitsStacks::default()
        },
        edges: edges(waits),
        ..WaitsReport::default()
    };
    let label = labels(source, waits);
    let (stacks, names) = source.stacks();
    report.stacks.different = stacks.len() as u64;
    report.requests = requests(waits, stacks, names, &label);
    report.waits = rows_of(waits, stacks, names);
    report
}

/// Threads by what people call them: name and number.
fn labels(source: &Source, waits: &Waits) -> BTreeMap<Thread, String> {
    let threads = waits.requests().slowest().iter();
    let threads = threads.flat_map(|r| r.path.iter().map(|s| s.thread));
    threads.map(|t| (t, label(source, t))).collect()
}

/// A thread's name and number.
pub(super) fn label(source: &Source, thread: Thread) -> String {
    let name = source.records().name(thread);
    format!("{} {}", name.as_deref().unwrap_or("(unnamed)"), thread.tid)
}

fn sum(tally: &Tally) -> WaitsSum {
    WaitsSum {
        count: tally.count,
        blocked_ns: tally.blocked_ns,
        runnable_ns: tally.runnable_ns,
        longest_ns: tally.longest_ns,
    }
}

fn edges(waits: &Waits) -> Vec<WaitsEdge> {
    let edges = graph::edges(waits).into_iter();
    let mut edges: Vec<WaitsEdge> = edges
        .map(|(edge, (all, in_requests))| WaitsEdge {
            waiter: edge.waiter,
            woken_by: edge.ender,
            all: sum(&all),
            in_requests: sum(&in_requests),
        })
        .collect();
    edges.sort_by_key(|e| std::cmp::Reverse((e.in_requests.blocked_ns, e.all.blocked_ns)));
    edges
}

fn rows_of(waits: &Waits, stacks: &Stacks, names: &mut Names) -> Vec<WaitsRow> {
    let mut sums: Vec<_> = waits.sums().collect();
    sums.sort_by_key(|(key, tally)| std::cmp::Reverse((key.in_request, tally.blocked_ns)));
    sums.truncate(ROWS_MAX);
    let rows = sums.into_iter().map(|(key, tally)| WaitsRow {
        role: waits.role_name(key.role).to_owned(),
        kind: key.kind.text().to_owned(),
        in_request: key.in_request,
        stack: calls(stacks, names, key.stack),
        woken_by: match key.ender {
            Ender::Role(role) => waits.role_name(role).to_owned(),
            Ender::Interrupt => "interrupt".into(),
            Ender::Unknown => "unknown".into(),
        },
        waker_stack: calls(stacks, names, key.ender_stack),
        sum: sum(tally),
    });
    rows.collect()
}

fn calls(stacks: &Stacks, names: &mut Names, stack: Option<StackId>) -> Vec<String> {
    let Some(id) = stack else { return Vec::new() };
    let names = names.of_stack(stacks, id);
    names.iter().map(ToString::to_string).collect()
}

fn requests(
    waits: &Waits,
    stacks: &Stacks,
    names: &mut Names,
    label: &BTreeMap<Thread, String>,
) -> WaitsRequests {
    let requests = waits.requests();
    let histogram = requests.histogram();
    let us = |ns: u64| ns as f64 / 1000.0;
    let split = requests.split();
    let mut split_ns = BTreeMap::from([
        ("on-cpu".to_owned(), split.on_cpu_ns),
        ("runnable".to_owned(), split.runnable_ns),
        ("unseen".to_owned(), split.unseen_ns),
    ]);
    for (why, ns) in &split.blocked {
        *split_ns.entry(word(*why).to_owned()).or_default() += ns;
    }
    let slowest = requests.slowest();
    WaitsRequests {
        count: histogram.len(),
        flagged: requests.flagged(),
        latency_us: LatencySummary {
            count: histogram.len(),
            mean_us: histogram.mean() / 1000.0,
            p50_us: us(histogram.value_at_quantile(0.5)),
            p95_us: us(histogram.value_at_quantile(0.95)),
            p99_us: us(histogram.value_at_quantile(0.99)),
            max_us: us(histogram.max()),
        },
        split_ns,
        path: shares(waits, slowest),
        slowest: slowest
            .iter()
            .map(|request| in_full(waits, request, stacks, names, label))
            .collect(),
    }
}

fn word(why: Departure) -> &'static str {
    waggle_trace::waits::Kind::of(why).map_or("runnable", waggle_trace::waits::Kind::text)
}

fn shares(waits: &Waits, slowest: &[Request]) -> Vec<WaitsShare> {
    let mut sums: BTreeMap<(String, &'static str), u64> = BTreeMap::new();
    for segment in slowest.iter().flat_map(|request| &request.path) {
        let role = waits.role_of(segment.thread).to_owned();
        let key = (role, segment.doing.text());
        *sums.entry(key).or_default() += segment.to_ns - segment.from_ns;
    }
    let whole = sums.values().sum::<u64>().max(1) as f64;
    let shares = sums.into_iter().map(|((role, doing), ns)| WaitsShare {
        role,
        doing: doing.to_owned(),
        ns,
        share: ns as f64 / whole,
    });
    let mut shares: Vec<WaitsShare> = shares.collect();
    shares.sort_by_key(|share| std::cmp::Reverse(share.ns));
    shares
}

fn in_full(
    waits: &Waits,
    request: &Request,
    stacks: &Stacks,
    names: &mut Names,
    label: &BTreeMap<Thread, String>,
) -> WaitsRequest {
    let name = |thread: Thread| label.get(&thread).cloned().unwrap_or_default();
    WaitsRequest {
        thread: name(request.thread),
        role: waits.role_of(request.thread).to_owned(),
        at_ns: request.from_ns.saturating_sub(waits.first_ns()),
        ns: request.ns(),
        segments: request
            .path
            .iter()
            .map(|segment| WaitsSegment {
                thread: name(segment.thread),
                role: waits.role_of(segment.thread).to_owned(),
                doing: segment.doing.text().to_owned(),
                ns: segment.to_ns - segment.from_ns,
                depth: segment.depth,
                stack: calls(stacks, names, segment.stack),
            })
            .collect(),
    }
}

/// What the tracing cost: run counts and run times (ns) of the kernel's half, and our own.
pub(super) fn add_cost(report: &mut WaitsReport, runs: &[(&'static str, u64, u64)], seconds: f64) {
    let facts = &mut report.facts;
    let (count, ns) = runs
        .iter()
        .fold((0, 0), |(c, t), (_, runs, ns)| (c + runs, t + ns));
    for (name, runs, _) in runs {
        facts.probes.push(TraceProbe {
            name: (*name).to_owned(),
            place: format!("raw tracepoint {name}, of the whole host"),
            hits: *runs,
            ..TraceProbe::default()
        });
    }
    facts.cost.hits_per_s = count as f64 / seconds.max(1e-9);
    facts.cost.host_programs_s = (count > 0).then_some(ns as f64 / 1e9);
    facts.cost.program_ns_per_hit = (count > 0).then(|| ns as f64 / count as f64);
    (facts.cost.waggle_cpu_s, facts.cost.waggle_rss_bytes) = own_cost();
}

/// CPU time (s) and resident memory (bytes) of this process.
fn own_cost() -> (f64, u64) {
    let clock = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: Option<u64> =
        resident.and_then(|text| text.trim().trim_end_matches(" kB").parse().ok());
    let cpu_s = clock.tv_sec as f64 + clock.tv_nsec as f64 / 1e9;
    (cpu_s, kib.unwrap_or(0) * 1024)
}
