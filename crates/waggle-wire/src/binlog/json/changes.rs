//! Changes to a value: what a partial update logs in place of the whole.
//!
//! Neighbour: the parent makes expressions of the values in them. Invariant: bytes that are no
//! change end the list with an error, so that none is left out unseen.

use super::put_document;
use crate::Error;
use crate::binlog::value::escape_literal;
use crate::cursor::Cursor;

/// The changes that a partial update makes to one value, in order.
#[derive(Debug, Clone, Copy)]
pub struct Changes<'a> {
    rest: &'a [u8],
}

/// What a change does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Puts a value in place of another: `JSON_REPLACE`.
    Replace,
    /// Adds a value: `JSON_INSERT` of a key, `JSON_ARRAY_INSERT` of an element.
    Insert,
    /// Takes one away: `JSON_REMOVE`.
    Remove,
}

/// One change to a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueChange<'a> {
    /// What it does.
    pub operation: Operation,
    /// Where, as a path of the server's (`$.a[1]`).
    pub path: &'a [u8],
    /// The new value in binary form, for [`put`](super::put); empty when one is taken away.
    pub value: &'a [u8],
}

impl ValueChange<'_> {
    /// The function of the servers' that does the same.
    fn function(&self) -> &'static str {
        match self.operation {
            Operation::Replace => "JSON_REPLACE",
            Operation::Insert if self.path.ends_with(b"]") => "JSON_ARRAY_INSERT",
            Operation::Insert => "JSON_INSERT",
            Operation::Remove => "JSON_REMOVE",
        }
    }
}

impl<'a> Changes<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Changes<'a> {
        Changes { rest: bytes }
    }

    fn read(&mut self) -> Result<ValueChange<'a>, Error> {
        let mut cursor = Cursor::new(self.rest, "JSON change");
        let operation = match cursor.u8()? {
            0 => Operation::Replace,
            1 => Operation::Insert,
            2 => Operation::Remove,
            _ => return Err(cursor.error("its operation is not known")),
        };
        let path = cursor.text()?;
        let value = match operation {
            Operation::Remove => &[][..],
            _ => cursor.text()?,
        };
        self.rest = cursor.rest();
        Ok(ValueChange {
            operation,
            path,
            value,
        })
    }
}

impl<'a> Iterator for Changes<'a> {
    type Item = Result<ValueChange<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let change = self.read();
        if change.is_err() {
            self.rest = &[];
        }
        Some(change)
    }
}

/// Appends an SQL expression that makes what `before` becomes by `changes`, with its types.
///
/// # Errors
/// As [`put_expression`](super::put_expression).
pub fn put_changed(before: &[u8], changes: Changes<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    let changes = changes.collect::<Result<Vec<_>, Error>>()?;
    // Changes of a kind that follow each other are arguments of one call: calls must not nest
    // without bound. The last ones stand outside.
    let runs: Vec<_> = changes
        .chunk_by(|a, b| a.function() == b.function())
        .collect();
    for run in runs.iter().rev() {
        out.extend_from_slice(run[0].function().as_bytes());
        out.push(b'(');
    }
    put_document(before, out)?;
    for run in runs {
        for change in run {
            out.extend_from_slice(b", _utf8mb4'");
            escape_literal(out, change.path);
            out.push(b'\'');
            if change.operation != Operation::Remove {
                out.extend_from_slice(b", ");
                put_document(change.value, out)?;
            }
        }
        out.push(b')');
    }
    Ok(())
}
