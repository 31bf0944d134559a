//! What does each arm cost each kind of event, and when?
//!
//! A workload names its kinds of events (`waggle.operation`: ADD_LINK, ...); the windows keep the
//! latency of each. Here they are compared as whole windows are, so that a rare and dear kind does
//! not hide in the mean of all. Neighbour: `lab::outcome` puts this into the report of a cell.
//!
//! Invariant: a kind is compared in the windows its arm is compared in, no others.

use std::collections::{BTreeMap, BTreeSet};

use waggle_report::lab::{Difference, Ratio, TypeArm, TypeReport, TypeWindow};
use waggle_stats::compare::{
    CompareSettings, Comparison, Outcome, Unit, Window, WindowLatency, compare_chain,
};
use waggle_stats::latency::LatencyHistogram;

use super::{CellRun, OperationWindow, Sample};
use crate::lab::arm::ArmSpec;
use crate::lab::arm::builtin::BASE_NAME;

/// Steps of a latency density to a factor of ten.
const DENSITY_PER_DECADE: u32 = 60;

/// Every kind of event of a cell, each arm compared with the base.
pub(crate) fn reports(run: &CellRun) -> Vec<TypeReport> {
    let samples = run.in_life.iter().chain(&run.pairs);
    let names: BTreeSet<&String> = samples
        .flat_map(|sample| sample.operations.keys())
        .collect();
    names.into_iter().map(|name| report(run, name)).collect()
}

/// The kinds of events in one window, for the timeline.
pub(crate) fn of_window(sample: &Sample) -> BTreeMap<String, TypeWindow> {
    let one = |(name, operation): (&String, &OperationWindow)| {
        let window = TypeWindow {
            statements: operation.count,
            mean_us: f64::NAN,
            p99_us: operation.p99_us,
        };
        (name.clone(), window)
    };
    sample.operations.iter().map(one).collect()
}

fn report(run: &CellRun, name: &str) -> TypeReport {
    let arms = run.spec.numbered();
    TypeReport {
        name: name.to_owned(),
        arms: arms
            .map(|(number, arm)| of_arm(run, name, number, arm))
            .collect(),
        histograms: histograms(run, name),
    }
}

fn of_arm(run: &CellRun, name: &str, number: usize, arm: &ArmSpec) -> TypeArm {
    let in_pairs = run.spec.is_in_pairs(arm);
    let (samples, totals) = match in_pairs {
        true => (&run.pairs, &run.totals_pairs),
        false => (&run.in_life, &run.totals),
    };
    let windows: Vec<Window> = samples.iter().filter_map(|s| window(s, name)).collect();
    let settings = CompareSettings {
        unit: if in_pairs { Unit::Lives } else { Unit::Windows },
        seed: run.spec.seed,
        ..CompareSettings::default()
    };
    let compare = |outcome| compare_chain(&windows, number, outcome, &settings).ok();
    let latency = |outcome| compare(outcome).as_ref().map(difference);
    let total = totals
        .get(&number)
        .and_then(|totals| totals.operations.get(name));
    TypeArm {
        arm: arm.name.clone(),
        executed: total.map_or(0, LatencyHistogram::count),
        rate_ratio: compare(Outcome::Qps).as_ref().map(ratio),
        mean_us: None,
        p50_us: latency(Outcome::LatencyP50Us),
        p95_us: latency(Outcome::LatencyP95Us),
        p99_us: latency(Outcome::LatencyP99Us),
    }
}

/// The window as if there were no other kind of event in it.
fn window(sample: &Sample, name: &str) -> Option<Window> {
    let operation = sample.operations.get(name)?;
    Some(Window {
        statements: operation.count,
        latency: (operation.count > 0).then_some(WindowLatency {
            p50_us: operation.p50_us,
            p95_us: operation.p95_us,
            p99_us: operation.p99_us,
        }),
        ..sample.window
    })
}

fn difference(comparison: &Comparison) -> Difference {
    Difference {
        base: comparison.base,
        delta: comparison.delta.estimate,
        low: comparison.delta.low,
        high: comparison.delta.high,
    }
}

fn ratio(comparison: &Comparison) -> Ratio {
    Ratio {
        estimate: comparison.ratio.estimate,
        low: comparison.ratio.low,
        high: comparison.ratio.high,
    }
}

/// Densities by arm, the base's too: of whichever windows the arm is compared in.
fn histograms(run: &CellRun, name: &str) -> BTreeMap<String, Vec<(f64, u64)>> {
    let own = |number: usize| match run.spec.arm(number) {
        Some(arm) if !run.spec.is_in_pairs(arm) => run.totals.get(&number),
        Some(_) => run.totals_pairs.get(&number),
        None => run.totals.get(&number).or(run.totals_pairs.get(&number)),
    };
    let numbers = 0..=run.spec.arms.len();
    numbers
        .filter_map(|number| {
            let latency = own(number)?.operations.get(name)?;
            let bars = latency.density(DENSITY_PER_DECADE);
            let bars = bars.iter().map(|bar| (bar.high_ns as f64 / 1e3, bar.count));
            let arm = run.spec.arm(number).map_or(BASE_NAME, |arm| &arm.name);
            Some((arm.to_owned(), bars.collect()))
        })
        .collect()
}
