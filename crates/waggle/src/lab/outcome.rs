//! From windows to intervals, verdicts and the report.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use waggle_report::host::HostFacts;
use waggle_report::lab::{
    Arm as ReportArm, ArmKind, BaseArm, Difference, LAB_FORMAT_VERSION, LabReport, LabServer,
    LabVerdict, LatencyDifferences, Ratio, ToolCost, Window as ReportWindow, Workload,
};
use waggle_report::run::{RunDir, redact_argv, shell_line};
use waggle_stats::compare::{
    CompareSettings, Comparison, Outcome, SameVerdict, Unit, Verdict, Window, compare_chain,
    disturbed_windows, judge, judge_all, judge_same,
};
use waggle_stats::latency::LatencyHistogram;

use super::arms::{Arm, BASE_NAME};
use super::{Lab, name};
use crate::experiment::Totals;

/// Steps of a latency density to a factor of ten.
const DENSITY_PER_DECADE: u32 = 120;

impl Lab {
    /// The report of what was measured, whole or not.
    pub(super) fn report(&self, run: &RunDir, error: Option<String>) -> LabReport {
        let arguments = std::env::args().skip(1);
        let argv: Vec<String> = std::iter::once("waggle".to_owned())
            .chain(arguments)
            .collect();
        let compared: Vec<(Arm, Option<Comparison>)> = self
            .plan
            .arms
            .iter()
            .map(|arm| (*arm, self.cpu(*arm)))
            .collect();
        let same = compared.iter().find(|(arm, _)| *arm == Arm::NoneAgain);
        let same = same
            .and_then(|(_, c)| c.as_ref())
            .map(|c| judge_same(c, self.plan.margin));
        let judged = self.verdicts(&compared);
        let mut notes = self.notes.clone();
        notes.extend(error.map(|e| format!("The run ended early: {e}")));
        notes.extend(self.standing_notes(same));
        let arms = compared
            .iter()
            .map(|(arm, cpu)| self.arm(*arm, cpu.as_ref(), judged.get(arm).copied()))
            .collect();
        LabReport {
            format_version: LAB_FORMAT_VERSION,
            question: "What does watching every statement cost the server?".to_owned(),
            command: shell_line(&redact_argv(&argv)),
            waggle_version: env!("CARGO_PKG_VERSION").to_owned(),
            started: run.facts().started.clone(),
            duration_s: self.started.elapsed().as_secs_f64(),
            server: LabServer {
                flavour: self.server.flavour.clone(),
                version: self.server.version.clone(),
                build_id: self.server.build_id.clone(),
                settings: self.server.variables.clone(),
            },
            environment: HostFacts::gather(),
            workload: Workload {
                name: self.plan.workload.clone(),
                threads: self.plan.threads,
                tables: self.plan.tables,
                table_size: self.plan.table_size,
            },
            base: BaseArm {
                name: BASE_NAME.to_owned(),
                label: "nothing attached".to_owned(),
            },
            subject: "watch".to_owned(),
            arms,
            aa_clean: matches!(same, Some(SameVerdict::Clean | SameVerdict::Bounded)),
            margin: self.plan.margin,
            windows: self.timeline(),
            histograms: self.densities(),
            latency_of: "transaction".to_owned(),
            notes,
        }
    }

    fn windows_of(&self, arm: Arm) -> &[Window] {
        if arm.is_in_life() {
            &self.in_life.windows
        } else {
            &self.lives.windows
        }
    }

    fn settings(&self, arm: Arm) -> CompareSettings {
        CompareSettings {
            unit: if arm.is_in_life() {
                Unit::Windows
            } else {
                Unit::Lives
            },
            seed: self.plan.seed,
            ..CompareSettings::default()
        }
    }

    fn compare(&self, arm: Arm, outcome: Outcome) -> Option<Comparison> {
        compare_chain(
            self.windows_of(arm),
            arm.number(),
            outcome,
            &self.settings(arm),
        )
        .ok()
    }

    fn cpu(&self, arm: Arm) -> Option<Comparison> {
        self.compare(arm, Outcome::CpuUsPerStatement)
    }

    /// Verdicts of all arms but the A/A arm, corrected for their number.
    fn verdicts(&self, compared: &[(Arm, Option<Comparison>)]) -> BTreeMap<Arm, Judged> {
        let judged: Vec<(Arm, &Comparison)> = compared
            .iter()
            .filter(|(arm, _)| *arm != Arm::NoneAgain)
            .filter_map(|(arm, c)| Some((*arm, c.as_ref()?)))
            .collect();
        let comparisons: Vec<&Comparison> = judged.iter().map(|(_, c)| *c).collect();
        let verdicts = judge_all(&comparisons, self.plan.margin);
        let mut by_arm: BTreeMap<Arm, Judged> = judged
            .iter()
            .zip(verdicts)
            .map(|((arm, c), j)| {
                (
                    *arm,
                    Judged::new(&j.verdict, j.smallest_detectable * c.base),
                )
            })
            .collect();
        if let Some((_, Some(same))) = compared.iter().find(|(arm, _)| *arm == Arm::NoneAgain) {
            let own = judge(same, self.plan.margin);
            let judged = Judged::new(&own.verdict, own.smallest_detectable * same.base);
            by_arm.insert(Arm::NoneAgain, judged);
        }
        by_arm
    }

    fn arm(&self, arm: Arm, cpu: Option<&Comparison>, judged: Option<Judged>) -> ReportArm {
        let record = if arm.is_in_life() {
            &self.in_life
        } else {
            &self.lives
        };
        let totals = record
            .totals
            .get(&arm.number())
            .cloned()
            .unwrap_or_default();
        let latency = |outcome| self.compare(arm, outcome).as_ref().map(difference);
        ReportArm {
            name: arm.name().to_owned(),
            label: arm.label().to_owned(),
            kind: if arm.is_in_life() {
                ArmKind::InLife
            } else {
                ArmKind::ServerLives
            },
            aa: arm == Arm::NoneAgain,
            windows: self.units(arm),
            cpu_us_per_statement: cpu.map(difference),
            cpu_ratio: cpu.map(ratio),
            detectable_us: judged.map(|j| j.detectable_us),
            qps_ratio: self.compare(arm, Outcome::Qps).as_ref().map(ratio),
            latency_us: LatencyDifferences {
                p50: latency(Outcome::LatencyP50Us),
                p95: latency(Outcome::LatencyP95Us),
                p99: latency(Outcome::LatencyP99Us),
            },
            tool: (arm == Arm::Watch).then(|| tool(&totals)),
            captured: totals.captured,
            executed: totals.executed,
            lost: totals.lost.clone(),
            verdict: judged.map_or(LabVerdict::NotEnoughEvidence, |j| j.verdict),
            note: note(arm, cpu),
        }
    }

    /// Windows of an arm, or pairs of lives where those are the unit.
    fn units(&self, arm: Arm) -> u64 {
        let windows = self
            .windows_of(arm)
            .iter()
            .filter(|w| w.arm == arm.number());
        if arm.is_in_life() {
            return windows.count() as u64;
        }
        let mut lives: Vec<usize> = windows.map(|w| w.life).collect();
        lives.dedup();
        lives.len() as u64
    }

    fn timeline(&self) -> Vec<ReportWindow> {
        let mut all = Vec::new();
        for windows in [&self.in_life.windows, &self.lives.windows] {
            let disturbed = disturbed_windows(windows, Outcome::CpuUsPerStatement);
            for (window, disturbed) in windows.iter().zip(disturbed) {
                all.push(ReportWindow {
                    t_s: window.start_s,
                    duration_s: window.duration_s,
                    arm: name(window.arm).to_owned(),
                    statements: window.statements,
                    qps: window.statements as f64 / window.duration_s.max(1e-9),
                    server_cpu_us_per_statement: (window.statements > 0)
                        .then(|| window.server_cpu_ns as f64 / 1e3 / window.statements as f64),
                    discarded: disturbed,
                    note: disturbed.then(|| "disturbed: set aside".to_owned()),
                });
            }
        }
        all
    }

    fn densities(&self) -> BTreeMap<String, Vec<(f64, u64)>> {
        let own = self
            .in_life
            .totals
            .iter()
            .map(|(arm, totals)| (*arm, totals));
        let lives = self.lives.totals.iter().filter(|(arm, _)| **arm != 0);
        own.chain(lives.map(|(arm, totals)| (*arm, totals)))
            .map(|(arm, totals)| (name(arm).to_owned(), density(&totals.latency)))
            .collect()
    }

    fn standing_notes(&self, same: Option<SameVerdict>) -> Vec<String> {
        let mut notes = vec![
            "Closed loop: each connection waits for its answer, so latencies hide coordinated \
             omission; they compare arms, they do not tell what a user of a busy server sees."
                .to_owned(),
            "Latency is that of whole transactions as the client sees them; for point selects \
             that is one statement."
                .to_owned(),
            "Windows of every arm lie between windows of nothing; the load stands still while an \
             arm is switched, and 40 ms after a switch are not measured."
                .to_owned(),
            "long_query_time is 0 on every server of the run, also under nothing: the slow log \
             itself is the switch."
                .to_owned(),
        ];
        if self.plan.arms.contains(&Arm::Perfschema) {
            notes.push(
                "PERFORMANCE_SCHEMA cannot be switched while the server lives: pairs of servers, \
                 one with it, one without, live at the same time and take turns; the interval \
                 is over pairs."
                    .to_owned(),
            );
        }
        if same == Some(SameVerdict::Bounded) {
            notes.push(
                "The A/A arm differs from nothing by less than the margin; one in twenty sound \
                 runs does."
                    .to_owned(),
            );
        }
        notes
    }
}

/// A verdict as the report says it.
#[derive(Debug, Clone, Copy)]
struct Judged {
    verdict: LabVerdict,
    detectable_us: f64,
}

impl Judged {
    fn new(verdict: &Verdict, detectable_us: f64) -> Self {
        let verdict = match verdict {
            Verdict::Costs => LabVerdict::Costs,
            Verdict::Saves => LabVerdict::Saves,
            Verdict::NoDifference { .. } => LabVerdict::NoDifference,
            Verdict::NotEnoughEvidence => LabVerdict::NotEnoughEvidence,
        };
        Self {
            verdict,
            detectable_us,
        }
    }
}

fn difference(comparison: &Comparison) -> Difference {
    Difference {
        base: comparison.base,
        delta: comparison.delta.estimate,
        low: comparison.delta.low,
        high: comparison.delta.high,
    }
}

fn ratio(comparison: &Comparison) -> Ratio {
    Ratio {
        estimate: comparison.ratio.estimate,
        low: comparison.ratio.low,
        high: comparison.ratio.high,
    }
}

fn tool(totals: &Totals) -> ToolCost {
    ToolCost {
        cpu_us_per_statement: totals.tool_cpu_ns as f64 / 1e3 / totals.statements.max(1) as f64,
        cpu_s: totals.tool_cpu_ns as f64 / 1e9,
        rss_bytes: totals.tool_rss_bytes,
    }
}

/// What must be known of one arm's figures.
fn note(arm: Arm, cpu: Option<&Comparison>) -> Option<String> {
    let Some(cpu) = cpu else {
        return Some(format!("{}: too few windows for an interval", arm.name()));
    };
    let mut notes = Vec::new();
    if cpu.bursts {
        notes.push(format!(
            "more of its windows are disturbed than chance allows ({} of {}): with them the CPU \
             ratio is {:.3}",
            cpu.disturbed_arm, cpu.windows_arm, cpu.ratio_all_windows.estimate
        ));
    }
    if cpu.agree == Some(false) {
        notes.push("t and bootstrap intervals disagree: read the wider".to_owned());
    }
    (!notes.is_empty()).then(|| notes.join("; "))
}

fn density(latency: &LatencyHistogram) -> Vec<(f64, u64)> {
    latency
        .density(DENSITY_PER_DECADE)
        .iter()
        .map(|b| (b.high_ns as f64 / 1e3, b.count))
        .collect()
}

/// What did not hold, each as an error for the user.
pub(super) fn failed_checks(report: &LabReport) -> Vec<String> {
    let mut failed = Vec::new();
    for arm in &report.arms {
        let Some(captured) = arm.captured else {
            continue;
        };
        let lost = arm.lost_total();
        if captured + lost != arm.executed {
            failed.push(format!(
                "{}: captured {captured} + lost {lost} is not the {} statements executed",
                arm.name, arm.executed
            ));
        }
    }
    if !report.aa_clean {
        failed.push(
            "the A/A arm is not clean: nothing is claimed; try a quieter moment or --budget 600"
                .to_owned(),
        );
    }
    failed
}

/// The JSON document of `lab`.
pub(super) fn document(report: &LabReport, page: &Path) -> Value {
    let arms: Vec<Value> = report
        .arms
        .iter()
        .map(|arm| {
            let mut value = serde_json::to_value(arm).unwrap_or_default();
            value["arm"] = arm.name.clone().into();
            value["server_cpu_us_per_statement"] = value["cpu_us_per_statement"].take();
            value
        })
        .collect();
    json!({
        "answer": waggle_report::lab::headline(report),
        "arms": arms,
        "aa_clean": report.aa_clean,
        "margin": report.margin,
        "server": report.server,
        "workload": report.workload,
        "duration_s": report.duration_s,
        "notes": report.notes,
        "report": page,
    })
}
