//! Rows of result sets, for the few callers that look at them.
//!
//! The hot path never comes here: it skips rows as packets. Both encodings come out as text, so
//! that callers need not care which one was used. Invariant: total over all bytes, and a row
//! costs no more memory than a fixed multiple of the packet it came in.

use std::fmt::{Display, LowerExp, Write};

use crate::Error;
use crate::cursor::Cursor;

/// The values of one row, in column order; `None` is NULL.
pub type Row = Vec<Option<Vec<u8>>>;

/// Text is how a row's values came; binary rows need the columns' types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Text,
    Binary,
}

const FLAG_UNSIGNED: u16 = 32;

/// What decoding a binary value needs of a column definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Column {
    kind: u8,
    is_unsigned: bool,
    decimals: u8,
}

impl Column {
    pub(crate) fn parse(packet: &[u8]) -> Result<Column, Error> {
        let mut cursor = Cursor::new(packet, "column definition");
        for _ in [
            "catalog",
            "schema",
            "table",
            "original table",
            "name",
            "original name",
        ] {
            cursor.text()?;
        }
        cursor.integer()?; // length of what follows: 12
        cursor.bytes(6)?; // character set, display length
        let kind = cursor.u8()?;
        let flags = cursor.u16()?;
        Ok(Column {
            kind,
            is_unsigned: flags & FLAG_UNSIGNED != 0,
            decimals: cursor.u8()?,
        })
    }
}

/// A row of the text protocol.
pub(crate) fn text_row(packet: &[u8], columns: usize) -> Result<Row, Error> {
    let mut cursor = Cursor::new(packet, "row");
    // A value takes at least a byte, so that `columns` alone cannot ask for memory.
    let mut row = Row::with_capacity(columns.min(packet.len()));
    for _ in 0..columns {
        row.push(cursor.value()?.map(<[u8]>::to_vec));
    }
    match cursor.is_empty() {
        true => Ok(row),
        false => Err(cursor.error("it has more values than columns")),
    }
}

/// A row of the binary protocol, as text.
pub(crate) fn binary_row(packet: &[u8], columns: &[Column]) -> Result<Row, Error> {
    let mut cursor = Cursor::new(packet, "binary row");
    if cursor.u8()? != 0 {
        return Err(cursor.error("it does not start as one"));
    }
    // The first two bits of the NULL bitmap are unused.
    let nulls = cursor.bytes((columns.len() + 9) / 8)?;
    let mut row = Row::with_capacity(columns.len());
    for (i, column) in columns.iter().enumerate() {
        let bit = i + 2;
        let is_null = nulls[bit / 8] >> (bit % 8) & 1 == 1;
        row.push(if is_null {
            None
        } else {
            Some(binary_value(&mut cursor, *column)?)
        });
    }
    match cursor.is_empty() {
        true => Ok(row),
        false => Err(cursor.error("it has more values than columns")),
    }
}

/// One value in the text form that the text protocol gives it (but floating point numbers with
/// as many digits as they need, and no ZEROFILL).
fn binary_value(cursor: &mut Cursor<'_>, column: Column) -> Result<Vec<u8>, Error> {
    let text = match (column.kind, column.is_unsigned) {
        (0x01, true) => cursor.u8()?.to_string(),
        (0x01, false) => (cursor.u8()? as i8).to_string(),
        (0x02 | 0x0d, true) => cursor.u16()?.to_string(),
        (0x02 | 0x0d, false) => (cursor.u16()? as i16).to_string(),
        (0x03 | 0x09, true) => cursor.u32()?.to_string(),
        (0x03 | 0x09, false) => (cursor.u32()? as i32).to_string(),
        (0x08, true) => cursor.u64()?.to_string(),
        (0x08, false) => (cursor.u64()? as i64).to_string(),
        (0x04, _) => float(f32::from_bits(cursor.u32()?)),
        (0x05, _) => float(f64::from_bits(cursor.u64()?)),
        (0x06, _) => return Err(cursor.error("a NULL column has a value")),
        (0x07 | 0x0a | 0x0c, _) => date(cursor, column)?,
        (0x0b, _) => time(cursor, column)?,
        // Everything else travels as text: strings, blobs, DECIMAL, BIT, JSON, ENUM, vectors.
        _ => return Ok(cursor.text()?.to_vec()),
    };
    Ok(text.into_bytes())
}

/// As many digits as are needed to read the same number back, with an exponent where the
/// servers write one.
fn float<F: Into<f64> + Copy + Display + LowerExp>(number: F) -> String {
    let size = number.into().abs();
    if size != 0.0 && !(1e-15..1e15).contains(&size) {
        format!("{number:e}")
    } else {
        number.to_string()
    }
}

/// DATE, DATETIME and TIMESTAMP: 0, 4, 7 or 11 bytes, as many as are not zero.
fn date(cursor: &mut Cursor<'_>, column: Column) -> Result<String, Error> {
    let length = cursor.u8()?;
    let mut fields = Cursor::new(cursor.bytes(length.into())?, "date in a binary row");
    let (mut year, mut month, mut day) = (0, 0, 0);
    if length >= 4 {
        (year, month, day) = (fields.u16()?, fields.u8()?, fields.u8()?);
    }
    let mut text = format!("{year:04}-{month:02}-{day:02}");
    if column.kind != 0x0a {
        let [hour, minute, second] = if length >= 7 { fields.array()? } else { [0; 3] };
        let microsecond = if length >= 11 { fields.u32()? } else { 0 };
        let _ = write!(text, " {hour:02}:{minute:02}:{second:02}");
        put_fraction(&mut text, microsecond, column.decimals);
    }
    match length {
        0 | 4 | 7 | 11 => Ok(text),
        _ => Err(fields.error("its length is none of a date")),
    }
}

/// TIME: 0, 8 or 12 bytes.
fn time(cursor: &mut Cursor<'_>, column: Column) -> Result<String, Error> {
    let length = cursor.u8()?;
    let mut fields = Cursor::new(cursor.bytes(length.into())?, "time in a binary row");
    let (mut sign, mut days, mut parts, mut microsecond) = ("", 0, [0; 3], 0);
    if length >= 8 {
        sign = if fields.u8()? == 1 { "-" } else { "" };
        days = fields.u32()?;
        parts = fields.array()?;
    }
    if length >= 12 {
        microsecond = fields.u32()?;
    }
    if !matches!(length, 0 | 8 | 12) {
        return Err(fields.error("its length is none of a time"));
    }
    let [hours, minutes, seconds] = parts;
    let hours = u64::from(days) * 24 + u64::from(hours);
    let mut text = format!("{sign}{hours:02}:{minutes:02}:{seconds:02}");
    put_fraction(&mut text, microsecond, column.decimals);
    Ok(text)
}

/// The column's fractional digits; values above 6 mean that it has no fixed number of them.
fn put_fraction(text: &mut String, microsecond: u32, decimals: u8) {
    let digits = format!("{microsecond:06}");
    match decimals {
        0 => {}
        1..=6 => {
            let _ = write!(
                text,
                ".{}",
                digits.get(..decimals.into()).unwrap_or(&digits)
            );
        }
        _ if microsecond == 0 => {}
        _ => {
            let _ = write!(text, ".{digits}");
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A column definition packet as a server sends it.
    pub(crate) fn definition(name: &str, kind: u8, flags: u16, decimals: u8) -> Vec<u8> {
        let mut out = b"\x03def\x02db\x01t\x01t".to_vec();
        for _ in 0..2 {
            out.push(name.len() as u8);
            out.extend_from_slice(name.as_bytes());
        }
        out.extend_from_slice(&[0x0c, 45, 0, 11, 0, 0, 0, kind]);
        out.extend_from_slice(&flags.to_le_bytes());
        out.extend_from_slice(&[decimals, 0, 0]);
        out
    }

    fn column(kind: u8, is_unsigned: bool, decimals: u8) -> Column {
        Column {
            kind,
            is_unsigned,
            decimals,
        }
    }

    fn one(kind: u8, is_unsigned: bool, decimals: u8, value: &[u8]) -> String {
        let packet = [b"\0\0", value].concat();
        let row = binary_row(&packet, &[column(kind, is_unsigned, decimals)]).unwrap();
        String::from_utf8(row[0].clone().unwrap()).unwrap()
    }

    #[test]
    fn reads_a_column_definition() {
        let packet = definition("price", 0x0c, FLAG_UNSIGNED | 1, 3);
        assert_eq!(Column::parse(&packet).unwrap(), column(0x0c, true, 3));
    }

    #[test]
    fn reads_a_text_row() {
        let row = text_row(b"\x011\xfb\0", 3).unwrap();
        assert_eq!(row, [Some(b"1".to_vec()), None, Some(vec![])]);
        assert!(text_row(b"\x011\xfb\0", 2).is_err());
        assert!(text_row(b"\x011\xfb\0", 4).is_err());
    }

    #[test]
    fn reads_numbers() {
        assert_eq!(one(0x01, false, 0, &[0xff]), "-1");
        assert_eq!(one(0x01, true, 0, &[0xff]), "255");
        assert_eq!(one(0x02, false, 0, &[0, 0x80]), "-32768");
        assert_eq!(one(0x0d, true, 0, &2026u16.to_le_bytes()), "2026");
        assert_eq!(one(0x09, false, 0, &(-5i32).to_le_bytes()), "-5");
        assert_eq!(
            one(0x08, true, 0, &u64::MAX.to_le_bytes()),
            "18446744073709551615"
        );
        assert_eq!(
            one(0x08, false, 0, &i64::MIN.to_le_bytes()),
            "-9223372036854775808"
        );
        assert_eq!(one(0x04, false, 31, &1.5f32.to_le_bytes()), "1.5");
        assert_eq!(one(0x05, false, 31, &(-0.1f64).to_le_bytes()), "-0.1");
        assert_eq!(
            one(0x05, false, 31, &(-1.25e100f64).to_le_bytes()),
            "-1.25e100"
        );
        assert_eq!(one(0x05, false, 31, &0f64.to_le_bytes()), "0");
        assert_eq!(one(0xf6, false, 2, b"\x0512.30"), "12.30");
    }

    #[test]
    fn reads_dates_and_times() {
        let date = b"\x0b\xea\x07\x0b\x14\x01\x02\x03\x40\xe2\x01\0"; // .123456
        assert_eq!(one(0x0c, false, 6, date), "2026-11-20 01:02:03.123456");
        assert_eq!(one(0x0c, false, 3, date), "2026-11-20 01:02:03.123");
        assert_eq!(
            one(0x07, false, 0, b"\x07\xea\x07\x0b\x14\x01\x02\x03"),
            "2026-11-20 01:02:03"
        );
        assert_eq!(one(0x0a, false, 0, b"\x04\xea\x07\x0b\x14"), "2026-11-20");
        assert_eq!(one(0x0a, false, 0, b"\0"), "0000-00-00");
        assert_eq!(one(0x0c, false, 2, b"\0"), "0000-00-00 00:00:00.00");
        assert_eq!(
            one(0x0b, false, 0, b"\x08\x01\x22\0\0\0\x16\x3b\x3b"),
            "-838:59:59"
        );
        assert_eq!(
            one(0x0b, false, 1, b"\x0c\0\0\0\0\0\0\0\x01\x40\xe2\x01\0"),
            "00:00:01.1"
        );
        assert_eq!(one(0x0b, false, 0, b"\0"), "00:00:00");
    }

    #[test]
    fn reads_the_null_bitmap() {
        // Nine columns, the first, seventh and last NULL: bits 2, 8 and 10.
        let mut packet = vec![0, 0b100, 0b101];
        packet.extend_from_slice(&[1, 2, 3, 4, 5, 6]);
        let row = binary_row(&packet, &[column(1, false, 0); 9]).unwrap();
        let nulls: Vec<usize> = (0..9).filter(|i| row[*i].is_none()).collect();
        assert_eq!(nulls, [0, 6, 8]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(
            bytes in proptest::collection::vec(any::<u8>(), 0..120),
            kinds in proptest::collection::vec((any::<u8>(), any::<bool>(), any::<u8>()), 0..12),
        ) {
            let columns: Vec<Column> = kinds.iter().map(|(k, u, d)| column(*k, *u, *d)).collect();
            let small: Vec<Column> = kinds.iter().map(|(k, u, d)| column(k % 16, *u, *d)).collect();
            let _ = Column::parse(&bytes);
            let _ = text_row(&bytes, columns.len());
            let packet = [b"\0\0\0", &bytes[..]].concat();
            let _ = (binary_row(&packet, &columns), binary_row(&packet, &small));
        }

        #[test]
        fn damaged_definitions_are_answered(at in 0usize..30, byte in any::<u8>(),
                                            cut in 0usize..40) {
            let mut packet = definition("c", 0x0c, 0, 3);
            let length = packet.len();
            packet[at % length] = byte;
            packet.truncate(cut);
            let _ = Column::parse(&packet);
        }
    }
}
