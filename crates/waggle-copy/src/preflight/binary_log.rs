//! Does the source's binary log tell every change whole?

use waggle_server::Flavour;

use super::facts::Facts;
use super::{refusal, warning};
use crate::error::Finding;

/// Settings with which changes could not be followed.
pub(super) fn check(facts: &Facts<'_>) -> Vec<Finding> {
    if !facts.follows() {
        return Vec::new();
    }
    let source = &facts.source;
    let refuse = |reason: &str, remedy: &str| refusal("binary_log", reason.to_owned(), remedy);
    if !source.is_on("log_bin") {
        return vec![refuse(
            "the source has no binary log, so changes during the copy would be lost",
            "start it with log-bin and a server-id, or copy with --until copied",
        )];
    }
    let mut found = Vec::new();
    // Newer servers know no other format, and no variable for it.
    if let Some(format) = source
        .variable("binlog_format")
        .filter(|format| *format != "ROW")
    {
        found.push(refuse(
            &format!("binlog_format is {format}: statements would have to be run again, not rows"),
            "SET GLOBAL binlog_format = ROW at the source; sessions that are open keep the old \
             format, so let them connect again",
        ));
    }
    let image = source.variable("binlog_row_image").unwrap_or("FULL");
    if !image.to_ascii_uppercase().starts_with("FULL") {
        found.push(refuse(
            &format!("binlog_row_image is {image}: a change does not say the whole row"),
            "SET GLOBAL binlog_row_image = FULL at the source; sessions that are open keep the old \
             image, so let them connect again",
        ));
    }
    if source.flavour == Flavour::MySql && !source.is_on("gtid_mode") {
        found.push(refuse(
            "gtid_mode is not ON: a place in the log would have no name that outlives the file",
            "SET GLOBAL enforce_gtid_consistency = ON, then gtid_mode = OFF_PERMISSIVE, \
             ON_PERMISSIVE, ON, one after the other",
        ));
    }
    let options = source
        .variable("binlog_row_value_options")
        .unwrap_or_default();
    if options.contains("PARTIAL_JSON") {
        found.push(warning(
            "binary_log",
            "binlog_row_value_options has PARTIAL_JSON: changes inside of a JSON come as \
             differences, which are only right on exactly the row before"
                .to_owned(),
            "SET GLOBAL binlog_row_value_options = '' at the source to have them whole",
        ));
    }
    found
}
