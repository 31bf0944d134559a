//! The lab report as text for a terminal.

use waggle_foreign::is_harmful;

use super::{Arm, ArmKind, Difference, LabReport, Ratio, headline};
use crate::quantity::{bytes, count, decimals, plain, seconds, signed};
use crate::table::{Table, WIDTH};

/// What stands in a cell for a reading that did not happen.
const ABSENT: &str = "–";

/// The report as text of at most 100 columns: the answer, the costs, what was seen and lost, the
/// notes. `bold` prints table headings in bold (ANSI), for terminals.
pub fn text(report: &LabReport, bold: bool) -> String {
    let mut text = wrapped(&headline(report), WIDTH, "");
    text.push('\n');
    text.push_str(&wrapped(&setting(report), WIDTH, ""));
    text.push('\n');
    text.push_str(&costs(report).bold(bold).render(WIDTH));
    text.push('\n');
    text.push_str(&seen(report).bold(bold).render(WIDTH));
    let notes = notes(report);
    if !notes.is_empty() {
        text.push('\n');
        for note in notes {
            text.push_str(&wrapped(&note, WIDTH, "  "));
        }
    }
    text
}

fn setting(report: &LabReport) -> String {
    let load = &report.workload;
    let tables = if load.tables == 1 { "table" } else { "tables" };
    let clean = if report.aa_clean {
        "A/A clean"
    } else {
        "A/A NOT CLEAN: nothing is claimed"
    };
    format!(
        "{}, {}, {} threads, {} {tables} of {} rows, {} windows in {}; {clean}.",
        report.server_name(),
        load.name,
        load.threads,
        load.tables,
        count(load.table_size),
        count(
            report
                .windows
                .iter()
                .filter(|window| !window.discarded)
                .count() as u64
        ),
        seconds(report.duration_s),
    )
}

fn costs(report: &LabReport) -> Table {
    let mut table = Table::new()
        .flexible("arm")
        .number("server CPU", "µs/stmt")
        .number("difference, 95% CI", "µs/stmt")
        .number("", "%")
        .number("queries/s, 95% CI", "% of base")
        .text("verdict");
    for arm in &report.arms {
        let verdict = if report.aa_clean {
            arm.verdict.words()
        } else {
            "not claimed"
        };
        let cpu = arm.cpu();
        let change = arm.cpu_ratio.filter(Ratio::is_finite);
        let throughput = arm.qps_ratio.filter(Ratio::is_finite);
        table.row([
            arm.name.clone(),
            cpu.map_or(ABSENT.to_owned(), |cpu| plain(cpu.base, 2)),
            cpu.as_ref().map_or(ABSENT.to_owned(), difference),
            change.map_or(ABSENT.to_owned(), |ratio| percent(ratio.estimate)),
            throughput.as_ref().map_or(ABSENT.to_owned(), ratio),
            verdict.to_owned(),
        ]);
    }
    table
}

fn seen(report: &LabReport) -> Table {
    let mut table = Table::new()
        .flexible("arm")
        .number("pairs", "")
        .number("p50", "µs")
        .number("p95", "µs")
        .number("p99", "µs")
        .number("tool CPU", "µs/stmt")
        .number("tool RSS", "")
        .number("captured", "")
        .number("executed", "")
        .number("lost", "");
    for arm in &report.arms {
        let shift = |difference: &Option<Difference>| {
            difference
                .filter(Difference::is_finite)
                .map_or(ABSENT.to_owned(), |d| {
                    signed(d.delta, decimals(d.half_width(), 1).min(1))
                })
        };
        let lost = match arm.captured {
            None => ABSENT.to_owned(),
            Some(_) => count(arm.lost_total()),
        };
        table.row([
            arm.name.clone(),
            count(arm.windows),
            shift(&arm.latency_us.p50),
            shift(&arm.latency_us.p95),
            shift(&arm.latency_us.p99),
            arm.tool.map_or(ABSENT.to_owned(), |tool| {
                plain(tool.cpu_us_per_statement, 2)
            }),
            arm.tool
                .map_or(ABSENT.to_owned(), |tool| bytes(tool.rss_bytes)),
            arm.captured.map_or(ABSENT.to_owned(), count),
            count(arm.executed),
            lost,
        ]);
    }
    table
}

fn notes(report: &LabReport) -> Vec<String> {
    let mut notes = Vec::new();
    for arm in &report.arms {
        notes.extend(arm_notes(arm));
    }
    notes.extend(report.notes.iter().cloned());
    notes
}

fn arm_notes(arm: &Arm) -> Vec<String> {
    let mut notes = Vec::new();
    if arm.kind == ArmKind::ServerLives {
        notes.push(format!(
            "{}: each pair is two server lives, a restart apart.",
            arm.name
        ));
    }
    for (cause, lost) in arm.lost.iter().filter(|(_, lost)| **lost > 0) {
        notes.push(format!(
            "{}: {} statements lost: {cause}.",
            arm.name,
            count(*lost)
        ));
    }
    notes.extend(
        arm.note
            .as_ref()
            .map(|note| format!("{}: {note}", arm.name)),
    );
    notes
}

fn difference(d: &Difference) -> String {
    let digits = decimals(d.half_width(), 1).max(1);
    format!(
        "{} ({} to {})",
        signed(d.delta, digits),
        signed(d.low, digits),
        signed(d.high, digits)
    )
}

fn ratio(r: &Ratio) -> String {
    format!(
        "{} ({} to {})",
        percent(r.estimate),
        percent(r.low),
        percent(r.high)
    )
}

fn percent(ratio: f64) -> String {
    signed((ratio - 1.0) * 100.0, 1)
}

/// Breaks text at spaces; lines after the first begin with `indent`. Control characters become
/// spaces: a report that was read back is foreign, and commands no terminal.
pub fn wrapped(text: &str, width: usize, indent: &str) -> String {
    let text: String = text
        .chars()
        .map(|c| if is_harmful(c) { ' ' } else { c })
        .collect();
    let mut lines = String::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.trim_start().is_empty() && line.chars().count() + 1 + word.chars().count() > width
        {
            lines.push_str(&line);
            lines.push('\n');
            indent.clone_into(&mut line);
        } else if !line.trim_start().is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push_str(&line);
    lines.push('\n');
    lines
}
