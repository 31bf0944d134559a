//! Many executions of one prepared statement in one packet: MariaDB's bulk execution.
//!
//! Rows are written where they leave from, by whoever makes them. Neighbour:
//! [`Connection::execute_bulk`](crate::Connection::execute_bulk) sends them. Invariant: a packet
//! names its types every time, so that the server never reads a value by the type of another.

use crate::cursor::put_integer;
use crate::{Statement, Value};

pub(crate) const COM_STMT_BULK_EXECUTE: u8 = 0xfa;
/// The types of the values follow.
const SENDS_TYPES: u16 = 128;
/// Before each value: it is one, not NULL, not the column's default.
const IS_VALUE: u8 = 0;
const IS_NULL: u8 = 1;

/// Rows of parameters for one statement.
#[derive(Debug)]
pub struct BulkRows {
    body: Vec<u8>,
    /// Length of what stands before the first row.
    head: usize,
}

impl BulkRows {
    /// No rows yet, for `statement`, whose parameters have the types of `like` (NULL stands for
    /// text).
    pub fn new(statement: &Statement, like: &[Value<'_>]) -> BulkRows {
        let mut body = statement.id().to_le_bytes().to_vec();
        body.extend_from_slice(&SENDS_TYPES.to_le_bytes());
        for value in like {
            let kind = match value {
                Value::Null => Value::Bytes(b"").kind(),
                value => value.kind(),
            };
            body.extend_from_slice(&kind.to_le_bytes());
        }
        let head = body.len();
        BulkRows { body, head }
    }

    /// Where rows are appended: for each parameter in turn [`put`] or [`put_text`].
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.body
    }

    /// Forgets the rows.
    pub fn clear(&mut self) {
        self.body.truncate(self.head);
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }
}

/// Appends one value.
pub fn put(out: &mut Vec<u8>, value: Value<'_>) {
    out.push(match value {
        Value::Null => IS_NULL,
        _ => IS_VALUE,
    });
    value.put(out);
}

/// Appends a text of `length` bytes that `fill` writes in place, over zeros.
pub fn put_text(out: &mut Vec<u8>, length: usize, fill: impl FnOnce(&mut [u8])) {
    out.push(IS_VALUE);
    put_integer(out, length as u64);
    let start = out.len();
    out.resize(start + length, 0);
    fill(&mut out[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_filled_in_place_is_a_value() {
        let (mut whole, mut filled) = (Vec::new(), Vec::new());
        put(&mut whole, Value::Bytes(b"abc"));
        put_text(&mut filled, 3, |place| place.copy_from_slice(b"abc"));
        assert_eq!(whole, b"\x00\x03abc");
        assert_eq!(filled, whole);
        whole.clear();
        put(&mut whole, Value::Null);
        put(&mut whole, Value::Int(-2));
        assert_eq!(whole, b"\x01\x00\xfe\xff\xff\xff\xff\xff\xff\xff");
    }
}
