//! Will times mean the same to whoever asks the target?

use super::facts::Facts;
use super::warning;
use crate::error::Finding;
use crate::table::Kind;

/// The copy's sessions are in UTC; applications have the server's zone.
pub(super) fn check(facts: &Facts<'_>) -> Vec<Finding> {
    let mut columns = facts.tables.iter().flat_map(|table| &table.columns);
    let has_stamps = columns.any(|column| column.kind == Kind::Timestamp);
    let (ours, theirs) = (facts.source.zone_offset_s, facts.target.zone_offset_s);
    if !has_stamps || ours == theirs {
        return Vec::new();
    }
    let shown = |offset: Option<i64>| match offset {
        Some(seconds) => format!("{:+.2} h", seconds as f64 / 3600.0),
        None => "unknown".to_owned(),
    };
    vec![warning(
        "time_zone",
        format!(
            "the servers' default time zones are {} and {} from UTC: TIMESTAMPs are copied as the \
             moments they are, and shown otherwise by the target",
            shown(ours),
            shown(theirs)
        ),
        "SET GLOBAL time_zone at the target before it takes over",
    )]
}
