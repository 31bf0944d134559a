//! What has to be so at both servers before anything is changed. One check a file.
//!
//! `facts` asks the servers once; a check looks at the facts and says what it finds, with a
//! reason and a remedy. A refusal ends the copy, a warning is said. Neighbours: `schema` describes
//! tables; the job asks before it begins, and after a kill again. Invariant: nothing is written;
//! the only thing taken is the target's lock against a second copier.

mod binary_log;
mod collations;
mod engine;
mod facts;
mod foreign_keys;
mod generated_columns;
mod grants;
mod json_types;
mod keys;
mod local_infile;
mod max_allowed_packet;
mod privileges;
mod read_only;
mod retention;
mod second_copier;
mod space;
mod sql_mode;
mod target_rows;
mod time_zone;
mod triggers;

use waggle_wire::Connection;

use crate::error::{CopyError, Finding, Severity};
use crate::job::Plan;
use crate::table::Table;
use facts::Facts;

/// Every check, in the order in which a user would remove its reason.
const CHECKS: [fn(&Facts<'_>) -> Vec<Finding>; 17] = [
    privileges::check,
    read_only::check,
    engine::check,
    keys::check,
    binary_log::check,
    retention::check,
    foreign_keys::check,
    triggers::check,
    generated_columns::check,
    json_types::check,
    collations::check,
    sql_mode::check,
    time_zone::check,
    local_infile::check,
    max_allowed_packet::check,
    space::check,
    target_rows::check,
];

/// Runs every check; [`Severity::Refusal`] among the findings ends the copy.
///
/// The lock against a second copier is held by `target` from now on.
///
/// # Errors
/// What a server says.
pub fn check(
    source: &mut Connection,
    target: &mut Connection,
    plan: &Plan,
    tables: &[Table],
) -> Result<Vec<Finding>, CopyError> {
    let taken = second_copier::take(target, plan)?;
    if !taken.is_empty() {
        return Ok(taken);
    }
    let facts = Facts::gather(source, target, plan, tables)?;
    Ok(CHECKS.iter().flat_map(|check| check(&facts)).collect())
}

/// A reason not to begin.
fn refusal(check: &'static str, reason: String, remedy: impl Into<String>) -> Finding {
    Finding {
        check,
        severity: Severity::Refusal,
        reason,
        remedy: remedy.into(),
    }
}

/// Something to know.
fn warning(check: &'static str, reason: String, remedy: impl Into<String>) -> Finding {
    Finding {
        check,
        severity: Severity::Warning,
        reason,
        remedy: remedy.into(),
    }
}

/// Up to five of many names, for a message.
fn some_of<T: ToString>(names: impl IntoIterator<Item = T>) -> String {
    const SHOWN: usize = 5;
    let names: Vec<String> = names.into_iter().map(|name| name.to_string()).collect();
    match names.len() {
        count if count > SHOWN => {
            format!("{} and {} more", names[..SHOWN].join(", "), count - SHOWN)
        }
        _ => names.join(", "),
    }
}
