//! The figures of one condition, as the benchmark has them: changes in percent, operations a
//! second.
//!
//! Neighbours: `lab::run` measured the cells and `lab::outcome` compared arms and kinds of events;
//! `tables` lays the figures out.
//!
//! Invariant: a figure of a cell whose A/A arm is not clean is shown as not claimed.

use waggle_report::lab::{Arm, Difference, Ratio, TypeArm, Window};
use waggle_report::study::{StudyCell, StudyValue};
use waggle_stats::compare::BASE_ARM;

use super::super::values::claimed;
use super::cells::{Agent, Condition, Watched};
use crate::lab::cell::CellRun;

/// One condition, measured in one mode.
#[derive(Debug)]
pub(super) struct Measured<'a> {
    pub(super) condition: Condition,
    pub(super) title: String,
    pub(super) cell: &'a StudyCell,
}

/// Operations a second with nothing on; `None` without a window.
pub(super) fn operations_per_s(run: &CellRun) -> Option<f64> {
    let base = run
        .pairs
        .iter()
        .filter(|sample| sample.window.arm == BASE_ARM);
    let (mut operations, mut seconds) = (0, 0.0);
    for sample in base {
        operations += sample.transactions;
        seconds += sample.window.duration_s;
    }
    (operations > 0).then(|| operations as f64 / seconds)
}

impl Measured<'_> {
    pub(super) fn arm(&self, agent: Agent, watched: Watched) -> Option<&Arm> {
        let name = agent.arm_name(watched);
        self.cell.arms.iter().find(|arm| arm.name == name)
    }

    fn of_type(&self, agent: Agent, watched: Watched, operation: &str) -> Option<&TypeArm> {
        let name = agent.arm_name(watched);
        let kind = self.cell.types.iter().find(|kind| kind.name == operation)?;
        kind.arms.iter().find(|arm| arm.arm == name)
    }

    /// The change of throughput, %.
    pub(super) fn throughput(&self, agent: Agent, watched: Watched) -> StudyValue {
        let arm = self.arm(agent, watched);
        self.claimed(arm.and_then(|arm| arm.qps_ratio).map(of_ratio))
    }

    /// The change of the server's CPU time a statement, %.
    pub(super) fn cpu(&self, agent: Agent, watched: Watched) -> StudyValue {
        let arm = self.arm(agent, watched);
        self.claimed(arm.and_then(|arm| arm.cpu_ratio).map(of_ratio))
    }

    /// The change of an operation's 99th percentile, %.
    pub(super) fn response(&self, agent: Agent, watched: Watched, operation: &str) -> StudyValue {
        let arm = self.of_type(agent, watched, operation);
        self.claimed(arm.and_then(|arm| arm.p99_us).map(of_difference))
    }

    fn claimed(&self, value: Option<StudyValue>) -> StudyValue {
        match value {
            Some(value) => claimed(value, self.cell),
            None => StudyValue::absent("too few whole pairs of servers"),
        }
    }

    /// Windows with nothing on.
    fn base(&self) -> impl Iterator<Item = &Window> {
        let name = &self.cell.base.name;
        self.cell
            .windows
            .iter()
            .filter(move |window| window.arm == *name)
    }

    /// Operations a second of one kind with nothing on.
    pub(super) fn rate_of(&self, operation: &str) -> Option<f64> {
        let (mut count, mut seconds) = (0, 0.0);
        for window in self.base() {
            count += window
                .types
                .get(operation)
                .map_or(0, |kind| kind.statements);
            seconds += window.duration_s;
        }
        (seconds > 0.0).then(|| count as f64 / seconds)
    }

    /// Mean of the windows' 99th percentiles of one kind with nothing on, ms.
    pub(super) fn p99_ms_of(&self, operation: &str) -> Option<f64> {
        let p99 = |window: &Window| Some(window.types.get(operation)?.p99_us);
        let all: Vec<f64> = self
            .base()
            .filter_map(p99)
            .filter(|us| us.is_finite())
            .collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64 / 1e3)
    }

    /// Operations a second of every kind with nothing on.
    pub(super) fn operations_per_s(&self) -> Option<f64> {
        let (mut count, mut seconds) = (0, 0.0);
        for window in self.base() {
            count += window
                .types
                .values()
                .map(|kind| kind.statements)
                .sum::<u64>();
            seconds += window.duration_s;
        }
        (count > 0).then(|| count as f64 / seconds)
    }
}

fn of_ratio(ratio: Ratio) -> StudyValue {
    let change = |ratio: f64| (ratio - 1.0) * 100.0;
    StudyValue::estimate(
        change(ratio.estimate),
        change(ratio.low),
        change(ratio.high),
    )
}

/// A difference as a share of its base; the report's differences agree with their ratios.
fn of_difference(difference: Difference) -> StudyValue {
    let share = |part: f64| part / difference.base * 100.0;
    StudyValue::estimate(
        share(difference.delta),
        share(difference.low),
        share(difference.high),
    )
}
