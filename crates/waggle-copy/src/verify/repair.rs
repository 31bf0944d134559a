//! Makes rows of the target what the source's are, and proves it before it commits.
//!
//! The source writes each value as a literal; the rows are taken away and put in again in one
//! transaction, whose end is decided by their digests: those of the source, read anew, or nothing
//! changes. Invariant: no row is committed whose digest is not the source's at that moment.

use std::collections::HashMap;

use super::key::KeyText;
use super::ranges::Suspect;
use super::side::Half;
use crate::error::{CopyError, Side};
use crate::json;
use crate::schema::sql;
use crate::table::{Column, Kind, Table};

/// Rows of one transaction.
const BATCH_ROWS: usize = 50;

/// What a repair did.
#[derive(Debug, Default)]
pub(super) struct Repaired {
    /// Rows that are the source's now.
    pub(super) keys: Vec<KeyText>,
    /// Why others are not.
    pub(super) failures: Vec<String>,
}

/// Repairs rows. A batch that fails as a whole is done row by row.
pub(super) fn repair(
    source: &mut Half,
    target: &mut Half,
    table: &Table,
    suspects: &[Suspect],
) -> Result<Repaired, CopyError> {
    let mut repaired = Repaired::default();
    for batch in suspects.chunks(BATCH_ROWS) {
        let keys: Vec<KeyText> = batch.iter().map(|suspect| suspect.key.clone()).collect();
        match rewrite(source, target, table, &keys)? {
            Ok(()) => repaired.keys.extend(keys),
            Err(why) if keys.len() == 1 => repaired.failures.push(why),
            Err(_) => {
                for key in keys {
                    let one = std::slice::from_ref(&key);
                    match rewrite(source, target, table, one)? {
                        Ok(()) => repaired.keys.push(key),
                        Err(why) => repaired.failures.push(why),
                    }
                }
            }
        }
    }
    Ok(repaired)
}

/// One transaction; the inner error is why it was rolled back.
fn rewrite(
    source: &mut Half,
    target: &mut Half,
    table: &Table,
    keys: &[KeyText],
) -> Result<Result<(), String>, CopyError> {
    run(target, "BEGIN")?;
    match write(source, target, table, keys) {
        Ok(None) => {
            run(target, "COMMIT")?;
            Ok(Ok(()))
        }
        Ok(Some(why)) => {
            run(target, "ROLLBACK")?;
            Ok(Err(why))
        }
        Err(error) if error.is_lost() => Err(error),
        Err(error) => {
            run(target, "ROLLBACK")?;
            Ok(Err(error.to_string()))
        }
    }
}

fn write(
    source: &mut Half,
    target: &mut Half,
    table: &Table,
    keys: &[KeyText],
) -> Result<Option<String>, CopyError> {
    let Some(columns) = target.key.clone() else {
        return Ok(Some("a table without a key cannot be repaired".to_owned()));
    };
    for key in keys {
        // First, so that nobody changes the row between its reading and its writing.
        let delete = format!(
            "DELETE t FROM {} t WHERE {}",
            target.table(),
            columns.exactly(key)
        );
        run(target, &delete)?;
    }
    for key in keys {
        if let Some(insert) = insert(source, table, target.table(), key)? {
            run(target, &insert)?;
        }
    }
    let ours: HashMap<KeyText, String> = source.digests(keys)?.into_iter().collect();
    let theirs: HashMap<KeyText, String> = target.digests(keys)?.into_iter().collect();
    let unequal = keys.iter().find(|key| ours.get(*key) != theirs.get(*key));
    Ok(unequal.map(|key| {
        format!(
            "{}: the row still differs after it was written anew, so it was left as it was",
            columns.shown(key)
        )
    }))
}

/// The statement that puts in a row as the source has it; `None` when it has none.
fn insert(
    source: &mut Half,
    table: &Table,
    target: &str,
    key: &KeyText,
) -> Result<Option<String>, CopyError> {
    let Some(columns) = source.key.clone() else {
        return Ok(None);
    };
    let written: Vec<&Column> = table.written().map(|(_, column)| column).collect();
    let literals: Vec<String> = written.iter().map(|column| literal(column)).collect();
    let place = columns.exactly(key);
    let read = format!(
        "SELECT {} FROM {} t WHERE {place}",
        literals.join(", "),
        source.table()
    );
    let rows = source.connection.query_rows(read.as_bytes());
    let rows = rows.map_err(CopyError::source("reading a row for repair"))?;
    let Some(row) = rows.into_iter().next() else {
        return Ok(None);
    };
    let mut values = Vec::with_capacity(row.len());
    for (column, value) in written.iter().zip(row) {
        let literal = value.map_or_else(
            || "NULL".to_owned(),
            |value| String::from_utf8_lossy(&value).into_owned(),
        );
        values.push(match column.kind {
            Kind::Json if literal != "NULL" => {
                let text = unhex(&literal);
                let table = source.table().to_owned();
                let typed = json::paths(&text).and_then(|paths| {
                    json::typed(&mut source.connection, &table, column, &place, &paths)
                });
                let typed = typed.map_err(CopyError::source("reading a JSON's types"))?;
                let plain = format!("CONVERT(x'{literal}' USING utf8mb4)");
                let made = typed.expression(&format!("CAST({plain} AS JSON)"));
                made.unwrap_or(plain)
            }
            // As text: a literal -0 is an integer, and loses its sign.
            Kind::Float | Kind::Double if literal != "NULL" => sql::string(&literal),
            _ => literal,
        });
    }
    let names: Vec<String> = written.iter().map(|column| column.quoted()).collect();
    Ok(Some(format!(
        "INSERT INTO {target} ({}) VALUES ({})",
        names.join(", "),
        values.join(", ")
    )))
}

/// The bytes of hexadecimal digits that a server wrote.
fn unhex(digits: &str) -> Vec<u8> {
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.as_bytes().chunks(2).filter_map(pair).collect()
}

/// An expression that writes a value as a literal; NULL for NULL.
fn literal(column: &Column) -> String {
    let name = format!("t.{}", column.quoted());
    let charset = column.charset.as_deref().unwrap_or("binary");
    let text = format!("CONCAT('_{charset} x''',HEX(CAST({name} AS BINARY)),'''')");
    match column.kind {
        Kind::Text => text,
        // An empty member alone is no text that a server reads back.
        Kind::Set => format!(
            "IF({name}+0<>0 AND CAST({name} AS BINARY)='',CAST({name} & {} AS CHAR),{text})",
            u64::MAX
        ),
        Kind::Enum => format!("IF({name}+0=0,'0',{text})"),
        Kind::Binary | Kind::Blob | Kind::Geometry | Kind::Vector => {
            format!("CONCAT('x''',HEX({name}),'''')")
        }
        // Not as an expression's text, which MySQL cuts at 22 characters; quoted by who reads it.
        Kind::Float | Kind::Double => format!("CAST({name} AS DOUBLE)"),
        Kind::Integer | Kind::Decimal | Kind::Bit => format!("CAST({name}+0 AS CHAR)"),
        Kind::Json => format!("HEX(CAST({name} AS CHAR))"),
        Kind::Year | Kind::Date | Kind::Time | Kind::DateTime | Kind::Timestamp | Kind::Address => {
            format!("CONCAT('''',CAST({name} AS CHAR),'''')")
        }
    }
}

fn run(target: &mut Half, sql: &str) -> Result<(), CopyError> {
    let done = target.connection.query(sql.as_bytes());
    let doing = format!("repairing {}", target.table());
    done.map(drop).map_err(CopyError::on(Side::Target, doing))
}
