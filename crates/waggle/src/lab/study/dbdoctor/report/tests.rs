use waggle_report::lab::{Arm, BaseArm, Difference, Ratio, ToolCost, Window, Workload};
use waggle_report::study::StudyTable;

use super::*;

/// A read-write cell whose agent cost 1 us of 50 and 2% of 10,000 statements a second.
fn cell(threads: u32, aa_clean: bool) -> StudyCell {
    let window = |arm: &str, statements, discarded| Window {
        arm: arm.to_owned(),
        duration_s: 1.0,
        statements,
        discarded,
        ..Window::default()
    };
    StudyCell {
        id: format!("a-read-write-t{threads}"),
        workload: Workload {
            threads,
            ..Workload::default()
        },
        base: BaseArm {
            name: "none".to_owned(),
            ..BaseArm::default()
        },
        subject: "watch".to_owned(),
        aa_clean,
        arms: vec![Arm {
            name: "watch".to_owned(),
            executed: 9_800,
            cpu_us_per_statement: Some(Difference {
                base: 50.0,
                delta: 1.0,
                low: 0.8,
                high: 1.2,
            }),
            qps_ratio: Some(Ratio {
                estimate: 0.98,
                low: 0.97,
                high: 0.99,
            }),
            tool: Some(ToolCost {
                cpu_us_per_statement: 0.5,
                cpu_s: 0.1,
                rss_bytes: 1 << 20,
            }),
            ..Arm::default()
        }],
        windows: vec![
            window("none", 10_000, false),
            window("watch", 9_800, false),
            // Disturbed: it is no part of the level either.
            window("none", 100, true),
        ],
        ..StudyCell::default()
    }
}

fn report(cells: Vec<StudyCell>) -> StudyReport {
    let found = Found {
        cells,
        ..Found::default()
    };
    fill(StudyReport::default(), found)
}

fn row<'a>(report: &'a StudyReport, table: &str, label: &str) -> &'a [StudyValue] {
    let named = |one: &&StudyTable| one.id == table;
    let table = report.tables.iter().find(named).expect(table);
    let row = table.rows.iter().find(|row| row.label == label);
    &row.expect(label).values
}

fn is_near(value: &StudyValue, wanted: [f64; 3]) -> bool {
    let StudyValue::Estimate {
        value, low, high, ..
    } = value
    else {
        return false;
    };
    let near = |(one, two): (&f64, f64)| (one - two).abs() < 1e-9;
    [value, low, high].into_iter().zip(wanted).all(near)
}

#[test]
fn ours_stands_beside_what_was_published_at_the_most_threads() {
    let report = report(vec![cell(64, true), cell(8, true)]);
    let throughput = row(&report, "article-throughput", "read-write, 64 threads");
    assert_eq!(
        throughput[0],
        StudyValue::Published {
            value: 9506.0,
            digits: 0
        }
    );
    assert_eq!(throughput[3], StudyValue::plain(10_000.0, 0));
    assert!(is_near(&throughput[4], [-2.0, -3.0, -1.0]));
    // 1 us a statement is 0.01 core for 10,000 a second.
    let cores = row(&report, "article-cores", "waggle: read-write, 64 threads");
    assert!(is_near(&cores[0], [0.01, 0.008, 0.012]));
    assert_eq!(cores[1], StudyValue::plain(0.005, 4));
    let threads: Vec<f64> = report.curves[0]
        .points
        .iter()
        .map(|point| point.x)
        .collect();
    assert_eq!(threads, [8.0, 64.0]);
    assert!(
        report
            .answer
            .contains("-2.00% (-3.00 to -1.00) in read-write")
    );
    let change = |one: &&Published| one.what == "change of throughput, read-write";
    let change = report.published.iter().find(change).expect("it");
    assert!(change.ours.is_some() && change.value == -1.05);
}

#[test]
fn a_cell_that_is_not_clean_claims_nothing() {
    let report = report(vec![cell(64, false)]);
    assert_eq!(report.answer, "Nothing was measured that can be claimed.");
    let throughput = row(&report, "article-throughput", "read-write, 64 threads");
    assert!(matches!(
        throughput[4],
        StudyValue::Estimate {
            unclaimed: true,
            ..
        }
    ));
    assert!(
        report
            .notes
            .iter()
            .any(|note| note.starts_with("1 of 1 cells"))
    );
    assert!(report.published.iter().all(|one| one.ours.is_none()));
}

#[test]
fn what_one_statement_pays_is_not_claimed_of_a_cell_that_is_not_clean() {
    let unclaimed = |aa_clean| {
        let mut one = cell(1, aa_clean);
        one.id = "c-statement".to_owned();
        one.arms[0].label = "waggle watch".to_owned();
        one.arms[0].latency_us.p50 = one.arms[0].cpu_us_per_statement;
        let report = report(vec![one]);
        let added = row(&report, "scene-c-added", "waggle watch").to_vec();
        let whole = row(&report, "scene-c-parts", "the whole agent").to_vec();
        let estimates = [&added[1], &added[4], &whole[2]];
        estimates.map(|value| {
            matches!(
                value,
                StudyValue::Estimate {
                    unclaimed: true,
                    ..
                }
            )
        })
    };
    assert_eq!(unclaimed(false), [true; 3]);
    assert_eq!(unclaimed(true), [false; 3]);
}

#[test]
fn a_study_that_measured_nothing_still_lists_the_figures() {
    let report = report(Vec::new());
    assert!(report.tables.is_empty() && report.curves.is_empty());
    assert!(report.published.len() > 30);
    assert!(report.published.iter().all(|one| !one.source.is_empty()));
}
