//! Would the same statement fail at the target that the source takes?

use std::collections::BTreeSet;

use super::facts::Facts;
use super::warning;
use crate::error::Finding;

/// The copy sets its own modes; whoever comes after it has the server's.
pub(super) fn check(facts: &Facts<'_>) -> Vec<Finding> {
    let modes = |text: Option<&str>| -> BTreeSet<String> {
        let all = text
            .unwrap_or_default()
            .split(',')
            .filter(|mode| !mode.is_empty());
        all.map(str::to_owned).collect()
    };
    let ours = modes(facts.source.variable("sql_mode"));
    let theirs = modes(facts.target.variable("sql_mode"));
    let only = |a: &BTreeSet<String>, b: &BTreeSet<String>| {
        let names: Vec<&str> = a.difference(b).map(String::as_str).collect();
        match names.is_empty() {
            true => "nothing".to_owned(),
            false => names.join(", "),
        }
    };
    if ours == theirs {
        return Vec::new();
    }
    vec![warning(
        "sql_mode",
        format!(
            "the servers' sql_mode differ: only the source has {}, only the target {}; rows are \
             copied as they are, but applications will be treated otherwise",
            only(&ours, &theirs),
            only(&theirs, &ours)
        ),
        "SET GLOBAL sql_mode at the target before it takes over",
    )]
}
