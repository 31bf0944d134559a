//! Is there at the target what this job did not write, and what it did?

use super::facts::Facts;
use super::{refusal, some_of};
use crate::error::Finding;
use crate::schema::fit;
use crate::table::Table;

/// Rows of somebody else's, tables that are gone, and tables that cannot take the source's.
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
    let is_gone = |table: &&Table| {
        !facts
            .there
            .iter()
            .any(|(there, _)| there.name == table.target)
    };
    let gone: Vec<_> = (facts.tables.iter().filter(is_gone))
        .map(|table| &table.target)
        .collect();
    // Its ranges are noted as copied: it would be made again, and stay empty.
    if facts.is_resumed && !gone.is_empty() {
        found.push(refusal(
            "target_rows",
            format!(
                "job {} has copied into {}, no longer there",
                facts.plan.job.name(),
                some_of(&gone)
            ),
            "drop the job's other tables as well, and give another --job to begin anew",
        ));
    }
    for (there, _) in &facts.there {
        let Some(table) = facts.tables.iter().find(|table| table.target == there.name) else {
            continue;
        };
        if !there.is_shown(&there.create) {
            found.push(refusal(
                "target_rows",
                format!(
                    "the target shows nothing of {}: somebody changes it",
                    there.name
                ),
                "try again when that is over; if it never is, CHECK TABLE says what is damaged",
            ));
            continue;
        }
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
