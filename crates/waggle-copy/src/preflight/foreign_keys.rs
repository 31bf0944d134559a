//! Do foreign keys change rows that the binary log does not tell of, or point at nothing?

use waggle_server::Flavour;

use super::facts::Facts;
use super::{refusal, some_of, warning};
use crate::error::Finding;
use crate::schema::{self, ForeignKey};
use crate::table::TableName;

/// Foreign keys in the way.
pub(super) fn check(facts: &Facts<'_>) -> Vec<Finding> {
    let keys = || {
        let of = |table: &'_ schema::Description| -> Vec<(TableName, ForeignKey)> {
            let keys = table.foreign_keys.iter();
            keys.map(|key| (table.name.clone(), key.clone())).collect()
        };
        facts.described.iter().flat_map(of)
    };
    let mut found = Vec::new();
    let copied = |name: &TableName| facts.tables.iter().any(|table| table.source == *name);
    let there = |name: &TableName| {
        facts
            .parents_there
            .contains(&schema::target_name(facts.plan, name))
    };
    let orphans: Vec<String> = keys()
        .filter(|(_, key)| !copied(&key.parent) && !there(&key.parent))
        .map(|(table, key)| format!("{} of {table} (to {})", key.name, key.parent))
        .collect();
    if !orphans.is_empty() {
        found.push(refusal(
            "foreign_keys",
            format!(
                "the parents of {} are not copied and not at the target",
                some_of(&orphans)
            ),
            "copy them as well, or make them at the target first",
        ));
    }
    let cascades: Vec<String> = keys()
        .filter(|(_, key)| key.cascades())
        .map(|(table, key)| format!("{} of {table}", key.name))
        .collect();
    if facts.follows() && !cascades.is_empty() && cascades_in_silence(facts) {
        found.push(refusal(
            "foreign_keys",
            format!(
                "{} change rows when their parents change, and the source's binary log does not \
                 say which",
                some_of(&cascades)
            ),
            "drop the action (ON DELETE, ON UPDATE) at the source until the copy is done, copy \
             with --until copied while nobody writes, or follow a server that logs cascades \
             (MySQL 9.6 and newer without innodb_native_foreign_keys)",
        ));
    }
    let outside: Vec<_> = (facts.described.iter())
        .flat_map(|table| table.children.iter().filter(|child| !copied(child)))
        .collect();
    if !outside.is_empty() {
        found.push(warning(
            "foreign_keys",
            format!(
                "{} refer to copied tables and are not copied",
                some_of(outside)
            ),
            "copy them as well if the target is to replace the source",
        ));
    }
    found
}

/// InnoDB carried cascades out by itself, below the binary log; MySQL 9.6 moved them above it.
fn cascades_in_silence(facts: &Facts<'_>) -> bool {
    let source = &facts.source;
    match source.flavour {
        Flavour::MariaDb => true,
        Flavour::MySql => source.version < (9, 6) || source.is_on("innodb_native_foreign_keys"),
    }
}
