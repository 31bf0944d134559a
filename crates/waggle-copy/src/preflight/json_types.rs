//! Would values inside of a JSON change their types?

use waggle_server::Flavour;

use super::facts::Facts;
use super::{some_of, warning};
use crate::error::Finding;
use crate::schema::fit::is_json_as_text;
use crate::table::{Column, Kind, Table};

/// With `--json-as-text`, and in a column that is text at the target, a JSON is what its text says,
/// which is nothing of what is a DECIMAL, a date or binary.
pub(super) fn check(facts: &Facts<'_>) -> Vec<Finding> {
    let (source, target) = (facts.source.flavour, facts.target.flavour);
    if source != Flavour::MySql || target != Flavour::MySql {
        return Vec::new();
    }
    let is_text = |table: &Table, column: &Column| {
        let there = facts.there.iter().map(|(there, _)| there);
        let mut same = there.filter(|there| there.name == table.target);
        let same = same.find_map(|there| Some(&there.columns[there.column(&column.name)?]));
        same.is_some_and(|same| is_json_as_text(column, same))
    };
    let columns: Vec<String> = (facts.tables.iter())
        .flat_map(|table| table.columns.iter().map(move |column| (table, column)))
        .filter(|(_, column)| column.kind == Kind::Json && !column.is_generated)
        .filter(|(table, column)| facts.plan.json_as_text || is_text(table, column))
        .map(|(table, column)| format!("{}.{}", table.source, column.name))
        .collect();
    if columns.is_empty() {
        return Vec::new();
    }
    vec![warning(
        "json_types",
        format!(
            "JSON in {} is copied as text: DECIMALs, times and binary values inside of it, which \
             only expressions put there, become DOUBLEs and strings",
            some_of(&columns)
        ),
        match facts.plan.json_as_text {
            true => {
                "nothing if they were stored from text; else leave --json-as-text out, or run \
                 `waggle copy verify --repair` when the copy is done"
            }
            false => {
                "nothing if they were stored from text; else make the target's columns JSON, as \
                 the source's are"
            }
        },
    )]
}
