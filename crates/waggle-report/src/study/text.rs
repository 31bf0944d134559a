//! A study as text for a terminal: the answer, the tables beside the published figures, the cells.

use super::{StudyCell, StudyReport, StudyTable, StudyValue};
use crate::lab::{Arm, Ratio, wrapped};
use crate::quantity::{count, decimals, plain, seconds, signed};
use crate::table::{Table, WIDTH};

/// What stands in a cell for a reading that did not happen.
const ABSENT: &str = "–";

/// The study as text of about 100 columns. `bold` prints table headings in bold (ANSI).
pub fn text(report: &StudyReport, bold: bool) -> String {
    let mut text = wrapped(&report.title, WIDTH, "");
    text.push('\n');
    text.push_str(&wrapped(&report.answer, WIDTH, ""));
    text.push('\n');
    text.push_str(&wrapped(&setting(report), WIDTH, ""));
    for table in &report.tables {
        text.push('\n');
        text.push_str(&wrapped(&table.title, WIDTH, ""));
        if !table.caption.is_empty() {
            text.push_str(&wrapped(&table.caption, WIDTH, ""));
        }
        if table.rows.is_empty() {
            text.push_str("Nothing was measured for this table.\n");
        } else {
            text.push_str(&figures(table).bold(bold).render(WIDTH));
        }
    }
    text.push('\n');
    text.push_str(&cells(report).bold(bold).render(WIDTH));
    text.push('\n');
    let of_cells = report.cells.iter().flat_map(|cell| {
        let title = cell.full_title();
        cell.notes
            .iter()
            .map(move |note| format!("{title}: {note}"))
    });
    for note in report.notes.iter().cloned().chain(of_cells) {
        text.push_str(&wrapped(&note, WIDTH, "  "));
    }
    text
}

fn setting(report: &StudyReport) -> String {
    let windows: usize = report.cells.iter().map(|cell| cell.windows.len()).sum();
    let unclean = report.cells.iter().filter(|cell| !cell.aa_clean).count();
    let clean = match unclean {
        0 => "A/A clean in every cell".to_owned(),
        1 => "A/A NOT CLEAN in one cell, of which nothing is claimed".to_owned(),
        cells => format!("A/A NOT CLEAN in {cells} cells, of which nothing is claimed"),
    };
    format!(
        "{}, {} cells, {} windows in {}; {clean}.",
        report.server_name(),
        report.cells.len(),
        count(windows as u64),
        seconds(report.duration_s),
    )
}

fn figures(table: &StudyTable) -> Table {
    let mut shown = Table::new().flexible(&table.row_title);
    for column in &table.columns {
        let title = format!("{} {}", column.group, column.title);
        shown = shown.number(title.trim(), &column.unit);
    }
    for row in &table.rows {
        let mut values = vec![row.label.clone()];
        // A row that is too short or too long is damage: it shows what there is.
        values.extend(
            (0..table.columns.len()).map(|at| row.values.get(at).map_or(ABSENT.to_owned(), value)),
        );
        shown.row(values);
    }
    shown
}

/// A value as it stands in a table of text.
pub(crate) fn value(value: &StudyValue) -> String {
    match value {
        StudyValue::Estimate {
            value, low, high, ..
        } if [value, low, high].iter().all(|part| part.is_finite()) => {
            interval([*value, *low, *high], signed)
        }
        StudyValue::Level { value, low, high }
            if [value, low, high].iter().all(|part| part.is_finite()) =>
        {
            interval([*value, *low, *high], plain)
        }
        StudyValue::Plain { value, digits } | StudyValue::Published { value, digits }
            if value.is_finite() =>
        {
            thousands(*value, usize::from(*digits).min(6))
        }
        StudyValue::Text { text } => text.clone(),
        _ => ABSENT.to_owned(),
    }
}

/// A figure with separators between thousands where it is a whole number.
fn thousands(value: f64, digits: usize) -> String {
    // Beyond 2^53 a float is no count any more.
    let whole = digits == 0 && (0.0..9.0e15).contains(&value);
    if whole {
        count(value.round() as u64)
    } else {
        plain(value, digits)
    }
}

fn interval([value, low, high]: [f64; 3], print: fn(f64, usize) -> String) -> String {
    let digits = decimals((high - low) / 2.0, 1);
    let part = |number: f64| print(number, digits);
    format!("{} ({} to {})", part(value), part(low), part(high))
}

fn cells(report: &StudyReport) -> Table {
    let mut table = Table::new()
        .flexible("cell")
        .text("arm")
        .number("server CPU", "%, 95% CI")
        .number("queries/s", "%, 95% CI")
        .number("pairs", "")
        .text("verdict");
    let mut part = "";
    for cell in &report.cells {
        if cell.part != part {
            part = &cell.part;
            table.row([part]);
        }
        for (index, arm) in cell.arms.iter().enumerate() {
            let title = match (index, part.is_empty()) {
                (0, true) => cell.title.clone(),
                (0, false) => format!("  {}", cell.title),
                _ => String::new(),
            };
            table.row(row(cell, arm, title));
        }
    }
    table
}

fn row(cell: &StudyCell, arm: &Arm, title: String) -> [String; 6] {
    let verdict = if cell.aa_clean {
        arm.verdict.words()
    } else {
        "not claimed"
    };
    let ratio = |ratio: Option<Ratio>| {
        ratio
            .filter(Ratio::is_finite)
            .map_or(ABSENT.to_owned(), |r| {
                let part = |ratio: f64| signed((ratio - 1.0) * 100.0, 1);
                format!("{} ({} to {})", part(r.estimate), part(r.low), part(r.high))
            })
    };
    [
        title,
        arm.name.clone(),
        ratio(arm.cpu_ratio),
        ratio(arm.qps_ratio),
        count(arm.windows),
        verdict.to_owned(),
    ]
}
