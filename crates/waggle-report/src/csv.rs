//! Reports as CSV: the raw windows, or every estimate with its interval.
//!
//! Neighbours: the page writes the same windows (`web/src/facts.ts`). RFC 4180: commas, quotes
//! doubled, a header line; what was not measured is empty, never zero.
//! Invariant: a foreign string is no formula to a spreadsheet.

use std::collections::BTreeSet;

use crate::lab::{Arm, Difference, LabReport, Primary, Ratio, Window};
use crate::study::StudyReport;

/// The windows of a lab run, a line each.
pub fn lab_windows(report: &LabReport) -> String {
    windows(&[("", report.windows.as_slice())], false)
}

/// The windows of every cell of a study, a line each.
pub fn study_windows(report: &StudyReport) -> String {
    let cells: Vec<(&str, &[Window])> = report
        .cells
        .iter()
        .map(|cell| (cell.id.as_str(), cell.windows.as_slice()))
        .collect();
    windows(&cells, true)
}

/// Every estimate of a lab run: a line an arm and outcome.
pub fn lab_results(report: &LabReport) -> String {
    let mut table = Lines::new(&RESULTS[1..]);
    let judged = Judged {
        primary: report.primary,
        clean: report.aa_clean,
    };
    results(&mut table, None, &report.arms, judged);
    table.text
}

/// Every estimate of a study: a line a cell, arm and outcome.
pub fn study_results(report: &StudyReport) -> String {
    let mut table = Lines::new(&RESULTS);
    for cell in &report.cells {
        let judged = Judged {
            primary: cell.primary,
            clean: cell.aa_clean,
        };
        results(&mut table, Some(&cell.id), &cell.arms, judged);
    }
    table.text
}

const RESULTS: [&str; 10] = [
    "cell", "arm", "outcome", "unit", "base", "estimate", "low", "high", "pairs", "verdict",
];

/// What verdicts are about, and whether they are claimed.
#[derive(Clone, Copy)]
struct Judged {
    primary: Primary,
    clean: bool,
}

impl Judged {
    /// The verdict on an outcome; none was passed on those beside the primary one.
    fn verdict(self, arm: &Arm, outcome: &str) -> &'static str {
        let primary = match self.primary {
            Primary::ServerCpu => "server_cpu",
            Primary::Throughput => "qps",
            Primary::LatencyP99 => "latency_p99",
        };
        match (outcome == primary, self.clean) {
            (false, _) => "",
            (true, true) => arm.verdict.words(),
            (true, false) => "not claimed",
        }
    }
}

fn results(table: &mut Lines, cell: Option<&str>, arms: &[Arm], judged: Judged) {
    for arm in arms {
        let outcomes = [
            outcome("server_cpu", "us_per_statement", &arm.cpu_us_per_statement),
            share("server_cpu", &arm.cpu_ratio),
            share("qps", &arm.qps_ratio),
            outcome("latency_p50", "us", &arm.latency_us.p50),
            outcome("latency_p95", "us", &arm.latency_us.p95),
            outcome("latency_p99", "us", &arm.latency_us.p99),
        ];
        for (name, unit, figures) in outcomes {
            let Some([base, estimate, low, high]) = figures else {
                continue;
            };
            let verdict = judged.verdict(arm, name);
            let mut line: Vec<String> = cell.map(cell_text).into_iter().collect();
            line.extend([
                cell_text(&arm.name),
                name.to_owned(),
                unit.to_owned(),
                number(base),
                number(estimate),
                number(low),
                number(high),
                arm.windows.to_string(),
                verdict.to_owned(),
            ]);
            table.line(&line);
        }
    }
}

type Outcome = (&'static str, &'static str, Option<[f64; 4]>);

fn outcome(name: &'static str, unit: &'static str, value: &Option<Difference>) -> Outcome {
    let figures = value
        .filter(Difference::is_finite)
        .map(|d| [d.base, d.delta, d.low, d.high]);
    (name, unit, figures)
}

fn share(name: &'static str, value: &Option<Ratio>) -> Outcome {
    let figures = value
        .filter(Ratio::is_finite)
        .map(|r| [1.0, r.estimate, r.low, r.high]);
    (name, "ratio", figures)
}

fn windows(groups: &[(&str, &[Window])], cells: bool) -> String {
    let types: BTreeSet<&str> = groups
        .iter()
        .flat_map(|(_, windows)| windows.iter())
        .flat_map(|window| window.types.keys().map(String::as_str))
        .collect();
    let mut head: Vec<String> = Vec::new();
    if cells {
        head.push("cell".to_owned());
    }
    head.extend(
        [
            "t_s",
            "duration_s",
            "arm",
            "statements",
            "qps",
            "server_cpu_us_per_statement",
            "discarded",
            "marks",
            "note",
        ]
        .map(str::to_owned),
    );
    for name in &types {
        head.extend(["statements", "mean_us", "p99_us"].map(|part| format!("{name} {part}")));
    }
    let heads: Vec<String> = head.iter().map(|name| cell_text(name)).collect();
    let mut table = Lines {
        text: String::new(),
    };
    table.line(&heads);
    for (cell, windows) in groups {
        for window in *windows {
            let mut line: Vec<String> = Vec::with_capacity(heads.len());
            if cells {
                line.push(cell_text(cell));
            }
            line.extend(own(window));
            for name in &types {
                line.extend(match window.types.get(*name) {
                    Some(reading) => [
                        reading.statements.to_string(),
                        number(reading.mean_us),
                        number(reading.p99_us),
                    ],
                    None => [const { String::new() }; 3],
                });
            }
            table.line(&line);
        }
    }
    table.text
}

fn own(window: &Window) -> [String; 9] {
    [
        number(window.t_s),
        number(window.duration_s),
        cell_text(&window.arm),
        window.statements.to_string(),
        number(window.qps),
        window
            .server_cpu_us_per_statement
            .map_or(String::new(), number),
        window.discarded.to_string(),
        cell_text(&window.marks.join("; ")),
        cell_text(window.note.as_deref().unwrap_or_default()),
    ]
}

/// Lines of CSV whose values are ready.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(crate) text: String,
}

impl Lines {
    pub(crate) fn new(head: &[&str]) -> Self {
        let mut lines = Self {
            text: String::new(),
        };
        lines.line(&head.iter().map(|name| cell_text(name)).collect::<Vec<_>>());
        lines
    }

    pub(crate) fn line(&mut self, cells: &[String]) {
        self.text.push_str(&cells.join(","));
        self.text.push('\n');
    }
}

/// A number, or nothing where there is none.
pub(crate) fn number(value: f64) -> String {
    if value.is_finite() {
        value.to_string()
    } else {
        String::new()
    }
}

/// A foreign string as a value: no formula, quoted where it must be.
pub(crate) fn cell_text(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let tame = if formula {
        format!("'{text}")
    } else {
        text.to_owned()
    };
    if tame.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", tame.replace('"', "\"\""))
    } else {
        tame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_strings_are_values() {
        assert_eq!(cell_text("=1+1"), "'=1+1");
        assert_eq!(cell_text("a \"b\", c"), "\"a \"\"b\"\", c\"");
        assert_eq!(number(f64::NAN), "");
        assert_eq!(number(-1.5), "-1.5");
    }

    #[test]
    fn a_verdict_stands_on_the_lines_of_the_primary_outcome_alone() {
        let ratio = Some(Ratio {
            estimate: 0.9,
            low: 0.8,
            high: 1.0,
        });
        let report = LabReport {
            aa_clean: true,
            primary: Primary::Throughput,
            arms: vec![Arm {
                name: "watch".to_owned(),
                cpu_ratio: ratio,
                qps_ratio: ratio,
                verdict: crate::lab::LabVerdict::Costs,
                ..Arm::default()
            }],
            ..LabReport::default()
        };
        let lines = lab_results(&report);
        let verdicts: Vec<_> = lines
            .lines()
            .skip(1)
            .map(|line| line.rsplit_once(','))
            .collect();
        let verdicts: Vec<_> = verdicts
            .into_iter()
            .flatten()
            .map(|(_, last)| last)
            .collect();
        assert_eq!(verdicts, ["", report.arms[0].verdict.words()]);
    }

    #[test]
    fn windows_have_a_line_each_and_every_type() {
        let mut first = Window {
            arm: "none".to_owned(),
            ..Window::default()
        };
        let second = first.clone();
        first.types.insert(
            "ADD_LINK".to_owned(),
            crate::lab::TypeWindow {
                statements: 3,
                mean_us: 1.5,
                p99_us: f64::NAN,
            },
        );
        let report = LabReport {
            windows: vec![first, second],
            ..LabReport::default()
        };
        assert_eq!(
            lab_windows(&report),
            "t_s,duration_s,arm,statements,qps,server_cpu_us_per_statement,discarded,marks,note,\
             ADD_LINK statements,ADD_LINK mean_us,ADD_LINK p99_us\n\
             0,0,none,0,0,,false,,,3,1.5,\n0,0,none,0,0,,false,,,,,\n"
        );
    }
}
