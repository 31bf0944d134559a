//! Can the target take the longest value that the source may hold?

use super::facts::Facts;
use super::{some_of, warning};
use crate::error::Finding;
use crate::table::Table;

/// The least that fits a value of a type's full length is not asked for: a LONGTEXT seldom holds
/// 4 GiB. But a server with a larger limit may hold what one with a smaller cannot take.
pub(super) fn check(facts: &Facts<'_>) -> Vec<Finding> {
    let limit = |server: &super::facts::Server| server.number("max_allowed_packet");
    let (Some(ours), Some(theirs)) = (limit(&facts.source), limit(&facts.target)) else {
        return Vec::new();
    };
    let long = |table: &&Table| {
        let mut types = table
            .columns
            .iter()
            .map(|column| column.column_type.as_str());
        types.any(|name| name.starts_with("medium") || name.starts_with("long") || name == "json")
    };
    let tables: Vec<_> = facts
        .tables
        .iter()
        .filter(long)
        .map(|table| &table.source)
        .collect();
    if theirs >= ours || tables.is_empty() {
        return Vec::new();
    }
    vec![warning(
        "max_allowed_packet",
        format!(
            "max_allowed_packet is {theirs:.0} at the target and {ours:.0} at the source: a longer \
             value in {} would end the copy",
            some_of(&tables)
        ),
        format!("SET GLOBAL max_allowed_packet = {ours:.0} at the target"),
    )]
}
