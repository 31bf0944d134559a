//! A batch: what many changes come to, and the few statements that say it.
//!
//! Each key of a table has one outcome, gone or a row; the statements first delete the keys that
//! are gone, then `REPLACE` the rows. So a row that was changed often is written once, and rows
//! that exchanged values of a unique key need no order: a row that `REPLACE` pushes out of the way
//! no longer has that value in the source, so it has an outcome in the same batch, which is
//! written after.
//!
//! Neighbours: `changes` adds, `target` sends. Invariants: keys are told apart by their bytes, and
//! where a collation takes two for one, at most one of them is a row at the end; the outcome is
//! the same however often the statements run.

use std::collections::HashMap;
use std::ops::Range;

use super::shape::Shape;
use crate::error::CopyError;

/// Bytes of a statement, about.
const STATEMENT_BYTES: usize = 256 << 10;
/// Keys of a DELETE: enough to matter, few enough for the servers' range optimizers.
const KEYS_AT_ONCE: usize = 200;

/// Changes of one table.
#[derive(Default)]
struct Outcomes {
    places: HashMap<Box<[u8]>, usize>,
    list: Vec<Outcome>,
    /// Rows as `(1, 'a')`, also those that were overtaken.
    rows: Vec<u8>,
}

struct Outcome {
    key: Box<[u8]>,
    row: Option<Range<usize>>,
}

/// Changes of all tables.
pub(super) struct Batch {
    tables: Vec<Outcomes>,
    /// Changes of rows that went in, as the log has them: one of a key comes to two outcomes.
    pub(super) changes: u64,
    bytes: usize,
}

impl Batch {
    pub(super) fn new(tables: usize) -> Batch {
        Batch {
            tables: (0..tables).map(|_| Outcomes::default()).collect(),
            changes: 0,
            bytes: 0,
        }
    }

    /// Bytes of memory, about.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The row of this key is gone.
    pub(super) fn delete(&mut self, table: usize, key: &[u8]) {
        self.outcome(table, key).row = None;
    }

    /// The row of this key is this one.
    pub(super) fn put(&mut self, table: usize, key: &[u8], row: &[u8]) {
        let rows = &mut self.tables[table].rows;
        let start = rows.len();
        rows.extend_from_slice(row);
        let end = rows.len();
        self.bytes += row.len();
        self.outcome(table, key).row = Some(start..end);
    }

    fn outcome(&mut self, table: usize, key: &[u8]) -> &mut Outcome {
        // What a map and a list take for an entry, about.
        const ENTRY_BYTES: usize = 128;
        let table = &mut self.tables[table];
        let place = match table.places.get(key) {
            Some(place) => *place,
            None => {
                let place = table.list.len();
                self.bytes += 2 * key.len() + ENTRY_BYTES;
                table.places.insert(key.into(), place);
                let key = key.into();
                table.list.push(Outcome { key, row: None });
                place
            }
        };
        &mut table.list[place]
    }

    pub(super) fn clear(&mut self) {
        const KEPT_BYTES: usize = 4 << 20;
        for table in &mut self.tables {
            table.places.clear();
            table.list.clear();
            table.rows.clear();
            table.rows.shrink_to(KEPT_BYTES);
        }
        self.changes = 0;
        self.bytes = 0;
    }

    /// Gives `send` the statements, each without a semicolon. With `is_building`, rows that will be
    /// replaced are deleted before: a unique key that is being built sees each change by itself,
    /// and must never see a value twice.
    pub(super) fn statements(
        &self,
        shapes: &[Shape<'_>],
        is_building: bool,
        send: &mut dyn FnMut(&[u8]) -> Result<(), CopyError>,
    ) -> Result<(), CopyError> {
        let mut sql = Vec::new();
        for (outcomes, shape) in self.tables.iter().zip(shapes) {
            if outcomes.list.is_empty() {
                continue;
            }
            deletes(outcomes, shape, is_building, &mut sql, send)?;
            replaces(outcomes, shape, &mut sql, send)?;
            for withdraw in &shape.withdraw {
                send(withdraw.as_bytes())?;
            }
        }
        Ok(())
    }
}

fn deletes(
    outcomes: &Outcomes,
    shape: &Shape<'_>,
    is_building: bool,
    sql: &mut Vec<u8>,
    send: &mut dyn FnMut(&[u8]) -> Result<(), CopyError>,
) -> Result<(), CopyError> {
    let is_listed = shape.is_listed();
    let column = &shape.table.columns[shape.key[0]];
    let is_first = |outcome: &&Outcome| outcome.row.is_none() || is_building;
    let mut count = 0;
    sql.clear();
    for outcome in outcomes.list.iter().filter(is_first) {
        match (count, is_listed) {
            (0, true) => {
                sql.extend_from_slice(&shape.delete);
                sql.extend_from_slice(column.quoted().as_bytes());
                sql.extend_from_slice(b" IN (");
            }
            (0, false) => {
                sql.extend_from_slice(&shape.delete);
                sql.push(b'(');
            }
            (_, true) => sql.push(b','),
            (_, false) => sql.extend_from_slice(b") OR ("),
        }
        sql.extend_from_slice(&outcome.key);
        count += 1;
        if count == KEYS_AT_ONCE || sql.len() >= STATEMENT_BYTES {
            sql.push(b')');
            send(sql)?;
            sql.clear();
            count = 0;
        }
    }
    if count > 0 {
        sql.push(b')');
        send(sql)?;
    }
    Ok(())
}

fn replaces(
    outcomes: &Outcomes,
    shape: &Shape<'_>,
    sql: &mut Vec<u8>,
    send: &mut dyn FnMut(&[u8]) -> Result<(), CopyError>,
) -> Result<(), CopyError> {
    sql.clear();
    for row in outcomes
        .list
        .iter()
        .filter_map(|outcome| outcome.row.clone())
    {
        let row = &outcomes.rows[row];
        if !sql.is_empty() && sql.len() + row.len() >= STATEMENT_BYTES {
            send(sql)?;
            sql.clear();
        }
        match sql.is_empty() {
            true => sql.extend_from_slice(&shape.replace),
            false => sql.push(b','),
        }
        sql.extend_from_slice(row);
    }
    if !sql.is_empty() {
        send(sql)?;
        sql.clear();
        sql.shrink_to(2 * STATEMENT_BYTES);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
