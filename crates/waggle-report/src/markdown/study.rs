//! A study as Markdown.

use super::lab::{arm_notes, arms, load, sight};
use super::{ABSENT, Grid, bullets, code, environment, paragraph, titles};
use crate::lab::{Arm, ProbeFacts};
use crate::quantity::{bytes, count, plain, seconds};
use crate::study::{StudyReport, StudyTable, value_text};

/// The whole study: the answer, the tables, the agent, every cell's arms.
pub fn study(report: &StudyReport) -> String {
    let windows: usize = report.cells.iter().map(|cell| cell.windows.len()).sum();
    let clean = report.cells.iter().filter(|cell| cell.aa_clean).count();
    let setting = format!(
        "{}; {} windows in {}; the base compared with itself is clean in {clean} of {} cells.",
        report.server_name(),
        count(windows as u64),
        seconds(report.duration_s),
        report.cells.len(),
    );
    let mut parts = vec![
        format!("# {}", paragraph(&report.answer)),
        paragraph(&format!("{}. {}", report.title, report.question)),
        paragraph(&setting),
    ];
    parts.extend(report.tables.iter().map(table));
    parts.push(agent(report));
    parts.push(published(report));
    parts.push(sight(&all_arms(report)));
    for cell in &report.cells {
        parts.push(format!("## {}", paragraph(&cell.full_title())));
        parts.push(paragraph(&load(&cell.workload)));
        parts.push(arms(&cell.arms, cell.aa_clean));
        let notes = arm_notes(&cell.arms).into_iter();
        parts.push(bullets(notes.chain(cell.notes.iter().cloned())));
    }
    let probes: Vec<ProbeFacts> = report
        .cells
        .iter()
        .flat_map(|cell| cell.probes.iter().cloned())
        .collect();
    parts.extend([
        "## What to know\n".to_owned(),
        bullets(&report.notes),
        "## Environment\n".to_owned(),
        environment(
            &report.environment,
            &report.server,
            &probes,
            &report.waggle_version,
        ),
        "## Repeat it\n".to_owned(),
        code(&report.command),
    ]);
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

/// Every arm once, in the order met.
fn all_arms(report: &StudyReport) -> Vec<Arm> {
    let mut all: Vec<Arm> = Vec::new();
    for arm in report.cells.iter().flat_map(|cell| &cell.arms) {
        if !all.iter().any(|known| known.name == arm.name) {
            all.push(arm.clone());
        }
    }
    all
}

fn table(table: &StudyTable) -> String {
    let columns = table.columns.iter().map(|column| {
        let name = format!("{} {}", column.group, column.title);
        if column.unit.is_empty() {
            name.trim().to_owned()
        } else {
            format!("{}, {}", name.trim(), column.unit)
        }
    });
    let heads: Vec<String> = [table.row_title.clone()]
        .into_iter()
        .chain(columns)
        .collect();
    let mut grid = Grid::new(&heads);
    for row in &table.rows {
        let values = row.values.iter().map(value_text);
        grid.row(
            &[row.label.clone()]
                .into_iter()
                .chain(values)
                .collect::<Vec<_>>(),
        );
    }
    let caption = if table.caption.is_empty() {
        String::new()
    } else {
        format!("{}\n", paragraph(&table.caption))
    };
    let figures = if table.rows.is_empty() {
        "Nothing was measured for this table.\n".to_owned()
    } else {
        grid.text()
    };
    format!("## {}\n{caption}{figures}", paragraph(&table.title))
}

fn agent(report: &StudyReport) -> String {
    if report.agent.is_empty() {
        return String::new();
    }
    let mut grid = Grid::new(&titles(&[
        "the agent's own cost",
        "statements/s",
        "cores (95% CI)",
        "CPU, µs/stmt",
        "memory",
        "captured of executed",
        "note",
    ]));
    let figure = |value: Option<f64>, digits: usize| {
        value
            .filter(|value| value.is_finite())
            .map_or(ABSENT.to_owned(), |value| plain(value, digits))
    };
    for cost in &report.agent {
        let cores = match (cost.cores_low, cost.cores_high) {
            (Some(low), Some(high)) => format!(
                "{} ({} to {})",
                figure(cost.cores, 4),
                plain(low, 4),
                plain(high, 4)
            ),
            _ => figure(cost.cores, 4),
        };
        grid.row(&[
            cost.label.clone(),
            figure(cost.statements_per_s, 0),
            cores,
            figure(cost.cpu_us_per_statement, 2),
            cost.rss_bytes.map_or(ABSENT.to_owned(), bytes),
            format!(
                "{} of {}",
                cost.captured.map_or(ABSENT.to_owned(), count),
                cost.executed.map_or(ABSENT.to_owned(), count)
            ),
            cost.note.clone(),
        ]);
    }
    grid.text()
}

fn published(report: &StudyReport) -> String {
    if report.published.is_empty() {
        return String::new();
    }
    let mut grid = Grid::new(&titles(&[
        "published figure",
        "published",
        "here (95% CI)",
        "unit",
        "source",
    ]));
    for figure in &report.published {
        grid.row(&[
            figure.what.clone(),
            if figure.value.is_finite() {
                figure.value.to_string()
            } else {
                ABSENT.to_owned()
            },
            figure.ours.as_ref().map_or(ABSENT.to_owned(), value_text),
            figure.unit.clone(),
            figure.source.clone(),
        ]);
    }
    grid.text()
}
