//! What both servers' tables of locks have in common: questions in, rows of ours out.
//!
//! Neighbours: [`mysql`](super::mysql) and [`mariadb`](super::mariadb) know the tables, and select
//! columns in the order of [`row_waits`] and [`holds`]. Invariant: a missing column, NULL or text
//! that is no number is `None`, never a default.

use waggle_wire::{Connection, Error, Row};

use super::{MetadataHold, RowWait};
use crate::aggregate::redact::printable;
use crate::sql::MARK;

const TRANSACTIONS: &str = "SELECT trx_mysql_thread_id, \
    TIMESTAMPDIFF(MICROSECOND, trx_started, NOW(6)) \
    FROM information_schema.INNODB_TRX LIMIT 5000";

/// The rows of a statement, which is marked as the agent's own.
pub(super) fn rows_of(connection: &mut Connection, sql: &str) -> Result<Vec<Row>, Error> {
    connection.query_rows(format!("{MARK}{sql}").as_bytes())
}

/// Waits for locks of the storage engine: ids of waiter and blocker, schema, table, index, mode
/// wanted and held, ages of both transactions (us).
pub(super) fn row_waits(connection: &mut Connection, sql: &str) -> Result<Vec<RowWait>, Error> {
    let rows = rows_of(connection, sql)?;
    let waits = rows.iter().filter_map(|row| {
        let row = Columns(row);
        Some(RowWait {
            waiter: row.number(0)?,
            blocker: row.number(1)?,
            table: row.table(2, 3),
            index: row.text(4),
            mode_wanted: row.text(5),
            mode_held: row.text(6),
            transaction_us: [row.number(7), row.number(8)],
        })
    });
    Ok(waits.collect())
}

/// Metadata locks: connection id, kind of object, schema, name, mode, 1 if it is waited for.
pub(super) fn holds(connection: &mut Connection, sql: &str) -> Result<Vec<MetadataHold>, Error> {
    let rows = rows_of(connection, sql)?;
    let holds = rows.iter().filter_map(|row| {
        let row = Columns(row);
        let named = row.table(2, 3);
        Some(MetadataHold {
            connection_id: row.number(0)?,
            object: if named.is_empty() { row.text(1) } else { named },
            mode: row.text(4),
            is_pending: row.number(5) == Some(1),
        })
    });
    Ok(holds.collect())
}

/// Connections and the ages of their transactions, us.
pub(super) fn transactions(connection: &mut Connection) -> Result<Vec<(u64, u64)>, Error> {
    let rows = rows_of(connection, TRANSACTIONS)?;
    let ages = rows.iter().map(|row| Columns(row));
    Ok(ages
        .filter_map(|row| row.number(0).zip(row.number(1)))
        .collect())
}

/// Longest name or mode that is kept, bytes.
const NAME_BYTES_MAX: usize = 512;

/// One row in the text protocol.
pub(super) struct Columns<'a>(pub(super) &'a [Option<Vec<u8>>]);

impl Columns<'_> {
    fn bytes(&self, column: usize) -> Option<&[u8]> {
        self.0.get(column)?.as_deref()
    }

    pub(super) fn number(&self, column: usize) -> Option<u64> {
        std::str::from_utf8(self.bytes(column)?).ok()?.parse().ok()
    }

    /// A name or a mode; empty for NULL.
    pub(super) fn text(&self, column: usize) -> String {
        let bytes = self.bytes(column).unwrap_or_default();
        printable(&bytes[..bytes.len().min(NAME_BYTES_MAX)])
    }

    /// `schema.table` of two columns; the second alone if the first is empty.
    pub(super) fn table(&self, schema: usize, table: usize) -> String {
        match (self.text(schema), self.text(table)) {
            (schema, table) if schema.is_empty() => table,
            (schema, table) if table.is_empty() => schema,
            (schema, table) => format!("{schema}.{table}"),
        }
    }
}
