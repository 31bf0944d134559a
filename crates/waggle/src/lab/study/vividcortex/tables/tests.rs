use std::collections::BTreeMap;

use waggle_report::lab::{
    Arm, BaseArm, Difference, Ratio, ToolCost, TypeArm, TypeReport, TypeWindow, Window,
};
use waggle_report::study::StudyCell;

use super::*;

/// A cell in which PERFORMANCE_SCHEMA costs 2%, the agent 10% and both 12% of throughput, and as
/// many percent more of ADD_LINK's time, times four.
fn cell(id: &str, aa_clean: bool) -> StudyCell {
    let agent = Agent::Packets;
    let costs = [2.0, 10.0, 12.0];
    let arm = |(watched, cost): (Watched, f64)| Arm {
        name: agent.arm_name(watched),
        qps_ratio: Some(Ratio {
            estimate: 1.0 - cost / 100.0,
            low: 0.99 - cost / 100.0,
            high: 1.01 - cost / 100.0,
        }),
        captured: Some(90),
        executed: 100,
        tool: (watched == Watched::Agent).then_some(ToolCost {
            cpu_us_per_statement: 5.0,
            cpu_s: 1.0,
            rss_bytes: 7 << 20,
        }),
        ..Arm::default()
    };
    let of_type = |(watched, cost): (Watched, f64)| TypeArm {
        arm: agent.arm_name(watched),
        p99_us: Some(Difference {
            base: 500.0,
            delta: 20.0 * cost,
            low: 20.0 * cost - 5.0,
            high: 20.0 * cost + 5.0,
        }),
        ..TypeArm::default()
    };
    let kinds = |add, list| {
        let kind = |statements, p99_us| TypeWindow {
            statements,
            mean_us: f64::NAN,
            p99_us,
        };
        BTreeMap::from([
            ("ADD_LINK".to_owned(), kind(add, 500.0)),
            ("GET_LINKS_LIST".to_owned(), kind(list, f64::NAN)),
        ])
    };
    let window = |arm: &str, statements, types| Window {
        duration_s: 2.0,
        arm: arm.to_owned(),
        statements,
        types,
        ..Window::default()
    };
    StudyCell {
        id: id.to_owned(),
        base: BaseArm {
            name: "none".to_owned(),
            label: "nothing".to_owned(),
        },
        arms: Watched::ALL.into_iter().zip(costs).map(arm).collect(),
        aa_clean,
        windows: vec![
            window("none", 1000, kinds(100, 500)),
            window("watch-packets", 4000, kinds(9, 9)),
            window("none", 1000, kinds(300, 500)),
        ],
        types: vec![TypeReport {
            name: "ADD_LINK".to_owned(),
            arms: Watched::ALL.into_iter().zip(costs).map(of_type).collect(),
            ..TypeReport::default()
        }],
        ..StudyCell::default()
    }
}

fn results<'a>(cpu: &'a StudyCell, io: &'a StudyCell) -> Results<'a> {
    let measured = |condition, title: &str, cell| Measured {
        condition,
        title: title.to_owned(),
        cell,
    };
    Results {
        agent: Agent::Packets,
        throughput: vec![
            measured(Condition::Cpu, "CPU-bound", cpu),
            measured(Condition::Io, "I/O-bound", io),
        ],
        rate: vec![measured(Condition::Cpu, "CPU-bound", cpu)],
    }
}

fn shown(value: &StudyValue) -> String {
    match value {
        StudyValue::Estimate {
            value,
            low,
            high,
            unclaimed,
        } => format!(
            "{value:.1} {low:.1} {high:.1}{}",
            if *unclaimed { " ?" } else { "" }
        ),
        StudyValue::Level { value, .. } => format!("{value}"),
        StudyValue::Plain { value, digits } | StudyValue::Published { value, digits } => {
            format!("{value:.*}", usize::from(*digits))
        }
        StudyValue::Text { text } => text.clone(),
        StudyValue::Absent { why } => format!("({why})"),
    }
}

fn rows(table: &StudyTable) -> Vec<String> {
    let row = |row: &StudyRow| {
        assert_eq!(row.values.len(), table.columns.len());
        let values: Vec<String> = row.values.iter().map(shown).collect();
        format!("{} | {}", row.label, values.join(" | "))
    };
    table.rows.iter().map(row).collect()
}

#[test]
fn ours_stands_beside_what_was_published() {
    let (cpu, io) = (cell("cpu", true), cell("io", false));
    let results = results(&cpu, &io);
    let tables = results.tables();
    assert_eq!(
        rows(&tables[0]),
        [
            "CPU-bound: PERFORMANCE_SCHEMA | -2.0 -3.0 -1.0 | -1.8",
            "CPU-bound: agent | -10.0 -11.0 -9.0 | -10.7",
            "CPU-bound: both | -12.0 -13.0 -11.0 | -11.7",
            "I/O-bound: PERFORMANCE_SCHEMA | -2.0 -3.0 -1.0 ? | no stat. diff.",
            "I/O-bound: agent | -10.0 -11.0 -9.0 ? | no stat. diff.",
            "I/O-bound: both | -12.0 -13.0 -11.0 ? | no stat. diff.",
        ]
    );
    let missing = "(too few whole pairs of servers)";
    assert_eq!(
        rows(&tables[1]),
        [
            format!("CPU-bound: PERFORMANCE_SCHEMA | 8.0 7.0 9.0 | 20 | {missing} | 7.7"),
            format!("CPU-bound: agent | 40.0 39.0 41.0 | 42 | {missing} | 21.6"),
            format!("CPU-bound: both | 48.0 47.0 49.0 | 63 | {missing} | 30.9"),
        ]
    );
    let published = results.published();
    assert_eq!(published.len(), 3 + 6);
    assert!(
        published
            .iter()
            .all(|figure| figure.ours.is_some() && figure.unit == "%")
    );
}

#[test]
fn levels_are_those_with_nothing_on() {
    let (cpu, io) = (cell("cpu", true), cell("io", true));
    let levels = &results(&cpu, &io).tables()[2];
    // 400 and 1,000 of them in 4 s; a window without a percentile is none, not a zero.
    assert_eq!(
        rows(levels)[0],
        "CPU-bound, maximum | 350 | 100 | 0.50 | 250 | (no window)"
    );
    let costs = results(&cpu, &io).agent_costs();
    assert_eq!(costs.len(), 3);
    let cost = &costs[0];
    assert_eq!(
        (cost.statements_per_s, cost.cores),
        (Some(2000.0), Some(0.01))
    );
    assert_eq!((cost.captured, cost.executed), (Some(90), Some(100)));
}

#[test]
fn the_answer_claims_nothing_where_equal_arms_differ() {
    let (cpu, io) = (cell("cpu", true), cell("io", false));
    assert_eq!(
        results(&cpu, &io).answer(),
        "CPU-bound: throughput -2.0% (-3.0 to -1.0) under PERFORMANCE_SCHEMA, -10.0% (-11.0 to \
         -9.0) under the agent, -12.0% (-13.0 to -11.0) under both. I/O-bound: not claimed, as \
         the A/A arm is not clean."
    );
    let nothing = Results {
        agent: Agent::Uprobe,
        throughput: Vec::new(),
        rate: Vec::new(),
    };
    assert_eq!(nothing.answer(), "Nothing was measured.");
}
