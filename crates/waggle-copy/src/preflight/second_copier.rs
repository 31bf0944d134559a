//! Does another process copy under the same name?
//!
//! A named lock of the target's, which ends with the session that holds it, however that ends.

use waggle_wire::Connection;

use super::refusal;
use crate::error::{CopyError, Finding};
use crate::job::Plan;

/// How long the lock is waited for, seconds: the session of a copier that has just ended, by a
/// signal or a kill, is not gone at once on a busy server.
const PATIENCE_S: u32 = 3;

/// Takes the lock; says who has it when it cannot be had.
pub(super) fn take(target: &mut Connection, plan: &Plan) -> Result<Vec<Finding>, CopyError> {
    let name = lock_name(plan);
    let sql = format!("SELECT GET_LOCK('{name}', {PATIENCE_S}), IS_USED_LOCK('{name}')");
    let rows = target.query_rows(sql.as_bytes());
    let rows = rows.map_err(CopyError::target("taking the lock against a second copier"))?;
    let value = |at: usize| {
        let value = rows.first().and_then(|row| row.get(at)).cloned().flatten();
        String::from_utf8_lossy(&value.unwrap_or_default()).into_owned()
    };
    if value(0) == "1" {
        return Ok(Vec::new());
    }
    let job = plan.job.name();
    Ok(vec![refusal(
        "second_copier",
        format!(
            "job {job} is being copied by another process (the target's session {})",
            value(1)
        ),
        format!(
            "wait for it or stop it; after a kill -9 the server lets go when it notices, at the \
             latest after wait_timeout (or KILL {} there)",
            value(1)
        ),
    )])
}

/// At most 64 characters on MySQL; the job's name alone may have as many.
fn lock_name(plan: &Plan) -> String {
    let name = plan.job.name();
    match name.len() <= 50 {
        true => format!("waggle_copy.{name}"),
        false => name.to_owned(),
    }
}
