//! What a table map says of its columns beyond their types, as far as the server's
//! `binlog_row_metadata` has it say so: signs, collations, names, members, the primary key.
//!
//! A field holds values only for the columns that it is about, in their order. Neighbour: the
//! parent finds the fields, `kind` knows which columns one is about. Invariant: a field of a kind
//! that is not known is passed over; none changes how long a value is.

use super::{Column, Kind, TableMap};
use crate::Error;
use crate::cursor::Cursor;

impl TableMap {
    pub(super) fn take_optional(&mut self, kind: u8, mut field: Cursor<'_>) -> Result<(), Error> {
        let columns = &mut self.columns;
        match kind {
            1 => {
                let numbers = columns.iter_mut();
                let numbers = numbers.filter(|column| column.kind.has_sign());
                for (column, bit) in numbers.zip(Bits::new(field.rest())) {
                    column.is_unsigned = Some(bit);
                }
                Ok(())
            }
            2 => default_collations(columns, &mut field, Kind::is_text),
            3 => collations(columns, &mut field, Kind::is_text),
            4 => {
                for column in columns {
                    column.name = Some(field.text()?.to_vec());
                }
                Ok(())
            }
            5 => members(columns, &mut field, |kind| matches!(kind, Kind::Set { .. })),
            6 => members(columns, &mut field, |kind| {
                matches!(kind, Kind::Enum { .. })
            }),
            8 | 9 => {
                let mut key = Vec::new();
                while !field.is_empty() {
                    let column = number(&mut field)?;
                    let prefix = if kind == 9 { number(&mut field)? } else { 0 };
                    if column as usize >= columns.len() {
                        return Err(field.error("its primary key has a column that is none"));
                    }
                    key.push((column, prefix));
                }
                self.primary_key = Some(key);
                Ok(())
            }
            10 => default_collations(columns, &mut field, Kind::has_members),
            11 => collations(columns, &mut field, Kind::has_members),
            12 => {
                for (column, bit) in columns.iter_mut().zip(Bits::new(field.rest())) {
                    column.is_visible = Some(bit);
                }
                Ok(())
            }
            // The kinds of geometries and what is yet to come change no value's reading.
            _ => Ok(()),
        }
    }
}

fn number(field: &mut Cursor<'_>) -> Result<u32, Error> {
    let number = field.integer()?;
    u32::try_from(number).map_err(|_| field.error("a number in it is too large"))
}

/// Bits, the highest of each byte first.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Bits<'a> {
    fn new(bytes: &'a [u8]) -> Bits<'a> {
        Bits { bytes, at: 0 }
    }
}

impl Iterator for Bits<'_> {
    type Item = bool;

    fn next(&mut self) -> Option<bool> {
        let byte = self.bytes.get(self.at / 8)?;
        let bit = byte >> (7 - self.at % 8) & 1 == 1;
        self.at += 1;
        Some(bit)
    }
}

/// One for all columns of a type, then pairs for those that have another.
fn default_collations(
    columns: &mut [Column],
    field: &mut Cursor<'_>,
    is_of_type: impl Fn(&Kind) -> bool,
) -> Result<(), Error> {
    let default = number(field)?;
    let mut others = columns.iter_mut().filter(|column| is_of_type(&column.kind));
    let mut next = 0;
    while !field.is_empty() {
        let (at, collation) = (number(field)? as usize, number(field)?);
        // They come in order; those between have the default.
        while next < at {
            match others.next() {
                Some(column) => column.collation = Some(default),
                None => return Err(field.error("a collation in it is for no column")),
            }
            next += 1;
        }
        match others.next() {
            Some(column) if next == at => column.collation = Some(collation),
            _ => return Err(field.error("a collation in it is for no column")),
        }
        next += 1;
    }
    for column in others {
        column.collation = Some(default);
    }
    Ok(())
}

fn collations(
    columns: &mut [Column],
    field: &mut Cursor<'_>,
    is_of_type: impl Fn(&Kind) -> bool,
) -> Result<(), Error> {
    for column in columns.iter_mut().filter(|column| is_of_type(&column.kind)) {
        column.collation = Some(number(field)?);
    }
    Ok(())
}

fn members(
    columns: &mut [Column],
    field: &mut Cursor<'_>,
    is_of_type: impl Fn(&Kind) -> bool,
) -> Result<(), Error> {
    for column in columns.iter_mut().filter(|column| is_of_type(&column.kind)) {
        let mut members = Vec::new();
        for _ in 0..field.integer()? {
            members.push(field.text()?.to_vec());
        }
        column.members = Some(members);
    }
    Ok(())
}
