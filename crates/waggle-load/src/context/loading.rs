//! Filling a table with described rows, the fastest way its session has.
//!
//! A session that can take a stream of rows gets several statements of that kind, others get
//! multi-row INSERTs. Invariant: rows are made in one order whichever way they leave, and those
//! that were reported are in the table.

use std::sync::atomic::Ordering;

use crate::command::Progress;
use crate::described::{Column, Described};
use crate::driver::DriverError;

use super::session::{closed, stopped};
use super::{Context, Status};

/// Rows of one streamed statement, which is one transaction: large enough that its commit costs
/// nothing, small enough for the undo log, the binary log's cache and progress to be seen.
const ROWS_A_STATEMENT: u64 = 100_000;
/// How much of the stream is made at a time: the server works on what came before meanwhile.
const STREAM_BYTES: usize = 64 << 10;

impl Context {
    /// Fills `table` with `count` rows.
    pub(crate) fn load(
        &mut self,
        connection: u32,
        table: &str,
        columns: &[Column<'_>],
        count: u64,
    ) -> Result<(), Status> {
        let mut rows = match Described::new(table, columns, count) {
            Ok(rows) => rows,
            Err(reason) => {
                let refused = DriverError::Refused(reason);
                return Err(self.failed(&refused, format!("loading {table}")));
            }
        };
        while !rows.is_complete() {
            if !self.stream(connection, &mut rows)? {
                return self.insert(connection, &mut rows);
            }
        }
        Ok(())
    }

    /// One streamed statement; false when the session has none.
    fn stream(&mut self, connection: u32, rows: &mut Described<'_>) -> Result<bool, Status> {
        let (table, columns, before) = (rows.table(), rows.load_columns(), rows.done());
        let until = before + ROWS_A_STATEMENT;
        let Context {
            slots,
            rand,
            shared,
            ..
        } = self;
        let mut fill = |form, out: &mut Vec<u8>| match shared.is_over() {
            true => 0,
            false => rows.put_rows(form, rand, out, STREAM_BYTES, until),
        };
        let loaded = match slots.get_mut(connection as usize) {
            _ if shared.is_over() => Err(stopped()),
            Some(Some(slot)) => slot.session.load(table, &columns, &mut fill),
            _ => Err(closed()),
        };
        let statement = || format!("loading {table}");
        match loaded {
            Ok(None) => return Ok(false),
            Ok(Some(outcome)) => self.settled(Ok(outcome), connection, statement)?,
            Err(error) => self.settled(Err(error), connection, statement)?,
        };
        self.inserted(rows.done() - before);
        match self.shared.is_over() {
            true => Err(Status::Stopped),
            false => Ok(true),
        }
    }

    fn insert(&mut self, connection: u32, rows: &mut Described<'_>) -> Result<(), Status> {
        let head = format!("INSERT INTO {} ({}) VALUES", rows.table(), rows.names());
        match self.bulk_begin(connection, head.as_bytes()) {
            Status::Done => {}
            failed => return Err(failed),
        }
        let mut row = Vec::new();
        while !rows.is_complete() {
            row.clear();
            rows.put_literals(&mut self.rand, &mut row);
            self.bulk_add(connection, &row)?;
        }
        self.bulk_flush(connection)
    }

    /// Rows that are in their table now.
    pub(super) fn inserted(&self, rows: u64) {
        let inserted = self.shared.rows_inserted.fetch_add(rows, Ordering::Relaxed) + rows;
        if let Some(progress) = &self.shared.progress {
            progress(Progress::Rows { inserted });
        }
    }
}
