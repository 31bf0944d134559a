//! Key comparisons as SQL.
//!
//! `(a > 1) OR (a = 1 AND b > 2)` and not `(a, b) > (1, 2)`, which servers answer with a scan of
//! the whole table. Neighbour: the parent's bounds. Invariant: a literal is of its column's type
//! and collation, so that no conversion changes an order or keeps an index from being used.

use std::fmt::Write;

use super::KeyValue;
use crate::table::{Column, Kind, Table};

/// Key columns as they are selected, so that each comes as [`KeyValue`] wants it.
pub fn key_expressions(table: &Table) -> Vec<String> {
    table.key_columns().map(expression).collect()
}

/// The order of a table's key, for `ORDER BY`; empty without one.
pub fn order(table: &Table) -> String {
    let names: Vec<String> = table.key_columns().map(Column::quoted).collect();
    names.join(", ")
}

/// The condition for keys above `bound`. A bound of fewer values than the key has columns is above
/// every key that begins with it.
pub fn above(table: &Table, bound: &KeyValue) -> String {
    compared(table, bound, ">", ">")
}

/// The condition for keys up to and with `bound`. A bound of fewer values than the key has columns
/// takes in every key that begins with it.
pub fn up_to(table: &Table, bound: &KeyValue) -> String {
    compared(table, bound, "<", "<=")
}

/// The condition for the one row of a whole key. An ENUM that is compared with a number is equal
/// by its number, and its index can be used, which an expression's cannot.
pub fn equal(table: &Table, key: &KeyValue) -> String {
    let columns = table.key_columns().zip(&key.0);
    let parts: Vec<String> = columns
        .map(|(column, value)| format!("{} = {}", column.quoted(), literal(column, value)))
        .collect();
    parts.join(" AND ")
}

fn compared(table: &Table, bound: &KeyValue, strict: &str, last: &str) -> String {
    let columns: Vec<&Column> = table.key_columns().take(bound.0.len()).collect();
    let parts: Vec<(String, String)> = columns
        .iter()
        .zip(&bound.0)
        .map(|(column, value)| (comparable(column), literal(column, value)))
        .collect();
    let mut sql = String::from("(");
    for i in 0..parts.len() {
        if i > 0 {
            sql.push_str(" OR ");
        }
        sql.push('(');
        for (name, value) in &parts[..i] {
            let _ = write!(sql, "{name} = {value} AND ");
        }
        let sign = if i + 1 == parts.len() { last } else { strict };
        let (name, value) = &parts[i];
        let _ = write!(sql, "{name} {sign} {value})");
    }
    sql.push(')');
    sql
}

/// A column in a comparison. An ENUM compares as text but is ordered by its number.
fn comparable(column: &Column) -> String {
    match column.kind {
        Kind::Enum | Kind::Set => format!("{} + 0", column.quoted()),
        _ => column.quoted(),
    }
}

fn expression(column: &Column) -> String {
    match column.kind {
        Kind::Enum | Kind::Set | Kind::Bit => format!("{} + 0", column.quoted()),
        _ => column.quoted(),
    }
}

fn literal(column: &Column, value: &[u8]) -> String {
    match column.kind {
        Kind::Integer | Kind::Decimal | Kind::Year | Kind::Enum | Kind::Set | Kind::Bit => {
            let is_number = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
            // What a server gave; anything else must not get into a statement.
            match value.iter().all(is_number) && !value.is_empty() {
                true => String::from_utf8_lossy(value).into_owned(),
                false => format!("X'{}'", hex(value)),
            }
        }
        Kind::Float | Kind::Double => format!("CAST({} AS DOUBLE)", quoted(value)),
        Kind::Text => {
            let charset = column.charset.as_deref().unwrap_or("binary");
            let collation = column.collation.as_deref().unwrap_or("binary");
            format!("_{charset} X'{}' COLLATE {collation}", hex(value))
        }
        Kind::Binary | Kind::Blob | Kind::Geometry | Kind::Vector | Kind::Json => {
            format!("X'{}'", hex(value))
        }
        Kind::Date | Kind::Time | Kind::DateTime | Kind::Timestamp | Kind::Address => quoted(value),
    }
}

/// Bytes as the digits of a hexadecimal literal.
pub(crate) fn hex(value: &[u8]) -> String {
    value.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Text of ASCII letters, digits and a few signs.
fn quoted(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}
