//! A lab run as Markdown, and the tables that a study's cells share with it.

use super::{ABSENT, Grid, bullets, code, environment, paragraph, titles};
use crate::lab::{Arm, Difference, LabReport, Ratio, Workload, headline};
use crate::quantity::{bytes, count, decimals, plain, seconds, signed};

/// The whole report.
pub fn lab(report: &LabReport) -> String {
    let used = report.windows.iter().filter(|window| !window.discarded);
    let setting = format!(
        "{}, {}; {} windows in {}. {}",
        report.server_name(),
        load(&report.workload),
        count(used.count() as u64),
        seconds(report.duration_s),
        if report.aa_clean {
            "The base compared with itself is clean."
        } else {
            "The base compared with itself is NOT clean: nothing is claimed."
        },
    );
    let notes = report.notes.iter().cloned();
    [
        format!("# {}", paragraph(&headline(report))),
        paragraph(&report.question),
        paragraph(&setting),
        arms(&report.arms, report.aa_clean),
        types(report),
        sight(&report.arms),
        "## What to know\n".to_owned(),
        bullets(arm_notes(&report.arms).into_iter().chain(notes)),
        "## Environment\n".to_owned(),
        environment(
            &report.environment,
            &report.server,
            &report.probes,
            &report.waggle_version,
        ),
        "## Repeat it\n".to_owned(),
        code(&report.command),
    ]
    .into_iter()
    .filter(|part| !part.is_empty())
    .collect::<Vec<_>>()
    .join("\n")
}

/// What drove the server.
pub(super) fn load(workload: &Workload) -> String {
    let rate = workload
        .rate
        .filter(|rate| rate.is_finite())
        .map(|rate| format!(" at {} transactions a second", plain(rate, 0)));
    let limits = if workload.limits.is_empty() {
        String::new()
    } else {
        format!(" ({})", workload.limits.join("; "))
    };
    format!(
        "{}, {} threads{}, {} tables of {} rows{limits}",
        workload.name,
        workload.threads,
        rate.unwrap_or_default(),
        workload.tables,
        count(workload.table_size),
    )
}

/// The table of arms.
pub(super) fn arms(arms: &[Arm], clean: bool) -> String {
    let mut grid = Grid::new(&titles(&[
        "arm",
        "base, µs/stmt",
        "server CPU, µs/stmt (95% CI)",
        "server CPU, %",
        "queries/s, %",
        "p50, µs",
        "p95, µs",
        "p99, µs",
        "tool CPU, µs/stmt",
        "tool RSS",
        "captured of executed",
        "lost",
        "pairs",
        "verdict",
    ]));
    for arm in arms {
        let cpu = arm.cpu();
        grid.row(&[
            arm.label.clone(),
            cpu.map_or(ABSENT.to_owned(), |cpu| plain(cpu.base, 2)),
            difference(&cpu),
            ratio(&arm.cpu_ratio),
            ratio(&arm.qps_ratio),
            difference(&arm.latency_us.p50),
            difference(&arm.latency_us.p95),
            difference(&arm.latency_us.p99),
            arm.tool.map_or(ABSENT.to_owned(), |tool| {
                plain(tool.cpu_us_per_statement, 2)
            }),
            arm.tool
                .map_or(ABSENT.to_owned(), |tool| bytes(tool.rss_bytes)),
            captured(arm),
            arm.captured
                .map_or(ABSENT.to_owned(), |_| count(arm.lost_total())),
            count(arm.windows),
            if clean {
                arm.verdict.words()
            } else {
                "not claimed"
            }
            .to_owned(),
        ]);
    }
    grid.text()
}

fn captured(arm: &Arm) -> String {
    let executed = count(arm.executed);
    match arm.captured {
        Some(captured) => format!("{} of {executed}", count(captured)),
        None => format!("{ABSENT} of {executed}"),
    }
}

fn types(report: &LabReport) -> String {
    report
        .types
        .iter()
        .map(|kind| {
            let mut grid = Grid::new(&titles(&[
                &kind.name,
                "executed",
                "rate, % (95% CI)",
                "mean, µs",
                "p50, µs",
                "p95, µs",
                "p99, µs",
            ]));
            for arm in &kind.arms {
                grid.row(&[
                    arm.arm.clone(),
                    count(arm.executed),
                    ratio(&arm.rate_ratio),
                    difference(&arm.mean_us),
                    difference(&arm.p50_us),
                    difference(&arm.p95_us),
                    difference(&arm.p99_us),
                ]);
            }
            grid.text()
        })
        .collect::<Vec<_>>()
        .join("\n")
}

/// What each arm lets one see, where somebody said.
pub(super) fn sight(arms: &[Arm]) -> String {
    let told: Vec<&Arm> = arms
        .iter()
        .filter(|arm| arm.sees.is_some() || !arm.switched_by.is_empty())
        .collect();
    if told.is_empty() {
        return String::new();
    }
    let mut grid = Grid::new(&titles(&["arm", "what it can see", "on by"]));
    for arm in told {
        grid.row(&[
            arm.label.clone(),
            arm.sees.clone().unwrap_or_else(|| "not stated".to_owned()),
            arm.switched_by.join("; "),
        ]);
    }
    grid.text()
}

pub(super) fn arm_notes(arms: &[Arm]) -> Vec<String> {
    let mut notes = Vec::new();
    for arm in arms {
        for (cause, lost) in arm.lost.iter().filter(|(_, lost)| **lost > 0) {
            notes.push(format!(
                "{}: {} statements lost: {cause}",
                arm.label,
                count(*lost)
            ));
        }
        if let Some(note) = &arm.note {
            notes.push(format!("{}: {note}", arm.label));
        }
    }
    notes
}

pub(super) fn difference(value: &Option<Difference>) -> String {
    value
        .filter(Difference::is_finite)
        .map_or(ABSENT.to_owned(), |d| {
            let digits = decimals(d.half_width(), 1);
            let part = |number: f64| signed(number, digits);
            format!("{} ({} to {})", part(d.delta), part(d.low), part(d.high))
        })
}

pub(super) fn ratio(value: &Option<Ratio>) -> String {
    value
        .filter(Ratio::is_finite)
        .map_or(ABSENT.to_owned(), |r| {
            let part = |ratio: f64| signed((ratio - 1.0) * 100.0, 1);
            format!("{} ({} to {})", part(r.estimate), part(r.low), part(r.high))
        })
}
