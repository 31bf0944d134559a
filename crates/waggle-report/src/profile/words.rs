//! A profile as text: who spent the time, in which functions, for which statements.
//!
//! Invariant: what a table leaves out is counted below it, and what was lost stands at the end.

use std::fmt::Write;

use super::shown::{cells, digest_name, lost_words, role_name};
use super::sums::{GroupSum, functions, groups, totals};
use super::{ProfileKind, ProfileReport};
use crate::lab::wrapped;
use crate::quantity::{count, plain, seconds};
use crate::table::{Table, WIDTH};

/// Rows of a table.
const ROWS: usize = 20;

/// The tables of a profile, about 100 columns wide; `bold` prints headings in bold (ANSI).
pub fn text(report: &ProfileReport, bold: bool) -> String {
    let mut text = String::new();
    let totals = totals(report);
    let parts: Vec<String> = totals
        .iter()
        .map(|(kind, total)| {
            let what = match kind {
                ProfileKind::OnCpu => "samples",
                ProfileKind::OffCpu | ProfileKind::Runnable => "waits",
            };
            let time = plain(total.ns as f64 / 1e9, 2);
            format!(
                "{} {what} {} ({time} s)",
                count(total.samples),
                kind.words()
            )
        })
        .collect();
    let rate = match report.frequency_hz {
        0 => String::new(),
        hz => format!(" at {hz} Hz"),
    };
    let duration = seconds(report.duration_s());
    let sampled = match parts.as_slice() {
        [] => "nothing was sampled".to_owned(),
        parts => parts.join(", "),
    };
    text.push_str(&wrapped(
        &format!("{duration}{rate}: {sampled}"),
        WIDTH,
        "  ",
    ));
    for kind in totals.keys() {
        text.push('\n');
        function_table(&mut text, report, *kind, bold);
    }
    let roles = groups(report, role_name);
    if !roles.is_empty() {
        text.push('\n');
        text.push_str(&group_table(report, "role", &roles, bold).render(WIDTH));
    }
    let digests = groups(report, digest_name);
    if !digests.is_empty() {
        text.push('\n');
        digest_table(&mut text, report, &digests, bold);
    }
    let lost = lost_words(report).unwrap_or_else(|| "nothing.".to_owned());
    text.push('\n');
    text.push_str(&wrapped(&format!("Lost: {lost}"), WIDTH, "  "));
    text
}

fn function_table(text: &mut String, report: &ProfileReport, kind: ProfileKind, bold: bool) {
    let all = functions(report, kind);
    let whole = totals(report).get(&kind).map_or(0, |total| total.ns);
    let mut table = Table::new()
        .number("self", "%")
        .number("self", "s")
        .number("total", "%")
        .number("total", "s")
        .flexible(&format!("{}, by function", kind.words()))
        .text("module");
    for sum in all.iter().take(ROWS) {
        let [name, self_share, own, total_share, total, module] = cells(sum, whole);
        table.row([self_share, own, total_share, total, name, module]);
    }
    text.push_str(&table.bold(bold).render(WIDTH));
    let more = all.len().saturating_sub(ROWS);
    if more > 0 {
        let rest = all.iter().skip(ROWS).map(|sum| sum.self_ns);
        let rest = rest.fold(0, u64::saturating_add);
        let share = plain(100.0 * rest as f64 / whole.max(1) as f64, 1);
        let _ = writeln!(
            text,
            "and {} more with {share}% of the time",
            count(more as u64)
        );
    }
}

fn group_table(report: &ProfileReport, what: &str, all: &[GroupSum], bold: bool) -> Table {
    let totals = totals(report);
    let mut table = Table::new().flexible(&format!("by {what}"));
    for kind in totals.keys() {
        table = table.number(kind.words(), "s").number("", "%");
    }
    for group in all.iter().take(ROWS) {
        let mut row = vec![group.name.clone()];
        for (kind, total) in &totals {
            let ns = group.of(*kind).ns;
            row.push(plain(ns as f64 / 1e9, 3));
            row.push(plain(100.0 * ns as f64 / total.ns.max(1) as f64, 1));
        }
        table.row(row);
    }
    table.bold(bold)
}

/// Statements: what the samples say, and what one of them costs.
fn digest_table(text: &mut String, report: &ProfileReport, all: &[GroupSum], bold: bool) {
    let totals = totals(report);
    let whole = totals.get(&ProfileKind::OnCpu).map_or(0, |total| total.ns);
    let mut table = Table::new()
        .number("on CPU", "s")
        .number("", "%")
        .number("off CPU", "s")
        .number("executed", "")
        .number("CPU each", "us")
        .flexible("by statement");
    for group in all.iter().take(ROWS) {
        let cpu = group.of(ProfileKind::OnCpu).ns;
        let known = report.digest(&group.name);
        let executed = known.map_or(0, |digest| digest.statements);
        let each = match executed {
            0 => "–".to_owned(),
            executed => plain(cpu as f64 / 1e3 / executed as f64, 1),
        };
        table.row([
            plain(cpu as f64 / 1e9, 3),
            plain(100.0 * cpu as f64 / whole.max(1) as f64, 1),
            plain(group.of(ProfileKind::OffCpu).ns as f64 / 1e9, 3),
            known.map_or("–".to_owned(), |_| count(executed)),
            each,
            statement_words(report, &group.name, 400),
        ]);
    }
    text.push_str(&table.bold(bold).render(WIDTH));
    let more = all.len().saturating_sub(ROWS);
    if more > 0 {
        let _ = writeln!(text, "and {} more statements", count(more as u64));
    }
}

/// A digest with its fingerprint, or a role as it is; of at most so many characters.
pub(super) fn statement_words(report: &ProfileReport, name: &str, most: usize) -> String {
    let words = match report.digest(name) {
        Some(known) if !known.fingerprint.is_empty() => format!("{name} {}", known.fingerprint),
        _ => name.to_owned(),
    };
    match words.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}
