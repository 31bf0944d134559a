//! Rows by table, on their way into the spool.
//!
//! Neighbours: `fill` writes rows, `encode` says which. Invariant: a batch is of one table, and
//! bounded.

use std::collections::BTreeMap;

use super::row::Rows;
use super::tables::Table;
use crate::spool::courier::Queue;

/// A batch is closed when it has so many bytes or rows.
const BATCH_BYTES: usize = 4 << 20;
const BATCH_ROWS: u32 = 20_000;

/// Rows by table, on their way into the spool.
pub(super) struct Batches<'a> {
    queue: &'a Queue,
    rows: BTreeMap<Table, Rows>,
}

impl<'a> Batches<'a> {
    pub(super) fn new(queue: &'a Queue) -> Self {
        Self {
            queue,
            rows: BTreeMap::new(),
        }
    }

    pub(super) fn rows(&mut self, table: Table) -> &mut Rows {
        self.rows.entry(table).or_insert_with(|| Rows::new(table))
    }

    pub(super) fn ship_if_large(&mut self, table: Table) {
        let queue = self.queue;
        let rows = self.rows(table);
        if rows.bytes() >= BATCH_BYTES || rows.count() >= BATCH_ROWS {
            ship(queue, rows);
        }
    }

    pub(super) fn ship(mut self) {
        for rows in self.rows.values_mut().filter(|rows| rows.count() > 0) {
            ship(self.queue, rows);
        }
    }
}

fn ship(queue: &Queue, rows: &mut Rows) {
    let (tag, count) = (rows.table as u8, rows.count());
    // The queue counts what it refuses.
    let _ = queue.append(tag, count, &rows.take());
}
