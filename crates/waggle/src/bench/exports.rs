//! The files for other programs: CSV with a row an interval, and an HdrHistogram interval log.
//!
//! Both are written as the run goes on, so a kill leaves what there was. A file that fails is told
//! once; the measurement goes on. Invariant: the columns of the CSV stand in its first line and
//! depend on `--percentiles` alone; what was not measured is an empty cell.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use waggle_load::{Operation, Snapshot};
use waggle_stats::hdr_log;
use waggle_stats::latency::LatencyHistogram;

use super::interval::Interval;
use super::note;
use super::plan::Plan;

/// The files that were asked for.
#[derive(Default)]
pub(super) struct Exports {
    csv: Option<Export>,
    hdr_log: Option<Export>,
    percentiles: Vec<f64>,
    /// When the warm-up, or else the measurement, began.
    began: Option<SystemTime>,
    /// What the phases that are over took.
    before: Duration,
    phase: &'static str,
    phase_length: Duration,
}

struct Export {
    path: PathBuf,
    file: File,
    failed: bool,
}

impl Exports {
    /// Creates the files; one that exists is replaced.
    pub(super) fn open(plan: &Plan) -> anyhow::Result<Exports> {
        let create = |path: &Option<PathBuf>| path.as_deref().map(Export::create).transpose();
        let mut exports = Exports {
            csv: create(&plan.csv)?,
            hdr_log: create(&plan.hdr_log)?,
            percentiles: plan.percentiles.clone(),
            ..Exports::default()
        };
        if let Some(csv) = &mut exports.csv {
            csv.write(&header(&plan.percentiles));
        }
        Ok(exports)
    }

    /// Adds an interval that has just ended.
    pub(super) fn interval(&mut self, interval: &Interval, counted: &Snapshot) {
        let length = Duration::from_secs_f64(interval.duration_s);
        let at = Duration::from_secs_f64(interval.at_s);
        if self.phase != interval.kind {
            self.before += self.phase_length;
            self.phase = interval.kind;
        }
        self.phase_length = at;
        let from = self.before + at.saturating_sub(length);
        if let Some(csv) = &mut self.csv {
            csv.write(&row(interval, counted, &self.percentiles));
            for (name, operation) in &counted.operations {
                csv.write(&operation_row(interval, name, operation, &self.percentiles));
            }
        }
        let Some(log) = &mut self.hdr_log else {
            return;
        };
        if self.began.is_none() {
            let began = SystemTime::now() - length;
            self.began = Some(began);
            let since_epoch = began.duration_since(SystemTime::UNIX_EPOCH);
            log.write(&hdr_log::header(since_epoch.unwrap_or_default()));
        }
        let tags = [
            ("response", &counted.response),
            ("service", &counted.service),
            ("wait", &counted.wait),
        ];
        for (tag, histogram) in tags {
            if tag != "response" && counted.offered.is_none() {
                continue;
            }
            // A count above 2^63 does not fit; there is none.
            if let Ok(line) = hdr_log::line(tag, from, length, histogram) {
                log.write(&line);
            }
        }
        for (name, operation) in &counted.operations {
            // A tag has neither commas nor white space.
            let name = name.replace(|c: char| c == ',' || c.is_whitespace(), "_");
            let tag = format!("operation:{name}");
            if let Ok(line) = hdr_log::line(&tag, from, length, &operation.response) {
                log.write(&line);
            }
        }
    }
}

impl Export {
    fn create(path: &Path) -> anyhow::Result<Export> {
        let file = waggle_files::create(path)
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Export {
            path: path.to_owned(),
            file,
            failed: false,
        })
    }

    fn write(&mut self, text: &str) {
        if self.failed {
            return;
        }
        if let Err(error) = self.write_all(text) {
            self.failed = true;
            let path = self.path.display();
            note(&format!(
                "waggle: cannot write {path}: {error}; the measurement goes on"
            ));
        }
    }

    fn write_all(&mut self, text: &str) -> io::Result<()> {
        self.file.write_all(text.as_bytes())
    }
}

/// Columns before the latencies.
const FIRST_LATENCY: usize = 16;

/// Latencies of a row, in this order.
const LATENCIES: [&str; 4] = ["response", "service", "wait", "lag"];

fn header(percentiles: &[f64]) -> String {
    let mut names: Vec<String> = [
        "kind",
        "operation",
        "at_s",
        "duration_s",
        "threads_running",
        "transactions",
        "queries",
        "reads",
        "writes",
        "other",
        "errors",
        "offered",
        "dropped",
        "backlog",
        "backlog_age_us",
        "client_cpu_s",
    ]
    .map(str::to_owned)
    .into();
    for latency in LATENCIES {
        names.push(format!("{latency}_us_mean"));
        names.extend(percentiles.iter().map(|p| format!("{latency}_us_p{p}")));
        names.push(format!("{latency}_us_max"));
    }
    names.join(",") + "\n"
}

fn row(interval: &Interval, counted: &Snapshot, percentiles: &[f64]) -> String {
    let open = interval.open.as_ref();
    let whole = |count: Option<u64>| count.map_or_else(String::new, |count| count.to_string());
    let mut cells = vec![
        interval.kind.to_owned(),
        String::new(),
        format!("{:.3}", interval.at_s),
        format!("{:.3}", interval.duration_s),
        interval.threads_running.to_string(),
        interval.transactions.to_string(),
        interval.queries.to_string(),
        interval.reads.to_string(),
        interval.writes.to_string(),
        interval.other.to_string(),
        interval.errors.to_string(),
        whole(open.map(|open| open.offered)),
        whole(open.map(|open| open.dropped)),
        whole(open.map(|open| open.backlog)),
        microseconds(open.map(|open| open.backlog_age_us)),
        format!("{:.3}", interval.client_cpu_s),
    ];
    let histograms = [
        &counted.response,
        &counted.service,
        &counted.wait,
        &counted.lag,
    ];
    for histogram in histograms {
        cells.extend(latencies(histogram, percentiles));
    }
    cells.join(",") + "\n"
}

/// One kind of event in an interval: its name, its count under `transactions`, its response and
/// service times; what belongs to all events together is empty.
fn operation_row(
    interval: &Interval,
    name: &str,
    operation: &Operation,
    percentiles: &[f64],
) -> String {
    let mut cells = vec![
        interval.kind.to_owned(),
        quoted(name),
        format!("{:.3}", interval.at_s),
        format!("{:.3}", interval.duration_s),
        String::new(),
        operation.response.count().to_string(),
    ];
    cells.resize(FIRST_LATENCY, String::new());
    let unknown = LatencyHistogram::new();
    for histogram in [&operation.response, &operation.service, &unknown, &unknown] {
        cells.extend(latencies(histogram, percentiles));
    }
    cells.join(",") + "\n"
}

/// A script's own name, so that no comma or quote in it makes a cell of its own.
fn quoted(name: &str) -> String {
    match name.contains([',', '"', '\n']) {
        true => format!("\"{}\"", name.replace('"', "\"\"")),
        false => name.to_owned(),
    }
}

fn latencies(histogram: &LatencyHistogram, percentiles: &[f64]) -> Vec<String> {
    let known = |us: f64| microseconds((!histogram.is_empty()).then_some(us));
    let summary = histogram.summary();
    let at = percentiles.iter().map(|p| histogram.quantile_us(p / 100.0));
    std::iter::once(summary.mean_us)
        .chain(at)
        .chain([summary.max_us])
        .map(known)
        .collect()
}

fn microseconds(us: Option<f64>) -> String {
    us.map_or_else(String::new, |us| format!("{us:.3}"))
}
