//! Who waits for whom, as text.
//!
//! Invariant: what a table leaves out is counted below it.

use std::fmt::Write;

use super::{WaitsReport, WaitsRequest, WaitsRow, cost};

/// Calls of a stack that are shown in one line.
const CALLS_MAX: usize = 6;

/// Rows of a table.
const ROWS: usize = 10;

/// The tables; calls are cut at `width` columns.
pub(super) fn text(report: &WaitsReport, width: usize) -> String {
    let mut text = String::new();
    head(&mut text, report);
    requests(&mut text, report, ROWS);
    edges(&mut text, report, ROWS);
    rows(&mut text, report, ROWS);
    foot(&mut text, report);
    let lines = text.lines().map(|line| cut(line, width.max(80)) + "\n");
    lines.collect()
}

fn cut(line: &str, width: usize) -> String {
    match line.char_indices().nth(width) {
        Some((at, _)) => format!("{}>", &line[..at]),
        None => line.to_owned(),
    }
}

fn ms(ns: u64) -> String {
    format!("{:.2}", ns as f64 / 1e6)
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.1}%", 100.0 * part as f64 / whole.max(1) as f64)
}

fn head(text: &mut String, report: &WaitsReport) {
    let process = &report.facts.process;
    let name = process.flavour.as_ref().unwrap_or(&process.program);
    let version = process.version.as_deref().unwrap_or_default();
    let _ = writeln!(
        text,
        "Who waits for whom in {name} {version} (process {}): {:.1} s,\n  \
         {} waits ended, {} flagged, {} unannounced; \
         {} threads still wait",
        process.pid,
        report.facts.duration_s,
        report.ended,
        report.flagged,
        report.unannounced,
        report.still_waiting,
    );
    if report.facts.process_ended {
        let _ = writeln!(text, "The process ended meanwhile.");
    }
}

fn requests(text: &mut String, report: &WaitsReport, top: usize) {
    let requests = &report.requests;
    let l = &requests.latency_us;
    if requests.count == 0 {
        let _ = writeln!(
            text,
            "\nNo requests: no thread waited twice for a socket or a pipe."
        );
        return;
    }
    let _ = writeln!(
        text,
        "\nRequests (from one wait for the network to the next): {} in all, {} flagged\n  \
         mean {:.0} us, p50 {:.0}, p95 {:.0}, p99 {:.0}, max {:.0}",
        requests.count, requests.flagged, l.mean_us, l.p50_us, l.p95_us, l.p99_us, l.max_us,
    );
    let whole: u64 = requests.split_ns.values().sum();
    let mut parts: Vec<_> = requests
        .split_ns
        .iter()
        .filter(|(_, ns)| **ns > 0)
        .collect();
    parts.sort_by_key(|(_, ns)| std::cmp::Reverse(**ns));
    let parts: Vec<String> = parts
        .into_iter()
        .map(|(what, ns)| format!("{what} {}", percent(*ns, whole)))
        .collect();
    let _ = writeln!(text, "  their own threads: {}", parts.join(", "));
    let _ = writeln!(
        text,
        "\nWhose doing was the time of the {} slowest\n  {:>7}  {:>10}  {:<40} doing",
        requests.slowest.len(),
        "share",
        "ms",
        "role"
    );
    for share in requests.path.iter().take(top) {
        let _ = writeln!(
            text,
            "  {:>6.1}%  {:>10}  {:<40.40} {}",
            100.0 * share.share,
            ms(share.ns),
            share.role,
            share.doing
        );
    }
    if let Some(slowest) = requests.slowest.first() {
        let _ = writeln!(
            text,
            "\nThe slowest: {} ms, {} ({}), {} s after the beginning\n  {:>10}  {:>10}  thread",
            ms(slowest.ns),
            slowest.thread,
            slowest.role,
            slowest.at_ns as f64 / 1e9,
            "at ms",
            "took ms",
        );
        segments(text, slowest, top);
    }
}

fn segments(text: &mut String, request: &WaitsRequest, top: usize) {
    // The longest, in their order.
    let mut least: Vec<u64> = request.segments.iter().map(|s| s.ns).collect();
    least.sort_unstable_by(|a, b| b.cmp(a));
    let least = least.get(2 * top).copied().unwrap_or(0);
    let (mut at, mut left_out) = (0, 0);
    for segment in &request.segments {
        let from = at;
        at += segment.ns;
        if segment.ns <= least && least > 0 {
            left_out += 1;
            continue;
        }
        let _ = writeln!(
            text,
            "  {:>10}  {:>10}  {}{} {}{}",
            ms(from),
            ms(segment.ns),
            "> ".repeat(usize::from(segment.depth)),
            segment.thread,
            segment.doing,
            where_of(&segment.stack, " in "),
        );
    }
    if left_out > 0 {
        let _ = writeln!(text, "  and {left_out} shorter parts, in trace.json");
    }
}

fn edges(text: &mut String, report: &WaitsReport, top: usize) {
    let _ = writeln!(
        text,
        "\nWho waits for whom\n  {:<24.24} {:<24.24} {:>8} {:>11} {:>11} {:>11}",
        "waiter", "woken by", "waits", "blocked ms", "in requests", "runnable ms"
    );
    for edge in report.edges.iter().take(2 * top) {
        let _ = writeln!(
            text,
            "  {:<24.24} {:<24.24} {:>8} {:>11} {:>11} {:>11}",
            edge.waiter,
            edge.woken_by,
            edge.all.count,
            ms(edge.all.blocked_ns),
            ms(edge.in_requests.blocked_ns),
            ms(edge.all.runnable_ns),
        );
    }
    left_out(text, report.edges.len(), 2 * top, "edges");
}

fn rows(text: &mut String, report: &WaitsReport, top: usize) {
    let in_requests = report.waits.iter().filter(|row| row.in_request);
    let others = report.waits.iter().filter(|row| !row.in_request);
    table(text, "Where requests wait", in_requests, top);
    table(text, "Where threads wait otherwise", others, top);
}

fn table<'a>(
    text: &mut String,
    title: &str,
    rows: impl Iterator<Item = &'a WaitsRow> + Clone,
    top: usize,
) {
    let count = rows.clone().count();
    if count == 0 {
        return;
    }
    let _ = writeln!(
        text,
        "\n{title}\n  {:>12} {:>9} {:>9} {:>9}  who",
        "blocked ms", "waits", "mean us", "max ms"
    );
    for row in rows.take(top) {
        let mean = row.sum.blocked_ns as f64 / 1000.0 / row.sum.count.max(1) as f64;
        let _ = writeln!(
            text,
            "  {:>12} {:>9} {mean:>9.0} {:>9}  {}, {}, woken by {}",
            ms(row.sum.blocked_ns),
            row.sum.count,
            ms(row.sum.longest_ns),
            row.role,
            row.kind,
            row.woken_by,
        );
        let _ = writeln!(text, "{:>16}{}", "", where_of(&row.stack, "at "));
        if !row.waker_stack.is_empty() {
            let _ = writeln!(text, "{:>16}{}", "", where_of(&row.waker_stack, "by "));
        }
    }
    left_out(text, count, top, "rows");
}

fn left_out(text: &mut String, count: usize, shown: usize, what: &str) {
    if count > shown {
        let _ = writeln!(text, "  and {} {what} in trace.json", count - shown);
    }
}

/// The innermost calls, those that only lead into the kernel left out.
fn where_of(stack: &[String], before: &str) -> String {
    let leads = |name: &str| {
        let name = name.trim_start_matches(['~', '_']);
        [
            "futex",
            "libc.so",
            "pthread_cond",
            "lll_lock",
            "pthread_mutex_cond",
            "syscall",
        ]
        .iter()
        .any(|known| name.starts_with(known) || name.starts_with(&format!("GI___{known}")))
    };
    let skipped = stack.iter().take_while(|name| leads(name)).count();
    let rest = if skipped == stack.len() {
        stack
    } else {
        &stack[skipped..]
    };
    if rest.is_empty() {
        return String::new();
    }
    let shown: Vec<&str> = rest.iter().take(CALLS_MAX).map(String::as_str).collect();
    let more = if rest.len() > CALLS_MAX { " < ..." } else { "" };
    format!("{before}{}{more}", shown.join(" < "))
}

fn foot(text: &mut String, report: &WaitsReport) {
    let facts = &report.facts;
    let lost: Vec<String> = facts
        .lost
        .iter()
        .map(|(cause, count)| format!("{cause} {count}"))
        .collect();
    let stacks = &report.stacks;
    let _ = writeln!(
        text,
        "\n{} records, lost: {}. Stacks: {} walked, {} different, {} ({}) not whole.",
        facts.events,
        lost.join(", "),
        stacks.walked,
        stacks.different,
        stacks.cut,
        percent(stacks.cut, stacks.walked),
    );
    let _ = writeln!(text, "{}", cost::line(facts));
    for note in &facts.notes {
        let _ = writeln!(text, "Note: {note}");
    }
    for (what, file) in &report.files {
        let _ = writeln!(text, "{what}: {file}");
    }
}
