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

use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::Error;
use crate::binlog::table_map::{Column, Kind, Meaning};
use crate::binlog::{json, mariadb, temporal};
use crate::cursor::Cursor;

/// Zeros that BINARY values are filled up with.
const ZEROS: [u8; 256] = [0; 256];

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

    /// Appends it as `SELECT` gives it, but for FLOAT and DOUBLE, which have as many digits as it
    /// takes to tell them from others. NULL appends nothing.
    ///
    /// # Errors
    /// [`Error::Protocol`] when the log holds no value of its type, [`Error::Unsupported`] when
    /// it holds changes in place of a JSON value; `out` may then have a part of it.
    pub fn text(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        match self.data {
            Data::Null => {}
            Data::Int(number) => integer(out, number.unsigned_abs(), number < 0),
            Data::UInt(number) => integer(out, number, false),
            Data::Float(number) => float(out, number.into())?,
            Data::Double(number) => float(out, number)?,
            Data::Packed(bytes) => self.packed(bytes, out)?,
            Data::Bytes(bytes, missing) => {
                out.extend_from_slice(bytes);
                let missing = missing.min(ZEROS.len() * 4);
                out.resize(out.len() + missing, 0);
            }
            Data::Compressed(bytes) => mariadb::unpack_value(bytes, out)?,
            Data::Named(bytes) => named(self.column.meaning, bytes, out)?,
            Data::Json(bytes) => json::put(bytes, out)?,
            Data::JsonChanges(_) => {
                return Err(Error::Unsupported(
                    "a JSON value that the log holds only the changes of".to_owned(),
                ));
            }
            Data::Enum(index) => self.name(index, out)?,
            Data::Set(members) => self.names(members, out)?,
        }
        Ok(())
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

    fn packed(&self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        match self.column.kind {
            Kind::Decimal(form) => form.put(bytes, out)?,
            Kind::Year => temporal::put_year(unsigned(bytes) as u8, out),
            Kind::Date => temporal::put_date(unsigned(bytes) as u32, out),
            Kind::Time { decimals } => temporal::put_time(bytes, decimals, out)?,
            Kind::DateTime { decimals } => temporal::put_datetime(bytes, decimals, out)?,
            Kind::Timestamp { decimals } => temporal::put_timestamp(bytes, decimals, out)?,
            Kind::OldTime => temporal::put_old_time(signed(bytes) as i32, out),
            Kind::OldDateTime => temporal::put_old_datetime(unsigned(bytes), out),
            Kind::OldTimestamp => {
                let seconds = (unsigned(bytes) as u32).to_be_bytes();
                temporal::put_timestamp(&seconds, 0, out)?;
            }
            _ => return Err(Error::protocol("binary log: a value of another type")),
        }
        Ok(())
    }

    /// An ENUM's member; 0 is what a bad value became, and empty.
    fn name(&self, index: u16, out: &mut Vec<u8>) -> Result<(), Error> {
        let Some(names) = &self.column.members else {
            integer(out, index.into(), false);
            return Ok(());
        };
        if let Some(at) = usize::from(index).checked_sub(1) {
            let name = names.get(at).ok_or_else(|| {
                Error::protocol(format!("binary log: an ENUM has no member {index}"))
            })?;
            out.extend_from_slice(name);
        }
        Ok(())
    }

    fn names(&self, members: u64, out: &mut Vec<u8>) -> Result<(), Error> {
        let Some(names) = &self.column.members else {
            integer(out, members, false);
            return Ok(());
        };
        let mut left = members;
        let mut is_first = true;
        while left != 0 {
            let at = left.trailing_zeros();
            left &= left - 1;
            let name = names
                .get(at as usize)
                .ok_or_else(|| Error::protocol(format!("binary log: a SET has no member {at}")))?;
            if !is_first {
                out.push(b',');
            }
            is_first = false;
            out.extend_from_slice(name);
        }
        Ok(())
    }
}

/// Appends a UUID or an address.
fn named(meaning: Meaning, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let width = if meaning == Meaning::Inet4 { 4 } else { 16 };
    if bytes.len() > width {
        return Err(Error::protocol(format!(
            "binary log: a value of {} bytes is no {meaning:?}",
            bytes.len()
        )));
    }
    let mut whole = [0; 16];
    whole[..bytes.len()].copy_from_slice(bytes);
    // Writing to a Vec cannot fail.
    let _ = match meaning {
        Meaning::Inet4 => {
            let [a, b, c, d, ..] = whole;
            write!(out, "{}", Ipv4Addr::new(a, b, c, d))
        }
        Meaning::Inet6 => write!(out, "{}", Ipv6Addr::from(whole)),
        Meaning::Uuid => whole.iter().enumerate().try_for_each(|(i, byte)| {
            let dash = if matches!(i, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(out, "{dash}{byte:02x}")
        }),
        Meaning::Itself => out.write_all(bytes),
    };
    Ok(())
}

fn unsigned(bytes: &[u8]) -> u64 {
    let bytes = bytes.iter().rev().take(8);
    bytes.fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Of up to eight bytes, with the sign of the last one.
fn signed(bytes: &[u8]) -> i64 {
    let unused = 64 - 8 * bytes.len().clamp(1, 8) as u32;
    ((unsigned(bytes) << unused) as i64) >> unused
}

/// Appends a number with at least so many digits.
pub(crate) fn digits(out: &mut Vec<u8>, mut number: u64, at_least: usize) {
    let mut text = [b'0'; 20];
    let mut at = text.len();
    while number > 0 {
        at -= 1;
        text[at] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    let at = at.min(text.len() - at_least.min(text.len()));
    out.extend_from_slice(&text[at..]);
}

pub(crate) fn integer(out: &mut Vec<u8>, magnitude: u64, is_negative: bool) {
    if is_negative {
        out.push(b'-');
    }
    digits(out, magnitude, 1);
}

/// Appends as few digits as tell the number from all others.
pub(crate) fn float(out: &mut Vec<u8>, number: f64) -> Result<(), Error> {
    let magnitude = number.abs();
    if magnitude != 0.0 && !(1e-5..1e15).contains(&magnitude) {
        return exponential(out, number);
    }
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{number}");
    Ok(())
}

/// The same with an exponent. The servers store no infinities.
pub(crate) fn exponential(out: &mut Vec<u8>, number: f64) -> Result<(), Error> {
    if !number.is_finite() {
        return Err(Error::protocol(format!(
            "binary log: {number} is no FLOAT or DOUBLE of a server"
        )));
    }
    let _ = write!(out, "{number:e}");
    Ok(())
}

fn field_escape(byte: u8) -> Option<u8> {
    match byte {
        0 => Some(b'0'),
        b'\t' => Some(b't'),
        b'\n' => Some(b'n'),
        b'\\' => Some(b'\\'),
        _ => None,
    }
}

fn literal_escape(byte: u8) -> Option<u8> {
    match byte {
        0 => Some(b'0'),
        b'\'' => Some(b'\''),
        b'\\' => Some(b'\\'),
        _ => None,
    }
}

/// Appends `bytes` as a field of `LOAD DATA` with default terminators and escapes.
pub fn escape_field(out: &mut Vec<u8>, bytes: &[u8]) {
    escape(out, bytes, field_escape);
}

/// Appends `bytes` as they stand between the single quotes of a literal.
pub fn escape_literal(out: &mut Vec<u8>, bytes: &[u8]) {
    escape(out, bytes, literal_escape);
}

/// Copies whole stretches between bytes that need an escape.
fn escape(out: &mut Vec<u8>, bytes: &[u8], escape: impl Fn(u8) -> Option<u8>) {
    out.reserve(bytes.len());
    let mut start = 0;
    for (at, byte) in bytes.iter().enumerate() {
        if let Some(letter) = escape(*byte) {
            out.extend_from_slice(&bytes[start..at]);
            out.extend_from_slice(&[b'\\', letter]);
            start = at + 1;
        }
    }
    out.extend_from_slice(&bytes[start..]);
}

#[cfg(test)]
mod tests;
