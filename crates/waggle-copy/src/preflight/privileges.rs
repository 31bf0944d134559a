//! May both accounts do what a copy does?

use waggle_server::Flavour;

use super::facts::{Facts, account_place};
use super::{refusal, some_of};
use crate::error::Finding;
use crate::progress::DATABASE;

const AT_TARGET: [&str; 8] = [
    "SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "ALTER", "INDEX",
];

/// What is missing, in words.
pub(super) fn check(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let source = &facts.source;
    let mut reads = vec!["SELECT"];
    if source.flavour == Flavour::MySql {
        // A snapshot of several sessions begins under a short read lock.
        reads.push("LOCK TABLES");
    }
    for privilege in reads {
        let lacks = facts.tables.iter().filter(|table| {
            let name = &table.source;
            let table = (privilege == "SELECT").then_some(name.name.as_str());
            !source.grants.allow(privilege, &name.schema, table)
        });
        let lacking: Vec<_> = lacks.map(|table| &table.source).collect();
        if let Some(first) = lacking.first() {
            found.push(refusal(
                "privileges",
                format!(
                    "the source's account has no {privilege} on {}",
                    some_of(&lacking)
                ),
                format!(
                    "GRANT {privilege} ON {} TO it",
                    account_place(&first.schema)
                ),
            ));
        }
    }
    if facts.follows() {
        let log = ["REPLICATION SLAVE", "REPLICATION REPLICA"];
        if !log
            .iter()
            .any(|privilege| source.grants.allow_all(privilege))
        {
            found.push(refusal(
                "privileges",
                "the source's account may not read its binary log".to_owned(),
                "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO it",
            ));
        }
    }
    let mut schemas: Vec<&str> = facts
        .tables
        .iter()
        .map(|t| t.target.schema.as_str())
        .collect();
    schemas.push(DATABASE);
    schemas.sort_unstable();
    schemas.dedup();
    for schema in schemas {
        let lacks = |privilege: &&str| !facts.target.grants.allow(privilege, schema, None);
        let lacking: Vec<&str> = AT_TARGET.into_iter().filter(lacks).collect();
        if !lacking.is_empty() {
            found.push(refusal(
                "privileges",
                format!(
                    "the target's account has no {} on {schema}",
                    lacking.join(", ")
                ),
                format!(
                    "GRANT {} ON {} TO it",
                    AT_TARGET.join(", "),
                    account_place(schema)
                ),
            ));
        }
    }
    found
}
