//! From the windows of a cell to comparisons, verdicts and the report.
//!
//! Neighbours: `cell` holds what was measured, `waggle-stats` compares, [`checks`] says what did
//! not hold; `crate::lab::study` puts several of these reports together.
//!
//! Invariant: every arm is compared in one set of windows only, those it was planned for.

pub(crate) mod checks;
mod notes;
mod parts;

use std::collections::BTreeMap;

use waggle_report::host::HostFacts;
use waggle_report::lab::{
    Arm as ReportArm, ArmKind, BaseArm, Freedom, LAB_FORMAT_VERSION, LabReport, LabServer,
    LabVerdict, LatencyDifferences, Primary, Workload,
};
use waggle_stats::compare::{
    Comparison, Outcome, SameVerdict, Verdict, compare_chain, judge, judge_all, judge_same,
};

use super::arm::ObserverSpec;
use super::cell::{CellRun, operations};

/// The report of one cell; the arm `subject` is what its question is about. What the cell does not
/// know (command, time it took) is left for the caller.
pub(crate) fn cell_report(run: &CellRun, subject: &str, margin: f64) -> LabReport {
    let compared: Vec<(usize, Option<Comparison>)> = run
        .spec
        .numbered()
        .map(|(number, _)| (number, compare(run, number, run.spec.primary)))
        .collect();
    let is_same = |number: usize| run.spec.arm(number).is_some_and(|arm| arm.aa);
    let same = compared.iter().find(|(number, _)| is_same(*number));
    let same = same
        .and_then(|(_, c)| c.as_ref())
        .map(|c| judge_same(c, margin));
    let aa_clean = matches!(same, Some(SameVerdict::Clean | SameVerdict::Bounded));
    let mut judged = verdicts(run, &compared, margin);
    if !aa_clean {
        // An instrument that sees a difference where there is none proves nothing of the others.
        for (_, judged) in judged.iter_mut().filter(|(number, _)| !is_same(**number)) {
            judged.verdict = LabVerdict::NotEnoughEvidence;
        }
    }
    let arms = compared
        .iter()
        .map(|(number, primary)| arm(run, *number, primary.as_ref(), judged.get(number).copied()))
        .collect();
    LabReport {
        format_version: LAB_FORMAT_VERSION,
        question: "What does watching every statement cost the server?".to_owned(),
        waggle_version: env!("CARGO_PKG_VERSION").to_owned(),
        server: server_of(run),
        environment: HostFacts::gather(),
        workload: workload(run),
        base: BaseArm {
            name: run.spec.arm_name(0).to_owned(),
            label: match &run.spec.base {
                None => "nothing attached".to_owned(),
                Some(base) => base.label.clone(),
            },
        },
        subject: subject.to_owned(),
        arms,
        aa_clean,
        margin,
        windows: parts::timeline(run),
        histograms: parts::densities(run),
        latency_of: "transaction".to_owned(),
        notes: notes::of_cell(run, same),
        primary: match run.spec.primary {
            Outcome::CpuUsPerStatement => Primary::ServerCpu,
            Outcome::Qps => Primary::Throughput,
            _ => Primary::LatencyP99,
        },
        types: operations::reports(run),
        ..LabReport::default()
    }
}

/// The server of a cell.
pub(crate) fn server_of(run: &CellRun) -> LabServer {
    LabServer {
        flavour: run.server.flavour.clone(),
        version: run.server.version.clone(),
        build_id: run.server.build_id.clone(),
        settings: run.server.variables.clone(),
    }
}

fn workload(run: &CellRun) -> Workload {
    Workload {
        name: run.spec.script.short_name().to_owned(),
        threads: run.spec.threads,
        tables: run.spec.data.tables,
        table_size: run.spec.data.table_size,
        rate: run.spec.rate,
        limits: run.limits.clone(),
    }
}

/// An arm against the base in one outcome, if there are windows enough.
pub(crate) fn compare(run: &CellRun, number: usize, outcome: Outcome) -> Option<Comparison> {
    let windows = run.windows_of(run.spec.arm(number)?);
    let settings = run.spec.compare_settings(number);
    compare_chain(&windows, number, outcome, &settings).ok()
}

/// A verdict as the report says it.
#[derive(Debug, Clone, Copy)]
struct Judged {
    verdict: LabVerdict,
    /// Smallest effect that would have been seen, in the primary outcome's unit.
    detectable: f64,
}

impl Judged {
    fn new(verdict: &Verdict, detectable: f64) -> Self {
        let verdict = match verdict {
            Verdict::Costs => LabVerdict::Costs,
            Verdict::Saves => LabVerdict::Saves,
            Verdict::NoDifference { .. } => LabVerdict::NoDifference,
            Verdict::NotEnoughEvidence => LabVerdict::NotEnoughEvidence,
        };
        Self {
            verdict,
            detectable,
        }
    }
}

/// Verdicts of all arms but the A/A arm, corrected for their number; those of arms that were
/// stopped, or that had errors of their own, are not claimed.
fn verdicts(
    run: &CellRun,
    compared: &[(usize, Option<Comparison>)],
    margin: f64,
) -> BTreeMap<usize, Judged> {
    let is_same = |number: usize| run.spec.arm(number).is_some_and(|arm| arm.aa);
    let judged: Vec<(usize, &Comparison)> = compared
        .iter()
        .filter(|(number, _)| !is_same(*number))
        .filter_map(|(number, c)| Some((*number, c.as_ref()?)))
        .collect();
    let comparisons: Vec<&Comparison> = judged.iter().map(|(_, c)| *c).collect();
    let all = judge_all(&comparisons, margin);
    let mut by_arm: BTreeMap<usize, Judged> = judged
        .iter()
        .zip(all)
        .map(|((number, c), j)| {
            (
                *number,
                Judged::new(&j.verdict, j.smallest_detectable * c.base),
            )
        })
        .collect();
    for (number, same) in compared {
        if let Some(same) = same.as_ref().filter(|_| is_same(*number)) {
            let own = judge(same, margin);
            let judged = Judged::new(&own.verdict, own.smallest_detectable * same.base);
            by_arm.insert(*number, judged);
        }
    }
    for (number, judged) in &mut by_arm {
        let is_finding = checks::errors_differ(run, *number).is_some();
        if is_finding || run.stopped.contains_key(number) {
            judged.verdict = LabVerdict::NotEnoughEvidence;
        }
    }
    by_arm
}

fn arm(
    run: &CellRun,
    number: usize,
    primary: Option<&Comparison>,
    judged: Option<Judged>,
) -> ReportArm {
    let Some(spec) = run.spec.arm(number) else {
        return ReportArm::default();
    };
    let totals = run.totals_of(number);
    let of = |outcome| compare(run, number, outcome);
    let latency = |outcome| of(outcome).as_ref().map(parts::difference);
    let cpu = match run.spec.primary {
        Outcome::CpuUsPerStatement => primary.cloned(),
        _ => of(Outcome::CpuUsPerStatement),
    };
    let is_cpu = run.spec.primary == Outcome::CpuUsPerStatement;
    let qps = of(Outcome::Qps);
    let p99 = of(Outcome::LatencyP99Us);
    let df = |c: &Option<Comparison>| c.as_ref().map(|c| c.log_ratio.df);
    let has_tool = matches!(
        spec.observer,
        Some(ObserverSpec::Watch { .. } | ObserverSpec::Command { .. })
    );
    ReportArm {
        name: spec.name.clone(),
        label: spec.label.clone(),
        kind: if run.spec.is_in_pairs(spec) {
            ArmKind::ServerLives
        } else {
            ArmKind::InLife
        },
        aa: spec.aa,
        windows: parts::units(run, number),
        cpu_us_per_statement: cpu.as_ref().map(parts::difference),
        cpu_ratio: cpu.as_ref().map(parts::ratio),
        detectable_us: judged.filter(|_| is_cpu).map(|judged| judged.detectable),
        qps_ratio: qps.as_ref().map(parts::ratio),
        latency_us: LatencyDifferences {
            p50: latency(Outcome::LatencyP50Us),
            p95: latency(Outcome::LatencyP95Us),
            p99: p99.as_ref().map(parts::difference),
        },
        tool: has_tool.then(|| parts::tool(&totals)),
        captured: totals.captured,
        executed: totals.executed,
        lost: totals.lost.clone(),
        verdict: judged.map_or(LabVerdict::NotEnoughEvidence, |judged| judged.verdict),
        note: notes::of_arm(run, number, primary),
        freedom: Freedom {
            cpu: df(&cpu),
            qps: df(&qps),
            p99: df(&p99),
        },
        sees: spec.sees.clone(),
        switched_by: spec.switched_by(),
    }
}
