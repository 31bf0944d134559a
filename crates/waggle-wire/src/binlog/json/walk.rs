//! A walk through the tree of one value, which makes a text or an expression of it as it goes.
//!
//! Neighbour: the parent says what is made of which value. Invariant: reading never leaves the
//! value's bytes, and offsets that share or nest make an error, not more text than the bytes stand
//! for.

use crate::Error;
use crate::binlog::number::{digits, exponential, float, integer};
use crate::binlog::value::escape_literal;
use crate::binlog::{decimal, temporal};
use crate::cursor::Cursor;

/// The servers' own limit is 100.
const DEPTH_MAX: u32 = 128;
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Digits of Base64 in a line, as the servers break it.
const BASE64_LINE: usize = 76;

/// What is made of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    /// SQL that makes it, of functions and literals.
    Expression,
}

/// Gives whether the value is plain.
pub(super) fn walk(bytes: &[u8], form: Form, out: &mut Vec<u8>) -> Result<bool, Error> {
    let mut walk = Walk {
        out,
        form,
        budget: bytes.len(),
        depth: 0,
        is_plain: true,
    };
    match bytes.split_first() {
        // What became of NULL in a column that is NOT NULL.
        None => walk.literal("null"),
        Some((kind, data)) => walk.value(*kind, data)?,
    }
    Ok(walk.is_plain)
}

fn error(what: &str) -> Error {
    Error::protocol(format!("binary log: JSON value: {what}"))
}

struct Walk<'o> {
    out: &'o mut Vec<u8>,
    form: Form,
    /// Bytes of the value that were not printed yet: none is printed twice.
    budget: usize,
    depth: u32,
    is_plain: bool,
}

impl Walk<'_> {
    fn spend(&mut self, bytes: usize) -> Result<(), Error> {
        self.budget = self
            .budget
            .checked_sub(bytes)
            .ok_or_else(|| error("parts of it are used twice"))?;
        Ok(())
    }

    fn value(&mut self, kind: u8, data: &[u8]) -> Result<(), Error> {
        let mut cursor = Cursor::new(data, "JSON value");
        match kind {
            0 | 1 => self.container(data, kind == 1, true)?,
            2 | 3 => self.container(data, kind == 3, false)?,
            4 => self.literal(match cursor.u8()? {
                0 => "null",
                1 => "true",
                2 => "false",
                _ => return Err(error("a literal of it is not known")),
            }),
            5 => self.signed((cursor.u16()? as i16).into()),
            6 => self.unsigned(cursor.u16()?.into()),
            7 => self.signed((cursor.u32()? as i32).into()),
            8 => self.unsigned(cursor.u32()?.into()),
            9 => self.signed(cursor.u64()? as i64),
            10 => self.unsigned(cursor.u64()?),
            11 => self.double(f64::from_bits(cursor.u64()?))?,
            12 => {
                let text = variable(&mut cursor)?;
                self.spend(text.len())?;
                self.string(text);
            }
            15 => {
                let kind = cursor.u8()?;
                let data = variable(&mut cursor)?;
                self.spend(data.len())?;
                self.opaque(kind, data)?;
            }
            _ => return Err(error("a part of it is of no known type")),
        }
        Ok(())
    }

    fn literal(&mut self, literal: &str) {
        match self.form {
            Form::Text => self.out.extend_from_slice(literal.as_bytes()),
            Form::Expression => {
                self.out.extend_from_slice(b"CAST('");
                self.out.extend_from_slice(literal.as_bytes());
                self.out.extend_from_slice(b"' AS JSON)");
            }
        }
    }

    /// One that fits a signed integer would be read again as one.
    fn unsigned(&mut self, number: u64) {
        self.is_plain &= i64::try_from(number).is_err();
        match self.form {
            Form::Text => digits(self.out, number, 1),
            Form::Expression => {
                self.out.extend_from_slice(b"CAST(");
                digits(self.out, number, 1);
                self.out.extend_from_slice(b" AS UNSIGNED)");
            }
        }
    }

    fn signed(&mut self, number: i64) {
        integer(self.out, number.unsigned_abs(), number < 0);
    }

    /// A whole number keeps the point that makes it a DOUBLE.
    fn double(&mut self, number: f64) -> Result<(), Error> {
        if self.form == Form::Expression {
            return exponential(self.out, number);
        }
        let start = self.out.len();
        float(self.out, number)?;
        if !self.out[start..].iter().any(|b| matches!(b, b'.' | b'e')) {
            self.out.extend_from_slice(b".0");
        }
        Ok(())
    }

    fn container(&mut self, data: &[u8], is_large: bool, is_object: bool) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(error("it is nested too deep"));
        }
        let mut cursor = Cursor::new(data, "JSON value");
        let (count, size) = (
            offset(&mut cursor, is_large)?,
            offset(&mut cursor, is_large)?,
        );
        let data = data
            .get(..size)
            .ok_or_else(|| error("a part of it ends after it"))?;
        let width = if is_large { 4 } else { 2 };
        let mut keys = Cursor::new(data.get(2 * width..).unwrap_or(&[]), "JSON value");
        let mut values = keys.clone();
        if is_object {
            values.bytes(count.saturating_mul(width + 2))?;
        }
        let [open, between, close] = self.marks(is_object);
        self.out.extend_from_slice(open);
        for i in 0..count {
            self.spend(1 + width)?;
            if i > 0 {
                self.out.extend_from_slice(b", ");
            }
            if is_object {
                let at = offset(&mut keys, is_large)?;
                let length = keys.u16()?;
                let key = tail(data, at)?.get(..length.into());
                let key = key.ok_or_else(|| error("a key of it ends after it"))?;
                self.spend(key.len())?;
                self.string(key);
                self.out.extend_from_slice(between);
            }
            let kind = values.u8()?;
            let inline = values.bytes(width)?;
            match kind {
                4..=6 => self.value(kind, inline)?,
                7 | 8 if is_large => self.value(kind, inline)?,
                _ => {
                    let at = offset(&mut Cursor::new(inline, "JSON value"), is_large)?;
                    self.value(kind, tail(data, at)?)?;
                }
            }
        }
        self.out.extend_from_slice(close);
        self.depth -= 1;
        Ok(())
    }

    /// What opens a container, stands between a key and its value, and closes it.
    fn marks(&self, is_object: bool) -> [&'static [u8]; 3] {
        match (self.form, is_object) {
            (Form::Text, true) => [b"{", b": ", b"}"],
            (Form::Text, false) => [b"[", b"", b"]"],
            (Form::Expression, true) => [b"JSON_OBJECT(", b", ", b")"],
            (Form::Expression, false) => [b"JSON_ARRAY(", b"", b")"],
        }
    }

    fn string(&mut self, text: &[u8]) {
        if self.form == Form::Expression {
            self.out.extend_from_slice(b"_utf8mb4'");
            escape_literal(self.out, text);
            self.out.push(b'\'');
            return;
        }
        self.out.push(b'"');
        for byte in text {
            let letter = match byte {
                b'"' | b'\\' => *byte,
                0x08 => b'b',
                0x0c => b'f',
                b'\n' => b'n',
                b'\r' => b'r',
                b'\t' => b't',
                0..0x20 => {
                    self.out.extend_from_slice(b"\\u00");
                    for digit in [byte >> 4, byte & 15] {
                        self.out.push(b"0123456789abcdef"[usize::from(digit)]);
                    }
                    continue;
                }
                _ => {
                    self.out.push(*byte);
                    continue;
                }
            };
            self.out.extend_from_slice(&[b'\\', letter]);
        }
        self.out.push(b'"');
    }

    /// A value of a type that JSON has not.
    fn opaque(&mut self, kind: u8, data: &[u8]) -> Result<(), Error> {
        self.is_plain = false;
        let mut cursor = Cursor::new(data, "JSON value");
        if kind == 246 {
            let (precision, scale) = (cursor.u8()?, cursor.u8()?);
            let form = decimal::Form::new(precision, scale)?;
            if self.form == Form::Text {
                return form.put(cursor.rest(), self.out);
            }
            self.out.extend_from_slice(b"CAST(");
            form.put(cursor.rest(), self.out)?;
            let cast = format!(" AS DECIMAL({precision},{scale}))");
            self.out.extend_from_slice(cast.as_bytes());
            return Ok(());
        }
        let [open, close]: [&[u8]; 2] = match (self.form, kind) {
            (Form::Text, _) => [b"\"", b"\""],
            // No CAST makes this one; a column of the type does.
            (Form::Expression, 7) => [
                b"(SELECT waggle.x FROM JSON_TABLE(JSON_ARRAY('",
                b"'), '$[0]' COLUMNS (x TIMESTAMP(6) PATH '$' ERROR ON ERROR)) waggle)",
            ],
            (Form::Expression, 10) => [b"CAST('", b"' AS DATE)"],
            (Form::Expression, 11) => [b"CAST('", b"' AS TIME(6))"],
            (Form::Expression, 12) => [b"CAST('", b"' AS DATETIME(6))"],
            (Form::Expression, _) => return self.bytes(kind, data),
        };
        self.out.extend_from_slice(open);
        match kind {
            10 => temporal::put_json_date(cursor.u64()? as i64, self.out),
            7 | 12 => temporal::put_json_datetime(cursor.u64()? as i64, self.out),
            11 => temporal::put_json_time(cursor.u64()? as i64, self.out),
            _ => {
                self.out.extend_from_slice(b"base64:type");
                digits(self.out, kind.into(), 1);
                self.out.push(b':');
                self.base64(data);
            }
        }
        self.out.extend_from_slice(close);
        Ok(())
    }

    /// Bytes, which are of the type of the column that they come from; of those here an expression
    /// makes exactly that type.
    fn bytes(&mut self, kind: u8, data: &[u8]) -> Result<(), Error> {
        let hex = data.iter().map(|byte| format!("{byte:02x}"));
        let hex: String = hex.collect();
        let length = data.len().max(1);
        // Taken out of an array, because no CAST makes a JSON of bytes.
        let (value, column) = match kind {
            15 => {
                let made = format!("JSON_EXTRACT(JSON_ARRAY(x'{hex}'), '$[0]')");
                self.out.extend_from_slice(made.as_bytes());
                return Ok(());
            }
            16 => (
                format!("CAST(CONV('{hex}',16,10) AS UNSIGNED)"),
                format!("BIT({})", 8 * length),
            ),
            254 => (format!("x'{hex}'"), format!("BINARY({length})")),
            252 => (format!("x'{hex}'"), "LONGBLOB".to_owned()),
            _ => {
                return Err(Error::Unsupported(format!(
                    "a JSON value with a part of type {kind}, which no SQL makes"
                )));
            }
        };
        let made = format!(
            "JSON_EXTRACT(JSON_ARRAY((SELECT waggle.x FROM JSON_TABLE(JSON_ARRAY({value}), '$[0]' \
             COLUMNS (x {column} PATH '$' ERROR ON ERROR)) waggle)), '$[0]')"
        );
        self.out.extend_from_slice(made.as_bytes());
        Ok(())
    }

    fn base64(&mut self, data: &[u8]) {
        let mut printed = 0;
        for group in data.chunks(3) {
            if printed == BASE64_LINE {
                self.out.extend_from_slice(b"\\n");
                printed = 0;
            }
            let mut bits = 0u32;
            for i in 0..3 {
                bits = bits << 8 | u32::from(group.get(i).copied().unwrap_or(0));
            }
            for i in 0..4 {
                let digit = BASE64[(bits >> (18 - 6 * i) & 63) as usize];
                self.out.push(if i > group.len() { b'=' } else { digit });
            }
            printed += 4;
        }
    }
}

fn tail(data: &[u8], at: usize) -> Result<&[u8], Error> {
    data.get(at..)
        .ok_or_else(|| error("an offset in it points after it"))
}

fn offset(cursor: &mut Cursor<'_>, is_large: bool) -> Result<usize, Error> {
    match is_large {
        true => Ok(cursor.u32()? as usize),
        false => Ok(cursor.u16()?.into()),
    }
}

/// Bytes after a length of seven bits a byte, the lowest first.
fn variable<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8], Error> {
    let mut length = 0usize;
    for shift in (0..35).step_by(7) {
        let byte = cursor.u8()?;
        length |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return cursor.bytes(length);
        }
    }
    Err(error("a length in it does not end"))
}
