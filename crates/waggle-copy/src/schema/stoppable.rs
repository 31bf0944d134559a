//! An ALTER TABLE, which may take hours, ended when the copy is asked to end.
//!
//! A server does not notice that a client went away while it builds a key, so the statement is
//! killed by a session of its own, and rolled back; the next run begins it anew. Neighbours:
//! [`super::journal`] runs its steps here.
//!
//! Invariant: nobody waits for a statement longer than for its rollback once the end was asked for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use waggle_wire::{Connection, Dsn};

use crate::control::Control;
use crate::error::CopyError;
use crate::session;

/// How often it is looked whether the end was asked for.
const LOOK: Duration = Duration::from_millis(100);

/// Runs a statement at `target`, a session of `dsn`.
///
/// # Errors
/// What the target says: that it was interrupted, if the end was asked for.
pub(super) fn run(
    target: &mut Connection,
    dsn: &Dsn,
    control: &Control,
    sql: &str,
    doing: &str,
) -> Result<(), CopyError> {
    let session = target.connection_id();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let ending = scope.spawn(|| {
            while !over.load(Ordering::Acquire) {
                // Again and again: one that came before the statement began ends nothing.
                if control.is_stopping() {
                    kill(dsn, session);
                }
                thread::park_timeout(LOOK);
            }
        });
        let done = session::run(target, sql, doing);
        over.store(true, Ordering::Release);
        ending.thread().unpark();
        done
    })
}

/// Ends what a session is doing, if that is an ALTER TABLE still: after a failover its number may
/// be somebody else's. A target that takes no other session now ends it no sooner.
fn kill(dsn: &Dsn, session: u32) {
    let alters = format!(
        "SELECT 1 FROM information_schema.PROCESSLIST \
         WHERE ID = {session} AND INFO LIKE 'ALTER TABLE %'"
    );
    if let Ok(mut other) = session::target(dsn)
        && other
            .query_rows(alters.as_bytes())
            .is_ok_and(|rows| !rows.is_empty())
    {
        let _ = other.query(format!("KILL QUERY {session}").as_bytes());
    }
}
