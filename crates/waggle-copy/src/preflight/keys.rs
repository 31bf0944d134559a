//! Does every table have a key that names its rows and can be cut into ranges?

use super::facts::Facts;
use super::{refusal, some_of, warning};
use crate::error::Finding;
use crate::table::Kind;

/// Tables without such a key.
pub(super) fn check(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let without: Vec<_> = (facts.tables.iter())
        .filter(|table| table.key.is_none())
        .map(|table| &table.source)
        .collect();
    let remedy = "add a PRIMARY KEY, or a UNIQUE KEY of whole NOT NULL columns, at the source \
                  (MySQL 8.0.30 and newer: sql_generate_invisible_primary_key)";
    if !without.is_empty() {
        let names = some_of(&without);
        found.push(match facts.follows() {
            true => refusal(
                "keys",
                format!(
                    "nothing names a row of {names}: a change in the binary log could be that of \
                     any of several equal rows"
                ),
                format!("{remedy}, or copy them with --until copied"),
            ),
            false => warning(
                "keys",
                format!(
                    "nothing names a row of {names}: they are copied in one piece, from the \
                     beginning again after an interruption"
                ),
                remedy,
            ),
        });
    }
    let floating = facts.tables.iter().filter(|table| {
        let mut columns = table.key_columns();
        columns.any(|column| matches!(column.kind, Kind::Float | Kind::Double))
    });
    let floating: Vec<_> = floating.map(|table| &table.source).collect();
    if !floating.is_empty() {
        found.push(refusal(
            "keys",
            format!(
                "the key of {} has a FLOAT or DOUBLE, whose values cannot be named exactly in a \
                 statement on every server",
                some_of(&floating)
            ),
            "make the column a DECIMAL, or add another key at the source",
        ));
    }
    found
}
