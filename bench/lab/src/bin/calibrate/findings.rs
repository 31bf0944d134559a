//! What follows from the pieces: shares of trials, each with its interval, against what was asked.
//!
//! Invariant: an experiment is a stretch of a run that shares no window with another, and counts
//! whatever it shows; only one that has too few windows for any interval does not.

use std::collections::BTreeMap;

use serde::Serialize;
use waggle_bench_lab::numbers::mean;
use waggle_bench_lab::windows::{Recorded, cut};
use waggle_stats::compare::{
    BASE_ARM, CONFIDENCE, CompareSettings, Comparison, Interval, Outcome, SIGNIFICANCE, Window,
    compare_chain, primary_estimate,
};
use waggle_stats::resample::{RECORDED_MIN, ResampleSettings, resample_experiments};
use waggle_stats::tally::Tally;

use crate::plan::{COSTS_NS, KNOWN_WANTED, Kind, PRECISION_WANTED, SAME_WANTED};
use crate::session::{SAME, arm_of};
use crate::state::{Session, State};
use crate::truth::TruthRound;

/// Windows of the A/A arm in an experiment of equal things, and of each cost where costs are
/// compared.
const SAME_WINDOWS: usize = 20;
const KNOWN_WINDOWS: usize = 12;
/// Between these, the share of equal things called different at 5%.
const SAME_SHARE: (f64, f64) = (0.02, 0.08);
/// At least this share of intervals covers the truth.
const COVERED_SHARE: f64 = 0.90;
/// Half-width for 1 us in five minutes, us.
const HALF_WIDTH_US: f64 = 0.3;
const SIMULATED: usize = 200;
/// Recorded windows of equal things below which a simulation says more of their moment than of the
/// lab.
const SIMULATED_FROM: usize = 1_000;

/// A known cost, and what the lab said of it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct KnownCost {
    /// Asked of the probe, ns.
    pub(crate) asked_ns: u64,
    /// What it cost by the kernel's counters, us more than an empty probe; over rounds.
    pub(crate) truth_us: Option<Interval>,
    /// Intervals that covered the truth.
    pub(crate) covered: Tally,
    /// What the lab found: mean over its experiments, us.
    pub(crate) found_us: Option<Interval>,
    /// Mean half-width of its intervals, us.
    pub(crate) half_width_us: Option<f64>,
    /// Mean cost of a statement at the base, us.
    pub(crate) base_us: Option<f64>,
}

/// One run of five minutes.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct PrecisionRun {
    /// What it found, us.
    pub(crate) found_us: Interval,
    /// Cost of a statement at the base, us.
    pub(crate) base_us: f64,
}

/// Something that was promised.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Criterion {
    /// What.
    pub(crate) what: String,
    /// What was found.
    pub(crate) found: String,
    /// Whether it holds; `None` while there are too few trials to say.
    pub(crate) holds: Option<bool>,
}

/// Everything.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Findings {
    /// Equal things called different at 5%: real experiments on a quiet machine.
    pub(crate) same: Tally,
    /// The same beside a competitor.
    pub(crate) same_competing: Tally,
    /// The same, simulated from recorded windows of equal things.
    pub(crate) same_simulated: Tally,
    /// Windows that were drawn from.
    pub(crate) simulated_from: usize,
    /// Known costs.
    pub(crate) known: Vec<KnownCost>,
    /// Known costs beside a competitor.
    pub(crate) known_competing: Vec<KnownCost>,
    /// Runs of five minutes.
    pub(crate) precision: Vec<PrecisionRun>,
    /// What was promised.
    pub(crate) criteria: Vec<Criterion>,
    /// Pieces that were lost, and why.
    pub(crate) lost: Vec<String>,
}

/// Trials in a piece.
pub(crate) fn trials(session: &Session, recorded: &Recorded) -> u64 {
    match session.kind {
        Kind::Truth | Kind::TruthCompeting => u64::from(!session.truth.is_empty()),
        Kind::Precision => u64::from(precision(recorded).is_some()),
        Kind::Known | Kind::KnownCompeting => of_costs(recorded).len() as u64,
        Kind::Same => of_equals(recorded).len() as u64,
    }
}

/// The experiments with every known cost in a run.
fn of_costs(recorded: &Recorded) -> Vec<&[Window]> {
    let arm = |ns: &u64| recorded.arm(&arm_of(*ns));
    let arms: Vec<usize> = COSTS_NS.iter().filter_map(arm).collect();
    cut(&recorded.windows, &arms, KNOWN_WINDOWS)
}

/// The experiments of equal things in a run, whatever else it measured.
fn of_equals(recorded: &Recorded) -> Vec<&[Window]> {
    let arm: Vec<usize> = recorded.arm(SAME).into_iter().collect();
    cut(&recorded.windows, &arm, SAME_WINDOWS)
}

fn compare(windows: &[Window], arm: usize) -> Option<Comparison> {
    // The interval is the same without the bootstrap beside it.
    let settings = CompareSettings {
        resamples: 0,
        ..CompareSettings::default()
    };
    compare_chain(windows, arm, Outcome::CpuUsPerStatement, &settings).ok()
}

/// Whether an arm that is the base again was called different.
fn called_different(windows: &[Window], recorded: &Recorded) -> Option<bool> {
    let comparison = compare(windows, recorded.arm(SAME)?)?;
    Some(comparison.p_value < SIGNIFICANCE)
}

fn precision(recorded: &Recorded) -> Option<PrecisionRun> {
    let found = compare(&recorded.windows, recorded.arm(&arm_of(1_000))?)?;
    Some(PrecisionRun {
        found_us: found.delta,
        base_us: found.base,
    })
}

/// Each cost's truth by the kernel: what burning cost more than doing nothing in the same round,
/// over rounds as the lab takes its windows together.
fn truths(rounds: &[&TruthRound]) -> BTreeMap<u64, Interval> {
    let of = |asked: u64| {
        let costs = rounds.iter().flat_map(|round| {
            let found = round.costs.iter().find(|cost| cost.asked_ns == asked);
            found.map(|cost| (cost.kernel_ns - round.nothing_ns) / 1e3)
        });
        let costs: Vec<f64> = costs.collect();
        let typical = match primary_estimate(&costs, 1.0) {
            Ok((estimate, _)) => estimate.interval(CONFIDENCE),
            Err(_) => mean(&costs)?,
        };
        Some((asked, typical))
    };
    COSTS_NS.into_iter().filter_map(of).collect()
}

/// What the lab found of each known cost in these runs.
fn known(runs: &[Recorded], truths: &BTreeMap<u64, Interval>) -> Vec<KnownCost> {
    COSTS_NS
        .map(|asked_ns| {
            let truth_us = truths.get(&asked_ns).copied();
            let found: Vec<Comparison> = runs
                .iter()
                .flat_map(|run| {
                    let arm = run.arm(&arm_of(asked_ns));
                    let stretches = of_costs(run).into_iter();
                    stretches.filter_map(move |windows| compare(windows, arm?))
                })
                .collect();
            let covers = |truth: Interval| {
                let covered = |c: &Comparison| c.delta.contains(truth.estimate);
                found.iter().map(covered).collect::<Tally>()
            };
            let of = |value: fn(&Comparison) -> f64| found.iter().map(value).collect::<Vec<f64>>();
            let average = |value| mean(&of(value)).map(|mean| mean.estimate);
            KnownCost {
                asked_ns,
                truth_us,
                covered: truth_us.map(covers).unwrap_or_default(),
                found_us: mean(&of(|c| c.delta.estimate)),
                half_width_us: average(|c| c.delta.half_width()),
                base_us: average(|c| c.base),
            }
        })
        .to_vec()
}

/// Equal things, simulated from what was recorded where nothing was different.
fn simulate(runs: &[Recorded]) -> (Tally, usize) {
    let (mut tally, mut recorded) = (Tally::default(), 0);
    let usable = |run: &&Recorded| {
        let same = run.arm(SAME).unwrap_or(BASE_ARM);
        let is_same = |w: &&Window| w.arm == BASE_ARM || w.arm == same;
        run.windows.iter().filter(is_same).count() >= RECORDED_MIN
    };
    let runs: Vec<&Recorded> = runs.iter().filter(usable).collect();
    for (number, run) in runs.iter().enumerate() {
        let settings = ResampleSettings {
            experiments: SIMULATED.div_ceil(runs.len()),
            seed: number as u64 + 1,
            ..ResampleSettings::default()
        };
        let same = [BASE_ARM, run.arm(SAME).unwrap_or(BASE_ARM)];
        if let Ok(found) = resample_experiments(&run.windows, &same, &settings) {
            tally.merge(found.called_different);
            recorded += found.recorded;
        }
    }
    (tally, recorded)
}

impl Findings {
    /// Compares what every piece recorded.
    pub(crate) fn draw(state: &State) -> anyhow::Result<Self> {
        let mut quiet = Vec::new();
        let mut competing = Vec::new();
        let mut five_minutes = Vec::new();
        for session in state.sessions() {
            let recorded = state.recorded(session);
            five_minutes.extend(
                (session.kind == Kind::Precision)
                    .then(|| precision(&recorded))
                    .flatten(),
            );
            match session.kind.competes() {
                true => competing.push(recorded),
                false => quiet.push(recorded),
            }
        }
        let rounds = |kind: Kind| -> Vec<&TruthRound> {
            let sessions = state.sessions().iter().filter(|s| s.kind == kind);
            sessions.flat_map(|session| &session.truth).collect()
        };
        let same = |runs: &[Recorded]| -> Tally {
            let trials = |run: &Recorded| -> Vec<bool> {
                let stretches = of_equals(run).into_iter();
                stretches
                    .filter_map(|windows| called_different(windows, run))
                    .collect()
            };
            runs.iter().flat_map(trials).collect()
        };
        let (same_simulated, simulated_from) = simulate(&quiet);
        let mut findings = Self {
            same: same(&quiet),
            same_competing: same(&competing),
            same_simulated,
            simulated_from,
            known: known(&quiet, &truths(&rounds(Kind::Truth))),
            known_competing: known(&competing, &truths(&rounds(Kind::TruthCompeting))),
            precision: five_minutes,
            criteria: Vec::new(),
            lost: lost(state.sessions()),
        };
        findings.criteria = findings.judged();
        Ok(findings)
    }

    fn judged(&self) -> Vec<Criterion> {
        let (low, high) = SAME_SHARE;
        let mut criteria = vec![
            share(
                &format!(
                    "equal things called different at 5%, real experiments: 2% to 8% of \
                     {SAME_WANTED}"
                ),
                self.same,
                SAME_WANTED,
                (low, high),
            ),
            share(
                "the same, simulated from recorded windows: 2% to 8% of 200",
                self.same_simulated,
                SIMULATED as u64,
                (low, high),
            ),
        ];
        if self.simulated_from < SIMULATED_FROM {
            criteria[1].holds = None;
        }
        for (costs, beside) in [
            (&self.known, ""),
            (&self.known_competing, ", beside a competitor"),
        ] {
            criteria.extend(costs.iter().map(|cost| {
                let us = cost.asked_ns as f64 / 1e3;
                let what = format!("95% interval covers {us} us{beside}: at least 90% of 50");
                share(&what, cost.covered, KNOWN_WANTED, (COVERED_SHARE, 1.0))
            }));
        }
        criteria.push(self.half_width());
        criteria
    }

    fn half_width(&self) -> Criterion {
        let widths: Vec<f64> = self
            .precision
            .iter()
            .map(|run| run.found_us.half_width())
            .collect();
        let shown: Vec<String> = widths.iter().map(|width| format!("{width:.2}")).collect();
        let enough = widths.len() as u64 >= PRECISION_WANTED;
        let within = widths.iter().all(|width| *width <= HALF_WIDTH_US);
        Criterion {
            what: "half-width for 1 us in five minutes: at most 0.3 us in each run".to_owned(),
            found: match shown.is_empty() {
                true => "no run".to_owned(),
                false => format!("{} us ({} runs)", shown.join(", "), widths.len()),
            },
            // One that is wider is enough to say no.
            holds: (enough || !within).then_some(within),
        }
    }
}

/// A share of trials against the bounds it has to keep.
fn share(what: &str, tally: Tally, wanted: u64, bounds: (f64, f64)) -> Criterion {
    let enough = tally.of >= wanted;
    Criterion {
        what: what.to_owned(),
        found: match tally.of {
            0 => "no trial".to_owned(),
            _ => tally.to_string(),
        },
        holds: enough.then(|| tally.is_within(bounds.0, bounds.1)),
    }
}

fn lost(sessions: &[Session]) -> Vec<String> {
    let named = |session: &Session| {
        let error = session.error.as_ref()?;
        Some(format!(
            "{}, {}: {error}",
            session.begun,
            session.kind.name()
        ))
    };
    sessions.iter().filter_map(named).collect()
}

#[cfg(test)]
mod tests;
