//! Who held which latch, for a terminal.
//!
//! Invariant: what is not in the figures comes first, and the unobserved share stands beside the
//! observed one.

use std::fmt::Write as _;

use super::latch::{LatchHolder, LatchReport, LatchRow};
use super::{TraceFacts, pipeline_text, slices_text};
use crate::quantity::{count, plain};
use crate::table::Table;

/// Latches in the table; the document has all.
const ROWS_MAX: usize = 20;
/// Latches of which holders are shown.
const DETAILED_MAX: usize = 5;
/// Holders, and places that ask, of one latch.
const PARTS_MAX: usize = 4;
/// Calls of a stack.
const CALLS_MAX: usize = 6;
/// Waits of a lesser share are not worth a line.
const SHARE_MIN: f64 = 0.01;

/// The whole report as text, tables at most `width` columns wide.
pub(super) fn text(report: &LatchReport, width: usize) -> String {
    let mut text = head(report);
    if !report.latches.is_empty() {
        text.push('\n');
        text += &latches(report).render(width);
        for row in report.latches.iter().take(DETAILED_MAX) {
            text += &detail(row);
        }
    }
    text += &foot(report);
    text
}

fn head(report: &LatchReport) -> String {
    let facts = &report.facts;
    let traced = &facts.process;
    let name = traced.flavour.as_deref().unwrap_or(&traced.program);
    let version = traced.version.as_deref().unwrap_or_default();
    let space = if version.is_empty() { "" } else { " " };
    let mut text = format!(
        "latch: {} waits in {name}{space}{version} (process {}) in {} s\n",
        count(report.waits),
        traced.pid,
        plain(facts.duration_s, 1),
    );
    text += &slices_text::lines(facts);
    let whole = report.wait_sum_ns;
    let _ = writeln!(
        text,
        "{} s of waiting: {} with a holder that is known, {} between holders, {} not observed",
        plain(whole as f64 / 1e9, 3),
        percent(report.held_ns, whole),
        percent(report.handing_over_ns, whole),
        percent(report.unobserved_ns, whole),
    );
    let end = match facts.slices {
        Some(_) => "when their slice ended",
        None => "at the end",
    };
    let _ = writeln!(
        text,
        "{} flagged as records were lost ({}), in no figure below; {} still waiting {end}",
        count(report.flagged + report.torn),
        percent_of(report.flagged_share),
        count(report.still_waiting),
    );
    let word = report.word_agrees + report.word_differs;
    if word > 0 {
        let _ = writeln!(
            text,
            "the latch's own word names the same holder as its release in {} of {} waits",
            count(report.word_agrees),
            count(word),
        );
    }
    text
}

fn latches(report: &LatchReport) -> Table {
    let mut table = Table::new()
        .flexible("latch")
        .text("kind")
        .number("waits", "")
        .number("p50", "us")
        .number("p95", "us")
        .number("p99", "us")
        .number("max", "us")
        .number("total", "ms")
        .number("contended", "%")
        .number("held", "%")
        .number("unobserved", "%");
    for row in report.latches.iter().take(ROWS_MAX) {
        let many = if row.latches > 1 {
            format!("{} ({} of them)", row.name, count(row.latches))
        } else {
            row.name.clone()
        };
        table.row([
            many,
            row.kind.clone(),
            count(row.wait_us.count),
            us(row.wait_us.p50),
            us(row.wait_us.p95),
            us(row.wait_us.p99),
            us(row.wait_us.max),
            plain(row.wait_sum_ns as f64 / 1e6, 1),
            plain(100.0 * row.contended_share, 1),
            plain(share(row.held_ns, row.wait_sum_ns), 1),
            plain(share(row.unobserved_ns, row.wait_sum_ns), 1),
        ]);
    }
    table
}

fn detail(row: &LatchRow) -> String {
    let mut text = format!(
        "\n{} ({}): {} waits of {} threads, changed hands {} times meanwhile\n",
        row.name,
        row.kind,
        count(row.wait_us.count),
        count(row.waiters),
        count(row.hand_overs),
    );
    for asked in row.asked.iter().take(PARTS_MAX) {
        if (asked.wait_sum_ns as f64) < SHARE_MIN * row.wait_sum_ns as f64 {
            break;
        }
        let mode = if asked.mode.is_empty() {
            String::new()
        } else {
            format!(" ({})", asked.mode)
        };
        let place = asked.at.clone().unwrap_or_else(|| calls(&asked.stack));
        let _ = writeln!(
            text,
            "  asked {}{mode}: {} waits, longest {} us: {place}",
            percent(asked.wait_sum_ns, row.wait_sum_ns),
            count(asked.waits),
            us(asked.max_us),
        );
    }
    for holder in row.holders.iter().take(PARTS_MAX) {
        if (holder.blocked_ns as f64) < SHARE_MIN * row.wait_sum_ns as f64 {
            break;
        }
        text += &held(row, holder);
    }
    text
}

fn held(row: &LatchRow, holder: &LatchHolder) -> String {
    let hold = holder.hold_us.map_or_else(String::new, |hold| {
        format!(
            "; held it {} us (p50), {} us (p99) of {} times seen from the beginning",
            us(hold.p50),
            us(hold.p99),
            count(hold.count)
        )
    });
    let threads = if holder.threads == 1 {
        "thread"
    } else {
        "threads"
    };
    format!(
        "  held  {}: {} ({} {threads}){hold}\n        {}\n",
        percent(holder.blocked_ns, row.wait_sum_ns),
        holder.role,
        count(holder.threads),
        calls(&holder.stack),
    )
}

/// The innermost calls, outermost last.
fn calls(stack: &[String]) -> String {
    if stack.is_empty() {
        return "(no stack)".into();
    }
    let short: Vec<&str> = stack
        .iter()
        .take(CALLS_MAX)
        .map(|call| named(call))
        .collect();
    short.join(" < ")
}

/// A function without its parameters, which fill lines.
fn named(call: &str) -> &str {
    match call.find('(') {
        Some(at) if at > 0 && !call.starts_with('~') => &call[..at],
        _ => call,
    }
}

fn foot(report: &LatchReport) -> String {
    let facts: &TraceFacts = &report.facts;
    let mut text = String::new();
    for (what, why) in &report.missing {
        let _ = writeln!(text, "\nnot seen: {what}: {why}");
    }
    text.push_str(&pipeline_text::foot(facts));
    text
}

fn us(us: f64) -> String {
    plain(us, if us < 100.0 { 1 } else { 0 })
}

fn share(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

fn percent(part: u64, whole: u64) -> String {
    percent_of(part as f64 / whole.max(1) as f64)
}

fn percent_of(share: f64) -> String {
    format!("{}%", plain(100.0 * share, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_observed_stands_beside_what_was() {
        let report = LatchReport {
            waits: 10,
            wait_sum_ns: 1_000_000,
            held_ns: 900_000,
            handing_over_ns: 60_000,
            unobserved_ns: 40_000,
            latches: vec![LatchRow {
                name: "TRX_SYS".into(),
                kind: "mutex".into(),
                wait_sum_ns: 1_000_000,
                held_ns: 900_000,
                unobserved_ns: 40_000,
                holders: vec![LatchHolder {
                    role: "purge".into(),
                    threads: 1,
                    blocked_ns: 900_000,
                    stack: vec!["trx_purge(unsigned long)".into(), "srv_purge()".into()],
                    ..LatchHolder::default()
                }],
                ..LatchRow::default()
            }],
            ..LatchReport::default()
        };
        let text = text(&report, 120);
        for part in [
            "90.0% with a holder that is known, 6.0% between holders, 4.0% not observed",
            "held  90.0%: purge (1 thread)",
            "trx_purge < srv_purge",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }
}
