//! Rows in the log, each as it was before and after a change.
//!
//! A rows event holds the images of one table's rows, one after the other without lengths, so
//! finding the next one walks over all values by their types. Neighbours:
//! [`table_map`] gives the types, [`value`](crate::binlog::value) reads
//! what is found here. Invariant: a walk allocates nothing and ends at the event's end or in an
//! error.

use crate::Error;
use crate::binlog::event::kind;
use crate::binlog::table_map::{self, Kind, TableMap};
use crate::binlog::value::ColumnValue;
use crate::cursor::Cursor;

/// The last rows of a statement: tables' numbers end here.
const FLAG_STATEMENT_END: u16 = 1;
/// The statement ran without checks of foreign keys.
const FLAG_NO_FOREIGN_KEYS: u16 = 2;
/// The statement ran without checks of unique keys.
const FLAG_RELAXED_UNIQUE: u16 = 4;
/// Of an image: JSON values may be changes.
const OPTION_PARTIAL_JSON: u64 = 1;

/// What was done to rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Rows have an image after only.
    Insert,
    /// Rows have both images.
    Update,
    /// Rows have an image before only.
    Delete,
}

/// How a kind of rows event is written.
#[derive(Debug, Clone, Copy)]
struct Form {
    action: Action,
    has_extra: bool,
    is_partial: bool,
}

impl Form {
    fn of(event: u8) -> Option<Form> {
        let (action, has_extra, is_partial) = match event {
            kind::WRITE_ROWS_V1 => (Action::Insert, false, false),
            kind::UPDATE_ROWS_V1 => (Action::Update, false, false),
            kind::DELETE_ROWS_V1 => (Action::Delete, false, false),
            kind::WRITE_ROWS => (Action::Insert, true, false),
            kind::UPDATE_ROWS => (Action::Update, true, false),
            kind::DELETE_ROWS => (Action::Delete, true, false),
            kind::PARTIAL_UPDATE_ROWS => (Action::Update, true, true),
            _ => return None,
        };
        Some(Form {
            action,
            has_extra,
            is_partial,
        })
    }
}

/// The beginning of a rows event: enough to know whether it is of interest.
#[derive(Clone)]
pub struct RowsEvent<'a> {
    form: Form,
    table_id: u64,
    flags: u16,
    rest: Cursor<'a>,
}

impl<'a> RowsEvent<'a> {
    /// Reads the beginning of an event of kind `event`; `None` when that is none of rows (or of
    /// MariaDB's compressed ones, which are unpacked first).
    ///
    /// # Errors
    /// [`Error::Protocol`] when it ends early.
    pub fn parse(event: u8, body: &'a [u8]) -> Result<Option<RowsEvent<'a>>, Error> {
        let Some(form) = Form::of(event) else {
            return Ok(None);
        };
        let mut rest = Cursor::new(body, "rows event");
        let table_id = table_map::id(&mut rest)?;
        let flags = rest.u16()?;
        if form.has_extra {
            match rest.u16()?.checked_sub(2) {
                Some(extra) => rest.bytes(extra.into())?,
                None => return Err(rest.error("its extra data is shorter than its length")),
            };
        }
        Ok(Some(RowsEvent {
            form,
            table_id,
            flags,
            rest,
        }))
    }

    /// The number that a table map gave its table.
    pub fn table_id(&self) -> u64 {
        self.table_id
    }

    /// What was done.
    pub fn action(&self) -> Action {
        self.form.action
    }

    /// Whether it is the last one of its statement.
    pub fn ends_statement(&self) -> bool {
        self.flags & FLAG_STATEMENT_END != 0
    }

    /// Whether the statement ran without checks of foreign keys.
    pub fn skips_foreign_keys(&self) -> bool {
        self.flags & FLAG_NO_FOREIGN_KEYS != 0
    }

    /// Whether the statement ran without checks of unique keys.
    pub fn relaxes_unique_keys(&self) -> bool {
        self.flags & FLAG_RELAXED_UNIQUE != 0
    }

    /// Its rows, which are of `table`.
    ///
    /// # Errors
    /// [`Error::Protocol`] when it is of another table or ends early.
    pub fn rows<'t>(&self, table: &'t TableMap) -> Result<Rows<'t>, Error>
    where
        'a: 't,
    {
        let mut rest = self.rest.clone();
        let width = rest.integer()?;
        if table.id != self.table_id || width != table.columns.len() as u64 {
            return Err(rest.error("its columns are not those of its table"));
        }
        let bytes = table.columns.len().div_ceil(8);
        let first = rest.bytes(bytes)?;
        let (before, after) = match self.form.action {
            Action::Insert => (None, Some(first)),
            Action::Update => (Some(first), Some(rest.bytes(bytes)?)),
            Action::Delete => (Some(first), None),
        };
        Ok(Rows {
            table,
            before,
            after,
            is_partial: self.form.is_partial,
            rest,
        })
    }
}

/// The rows of an event, one after the other.
pub struct Rows<'a> {
    table: &'a TableMap,
    before: Option<&'a [u8]>,
    after: Option<&'a [u8]>,
    is_partial: bool,
    rest: Cursor<'a>,
}

/// One changed row.
#[derive(Clone, Copy)]
pub struct Change<'a> {
    /// What it was; none of an inserted one.
    pub before: Option<Image<'a>>,
    /// What it became; none of a deleted one.
    pub after: Option<Image<'a>>,
}

impl<'a> Rows<'a> {
    /// The next row; `None` after the last one.
    ///
    /// # Errors
    /// [`Error::Protocol`] when the event ends within it. What follows cannot be found then.
    #[expect(clippy::should_implement_trait, reason = "it can fail")]
    pub fn next(&mut self) -> Result<Option<Change<'a>>, Error> {
        // An image of no columns takes no bytes: such an event would never end.
        if self.rest.is_empty() {
            return Ok(None);
        }
        let before = match self.before {
            Some(present) => Some(self.image(present, false)?),
            None => None,
        };
        let after = match self.after {
            Some(present) => Some(self.image(present, self.is_partial)?),
            None => None,
        };
        Ok(Some(Change { before, after }))
    }

    fn image(&mut self, present: &'a [u8], may_be_partial: bool) -> Result<Image<'a>, Error> {
        let columns = &self.table.columns;
        let is_json = |kind: &Kind| matches!(kind, Kind::Json { .. });
        let mut changes: &[u8] = &[];
        if may_be_partial && self.rest.integer()? & OPTION_PARTIAL_JSON != 0 {
            let count = columns.iter().filter(|c| is_json(&c.kind)).count();
            changes = self.rest.bytes(count.div_ceil(8))?;
        }
        let count = (0..columns.len()).filter(|i| has_bit(present, *i)).count();
        if count == 0 && !may_be_partial {
            // Without a bitmap and values, there is nothing that it could end with.
            return Err(self.rest.error("its rows have no columns"));
        }
        let nulls = self.rest.bytes(count.div_ceil(8))?;
        let start = self.rest.clone();
        let mut values = Values {
            table: self.table,
            present,
            nulls,
            changes,
            rest: self.rest.clone(),
            column: 0,
            place: 0,
            json: 0,
        };
        while values.span()?.is_some() {}
        self.rest = values.rest;
        Ok(Image {
            table: self.table,
            present,
            nulls,
            changes,
            bytes: {
                let (all, left) = (start.rest(), self.rest.clone().rest());
                &all[..all.len() - left.len()]
            },
        })
    }
}

/// The lowest bit of each byte first; those past the end are not set.
fn has_bit(bits: &[u8], at: usize) -> bool {
    bits.get(at / 8)
        .is_some_and(|byte| byte >> (at % 8) & 1 == 1)
}

/// A row at one moment.
#[derive(Clone, Copy)]
pub struct Image<'a> {
    table: &'a TableMap,
    present: &'a [u8],
    nulls: &'a [u8],
    changes: &'a [u8],
    bytes: &'a [u8],
}

impl<'a> Image<'a> {
    /// Whether it has the column: with a minimal row image, many are left out.
    pub fn has(&self, column: usize) -> bool {
        has_bit(self.present, column)
    }

    /// Whether it has all columns.
    pub fn is_full(&self) -> bool {
        (0..self.table.columns.len()).all(|column| self.has(column))
    }

    /// Its values, in order, with their columns' places in the table.
    pub fn values(&self) -> Values<'a> {
        Values {
            table: self.table,
            present: self.present,
            nulls: self.nulls,
            changes: self.changes,
            rest: Cursor::new(self.bytes, "row image"),
            column: 0,
            place: 0,
            json: 0,
        }
    }
}

/// The values of an image.
pub struct Values<'a> {
    table: &'a TableMap,
    present: &'a [u8],
    nulls: &'a [u8],
    changes: &'a [u8],
    rest: Cursor<'a>,
    /// The next column, its place among those present, and JSON columns before it.
    column: usize,
    place: usize,
    json: usize,
}

enum Span<'a> {
    Null,
    Value(&'a [u8]),
    Changes(&'a [u8]),
}

impl<'a> Values<'a> {
    /// The next column and where its value lies.
    fn span(&mut self) -> Result<Option<(usize, Span<'a>)>, Error> {
        while let Some(column) = self.table.columns.get(self.column) {
            let at = self.column;
            self.column += 1;
            // Columns that are left out count here, too.
            let is_json = matches!(column.kind, Kind::Json { .. });
            let is_changes = is_json && has_bit(self.changes, self.json);
            self.json += usize::from(is_json);
            if !has_bit(self.present, at) {
                continue;
            }
            let place = self.place;
            self.place += 1;
            if has_bit(self.nulls, place) {
                return Ok(Some((at, Span::Null)));
            }
            let bytes = column.kind.take(&mut self.rest)?;
            let span = match is_changes {
                true => Span::Changes(bytes),
                false => Span::Value(bytes),
            };
            return Ok(Some((at, span)));
        }
        Ok(None)
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = Result<(usize, ColumnValue<'a>), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let (at, span) = match self.span() {
            Ok(found) => found?,
            Err(error) => {
                self.column = self.table.columns.len();
                return Some(Err(error));
            }
        };
        let column = &self.table.columns[at];
        let value = match span {
            Span::Null => Ok(ColumnValue::null(column)),
            Span::Changes(bytes) => Ok(ColumnValue::json_changes(column, bytes)),
            Span::Value(bytes) => ColumnValue::new(column, bytes),
        };
        Some(value.map(|value| (at, value)))
    }
}

#[cfg(test)]
mod tests;
