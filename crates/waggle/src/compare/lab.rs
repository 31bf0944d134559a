//! Two lab runs, or two studies cell by cell: the effect of each arm in both.
//!
//! Invariant: an arm is compared with the arm of the same name, on the same workload and against
//! the same base; what has no counterpart is named and left out.

use anyhow::bail;
use waggle_report::lab::{Arm, ArmKind, Difference, LabReport, Ratio};
use waggle_report::study::StudyReport;

use super::around::Around;
use super::change::{Effect, Pair};

/// What two documents have in common, and what surrounds it.
#[derive(Debug, Default)]
pub(super) struct Compared {
    pub(super) around: Around,
    pub(super) pairs: Vec<Pair>,
    pub(super) notes: Vec<String>,
}

/// Two lab runs.
///
/// # Errors
/// When they do not measure the same thing; the message says what differs.
pub(super) fn labs(one: &LabReport, two: &LabReport, margin: f64) -> anyhow::Result<Compared> {
    comparable(one, two)?;
    let mut compared = Compared::default();
    compared.around.host(&one.environment, &two.environment);
    compared.around.server(&one.server, &two.server);
    compared.around.workload(&one.workload, &two.workload);
    compared.around.fact(
        "waggle",
        Some(one.waggle_version.clone()),
        Some(two.waggle_version.clone()),
    );
    compared.experiment(None, one, two, margin);
    if compared.pairs.is_empty() {
        bail!(
            "the runs have no arm in common that was measured in both: {} and {}",
            names(&one.arms),
            names(&two.arms)
        );
    }
    Ok(compared)
}

/// Two studies, cell by cell.
///
/// # Errors
/// When they have no cell in common.
pub(super) fn studies(
    one: &StudyReport,
    two: &StudyReport,
    margin: f64,
) -> anyhow::Result<Compared> {
    if one.name != two.name {
        bail!(
            "one is the study {} and the other {}: their cells are not the same",
            one.name,
            two.name
        );
    }
    let mut compared = Compared::default();
    compared.around.host(&one.environment, &two.environment);
    compared.around.server(&one.server, &two.server);
    compared.around.fact(
        "waggle",
        Some(one.waggle_version.clone()),
        Some(two.waggle_version.clone()),
    );
    for cell in &one.cells {
        let Some(other) = two.cell(&cell.id) else {
            compared
                .notes
                .push(format!("{} is in A alone.", cell.full_title()));
            continue;
        };
        let (first, second) = (cell.as_lab(one), other.as_lab(two));
        if let Err(why) = comparable(&first, &second) {
            compared
                .notes
                .push(format!("{} is left out: {why}.", cell.full_title()));
            continue;
        }
        let mut own = Around::default();
        own.workload(&first.workload, &second.workload);
        own.maps("setting", &cell.settings, &other.settings);
        for mut difference in own.differences {
            difference.what = format!("{}: {}", cell.id, difference.what);
            compared.around.differences.push(difference);
        }
        compared.experiment(Some(&cell.id), &first, &second, margin);
    }
    for cell in &two.cells {
        if one.cell(&cell.id).is_none() {
            compared
                .notes
                .push(format!("{} is in B alone.", cell.full_title()));
        }
    }
    if compared.pairs.is_empty() {
        bail!("the studies have no cell in common that was measured in both");
    }
    Ok(compared)
}

/// Why two experiments cannot be laid beside each other.
fn comparable(one: &LabReport, two: &LabReport) -> anyhow::Result<()> {
    let (first, second) = (&one.workload.name, &two.workload.name);
    if first != second {
        bail!(
            "the workloads are {first} and {second}, so a statement of one is not a statement of \
             the other"
        );
    }
    if one.base.name != two.base.name {
        bail!(
            "the arms are compared with {} in one and with {} in the other",
            one.base.label,
            two.base.label
        );
    }
    if one.workload.rate.is_some() != two.workload.rate.is_some() {
        bail!("one ran in closed loop and the other at a fixed rate");
    }
    if one.primary != two.primary {
        bail!("their primary outcomes are not the same");
    }
    Ok(())
}

fn names(arms: &[Arm]) -> String {
    let names: Vec<&str> = arms.iter().map(|arm| arm.name.as_str()).collect();
    match names.join(", ") {
        none if none.is_empty() => "no arms".to_owned(),
        names => names,
    }
}

impl Compared {
    fn experiment(&mut self, cell: Option<&str>, one: &LabReport, two: &LabReport, margin: f64) {
        let place = cell.map(|cell| format!("{cell}: ")).unwrap_or_default();
        for (name, report) in [("A", one), ("B", two)] {
            if !report.aa_clean {
                self.notes.push(format!(
                    "{place}the base compared with itself is not clean in {name}: nothing is \
                     claimed."
                ));
            }
        }
        let same_latency = one.latency_of == two.latency_of;
        if !same_latency {
            self.notes.push(format!(
                "{place}latency is that of a {} in A and of a {} in B, and is not compared.",
                one.latency_of, two.latency_of
            ));
        }
        for arm in &one.arms {
            let Some(other) = two.arms.iter().find(|other| other.name == arm.name) else {
                self.notes
                    .push(format!("{place}the arm {} is in A alone.", arm.name));
                continue;
            };
            if arm.switched_by != other.switched_by {
                self.around.fact(
                    &format!("{place}arm {}", arm.name),
                    Some(arm.switched_by.join("; ")),
                    Some(other.switched_by.join("; ")),
                );
            }
            let clean = one.aa_clean && two.aa_clean;
            self.arm(cell, [arm, other], clean, margin, same_latency);
        }
        for arm in &two.arms {
            if !one.arms.iter().any(|other| other.name == arm.name) {
                self.notes
                    .push(format!("{place}the arm {} is in B alone.", arm.name));
            }
        }
    }

    /// The outcomes that an arm has in both.
    fn arm(
        &mut self,
        cell: Option<&str>,
        [one, two]: [&Arm; 2],
        clean: bool,
        margin: f64,
        latency: bool,
    ) {
        let mut outcome = |outcome, unit, first: Option<Effect>, second: Option<Effect>, base| {
            if let (Some(first), Some(second)) = (first, second) {
                self.pairs.push(Pair {
                    cell: cell.map(str::to_owned),
                    arm: one.name.clone(),
                    outcome,
                    unit,
                    first,
                    second,
                    level: false,
                    margin: margin * base,
                    clean,
                });
            }
        };
        let cpu_base = one.cpu().map_or(0.0, |cpu| cpu.base);
        outcome(
            "server CPU",
            "µs/stmt",
            delta(one, one.cpu(), one.freedom.cpu),
            delta(two, two.cpu(), two.freedom.cpu),
            cpu_base,
        );
        outcome(
            "queries/s",
            "% of base",
            percent(one, one.qps_ratio),
            percent(two, two.qps_ratio),
            100.0,
        );
        if latency {
            let (first, second) = (one.latency_us.p99, two.latency_us.p99);
            let base = first.map_or(0.0, |p99| p99.base);
            outcome(
                "p99",
                "µs",
                delta(one, first, one.freedom.p99),
                delta(two, second, two.freedom.p99),
                base,
            );
        }
    }
}

/// The degrees of freedom of a report that names them; of lives, which are not trimmed, also those
/// of one that does not.
fn freedom(arm: &Arm, df: Option<f64>) -> Option<f64> {
    let of_lives = arm.kind == ArmKind::ServerLives;
    df.or_else(|| of_lives.then(|| arm.windows.saturating_sub(1).max(1) as f64))
}

fn delta(arm: &Arm, value: Option<Difference>, df: Option<f64>) -> Option<Effect> {
    let value = value?;
    let effect = Effect::of(value.delta, value.low, value.high, arm.windows)?;
    Some(effect.with_df(freedom(arm, df)))
}

fn percent(arm: &Arm, value: Option<Ratio>) -> Option<Effect> {
    let value = value?;
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    let effect = Effect::of(
        percent(value.estimate),
        percent(value.low),
        percent(value.high),
        arm.windows,
    )?;
    Some(effect.with_df(freedom(arm, arm.freedom.qps)))
}
