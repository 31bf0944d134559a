//! The walk over a row: from the packet into the line.
//!
//! Neighbours: `waggle-wire` lends rows and finds values, the parent writes the statements that
//! fit. Invariant: a line that is begun is ended before the next one begins, also when its row
//! comes in parts.

use waggle_wire::{Error, FieldPart, FieldParts, Fields};

use super::escape::escape;
use super::key_places;
use crate::range::KeyValue;
use crate::table::{Kind, Table};

/// A key's value is never longer; one that is longer is a blob that only its beginning is key of.
const KEY_BYTES_MAX: usize = 1 << 20;

/// Writes the lines of a table.
#[derive(Debug)]
pub struct Encoder {
    /// For each column of the result: whether it is part of the line, and how its bytes go there.
    columns: Vec<Form>,
    key: Vec<usize>,
    /// Of a row that comes in parts.
    parts: FieldParts,
    column: usize,
    key_of_parts: Vec<Vec<u8>>,
    is_marked: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Digits, signs and letters only: no byte needs a backslash.
    Plain,
    Escaped,
    /// Not part of the line.
    Left,
    /// Not part of the line; 0 unless the row is marked.
    Mark,
}

impl Form {
    fn is_written(self) -> bool {
        !matches!(self, Form::Left | Form::Mark)
    }
}

impl Encoder {
    /// For the rows of [`super::select`].
    pub fn new(table: &Table) -> Encoder {
        let form = |kind| match kind {
            Kind::Integer
            | Kind::Decimal
            | Kind::Float
            | Kind::Double
            | Kind::Year
            | Kind::Date
            | Kind::Time
            | Kind::DateTime
            | Kind::Timestamp
            | Kind::Address => Form::Plain,
            Kind::Bit
            | Kind::Text
            | Kind::Binary
            | Kind::Blob
            | Kind::Enum
            | Kind::Set
            | Kind::Json
            | Kind::Geometry
            | Kind::Vector => Form::Escaped,
        };
        let places = key_places(table);
        let mut columns: Vec<Form> = table.written().map(|(_, c)| form(c.kind)).collect();
        columns.extend(places.added.iter().map(|_| Form::Left));
        if table.marks_json() {
            columns.push(Form::Mark);
        }
        Encoder {
            columns,
            key: places.places,
            parts: FieldParts::default(),
            column: 0,
            key_of_parts: Vec::new(),
            is_marked: false,
        }
    }

    /// Whether the last row was marked: the target has to be told more than its line.
    pub fn is_marked(&self) -> bool {
        self.is_marked
    }

    /// Columns that a row must have.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// Appends the line of a whole row.
    ///
    /// # Errors
    /// [`Error::Protocol`] when it is none of this table.
    #[inline]
    pub fn row(&mut self, row: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        // Room for every byte with a backslash would be twice; most have none.
        out.reserve(row.len() + 64);
        let mut fields = Fields::new(row);
        for form in &self.columns {
            let value = fields.value()?;
            match (form, value) {
                (Form::Left, _) => continue,
                (Form::Mark, value) => {
                    self.is_marked = value != Some(b"0");
                    continue;
                }
                (_, None) => out.extend_from_slice(b"\\N"),
                (Form::Plain, Some(value)) => out.extend_from_slice(value),
                (Form::Escaped, Some(value)) => escape(out, value),
            }
            out.push(b'\t');
        }
        end_line(out);
        fields.end()
    }

    /// The key of a whole row.
    ///
    /// # Errors
    /// [`Error::Protocol`] when it is none of this table.
    pub fn key(&self, row: &[u8]) -> Result<KeyValue, Error> {
        let mut fields = Fields::new(row);
        let mut values = vec![Vec::new(); self.key.len()];
        for column in 0..self.columns.len() {
            let value = fields.value()?;
            for (place, values) in self.key.iter().zip(&mut values) {
                if *place == column {
                    *values = value.unwrap_or_default().to_vec();
                }
            }
        }
        Ok(KeyValue(values))
    }

    /// Appends what the next bytes of a row in parts give of its line; the key once it ends.
    ///
    /// # Errors
    /// [`Error::Protocol`] when it is none of this table.
    pub fn part(
        &mut self,
        mut bytes: &[u8],
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> Result<Option<KeyValue>, Error> {
        if self.column == 0 && self.parts.is_between() {
            self.key_of_parts = vec![Vec::new(); self.key.len()];
            self.is_marked = self.columns.last() == Some(&Form::Mark);
        }
        while let Some(part) = self.parts.take(&mut bytes)? {
            if let FieldPart::Null | FieldPart::Begin(_) = part {
                self.begin_value(out)?;
            }
            // `begin_value` counts the value that runs.
            let column = self.column - 1;
            let form = self.columns[column];
            match part {
                FieldPart::Null if form.is_written() => out.extend_from_slice(b"\\N"),
                FieldPart::Null | FieldPart::Begin(_) => {}
                FieldPart::Bytes(bytes) if form == Form::Mark => self.is_marked = bytes != b"0",
                FieldPart::Bytes(bytes) => {
                    match form {
                        Form::Plain => out.extend_from_slice(bytes),
                        Form::Escaped => escape(out, bytes),
                        Form::Left | Form::Mark => {}
                    }
                    self.keep_key(column, bytes)?;
                }
            }
        }
        if !is_last {
            return Ok(None);
        }
        let is_whole = self.parts.is_between() && self.column == self.columns.len();
        (self.column, self.parts) = (0, FieldParts::default());
        if !is_whole {
            return Err(Error::Protocol("a row in parts ends early".into()));
        }
        out.push(b'\n');
        Ok(Some(KeyValue(std::mem::take(&mut self.key_of_parts))))
    }

    fn begin_value(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        let Some(form) = self.columns.get(self.column) else {
            return Err(Error::Protocol("a row has more values than columns".into()));
        };
        if self.column > 0 && form.is_written() {
            out.push(b'\t');
        }
        self.column += 1;
        Ok(())
    }

    fn keep_key(&mut self, column: usize, bytes: &[u8]) -> Result<(), Error> {
        for (place, value) in self.key.iter().zip(&mut self.key_of_parts) {
            if *place == column {
                value.extend_from_slice(bytes);
                if value.len() > KEY_BYTES_MAX {
                    return Err(Error::Unsupported("a key of more than 1 MiB".into()));
                }
            }
        }
        Ok(())
    }
}

/// In place of the tab after the last value.
fn end_line(out: &mut [u8]) {
    if let Some(last) = out.last_mut() {
        *last = b'\n';
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::{column, table};
    use proptest::prelude::*;

    fn three() -> Encoder {
        let mut table = table(&[
            column("a", Kind::Blob),
            column("b", Kind::Text),
            column("c", Kind::Bit),
        ]);
        table.key.as_mut().unwrap().columns = vec![2, 0];
        Encoder::new(&table)
    }

    /// Values of up to 250 bytes.
    fn packet(values: &[Option<Vec<u8>>]) -> Vec<u8> {
        let mut packet = Vec::new();
        for value in values {
            packet.push(value.as_ref().map_or(0xfb, |value| value.len() as u8));
            packet.extend_from_slice(value.as_deref().unwrap_or_default());
        }
        packet
    }

    #[test]
    fn a_line_is_what_load_data_reads() {
        let row = packet(&[
            Some(b"a\tb".to_vec()),
            None,
            Some(vec![0]),
            Some(b"0".to_vec()),
        ]);
        let mut encoder = three();
        assert_eq!(encoder.columns(), 4);
        let mut out = Vec::new();
        encoder.row(&row, &mut out).unwrap();
        assert_eq!(out, b"a\\\tb\t\\N\t\0\n");
        let key = encoder.key(&row).unwrap();
        assert_eq!(key, KeyValue(vec![b"0".to_vec(), b"a\tb".to_vec()]));
    }

    proptest! {
        #[test]
        fn rows_in_parts_give_the_same_line_and_key(
            rows in proptest::collection::vec(proptest::collection::vec(proptest::option::of(
                proptest::collection::vec(any::<u8>(), 0..99)), 4), 1..3),
            size in 1usize..60,
        ) {
            let (mut whole, mut parts) = (three(), three());
            for row in rows {
                let packet = packet(&row);
                let (mut expected, mut out) = (Vec::new(), Vec::new());
                whole.row(&packet, &mut expected).unwrap();
                let mut key = None;
                let chunks: Vec<&[u8]> = packet.chunks(size).collect();
                for (i, bytes) in chunks.iter().enumerate() {
                    key = parts.part(bytes, i + 1 == chunks.len(), &mut out).unwrap();
                }
                prop_assert_eq!(out, expected);
                prop_assert_eq!(key, Some(whole.key(&packet).unwrap()));
            }
        }

        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..60),
                                  size in 1usize..20) {
            let (mut encoder, mut out) = (three(), Vec::new());
            let _ = encoder.row(&bytes, &mut out);
            let _ = encoder.key(&bytes);
            for bytes in bytes.chunks(size) {
                if encoder.part(bytes, bytes.len() < size, &mut out).is_err() {
                    break;
                }
            }
        }
    }
}
