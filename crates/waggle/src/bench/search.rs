//! `--rate-search`: steps at fixed rates until the highest one that keeps to a limit is known.
//!
//! The search itself is `waggle_stats::rate_search`; here its steps are run. Each is a load of its
//! own, so that what waited in one step does not wait in the next.

use std::time::Duration;

use anyhow::anyhow;
use serde::Serialize;
use serde_json::json;
use waggle_load::{LoadError, LoadSpec, Snapshot};
use waggle_stats::arrivals::Arrivals;
use waggle_stats::rate_search::{Broken, Found, Proposal, RateSearch, SearchSettings, Step};

use super::checks::short;
use super::interval::{Interval, milliseconds};
use super::measure::{self, Early, Measured, Phases};
use super::note;
use super::plan::{Plan, Search};
use super::record::Recorder;
use super::server::Server;
use crate::interrupt::Interrupt;

/// The gap between the rate that holds and the one that does not.
const TOLERANCE: f64 = 0.03;

/// Of what a closed loop carries, where the search begins if nobody says where.
const FIRST_SHARE: f64 = 0.5;

/// The part of a step that is run before it is measured, and its most.
const SETTLE_SHARE: f64 = 0.1;
const SETTLE_MAX: Duration = Duration::from_secs(2);

/// The closed loop that finds the first rate.
const CLOSED_LENGTH: Duration = Duration::from_secs(2);

/// What the search found, as reported.
#[derive(Debug, Clone, Serialize)]
pub(super) struct SearchResult {
    limit: String,
    limit_us: f64,
    #[serde(flatten)]
    found: Found,
    /// In order.
    steps: Vec<StepResult>,
}

/// One step.
#[derive(Debug, Clone, Serialize)]
struct StepResult {
    rate: f64,
    length_s: f64,
    achieved: f64,
    latency_us: Option<f64>,
    holds: bool,
    /// Why it does not hold.
    broken: Option<Broken>,
    /// The generator's own lag was large, so the server may carry more.
    generator_was_late: bool,
}

/// A finished search, and the step that its figures are taken from.
pub(super) struct Searched {
    pub(super) result: SearchResult,
    /// The last step at the highest rate that held; else the last step of all.
    pub(super) measured: Measured,
}

/// Runs the steps. `Err` if not even one could be run.
pub(super) fn run(
    plan: &Plan,
    search: &Search,
    spec: &LoadSpec,
    server: &mut Server,
    interrupt: &Interrupt,
    recorder: &mut Recorder,
) -> anyhow::Result<Searched> {
    let mut stepper = Stepper {
        plan,
        search,
        spec,
        server,
        interrupt,
    };
    let first_rate = match search.first_rate {
        Some(rate) => rate,
        None => stepper.first_rate()?,
    };
    let mut machine = RateSearch::new(SearchSettings {
        first_rate,
        step_s: plan.time.unwrap_or(CLOSED_LENGTH).as_secs_f64(),
        quantile: search.limit.quantile,
        limit_us: search.limit.limit_us,
        tolerance: TOLERANCE,
    });
    let mut steps = Vec::new();
    let mut held: Vec<(f64, Measured)> = Vec::new();
    let mut last = None;
    while let Some(proposal) = machine.next() {
        let measured = stepper.step(&proposal)?;
        if is_final(&measured) {
            last = Some(measured);
            break;
        }
        let step = stepper.outcome(&proposal, &measured);
        let broken = machine.take(step);
        let result = StepResult {
            rate: proposal.rate,
            length_s: proposal.length_s,
            achieved: step.achieved,
            latency_us: step.latency_us,
            holds: broken.is_none(),
            broken,
            generator_was_late: super::result::is_late(&measured.total),
        };
        note(&result.line(&search.limit.text));
        recorder.sample(&json!({ "kind": "rate-search step", "step": result }));
        steps.push(result);
        match broken {
            None => held.push((proposal.rate, measured)),
            Some(_) => last = Some(measured),
        }
    }
    let found = machine.found();
    let measured = choose(found, held, last).ok_or_else(|| anyhow!("no step was run"))?;
    Ok(Searched {
        result: SearchResult {
            limit: search.limit.text.clone(),
            limit_us: search.limit.limit_us,
            found,
            steps,
        },
        measured,
    })
}

/// An interrupt, and a failure that another rate would not mend, end the search. A load that ended
/// because too much waited (`--overflow abort:N`) only answers its question.
fn is_final(measured: &Measured) -> bool {
    match &measured.failure {
        None => false,
        Some(Early::Failed(error)) => !matches!(error, LoadError::Overflow { .. }),
        Some(Early::Interrupted | Early::Silent(_)) => true,
    }
}

/// The step to report: the last one at the rate that was found, unless the last of all ended the
/// search.
fn choose(found: Found, held: Vec<(f64, Measured)>, last: Option<Measured>) -> Option<Measured> {
    if last.as_ref().is_some_and(is_final) {
        return last;
    }
    let rate = match found {
        Found::Between { holds, .. } | Found::NoneFails { holds } => Some(holds),
        Found::Unfinished { holds, .. } => holds,
        Found::NoneHolds { .. } => None,
    };
    let mut at_rate = held.into_iter().filter(|(held, _)| Some(*held) == rate);
    at_rate.next_back().map(|(_, measured)| measured).or(last)
}

struct Stepper<'a> {
    plan: &'a Plan,
    search: &'a Search,
    spec: &'a LoadSpec,
    server: &'a mut Server,
    interrupt: &'a Interrupt,
}

impl Stepper<'_> {
    /// Half of what a short closed loop carries.
    fn first_rate(&mut self) -> anyhow::Result<f64> {
        let measured = self.load(&self.spec.clone(), self.plan.warmup, CLOSED_LENGTH)?;
        let carried = measured.total.counters.transactions as f64 / measured.duration_s;
        match measured.failure {
            Some(early) => Err(anyhow!("the load failed before the first step: {early}")),
            None if carried <= 0.0 => Err(anyhow!("nothing ended in {CLOSED_LENGTH:?}")),
            None => {
                note(&format!(
                    "a closed loop carries {carried:.1} transactions a second"
                ));
                Ok(FIRST_SHARE * carried)
            }
        }
    }

    fn step(&mut self, proposal: &Proposal) -> Result<Measured, LoadError> {
        let spec = LoadSpec {
            arrivals: Some(Arrivals::constant(proposal.rate, self.search.spacing)),
            overflow: self.search.overflow,
            ..self.spec.clone()
        };
        let length = Duration::from_secs_f64(proposal.length_s);
        self.load(&spec, length.mul_f64(SETTLE_SHARE).min(SETTLE_MAX), length)
    }

    fn load(
        &mut self,
        spec: &LoadSpec,
        warmup: Duration,
        time: Duration,
    ) -> Result<Measured, LoadError> {
        let load = measure::start(spec)?;
        let phases = Phases {
            warmup,
            time: Some(time),
            interval: None,
            drain: None,
            rate_moves: false,
        };
        let each = &mut |_: &Interval, _: &Snapshot| {};
        Ok(measure::run(
            &phases,
            spec,
            load,
            self.server,
            self.interrupt,
            each,
        ))
    }

    fn outcome(&self, proposal: &Proposal, measured: &Measured) -> Step {
        let total = &measured.total;
        let latency = &total.response;
        let us = latency.quantile_us(self.search.limit.quantile);
        let offered = total.offered.unwrap_or_default();
        // Poisson arrivals are never exactly as many as planned; what was really due counts.
        let missing = offered.due.saturating_sub(total.counters.transactions) as f64;
        let share = missing / (offered.due as f64).max(1.0);
        Step {
            rate: proposal.rate,
            achieved: proposal.rate * (1.0 - share),
            latency_us: (!latency.is_empty()).then_some(us),
            backlog_age_us: offered.backlog_age_ns as f64 / 1e3,
            dropped: offered.dropped,
            failed: measured.failure.is_some(),
        }
    }
}

impl StepResult {
    fn line(&self, limit: &str) -> String {
        let why = match self.broken {
            None => format!("{limit} holds"),
            Some(Broken::Latency) => format!("{limit} does not hold"),
            Some(Broken::Throughput) => "less is carried than offered".to_owned(),
            Some(Broken::Backlog) => "transactions pile up".to_owned(),
            Some(Broken::Dropped) => "transactions are dropped".to_owned(),
            Some(Broken::Failed) => "the load fails".to_owned(),
        };
        let late = if self.generator_was_late {
            " (the generator itself was late)"
        } else {
            ""
        };
        format!(
            "[{:>5.1} s] {:>10.1} /s offered, {:>10.1} /s carried, {} ms: {why}{late}",
            self.length_s,
            self.rate,
            self.achieved,
            milliseconds(self.latency_us)
        )
    }
}

impl SearchResult {
    /// The answer and the steps, for people.
    pub(super) fn text(&self) -> String {
        let limit = &self.limit;
        let answer = match self.found {
            Found::Between { holds, fails } => format!(
                "{limit} holds at {holds:.1} transactions a second (twice), not at {fails:.1}; the \
                 figures below are of {holds:.1}"
            ),
            Found::NoneFails { holds } => {
                format!("{limit} holds up to the highest rate, {holds:.1} /s")
            }
            Found::NoneHolds { fails } => format!(
                "{limit} does not hold at any rate, down to {} /s; the figures below are of the \
                 last one",
                short(fails)
            ),
            Found::Unfinished { holds, fails } => {
                let rate =
                    |rate: Option<f64>| rate.map_or("none".to_owned(), |r| format!("{r:.1}"));
                format!(
                    "the search did not finish: the highest rate that held is {}, the lowest that \
                     did not {}",
                    rate(holds),
                    rate(fails)
                )
            }
        };
        let mut text = format!("  {answer}\n");
        for step in &self.steps {
            text.push_str(&format!("  {}\n", step.line(limit)));
        }
        text.truncate(text.trim_end().len());
        text
    }
}
