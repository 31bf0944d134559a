//! Rows of a connection's last text statement, as a script fetches them; what a script counts.
//!
//! Invariant: rows are found by the number of the statement that sent them, so that a script never
//! gets those of another.

use super::Context;
use super::session::Slot;

/// A value of the row that was fetched last, where it lies; null for NULL.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Field {
    pub(crate) data: *const u8,
    pub(crate) length: usize,
}

/// Why there is no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoRow {
    /// All were fetched.
    End,
    /// Another statement of the connection took the place of the result.
    Gone,
}

impl Context {
    /// The name of what a connection's last text statement sent, for [`fetch`](Context::fetch).
    pub(crate) fn result_serial(&self, connection: u32) -> u32 {
        match self.slots.get(connection as usize) {
            Some(Some(slot)) => slot.serial,
            _ => 0,
        }
    }

    /// Rows and columns of one result set of a connection's last text statement.
    pub(crate) fn result_set(&self, connection: u32, set: u32) -> Option<(u64, u32)> {
        let Some(Some(Slot { results, .. })) = self.slots.get(connection as usize) else {
            return None;
        };
        let set = set as usize;
        let size = (results.rows(set) as u64, results.columns(set) as u32);
        (set < results.sets()).then_some(size)
    }

    /// Leaves a row of the result called `serial` in `row`.
    pub(crate) fn fetch(
        &mut self,
        connection: u32,
        serial: u32,
        set: u32,
        row: u64,
    ) -> Result<(), NoRow> {
        let Some(Some(slot)) = self.slots.get(connection as usize) else {
            return Err(NoRow::Gone);
        };
        if slot.serial != serial {
            return Err(NoRow::Gone);
        }
        if row >= slot.results.rows(set as usize) as u64 {
            return Err(NoRow::End);
        }
        let values = slot.results.row(set as usize, row as usize);
        self.row.clear();
        self.row.extend(values.map(|value| Field {
            data: value.map_or(std::ptr::null(), <[u8]>::as_ptr),
            length: value.map_or(0, <[u8]>::len),
        }));
        Ok(())
    }

    /// Adds to the counter of a number of sysbench's `sb_counter_type`.
    pub(crate) fn count(&self, number: u32, amount: f64) {
        self.tally.count(number, amount.max(0.0) as u64);
    }

    pub(crate) fn counted(&self, number: u32) -> f64 {
        self.tally.counted(number) as f64
    }
}
