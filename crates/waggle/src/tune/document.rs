//! What a tuning run found, as the document that reports are made of.
//!
//! Neighbours: `engine` found it, `waggle_report::tune` shows it. Invariant: sentences say no more
//! than the outcome's answer does.

use std::time::Duration;

use waggle_report::run::RunFacts;
use waggle_report::tune::{
    TUNE_FORMAT_VERSION, TuneBlock, TuneConfiguration, TuneGuard, TuneGuardReading, TuneInterval,
    TuneObjective, TuneReport, TuneStage, TuneWorkload,
};
use waggle_stats::compare::Interval;
use waggle_stats::tune::{
    Answer, GuardStanding, GuardVerdict, Kind, Place, Standing, Stop, WhyDropped, amount,
};

use super::engine::{Ended, Found, Sample, StageRun, Trial};
use super::plan::Plan;

/// Configurations that a sentence lists; the table has all.
const EQUALS_SHOWN: usize = 4;

/// The document of a run.
pub(super) fn report(plan: &Plan, found: &Found, facts: &RunFacts, took: Duration) -> TuneReport {
    let objective = plan.setup.objective;
    let stages: Vec<TuneStage> = found.stages.iter().map(|run| stage(run, plan)).collect();
    let mut argv = vec!["waggle".to_owned()];
    argv.extend(facts.command.iter().skip(1).cloned());
    TuneReport {
        format_version: TUNE_FORMAT_VERSION,
        name: plan.name.clone(),
        question: plan.question.clone(),
        answer: answer(&stages),
        command: waggle_report::run::shell_line(&argv),
        waggle_version: env!("CARGO_PKG_VERSION").to_owned(),
        started: facts.started.clone(),
        duration_s: took.as_secs_f64(),
        environment: facts.host.clone(),
        server: facts.server.clone().unwrap_or_default(),
        workload: TuneWorkload {
            name: plan.setup.script.short_name().to_owned(),
            options: plan.setup.options.clone(),
            threads: plan.setup.threads,
            rate: plan.setup.rate,
        },
        objective: TuneObjective {
            name: objective.to_string(),
            unit: objective.unit().to_owned(),
            more_is_better: objective.more_is_better(),
        },
        guards: plan.guards.iter().map(guard).collect(),
        strategy: match plan.kind {
            Kind::Sweep => "sweep".to_owned(),
            Kind::Halving => "halving".to_owned(),
        },
        margin: plan.margin,
        seed: plan.setup.seed,
        notes: notes(plan, &stages),
        stages,
        error: found.error.clone(),
    }
}

fn guard(guard: &waggle_stats::tune::Guard) -> TuneGuard {
    TuneGuard {
        name: guard.name.clone(),
        unit: match guard.name.as_str() {
            "p99" => "us",
            "errors" => "errors/s",
            "memory" => "bytes",
            "replica-lag" => "s",
            _ => "",
        }
        .to_owned(),
        tolerance: guard.tolerance,
        limit: guard.limit,
    }
}

fn stage(run: &StageRun, plan: &Plan) -> TuneStage {
    let outcome = &run.outcome;
    let names = plan.stages.iter().find(|stage| stage.name == run.name);
    let variables: Vec<String> = names
        .map(|stage| {
            stage
                .space
                .variables
                .iter()
                .map(|v| v.name.clone())
                .collect()
        })
        .unwrap_or_default();
    let all = run.trials.iter().enumerate();
    let configurations = all
        .map(|(id, trial)| configuration(id, trial, run, variables.len()))
        .collect();
    let mut stage = TuneStage {
        name: run.name.clone(),
        variables,
        base: run.base.iter().cloned().collect(),
        configurations,
        best: outcome.best,
        equal_to_best: outcome.equal_to_best.clone(),
        recommended: outcome.recommended,
        verdict: verdict(&outcome.answer).to_owned(),
        answer: String::new(),
        ended: ended(run, plan),
        smallest_detectable: outcome.smallest_detectable,
        noise: outcome.noise,
        rounds: outcome.rounds,
        blocks: outcome.blocks,
        blocks_of_sweep: outcome.blocks_of_sweep,
        samples: run.samples.iter().map(block).collect(),
    };
    stage.answer = stage_answer(&stage, &outcome.answer, plan);
    stage
}

fn configuration(id: usize, trial: &Trial, run: &StageRun, variables: usize) -> TuneConfiguration {
    let ranking = &run.outcome.ranking;
    let at = ranking.iter().position(|standing| standing.config == id);
    let standing = at.map(|at| &ranking[at]);
    let is_ranked = |s: &&Standing| !matches!(s.place, Place::Failed | Place::Unknown);
    let dropped = run
        .outcome
        .dropped
        .iter()
        .find(|dropped| dropped.config == id);
    let x = match trial.values.as_slice() {
        [(_, value)] if variables == 1 => amount(value),
        _ => None,
    };
    let of = |get: fn(&Standing) -> Option<Interval>| standing.and_then(get).and_then(interval);
    TuneConfiguration {
        id,
        label: trial.label(),
        values: trial.values.iter().cloned().collect(),
        x,
        present: trial.is_present,
        rank: at
            .filter(|_| standing.filter(is_ranked).is_some())
            .map(|at| at + 1),
        place: standing.map_or("unknown", |s| place(s.place)).to_owned(),
        blocks: standing.map_or(0, |s| s.blocks),
        restarted: trial.restarted,
        level: of(|s| s.level),
        ratio: of(|s| s.ratio),
        to_best: of(|s| s.to_best),
        guards: standing
            .map(|s| s.guards.iter().map(reading).collect())
            .unwrap_or_default(),
        dropped_after: dropped.and_then(|dropped| match dropped.why {
            WhyDropped::Behind { round, .. } => Some(round),
            WhyDropped::Failed(_) => None,
        }),
        failure: trial.failure.as_ref().map(|(kind, _)| kind.clone()),
        why: trial.failure.as_ref().map(|(_, why)| why.clone()),
    }
}

/// An interval whose ends are numbers; what is not says nothing, and JSON has no word for it.
fn interval(interval: Interval) -> Option<TuneInterval> {
    let interval = TuneInterval {
        estimate: interval.estimate,
        low: interval.low,
        high: interval.high,
    };
    interval.is_finite().then_some(interval)
}

fn reading(standing: &GuardStanding) -> TuneGuardReading {
    TuneGuardReading {
        name: standing.name.clone(),
        verdict: match standing.verdict {
            GuardVerdict::Held => "held",
            GuardVerdict::Worse => "worse",
            GuardVerdict::Unknown => "unknown",
        }
        .to_owned(),
        level: standing.level,
        change: standing.change.and_then(interval),
        is_ratio: standing.is_ratio,
    }
}

fn block(sample: &Sample) -> TuneBlock {
    TuneBlock {
        t_s: sample.t_s,
        seconds: sample.seconds,
        round: sample.round,
        config: sample.config,
        objective: sample.objective,
        guards: sample.guards.clone(),
        restarted: sample.applied == "restarted",
    }
}

fn place(place: Place) -> &'static str {
    match place {
        Place::Best => "best",
        Place::Same => "same",
        Place::NotToldApart => "not-told-apart",
        Place::Behind => "behind",
        Place::Failed => "failed",
        Place::Unknown => "unknown",
    }
}

fn verdict(answer: &Answer) -> &'static str {
    match answer {
        Answer::Change { .. } => "change",
        Answer::PresentIsBest => "present-is-best",
        Answer::Same => "same",
        Answer::NotToldApart => "not-told-apart",
        Answer::GuardForbids { .. } => "guard-forbids",
        Answer::NotEnough => "not-enough",
    }
}

/// A ratio in words: `+12.3% tps (95% interval +10.1% to +14.6%)`.
fn change_words(stage: &TuneStage, id: usize, plan: &Plan) -> String {
    let ratio = stage.configuration(id).and_then(|config| config.ratio);
    let percent = |value: f64| format!("{:+.1}%", 100.0 * (value - 1.0));
    match ratio {
        None => format!("better {}", plan.setup.objective),
        Some(ratio) => format!(
            "{} {} (95% interval {} to {})",
            percent(ratio.estimate),
            plan.setup.objective,
            percent(ratio.low),
            percent(ratio.high)
        ),
    }
}

fn stage_answer(stage: &TuneStage, answer: &Answer, plan: &Plan) -> String {
    let full = |id: usize| {
        let config = stage.configuration(id);
        let pairs = config.map(|config| {
            let pairs = config
                .values
                .iter()
                .map(|(name, value)| format!("{name} = {value}"));
            pairs.collect::<Vec<_>>().join(", ")
        });
        pairs.unwrap_or_default()
    };
    let label = |id: &usize| stage.configuration(*id).map_or("?", |config| &config.label);
    let seen = stage.smallest_detectable.map_or(String::new(), |share| {
        format!("; a change of {:.1}% would have been seen", 100.0 * share)
    });
    let peak = match stage.best {
        Some(best) if !stage.equal_to_best.is_empty() => {
            let shown = stage.equal_to_best.iter().take(EQUALS_SHOWN);
            let equals: Vec<&str> = shown.map(label).collect();
            let more = match stage.equal_to_best.len().saturating_sub(EQUALS_SHOWN) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!(
                " The peak is at {}; not told apart from it: {}{more}.",
                label(&best),
                equals.join(", ")
            )
        }
        Some(best) => format!(" The peak is at {}, and no other reaches it.", label(&best)),
        None => String::new(),
    };
    match answer {
        Answer::Change { config } => {
            format!(
                "{}: {}.{peak}",
                full(*config),
                change_words(stage, *config, plan)
            )
        }
        Answer::PresentIsBest => "The present value is the best: all others that could be \
                                  measured were shown to be worse."
            .to_owned(),
        Answer::Same => format!(
            "No change: these are the same within {:.1}%{seen}.{peak}",
            100.0 * plan.margin
        ),
        Answer::NotToldApart => format!("No change: no difference was seen{seen}.{peak}"),
        Answer::GuardForbids { config, guard } => {
            let reading = stage.configuration(*config);
            let reading = reading.and_then(|c| c.guards.iter().find(|g| g.name == *guard));
            let how = match reading.map(|reading| reading.verdict.as_str()) {
                Some("unknown") => "could not be read",
                _ => "got worse",
            };
            format!(
                "No change: {} gives {}, but {guard} {how}.{peak}",
                full(*config),
                change_words(stage, *config, plan)
            )
        }
        Answer::NotEnough => "No answer: too little could be measured.".to_owned(),
    }
}

/// The stages' answers, as one.
fn answer(stages: &[TuneStage]) -> String {
    match stages {
        [] => "Nothing was measured.".to_owned(),
        [only] => only.answer.clone(),
        many => {
            let one = |stage: &TuneStage| format!("{}: {}", stage.name, stage.answer);
            many.iter().map(one).collect::<Vec<_>>().join(" ")
        }
    }
}

fn ended(run: &StageRun, plan: &Plan) -> String {
    match run.ended {
        Ended::Enough(Stop::OneLeft) => "It ended when one value was left.".to_owned(),
        Ended::Enough(Stop::Same) => format!(
            "It ended when what was left was the same within {:.1}%.",
            100.0 * plan.margin
        ),
        Ended::Enough(Stop::Rounds) => {
            format!(
                "It ended after {} rounds, the most that were allowed.",
                plan.rounds
            )
        }
        Ended::Enough(Stop::NothingToCompare) => {
            "It ended because nothing but the present value could be measured.".to_owned()
        }
        Ended::Budget => "It ended when its time was up; a longer --budget may tell more \
                          apart."
            .to_owned(),
        Ended::Interrupted => "It was interrupted.".to_owned(),
        Ended::Broken => "It could not go on.".to_owned(),
    }
}

fn notes(plan: &Plan, stages: &[TuneStage]) -> Vec<String> {
    let mut notes = Vec::new();
    if plan.setup.rate.is_none() {
        notes.push(
            "The load is a closed loop: response times hide what a stalled server would have done \
             to requests that were never sent."
                .to_owned(),
        );
    }
    let mut all = stages.iter().flat_map(|stage| &stage.configurations);
    if all.any(|config| config.restarted) {
        notes.push(
            "Values that need a restart were measured on servers that each began on a copy of the \
             same data directory."
                .to_owned(),
        );
    }
    if stages.len() > 1 {
        notes.push("Intervals hold together within a stage, not over the stages.".to_owned());
    }
    notes
}
