//! The report of the study: tables and curves together, the answer in words, the figures beside.
//!
//! Neighbours: [`super::tables`], [`super::tables_statement`] and [`super::tables_own`] make the
//! parts.
//!
//! Invariant: the answer claims nothing of a cell whose A/A check failed.

use waggle_report::study::{Curve, CurvePoint, Published, StudyCell, StudyReport, StudyValue};

use super::super::published::{
    DBDOCTOR_AGENT, DBDOCTOR_PROBES, DBDOCTOR_SCENES, DBDOCTOR_STATEMENT, Figure, find,
};
use super::super::{common_notes, within_cells};
use super::own_cost::OwnCost;
use super::statement::Program;
use super::tables::{self, Figures};
use super::{tables_own, tables_statement};

/// What the study found, part by part.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) cells: Vec<StudyCell>,
    pub(super) programs: Vec<Program>,
    pub(super) own: OwnCost,
    /// What failed or was left out.
    pub(super) notes: Vec<String>,
}

/// Fills a report that has what every study has in common.
pub(super) fn fill(mut report: StudyReport, mut found: Found) -> StudyReport {
    let common = common_notes(&mut found.cells);
    let cells = &found.cells;
    report.title = "DBdoctor's overhead study, repeated with waggle's agent".to_owned();
    report.question = "What does an agent that captures every statement cost the server, and what \
                       does it use itself?"
        .to_owned();
    report.answer = answer(&found);
    report.tables = [
        tables::article(cells),
        tables::scenes(cells),
        tables_statement::statement(cells, &found.programs),
        tables_own::own(&found.own),
    ]
    .concat();
    report.curves = [scene_curves(cells), tables_own::curves(&found.own)].concat();
    report.agent = tables_own::agent(&found.own);
    report.published = published(cells);
    let line = Vec::from_iter(tables_own::line(&found.own));
    report.notes = [notes(cells), line, common, found.own.notes, found.notes].concat();
    report.cells = found.cells;
    report
}

/// Dose curves: throughput and server CPU over threads, a curve a mode of scene A.
fn scene_curves(cells: &[StudyCell]) -> Vec<Curve> {
    let mut curves = Vec::new();
    for (mode, title) in tables::modes() {
        let prefix = format!("a-{mode}-t");
        let of_mode = || cells.iter().filter(|cell| cell.id.starts_with(&prefix));
        let points = |value: fn(&Figures<'_>) -> Option<[f64; 3]>| -> Vec<CurvePoint> {
            let point = |cell: &StudyCell| {
                let [estimate, low, high] = value(&Figures::of(cell))?;
                Some(CurvePoint {
                    cell: cell.id.clone(),
                    arm: cell.subject.clone(),
                    x: f64::from(cell.workload.threads),
                    estimate,
                    low: Some(low),
                    high: Some(high),
                    unclaimed: !cell.aa_clean,
                })
            };
            let mut points: Vec<CurvePoint> = of_mode().filter_map(point).collect();
            points.sort_by(|one, two| one.x.total_cmp(&two.x));
            points
        };
        let curve = |id: &str, what: &str, y: &str, unit: &str, points| Curve {
            id: format!("{mode}-{id}"),
            title: format!("Scene A, {title}: {what}"),
            x_title: "threads".to_owned(),
            x_log: true,
            y_title: y.to_owned(),
            unit: unit.to_owned(),
            points,
            published: Vec::new(),
        };
        let throughput = points(|figures| figures.qps_change());
        if throughput.len() < 2 {
            continue;
        }
        let cpu = points(|figures| figures.cpu_delta_us());
        let (what, y) = ("throughput under the watch", "change of throughput");
        curves.push(curve("throughput", what, y, "%", throughput));
        let (what, y) = ("server CPU under the watch", "change of CPU a statement");
        curves.push(curve("cpu", what, y, "µs", cpu));
    }
    curves
}

/// Every published figure, with ours where the same was measured.
fn published(cells: &[StudyCell]) -> Vec<Published> {
    let mut all = Vec::new();
    for figure in DBDOCTOR_SCENES {
        let mode = figure.key.split('/').next().unwrap_or_default();
        let cell = tables::beside(cells, mode);
        let ours = cell
            .filter(|cell| cell.aa_clean && figure.key.ends_with("/qps/change"))
            .and_then(|cell| Figures::of(cell).qps_change())
            .map(|[value, low, high]| StudyValue::estimate(value, low, high));
        all.push(figure.entry(cell.map(|cell| cell.id.as_str()), ours));
    }
    let rest: [&'static [Figure]; 3] = [DBDOCTOR_STATEMENT, DBDOCTOR_PROBES, DBDOCTOR_AGENT];
    all.extend(
        rest.into_iter()
            .flatten()
            .map(|figure| figure.entry(None, None)),
    );
    all
}

/// What a reader must know of the comparison.
fn notes(cells: &[StudyCell]) -> Vec<String> {
    let mut notes = vec![
        "DBdoctor's figures are means of 5 runs without a spread, on another machine, server and \
         kernel: they show what was published, and differences of a percent between theirs and \
         ours mean nothing."
            .to_owned(),
    ];
    if cells.iter().any(|cell| cell.id.starts_with("a-")) {
        notes.push(
            "By Little's law the article's own figures need about 238 connections in read-only, 68 \
             in read-write and 104 in write-only (queries a second, 16, 20 and 6 to a transaction, \
             times latency), if its latency is a mean; the most it names is 64. So it is not said \
             which point of its series the tables show."
                .to_owned(),
        );
        notes.push(
            "The load generator runs on the same processors as the server, as in the article; on a \
             machine of few processors, more threads mean more waiting, not more work."
                .to_owned(),
        );
    }
    notes.extend(within_cells(cells.len()));
    let unclean = cells.iter().filter(|cell| !cell.aa_clean).count();
    if unclean > 0 {
        notes.push(format!(
            "{unclean} of {} cells have an A/A check that is not clean; of sound ones, up to one \
             in twenty has. They claim nothing.",
            cells.len()
        ));
    }
    notes
}

/// The answer in a few sentences.
fn answer(found: &Found) -> String {
    let mut sentences = Vec::new();
    let changes: Vec<String> = tables::modes()
        .filter_map(|(mode, title)| change(&found.cells, mode, title))
        .collect();
    if !changes.is_empty() {
        sentences.push(format!(
            "Watched, throughput changed by {}.",
            changes.join("; ")
        ));
    }
    sentences.extend(cores(&found.cells));
    sentences.extend(one_statement(&found.cells));
    sentences.extend(own(&found.own));
    if sentences.is_empty() {
        return "Nothing was measured that can be claimed.".to_owned();
    }
    sentences.join(" ")
}

fn change(cells: &[StudyCell], mode: &str, title: &str) -> Option<String> {
    let cell = tables::beside(cells, mode)?;
    let [value, low, high] = Figures::of(cell).qps_change().filter(|_| cell.aa_clean)?;
    let theirs = find(DBDOCTOR_SCENES, &format!("{mode}/qps/change"))?.value;
    Some(format!(
        "{value:+.2}% ({low:+.2} to {high:+.2}) in {title} at {} threads (DBdoctor: {theirs:+.2}%)",
        cell.workload.threads
    ))
}

/// The rule of thumb, from the read-write mix or what there is.
fn cores(cells: &[StudyCell]) -> Option<String> {
    let cell = tables::modes().find_map(|(mode, _)| tables::beside(cells, mode))?;
    let figures = Figures::of(cell);
    let [us, low, high] = figures.cpu_delta_us().filter(|_| cell.aa_clean)?;
    let agent = figures.agent_us()?;
    Some(format!(
        "10,000 statements a second cost {:.3} cores ({:.3} to {:.3}) in the server and {:.3} in \
         the agent (DBdoctor: 0.2 and 0.22).",
        us / 100.0,
        low / 100.0,
        high / 100.0,
        agent / 100.0
    ))
}

fn one_statement(cells: &[StudyCell]) -> Option<String> {
    let cell = tables_statement::statement_cell(cells).filter(|cell| cell.aa_clean)?;
    let arm = cell.arms.iter().find(|arm| arm.name == cell.subject)?;
    let p50 = arm.latency_us.p50.filter(|p50| p50.is_finite())?;
    Some(format!(
        "A single statement took {:+.2} µs ({:+.2} to {:+.2}) longer at the median, of {:.1} µs \
         (DBdoctor, with debug printing: 147 µs).",
        p50.delta, p50.low, p50.high, p50.base
    ))
}

fn own(own: &OwnCost) -> Option<String> {
    let most = own.rising.iter().max_by(|one, two| {
        let per_s = |c: &super::own_cost::Condition| c.used.statements_per_s.unwrap_or(0.0);
        per_s(one).total_cmp(&per_s(two))
    })?;
    let cores = most.used.cores()?;
    Some(format!(
        "At {:.0} statements a second the agent used {:.1}% of a core ({:.1} to {:.1}) and {:.3} \
         GiB (DBdoctor at 25,000: 61% and 0.168 GiB).",
        most.used.statements_per_s?,
        cores.estimate * 100.0,
        cores.low * 100.0,
        cores.high * 100.0,
        most.used.rss_bytes as f64 / (1u64 << 30) as f64
    ))
}

#[cfg(test)]
mod tests;
