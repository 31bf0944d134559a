//! Does the target compute generated columns as the source does?

use super::facts::Facts;
use super::{some_of, warning};
use crate::error::Finding;
use crate::schema::sql::{Definition, Piece, Scan, Token, first_name};
use crate::table::{Kind, Table};

/// Generated columns whose values may come out otherwise.
pub(super) fn check(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let generated = |table: &&Table| table.columns.iter().any(|column| column.is_generated);
    let tables: Vec<&Table> = facts.tables.iter().filter(generated).collect();
    if facts.source.flavour != facts.target.flavour && !tables.is_empty() {
        found.push(warning(
            "generated_columns",
            format!(
                "generated columns of {} are computed by the functions of another server family",
                some_of(tables.iter().map(|table| &table.source))
            ),
            "compare with `waggle copy verify`, which reads them too",
        ));
    }
    let zoned: Vec<String> = tables
        .iter()
        .flat_map(|table| of_timestamps(table))
        .collect();
    if !zoned.is_empty() {
        found.push(warning(
            "generated_columns",
            format!(
                "{} are computed from a TIMESTAMP in the time zone of whoever writes the row; here \
                 that is UTC",
                some_of(&zoned)
            ),
            "compare with `waggle copy verify`, which reads them too",
        ));
    }
    found
}

/// Generated columns whose expression names a TIMESTAMP of the table.
fn of_timestamps(table: &Table) -> Vec<String> {
    let Ok(definition) = Definition::parse(&table.definition) else {
        return Vec::new();
    };
    let stamps: Vec<&str> = (table.columns.iter())
        .filter(|column| column.kind == Kind::Timestamp)
        .map(|column| column.name.as_str())
        .collect();
    let is_zoned = |piece: &&String| {
        let own = first_name(piece).unwrap_or_default();
        let column = table.columns.iter().find(|column| column.name == own);
        let names = Scan::new(piece).filter(|(token, _)| *token == Token::Name);
        Piece::of(piece) == Piece::Column
            && column.is_some_and(|column| column.is_generated)
            && names
                .skip(1)
                .any(|(_, name)| stamps.contains(&name.trim_matches('`')))
    };
    (definition.pieces.iter().filter(is_zoned))
        .map(|piece| format!("{}.{}", table.source, first_name(piece).unwrap_or_default()))
        .collect()
}
