//! JSON values that are more than their text, set anew in the transaction that stored the text.
//!
//! A DECIMAL, a date or bytes inside of a JSON read like a number or a string. The SELECT marks
//! rows that have any; of each the source is asked for the types, in the same snapshot. Neighbours:
//! `json` makes the expression, `slice` commits. Invariant: the target says the same of a value, to
//! every type inside of it, or the slice is not committed.

use std::sync::{Mutex, PoisonError};

use waggle_wire::Connection;

use crate::error::CopyError;
use crate::json::{self, Typed};
use crate::range::{self, KeyValue};
use crate::table::{Column, Table};

/// Sets the JSON of marked rows anew.
///
/// # Errors
/// What a server says; [`CopyError::Data`] for a value that cannot be made at the target.
pub(super) fn retype(
    source: &Mutex<Connection>,
    target: &mut Connection,
    table: &Table,
    keys: &[KeyValue],
) -> Result<(), CopyError> {
    if table.key.is_none() {
        return Err(CopyError::Data {
            table: table.source.to_string(),
            what: format!(
                "{} of its rows have a JSON whose text does not say it all (a DECIMAL, a time or \
                 bytes inside of it), and without a key they cannot be named; add a key, or copy \
                 with --json-as-text",
                keys.len()
            ),
        });
    }
    for key in keys {
        let place = range::equal(table, key);
        // The others ask meanwhile: the target may wait for locks.
        let columns = {
            let mut source = source.lock().unwrap_or_else(PoisonError::into_inner);
            asked(&mut source, table, &place)?
        };
        store(target, table, &place, &columns)?;
    }
    Ok(())
}

/// A column of a row with what the source says of its JSON.
type Asked<'a> = (&'a Column, Typed);

/// Asks the source for the types in a row; columns without any are left out.
fn asked<'a>(
    source: &mut Connection,
    table: &'a Table,
    place: &str,
) -> Result<Vec<Asked<'a>>, CopyError> {
    let asking = || CopyError::source(format!("reading the types of a JSON of {}", table.source));
    let of = table.source.quoted();
    let names: Vec<String> = table.typed_json().map(Column::quoted).collect();
    let sql = format!("SELECT {} FROM {of} t WHERE {place}", names.join(", "));
    let rows = source.query_rows(sql.as_bytes()).map_err(asking())?;
    let Some(values) = rows.into_iter().next() else {
        return Err(unequal(table, place, "the source no longer has the row"));
    };
    let mut found = Vec::new();
    for (column, text) in table.typed_json().zip(values) {
        let Some(text) = text else { continue };
        let paths = json::paths(&text).map_err(asking())?;
        // It may be large, and nothing more of it is needed.
        drop(text);
        let typed = json::typed(source, &of, column, place, &paths).map_err(asking())?;
        if typed.is_more_than_text() {
            found.push((column, typed));
        }
    }
    if found.is_empty() {
        let what = "the source has marked it, and says of no value in it why";
        return Err(unequal(table, place, what));
    }
    Ok(found)
}

/// Sets the types of a row that the target has from text, and looks that they are the source's.
fn store(
    target: &mut Connection,
    table: &Table,
    place: &str,
    columns: &[Asked<'_>],
) -> Result<(), CopyError> {
    let telling = || CopyError::target(format!("storing a JSON of {}", table.target));
    let of = table.target.quoted();
    let expression = |column: &Column| {
        let name = column.quoted();
        let of_column = columns.iter().find(|(one, _)| one.name == column.name);
        let made = of_column.and_then(|(_, typed)| typed.expression(&format!("t.{name}")));
        made.unwrap_or(name)
    };
    let written: Vec<&Column> = table.written().map(|(_, column)| column).collect();
    let names: Vec<String> = written.iter().map(|column| column.quoted()).collect();
    let values: Vec<String> = written.iter().map(|column| expression(column)).collect();
    // Not UPDATE, which leaves a 7 that is to be an unsigned 7 as it is, for it is equal.
    let sql = format!(
        "REPLACE INTO {of} ({}) SELECT {} FROM {of} t WHERE {place}",
        names.join(", "),
        values.join(", ")
    );
    let done = target.query(sql.as_bytes()).map_err(telling())?;
    if done.warnings > 0 {
        return Err(unequal(table, place, "the target took it with a warning"));
    }
    // The row that is put in, and the one it takes the place of.
    if !(1..=2).contains(&done.affected) {
        let what = format!("it is {} rows at the target, not one", done.affected);
        return Err(unequal(table, place, &what));
    }
    for (column, typed) in columns {
        let paths: Vec<String> = typed
            .facts
            .iter()
            .map(|(path, _, _)| path.clone())
            .collect();
        let found = json::typed(target, &of, column, place, &paths).map_err(telling())?;
        let pairs = typed.facts.iter().zip(&found.facts);
        if let Some(((path, was, _), (_, is, _))) = pairs.into_iter().find(|(a, b)| a != b) {
            let what = format!("{} at {path} is {was}, and would be {is}", column.name);
            return Err(unequal(table, place, &what));
        }
    }
    Ok(())
}

fn unequal(table: &Table, place: &str, what: &str) -> CopyError {
    CopyError::Data {
        table: table.source.to_string(),
        what: format!(
            "a JSON cannot be made at the target as it is at the source: {what}, in the row where \
             {place}; change it at the source, or copy with --json-as-text"
        ),
    }
}
