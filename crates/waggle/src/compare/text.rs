//! A comparison as text for a terminal: what differs around the runs first, then the figures.

use std::fmt::Write as _;

use waggle_foreign::is_harmful;
use waggle_report::lab::wrapped;
use waggle_report::quantity::{decimals, plain, signed};
use waggle_report::table::{Table, WIDTH};

use super::args::{Plan, Side};
use super::around::Difference;
use super::change::{Change, Effect};

/// Text of about 100 columns; `bold` prints headings in bold (ANSI).
pub(super) fn text(
    plan: &Plan,
    differences: &[Difference],
    changes: &[Change],
    notes: &[String],
    bold: bool,
) -> String {
    let mut text = String::new();
    side(&mut text, "A", &plan.first);
    side(&mut text, "B", &plan.second);
    text.push('\n');
    if differences.is_empty() {
        text.push_str(
            "Nothing that was noted differs around them: kernel, server, settings and load are the \
             same.\n",
        );
    } else {
        let mut table = Table::new()
            .text("differs around them")
            .flexible("A")
            .text("B");
        for difference in differences {
            table.row([&difference.what, &difference.first, &difference.second]);
        }
        text.push_str(&table.bold(bold).render(WIDTH));
    }
    text.push('\n');
    text.push_str(&figures(changes).bold(bold).render(WIDTH));
    text.push('\n');
    let reading = format!(
        "B less A with 95% intervals; verdicts are corrected for {} comparisons (Holm); \"no \
         difference\" means that the interval lies within ±{}% of A's base.",
        changes.len(),
        plain(plan.margin * 100.0, 2)
    );
    text.push_str(&wrapped(&reading, WIDTH, ""));
    for note in notes {
        text.push_str(&wrapped(note, WIDTH, "  "));
    }
    text
}

fn side(text: &mut String, name: &str, side: &Side) {
    let facts = side.run.facts();
    let _ = writeln!(
        text,
        "{name}  {}  ({} {}, {})",
        clean(&side.path.display().to_string()),
        clean(&facts.verb),
        clean(&facts.name),
        clean(&facts.started),
    );
}

fn figures(changes: &[Change]) -> Table {
    let cells = changes.iter().any(|change| change.cell.is_some());
    let mut table = Table::new();
    if cells {
        table = table.flexible("cell");
    }
    table = if cells {
        table.text("arm")
    } else {
        table.flexible("arm")
    };
    table = table
        .text("outcome")
        .number("A", "")
        .number("B", "")
        .number("B less A, 95% CI", "")
        .text("unit")
        .text("verdict");
    for change in changes {
        let mut row = Vec::with_capacity(8);
        if cells {
            row.push(change.cell.clone().unwrap_or_default());
        }
        let level = change.level;
        row.extend([
            change.arm.clone(),
            change.outcome.to_owned(),
            alone(&change.first, level),
            alone(&change.second, level),
            with_interval(&change.difference),
            change.unit.to_owned(),
            change.verdict.words().to_owned(),
        ]);
        table.row(row);
    }
    table
}

fn digits(effect: &Effect) -> usize {
    decimals((effect.high - effect.low) / 2.0, 1)
}

fn alone(effect: &Effect, level: bool) -> String {
    let print = if level { plain } else { signed };
    print(effect.estimate, digits(effect))
}

fn with_interval(effect: &Effect) -> String {
    let digits = digits(effect);
    let part = |number: f64| signed(number, digits);
    format!(
        "{} ({} to {})",
        part(effect.estimate),
        part(effect.low),
        part(effect.high)
    )
}

/// Run files are foreign: nothing in them commands the terminal.
fn clean(text: &str) -> String {
    text.chars()
        .map(|c| if is_harmful(c) { ' ' } else { c })
        .collect()
}
