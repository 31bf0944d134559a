//! Carries a plan out: puts configurations to a subject in the order the strategy asks for, and
//! writes down what each block found.
//!
//! [`course`] goes through one stage; [`found`] is what comes of it. Neighbours:
//! `waggle_stats::tune` decides, a [`Subject`] measures, `document` says what came out. Invariant:
//! the servers are put back at the end, however it comes.

mod course;
mod found;

use std::time::{Duration, Instant};

use anyhow::Context;
use waggle_report::run::RunDir;
use waggle_stats::tune::{Configuration, Kind, Settings, Strategy, same_value};

use super::plan::{Plan, Stage};
use super::subject::Subject;
use crate::experiment::progress::Progress;
use crate::interrupt::Interrupt;
use course::Course;
pub(super) use found::{Ended, Found, Sample, StageRun, Trial};

/// Shortest and longest window of a block where the budget decides, seconds.
const WINDOW_S: (f64, f64) = (1.0, 10.0);
/// Rounds that the budget is to allow at least, when it decides the length of a window.
const ROUNDS_WANTED: f64 = 7.0;
/// Seconds a switch is reckoned with before one was seen.
const SWITCH_S: f64 = 0.5;

/// Why a run that the user ended is not whole.
const INTERRUPTED: &str = "interrupted; the figures are of what was measured until then";

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
}

#[cfg(test)]
mod tests;
