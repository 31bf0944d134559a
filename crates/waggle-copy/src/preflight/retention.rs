//! Will the source's binary log still be there after an interruption?

use super::facts::Facts;
use super::warning;
use crate::error::Finding;

/// What is kept for less than this, in seconds, is soon gone.
const KEPT_S_MIN: f64 = 24.0 * 3600.0;

/// A log that is thrown away early.
pub(super) fn check(facts: &Facts<'_>) -> Vec<Finding> {
    let source = &facts.source;
    if !facts.follows() || !source.is_on("log_bin") {
        return Vec::new();
    }
    let seconds = source.number("binlog_expire_logs_seconds").unwrap_or(0.0);
    let days = source.number("expire_logs_days").unwrap_or(0.0);
    let kept_s = match seconds > 0.0 {
        true => seconds,
        false => days * 24.0 * 3600.0,
    };
    let mut found = Vec::new();
    if kept_s > 0.0 && kept_s < KEPT_S_MIN {
        found.push(warning(
            "retention",
            format!(
                "the source keeps its binary log for {kept_s:.0} s: a copy that is interrupted for \
                 longer has to begin anew"
            ),
            "SET GLOBAL binlog_expire_logs_seconds to a day or more until the copy is done",
        ));
    }
    for limit in ["max_binlog_total_size", "binlog_space_limit"] {
        if source.number(limit).is_some_and(|bytes| bytes > 0.0) {
            found.push(warning(
                "retention",
                format!("the source throws its binary log away above {limit}, however new it is"),
                format!("SET GLOBAL {limit} = 0 until the copy is done"),
            ));
        }
    }
    found
}
