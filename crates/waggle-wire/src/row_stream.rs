//! The rows of one large SELECT, lent one after the other as they lie in the receive buffer.
//!
//! For callers that pass rows on: nothing is kept, nothing is copied, and a row that is larger
//! than the buffer comes in parts, so that memory does not grow with the rows. Neighbours:
//! [`Channel`](crate::packet::Channel) lends the bytes, [`Fields`] and [`FieldParts`] find the
//! values in them. Invariant: the session is of use again only when the last row was read.

use crate::cursor::Cursor;
use crate::packet::{Lent, Open};
use crate::reply::{self, Done, Reply};
use crate::{Connection, Error, result};

/// The rows of a running SELECT in the text protocol. Dropping it before the end leaves the
/// connection unusable: there is no way to tell the server that no more rows are wanted.
#[derive(Debug)]
pub struct RowStream<'c> {
    connection: &'c mut Connection,
    columns: u16,
    open: Open,
    is_over: bool,
}

/// A row, or a part of one that is larger than the receive buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A whole row, for [`Fields`].
    Row(&'a [u8]),
    /// The next bytes of a row, for [`FieldParts`].
    Part {
        /// They may be none.
        bytes: &'a [u8],
        /// Whether the row ends with them.
        is_last: bool,
    },
}

impl<'c> RowStream<'c> {
    pub(crate) fn begin(connection: &'c mut Connection) -> Result<RowStream<'c>, Error> {
        let (channel, terms) = connection.parts();
        let reply = reply::parse(channel.packet()?, terms.may_omit_columns)?;
        let Reply::Columns { count, are_defined } = reply else {
            // The rest of the answer is not read, so the session stays unusable.
            return Err(Error::Unsupported("rows of a statement without any".into()));
        };
        if are_defined {
            result::skip_definitions(channel, count, *terms)?;
        }
        Ok(RowStream {
            connection,
            columns: count,
            open: Open::default(),
            is_over: false,
        })
    }

    /// Number of columns of each row.
    pub fn columns(&self) -> u16 {
        self.columns
    }

    /// The next row or part of one; `None` after the last.
    ///
    /// # Errors
    /// Any [`Error`]; the statement's own may come after any row.
    #[expect(clippy::should_implement_trait, reason = "what it gives is borrowed")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<Piece<'_>>, Error> {
        if self.is_over {
            return Ok(None);
        }
        let (channel, terms) = self.connection.parts();
        if !self.open.is_open() {
            let (length, first) = channel.peek()?;
            if reply::ends_rows(length, first, terms.deprecates_eof) {
                self.is_over = true;
                let done = reply::end_of_rows(channel.packet()?, terms.deprecates_eof);
                return self.end(done).map(|()| None);
            }
        }
        let (channel, _) = self.connection.parts();
        Ok(Some(match channel.lend(&mut self.open)? {
            Lent::Whole(bytes) => Piece::Row(bytes),
            Lent::Part { bytes, is_last } => Piece::Part { bytes, is_last },
        }))
    }

    fn end(&mut self, done: Result<Done, Error>) -> Result<(), Error> {
        let outcome = match done {
            Ok(done) if done.more_results() => {
                let what = "rows of more than one result".to_owned();
                return Err(Error::Unsupported(what));
            }
            Ok(done) => Ok(done),
            Err(error) => Err(error),
        };
        self.connection.settle(outcome)
    }
}

/// The values of a row, in column order; `None` is NULL.
#[derive(Clone)]
pub struct Fields<'a> {
    cursor: Cursor<'a>,
}

impl<'a> Fields<'a> {
    /// Over a whole row of the text protocol.
    pub fn new(row: &'a [u8]) -> Fields<'a> {
        Fields {
            cursor: Cursor::new(row, "row"),
        }
    }

    /// The next value. Ask for as many as there are columns.
    ///
    /// # Errors
    /// [`Error::Protocol`] when the row ends early.
    #[inline]
    pub fn value(&mut self) -> Result<Option<&'a [u8]>, Error> {
        self.cursor.value()
    }

    /// Checks that no value is left.
    ///
    /// # Errors
    /// [`Error::Protocol`] when one is.
    pub fn end(&self) -> Result<(), Error> {
        match self.cursor.is_empty() {
            true => Ok(()),
            false => Err(self.cursor.error("it has more values than columns")),
        }
    }
}

/// What the next bytes of a row's part are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldPart<'a> {
    /// A value that is NULL.
    Null,
    /// A value begins; this many bytes of it follow.
    Begin(u64),
    /// Bytes of the value that began last.
    Bytes(&'a [u8]),
}

/// Finds the values of a row that comes in parts.
#[derive(Debug, Default)]
pub struct FieldParts {
    /// Of a value's length: bytes read so far, and how many are wanted in all.
    head: [u8; 9],
    head_bytes: usize,
    /// Bytes of the running value that are still to come.
    left: u64,
}

impl FieldParts {
    /// Takes the next thing off `bytes`; `None` when they are used up.
    ///
    /// # Errors
    /// [`Error::Protocol`] for a length that is none.
    pub fn take<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Option<FieldPart<'a>>, Error> {
        if bytes.is_empty() {
            return Ok(None);
        }
        if self.left > 0 {
            let taken =
                usize::try_from(self.left).map_or(bytes.len(), |left| left.min(bytes.len()));
            let (now, later) = bytes.split_at(taken);
            *bytes = later;
            self.left -= taken as u64;
            return Ok(Some(FieldPart::Bytes(now)));
        }
        loop {
            let Some((byte, later)) = bytes.split_first() else {
                return Ok(None);
            };
            *bytes = later;
            self.head[self.head_bytes] = *byte;
            self.head_bytes += 1;
            let wanted = match self.head[0] {
                0..=0xfb => 1,
                0xfc => 3,
                0xfd => 4,
                0xfe => 9,
                0xff => return Err(Error::protocol("row: a value's length is none")),
            };
            if self.head_bytes < wanted {
                continue;
            }
            self.head_bytes = 0;
            if self.head[0] == 0xfb {
                return Ok(Some(FieldPart::Null));
            }
            let mut length = [0; 8];
            match wanted {
                1 => length[0] = self.head[0],
                _ => length[..wanted - 1].copy_from_slice(&self.head[1..wanted]),
            }
            self.left = u64::from_le_bytes(length);
            return Ok(Some(FieldPart::Begin(self.left)));
        }
    }

    /// Whether no value has begun that is not over.
    pub fn is_between(&self) -> bool {
        self.left == 0 && self.head_bytes == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::put_integer;
    use proptest::prelude::*;

    fn row(values: &[Option<Vec<u8>>]) -> Vec<u8> {
        let mut packet = Vec::new();
        for value in values {
            match value {
                None => packet.push(0xfb),
                Some(value) => {
                    put_integer(&mut packet, value.len() as u64);
                    packet.extend_from_slice(value);
                }
            }
        }
        packet
    }

    /// The values that parts of `size` bytes give.
    fn in_parts(packet: &[u8], size: usize) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let mut parts = FieldParts::default();
        let mut values = Vec::new();
        for mut bytes in packet.chunks(size) {
            while let Some(part) = parts.take(&mut bytes)? {
                match part {
                    FieldPart::Null => values.push(None),
                    FieldPart::Begin(_) => values.push(Some(Vec::new())),
                    FieldPart::Bytes(bytes) => {
                        let value = values.last_mut().and_then(Option::as_mut);
                        value.unwrap().extend_from_slice(bytes);
                    }
                }
            }
        }
        match parts.is_between() {
            true => Ok(values),
            false => Err(Error::protocol("early end")),
        }
    }

    proptest! {
        #[test]
        fn parts_and_whole_rows_have_the_same_values(
            values in proptest::collection::vec(
                proptest::option::of(prop_oneof![
                    proptest::collection::vec(any::<u8>(), 0..4),
                    proptest::collection::vec(any::<u8>(), 240..300),
                    (65_530usize..65_540).prop_map(|n| vec![7; n]),
                ]), 0..6),
            size in 1usize..400,
        ) {
            let packet = row(&values);
            prop_assert_eq!(&in_parts(&packet, size).unwrap(), &values);
            let mut fields = Fields::new(&packet);
            for value in &values {
                prop_assert_eq!(fields.value().unwrap(), value.as_deref());
            }
            prop_assert!(fields.end().is_ok());
        }

        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..80),
                                  size in 1usize..20) {
            let _ = in_parts(&bytes, size);
            let mut fields = Fields::new(&bytes);
            while fields.end().is_err() && fields.value().is_ok() {}
        }
    }
}
