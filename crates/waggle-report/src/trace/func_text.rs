//! The document as text for the terminal.

use std::fmt::Write as _;

use super::{FuncCall, FuncCalls, FuncReport, FuncRow};

/// Slow calls printed in full; the others are in the run directory.
const SLOW_SHOWN: usize = 10;
/// Widest bar, characters.
const BAR: usize = 30;

/// The whole report.
pub(super) fn text(report: &FuncReport) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "calls in {:.2} s, microseconds; off: not on a processor; CPU: share of the time traced\n",
        report.facts.duration_s
    );
    table(&mut text, report);
    for row in &report.functions {
        if row.calls.latency_us.count > 0 {
            histogram(&mut text, row);
        }
    }
    slow(&mut text, report);
    cost(&mut text, report);
    for note in &report.facts.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

const HEAD: [&str; 10] = [
    "calls", "/s", "mean", "p50", "p95", "p99", "max", "off mean", "off %", "CPU %",
];

fn table(text: &mut String, report: &FuncReport) {
    let mut lines = Vec::new();
    for row in &report.functions {
        lines.push((row.calls.name.clone(), cells(&row.calls)));
        for child in row.children.iter().filter(|c| c.latency_us.count > 0) {
            lines.push((format!("  {}", child.name), cells(child)));
        }
        if let Some(line) = rest(row, report.facts.duration_s) {
            lines.push(line);
        }
        for caller in &row.callers {
            lines.push((format!("  from {}", caller.name), cells(caller)));
        }
    }
    let name = lines.iter().map(|(n, _)| n.chars().count()).max();
    let name = name.unwrap_or(0).clamp(8, 48);
    let mut widths = HEAD.map(str::len);
    for (_, cells) in &lines {
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = (*width).max(cell.len());
        }
    }
    let _ = write!(text, "{:<name$}", "function");
    for (head, width) in HEAD.iter().zip(widths) {
        let _ = write!(text, "  {head:>width$}");
    }
    text.push('\n');
    for (own, cells) in &lines {
        let _ = write!(text, "{:<name$}", cut(own, name));
        for (cell, width) in cells.iter().zip(widths) {
            let _ = write!(text, "  {cell:>width$}");
        }
        text.push('\n');
    }
    text.push('\n');
}

fn cells(calls: &FuncCalls) -> [String; 10] {
    let us = |value: f64| {
        if calls.latency_us.count == 0 {
            "-".to_owned()
        } else {
            micros(value)
        }
    };
    let latency = &calls.latency_us;
    let share = percent(calls.off_sum_ns, calls.sum_ns);
    [
        latency.count.to_string(),
        format!("{:.0}", calls.per_s),
        us(latency.mean_us),
        us(latency.p50_us),
        us(latency.p95_us),
        us(latency.p99_us),
        us(latency.max_us),
        us(calls.off_mean_us),
        share.map_or("-".into(), |share| format!("{share:.1}")),
        format!("{:.2}", calls.cpu_percent),
    ]
}

/// What the watched callees leave of a function.
fn rest(row: &FuncRow, duration_s: f64) -> Option<(String, [String; 10])> {
    let (ns, off_ns) = (row.rest_ns?, row.rest_off_ns?);
    let count = row.calls.latency_us.count;
    if count == 0 || duration_s <= 0.0 {
        return None;
    }
    let mean = |ns: u64| micros(ns as f64 / count as f64 / 1e3);
    let mut cells: [String; 10] = std::array::from_fn(|_| String::new());
    cells[2] = mean(ns);
    cells[7] = mean(off_ns);
    cells[8] = percent(off_ns, ns).map_or("-".into(), |share| format!("{share:.1}"));
    cells[9] = format!("{:.2}", ns.saturating_sub(off_ns) as f64 / duration_s / 1e7);
    Some(("  elsewhere, a call".into(), cells))
}

fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}

/// Three significant digits, as far as they are needed.
fn micros(us: f64) -> String {
    if us >= 100.0 {
        format!("{us:.0}")
    } else if us >= 10.0 {
        format!("{us:.1}")
    } else {
        format!("{us:.2}")
    }
}

fn cut(name: &str, width: usize) -> String {
    if name.chars().count() <= width {
        return name.to_owned();
    }
    let mut short: String = name.chars().take(width - 1).collect();
    short.push('…');
    short
}

fn histogram(text: &mut String, row: &FuncRow) {
    let bars = octaves(&row.calls.histogram);
    let most = bars.iter().map(|(_, calls, off)| *calls.max(off)).max();
    let most = most.unwrap_or(1).max(1);
    let _ = writeln!(
        text,
        "{}: calls by their time, and by their time off ({} of {} left their processor)",
        row.calls.name, row.calls.off_us.count, row.calls.latency_us.count
    );
    let bar = |count: u64| "█".repeat(bar_length(count, most));
    for (low_ns, calls, off) in bars {
        let (all, away) = (bar(calls), bar(off));
        let line = format!("{:>9} {calls:>9} {all:<BAR$} {off:>9} {away}", span(low_ns));
        let _ = writeln!(text, "{}", line.trim_end());
    }
    let off = &row.calls.off_by_reason_ns;
    let total = row.calls.off_sum_ns;
    let parts = off.iter().filter_map(|(reason, ns)| {
        let share = percent(*ns, total)?;
        Some(format!("{reason} {share:.1}%"))
    });
    let parts: Vec<String> = parts.collect();
    if !parts.is_empty() {
        let queued = percent(row.calls.queued_ns, total).unwrap_or(0.0);
        let _ = writeln!(
            text,
            "off by reason: {}; {queued:.1}% of it ready, without a processor",
            parts.join(", ")
        );
    }
    text.push('\n');
}

/// Lower bound, calls that took so long and calls that were off so long, for each power of two:
/// those without calls between the first and the last are among them.
fn octaves(histogram: &[(u64, u64, u64, u64)]) -> Vec<(u64, u64, u64)> {
    let octave = |ns: u64| ns.max(1).ilog2();
    let (Some(first), Some(last)) = (histogram.first(), histogram.last()) else {
        return Vec::new();
    };
    let first = octave(first.0);
    let low = |octave: u32| if octave == 0 { 0 } else { 1 << octave };
    let mut all: Vec<(u64, u64, u64)> = (first..=octave(last.0).max(first))
        .map(|octave| (low(octave), 0, 0))
        .collect();
    for (low_ns, _, calls, off) in histogram {
        let at = octave(*low_ns).checked_sub(first);
        if let Some(sum) = at.and_then(|at| all.get_mut(at as usize)) {
            sum.1 += calls;
            sum.2 += off;
        }
    }
    all
}

fn bar_length(count: u64, most: u64) -> usize {
    if count == 0 {
        return 0;
    }
    let length = (count as f64 / most as f64 * BAR as f64).round() as usize;
    length.max(1)
}

/// The lower bound of a bar.
fn span(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

fn slow(text: &mut String, report: &FuncReport) {
    let Some(least) = report.slower_ns else {
        return;
    };
    let _ = writeln!(
        text,
        "{} calls of {} or more{}",
        report.calls.slow,
        span(least),
        if report.slow.len() > SLOW_SHOWN {
            format!(
                "; the {SLOW_SHOWN} slowest, {} are in the run directory:",
                report.slow.len()
            )
        } else {
            ":".to_owned()
        }
    );
    for call in report.slow.iter().take(SLOW_SHOWN) {
        slow_call(text, call);
    }
    text.push('\n');
}

fn slow_call(text: &mut String, call: &FuncCall) {
    let off = call.off_by_reason_ns.iter();
    let off: Vec<String> = off
        .map(|(why, ns)| format!("{why} {}", span(*ns)))
        .collect();
    let off = if off.is_empty() {
        "never off".to_owned()
    } else {
        format!("off {}", off.join(", "))
    };
    let _ = writeln!(
        text,
        "  {} {} in {} ({}), {off}",
        span(call.wall_ns),
        call.name,
        call.thread,
        call.tid
    );
    for frame in &call.stack {
        let _ = writeln!(text, "      {frame}");
    }
}

fn cost(text: &mut String, report: &FuncReport) {
    let cost = &report.watching;
    let ns = |value: Option<f64>| value.map_or("not measured".into(), |ns| format!("{ns:.0} ns"));
    let traps = cost.stepped_traps_ns.or(cost.traps_ns);
    let _ = writeln!(
        text,
        "cost: {} a watched call (traps {}, at the beginning {}, at the return {}); {} a switch",
        ns(cost.call_ns),
        ns(traps),
        ns(cost.entered_ns),
        ns(cost.returned_ns),
        ns(cost.switched_ns)
    );
    if let Some(percent) = cost.cpu_percent {
        let _ = writeln!(
            text,
            "      {percent:.2}% of one processor at {:.0} calls/s",
            report.calls.entered as f64 / report.facts.duration_s.max(1e-9),
        );
    }
    let _ = writeln!(text, "{}", super::cost::line(&report.facts));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octaves_hold_every_call_and_have_no_gap() {
        let histogram = [(3, 4, 1, 0), (68, 70, 5, 2), (120, 122, 1, 1)];
        let expected = [
            (2, 1, 0),
            (4, 0, 0),
            (8, 0, 0),
            (16, 0, 0),
            (32, 0, 0),
            (64, 6, 3),
        ];
        assert_eq!(octaves(&histogram), expected);
        assert_eq!(octaves(&[]), []);
        // A document is foreign: out of order.
        assert_eq!(octaves(&[(64, 66, 1, 0), (2, 3, 1, 0)]), [(64, 1, 0)]);
    }

    #[test]
    fn an_empty_document_has_a_text() {
        assert!(text(&FuncReport::default()).contains("not measured"));
    }
}
