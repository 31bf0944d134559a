//! Is there at the target what this job did not write?

use super::facts::Facts;
use super::{refusal, some_of};
use crate::error::Finding;
use crate::schema::fit;

/// Rows of somebody else's, and tables that cannot take the source's.
pub(super) fn check(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let held: Vec<_> = (facts.there.iter().filter(|(_, holds)| *holds))
        .map(|(table, _)| &table.name)
        .collect();
    if !facts.is_resumed && !held.is_empty() {
        found.push(refusal(
            "target_rows",
            format!(
                "{} at the target hold rows, and job {} has copied nothing yet",
                some_of(&held),
                facts.plan.job.name()
            ),
            "empty or drop them, name another database, or give the --job that began the copy",
        ));
    }
    for (there, _) in &facts.there {
        let Some(table) = facts.tables.iter().find(|table| table.target == there.name) else {
            continue;
        };
        let misfits = fit::misfits(table, there);
        if !misfits.is_empty() {
            found.push(refusal(
                "target_rows",
                format!("{} at the target: {}", there.name, some_of(&misfits)),
                "drop it and let it be made, or change it",
            ));
        }
    }
    found
}
