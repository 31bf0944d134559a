//! What the tables of every study are made of: columns, and estimates that may not be claimed.
//!
//! Neighbour: `waggle_report::study` shows them.

use waggle_report::study::{StudyCell, StudyColumn, StudyValue};

/// A column.
pub(super) fn column(group: &str, title: &str, unit: &str) -> StudyColumn {
    StudyColumn {
        group: group.to_owned(),
        title: title.to_owned(),
        unit: unit.to_owned(),
    }
}

/// A value of `cell`: an estimate is claimed only if the cell's A/A check was clean.
pub(super) fn claimed(mut value: StudyValue, cell: &StudyCell) -> StudyValue {
    if let StudyValue::Estimate { unclaimed, .. } = &mut value {
        *unclaimed = !cell.aa_clean;
    }
    value
}
