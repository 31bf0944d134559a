//! Lays what was measured out as the benchmark does, with intervals, beside its figures.
//!
//! Neighbours: [`Measured`] has the figures of a condition, [`super::figures`] holds what was
//! published.
//!
//! Invariant: nothing is estimated here. The answer leaves out what may not be claimed.

use waggle_report::study::{AgentCost, Published, StudyRow, StudyTable, StudyValue};

use super::super::values::column;
use super::Figure;
use super::cells::{Agent, Condition, OPERATIONS, Watched};
use super::figures;
use super::measured::Measured;

/// The conditions at their maximum and at the rate, in the order of the report.
#[derive(Debug)]
pub(super) struct Results<'a> {
    pub(super) agent: Agent,
    pub(super) throughput: Vec<Measured<'a>>,
    pub(super) rate: Vec<Measured<'a>>,
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
