//! Does the target take rows by LOAD DATA LOCAL?

use super::facts::Facts;
use super::refusal;
use crate::error::Finding;

/// Off by default in MySQL.
pub(super) fn check(facts: &Facts<'_>) -> Vec<Finding> {
    if facts.target.is_on("local_infile") {
        return Vec::new();
    }
    vec![refusal(
        "local_infile",
        "local_infile is OFF at the target: rows are loaded by LOAD DATA LOCAL, of a stream and \
         not of files"
            .to_owned(),
        "SET GLOBAL local_infile = ON at the target; it may be OFF again when the copy is done",
    )]
}
