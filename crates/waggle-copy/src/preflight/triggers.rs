//! Would triggers run for rows that are copied?

use super::facts::Facts;
use super::{refusal, some_of, warning};
use crate::error::Finding;

/// Triggers at the target run for each row; those of the source are not copied.
pub(super) fn check(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let there = facts.there.iter().flat_map(|(table, _)| &table.triggers);
    let there: Vec<&String> = there.collect();
    if !there.is_empty() {
        found.push(refusal(
            "triggers",
            format!(
                "triggers {} at the target would run again what already happened at the source",
                some_of(&there)
            ),
            "DROP TRIGGER at the target; make them again when the copy is done",
        ));
    }
    let ours: Vec<&String> = facts
        .described
        .iter()
        .flat_map(|table| &table.triggers)
        .collect();
    if !ours.is_empty() {
        found.push(warning(
            "triggers",
            format!(
                "triggers {} are not copied; what they change is, if their tables are",
                some_of(&ours)
            ),
            "make them at the target when it takes over",
        ));
    }
    found
}
