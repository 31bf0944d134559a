//! Are rows, progress and position kept by one engine that has transactions?

use super::facts::Facts;
use super::{refusal, some_of};
use crate::error::Finding;

/// Tables of other engines, on either side.
pub(super) fn check(facts: &Facts<'_>) -> Vec<Finding> {
    let odd: Vec<String> = (facts.described.iter())
        .filter(|table| table.engine != "InnoDB")
        .map(|table| format!("{} ({})", table.name, table.engine))
        .collect();
    let mut found = Vec::new();
    if !odd.is_empty() {
        found.push(refusal(
            "engine",
            format!(
                "{} have no consistent snapshot at the source",
                some_of(&odd)
            ),
            "ALTER TABLE ... ENGINE=InnoDB at the source, or leave them out and copy them while \
             nobody writes",
        ));
    }
    let (ours, theirs) = (
        facts.source.variable("lower_case_table_names"),
        facts.target.variable("lower_case_table_names"),
    );
    let has_case = facts.tables.iter().any(|table| {
        let name = format!("{}{}", table.source.schema, table.source.name);
        name != name.to_lowercase()
    });
    if has_case && ours != theirs {
        let shown = |value: Option<&str>| value.unwrap_or("not set").to_owned();
        found.push(refusal(
            "engine",
            format!(
                "lower_case_table_names is {} at the source and {} at the target, and a table's \
                 name has capital letters: the same name would not find it",
                shown(ours),
                shown(theirs)
            ),
            "rename the tables, or use a target with the source's setting",
        ));
    }
    found
}
