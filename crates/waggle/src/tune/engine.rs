//! Carries a plan out: puts configurations to a subject in the order the strategy asks for, and
//! writes down what each block found.
//!
//! Neighbours: `waggle_stats::tune` decides, a [`Subject`] measures, `document` says what came out.
//! Invariant: a trial that failed is a line of the run as a block is, and does not end the run.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use serde::Serialize;
use serde_json::{Value, json};
use waggle_report::run::RunDir;
use waggle_stats::tune::{
    Block, Configuration, Decision, Kind, Outcome, Settings, Stop, Strategy, same_value,
};

use super::plan::{Plan, Stage};
use super::subject::{Applied, BlockValue, Subject, TrialError};
use crate::experiment::progress::Progress;
use crate::interrupt::Interrupt;

/// Trials of the present configuration that may fail in a row.
const ANCHOR_FAILURES_MAX: u32 = 2;
/// Shortest and longest window of a block where the budget decides, seconds.
const WINDOW_S: (f64, f64) = (1.0, 10.0);
/// Rounds that the budget is to allow at least, when it decides the length of a window.
const ROUNDS_WANTED: f64 = 7.0;
/// Seconds a switch is reckoned with before one was seen.
const SWITCH_S: f64 = 0.5;

/// Why a run that the user ended is not whole.
const INTERRUPTED: &str = "interrupted; the figures are of what was measured until then";

/// A configuration that is tried in a stage.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Trial {
    /// Values of the stage's variables; for the present one those that are known.
    pub(super) values: Configuration,
    /// The one that everything is compared with.
    pub(super) is_present: bool,
    /// How it failed, if it did: kind and words.
    pub(super) failure: Option<(String, String)>,
    /// The last switch to it was a restart.
    pub(super) restarted: bool,
}

impl Trial {
    /// Its values in a few words, in the order of the stage's variables.
    pub(super) fn label(&self) -> String {
        let values: Vec<&str> = self
            .values
            .iter()
            .map(|(_, value)| value.as_str())
            .collect();
        match (values.is_empty(), self.is_present) {
            (true, _) => "present".to_owned(),
            (false, true) => format!("{} (present)", values.join(" / ")),
            (false, false) => values.join(" / "),
        }
    }
}

/// A measured block, as the run directory keeps it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Sample {
    pub(super) stage: String,
    pub(super) round: usize,
    pub(super) config: usize,
    pub(super) values: BTreeMap<String, String>,
    /// Begin of the measured window, seconds since the run began.
    pub(super) t_s: f64,
    /// Its length.
    pub(super) seconds: f64,
    pub(super) objective: f64,
    pub(super) unit: String,
    pub(super) guards: BTreeMap<String, f64>,
    /// `in-place` or `restarted`.
    pub(super) applied: String,
    pub(super) details: Value,
}

/// How a stage ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// The strategy wanted no more.
    Enough(Stop),
    /// The time was up.
    Budget,
    /// The user wanted no more.
    Interrupted,
    /// Nothing could be measured any more.
    Broken,
}

/// What a stage found.
#[derive(Debug)]
pub(super) struct StageRun {
    pub(super) name: String,
    /// What stages before it left in place.
    pub(super) base: Configuration,
    pub(super) trials: Vec<Trial>,
    pub(super) samples: Vec<Sample>,
    pub(super) outcome: Outcome,
    pub(super) ended: Ended,
}

/// What a run found, as far as it came.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) stages: Vec<StageRun>,
    /// Why it ended early, if it did.
    pub(super) error: Option<String>,
}

/// A run in progress.
pub(super) struct Engine<'a> {
    pub(super) plan: &'a Plan,
    pub(super) subject: &'a mut dyn Subject,
    pub(super) run: &'a mut RunDir,
    pub(super) interrupt: &'a Interrupt,
    pub(super) progress: &'a Progress,
    pub(super) started: Instant,
}

impl Engine<'_> {
    /// Every stage, one after the other, each with what was recommended before in place; then the
    /// state of before.
    pub(super) fn run(mut self) -> Found {
        let mut found = Found::default();
        let mut base: Configuration = Vec::new();
        for (place, stage) in self.plan.stages.iter().enumerate() {
            let left = (self.plan.stages.len() - place) as u32;
            let now = self.started.elapsed();
            let share = self.plan.budget.saturating_sub(now) / left;
            let (run, error) = self.stage(stage, &base, now + share);
            if let Some(best) = run.outcome.recommended {
                for (name, value) in &run.trials[best].values {
                    base.retain(|(known, _)| known != name);
                    base.push((name.clone(), value.clone()));
                }
            }
            let interrupted = run.ended == Ended::Interrupted;
            found.stages.push(run);
            if let Some(error) = error {
                found.error = Some(format!("{error:#}"));
                break;
            }
            if interrupted {
                found.error = Some(INTERRUPTED.to_owned());
                break;
            }
        }
        if let Err(error) = self.subject.restore() {
            let words = format!("the server could not be put back: {error:#}");
            found.error.get_or_insert(words);
        }
        found
    }

    /// What is tried in a stage: the present configuration first, then all others. Present is what
    /// an earlier stage left in place, else what the server had.
    fn trials(&mut self, stage: &Stage, base: &Configuration) -> anyhow::Result<Vec<Trial>> {
        let all = stage.space.configurations()?;
        let names: Vec<String> = stage
            .space
            .variables
            .iter()
            .map(|v| v.name.clone())
            .collect();
        let known = self
            .subject
            .present(&names)
            .context("reading the present values")?;
        let present: Configuration = names
            .iter()
            .filter_map(|name| {
                let left = base.iter().find(|(tuned, _)| tuned == name);
                let value = left.map(|(_, value)| value).or_else(|| known.get(name))?;
                Some((name.clone(), value.clone()))
            })
            .collect();
        let is_present = |config: &Configuration| {
            present.len() == config.len()
                && config
                    .iter()
                    .zip(&present)
                    .all(|(one, now)| same_value(&one.1, &now.1))
        };
        let trial = |values: Configuration, is_present| Trial {
            values,
            is_present,
            failure: None,
            restarted: false,
        };
        // In the words of the space, where the space has it.
        let own = all.iter().find(|config| is_present(config)).cloned();
        let mut trials = vec![trial(own.unwrap_or_else(|| present.clone()), true)];
        let others = all.into_iter().filter(|config| !is_present(config));
        trials.extend(others.map(|config| trial(config, false)));
        Ok(trials)
    }

    fn stage(
        &mut self,
        stage: &Stage,
        base: &Configuration,
        until: Duration,
    ) -> (StageRun, Option<anyhow::Error>) {
        let (trials, failed) = match self.trials(stage, base) {
            Ok(trials) => (trials, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let settings = Settings {
            kind: self.plan.kind,
            more_is_better: self.plan.setup.objective.more_is_better(),
            margin: self.plan.margin,
            rounds_most: self.plan.rounds,
            anchor: 0,
            guards: self.plan.guards.clone(),
            seed: self.plan.setup.seed,
        };
        let window_s = self.window_s(trials.len(), until);
        let mut course = Course {
            stage: stage.name.clone(),
            base: base.clone(),
            window_s,
            strategy: Strategy::new(trials.len(), settings),
            trials,
            samples: Vec::new(),
            until,
            longest: Duration::ZERO,
            anchor_failures: 0,
        };
        let ended = match failed {
            Some(error) => Err(error),
            None => self.course(&mut course),
        };
        let outcome = course.strategy.outcome();
        let run = StageRun {
            name: course.stage,
            base: course.base,
            trials: course.trials,
            samples: course.samples,
            outcome,
            ended: *ended.as_ref().unwrap_or(&Ended::Broken),
        };
        (run, ended.err())
    }

    /// The window of a block: as long as the budget allows for enough rounds.
    fn window_s(&self, trials: usize, until: Duration) -> f64 {
        if let Some(block) = self.plan.block {
            return block.as_secs_f64();
        }
        let left = until.saturating_sub(self.started.elapsed()).as_secs_f64();
        let rounds = match self.plan.kind {
            Kind::Sweep => self.plan.rounds as f64,
            Kind::Halving => ROUNDS_WANTED.min(self.plan.rounds as f64),
        };
        let share = left / (rounds * trials.max(1) as f64);
        (share - self.plan.setup.warm_up.as_secs_f64() - SWITCH_S).clamp(WINDOW_S.0, WINDOW_S.1)
    }

    fn course(&mut self, course: &mut Course) -> anyhow::Result<Ended> {
        self.run.append(&json!({
            "event": "stage",
            "stage": course.stage,
            "base": pairs(&course.base),
            "window_s": course.window_s,
            "configurations": course.trials.iter().map(|t| pairs(&t.values)).collect::<Vec<_>>(),
        }))?;
        loop {
            let order = match course.strategy.decide() {
                Decision::Stop(stop) => return Ok(Ended::Enough(stop)),
                Decision::Measure(order) => order,
            };
            for config in order {
                if self.interrupt.requested() {
                    return Ok(Ended::Interrupted);
                }
                // A block that would end after the budget is not begun, but for a few at first.
                let enough = course.strategy.blocks().len() >= 2 * course.trials.len();
                let end = self.started.elapsed() + course.longest;
                if end > course.until && (enough || self.started.elapsed() > course.until) {
                    return Ok(Ended::Budget);
                }
                // It may have failed since the round began.
                if course.strategy.is_in(config) {
                    self.trial(course, config)?;
                }
            }
        }
    }

    /// One block of a configuration, or how it failed.
    fn trial(&mut self, course: &mut Course, config: usize) -> anyhow::Result<()> {
        let begun = Instant::now();
        let label = course.trials[config].label();
        let wanted = course.wanted(config);
        let measured = self.subject.apply(&wanted).and_then(|applied| {
            let value = self.subject.block(course.window_s)?;
            Ok((applied, value))
        });
        match measured {
            Ok((applied, value)) => {
                course.longest = course.longest.max(begun.elapsed());
                if config == 0 {
                    course.anchor_failures = 0;
                }
                self.take(course, config, applied, value)
            }
            Err(TrialError::Broken(error)) => Err(error.context(format!("measuring {label}"))),
            Err(error) => self.failed(course, config, &error),
        }
    }

    fn take(
        &mut self,
        course: &mut Course,
        config: usize,
        applied: Applied,
        value: BlockValue,
    ) -> anyhow::Result<()> {
        let round = course.strategy.rounds() - 1;
        let t_s = self.started.elapsed().as_secs_f64() - value.seconds;
        let trial = &mut course.trials[config];
        trial.restarted |= applied == Applied::Restarted;
        let sample = Sample {
            stage: course.stage.clone(),
            round,
            config,
            values: trial.values.iter().cloned().collect(),
            t_s,
            seconds: value.seconds,
            objective: value.objective,
            unit: value.unit.to_owned(),
            guards: value.guards.clone(),
            applied: match applied {
                Applied::InPlace => "in-place".to_owned(),
                Applied::Restarted => "restarted".to_owned(),
            },
            details: value.details,
        };
        self.run.append(&sample)?;
        self.progress.say(&format!(
            "round {}: {}: {:.4} {}",
            round + 1,
            trial.label(),
            value.objective,
            value.unit
        ));
        let guards = self.plan.guards.iter();
        course.strategy.take(Block {
            config,
            round,
            at_s: t_s + 0.5 * value.seconds,
            value: value.objective,
            guards: guards
                .map(|guard| value.guards.get(&guard.name).copied())
                .collect(),
        });
        course.samples.push(sample);
        Ok(())
    }

    fn failed(
        &mut self,
        course: &mut Course,
        config: usize,
        error: &TrialError,
    ) -> anyhow::Result<()> {
        let (kind, why) = (error.kind(), error.why());
        let trial = &mut course.trials[config];
        self.progress.note(&format!("{}: {error}", trial.label()));
        self.run.append(&json!({
            "event": "trial-failed",
            "stage": course.stage,
            "round": course.strategy.rounds() - 1,
            "config": config,
            "values": pairs(&trial.values),
            "kind": kind,
            "why": why,
            "t_s": self.started.elapsed().as_secs_f64(),
        }))?;
        if config == 0 {
            course.anchor_failures += 1;
            if course.anchor_failures >= ANCHOR_FAILURES_MAX {
                return Err(anyhow!(
                    "the present configuration cannot be measured, so there is nothing to compare \
                     with: {why}"
                ));
            }
            // Without it the others have nothing to be compared with.
            return self.trial(course, config);
        }
        trial.failure = Some((kind.to_owned(), why.clone()));
        course.strategy.fail(config, why);
        Ok(())
    }
}

/// A stage in progress.
struct Course {
    stage: String,
    base: Configuration,
    window_s: f64,
    strategy: Strategy,
    trials: Vec<Trial>,
    samples: Vec<Sample>,
    until: Duration,
    /// The longest block so far, its switch included.
    longest: Duration,
    anchor_failures: u32,
}

impl Course {
    /// All that shall differ from the state before the run: what earlier stages left, and this
    /// configuration. The present one adds nothing.
    fn wanted(&self, config: usize) -> Configuration {
        let mut wanted = self.base.clone();
        let trial = &self.trials[config];
        if !trial.is_present {
            for (name, value) in &trial.values {
                wanted.retain(|(known, _)| known != name);
                wanted.push((name.clone(), value.clone()));
            }
        }
        wanted
    }
}

fn pairs(config: &Configuration) -> BTreeMap<&str, &str> {
    config
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect()
}

#[cfg(test)]
mod tests;
