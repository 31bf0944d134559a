//! A value of a row, borrowed from the log, and its three texts.
//!
//! - [`ColumnValue::text`]: as `SELECT` gives it to a session without conversion.
//! - [`ColumnValue::field`]: as `LOAD DATA` takes it with its default terminators and escapes.
//! - [`ColumnValue::literal`]: as a statement takes it, in a session that uses backslashes.
//!
//! Neighbours: [`rows`](crate::binlog::rows) finds the values, [`json`] and
//! the modules for decimals and times know their forms. Invariant: what the target stores of a
//! field or literal is bit for bit what the source stored (JSON fields: where they are plain); a
//! FLOAT therefore has the digits of its value as a DOUBLE, which `SELECT` cuts to six.

mod escape;
mod text;

use crate::Error;
use crate::binlog::number::{exponential, integer, signed, unsigned};
use crate::binlog::table_map::{Column, Kind, Meaning};
use crate::binlog::{json, mariadb};
use crate::cursor::Cursor;
use escape::field_escape;

pub use escape::{escape_field, escape_literal};

/// One value. It knows its column, because most types mean nothing without it.
#[derive(Debug, Clone, Copy)]
pub struct ColumnValue<'a> {
    column: &'a Column,
    data: Data<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Data<'a> {
    Null,
    Int(i64),
    UInt(u64),
    Float(f32),
    Double(f64),
    /// Dates, times and decimals, as they lie in the log.
    Packed(&'a [u8]),
    /// Text and binary data, with so many zeros that the log leaves out.
    Bytes(&'a [u8], usize),
    /// The same, as MariaDB packs it in columns that are COMPRESSED.
    Compressed(&'a [u8]),
    /// What a [`Meaning`] says, with zeros at its end left out.
    Named(&'a [u8]),
    Json(&'a [u8]),
    /// Changes to a JSON value in place of the value.
    JsonChanges(&'a [u8]),
    Enum(u16),
    Set(u64),
}

/// What a literal of a value looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Bare,
    Quoted,
    Binary,
}

impl<'a> ColumnValue<'a> {
    pub(crate) fn null(column: &'a Column) -> ColumnValue<'a> {
        let data = Data::Null;
        ColumnValue { column, data }
    }

    /// Changes to a JSON value, in place of one.
    pub(crate) fn json_changes(column: &'a Column, changes: &'a [u8]) -> ColumnValue<'a> {
        let data = Data::JsonChanges(changes);
        ColumnValue { column, data }
    }

    /// The value of `column` that the log holds as `bytes`, without what says their length.
    pub(crate) fn new(column: &'a Column, bytes: &'a [u8]) -> Result<ColumnValue<'a>, Error> {
        let is_unsigned = column.is_unsigned.unwrap_or(false);
        let mut cursor = Cursor::new(bytes, "value in a row event");
        let data = match column.kind {
            Kind::Int { .. } if is_unsigned => Data::UInt(unsigned(bytes)),
            Kind::Int { .. } => Data::Int(signed(bytes)),
            Kind::Float => Data::Float(f32::from_le_bytes(cursor.array()?)),
            Kind::Double => Data::Double(f64::from_le_bytes(cursor.array()?)),
            Kind::Enum { .. } => Data::Enum(unsigned(bytes) as u16),
            Kind::Set { .. } => Data::Set(unsigned(bytes)),
            Kind::Json { .. } => Data::Json(bytes),
            Kind::Char { .. } if column.meaning != Meaning::Itself => Data::Named(bytes),
            Kind::Char { bytes: width } => {
                let missing = usize::from(width).saturating_sub(bytes.len());
                Data::Bytes(bytes, if column.is_binary() { missing } else { 0 })
            }
            Kind::Bit { .. }
            | Kind::VarChar { .. }
            | Kind::Blob { .. }
            | Kind::Geometry { .. }
            | Kind::Vector { .. } => Data::Bytes(bytes, 0),
            Kind::PackedVarChar { .. } | Kind::PackedBlob { .. } => Data::Compressed(bytes),
            Kind::Decimal(_)
            | Kind::Year
            | Kind::Date
            | Kind::Time { .. }
            | Kind::DateTime { .. }
            | Kind::Timestamp { .. }
            | Kind::OldTime
            | Kind::OldDateTime
            | Kind::OldTimestamp => Data::Packed(bytes),
        };
        Ok(ColumnValue { column, data })
    }

    /// The column.
    pub fn column(&self) -> &'a Column {
        self.column
    }

    /// Whether it is NULL.
    pub fn is_null(&self) -> bool {
        self.data == Data::Null
    }

    /// The changes to a JSON value that stand in place of it; read them with
    /// [`json::Changes`].
    pub fn changes(&self) -> Option<json::Changes<'a>> {
        match self.data {
            Data::JsonChanges(bytes) => Some(json::Changes::new(bytes)),
            _ => None,
        }
    }

    /// A JSON value in its binary form.
    pub fn json(&self) -> Option<&'a [u8]> {
        match self.data {
            Data::Json(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Appends it as a field of `LOAD DATA` with default terminators and escapes; NULL is `\N`.
    ///
    /// ENUM and SET are their index and bits where the log does not name their members: the
    /// statement must then take the field as a number (`(@v) SET c = @v + 0`). JSON is text,
    /// which is enough for a value that [`json::is_plain`].
    ///
    /// # Errors
    /// As [`ColumnValue::text`].
    pub fn field(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        match self.data {
            Data::Null => out.extend_from_slice(b"\\N"),
            Data::Bytes(bytes, missing) => {
                escape_field(out, bytes);
                for _ in 0..missing {
                    out.extend_from_slice(b"\\0");
                }
            }
            Data::Json(_) | Data::Enum(_) | Data::Set(_) | Data::Compressed(_) => {
                // Rare, or short: written plain first, then escaped where it has to be.
                let start = out.len();
                self.text(out)?;
                if out[start..]
                    .iter()
                    .any(|byte| field_escape(*byte).is_some())
                {
                    let plain = out.split_off(start);
                    escape_field(out, &plain);
                }
            }
            _ => self.text(out)?,
        }
        Ok(())
    }

    /// Appends it as a literal for a session whose `character_set_client` is `binary` and whose
    /// `sql_mode` leaves backslashes alone. ENUM and SET are their index and bits, JSON that text
    /// cannot say is an expression.
    ///
    /// # Errors
    /// As [`ColumnValue::text`]; [`Error::Unsupported`] for JSON that no expression makes.
    pub fn literal(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        match self.data {
            Data::Null => {
                out.extend_from_slice(b"NULL");
                return Ok(());
            }
            // With an exponent it is a DOUBLE; without, a DECIMAL, of which -0 is 0.
            Data::Float(number) => return exponential(out, number.into()),
            Data::Double(number) => return exponential(out, number),
            Data::Enum(index) => {
                integer(out, index.into(), false);
                return Ok(());
            }
            Data::Set(members) => {
                integer(out, members, false);
                return Ok(());
            }
            Data::Json(bytes) => return json::put_expression(bytes, out),
            _ => {}
        }
        match self.shape() {
            Shape::Bare => return self.text(out),
            Shape::Quoted => out.push(b'\''),
            Shape::Binary => out.extend_from_slice(b"_binary'"),
        }
        match self.data {
            Data::Bytes(bytes, missing) => {
                escape_literal(out, bytes);
                for _ in 0..missing {
                    out.extend_from_slice(b"\\0");
                }
            }
            Data::Compressed(bytes) => {
                let mut plain = Vec::new();
                mariadb::unpack_value(bytes, &mut plain)?;
                escape_literal(out, &plain);
            }
            // Dates and times need no escapes.
            _ => self.text(out)?,
        }
        out.push(b'\'');
        Ok(())
    }

    /// As [`ColumnValue::literal`], of a JSON value that the log holds only the changes of:
    /// `before` is what they were made to. The expression makes the same value however often it
    /// is run, because it does not start from what a table holds.
    ///
    /// # Errors
    /// As [`ColumnValue::literal`]; [`Error::Unsupported`] when `before` is no JSON value.
    pub fn changed_literal(
        &self,
        before: &ColumnValue<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let Some(changes) = self.changes() else {
            return self.literal(out);
        };
        let Some(document) = before.json() else {
            return Err(Error::Unsupported(
                "changes to a JSON value that the log does not hold".to_owned(),
            ));
        };
        json::put_changed(document, changes, out)
    }

    fn shape(&self) -> Shape {
        match self.column.kind {
            Kind::Int { .. }
            | Kind::Decimal(_)
            | Kind::Float
            | Kind::Double
            | Kind::Enum { .. }
            | Kind::Set { .. }
            | Kind::Json { .. } => Shape::Bare,
            Kind::Char { .. } if self.column.meaning != Meaning::Itself => Shape::Quoted,
            Kind::Char { .. }
            | Kind::VarChar { .. }
            | Kind::Blob { .. }
            | Kind::PackedVarChar { .. }
            | Kind::PackedBlob { .. }
            | Kind::Geometry { .. }
            | Kind::Vector { .. }
            | Kind::Bit { .. } => Shape::Binary,
            _ => Shape::Quoted,
        }
    }
}

#[cfg(test)]
mod tests;
