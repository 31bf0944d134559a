//! Is the target what the source is? By exact expressions of its own, range by range.
//!
//! ```text
//! expression, key ─► side (one server) ─► pair (both) ─┬─► ranges ── sums, halved to the rows
//!                                                      └─► buckets ─ without a common order
//!                                         settle: read again while the target may lag
//!                                         repair: write again, prove, commit
//! ```
//!
//! Invariants: what compares shares no code with what copied; a comparison that could not be made
//! is an error, never "equal"; every difference is named.

mod buckets;
mod expression;
mod key;
mod pair;
mod ranges;
mod repair;
mod settle;
mod side;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use waggle_wire::Dsn;

use crate::control::Control;
use crate::error::{CopyError, Side};
use crate::job::Plan;
use crate::table::Table;
use pair::Pair;
use ranges::Suspect;

/// What to compare, and how.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// One side, which is taken for right.
    pub source: Dsn,
    /// The other side.
    pub target: Dsn,
    /// Tables compared at once, each with a session at either server.
    pub workers: usize,
    /// Rows of a range.
    pub range_rows: u64,
    /// How long the target may lag: a row counts as different when it has been so for this long
    /// while the source's did not change.
    pub lag: Duration,
    /// Whether rows of the target that differ are written again.
    pub repairs: bool,
    /// Differences that are named; the others are counted.
    pub named_max: usize,
}

/// How a row differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "what")]
pub enum Difference {
    /// The target does not have it.
    Missing {
        /// Its key, or its values when it has none.
        row: String,
    },
    /// Only the target has it.
    Extra {
        /// Its key, or its values when it has none.
        row: String,
    },
    /// Both have it, with other values.
    Differs {
        /// Its key.
        row: String,
        /// The columns whose values differ.
        columns: Vec<String>,
    },
}

/// What a table's comparison found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TableReport {
    /// The source's table.
    pub table: String,
    /// Rows at the source, when they were added up.
    pub rows_source: u64,
    /// Rows at the target.
    pub rows_target: u64,
    /// How rows were compared: `ranges` of the key, or `digests` of whole rows.
    pub by: &'static str,
    /// Ranges that were added up.
    pub ranges: u64,
    /// Of those, how many were not equal at first.
    pub ranges_unequal: u64,
    /// Rows that were found equal when they were read again.
    pub late: u64,
    /// Rows that differ; a repaired one does not.
    pub different: u64,
    /// Rows that changed at the source too often to be compared.
    pub moving: u64,
    /// Rows that were made equal.
    pub repaired: u64,
    /// The first of them, by name.
    pub differences: Vec<Difference>,
    /// What was not compared, and why a repair failed.
    pub notes: Vec<String>,
}

/// Compares; gives the number of rows that differ.
///
/// # Errors
/// What a server says; [`CopyError::Stopped`].
pub fn run(plan: &Plan, tables: &[Table], control: &Control) -> Result<u64, CopyError> {
    let comparison = Comparison {
        source: plan.source.clone(),
        target: plan.target.clone(),
        workers: plan.workers,
        range_rows: RANGE_ROWS,
        lag: Duration::from_secs(2),
        repairs: false,
        named_max: 0,
    };
    let reports = compare(&comparison, tables, control, &|_| {})?;
    Ok(reports
        .iter()
        .map(|report| report.different + report.moving)
        .sum())
}

/// Rows of a range that is added up at once: long enough that the statement's own cost is lost in
/// it, short enough that what changes meanwhile makes few ranges unequal.
pub const RANGE_ROWS: u64 = 20_000;

/// Compares tables, several at once; `tell` hears of rows as they are compared.
///
/// # Errors
/// What a server says; [`CopyError::Stopped`]; [`CopyError::Data`] for a table that the target
/// does not have.
pub fn compare(
    comparison: &Comparison,
    tables: &[Table],
    control: &Control,
    tell: &(dyn Fn(u64) + Sync),
) -> Result<Vec<TableReport>, CopyError> {
    let next = AtomicUsize::new(0);
    let found: Mutex<Vec<(usize, TableReport)>> = Mutex::new(Vec::new());
    let failure: Mutex<Option<CopyError>> = Mutex::new(None);
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let failed = failure
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .is_some();
            let Some(table) = tables.get(at).filter(|_| !failed) else {
                return;
            };
            let report = compare_table(comparison, table, control, tell);
            match report {
                Ok(report) => {
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    found.push((at, report));
                }
                Err(error) => {
                    let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
                    failure.get_or_insert(error);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..comparison.workers.min(tables.len()) {
            scope.spawn(work);
        }
        work();
    });
    if let Some(error) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(at, _)| *at);
    Ok(found.into_iter().map(|(_, report)| report).collect())
}

fn compare_table(
    comparison: &Comparison,
    table: &Table,
    control: &Control,
    tell: &(dyn Fn(u64) + Sync),
) -> Result<TableReport, CopyError> {
    let mut pair = Pair::open(comparison, table)?;
    let mut report = TableReport {
        table: table.source.to_string(),
        rows_source: 0,
        rows_target: 0,
        by: "ranges",
        ranges: 0,
        ranges_unequal: 0,
        late: 0,
        different: 0,
        moving: 0,
        repaired: 0,
        differences: Vec::new(),
        notes: std::mem::take(&mut pair.notes),
    };
    match pair.has_common_order {
        true => by_ranges(comparison, table, &mut pair, &mut report, control, tell)?,
        false => by_digests(comparison, &mut pair, &mut report, control)?,
    }
    Ok(report)
}

fn by_ranges(
    comparison: &Comparison,
    table: &Table,
    pair: &mut Pair,
    report: &mut TableReport,
    control: &Control,
    tell: &(dyn Fn(u64) + Sync),
) -> Result<(), CopyError> {
    let rows = comparison.range_rows.max(1);
    let (source, target) = (&mut pair.source, &mut pair.target);
    let walk = ranges::walk(source, target, rows, control, tell)?;
    report.rows_source = walk.rows_source;
    report.rows_target = walk.rows_target;
    report.ranges = walk.ranges;
    report.ranges_unequal = walk.ranges_unequal;
    let settled = settle::settle(source, target, walk.suspects, comparison.lag, control)?;
    report.late = settled.late;
    report.moving = settled.moving.len() as u64;
    report.different = settled.different.len() as u64;
    for suspect in settled.different.iter().take(comparison.named_max) {
        if let Some(difference) = name(pair, suspect)? {
            report.differences.push(difference);
        }
    }
    if let Some(key) = pair
        .source
        .key
        .as_ref()
        .filter(|_| !settled.moving.is_empty())
    {
        let shown = settled
            .moving
            .iter()
            .take(3)
            .map(|suspect| key.shown(&suspect.key));
        report.notes.push(format!(
            "{} rows changed at the source all the time and could not be compared, such as {}; \
             give --lag more or compare when there is less to do",
            settled.moving.len(),
            shown.collect::<Vec<_>>().join("; ")
        ));
    }
    if comparison.repairs && !settled.different.is_empty() {
        let (source, target) = (&mut pair.source, &mut pair.target);
        let done = repair::repair(source, target, table, &settled.different)?;
        report.repaired = done.keys.len() as u64;
        report.different -= report.repaired;
        report.notes.extend(done.failures);
    }
    Ok(())
}

fn by_digests(
    comparison: &Comparison,
    pair: &mut Pair,
    report: &mut TableReport,
    control: &Control,
) -> Result<(), CopyError> {
    report.by = "digests";
    report.ranges = 1;
    let deadline = std::time::Instant::now() + comparison.lag;
    let mut seen = buckets::compare(&mut pair.source, &mut pair.target)?;
    report.ranges_unequal = u64::from(!seen.uneven.is_empty());
    // Without names there is no telling which row changed: whole tables are read until they are
    // equal once, or until the target must have caught up.
    while !seen.uneven.is_empty() && std::time::Instant::now() < deadline {
        if control.is_stopping() {
            return Err(CopyError::Stopped);
        }
        seen = buckets::compare(&mut pair.source, &mut pair.target)?;
    }
    report.rows_source = seen.rows_source;
    report.rows_target = seen.rows_target;
    for row in &seen.uneven {
        let (more, half) = match row.source > row.target {
            true => (row.source - row.target, &mut pair.source),
            false => (row.target - row.source, &mut pair.target),
        };
        report.different += more;
        if report.differences.len() < comparison.named_max {
            let Some(shown) = half.row_of_digest(&row.digest)? else {
                continue;
            };
            report.differences.push(match half.side {
                Side::Source => Difference::Missing { row: shown },
                Side::Target => Difference::Extra { row: shown },
            });
        }
    }
    if comparison.repairs && report.different > 0 {
        report.notes.push(
            "rows of this table have no key in a common order, so they cannot be repaired one by \
             one; copy the table again"
                .to_owned(),
        );
    }
    Ok(())
}

/// Says how a row differs; `None` when it no longer does.
fn name(pair: &mut Pair, suspect: &Suspect) -> Result<Option<Difference>, CopyError> {
    let Some(row) = pair.source.key.as_ref().map(|key| key.shown(&suspect.key)) else {
        return Ok(None);
    };
    let ours = pair.source.row_pieces(&suspect.key)?;
    let theirs = pair.target.row_pieces(&suspect.key)?;
    Ok(match (ours, theirs) {
        (Some(_), None) => Some(Difference::Missing { row }),
        (None, Some(_)) => Some(Difference::Extra { row }),
        (None, None) => None,
        (Some(ours), Some(theirs)) => {
            let each = pair.columns.iter().zip(ours.iter().zip(&theirs));
            let columns: Vec<String> = each
                .filter(|(_, (our, their))| our != their)
                .map(|(name, _)| name.clone())
                .collect();
            (!columns.is_empty()).then_some(Difference::Differs { row, columns })
        }
    })
}
