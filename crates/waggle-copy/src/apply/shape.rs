//! A table as changes are applied to it: what its log says, and how its statements begin.
//!
//! Neighbours: `batch` makes statements by it, `changes` reads rows by it. Invariants: a table in
//! the log whose columns are not those that were copied is an error; a key's literal is of its
//! column's type and character set, so that the target finds the row by its index.

use waggle_wire::binlog::table_map::{self, Meaning, TableMap};
use waggle_wire::binlog::value::{ColumnValue, escape_literal};

use crate::error::CopyError;
use crate::range::{Range, above, equatable, up_to};
use crate::table::{Column, Kind, Table};

/// The collation of binary data, as the log numbers it.
const BINARY: u32 = 63;

pub(super) struct Shape<'t> {
    pub(super) table: &'t Table,
    /// `REPLACE INTO … (…) VALUES `.
    pub(super) replace: Vec<u8>,
    /// `DELETE FROM … WHERE `.
    pub(super) delete: Vec<u8>,
    /// Places of the key's columns.
    pub(super) key: Vec<usize>,
    /// Statements that take away what the target must not have yet: keys of ranges that are not
    /// copied.
    pub(super) withdraw: Vec<String>,
    /// Whether nothing of it is copied, so that none of its changes is of use.
    pub(super) is_untouched: bool,
}

impl<'t> Shape<'t> {
    pub(super) fn new(table: &'t Table, ranges: &[Range]) -> Shape<'t> {
        let name = table.target.quoted();
        let columns: Vec<String> = table.written().map(|(_, c)| c.quoted()).collect();
        let replace = format!("REPLACE INTO {name} ({}) VALUES ", columns.join(", "));
        let key = table.key.as_ref().map(|key| key.columns.clone());
        let mut shape = Shape {
            table,
            replace: replace.into_bytes(),
            delete: format!("DELETE FROM {name} WHERE ").into_bytes(),
            key: key.unwrap_or_default(),
            withdraw: Vec::new(),
            is_untouched: false,
        };
        let of_table = ranges.iter().filter(|range| range.table == table.number);
        let mut is_begun = false;
        for range in of_table {
            is_begun |= range.is_done || range.frontier.is_some();
            if range.is_done {
                continue;
            }
            let mut conditions = Vec::new();
            conditions.extend(range.resume().map(|low| above(table, low)));
            conditions.extend(range.high.as_ref().map(|high| up_to(table, high)));
            if conditions.is_empty() {
                conditions.push("1 = 1".to_owned());
            }
            let conditions = conditions.join(" AND ");
            let withdraw = format!("DELETE FROM {name} WHERE {conditions}");
            shape.withdraw.push(withdraw);
        }
        shape.is_untouched = !is_begun && !shape.withdraw.is_empty();
        shape
    }

    fn changed(&self, what: &str) -> CopyError {
        CopyError::Data {
            table: self.table.source.to_string(),
            what: format!(
                "its columns in the binary log are not those that were copied ({what}): its \
                 definition was changed at the source; drop it at the target and begin anew"
            ),
        }
    }

    /// Fills in what the log leaves out.
    ///
    /// # Errors
    /// When the columns are others than the copied ones.
    pub(super) fn inform(&self, map: &mut TableMap) -> Result<(), CopyError> {
        let columns = &self.table.columns;
        if map.columns.len() != columns.len() {
            return Err(self.changed(&format!("{} and not {}", map.columns.len(), columns.len())));
        }
        for (logged, column) in map.columns.iter_mut().zip(columns) {
            if !fits(logged.kind, column.kind) {
                return Err(self.changed(&format!("{} has another type", column.name)));
            }
            if logged
                .name
                .as_ref()
                .is_some_and(|name| name != column.name.as_bytes())
            {
                return Err(self.changed(&format!("{} has another name", column.name)));
            }
            logged.is_unsigned = Some(column.is_unsigned());
            if matches!(column.kind, Kind::Binary | Kind::Blob) {
                logged.collation = Some(BINARY);
            }
            logged.meaning = meaning(column);
        }
        Ok(())
    }

    /// Whether keys are values of one column that can stand in a list. Those of a SET cannot: large
    /// ones are compared otherwise than small ones.
    pub(super) fn is_listed(&self) -> bool {
        matches!(self.key[..], [only] if self.table.columns[only].kind != Kind::Set)
    }

    /// Appends a key's values as `a = 1 AND b = 2` has them, or alone where they are listed.
    pub(super) fn put_key(
        &self,
        place: usize,
        value: &ColumnValue<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), waggle_wire::Error> {
        let column = &self.table.columns[self.key[place]];
        let joint = if place > 0 { " AND " } else { "" };
        if column.kind == Kind::Set {
            let mut number = Vec::new();
            value.literal(&mut number)?;
            let number = String::from_utf8_lossy(&number);
            let comparison = format!("{joint}{} = {number}", equatable(column, &number));
            out.extend_from_slice(comparison.as_bytes());
            return Ok(());
        }
        if !self.is_listed() {
            let comparison = format!("{joint}{} = ", column.quoted());
            out.extend_from_slice(comparison.as_bytes());
        }
        put_key_literal(column, value, out)
    }
}

fn put_key_literal(
    column: &Column,
    value: &ColumnValue<'_>,
    out: &mut Vec<u8>,
) -> Result<(), waggle_wire::Error> {
    match (column.kind, &column.charset) {
        (Kind::Text, Some(charset)) => {
            let mut text = Vec::new();
            value.text(&mut text)?;
            out.push(b'_');
            out.extend_from_slice(charset.as_bytes());
            out.push(b'\'');
            escape_literal(out, &text);
            out.push(b'\'');
            Ok(())
        }
        (Kind::Bit, _) => {
            let mut bytes = Vec::new();
            value.text(&mut bytes)?;
            let number = bytes.iter().fold(0u64, |n, byte| n << 8 | u64::from(*byte));
            out.extend_from_slice(number.to_string().as_bytes());
            Ok(())
        }
        _ => value.literal(out),
    }
}

fn meaning(column: &Column) -> Meaning {
    let of = column.column_type.to_ascii_lowercase();
    match (column.kind, of.as_str()) {
        (Kind::Address, "uuid") => Meaning::Uuid,
        (Kind::Address, "inet6") => Meaning::Inet6,
        (Kind::Address, "inet4") => Meaning::Inet4,
        _ => Meaning::Itself,
    }
}

/// Whether the log's type can be that of the column.
fn fits(logged: table_map::Kind, copied: Kind) -> bool {
    use table_map::Kind as Logged;
    match copied {
        Kind::Integer => matches!(logged, Logged::Int { .. }),
        Kind::Decimal => matches!(logged, Logged::Decimal(_)),
        Kind::Float => logged == Logged::Float,
        Kind::Double => logged == Logged::Double,
        Kind::Bit => matches!(logged, Logged::Bit { .. }),
        Kind::Year => logged == Logged::Year,
        Kind::Date => logged == Logged::Date,
        Kind::Time => matches!(logged, Logged::Time { .. } | Logged::OldTime),
        Kind::DateTime => matches!(logged, Logged::DateTime { .. } | Logged::OldDateTime),
        Kind::Timestamp => matches!(logged, Logged::Timestamp { .. } | Logged::OldTimestamp),
        Kind::Text | Kind::Blob | Kind::Binary => matches!(
            logged,
            Logged::Char { .. }
                | Logged::VarChar { .. }
                | Logged::Blob { .. }
                | Logged::PackedVarChar { .. }
                | Logged::PackedBlob { .. }
        ),
        Kind::Enum => matches!(logged, Logged::Enum { .. }),
        Kind::Set => matches!(logged, Logged::Set { .. }),
        Kind::Json => matches!(logged, Logged::Json { .. }),
        Kind::Geometry => matches!(logged, Logged::Geometry { .. }),
        Kind::Vector => matches!(
            logged,
            Logged::Vector { .. } | Logged::VarChar { .. } | Logged::Blob { .. }
        ),
        Kind::Address => matches!(logged, Logged::Char { .. }),
    }
}
