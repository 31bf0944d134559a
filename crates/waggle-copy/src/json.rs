//! A JSON value as an expression that makes the same value again, types included.
//!
//! Its text alone would not: it makes a DOUBLE of a DECIMAL, and a string of a DATE. So the text
//! is parsed by the target, and every scalar whose type the source says is another is set anew by
//! its path. Neighbours: `ingest` for the rows that [`suspect`] marks, the repair of `verify`.
//! Invariant: what a type cannot be given here shows in [`Typed::facts`], which both servers must
//! say alike.

use serde_json::Value;
use waggle_wire::{Connection, Error};

use crate::error::CopyError;
use crate::schema::fit::is_json_as_text;
use crate::schema::{describe, sql};
use crate::table::{Column, Table, TableName};

/// Values asked for in one statement.
const AT_ONCE: usize = 200;
/// Types that a JSON's text says: of every other one a text makes something else.
const PLAIN: &str = "'OBJECT','ARRAY','STRING','INTEGER','BOOLEAN','NULL'";

/// Has types copied of every JSON, but of columns that are text at the target.
///
/// # Errors
/// What the target says.
pub(crate) fn mark(target: &mut Connection, tables: &mut [Table]) -> Result<(), CopyError> {
    let with_json = (tables.iter()).filter(|table| table.json().next().is_some());
    let names: Vec<TableName> = with_json.map(|table| table.target.clone()).collect();
    if names.is_empty() {
        return Ok(());
    }
    let there = describe::tables(target, &names);
    let there = there.map_err(CopyError::target("reading the tables"))?;
    for table in tables {
        let found = there.iter().find(|found| found.name == table.target);
        let is_text = |column: &Column| {
            let same = found.and_then(|found| Some(&found.columns[found.column(&column.name)?]));
            same.is_some_and(|same| is_json_as_text(column, same))
        };
        let typed = table.json().filter(|(_, column)| !is_text(column));
        table.typed_json = typed.map(|(index, _)| index).collect();
    }
    Ok(())
}

/// Whether a row of the table, at its source, has a JSON whose text does not say it all: an
/// expression that is 0 where none has.
///
/// A DOUBLE is what its text says if that comes out again when it was read, which takes as long as
/// looking at all types, so it is tried where there is one only.
pub(crate) fn suspect(table: &Table) -> String {
    let of = table.source.quoted();
    let each: Vec<String> = table
        .typed_json()
        .map(|column| {
            let name = format!("{of}.{}", column.quoted());
            let text = format!("CAST({name} AS CHAR)");
            format!(
                "({name} IS NOT NULL AND {} AND ({} OR CAST(CAST(CAST({text} AS JSON) AS CHAR) \
                 AS BINARY) <> CAST({text} AS BINARY)))",
                holds_other_than(&name, PLAIN),
                holds_other_than(&name, &format!("{PLAIN},'DOUBLE'"))
            )
        })
        .collect();
    each.join(" OR ")
}

/// Whether a JSON, or any value inside of it, is of a type that is not among these.
fn holds_other_than(name: &str, types: &str) -> String {
    format!(
        "(JSON_TYPE({name}) NOT IN ({types}) OR EXISTS(SELECT 1 FROM JSON_TABLE({name}, '$' \
         COLUMNS (NESTED PATH '$**.*' COLUMNS (a JSON PATH '$'), \
         NESTED PATH '$**[*]' COLUMNS (b JSON PATH '$'))) waggle \
         WHERE JSON_TYPE(waggle.a) NOT IN ({types}) OR JSON_TYPE(waggle.b) NOT IN ({types})))"
    )
}

/// What a server says of a JSON value.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Typed {
    /// The path, type and text of every value in it whose text may mean several types.
    pub(crate) facts: Vec<(String, String, String)>,
    /// The further arguments of the JSON_SET that makes the value of what its text makes; empty
    /// when that is the value.
    set: String,
}

impl Typed {
    /// What makes the value of `text`, an expression of what its text alone makes; `None` when
    /// that is the value.
    pub(crate) fn expression(&self, text: &str) -> Option<String> {
        let Typed { set, .. } = self;
        (!set.is_empty()).then(|| format!("JSON_SET({text}{set})"))
    }

    /// Whether any value in it is of a type that its text does not say.
    pub(crate) fn is_more_than_text(&self) -> bool {
        let is_plain = |json_type: &str| PLAIN.contains(&format!("'{json_type}'"));
        self.facts.iter().any(|(_, is, _)| !is_plain(is))
    }
}

/// The paths of what [`typed`] asks for, from a JSON's text.
///
/// # Errors
/// [`Error::Unsupported`] when it cannot be read as JSON.
pub(crate) fn paths(text: &[u8]) -> Result<Vec<String>, Error> {
    let value: Value = serde_json::from_slice(text).map_err(|error| {
        Error::Unsupported(format!("a JSON whose text cannot be read: {error}"))
    })?;
    let mut paths = Vec::new();
    scalars(&value, &mut "$".to_owned(), &mut paths);
    Ok(paths)
}

/// Asks of the values at some paths of a row's JSON; `place` finds the row of `table` (quoted).
///
/// # Errors
/// What the server says, and [`Error::Unsupported`] for a value that it does not have.
pub(crate) fn typed(
    server: &mut Connection,
    table: &str,
    column: &Column,
    place: &str,
    paths: &[String],
) -> Result<Typed, Error> {
    let mut typed = Typed::default();
    for some in paths.chunks(AT_ONCE) {
        let name = format!("t.{}", column.quoted());
        let asked: Vec<String> = (some.iter())
            .map(|path| {
                let value = format!("JSON_EXTRACT({name},{})", sql::string(path));
                format!("JSON_TYPE({value}), JSON_UNQUOTE({value})")
            })
            .collect();
        let sql = format!("SELECT {} FROM {table} t WHERE {place}", asked.join(", "));
        let row = server.query_rows(sql.as_bytes())?.into_iter().next();
        let row = row.unwrap_or_default();
        let text = |at: usize| {
            let value = row.get(at).cloned().flatten().unwrap_or_default();
            String::from_utf8_lossy(&value).into_owned()
        };
        for (at, path) in some.iter().enumerate() {
            let (json_type, value) = (text(2 * at), text(2 * at + 1));
            if json_type.is_empty() {
                let what = format!("{} has nothing at {path}, where {place}", column.name);
                return Err(Error::Unsupported(what));
            }
            if let Some(value) = expression(&json_type, &value) {
                let path = sql::string(path);
                typed.set.push_str(&format!(", {path}, {value}"));
            }
            typed.facts.push((path.clone(), json_type, value));
        }
    }
    Ok(typed)
}

/// The paths of all numbers, and of strings that may be times or bytes.
fn scalars(value: &Value, path: &mut String, found: &mut Vec<String>) {
    let length = path.len();
    match value {
        Value::Number(_) => found.push(path.clone()),
        Value::String(text) if may_be_typed(text) => found.push(path.clone()),
        Value::String(_) => {}
        Value::Array(values) => {
            for (at, value) in values.iter().enumerate() {
                path.push_str(&format!("[{at}]"));
                scalars(value, path, found);
                path.truncate(length);
            }
        }
        Value::Object(members) => {
            for (name, value) in members {
                path.push('.');
                path.push_str(&Value::String(name.clone()).to_string());
                scalars(value, path, found);
                path.truncate(length);
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// Whether a value that is no string reads like this.
fn may_be_typed(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit() || c == '-') || text.starts_with("base64:")
}

/// A value of a type that its text would not get; `None` where the text is enough.
fn expression(json_type: &str, text: &str) -> Option<String> {
    let quoted = sql::string(text);
    Some(match json_type {
        "DECIMAL" => {
            let digits = text.bytes().filter(u8::is_ascii_digit).count();
            let scale = text
                .split_once('.')
                .map_or(0, |(_, fraction)| fraction.len());
            format!("CAST({quoted} AS DECIMAL({},{scale}))", digits.max(1))
        }
        // Parsing a JSON's text is not as exact as reading a DOUBLE.
        "DOUBLE" => format!("CAST({quoted} AS DOUBLE)"),
        "UNSIGNED INTEGER" => format!("CAST({quoted} AS UNSIGNED)"),
        "DATE" => format!("CAST({quoted} AS DATE)"),
        "TIME" => format!("CAST({quoted} AS TIME(6))"),
        "DATETIME" => format!("CAST({quoted} AS DATETIME(6))"),
        "TIMESTAMP" => column_of(&format!("JSON_ARRAY({quoted})"), "TIMESTAMP(6)"),
        "BLOB" | "BIT" | "OPAQUE" => bytes(text)?,
        _ => return None,
    })
}

/// Bytes are of the type of the column that they come from, whose number their text has.
fn bytes(text: &str) -> Option<String> {
    let (number, data) = text.strip_prefix("base64:type")?.split_once(':')?;
    // A server breaks it into lines.
    let data: String = data.chars().filter(|c| !c.is_whitespace()).collect();
    let padding = data.bytes().rev().take_while(|byte| *byte == b'=').count();
    let length = (data.len() / 4 * 3).checked_sub(padding)?;
    let is_digit = |c: char| c.is_ascii_alphanumeric() || "+/=".contains(c);
    if !data.chars().all(is_digit) {
        return None;
    }
    // In a character set of more bytes a letter, long bytes would be of a larger type.
    let value = format!("FROM_BASE64(_ascii'{data}')");
    let array = format!("JSON_ARRAY({value})");
    Some(match number {
        "16" => {
            let number = format!("JSON_ARRAY(CAST(CONV(HEX({value}),16,10) AS UNSIGNED))");
            column_of(&number, &format!("BIT({})", 8 * length.max(1)))
        }
        "254" => column_of(&array, &format!("BINARY({})", length.max(1))),
        "252" => column_of(&array, "LONGBLOB"),
        "15" => value,
        _ => return None,
    })
}

/// The first element of an array as a column of a type that no CAST makes.
fn column_of(array: &str, column_type: &str) -> String {
    format!(
        "(SELECT waggle.x FROM JSON_TABLE({array}, '$[0]' \
         COLUMNS (x {column_type} PATH '$' ERROR ON ERROR)) waggle)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_made_is_not_taken_for_text() {
        assert!(paths(b"{\"a\": ").is_err());
        let of = |json_type: &str| Typed {
            facts: vec![("$".into(), json_type.into(), "1".into())],
            set: String::new(),
        };
        assert!(!of("INTEGER").is_more_than_text());
        assert!(of("OPAQUE").is_more_than_text());
        assert_eq!(of("OPAQUE").expression("t.j"), None);
    }

    #[test]
    fn every_scalar_has_its_path() {
        let value =
            serde_json::json!({"a": [1, {"b \"c": "2020-01-01"}, "x"], "d": null, "e": true});
        let mut found = Vec::new();
        scalars(&value, &mut "$".into(), &mut found);
        assert_eq!(found, [r#"$."a"[0]"#, r#"$."a"[1]."b \"c""#]);
    }

    #[test]
    fn types_that_text_loses_are_given_again() {
        assert_eq!(
            expression("DECIMAL", "-1.50").as_deref(),
            Some("CAST('-1.50' AS DECIMAL(3,2))")
        );
        assert_eq!(
            expression("BLOB", "base64:type15:AP8=").as_deref(),
            Some("FROM_BASE64(_ascii'AP8=')")
        );
        assert_eq!(expression("BLOB", "base64:type251:AP8="), None);
        assert_eq!(expression("BLOB", "base64:type15:A'8="), None);
        let of = |text: &str| expression("BLOB", text).unwrap();
        assert!(of("base64:type254:AP8=").contains("BINARY(2)"));
        assert!(of("base64:type252:AP8=").contains("LONGBLOB"));
        assert!(of("base64:type16:BQ==").contains("BIT(8)"));
        assert!(
            expression("TIMESTAMP", "2020-01-01")
                .unwrap()
                .contains("TIMESTAMP(6)")
        );
        assert_eq!(expression("STRING", "base64:type15:AP8="), None);
        assert_eq!(expression("INTEGER", "5"), None);
    }
}
