//! Does the target know the collations, and order keys as the source does?

use std::collections::BTreeSet;

use super::facts::Facts;
use super::{refusal, some_of, warning};
use crate::error::Finding;
use crate::schema::create;
use crate::table::{Kind, TableName};

/// Collations that are missing, or that only resemble the source's.
pub(super) fn check(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let is_made = |name: &TableName| !facts.there.iter().any(|(table, _)| table.name == *name);
    let mut missing = BTreeSet::new();
    let mut reordered = BTreeSet::new();
    let mut notes = Vec::new();
    for (table, description) in facts.tables.iter().zip(&facts.described) {
        if !is_made(&table.target) {
            continue;
        }
        match create::translate(description, facts.target.flavour) {
            Ok(made) => notes.extend(made.notes),
            Err(error) => found.push(refusal(
                "collations",
                format!("{} cannot be made at the target: {error}", table.source),
                "make the table there by hand, or change it at the source",
            )),
        }
        for column in &table.columns {
            let Some(collation) = &column.collation else {
                continue;
            };
            let theirs = create::relative(collation, facts.target.flavour);
            let theirs = theirs.unwrap_or(collation);
            if !facts.target.collations.contains(theirs) {
                missing.insert(theirs.to_owned());
            }
            // ENUM and SET are ordered by their numbers.
            let is_key =
                column.kind == Kind::Text && table.key_columns().any(|key| key.name == column.name);
            if is_key && theirs != collation {
                reordered.insert(format!("{}.{} ({collation})", table.source, column.name));
            }
        }
    }
    if !missing.is_empty() {
        found.push(refusal(
            "collations",
            format!("the target does not know {}", some_of(&missing)),
            "change the columns' collations at the source, or make the tables at the target \
             yourself",
        ));
    }
    if !reordered.is_empty() && facts.source.flavour != facts.target.flavour {
        found.push(refusal(
            "collations",
            format!(
                "the target has no collation that orders the key {} as the source does, so it \
                 could not be told which rows are there",
                some_of(&reordered)
            ),
            "give the key's columns a collation that both have, such as utf8mb4_bin",
        ));
    }
    if !notes.is_empty() {
        found.push(warning(
            "collations",
            format!(
                "definitions change with the server family: {}",
                some_of(&notes)
            ),
            "make the tables at the target yourself to have them otherwise",
        ));
    }
    found
}
