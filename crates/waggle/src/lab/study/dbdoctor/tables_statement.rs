//! The tables of scene C: what one statement pays, and in which parts.
//!
//! Pure, as [`super::tables`], whose neighbour it is. Nanoseconds a hit, as in the article.
//!
//! Invariant: the sum of a statement's parts stands beside what the whole agent was measured to
//! cost, so that a part that is missing shows.

use waggle_report::study::{StudyCell, StudyRow, StudyTable, StudyValue};

use super::super::published::{DBDOCTOR_PROBES, DBDOCTOR_STATEMENT, Figure, find};
use super::super::values::{claimed, column};
use super::statement::Program;
use super::tables::Figures;
use super::tables_own::{interval, nothing};

/// The cell of scene C.
pub(super) fn statement_cell(cells: &[StudyCell]) -> Option<&StudyCell> {
    cells.iter().find(|cell| cell.id == "c-statement")
}

/// Scene C: what one statement pays, and in which parts.
pub(super) fn statement(cells: &[StudyCell], programs: &[Program]) -> Vec<StudyTable> {
    let mut tables = Vec::new();
    let cell = statement_cell(cells);
    if let Some(cell) = cell {
        tables.push(added(cell));
    }
    if cell.is_some() || !programs.is_empty() {
        tables.push(by_part(cell, programs));
    }
    tables
}

fn estimate(cell: &StudyCell, [value, low, high]: [f64; 3]) -> StudyValue {
    claimed(StudyValue::estimate(value, low, high), cell)
}

/// The latency and CPU time that watching adds to a statement on one connection.
fn added(cell: &StudyCell) -> StudyTable {
    let row = |arm: &waggle_report::lab::Arm| {
        let latency = arm.latency_us;
        let [p50, p95, p99] = [latency.p50, latency.p95, latency.p99].map(|quantile| {
            quantile.map_or_else(
                || StudyValue::absent("not measured"),
                |d| estimate(cell, [d.delta, d.low, d.high]),
            )
        });
        let base = latency.p50.map_or(f64::NAN, |p50| p50.base);
        let figures = Figures::of_arm(cell, &arm.name);
        let cpu = figures.cpu_delta_us().map_or_else(
            || StudyValue::absent("not measured"),
            |parts| estimate(cell, parts),
        );
        StudyRow {
            label: arm.label.clone(),
            cell: Some(cell.id.clone()),
            values: vec![StudyValue::plain(base, 1), p50, p95, p99, cpu],
        }
    };
    let mut rows: Vec<StudyRow> = cell.arms.iter().map(row).collect();
    if let Some(whole) = find(DBDOCTOR_STATEMENT, "statement") {
        rows.push(StudyRow {
            label: "DBdoctor, debug printing on".to_owned(),
            cell: None,
            values: vec![
                nothing(),
                StudyValue::Published {
                    value: whole.value * 1e3,
                    digits: 0,
                },
                nothing(),
                nothing(),
                nothing(),
            ],
        });
    }
    StudyTable {
        id: "scene-c-added".to_owned(),
        title: "Scene C: what watching adds to one statement".to_owned(),
        caption: "Point selects one after the other on one connection: latency as the client sees \
                  it, CPU time of the server a statement. DBdoctor's figure is a sum of printed \
                  times, with the printing."
            .to_owned(),
        row_title: "arm".to_owned(),
        columns: vec![
            column("unwatched", "p50", "µs"),
            column("added", "p50", "µs"),
            column("added", "p95", "µs"),
            column("added", "p99", "µs"),
            column("added", "server CPU", "µs"),
        ],
        rows,
    }
}

/// The cost of each hit, program and trap apart.
fn by_part(cell: Option<&StudyCell>, programs: &[Program]) -> StudyTable {
    let ours = |label: &str, hits, hit, statement| StudyRow {
        label: label.to_owned(),
        cell: cell.map(|cell| cell.id.clone()),
        values: vec![hits, hit, statement],
    };
    let ns = |parts: Option<[f64; 3]>, times: f64| match parts.map(|us| us.map(|us| us * 1e3)) {
        Some(parts) => {
            let [value, low, high] = parts.map(|part| part * times);
            match cell.filter(|cell| !cell.aa_clean) {
                None => StudyValue::level(value, low, high),
                Some(cell) => estimate(cell, [value, low, high]),
            }
        }
        None => StudyValue::absent("not measured"),
    };
    let mut rows = Vec::new();
    let trap = cell.and_then(|cell| Figures::of_arm(cell, "probe-empty").cpu_delta_us());
    // One at the end of each statement; the other probes are where a thread is about to wait.
    let traps = programs.iter().filter(|program| program.kind == "probe");
    let traps: f64 = traps
        .filter_map(|p| Some(p.hits_per_statement?.estimate))
        .sum();
    if traps > 0.0 {
        let hits = StudyValue::plain(traps, 2);
        rows.push(ours("traps", hits, ns(trap, 1.0), ns(trap, traps)));
    }
    for program in programs {
        rows.push(ours(
            &format!("{} ({})", program.name, program.kind),
            interval(program.hits_per_statement, 1.0),
            interval(program.ns_per_hit, 1.0),
            interval(program.ns_per_statement, 1.0),
        ));
    }
    let sum: f64 = programs
        .iter()
        .filter_map(|p| Some(p.ns_per_statement?.estimate))
        .sum();
    let is_clean = cell.is_some_and(|cell| cell.aa_clean);
    if let (Some([trap, ..]), true) = (trap, traps > 0.0 && is_clean) {
        let all = StudyValue::plain(sum + trap * 1e3 * traps, 0);
        rows.push(ours("sum of these", nothing(), nothing(), all));
    }
    if let Some(cell) = cell {
        let whole = ns(Figures::of(cell).cpu_delta_us(), 1.0);
        rows.push(ours("the whole agent", nothing(), nothing(), whole));
    }
    rows.extend(published_parts());
    StudyTable {
        id: "scene-c-parts".to_owned(),
        title: "Scene C: the cost of each hit, program and trap apart".to_owned(),
        caption: "Programs: the kernel's run time over runs, in slices apart from all windows, \
                  since counting costs some 30 ns a run. Traps: server CPU a statement with the \
                  probe at its end and an empty program, less without, from windows; for each \
                  hit of any probe. Tracepoints have no trap; those on switches run for every \
                  thread of the host, which pays for its own. The whole agent: server CPU a \
                  statement in windows with it, less without."
            .to_owned(),
        row_title: "part".to_owned(),
        columns: vec![
            column("", "hits a statement", ""),
            column("", "a hit", "ns"),
            column("", "a statement", "ns"),
        ],
        rows,
    }
}

fn published_parts() -> Vec<StudyRow> {
    let row = |figures: &'static [Figure], key: &str, who: &str| {
        let figure = find(figures, key)?;
        Some(StudyRow {
            label: format!("{}: {who}", figure.what),
            cell: None,
            values: vec![nothing(), figure.value(), nothing()],
        })
    };
    let statement = [
        "request/program",
        "request/hit",
        "return/program",
        "return/hit",
    ];
    let probes = ["uprobe", "uretprobe", "usdt"];
    let statement = statement
        .iter()
        .filter_map(|key| row(DBDOCTOR_STATEMENT, key, "DBdoctor"));
    let probes = probes
        .iter()
        .filter_map(|key| row(DBDOCTOR_PROBES, key, "DBdoctor, loop"));
    statement.chain(probes).collect()
}
