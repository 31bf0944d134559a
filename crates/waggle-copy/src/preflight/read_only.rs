//! Does the target take writes?

use super::facts::Facts;
use super::refusal;
use crate::error::Finding;

/// A server that refuses writes, or will refuse them of this account.
pub(super) fn check(facts: &Facts<'_>) -> Vec<Finding> {
    let target = &facts.target;
    let may = [
        "SUPER",
        "CONNECTION_ADMIN",
        "READ_ONLY ADMIN",
        "READ ONLY ADMIN",
    ];
    let is_exempt = may
        .iter()
        .any(|privilege| target.grants.allow_all(privilege));
    let blocks = target.is_on("super_read_only") || (target.is_on("read_only") && !is_exempt);
    let reason = || "the target is read-only".to_owned();
    let remedy = "SET GLOBAL read_only = OFF there, or name the server that takes writes";
    blocks
        .then(|| refusal("read_only", reason(), remedy))
        .into_iter()
        .collect()
}
