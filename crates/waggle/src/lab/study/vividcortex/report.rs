//! What is said of what was measured: the tables, and what a reader must know beside them.
//!
//! Neighbours: [`tables`](super::tables) lays the figures out, `waggle-report` shows them.

use waggle_report::study::{StudyCell, StudyReport};

use super::args::Plan;
use super::cells::{Agent, CellPlan, Condition, Watched};
use super::measured::Measured;
use super::tables::Results;
use super::{Found, MARGIN};
use crate::lab::cell::CellRun;
use crate::lab::study::{Opened, cell_report, failed_in, server_of, within_cells};

/// What is reported, whole or not.
pub(super) fn report(
    plan: &Plan,
    cells: &CellPlan,
    found: &Found,
    opened: &Opened,
    error: Option<&anyhow::Error>,
) -> StudyReport {
    let shown = |runs: &[(Condition, CellRun)], load: &str| -> Vec<StudyCell> {
        let cell = |(condition, run): &(Condition, CellRun)| {
            study_cell(run, plan.agent, &cells.title(*condition), load)
        };
        runs.iter().map(cell).collect()
    };
    let most = shown(&found.throughput, "at the maximum");
    let rate = shown(&found.rate, "at 75% of it");
    let results = Results {
        agent: plan.agent,
        throughput: measured(cells, &found.throughput, &most),
        rate: measured(cells, &found.rate, &rate),
    };
    let mut notes: Vec<String> = error
        .map(|error| format!("It failed in part: {error:#}."))
        .into_iter()
        .collect();
    notes.extend(limits_told(&most));
    notes.extend(within_cells(most.len() + rate.len()));
    notes.extend(standing_notes(plan, cells));
    let mut report = StudyReport {
        title: "Percona's benchmark of the VividCortex agent, repeated".to_owned(),
        question: "What do PERFORMANCE_SCHEMA, an agent, and both cost a server under LinkBench?"
            .to_owned(),
        answer: results.answer(),
        tables: results.tables(),
        agent: results.agent_costs(),
        published: results.published(),
        notes,
        ..opened.report("vividcortex")
    };
    let mut runs = found.throughput.iter().map(|(_, run)| run);
    if let Some(run) = runs.find(|run| !run.server.version.is_empty()) {
        report.server = server_of(run);
    }
    report.cells = most.into_iter().chain(rate).collect();
    report
}

/// A cell of the report, with its kinds of events.
fn study_cell(run: &CellRun, agent: Agent, title: &str, load: &str) -> StudyCell {
    let subject = agent.arm_name(Watched::Agent);
    let report = cell_report(run, &subject, MARGIN);
    let failed = failed_in(run, &report);
    let mut cell = StudyCell::of(&run.spec.id, title, load, report);
    cell.notes.splice(0..0, failed);
    cell
}

fn measured<'a>(
    plan: &CellPlan,
    runs: &[(Condition, CellRun)],
    cells: &'a [StudyCell],
) -> Vec<Measured<'a>> {
    let one = |((condition, _), cell): (&(Condition, CellRun), &'a StudyCell)| Measured {
        condition: *condition,
        title: plan.title(*condition),
        cell,
    };
    runs.iter().zip(cells).map(one).collect()
}

/// What the kernel enforced of each limit, and what it refused.
fn limits_told(cells: &[StudyCell]) -> Vec<String> {
    let told = cells.iter().filter(|cell| !cell.workload.limits.is_empty());
    told.map(|cell| {
        format!(
            "Limits, {}: {}.",
            cell.part,
            cell.workload.limits.join("; ")
        )
    })
    .collect()
}

/// What a reader must know, whatever came out.
fn standing_notes(plan: &Plan, cells: &CellPlan) -> Vec<String> {
    let mib = |bytes: u64| bytes >> 20;
    let mut notes = vec![
        "PERFORMANCE_SCHEMA needs a restart: pairs of servers, one with it and one without, live \
         at the same time and take turns, and intervals are over pairs. The agent is switched on \
         either. Between two windows of anything lies one of neither."
            .to_owned(),
        "The load goes over TCP on the loopback device, and from the machine it loads; Percona's \
         came over a network."
            .to_owned(),
        "At the maximum the load is a closed loop, whose latencies hide coordinated omission. At \
         75% of it requests are due by a Poisson process of that rate, for all connections \
         together; a response time runs from when the request was due."
            .to_owned(),
    ];
    if plan.workloads.iter().any(|one| *one != Condition::Io) {
        notes.push(
            "CPU-bound: innodb_flush_log_at_trx_commit = 2, so that commits do not wait for the \
             disk; I/O-bound it is 1."
                .to_owned(),
        );
    }
    if plan.agent == Agent::Packets {
        notes.push(
            "The agent that decodes packets is started for each of its windows, in the middle of \
             sessions: it misses the statement that each session begins with, some of the \
             difference between captured and executed."
                .to_owned(),
        );
    }
    if plan.workloads.contains(&Condition::Io) {
        notes.push(format!(
            "I/O-bound: a buffer pool of {} MiB for about {} MiB of data (estimated from its {} \
             nodes), O_DIRECT, and the disk limited to {} MiB a second each way where the kernel \
             lets us. Version 1 of control groups lets traffic through in steps of a tenth of a \
             second, which the longest response times show.",
            mib(cells.pool_bytes(Condition::Io)),
            mib(plan.scale.data_bytes()),
            plan.scale.nodes,
            mib(plan.io_bytes_per_s),
        ));
    }
    if plan.workloads.contains(&Condition::FewCpus) {
        notes.push(format!(
            "With few CPUs, server and agent share {}, and the load keeps off them where there are \
             others; Percona left them 4.",
            plan.cpus
        ));
    }
    notes.push(
        "Percona printed response times for the CPU-bound workload alone, and no spread with any \
         figure."
            .to_owned(),
    );
    notes
}
