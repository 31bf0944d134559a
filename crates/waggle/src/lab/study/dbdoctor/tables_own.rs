//! The tables of the agent's own cost, and its curves.
//!
//! Pure, as [`super::tables`], whose neighbour it is. Units are the article's where it has figures:
//! percent of a core, GiB.
//!
//! Invariant: a condition's captured share is of the statements executed while the agent was there,
//! and stands beside what was lost or left out.

use waggle_report::study::{AgentCost, Curve, CurvePoint, StudyRow, StudyTable, StudyValue};
use waggle_stats::compare::{DosePoint, Interval, dose_line};

use super::super::published::{DBDOCTOR_AGENT, Figure, find};
use super::super::values::column;
use super::own_cost::{Condition, OwnCost};

const GIB: f64 = (1u64 << 30) as f64;

pub(super) fn interval(interval: Option<Interval>, scale: f64) -> StudyValue {
    match interval {
        Some(i) => StudyValue::level(i.estimate * scale, i.low * scale, i.high * scale),
        None => StudyValue::absent("too few slices"),
    }
}

fn printed(figures: &'static [Figure], key: &str) -> StudyValue {
    find(figures, key).map_or_else(|| StudyValue::absent("not published"), Figure::value)
}

pub(super) fn nothing() -> StudyValue {
    StudyValue::absent("")
}

/// The agent's own cost, condition by condition.
pub(super) fn agent(own: &OwnCost) -> Vec<AgentCost> {
    let all = own
        .host
        .iter()
        .chain(&own.idle)
        .chain(&own.rising)
        .chain(&own.starved);
    all.map(agent_cost).collect()
}

fn agent_cost(condition: &Condition) -> AgentCost {
    let used = &condition.used;
    let cores = used.cores();
    AgentCost {
        label: condition.label.clone(),
        cell: None,
        statements_per_s: used.statements_per_s,
        cores: cores.map(|c| c.estimate),
        cores_low: cores.map(|c| c.low),
        cores_high: cores.map(|c| c.high),
        cpu_us_per_statement: used.us_per_statement().map(|us| us.estimate),
        rss_bytes: Some(used.rss_bytes),
        captured: used.executed.map(|_| used.captured()),
        executed: used.executed,
        note: counted(condition),
    }
}

/// What was lost or left out, in words; empty for nothing.
fn counted(condition: &Condition) -> String {
    let words = |what: &str, verb: &str| -> Vec<String> {
        let causes = condition.used.counted(what).into_iter();
        causes
            .map(|(cause, count)| format!("{verb} {count} ({})", cause.replace('_', " ")))
            .collect()
    };
    [words("lost", "lost"), words("degraded", "left out of")]
        .concat()
        .join("; ")
}

fn lost_or_left(condition: &Condition) -> StudyValue {
    match counted(condition) {
        words if words.is_empty() => StudyValue::text("nothing"),
        words => StudyValue::text(&words),
    }
}

/// The tables of the agent's own cost.
pub(super) fn own(own: &OwnCost) -> Vec<StudyTable> {
    let tables = [levels(own), rising(own), starved(own)];
    tables
        .into_iter()
        .filter(|table| !table.rows.is_empty())
        .collect()
}

fn own_row(condition: &Condition, values: Vec<StudyValue>) -> StudyRow {
    StudyRow {
        label: condition.label.clone(),
        cell: None,
        values,
    }
}

/// Without a load: host metrics only, one server, several.
fn levels(own: &OwnCost) -> StudyTable {
    let printed_for = |condition: &Condition, what: &str| match condition.dose {
        None => printed(DBDOCTOR_AGENT, &format!("host/{what}")),
        Some(1.0) => printed(DBDOCTOR_AGENT, &format!("idle/{what}")),
        Some(_) => nothing(),
    };
    let row = |condition: &Condition| {
        let values = vec![
            printed_for(condition, "cpu"),
            interval(condition.used.cores(), 100.0),
            printed_for(condition, "memory"),
            StudyValue::plain(condition.used.rss_bytes as f64 / GIB, 4),
        ];
        own_row(condition, values)
    };
    StudyTable {
        id: "own-idle".to_owned(),
        title: "The agent's own cost without a load".to_owned(),
        caption: "CPU time of the agent's process in slices of a second; memory is the largest \
                  resident set."
            .to_owned(),
        row_title: "condition".to_owned(),
        columns: columns_of_levels(),
        rows: own.host.iter().chain(&own.idle).map(row).collect(),
    }
}

fn columns_of_levels() -> Vec<waggle_report::study::StudyColumn> {
    let cpu = "CPU";
    vec![
        column("DBdoctor", cpu, "% of a core"),
        column("waggle", cpu, "% of a core"),
        column("DBdoctor", "memory", "GiB"),
        column("waggle", "memory", "GiB"),
    ]
}

fn captured_percent(condition: &Condition) -> Option<f64> {
    let executed = condition.used.executed.filter(|executed| *executed > 0)?;
    Some(100.0 * condition.used.captured() as f64 / executed as f64)
}

fn rising(own: &OwnCost) -> StudyTable {
    let row = |condition: &Condition| {
        let used = &condition.used;
        let values = vec![
            StudyValue::plain(used.statements_per_s.unwrap_or(f64::NAN), 0),
            interval(used.cores(), 100.0),
            interval(used.us_per_statement(), 1.0),
            StudyValue::plain(used.rss_bytes as f64 / GIB, 4),
            StudyValue::plain(captured_percent(condition).unwrap_or(f64::NAN), 3),
            lost_or_left(condition),
        ];
        own_row(condition, values)
    };
    let mut rows: Vec<StudyRow> = own.rising.iter().map(row).collect();
    if !rows.is_empty() {
        rows.push(StudyRow {
            label: "DBdoctor".to_owned(),
            cell: None,
            values: vec![
                StudyValue::Published {
                    value: 25_000.0,
                    digits: 0,
                },
                printed(DBDOCTOR_AGENT, "load/cpu"),
                nothing(),
                printed(DBDOCTOR_AGENT, "load/memory"),
                nothing(),
                nothing(),
            ],
        });
    }
    StudyTable {
        id: "own-rising".to_owned(),
        title: "The agent's own cost under a rising load".to_owned(),
        caption: "Every statement captured, everything on; point selects on 8 connections, \
                  independent arrivals at the rate offered."
            .to_owned(),
        row_title: "offered".to_owned(),
        columns: vec![
            column("", "executed", "statements/s"),
            column("agent", "CPU", "% of a core"),
            column("agent", "CPU a statement", "µs"),
            column("agent", "memory", "GiB"),
            column("", "captured", "%"),
            column("", "lost or left out", ""),
        ],
        rows,
    }
}

fn starved(own: &OwnCost) -> StudyTable {
    let row = |condition: &Condition| {
        let used = &condition.used;
        let values = vec![
            interval(used.cores(), 100.0),
            StudyValue::plain(used.statements_per_s.unwrap_or(f64::NAN), 0),
            StudyValue::plain(captured_percent(condition).unwrap_or(f64::NAN), 3),
            lost_or_left(condition),
        ];
        own_row(condition, values)
    };
    StudyTable {
        id: "own-starved".to_owned(),
        title: "The agent starved of processor time".to_owned(),
        caption: "As many point selects as the server takes on 8 connections, while the agent may \
                  use only so much (--max-cpu: the kernel enforces it where it can, the agent \
                  leaves out work before). Captured is the share of all statements executed \
                  from the agent's begin to its end."
            .to_owned(),
        row_title: "given".to_owned(),
        columns: vec![
            column("agent", "CPU used", "% of a core"),
            column("", "executed", "statements/s"),
            column("", "captured", "%"),
            column("", "lost or left out", ""),
        ],
        rows: own.starved.iter().map(row).collect(),
    }
}

/// The agent's CPU as a line over the load: so much a statement, so much without any.
pub(super) fn line(own: &OwnCost) -> Option<String> {
    let point = |condition: &Condition| {
        Some(DosePoint {
            x: condition.used.statements_per_s?,
            cost: condition.used.cores_estimate()?,
        })
    };
    let points: Vec<DosePoint> = own.rising.iter().filter_map(point).collect();
    let line = dose_line(&points).ok()?;
    let [us, us_low, us_high] =
        [line.slope.estimate, line.slope.low, line.slope.high].map(|slope| slope * 1e6);
    let misfit = if line.misfit {
        " The points scatter about the line more than their errors allow: it is a summary, not a \
         law."
    } else {
        ""
    };
    Some(format!(
        "The agent's CPU over the load, as a line: {us:.3} µs ({us_low:.3} to {us_high:.3}) for \
         each further statement, {:.2}% of a core ({:.2} to {:.2}) without any; DBdoctor: 22 µs \
         by its rule of thumb.{misfit}",
        line.at_zero.estimate * 100.0,
        line.at_zero.low * 100.0,
        line.at_zero.high * 100.0,
    ))
}

/// CPU over load, and captured share over CPU given.
pub(super) fn curves(own: &OwnCost) -> Vec<Curve> {
    let point = |x: f64, parts: [f64; 3]| CurvePoint {
        cell: String::new(),
        arm: "watch".to_owned(),
        x,
        estimate: parts[0],
        low: Some(parts[1]),
        high: Some(parts[2]),
        unclaimed: false,
    };
    let load = |condition: &Condition| {
        let cores = condition.used.cores()?;
        let parts = [cores.estimate, cores.low, cores.high].map(|cores| cores * 100.0);
        Some(point(condition.used.statements_per_s?, parts))
    };
    let theirs = find(DBDOCTOR_AGENT, "load/cpu").map(|figure| CurvePoint {
        arm: "DBdoctor".to_owned(),
        x: 25_000.0,
        estimate: figure.value,
        ..CurvePoint::default()
    });
    let share = |condition: &Condition| {
        // A count, not a sample: it has no interval.
        let captured = captured_percent(condition)?;
        Some(CurvePoint {
            low: None,
            high: None,
            ..point(condition.dose?, [captured; 3])
        })
    };
    let curves = [
        Curve {
            id: "own-cpu".to_owned(),
            title: "The agent's CPU over the load".to_owned(),
            x_title: "statements a second".to_owned(),
            x_log: true,
            y_title: "CPU of the agent".to_owned(),
            unit: "% of a core".to_owned(),
            points: own.rising.iter().filter_map(load).collect(),
            published: theirs.into_iter().collect(),
        },
        Curve {
            id: "own-captured".to_owned(),
            title: "What is captured when the agent is starved".to_owned(),
            x_title: "CPU given, % of a core".to_owned(),
            x_log: true,
            y_title: "statements captured".to_owned(),
            unit: "%".to_owned(),
            points: own.starved.iter().filter_map(share).collect(),
            published: Vec::new(),
        },
    ];
    curves
        .into_iter()
        .filter(|curve| !curve.points.is_empty())
        .collect()
}
