//! Reads the columns of a row that a server sent.
//!
//! Invariant: a missing column, NULL or text that is no number is `None`, never a default.

use crate::aggregate::redact::printable;

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
