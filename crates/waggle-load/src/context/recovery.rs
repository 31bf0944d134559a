//! What becomes of a failed statement: an error for the script, a restart, a new connection.
//!
//! A lost connection is opened again before the script hears of it, because hooks of scripts
//! prepare their statements anew at that point; statements that the script does not touch are
//! prepared again here. Settings of the old session (`SET`) are gone, as with any client.
//!
//! Invariant: nothing here waits for longer than the spec's limit, or on when the run has ended.

use std::time::Duration;

use crate::clock::{Woken, now_ns};
use crate::driver::{DriverError, Outcome};
use crate::gate::Permit;

use super::{Context, Status};

const FIRST_DELAY: Duration = Duration::from_millis(1);
const LONGEST_DELAY: Duration = Duration::from_secs(1);

/// What client libraries call a connection that broke during a statement.
const CR_SERVER_LOST: u16 = 2013;

/// Server errors after which the server closes the connection: it shuts down (1053), the
/// connection was killed (1927, 3169) or was idle for too long (4031).
const LAST_WORDS: [u16; 4] = [1053, 1927, 3169, 4031];

/// Whether the session is gone after this error.
pub(super) fn is_lost(error: &DriverError) -> bool {
    match error {
        DriverError::Lost { .. } => true,
        DriverError::Server { errno, .. } => LAST_WORDS.contains(errno),
        DriverError::Refused(_) => false,
    }
}

impl Context {
    /// Whether the list of ignored errors has this one.
    pub(super) fn is_ignored(&self, error: &DriverError) -> bool {
        let list = &self.shared.ignore_errors;
        match error.script_errno() {
            0 => false,
            // Outside of events there is nothing to restart.
            errno if is_lost(error) => {
                self.is_under_way() && (list.contains(errno) || list.contains(CR_SERVER_LOST))
            }
            errno => list.contains(errno),
        }
    }

    /// Counts what a statement did, or keeps its error for the script to ask for.
    pub(super) fn settled(
        &mut self,
        result: Result<Outcome, DriverError>,
        connection: u32,
        statement: impl FnOnce() -> String,
    ) -> Result<Outcome, Status> {
        match result {
            Ok(outcome) => {
                self.tally.statement_done(&outcome);
                Ok(outcome)
            }
            Err(error) => Err(self.blamed(&error, connection, statement())),
        }
    }

    /// What a failed statement means for the event.
    pub(super) fn blamed(
        &mut self,
        error: &DriverError,
        connection: u32,
        statement: String,
    ) -> Status {
        if error.errno().is_some() {
            self.tally.statement_failed();
        }
        let status = self.failed(error, statement);
        let errno = error.script_errno();
        match status {
            Status::Ignorable => {
                // An older error that the script caught has nothing to do with this restart.
                self.fatal = None;
                self.restart_from(connection, errno);
                match is_lost(error) {
                    true => self.restored(connection),
                    false => status,
                }
            }
            // A hook of the script may still make a restart of it.
            Status::Fatal if errno != 0 => {
                self.fatal = Some((connection, errno));
                status
            }
            _ => status,
        }
    }

    /// Opens a lost connection again: `Ignorable` when that is done.
    pub(super) fn restored(&mut self, connection: u32) -> Status {
        self.tally.connection_lost();
        let status = self.reopened_in_time(connection);
        self.tally.connection_back();
        if status == Status::Ignorable {
            self.tally.reconnected();
        }
        status
    }

    fn reopened_in_time(&mut self, connection: u32) -> Status {
        let limit = self.shared.reconnect_limit;
        let mut deadline = now_ns() + crate::clock::ns(limit);
        let mut delay = FIRST_DELAY;
        loop {
            if self.shared.is_over() || self.shared.gate.is_stopped() {
                return Status::Stopped;
            }
            let Err(error) = self.reopen(connection) else {
                return Status::Ignorable;
            };
            let now = now_ns();
            if now >= deadline {
                self.last_error.message = format!(
                    "{}; it could not be opened again within {:.1} s: {error}",
                    self.last_error.message,
                    limit.as_secs_f64()
                );
                return Status::Fatal;
            }
            let until = (now + crate::clock::ns(delay)).min(deadline);
            delay = (delay * 2).min(LONGEST_DELAY);
            if self.shared.gate.sleep_until(until) == Woken::Told {
                match self.shared.gate.may_run() {
                    Permit::Stop => return Status::Stopped,
                    Permit::Run { held } => {
                        deadline += crate::clock::ns(held);
                        self.exclude(held);
                    }
                }
            }
        }
    }

    /// One attempt: connects and prepares what was prepared.
    fn reopen(&mut self, connection: u32) -> Result<(), DriverError> {
        let Some(Some(slot)) = self.slots.get_mut(connection as usize) else {
            return Err(super::session::closed());
        };
        let mut session = self.shared.open_session((self.id, connection))?;
        for kept in slot.statements.iter_mut().flatten() {
            kept.handle = session.prepare(&kept.sql)?.handle;
            self.tally.prepared();
        }
        slot.session = session;
        slot.serial = slot.serial.wrapping_add(1);
        slot.needs_rollback = false;
        Ok(())
    }
}
