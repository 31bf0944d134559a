//! The engine over a stand-in server: what it asks for, and what becomes of trials that fail.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::anyhow;
use serde_json::Value;
use waggle_load::Script;
use waggle_report::run::Run;
use waggle_server::Flavour;
use waggle_stats::tune::{Answer, Place, Space, Values, Variable};

use super::super::subject::{Applied, BlockValue, Objective, Setup, TrialError};
use super::*;

/// A server with two variables, in memory.
#[derive(Default)]
struct StandIn {
    /// Value of the variable `workers`, present 1; more help up to 4.
    now: BTreeMap<String, String>,
    /// What it was asked for, in order.
    applied: Vec<Vec<(String, String)>>,
    restored: bool,
    blocks: usize,
    /// The present configuration fails too.
    dead: bool,
}

impl StandIn {
    fn value(&self, name: &str) -> f64 {
        let text = self.now.get(name).map_or("1", String::as_str);
        text.parse().unwrap_or(0.0)
    }
}

impl Subject for StandIn {
    fn apply(&mut self, config: &[(String, String)]) -> Result<Applied, TrialError> {
        self.applied.push(config.to_vec());
        self.now.clear();
        let of = |name: &str| config.iter().find(|(known, _)| known == name);
        match of("workers").map(|(_, value)| value.as_str()) {
            Some("64") => {
                let why = "Variable can't be set to 64".to_owned();
                return Err(TrialError::Refused { why });
            }
            Some("128") => {
                let why = "exit code 1: out of memory".to_owned();
                return Err(TrialError::CannotRestart { why });
            }
            _ => {}
        }
        if self.dead {
            let why = "signal 11".to_owned();
            return Err(TrialError::Crashed { why });
        }
        self.now = config.iter().cloned().collect();
        Ok(match of("pool") {
            Some(_) => Applied::Restarted,
            None => Applied::InPlace,
        })
    }

    fn block(&mut self, seconds: f64) -> Result<BlockValue, TrialError> {
        self.blocks += 1;
        let workers = self.value("workers");
        if workers == 32.0 && self.blocks > 6 {
            let why = "signal 6".to_owned();
            return Err(TrialError::Crashed { why });
        }
        let noise = 1.0 + 0.003 * ((self.blocks * 13 % 7) as f64 - 3.0) / 3.0;
        let gain = if self.value("pool") > 1.0 { 1.1 } else { 1.0 };
        let objective = gain * 1000.0 * (1.0 - 0.1 * (workers - 4.0).abs().min(9.0)) * noise;
        Ok(BlockValue {
            objective,
            unit: "transactions/s",
            guards: BTreeMap::from([("errors".to_owned(), 0.0)]),
            seconds,
            details: Value::Null,
        })
    }

    fn restore(&mut self) -> anyhow::Result<()> {
        self.restored = true;
        match self.dead {
            true => Err(anyhow!("it does not answer")),
            false => Ok(()),
        }
    }

    fn present(&mut self, names: &[String]) -> anyhow::Result<BTreeMap<String, String>> {
        Ok(names
            .iter()
            .map(|name| (name.clone(), "1".to_owned()))
            .collect())
    }
}

fn stage(name: &str, values: &[&str]) -> Stage {
    let values = Values::List(values.iter().map(|v| (*v).to_owned()).collect());
    let name = name.to_owned();
    Stage {
        name: name.clone(),
        space: Space {
            variables: vec![Variable { name, values }],
            constraints: Vec::new(),
        },
        restart: Vec::new(),
    }
}

fn plan(runs: &Path, stages: Vec<Stage>) -> Plan {
    Plan {
        name: "stand-in".to_owned(),
        question: "Which?".to_owned(),
        setup: Setup {
            flavour: Flavour::MariaDb,
            script: Script::from_text("none", ""),
            options: BTreeMap::new(),
            threads: 1,
            rate: None,
            objective: Objective::Tps,
            settings: Vec::new(),
            restart: Vec::new(),
            warm_up: Duration::ZERO,
            warm_up_restarted: Duration::ZERO,
            seed: 5,
        },
        guards: vec![super::super::plan::guard("errors").expect("a guard")],
        stages,
        kind: Kind::Halving,
        margin: 0.01,
        rounds: 9,
        block: Some(Duration::from_millis(100)),
        budget: Duration::from_secs(60),
        runs: runs.to_path_buf(),
    }
}

fn run(plan: &Plan, subject: &mut StandIn) -> (Found, std::path::PathBuf) {
    let mut run = RunDir::create(&plan.runs, "tune", "stand-in").expect("a run");
    let path = run.path().to_path_buf();
    let engine = Engine {
        plan,
        subject,
        run: &mut run,
        interrupt: &crate::interrupt::catch().expect("signals"),
        progress: &Progress::new(plan.budget),
        started: Instant::now(),
    };
    (engine.run(), path)
}

#[test]
fn the_best_is_found_and_failed_trials_are_findings() {
    let runs = tempfile::tempdir().expect("a directory");
    let values = ["1", "2", "4", "8", "32", "64", "128"];
    let plan = plan(runs.path(), vec![stage("workers", &values)]);
    let mut subject = StandIn::default();
    let (found, path) = run(&plan, &mut subject);
    assert_eq!(found.error, None);
    let stage = &found.stages[0];
    let best = stage.outcome.recommended.expect("4 is better than 1");
    assert_eq!(stage.trials[best].label(), "4");
    assert_eq!(stage.outcome.answer, Answer::Change { config: best });
    let failed: Vec<_> = stage
        .trials
        .iter()
        .filter_map(|trial| Some((trial.label(), trial.failure.clone()?.0)))
        .collect();
    let expected = [
        ("32", "crashed"),
        ("64", "refused"),
        ("128", "cannot-restart"),
    ];
    let expected = expected.map(|(value, kind)| (value.to_owned(), kind.to_owned()));
    assert_eq!(failed, expected);
    let places = stage
        .outcome
        .ranking
        .iter()
        .filter(|s| s.place == Place::Failed);
    assert_eq!(places.count(), 3);
    assert!(subject.restored);
    // A refused value is tried once.
    let asked = |value: &str| {
        let is = |config: &&Vec<(String, String)>| config.iter().any(|(_, v)| v == value);
        subject.applied.iter().filter(is).count()
    };
    assert_eq!((asked("64"), asked("128")), (1, 1));
    // The present one is asked for as "nothing changed".
    assert!(asked("1") == 0 && subject.applied.iter().any(Vec::is_empty));

    let lines = Run::open(&path)
        .expect("a run")
        .samples()
        .expect("lines")
        .values;
    let of = |event: &str| lines.iter().filter(|line| line["event"] == event).count();
    assert_eq!((of("stage"), of("trial-failed")), (1, 3));
    let blocks = lines
        .iter()
        .filter(|line| line.get("objective").is_some())
        .count();
    assert_eq!(blocks, stage.samples.len());
}

#[test]
fn a_stage_begins_with_what_the_one_before_recommended() {
    let runs = tempfile::tempdir().expect("a directory");
    let stages = vec![stage("workers", &["1", "4"]), stage("pool", &["1", "2"])];
    let plan = plan(runs.path(), stages);
    let mut subject = StandIn::default();
    let (found, _) = run(&plan, &mut subject);
    assert_eq!(found.error, None);
    let second = &found.stages[1];
    assert_eq!(second.base, [("workers".to_owned(), "4".to_owned())]);
    let best = second.outcome.recommended.expect("a larger pool helps");
    assert_eq!(second.trials[best].label(), "2");
    assert!(second.trials[best].restarted);
    let last = subject.applied.last().expect("asked");
    assert!(
        last.contains(&("workers".to_owned(), "4".to_owned())),
        "{last:?}"
    );
}

#[test]
fn a_variable_that_is_tuned_again_is_compared_with_what_was_left_in_place() {
    let runs = tempfile::tempdir().expect("a directory");
    let mut again = stage("workers", &["1", "4", "8"]);
    again.name = "again".to_owned();
    let plan = plan(runs.path(), vec![stage("workers", &["1", "4"]), again]);
    let (found, _) = run(&plan, &mut StandIn::default());
    assert_eq!(found.error, None);
    let second = &found.stages[1];
    assert_eq!(second.base, [("workers".to_owned(), "4".to_owned())]);
    let labels: Vec<String> = second.trials.iter().map(Trial::label).collect();
    assert_eq!(labels, ["4 (present)", "1", "8"]);
    assert_eq!(second.outcome.answer, Answer::PresentIsBest);
}

#[test]
fn a_present_configuration_that_cannot_be_measured_ends_the_run() {
    let runs = tempfile::tempdir().expect("a directory");
    let plan = plan(runs.path(), vec![stage("workers", &["1", "4"])]);
    let mut subject = StandIn {
        dead: true,
        ..StandIn::default()
    };
    let (found, _) = run(&plan, &mut subject);
    let error = found.error.expect("an error");
    assert!(
        error.contains("present configuration") && error.contains("signal 11"),
        "{error}"
    );
    assert!(subject.restored);
    assert_eq!(found.stages[0].outcome.answer, Answer::NotEnough);
}

#[test]
fn the_budget_ends_a_run_with_what_there_is() {
    let runs = tempfile::tempdir().expect("a directory");
    let mut plan = plan(runs.path(), vec![stage("workers", &["1", "2", "3"])]);
    plan.budget = Duration::ZERO;
    let (found, _) = run(&plan, &mut StandIn::default());
    assert_eq!(found.error, None);
    assert_eq!(found.stages[0].ended, Ended::Budget);
}
