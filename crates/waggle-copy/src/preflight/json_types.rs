//! Would values inside of a JSON change their types?

use waggle_server::Flavour;

use super::facts::Facts;
use super::{some_of, warning};
use crate::error::Finding;
use crate::table::Kind;

/// A JSON goes through its text, which says nothing of what is a DECIMAL, a date or binary.
pub(super) fn check(facts: &Facts<'_>) -> Vec<Finding> {
    if facts.source.flavour != Flavour::MySql || facts.target.flavour != Flavour::MySql {
        return Vec::new();
    }
    let columns: Vec<String> = (facts.tables.iter())
        .flat_map(|table| table.columns.iter().map(move |column| (table, column)))
        .filter(|(_, column)| column.kind == Kind::Json && !column.is_generated)
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
        "nothing if they were stored from text; else `waggle copy verify --repair` when the copy \
         is done, which compares and restores their types",
    )]
}
