//! The course of one stage: round after round, a block of each configuration that is still in.
//!
//! Neighbours: the engine above says what is tried and until when; a [`Strategy`] gives the order.
//! Invariant: a trial that failed is a line of the run as a block is, and does not end the run.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use serde_json::json;
use waggle_stats::tune::{Block, Configuration, Decision, Strategy};

use super::{Ended, Engine, Sample, Trial};
use crate::tune::subject::{Applied, BlockValue, TrialError};

/// Trials of the present configuration that may fail in a row.
const ANCHOR_FAILURES_MAX: u32 = 2;

/// A stage in progress.
pub(super) struct Course {
    pub(super) stage: String,
    pub(super) base: Configuration,
    pub(super) window_s: f64,
    pub(super) strategy: Strategy,
    pub(super) trials: Vec<Trial>,
    pub(super) samples: Vec<Sample>,
    pub(super) until: Duration,
    /// The longest block so far, its switch included.
    pub(super) longest: Duration,
    pub(super) anchor_failures: u32,
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

impl Engine<'_> {
    /// Measures until the strategy wants no more, or something else ends it.
    pub(super) fn course(&mut self, course: &mut Course) -> anyhow::Result<Ended> {
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

fn pairs(config: &Configuration) -> BTreeMap<&str, &str> {
    config
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect()
}
