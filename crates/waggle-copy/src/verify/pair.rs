//! A table at both servers: what of it can be compared, and in which order its rows are read.
//!
//! Neighbours: `expression` and `key` write a column and a key as SQL, `side` asks one server with
//! them. Invariant: a column of the source that the target lacks is an error, or, where it is
//! generated, said.

use waggle_wire::Connection;

use super::Comparison;
use super::expression;
use super::key::KeyColumns;
use super::side::Half;
use crate::error::{CopyError, Side};
use crate::schema::{Description, Index, describe, sql};
use crate::session;
use crate::table::{Column, Kind, Table, TableName};

/// The two halves of a table's comparison, and what is left out of it.
pub(super) struct Pair {
    pub(super) source: Half,
    pub(super) target: Half,
    /// Names of what is compared.
    pub(super) columns: Vec<String>,
    pub(super) notes: Vec<String>,
    pub(super) has_common_order: bool,
}

impl Pair {
    /// Opens a session at either server, and sees what the two tables have in common.
    pub(super) fn open(comparison: &Comparison, table: &Table) -> Result<Pair, CopyError> {
        let mut source = session::source(&comparison.source)?;
        let mut target = session::target(&comparison.target)?;
        for (side, connection) in [(Side::Source, &mut source), (Side::Target, &mut target)] {
            // What the servers would cut, and what a repair could not write: an ENUM's error
            // value is refused by a strict session. Digests decide about what was written.
            let relaxed = b"SET group_concat_max_len = 1073741824, \
                            sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'";
            let done = connection.query(relaxed);
            done.map_err(CopyError::on(side, "setting the session up"))?;
        }
        let there = described(&mut target, &table.target)?;
        // An alias in a DELETE is looked for in the session's database.
        let place = format!("USE {}", sql::name(&table.target.schema));
        let done = target.query(place.as_bytes());
        done.map_err(CopyError::target("setting the session up"))?;
        let (mut columns, mut pieces, mut other_pieces) = (Vec::new(), Vec::new(), Vec::new());
        let mut notes = Vec::new();
        for column in &table.columns {
            match there.column(&column.name).map(|at| &there.columns[at]) {
                Some(other) => {
                    let has_types = column.kind == Kind::Json && other.kind == Kind::Json;
                    pieces.push(compared(column, other, has_types));
                    other_pieces.push(compared(other, column, has_types));
                    columns.push(column.name.clone());
                }
                None if column.is_generated => notes.push(format!(
                    "the generated column {} is not at the target and was not compared",
                    column.name
                )),
                None => {
                    return Err(CopyError::Data {
                        table: table.target.to_string(),
                        what: format!("the target has no column {}", column.name),
                    });
                }
            }
        }
        let key = KeyColumns::of(table);
        let other_key = key.as_ref().and_then(|key| key_at(key, table, &there));
        let has_common_order = match (&key, &other_key) {
            (Some(key), Some(other)) => key.agrees_with(other),
            _ => false,
        };
        Ok(Pair {
            source: Half::new(Side::Source, source, table.source.quoted(), key, pieces),
            target: Half::new(
                Side::Target,
                target,
                table.target.quoted(),
                other_key,
                other_pieces,
            ),
            columns,
            notes,
            has_common_order,
        })
    }
}

/// A column's piece, such that a JSON and a text that holds one have the same.
fn compared(column: &Column, other: &Column, has_types: bool) -> String {
    match (column.kind, other.kind) {
        (Kind::Text, Kind::Json) => {
            let json = Column {
                kind: Kind::Json,
                ..column.clone()
            };
            expression::piece(&json, false)
        }
        _ => expression::piece(column, has_types),
    }
}

fn described(target: &mut Connection, name: &TableName) -> Result<Description, CopyError> {
    let found = describe::tables(target, std::slice::from_ref(name));
    let found = found.map_err(CopyError::target("reading the tables"))?;
    found.into_iter().next().ok_or_else(|| CopyError::Data {
        table: name.to_string(),
        what: "there is no such table at the target".to_owned(),
    })
}

/// The source's key at the target, by the index there that has it.
fn key_at(key: &KeyColumns, table: &Table, there: &Description) -> Option<KeyColumns> {
    let columns: Option<Vec<Column>> = (table.key_columns())
        .map(|column| {
            there
                .column(&column.name)
                .map(|at| there.columns[at].clone())
        })
        .collect();
    let names: Vec<String> = table.key_columns().map(|c| c.name.to_lowercase()).collect();
    let is_same = |index: &&Index| {
        let parts = index.parts.iter().map(|part| part.column.as_deref());
        parts
            .map(|name| name.map(str::to_lowercase))
            .eq(names.iter().cloned().map(Some))
    };
    let index = there.indexes.iter().find(is_same)?;
    Some(key.with(columns?, index.name.clone()))
}
