//! Changes of schema that are left for later, kept at the target until they are done.
//!
//! Neighbours: `progress` makes the table, `deferral` the steps. A step that was done while its
//! note was not is known by the keys being there: DDL commits by itself, so the two cannot be one
//! transaction. Invariant: a step is noted before the table it belongs to is made, forgotten by
//! nobody, and noted as done only when each of its keys was seen or made.

use std::collections::BTreeSet;

use waggle_wire::Connection;

use super::deferral::Step;
use super::{sql, stoppable};
use crate::control::Control;
use crate::error::CopyError;
use crate::job::Plan;
use crate::progress::Job;
use crate::session::run;
use crate::table::Table;

/// Which steps to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// Secondary keys.
    Keys,
    /// Foreign keys.
    ForeignKeys,
}

impl Build {
    fn kind(self) -> &'static str {
        match self {
            Build::Keys => "keys",
            Build::ForeignKeys => "foreign-keys",
        }
    }
}

/// How often another job's notes may be in the way: each time one of the others gets on.
const TRIES: u32 = 100;

/// Notes the steps of a table, in place of what may be noted of it already.
///
/// # Errors
/// What the target says.
pub fn note(
    target: &mut Connection,
    job: &Job,
    table: &Table,
    steps: &[Step],
) -> Result<(), CopyError> {
    for _ in 1..TRIES {
        match note_once(target, job, table, steps) {
            // Jobs that begin at once each hold the gap in which the other's first row would be.
            Err(error) if error.is_deadlock() => {}
            result => return result,
        }
    }
    note_once(target, job, table, steps)
}

fn note_once(
    target: &mut Connection,
    job: &Job,
    table: &Table,
    steps: &[Step],
) -> Result<(), CopyError> {
    let doing = format!("noting the keys of {}", table.target);
    let (job, number) = (job.name(), table.number);
    run(target, "BEGIN", &doing)?;
    let forget =
        format!("DELETE FROM waggle_copy.journal WHERE job = '{job}' AND table_no = {number}");
    run(target, &forget, &doing)?;
    for (at, step) in steps.iter().enumerate() {
        // Steps are numbered for all tables of a job; a table has far fewer than this.
        let place = u64::from(number) * 1000 + at as u64;
        let build = match step.is_foreign {
            true => Build::ForeignKeys,
            false => Build::Keys,
        };
        let keep = format!(
            "INSERT INTO waggle_copy.journal (job, step, table_no, kind, ddl) VALUES \
             ('{job}', {place}, {number}, '{}', {})",
            build.kind(),
            sql::bytes(step.change.as_bytes())
        );
        run(target, &keep, &doing)?;
    }
    run(target, "COMMIT", &doing)
}

/// Does the steps of a table that are left, one after the other.
///
/// # Errors
/// What the target says, also that a step was interrupted because the end was asked for.
pub fn build(
    target: &mut Connection,
    plan: &Plan,
    table: &Table,
    build: Build,
    control: &Control,
) -> Result<(), CopyError> {
    let job = plan.job.name();
    let doing = format!(
        "building the {} of {}",
        build.kind().replace('-', " "),
        table.target
    );
    let find = format!(
        "SELECT step, ddl FROM waggle_copy.journal WHERE job = '{}' AND table_no = {} \
         AND kind = '{}' AND is_done = 0 ORDER BY step",
        job,
        table.number,
        build.kind()
    );
    let rows = target.query_rows(find.as_bytes());
    let left = rows.map_err(CopyError::target(doing.clone()))?;
    for row in left {
        let text = |at: usize| {
            let value = row.get(at).cloned().flatten().unwrap_or_default();
            String::from_utf8_lossy(&value).into_owned()
        };
        let (step, change) = (text(0), text(1));
        let mut alter = |target: &mut Connection, sql: &str| {
            stoppable::run(target, &plan.target, control, sql, &doing)
        };
        add_missing(target, table, build, &change, &mut alter, &doing)?;
        let done = format!(
            "UPDATE waggle_copy.journal SET is_done = 1 WHERE job = '{job}' AND step = {step}"
        );
        run(target, &done, &doing)?;
    }
    Ok(())
}

/// Adds what a step adds and is not there yet.
///
/// A process may have died between the step and its note, the statement of one that was killed may
/// end only now (this one waits for it, and is then told that the keys are there), and somebody may
/// have added one of several keys by hand. So the table is asked what it has, before and after.
fn add_missing(
    target: &mut Connection,
    table: &Table,
    build: Build,
    change: &str,
    alter: &mut dyn FnMut(&mut Connection, &str) -> Result<(), CopyError>,
    doing: &str,
) -> Result<(), CopyError> {
    let mut left = missing(target, table, build, change)?;
    while !left.is_empty() {
        // Rows are the source's; checking them again would read every parent.
        run(target, "SET SESSION foreign_key_checks = 0", doing)?;
        let sql = format!("ALTER TABLE {} {}", table.target.quoted(), left.join(", "));
        let Err(error) = alter(target, &sql) else {
            return Ok(());
        };
        let is_answer = error.errno().is_some() && !error.is_lost();
        if !is_answer {
            return Err(error);
        }
        let now = missing(target, table, build, change)?;
        if now.len() >= left.len() {
            return Err(error);
        }
        left = now;
    }
    Ok(())
}

/// The parts of a step whose keys the table does not have.
fn missing<'c>(
    target: &mut Connection,
    table: &Table,
    build: Build,
    change: &'c str,
) -> Result<Vec<&'c str>, CopyError> {
    let schema = sql::string(&table.target.schema);
    let of = sql::string(&table.target.name);
    // Only of this table: of a thousand tables, reading all of them each time takes minutes.
    let find = match build {
        Build::Keys => format!(
            "SELECT DISTINCT INDEX_NAME FROM information_schema.STATISTICS \
             WHERE TABLE_SCHEMA = {schema} AND TABLE_NAME = {of}"
        ),
        Build::ForeignKeys => format!(
            "SELECT CONSTRAINT_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS \
             WHERE CONSTRAINT_SCHEMA = {schema} AND TABLE_NAME = {of}"
        ),
    };
    let rows = target.query_rows(find.as_bytes());
    let rows = rows.map_err(CopyError::target("reading the tables"))?;
    // Servers take names of keys for the same whatever their letters' case.
    let there: BTreeSet<String> = rows
        .into_iter()
        .flatten()
        .flatten()
        .map(|name| String::from_utf8_lossy(&name).to_lowercase())
        .collect();
    let is_missing = |part: &&str| {
        let name = sql::first_name(part).unwrap_or_default();
        !there.contains(&name.to_lowercase())
    };
    Ok(sql::parts(change).into_iter().filter(is_missing).collect())
}
