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

/// The condition for the one row of a whole key.
pub fn equal(table: &Table, key: &KeyValue) -> String {
    let columns = table.key_columns().zip(&key.0);
    let parts: Vec<String> = columns
        .map(|(column, value)| {
            let value = literal(column, value);
            format!("{} = {value}", equatable(column, &value))
        })
        .collect();
    parts.join(" AND ")
}

/// What is equal to a literal. An ENUM that is compared with a number is equal by its number, and
/// its index can be used, which an expression's cannot. So can a SET's; but its number becomes a
/// DOUBLE, with the 64th member for a sign, so that holds only for a small one.
pub(crate) fn equatable(column: &Column, literal: &str) -> String {
    const EXACT: u64 = 1 << 53;
    let is_exact = literal.parse::<u64>().is_ok_and(|number| number < EXACT);
    match column.kind {
        Kind::Set if !is_exact => number(column),
        _ => column.quoted(),
    }
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
        Kind::Enum | Kind::Set => number(column),
        _ => column.quoted(),
    }
}

fn expression(column: &Column) -> String {
    match column.kind {
        Kind::Enum | Kind::Set | Kind::Bit => number(column),
        _ => column.quoted(),
    }
}

/// The number that a server keeps of a value. In a sum a SET is a DOUBLE: members beyond the 53rd
/// take the digits of the first ones away, and two sets look like one. And MariaDB complains of a
/// cast of the 64th, which is the sign.
pub(crate) fn number(column: &Column) -> String {
    match column.kind {
        Kind::Set => format!("({} & {})", column.quoted(), u64::MAX),
        _ => format!("{} + 0", column.quoted()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::{column, table};

    fn key(values: &[&str]) -> KeyValue {
        KeyValue(
            values
                .iter()
                .map(|value| value.as_bytes().to_vec())
                .collect(),
        )
    }

    #[test]
    fn an_enum_is_compared_by_its_number() {
        let mut table = table(&[column("e", Kind::Enum), column("id", Kind::Integer)]);
        table.key.as_mut().unwrap().columns = vec![0, 1];
        assert_eq!(key_expressions(&table), ["`e` + 0", "`id`"]);
        assert_eq!(
            above(&table, &key(&["2", "7"])),
            "((`e` + 0 > 2) OR (`e` + 0 = 2 AND `id` > 7))"
        );
        assert_eq!(
            up_to(&table, &key(&["2", "7"])),
            "((`e` + 0 < 2) OR (`e` + 0 = 2 AND `id` <= 7))"
        );
        // A part of the key stands for all keys that begin with it.
        assert_eq!(up_to(&table, &key(&["2"])), "((`e` + 0 <= 2))");
        // Text would be compared with the members, and `'2'` may be one of them.
        assert_eq!(equal(&table, &key(&["2", "7"])), "`e` = 2 AND `id` = 7");
    }

    #[test]
    fn a_set_keeps_all_of_its_64_bits() {
        let table = table(&[column("s", Kind::Set)]);
        let bits = key(&["9223372036854775809"]);
        assert_eq!(key_expressions(&table), ["(`s` & 18446744073709551615)"]);
        assert_eq!(
            above(&table, &bits),
            "(((`s` & 18446744073709551615) > 9223372036854775809))"
        );
        assert_eq!(
            equal(&table, &bits),
            "(`s` & 18446744073709551615) = 9223372036854775809"
        );
        // As a DOUBLE it is exact, and the index finds it.
        assert_eq!(equal(&table, &key(&["5"])), "`s` = 5");
    }

    #[test]
    fn bits_are_numbers_that_the_index_knows() {
        let table = table(&[column("b", Kind::Bit)]);
        assert_eq!(key_expressions(&table), ["`b` + 0"]);
        assert_eq!(
            above(&table, &key(&["18446744073709551614"])),
            "((`b` > 18446744073709551614))"
        );
    }
}
