//! The parts of a report that are laid out from windows and sums: timeline, densities, intervals.

use std::collections::BTreeMap;

use waggle_report::lab::{Difference, Ratio, ToolCost, Window as ReportWindow};
use waggle_stats::compare::{
    Comparison, Storm, StormMarks, Window, WindowCounters, disturbed_windows, mark_storms,
};
use waggle_stats::latency::LatencyHistogram;

use crate::experiment::Totals;
use crate::lab::cell::{CellRun, Sample, operations, settled};

/// Steps of a latency density to a factor of ten.
const DENSITY_PER_DECADE: u32 = 120;

/// Windows of an arm, or pairs of lives where those are the unit.
pub(super) fn units(run: &CellRun, number: usize) -> u64 {
    let Some(arm) = run.spec.arm(number) else {
        return 0;
    };
    let windows = run.windows_of(arm);
    let windows = windows.iter().filter(|window| window.arm == number);
    if !run.spec.is_in_pairs(arm) {
        return windows.count() as u64;
    }
    let mut lives: Vec<usize> = windows.map(|window| window.life).collect();
    lives.dedup();
    lives.len() as u64
}

/// Every window, in the order of time.
pub(super) fn timeline(run: &CellRun) -> Vec<ReportWindow> {
    let mut all = Vec::new();
    for samples in [&run.in_life, &run.pairs] {
        let windows = settled(samples, run.spec.timing.settle, run.spec.primary);
        let disturbed = disturbed_windows(&windows, run.spec.primary);
        let storms = storms(samples);
        let shown = samples.iter().zip(disturbed).zip(storms.marks);
        all.extend(shown.map(|((sample, disturbed), mark)| {
            ReportWindow {
                marks: mark
                    .iter()
                    .map(|mark| mark_words(*mark).to_owned())
                    .collect(),
                ..window(sample, disturbed)
            }
        }));
    }
    all
}

/// The windows in which the server's own housekeeping ran.
pub(super) fn storms(samples: &[Sample]) -> StormMarks {
    let windows: Vec<Window> = samples.iter().map(|sample| sample.window).collect();
    let counters: Vec<WindowCounters> = samples
        .iter()
        .map(|sample| sample.counters.unwrap_or_default())
        .collect();
    mark_storms(&windows, &counters)
}

pub(super) fn mark_words(mark: Storm) -> &'static str {
    match mark {
        Storm::SyncFlush => "sync flush",
        Storm::Checkpoint => "checkpoint",
        Storm::FlushStorm => "flush storm",
    }
}

fn window(sample: &Sample, disturbed: bool) -> ReportWindow {
    let window = &sample.window;
    let mut note = disturbed.then(|| "disturbed: set aside".to_owned());
    if sample.errors > 0 {
        let errors = format!("{} errors", sample.errors);
        note = Some(note.map_or(errors.clone(), |note| format!("{note}; {errors}")));
    }
    ReportWindow {
        t_s: window.start_s,
        duration_s: window.duration_s,
        arm: sample.name.clone(),
        statements: window.statements,
        qps: window.statements as f64 / window.duration_s.max(1e-9),
        server_cpu_us_per_statement: (window.statements > 0)
            .then(|| window.server_cpu_ns as f64 / 1e3 / window.statements as f64),
        discarded: disturbed,
        note,
        types: operations::of_window(sample),
        ..ReportWindow::default()
    }
}

/// Latency densities by arm, the base's too.
pub(super) fn densities(run: &CellRun) -> BTreeMap<String, Vec<(f64, u64)>> {
    let numbers = 0..=run.spec.arms.len();
    let measured = numbers.map(|number| (number, run.totals_of(number)));
    measured
        .filter(|(_, totals)| !totals.latency.is_empty())
        .map(|(number, totals)| {
            let name = run.spec.arm_name(number).to_owned();
            (name, density(&totals.latency))
        })
        .collect()
}

fn density(latency: &LatencyHistogram) -> Vec<(f64, u64)> {
    let bars = latency.density(DENSITY_PER_DECADE);
    bars.iter()
        .map(|bar| (bar.high_ns as f64 / 1e3, bar.count))
        .collect()
}

pub(super) fn difference(comparison: &Comparison) -> Difference {
    Difference {
        base: comparison.base,
        delta: comparison.delta.estimate,
        low: comparison.delta.low,
        high: comparison.delta.high,
    }
}

pub(super) fn ratio(comparison: &Comparison) -> Ratio {
    Ratio {
        estimate: comparison.ratio.estimate,
        low: comparison.ratio.low,
        high: comparison.ratio.high,
    }
}

pub(super) fn tool(totals: &Totals) -> ToolCost {
    ToolCost {
        cpu_us_per_statement: totals.tool_cpu_ns as f64 / 1e3 / totals.statements.max(1) as f64,
        cpu_s: totals.tool_cpu_ns as f64 / 1e9,
        rss_bytes: totals.tool_rss_bytes,
    }
}
