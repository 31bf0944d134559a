//! The article's tables, measured again: what a study found, laid out beside what was published.
//!
//! Pure: from cells, programs and conditions to tables, curves and the answer. Neighbours: `cells`
//! and [`super::own_cost`] say what is measured, [`super::super::published`] has the article's
//! figures, `waggle_report::study` shows the result.
//!
//! Invariant: an estimate keeps its interval; a level has none and is shown as one. What a cell
//! with an unclean A/A check shows is marked as not claimed.

use waggle_report::lab::{Arm, Difference, Ratio};
use waggle_report::study::{StudyCell, StudyRow, StudyTable, StudyValue};

use super::super::published::{DBDOCTOR_SCENES, find};
use super::super::values::{claimed, column};
use super::cells::MODES;

/// A statement's microseconds of CPU are so many cores for 10,000 statements a second.
const CORES_PER_US: f64 = 10_000.0 / 1e6;

/// Whose figures.
const THEIRS: &str = "DBdoctor";
const OURS: &str = "waggle";

/// A row that stands for a cell.
fn row(label: String, cell: &StudyCell, values: Vec<StudyValue>) -> StudyRow {
    StudyRow {
        label,
        cell: Some(cell.id.clone()),
        values,
    }
}

/// A cell's figures in the units of tables.
pub(super) struct Figures<'a> {
    pub(super) cell: &'a StudyCell,
    agent: Option<&'a Arm>,
}

impl<'a> Figures<'a> {
    /// The figures of `cell`, whose subject is the agent.
    pub(super) fn of(cell: &'a StudyCell) -> Self {
        let agent = cell.arms.iter().find(|arm| arm.name == cell.subject);
        Self { cell, agent }
    }

    /// The arm of this name instead.
    pub(super) fn of_arm(cell: &'a StudyCell, name: &str) -> Self {
        let agent = cell.arms.iter().find(|arm| arm.name == name);
        Self { cell, agent }
    }

    fn estimate(&self, parts: Option<[f64; 3]>) -> StudyValue {
        let why = self.agent.and_then(|arm| arm.note.clone());
        let why = why.unwrap_or_else(|| "not measured".to_owned());
        match parts {
            Some([value, low, high]) => claimed(StudyValue::estimate(value, low, high), self.cell),
            None => StudyValue::absent(&why),
        }
    }

    /// Statements a second of the base, over its undisturbed windows.
    pub(super) fn qps_base(&self) -> Option<f64> {
        let base = |w: &&waggle_report::lab::Window| w.arm == self.cell.base.name && !w.discarded;
        let windows = self.cell.windows.iter().filter(base);
        let (statements, seconds) = windows.fold((0.0, 0.0), |(statements, seconds), window| {
            (
                statements + window.statements as f64,
                seconds + window.duration_s,
            )
        });
        (seconds > 0.0 && statements > 0.0).then_some(statements / seconds)
    }

    fn qps(&self) -> Option<Ratio> {
        self.agent?.qps_ratio.filter(Ratio::is_finite)
    }

    fn cpu(&self) -> Option<Difference> {
        self.agent?.cpu()
    }

    fn p95(&self) -> Option<Difference> {
        self.agent?.latency_us.p95.filter(Difference::is_finite)
    }

    /// Change of throughput, %.
    pub(super) fn qps_change(&self) -> Option<[f64; 3]> {
        let ratio = self.qps()?;
        Some([ratio.estimate, ratio.low, ratio.high].map(|ratio| (ratio - 1.0) * 100.0))
    }

    /// Change of the server's CPU time a statement, us.
    pub(super) fn cpu_delta_us(&self) -> Option<[f64; 3]> {
        self.cpu().map(parts)
    }

    /// Change of the 95th percentile of latency, %.
    fn p95_change(&self) -> Option<[f64; 3]> {
        self.p95().and_then(share)
    }

    /// Cores of the server under the base.
    fn cores_base(&self) -> Option<f64> {
        Some(self.cpu()?.base * self.qps_base()? / 1e6)
    }

    /// CPU time of the agent's own process a statement, us.
    pub(super) fn agent_us(&self) -> Option<f64> {
        let arm = self.agent.filter(|arm| arm.executed > 0)?;
        Some(arm.tool?.cpu_us_per_statement)
    }

    fn captured(&self) -> Option<f64> {
        let arm = self.agent?;
        let captured = arm.captured?;
        (arm.executed > 0).then(|| 100.0 * captured as f64 / arm.executed as f64)
    }

    fn verdict(&self) -> StudyValue {
        match self.agent {
            Some(_) if !self.cell.aa_clean => StudyValue::text("A/A not clean: no claim"),
            Some(arm) => StudyValue::text(arm.verdict.words()),
            None => StudyValue::absent("not measured"),
        }
    }
}

fn parts(difference: Difference) -> [f64; 3] {
    [difference.delta, difference.low, difference.high]
}

/// A difference as a share of its base, %.
fn share(difference: Difference) -> Option<[f64; 3]> {
    let base = difference.base;
    (base > 0.0).then(|| parts(difference).map(|part| 100.0 * part / base))
}

fn plain(value: Option<f64>, digits: u8) -> StudyValue {
    value.map_or_else(
        || StudyValue::absent("not measured"),
        |value| StudyValue::plain(value, digits),
    )
}

/// The cells of a mode of scene A, by rising threads, or of scene B.
fn cells_of<'a>(cells: &'a [StudyCell], mode: &str) -> Vec<&'a StudyCell> {
    let prefix = format!("a-{mode}-t");
    let of_mode =
        |cell: &&StudyCell| cell.id.starts_with(&prefix) || cell.id == format!("b-{mode}");
    let mut found: Vec<&StudyCell> = cells.iter().filter(of_mode).collect();
    found.sort_by_key(|cell| cell.workload.threads);
    found
}

/// The cell that is laid beside the article's figures of a mode: the one with most threads.
pub(super) fn beside<'a>(cells: &'a [StudyCell], mode: &str) -> Option<&'a StudyCell> {
    cells_of(cells, mode).pop()
}

/// Modes of scenes A and B: key and title.
pub(super) fn modes() -> impl Iterator<Item = (&'static str, &'static str)> {
    let mixes = MODES.iter().map(|(key, _, title)| (*key, *title));
    mixes.chain([("tpcc", "TPC-C")])
}

/// Scenes A and B: a table a mode, a row a number of threads.
pub(super) fn scenes(cells: &[StudyCell]) -> Vec<StudyTable> {
    let mut tables = Vec::new();
    for (mode, title) in modes() {
        let cells = cells_of(cells, mode);
        if cells.is_empty() {
            continue;
        }
        let scene = if mode == "tpcc" { "B" } else { "A" };
        tables.push(StudyTable {
            id: format!("scene-{}-{mode}", scene.to_lowercase()),
            title: format!("Scene {scene}: {title}"),
            caption:
                "Changes with their 95% intervals, from windows with and without the agent in \
                      random order; latency is that of whole transactions, in closed loop."
                    .to_owned(),
            row_title: "threads".to_owned(),
            columns: vec![
                column("unwatched", "throughput", "statements/s"),
                column("unwatched", "server CPU", "cores"),
                column("unwatched", "latency p95", "ms"),
                column("watched", "throughput", "%"),
                column("watched", "server CPU a statement", "µs"),
                column("watched", "latency p95", "%"),
                column("agent", "CPU a statement", "µs"),
                column("agent", "captured", "%"),
                column("", "server CPU", ""),
            ],
            rows: cells.into_iter().map(scene_row).collect(),
        });
    }
    tables
}

fn scene_row(cell: &StudyCell) -> StudyRow {
    let figures = Figures::of(cell);
    let values = vec![
        plain(figures.qps_base(), 0),
        plain(figures.cores_base(), 2),
        plain(figures.p95().map(|p95| p95.base / 1e3), 2),
        figures.estimate(figures.qps_change()),
        figures.estimate(figures.cpu_delta_us()),
        figures.estimate(figures.p95_change()),
        plain(figures.agent_us(), 2),
        plain(figures.captured(), 3),
        figures.verdict(),
    ];
    row(cell.workload.threads.to_string(), cell, values)
}

/// A published figure of scenes A and B.
fn printed(mode: &str, what: &str) -> StudyValue {
    find(DBDOCTOR_SCENES, &format!("{mode}/{what}")).map_or_else(
        || StudyValue::absent("not published"),
        |figure| figure.value(),
    )
}

/// The article's own tables, with ours beside each figure.
pub(super) fn article(cells: &[StudyCell]) -> Vec<StudyTable> {
    if !modes().any(|(mode, _)| beside(cells, mode).is_some()) {
        return Vec::new();
    }
    vec![
        article_throughput(cells),
        article_cpu(cells),
        article_latency(cells),
        per_ten_thousand(cells),
    ]
}

/// A table of the article: a row for each mode that was measured.
fn article_table(
    (id, title): (&str, &str),
    columns: &[(&str, &str, &str)],
    cells: &[StudyCell],
    values: &dyn Fn(&str, &Figures<'_>) -> Vec<StudyValue>,
) -> StudyTable {
    let of_mode = |(mode, title): (&str, &str)| {
        let cell = beside(cells, mode)?;
        let label = format!("{title}, {} threads", cell.workload.threads);
        Some(row(label, cell, values(mode, &Figures::of(cell))))
    };
    let columns = columns
        .iter()
        .map(|(group, title, unit)| column(group, title, unit));
    StudyTable {
        id: id.to_owned(),
        title: title.to_owned(),
        caption: "DBdoctor names no number of threads for its figures; ours are of the most."
            .to_owned(),
        row_title: "load".to_owned(),
        columns: columns.collect(),
        rows: modes().filter_map(of_mode).collect(),
    }
}

fn article_throughput(cells: &[StudyCell]) -> StudyTable {
    let title = "Throughput, beside DBdoctor's figures";
    let columns = [
        (THEIRS, "unwatched", "statements/s"),
        (THEIRS, "watched", "statements/s"),
        (THEIRS, "change", "%"),
        (OURS, "unwatched", "statements/s"),
        (OURS, "change", "%"),
    ];
    article_table(
        ("article-throughput", title),
        &columns,
        cells,
        &|mode, ours| {
            vec![
                printed(mode, "qps/off"),
                printed(mode, "qps/on"),
                printed(mode, "qps/change"),
                plain(ours.qps_base(), 0),
                ours.estimate(ours.qps_change()),
            ]
        },
    )
}

fn article_cpu(cells: &[StudyCell]) -> StudyTable {
    let title = "CPU of the server, beside DBdoctor's figures (theirs of the process, while \
                 throughput changed too; our change is of CPU a statement)";
    let columns = [
        (THEIRS, "unwatched", "%"),
        (THEIRS, "watched", "%"),
        (OURS, "unwatched", "%"),
        (OURS, "change a statement", "%"),
    ];
    article_table(("article-cpu", title), &columns, cells, &|mode, ours| {
        vec![
            printed(mode, "cpu/off"),
            printed(mode, "cpu/on"),
            plain(ours.cores_base().map(|cores| cores * 100.0), 0),
            ours.estimate(ours.cpu().and_then(share)),
        ]
    })
}

fn article_latency(cells: &[StudyCell]) -> StudyTable {
    let title = "Latency, beside DBdoctor's figures (which quantile theirs is, is not said; ours: \
                 p95)";
    let columns = [
        (THEIRS, "unwatched", "ms"),
        (THEIRS, "watched", "ms"),
        (OURS, "unwatched", "ms"),
        (OURS, "change", "%"),
    ];
    article_table(
        ("article-latency", title),
        &columns,
        cells,
        &|mode, ours| {
            vec![
                printed(mode, "latency/off"),
                printed(mode, "latency/on"),
                plain(ours.p95().map(|p95| p95.base / 1e3), 1),
                ours.estimate(ours.p95_change()),
            ]
        },
    )
}

/// The article's rule of thumb: cores for 10,000 statements a second.
fn per_ten_thousand(cells: &[StudyCell]) -> StudyTable {
    let scaled = |parts: [f64; 3]| parts.map(|part| part * CORES_PER_US);
    let ours = |(mode, title): (&str, &str)| {
        let cell = beside(cells, mode)?;
        let figures = Figures::of(cell);
        let values = vec![
            figures.estimate(figures.cpu_delta_us().map(scaled)),
            plain(figures.agent_us().map(|us| us * CORES_PER_US), 4),
        ];
        let label = format!("waggle: {title}, {} threads", cell.workload.threads);
        Some(row(label, cell, values))
    };
    let theirs = StudyRow {
        label: "DBdoctor".to_owned(),
        cell: None,
        values: vec![published_of("cores/server"), published_of("cores/agent")],
    };
    StudyTable {
        id: "article-cores".to_owned(),
        title: "Cores for 10,000 statements a second watched".to_owned(),
        caption: "In the server: CPU time a statement, watched less unwatched. In the agent: CPU \
                  time of its process."
            .to_owned(),
        row_title: "load".to_owned(),
        columns: vec![
            column("", "in the server", "cores"),
            column("", "in the agent", "cores"),
        ],
        rows: [theirs]
            .into_iter()
            .chain(modes().filter_map(ours))
            .collect(),
    }
}

fn published_of(key: &str) -> StudyValue {
    find(DBDOCTOR_SCENES, key).map_or_else(
        || StudyValue::absent("not published"),
        |figure| figure.value(),
    )
}
