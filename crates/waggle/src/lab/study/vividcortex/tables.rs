//! Lays what was measured out as the benchmark does, with intervals, beside its figures.
//!
//! Neighbours: `lab::run` measured the cells and `lab::outcome` compared arms and kinds of events;
//! [`super::figures`] holds what was published.
//!
//! Invariant: nothing is estimated here. A figure of a cell whose A/A arm is not clean is shown as
//! not claimed, and the answer leaves it out.

use waggle_report::lab::{Arm, Difference, Ratio, TypeArm};
use waggle_report::study::{
    AgentCost, Published, StudyCell, StudyColumn, StudyRow, StudyTable, StudyValue,
};
use waggle_stats::compare::BASE_ARM;

use super::Figure;
use super::cells::{Agent, Condition, OPERATIONS, Watched};
use super::figures;
use crate::lab::cell::CellRun;

/// One condition, measured in one mode.
#[derive(Debug)]
pub(super) struct Measured<'a> {
    pub(super) condition: Condition,
    pub(super) title: String,
    pub(super) cell: &'a StudyCell,
}

/// The conditions at their maximum and at the rate, in the order of the report.
#[derive(Debug)]
pub(super) struct Results<'a> {
    pub(super) agent: Agent,
    pub(super) throughput: Vec<Measured<'a>>,
    pub(super) rate: Vec<Measured<'a>>,
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
    fn arm(&self, agent: Agent, watched: Watched) -> Option<&Arm> {
        let name = agent.arm_name(watched);
        self.cell.arms.iter().find(|arm| arm.name == name)
    }

    fn of_type(&self, agent: Agent, watched: Watched, operation: &str) -> Option<&TypeArm> {
        let name = agent.arm_name(watched);
        let kind = self.cell.types.iter().find(|kind| kind.name == operation)?;
        kind.arms.iter().find(|arm| arm.arm == name)
    }

    /// The change of throughput, %.
    fn throughput(&self, agent: Agent, watched: Watched) -> StudyValue {
        let arm = self.arm(agent, watched);
        self.claimed(arm.and_then(|arm| arm.qps_ratio).map(of_ratio))
    }

    /// The change of the server's CPU time a statement, %.
    fn cpu(&self, agent: Agent, watched: Watched) -> StudyValue {
        let arm = self.arm(agent, watched);
        self.claimed(arm.and_then(|arm| arm.cpu_ratio).map(of_ratio))
    }

    /// The change of an operation's 99th percentile, %.
    fn response(&self, agent: Agent, watched: Watched, operation: &str) -> StudyValue {
        let arm = self.of_type(agent, watched, operation);
        self.claimed(arm.and_then(|arm| arm.p99_us).map(of_difference))
    }

    fn claimed(&self, value: Option<StudyValue>) -> StudyValue {
        match value {
            Some(StudyValue::Estimate {
                value, low, high, ..
            }) => StudyValue::Estimate {
                value,
                low,
                high,
                unclaimed: !self.cell.aa_clean,
            },
            Some(other) => other,
            None => StudyValue::absent("too few whole pairs of servers"),
        }
    }

    /// Windows with nothing on.
    fn base(&self) -> impl Iterator<Item = &waggle_report::lab::Window> {
        let name = &self.cell.base.name;
        self.cell
            .windows
            .iter()
            .filter(move |window| window.arm == *name)
    }

    /// Operations a second of one kind with nothing on.
    fn rate_of(&self, operation: &str) -> Option<f64> {
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
    fn p99_ms_of(&self, operation: &str) -> Option<f64> {
        let p99 = |window: &waggle_report::lab::Window| Some(window.types.get(operation)?.p99_us);
        let all: Vec<f64> = self
            .base()
            .filter_map(p99)
            .filter(|us| us.is_finite())
            .collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64 / 1e3)
    }

    /// Operations a second of every kind with nothing on.
    fn operations_per_s(&self) -> Option<f64> {
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

fn column(group: &str, title: &str, unit: &str) -> StudyColumn {
    StudyColumn {
        group: group.to_owned(),
        title: title.to_owned(),
        unit: unit.to_owned(),
    }
}

/// What was published, or why there is nothing beside ours.
fn published(figure: Option<&'static Figure>, condition: Condition) -> StudyValue {
    match (figure, condition) {
        (Some(figure), _) => figure.value(),
        (None, Condition::Io) => StudyValue::text("no stat. diff."),
        (None, _) => StudyValue::absent("not published as a number"),
    }
}

impl Results<'_> {
    fn all(&self) -> impl Iterator<Item = (&'static str, &Measured<'_>)> {
        let throughput = self.throughput.iter().map(|one| ("maximum", one));
        throughput.chain(self.rate.iter().map(|one| ("75% of it", one)))
    }

    /// Every table, in the order to show.
    pub(super) fn tables(&self) -> Vec<StudyTable> {
        vec![
            self.throughput_table(),
            self.response_table(),
            self.levels_table(),
            self.cpu_table(),
        ]
    }

    /// A row for each condition and each of the three.
    fn rows(
        measured: &[Measured<'_>],
        values: impl Fn(&Measured<'_>, Watched) -> Vec<StudyValue>,
    ) -> Vec<StudyRow> {
        let of = |one: &Measured<'_>| {
            let row = |watched: Watched| StudyRow {
                label: format!("{}: {}", one.title, watched.label()),
                cell: Some(one.cell.id.clone()),
                values: values(one, watched),
            };
            Watched::ALL.map(row)
        };
        measured.iter().flat_map(of).collect()
    }

    fn throughput_table(&self) -> StudyTable {
        let values = |one: &Measured<'_>, watched| {
            let figure = figures::throughput(one.condition, watched);
            vec![
                one.throughput(self.agent, watched),
                published(figure, one.condition),
            ]
        };
        StudyTable {
            id: "throughput".to_owned(),
            title: "Throughput at the maximum, change against neither".to_owned(),
            caption: "Here statements a second in closed loop, with 95% intervals over pairs of \
                      servers; Percona's are operations a second, without intervals."
                .to_owned(),
            row_title: "workload: what is on".to_owned(),
            columns: vec![column("", "here", "%"), column("", "Percona", "%")],
            rows: Self::rows(&self.throughput, values),
        }
    }

    fn response_table(&self) -> StudyTable {
        let values = |one: &Measured<'_>, watched| {
            let of = |operation| {
                let figure = figures::response(one.condition, operation, watched);
                [
                    one.response(self.agent, watched, operation),
                    published(figure, one.condition),
                ]
            };
            OPERATIONS.into_iter().flat_map(of).collect()
        };
        let columns = |operation| [column("", operation, "%"), column("", "Percona", "%")];
        StudyTable {
            id: "response-time".to_owned(),
            title: "99th percentile of response time at 75% of the maximum, change against neither"
                .to_owned(),
            caption: "Here from the intended start of each request, so that waiting for a \
                      connection counts; LinkBenchX timed the execution alone."
                .to_owned(),
            row_title: "workload: what is on".to_owned(),
            columns: OPERATIONS.into_iter().flat_map(columns).collect(),
            rows: Self::rows(&self.rate, values),
        }
    }

    fn levels_table(&self) -> StudyTable {
        let mut columns = vec![column("", "operations", "/s")];
        for operation in OPERATIONS {
            columns.push(column(operation, "rate", "/s"));
            columns.push(column(operation, "p99", "ms"));
        }
        let row = |(mode, one): (&str, &Measured<'_>)| {
            let plain = |value: Option<f64>, digits| match value {
                Some(value) => StudyValue::plain(value, digits),
                None => StudyValue::absent("no window"),
            };
            let mut values = vec![plain(one.operations_per_s(), 0)];
            for operation in OPERATIONS {
                values.push(plain(one.rate_of(operation), 0));
                values.push(plain(one.p99_ms_of(operation), 2));
            }
            StudyRow {
                label: format!("{}, {mode}", one.title),
                cell: Some(one.cell.id.clone()),
                values,
            }
        };
        StudyTable {
            id: "levels".to_owned(),
            title: "With neither: what the server carried".to_owned(),
            caption: "Means over windows; p99 is the mean of the windows' own.".to_owned(),
            row_title: "workload, load".to_owned(),
            columns,
            rows: self.all().map(row).collect(),
        }
    }

    fn cpu_table(&self) -> StudyTable {
        let row = |(mode, one): (&str, &Measured<'_>)| StudyRow {
            label: format!("{}, {mode}", one.title),
            cell: Some(one.cell.id.clone()),
            values: Watched::ALL
                .into_iter()
                .map(|watched| one.cpu(self.agent, watched))
                .collect(),
        };
        StudyTable {
            id: "server-cpu".to_owned(),
            title: "CPU time of the server a statement, change against neither".to_owned(),
            caption: "The least noisy figure of the three; the benchmark did not publish it. What \
                      the agent's own process uses is not in it."
                .to_owned(),
            row_title: "workload, load".to_owned(),
            columns: Watched::ALL
                .map(|watched| column("", watched.label(), "%"))
                .to_vec(),
            rows: self.all().map(row).collect(),
        }
    }

    /// What the agent's process used in each cell.
    pub(super) fn agent_costs(&self) -> Vec<AgentCost> {
        let cost = |(mode, one): (&str, &Measured<'_>)| {
            let arm = one.arm(self.agent, Watched::Agent)?;
            let tool = arm.tool?;
            let windows = one
                .cell
                .windows
                .iter()
                .filter(|window| window.arm == arm.name);
            let (statements, seconds) = windows.fold((0, 0.0), |(statements, seconds), window| {
                (statements + window.statements, seconds + window.duration_s)
            });
            let rate = (seconds > 0.0).then(|| statements as f64 / seconds);
            Some(AgentCost {
                label: format!("{}, {mode}", one.title),
                cell: Some(one.cell.id.clone()),
                statements_per_s: rate,
                cores: rate.map(|rate| rate * tool.cpu_us_per_statement / 1e6),
                cpu_us_per_statement: Some(tool.cpu_us_per_statement),
                rss_bytes: Some(tool.rss_bytes),
                captured: arm.captured,
                executed: Some(arm.executed),
                ..AgentCost::default()
            })
        };
        self.all().filter_map(cost).collect()
    }

    /// Every published figure with ours beside it.
    pub(super) fn published(&self) -> Vec<Published> {
        let mut all = Vec::new();
        for watched in Watched::ALL {
            for one in &self.throughput {
                let figure = figures::throughput(one.condition, watched);
                let ours = one.throughput(self.agent, watched);
                all.extend(figure.map(|figure| figure.entry(Some(&one.cell.id), Some(ours))));
            }
            for one in &self.rate {
                for operation in OPERATIONS {
                    let figure = figures::response(one.condition, operation, watched);
                    let ours = one.response(self.agent, watched, operation);
                    all.extend(figure.map(|figure| figure.entry(Some(&one.cell.id), Some(ours))));
                }
            }
        }
        all
    }

    /// The answer, in a sentence for each workload.
    pub(super) fn answer(&self) -> String {
        let sentence = |one: &Measured<'_>| {
            let part = |watched: Watched| match one.throughput(self.agent, watched) {
                StudyValue::Estimate {
                    value, low, high, ..
                } => format!(
                    "{value:+.1}% ({low:+.1} to {high:+.1}) under {}",
                    words(watched)
                ),
                _ => format!("unknown under {}", words(watched)),
            };
            let known = |watched| one.throughput(self.agent, watched);
            if Watched::ALL
                .iter()
                .all(|w| matches!(known(*w), StudyValue::Absent { .. }))
            {
                return format!("{}: too few whole pairs of servers to say.", one.title);
            }
            if !one.cell.aa_clean {
                return format!("{}: not claimed, as the A/A arm is not clean.", one.title);
            }
            let [schema, agent, both] = Watched::ALL.map(part);
            format!("{}: throughput {schema}, {agent}, {both}.", one.title)
        };
        let sentences: Vec<String> = self.throughput.iter().map(sentence).collect();
        match sentences.is_empty() {
            true => "Nothing was measured.".to_owned(),
            false => sentences.join(" "),
        }
    }
}

fn words(watched: Watched) -> &'static str {
    match watched {
        Watched::PerformanceSchema => "PERFORMANCE_SCHEMA",
        Watched::Agent => "the agent",
        Watched::Both => "both",
    }
}

#[cfg(test)]
mod tests;
