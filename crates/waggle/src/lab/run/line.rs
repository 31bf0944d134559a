//! The lines of `samples.jsonl`: windows, and what happened between them.
//!
//! Invariant: a line is written when what it says is true, so that a run that is killed can be
//! taken up from its lines alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use waggle_report::run::ServerFacts;
use waggle_stats::latency::LatencyHistogram;

use crate::lab::cell::{CellRun, Sample};

/// A histogram in a line: value in nanoseconds and count.
pub(super) type Bars = Vec<(u64, u64)>;

/// What happened, beside windows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(super) enum Event {
    /// Latencies of one arm's windows since the last such line.
    Latency {
        cell: String,
        pair: bool,
        life: usize,
        arm: usize,
        all: Bars,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        operations: BTreeMap<String, Bars>,
    },
    /// The server of a cell.
    Server { cell: String, facts: ServerFacts },
    /// All windows of a pair of servers are there.
    PairDone { life: usize },
    /// An arm was stopped for good.
    Stopped {
        cell: String,
        arm: usize,
        why: String,
    },
    /// What a reader must know.
    Note { cell: String, text: String },
    /// A run that was killed goes on.
    Resumed { spent_s: f64 },
}

pub(super) fn bars(histogram: &LatencyHistogram) -> Bars {
    histogram.buckets().map(|b| (b.high_ns, b.count)).collect()
}

pub(super) fn add_bars(histogram: &mut LatencyHistogram, bars: &Bars) {
    for (ns, count) in bars {
        histogram.record_n(*ns, *count);
    }
}

/// What the lines of a run say. A study measures its cells in several calls, so lines may be of
/// cells that are not asked for now.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// The end of the last window of any cell, seconds.
    pub(super) end_s: f64,
    /// The first life that no window is of.
    pub(super) next_life: usize,
    /// First begin and last end of the windows of these cells, if there are any.
    of_these: Option<(f64, f64)>,
}

impl Past {
    /// Reads lines into the cells they belong to. Windows of pairs of servers that were not
    /// measured whole are left out.
    pub(super) fn read(lines: Vec<Value>, cells: &mut [CellRun]) -> Self {
        let mut past = Self::default();
        let mut pairs = Vec::new();
        let mut latencies = Vec::new();
        let mut done = BTreeSet::new();
        for value in lines {
            if value.get("event").is_some() {
                match serde_json::from_value::<Event>(value) {
                    Ok(event @ Event::Latency { pair: true, .. }) => latencies.push(event),
                    Ok(event) => Self::event(event, cells, &mut done),
                    Err(_) => {}
                }
                continue;
            }
            let Ok(sample) = serde_json::from_value::<Sample>(value) else {
                continue;
            };
            let end_s = sample.window.start_s + sample.window.duration_s;
            past.end_s = past.end_s.max(end_s);
            if find(cells, &sample.cell).is_some() {
                let (first, last) = past.of_these.unwrap_or((sample.window.start_s, end_s));
                past.of_these = Some((first, last.max(end_s)));
            }
            past.next_life = past.next_life.max(sample.window.life + 1);
            if sample.pair {
                pairs.push(sample);
            } else if let Some(cell) = find(cells, &sample.cell) {
                cell.add(sample);
            }
        }
        for sample in pairs {
            let whole = done.contains(&sample.window.life);
            if let Some(cell) = find(cells, &sample.cell).filter(|_| whole) {
                cell.add(sample);
            }
        }
        for event in latencies {
            if matches!(&event, Event::Latency { life, .. } if done.contains(life)) {
                Self::event(event, cells, &mut BTreeSet::new());
            }
        }
        past
    }

    fn event(event: Event, cells: &mut [CellRun], done: &mut BTreeSet<usize>) {
        match event {
            Event::Latency {
                cell,
                pair,
                arm,
                all,
                operations,
                ..
            } => {
                if let Some(cell) = find(cells, &cell) {
                    let totals = cell.totals_mut(pair).entry(arm).or_default();
                    add_bars(&mut totals.latency, &all);
                    for (name, bars) in operations {
                        add_bars(totals.operations.entry(name).or_default(), &bars);
                    }
                }
            }
            Event::Server { cell, facts } => {
                if let Some(cell) = find(cells, &cell) {
                    cell.server = facts;
                }
            }
            Event::PairDone { life } => {
                done.insert(life);
            }
            Event::Stopped { cell, arm, why } => {
                if let Some(cell) = find(cells, &cell) {
                    cell.stopped.insert(arm, why);
                }
            }
            Event::Note { cell, text } => {
                if let Some(cell) = find(cells, &cell) {
                    cell.notes.push(text);
                }
            }
            Event::Resumed { .. } => {}
        }
    }

    /// What was spent on these cells; `None` if they are new.
    pub(super) fn spent(&self) -> Option<Duration> {
        let (first, last) = self.of_these?;
        Duration::try_from_secs_f64(last - first).ok()
    }
}

fn find<'a>(cells: &'a mut [CellRun], id: &str) -> Option<&'a mut CellRun> {
    cells.iter_mut().find(|cell| cell.spec.id == id)
}
