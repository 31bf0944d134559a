//! MySQL's binary JSON: values as text, and changes to values.
//!
//! A value is a tree of offsets into its own bytes. Neighbours: [`value`](crate::binlog::value)
//! holds one; `walk` goes through its tree, `changes` has those of a partial update. Invariants:
//! the text is what the server prints; an expression makes the value that is stored, with its
//! types.

mod changes;
mod walk;

use crate::Error;
use crate::binlog::value::escape_literal;
use walk::{Form, walk};

pub use changes::{Changes, Operation, ValueChange, put_changed};

/// Appends the text of a value.
///
/// Some values print alike and are not, as [`is_plain`] says.
///
/// # Errors
/// [`Error::Protocol`] when the bytes are no value.
pub fn put(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    walk(bytes, Form::Text, out).map(|_| ())
}

/// Whether the text of the value, read again, makes the same value. Decimals, dates, times,
/// binary data and unsigned integers that are small enough for a signed one become something else.
///
/// # Errors
/// [`Error::Protocol`] when the bytes are no value.
pub fn is_plain(bytes: &[u8]) -> Result<bool, Error> {
    walk(bytes, Form::Text, &mut Vec::new())
}

/// Appends an SQL expression that makes the value with its types, for a session as that of
/// [`ColumnValue::literal`](crate::binlog::value::ColumnValue::literal).
///
/// # Errors
/// [`Error::Protocol`] when the bytes are no value, [`Error::Unsupported`] when they hold one of
/// a type that no expression makes: binary data, but of BINARY, VARBINARY, BLOB and BIT columns.
pub fn put_expression(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let start = out.len();
    if walk(bytes, Form::Text, out)? {
        let text = out.split_off(start);
        out.extend_from_slice(b"_utf8mb4'");
        escape_literal(out, &text);
        out.push(b'\'');
        return Ok(());
    }
    out.truncate(start);
    // What is no JSON by itself becomes a scalar of it.
    out.extend_from_slice(b"CAST(");
    walk(bytes, Form::Expression, out)?;
    out.extend_from_slice(b" AS JSON)");
    Ok(())
}

/// Appends an expression of type JSON, where [`put_expression`] may make a text.
fn put_document(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let start = out.len();
    put_expression(bytes, out)?;
    if out[start..].starts_with(b"_utf8mb4'") {
        let text = out.split_off(start);
        out.extend_from_slice(b"CAST(");
        out.extend_from_slice(&text);
        out.extend_from_slice(b" AS JSON)");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
