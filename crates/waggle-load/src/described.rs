//! Rows of a table, made from a description of its columns.
//!
//! Loading a table runs no script for each row: a script says what each column is like, and
//! `context::loading` sends the rows that this module writes. Invariant: the values depend on the
//! generator alone, not on the form they are written in, so that a table has the same content
//! however it was loaded.

use std::io::Write;

use waggle_wire::{Value, bulk};

use crate::driver::{LoadColumn, RowForm};
use crate::rand::Rand;

/// What the values of a column are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Values<'a> {
    /// This number in the first row, one more in each row after it.
    Sequence { first: i64 },
    /// In `[low, high]`, by the distribution the user chose.
    Integer { low: i64, high: i64 },
    /// As `sysbench.rand.string` fills a format.
    Text { format: &'a [u8] },
}

/// A column of the table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Column<'a> {
    pub(crate) name: &'a str,
    pub(crate) values: Values<'a>,
}

/// The rows of one table that are still to be made.
pub(crate) struct Described<'a> {
    table: &'a str,
    columns: &'a [Column<'a>],
    done: u64,
    count: u64,
}

/// What a row looks like in a statement.
struct Form {
    opening: &'static [u8],
    between: &'static [u8],
    quote: &'static [u8],
    closing: &'static [u8],
}

/// A row of `INSERT ... VALUES`.
const LITERALS: Form = Form {
    opening: b"(",
    between: b", ",
    quote: b"'",
    closing: b")",
};

/// A line of `LOAD DATA`, by that statement's default for fields and lines.
const LINE: Form = Form {
    opening: b"",
    between: b"\t",
    quote: b"",
    closing: b"\n",
};

impl<'a> Described<'a> {
    /// `count` rows of `columns` for `table`.
    ///
    /// # Errors
    /// A name that would need quotes, or a format with a character that would need to be escaped
    /// in one of the forms: no value is ever changed on its way.
    pub(crate) fn new(
        table: &'a str,
        columns: &'a [Column<'a>],
        count: u64,
    ) -> Result<Described<'a>, String> {
        let names = columns.iter().map(|column| column.name);
        if let Some(name) = names.chain([table]).find(|name| !is_plain(name)) {
            return Err(format!(
                "'{name}': the name of a table or column to load is letters, digits, _ and ."
            ));
        }
        if columns.is_empty() {
            return Err(format!("table {table} is to be loaded without columns"));
        }
        for column in columns {
            if let Values::Text { format } = column.values
                && !is_unescaped(format)
            {
                return Err(format!(
                    "column {}: its format has a quote, a backslash, a control character or what \
                     is not UTF-8",
                    column.name
                ));
            }
        }
        Ok(Described {
            table,
            columns,
            done: 0,
            count,
        })
    }

    pub(crate) fn table(&self) -> &'a str {
        self.table
    }

    /// The names of the columns as a statement lists them.
    pub(crate) fn names(&self) -> String {
        let names: Vec<&str> = self.columns.iter().map(|column| column.name).collect();
        names.join(", ")
    }

    /// The columns as a session is told of them.
    pub(crate) fn load_columns(&self) -> Vec<LoadColumn<'a>> {
        let told = |column: &Column<'a>| LoadColumn {
            name: column.name,
            is_text: matches!(column.values, Values::Text { .. }),
        };
        self.columns.iter().map(told).collect()
    }

    /// Rows made so far.
    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.done == self.count
    }

    /// Appends the next row as `(1, 'a')`; there must be one.
    pub(crate) fn put_literals(&mut self, rand: &mut Rand, out: &mut Vec<u8>) {
        self.put(&LITERALS, rand, out);
    }

    /// Appends rows until `out` is `bytes` long, all are made, or `done` is `until`. Says how many.
    pub(crate) fn put_rows(
        &mut self,
        form: RowForm,
        rand: &mut Rand,
        out: &mut Vec<u8>,
        bytes: usize,
        until: u64,
    ) -> u64 {
        let before = self.done;
        let until = until.min(self.count);
        while self.done < until && out.len() < bytes {
            match form {
                RowForm::Lines => self.put(&LINE, rand, out),
                RowForm::Parameters => self.put_parameters(rand, out),
            }
        }
        self.done - before
    }

    fn put_parameters(&mut self, rand: &mut Rand, out: &mut Vec<u8>) {
        for column in self.columns {
            match column.values {
                Values::Sequence { first } => {
                    bulk::put(out, Value::Int(first.wrapping_add(self.done as i64)));
                }
                Values::Integer { low, high } => {
                    bulk::put(out, Value::Int(rand.default_value(low, high)));
                }
                Values::Text { format } => {
                    bulk::put_text(out, format.len(), |place| rand.fill(format, place));
                }
            }
        }
        self.done += 1;
    }

    fn put(&mut self, form: &Form, rand: &mut Rand, out: &mut Vec<u8>) {
        out.extend_from_slice(form.opening);
        for (index, column) in self.columns.iter().enumerate() {
            if index > 0 {
                out.extend_from_slice(form.between);
            }
            match column.values {
                Values::Sequence { first } => {
                    put_number(first.wrapping_add(self.done as i64), out);
                }
                Values::Integer { low, high } => put_number(rand.default_value(low, high), out),
                Values::Text { format } => {
                    out.extend_from_slice(form.quote);
                    let start = out.len();
                    out.resize(start + format.len(), 0);
                    rand.fill(format, &mut out[start..]);
                    out.extend_from_slice(form.quote);
                }
            }
        }
        out.extend_from_slice(form.closing);
        self.done += 1;
    }
}

fn put_number(number: i64, out: &mut Vec<u8>) {
    write!(out, "{number}").expect("a vector takes everything");
}

fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
    !name.is_empty() && name.bytes().all(plain)
}

fn is_unescaped(format: &[u8]) -> bool {
    let special = |byte: &u8| byte.is_ascii_control() || matches!(byte, b'\'' | b'\\');
    std::str::from_utf8(format).is_ok() && !format.iter().any(special)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rand::{RandSettings, UniqueSource};

    const COLUMNS: [Column<'static>; 3] = [
        Column {
            name: "id",
            values: Values::Sequence { first: 5 },
        },
        Column {
            name: "k",
            values: Values::Integer { low: -9, high: 9 },
        },
        Column {
            name: "c",
            values: Values::Text { format: b"##-@@ x" },
        },
    ];

    fn rand() -> Rand {
        Rand::new(3, 0, RandSettings::default(), UniqueSource::default())
    }

    #[test]
    fn all_forms_have_the_same_values() {
        let mut rows = Described::new("t", &COLUMNS, 100).unwrap();
        let (mut lines, mut drawing) = (Vec::new(), rand());
        assert_eq!(
            rows.put_rows(RowForm::Lines, &mut drawing, &mut lines, usize::MAX, 30),
            30
        );
        let cut = lines.len() + 1;
        assert_eq!(
            rows.put_rows(RowForm::Lines, &mut drawing, &mut lines, cut, 100),
            1
        );
        assert_eq!(
            rows.put_rows(RowForm::Lines, &mut drawing, &mut lines, usize::MAX, 999),
            69
        );
        assert!(rows.is_complete());
        let mut again = Described::new("t", &COLUMNS, 100).unwrap();
        let mut drawing = rand();
        let lines = String::from_utf8(lines).unwrap();
        for (i, line) in lines.lines().enumerate() {
            let mut row = Vec::new();
            again.put_literals(&mut drawing, &mut row);
            let values: Vec<&str> = line.split('\t').collect();
            let wanted = format!("({}, {}, '{}')", values[0], values[1], values[2]);
            assert_eq!(String::from_utf8(row).unwrap(), wanted);
            assert_eq!(values[0], (i + 5).to_string());
        }
        assert!(again.is_complete());
        let mut third = Described::new("t", &COLUMNS, 100).unwrap();
        let (mut packed, mut wanted) = (Vec::new(), Vec::new());
        third.put_rows(
            RowForm::Parameters,
            &mut rand(),
            &mut packed,
            usize::MAX,
            999,
        );
        for line in lines.lines() {
            let values: Vec<&str> = line.split('\t').collect();
            for number in &values[..2] {
                bulk::put(&mut wanted, Value::Int(number.parse().unwrap()));
            }
            bulk::put(&mut wanted, Value::Bytes(values[2].as_bytes()));
        }
        assert!(third.is_complete());
        assert_eq!(packed, wanted);
        assert_eq!(again.names(), "id, k, c");
    }

    #[test]
    fn what_would_have_to_be_escaped_is_refused() {
        let with = |format| Column {
            name: "c",
            values: Values::Text { format },
        };
        for format in [&b"it's"[..], b"a\\b", b"a\tb", b"a\nb", b"\0", b"\xff"] {
            assert!(
                Described::new("t", &[with(format)], 1).is_err(),
                "{format:?}"
            );
        }
        for table in ["", "a b", "a`", "t;"] {
            assert!(Described::new(table, &COLUMNS, 1).is_err(), "{table}");
        }
        assert!(Described::new("a.b_1", &[], 1).is_err());
    }
}
