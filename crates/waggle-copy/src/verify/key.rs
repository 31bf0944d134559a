//! A row's key: read from one server, written into a statement for either.
//!
//! Keys are compared by the servers, by the collation of the column; here they are only carried.
//! Invariant: a key's parts name one row exactly, in whatever session.

use crate::table::{Column, Kind, Table};

/// The values of a key's columns in the form that [`expression`] gives.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct KeyText(pub(super) Vec<String>);

/// The key's columns as a server has them.
#[derive(Debug, Clone)]
pub(super) struct KeyColumns {
    columns: Vec<Column>,
    /// The index that they are read by.
    pub(super) index: String,
}

impl KeyColumns {
    /// Those of a table; `None` without a key, or with one whose order cannot be relied on.
    pub(super) fn of(table: &Table) -> Option<KeyColumns> {
        let key = table.key.as_ref()?;
        let columns: Vec<Column> = table.key_columns().cloned().collect();
        let odd = |column: &Column| {
            matches!(column.kind, Kind::Json | Kind::Geometry | Kind::Vector)
                || (column.kind == Kind::Text && column.charset.is_none())
        };
        (!columns.is_empty() && !columns.iter().any(odd)).then(|| KeyColumns {
            columns,
            index: key.name.clone(),
        })
    }

    /// The same key as the other server has it: its columns may be of another collation.
    pub(super) fn with(&self, columns: Vec<Column>, index: String) -> KeyColumns {
        KeyColumns { columns, index }
    }

    /// Whether both servers put keys into one order.
    pub(super) fn agrees_with(&self, other: &KeyColumns) -> bool {
        let order = |column: &Column| match column.kind {
            Kind::Text => column.collation.clone(),
            _ => None,
        };
        self.columns
            .iter()
            .map(order)
            .eq(other.columns.iter().map(order))
    }

    /// What to select so that each value can be written as a literal.
    pub(super) fn expressions(&self) -> String {
        let each: Vec<String> = self.columns.iter().map(expression).collect();
        each.join(", ")
    }

    /// Number of values.
    pub(super) fn len(&self) -> usize {
        self.columns.len()
    }

    /// In ascending or descending order of the key.
    pub(super) fn order(&self) -> String {
        let each: Vec<String> = (self.columns.iter())
            .map(|column| format!("t.{}", column.quoted()))
            .collect();
        each.join(", ")
    }

    /// Keys above this one. Written out, as servers read a whole table for `(a, b) > (1, 2)`.
    pub(super) fn above(&self, key: &KeyText) -> String {
        self.compare(key, ">", ">")
    }

    /// Keys up to and with this one.
    pub(super) fn up_to(&self, key: &KeyText) -> String {
        self.compare(key, "<", "<=")
    }

    fn compare(&self, key: &KeyText, inner: &str, last: &str) -> String {
        let mut either = Vec::new();
        for (at, column) in self.columns.iter().enumerate() {
            let equal = (0..at).map(|before| self.equal(before, key));
            let operator = if at + 1 == self.columns.len() {
                last
            } else {
                inner
            };
            let ordered = format!(
                "{} {operator} {}",
                operand(column),
                literal(column, &key.0[at])
            );
            let all: Vec<String> = equal.chain([ordered]).collect();
            either.push(format!("({})", all.join(" AND ")));
        }
        format!("({})", either.join(" OR "))
    }

    fn equal(&self, at: usize, key: &KeyText) -> String {
        let column = &self.columns[at];
        format!("{} = {}", operand(column), literal(column, &key.0[at]))
    }

    /// This key only; bytes count, where a collation would take another for it.
    pub(super) fn exactly(&self, key: &KeyText) -> String {
        let mut all: Vec<String> = (0..self.columns.len())
            .map(|at| self.equal(at, key))
            .collect();
        for (column, value) in self.columns.iter().zip(&key.0) {
            if column.kind == Kind::Text {
                all.push(format!("HEX(t.{}) = '{value}'", column.quoted()));
            }
        }
        format!("({})", all.join(" AND "))
    }

    /// For people: `id=7, name='x'`.
    pub(super) fn shown(&self, key: &KeyText) -> String {
        let each = self.columns.iter().zip(&key.0).map(|(column, value)| {
            let value = match column.kind {
                Kind::Text | Kind::Binary | Kind::Blob => readable(value),
                _ => value.clone(),
            };
            format!("{}={value}", column.name)
        });
        each.collect::<Vec<_>>().join(", ")
    }
}

/// Text where the bytes are printable ASCII, else hexadecimal.
fn readable(hex: &str) -> String {
    let pairs = hex.as_bytes().chunks(2);
    let bytes: Option<Vec<u8>> = pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect();
    match bytes {
        Some(bytes) if bytes.iter().all(|byte| (0x20..0x7f).contains(byte)) => {
            format!("'{}'", String::from_utf8_lossy(&bytes))
        }
        _ => format!("x'{hex}'"),
    }
}

fn expression(column: &Column) -> String {
    let name = format!("t.{}", column.quoted());
    match column.kind {
        Kind::Text | Kind::Binary | Kind::Blob => format!("HEX({name})"),
        Kind::Integer if column.is_unsigned() => format!("CAST({name} AS UNSIGNED)"),
        Kind::Integer => format!("CAST({name} AS SIGNED)"),
        Kind::Float | Kind::Double => format!("CAST(CAST({name} AS DOUBLE) AS CHAR)"),
        Kind::Bit | Kind::Enum | Kind::Decimal => format!("({name}+0)"),
        Kind::Set => bits(column),
        _ => format!("CAST({name} AS CHAR)"),
    }
}

/// ENUM and SET are ordered by their numbers, but compared with text by their text.
fn operand(column: &Column) -> String {
    match column.kind {
        Kind::Enum => format!("(t.{}+0)", column.quoted()),
        Kind::Set => bits(column),
        _ => format!("t.{}", column.quoted()),
    }
}

/// All 64 members of a SET; a sum is a DOUBLE, which has 53, and of a cast of the 64th, the sign,
/// MariaDB complains.
fn bits(column: &Column) -> String {
    format!("(t.{} & {})", column.quoted(), u64::MAX)
}

fn literal(column: &Column, value: &str) -> String {
    let is_number = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
    match column.kind {
        Kind::Text => {
            let charset = column.charset.as_deref().unwrap_or("binary");
            let collation = column.collation.as_deref().unwrap_or("binary");
            format!("_{charset} x'{value}' COLLATE {collation}")
        }
        Kind::Binary | Kind::Blob => format!("x'{value}'"),
        Kind::Integer
        | Kind::Decimal
        | Kind::Bit
        | Kind::Year
        | Kind::Enum
        | Kind::Set
        | Kind::Float
        | Kind::Double
            if value.bytes().all(is_number) && !value.is_empty() =>
        {
            value.to_owned()
        }
        _ => format!("'{}'", value.replace('\\', "\\\\").replace('\'', "''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> KeyColumns {
        let column = |name: &str, kind| Column {
            name: name.into(),
            kind,
            column_type: "x".into(),
            charset: Some("latin1".into()),
            collation: Some("latin1_bin".into()),
            is_nullable: false,
            is_generated: false,
            is_invisible: false,
        };
        KeyColumns {
            columns: vec![column("a", Kind::Integer), column("b", Kind::Text)],
            index: "PRIMARY".into(),
        }
    }

    #[test]
    fn a_composite_key_is_written_out() {
        let key = KeyText(vec!["7".into(), "41".into()]);
        let columns = columns();
        assert_eq!(
            columns.above(&key),
            "((t.`a` > 7) OR (t.`a` = 7 AND t.`b` > _latin1 x'41' COLLATE latin1_bin))"
        );
        assert_eq!(
            columns.up_to(&key),
            "((t.`a` < 7) OR (t.`a` = 7 AND t.`b` <= _latin1 x'41' COLLATE latin1_bin))"
        );
        assert!(columns.exactly(&key).ends_with("AND HEX(t.`b`) = '41')"));
        assert_eq!(columns.shown(&key), "a=7, b='A'");
        let odd = KeyText(vec!["7".into(), "00ff".into()]);
        assert_eq!(columns.shown(&odd), "a=7, b=x'00ff'");
    }

    #[test]
    fn a_set_is_told_by_all_of_its_members() {
        let mut columns = columns();
        columns.columns.truncate(1);
        columns.columns[0].kind = Kind::Set;
        let key = KeyText(vec!["9223372036854775809".into()]);
        assert_eq!(columns.expressions(), "(t.`a` & 18446744073709551615)");
        assert_eq!(
            columns.exactly(&key),
            "((t.`a` & 18446744073709551615) = 9223372036854775809)"
        );
    }

    #[test]
    fn what_is_no_number_is_quoted() {
        let key = KeyText(vec!["7 OR 1=1".into(), "41".into()]);
        assert!(columns().above(&key).contains("'7 OR 1=1'"));
    }
}
