//! The target's session: statements of a transaction, sent together, and a commit that is known.
//!
//! Neighbour: the parent decides when. Invariants: changes and position are stored in one
//! transaction, which holds the job's row from its beginning; a commit whose answer was lost is
//! looked up, never repeated blindly; a statement that the target took with a warning is not
//! committed.

use std::time::{Duration, Instant};

use waggle_wire::Connection;

use super::Restart;
use crate::control::Control;
use crate::error::{CopyError, Side};
use crate::job::Plan;
use crate::position::Position;
use crate::progress::Job;
use crate::session;

/// Bytes of statements that are sent together, about.
const PACKET_BYTES: usize = 1 << 20;
/// What a packet has besides its statements, of which the first locks the job.
const PACKET_EXTRA: usize = 256;
/// So long a target may be away.
pub(super) const PATIENCE: Duration = Duration::from_secs(600);
pub(super) const RETRY: Duration = Duration::from_millis(200);

/// Where transactions that are prepared and not yet ended are kept.
const PREPARED: &str = "CREATE TABLE IF NOT EXISTS waggle_copy.prepared (
       job VARBINARY(64) NOT NULL,
       xid VARBINARY(300) NOT NULL,
       part INT NOT NULL,
       body LONGBLOB NOT NULL,
       PRIMARY KEY (job, xid, part)
     ) ENGINE=InnoDB";

pub(super) struct Target<'p> {
    plan: &'p Plan,
    connection: Connection,
    packet: Vec<u8>,
    packet_bytes_max: usize,
    /// Statements of an open transaction were sent.
    is_begun: bool,
}

impl<'p> Target<'p> {
    pub(super) fn connect(plan: &'p Plan) -> Result<Target<'p>, CopyError> {
        let mut connection = session::target(&plan.target)?;
        let sql = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
        run(&mut connection, sql.as_bytes())?;
        if connection.is_mariadb() {
            // A long list is looked up by the key, not made a table of.
            run(
                &mut connection,
                b"SET in_predicate_conversion_threshold = 0",
            )?;
        }
        run(&mut connection, PREPARED.as_bytes())?;
        let rows = connection.query_rows(b"SELECT @@max_allowed_packet");
        let rows = rows.map_err(CopyError::target("reading max_allowed_packet"))?;
        let number = rows.first().and_then(|row| row.first()?.as_deref());
        let number = number.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
        Ok(Target {
            plan,
            connection,
            packet: Vec::new(),
            packet_bytes_max: number.unwrap_or(PACKET_BYTES),
            is_begun: false,
        })
    }

    /// Whether keys that were put off are still to be built.
    pub(super) fn is_building(&mut self) -> Result<bool, CopyError> {
        let sql = format!(
            "SELECT 1 FROM waggle_copy.journal WHERE job = '{}' AND is_done = 0 LIMIT 1",
            self.plan.job.name()
        );
        let rows = self.connection.query_rows(sql.as_bytes());
        let rows = rows.map_err(CopyError::target("reading the journal"))?;
        Ok(!rows.is_empty())
    }

    /// Adds a statement to the transaction.
    pub(super) fn add(&mut self, sql: &[u8]) -> Result<(), CopyError> {
        if sql.len() + PACKET_EXTRA > self.packet_bytes_max {
            return Err(CopyError::Data {
                table: self.plan.target.endpoint.to_string(),
                what: format!(
                    "a change takes a statement of {} bytes, and the target takes {}; set \
                     max_allowed_packet higher there: {}…",
                    sql.len(),
                    self.packet_bytes_max,
                    String::from_utf8_lossy(&sql[..sql.len().min(120)])
                ),
            });
        }
        let limit = PACKET_BYTES.min(self.packet_bytes_max - PACKET_EXTRA);
        if !self.packet.is_empty() && self.packet.len() + sql.len() > limit {
            self.send()?;
        }
        if !self.is_begun && self.packet.is_empty() {
            // A server may go on with the packet of a session that was lost. Whoever asks for the
            // position then has to wait for its end.
            let begin = format!(
                "BEGIN;UPDATE waggle_copy.jobs SET owner = owner WHERE job = '{}'",
                self.plan.job.name()
            );
            self.packet.extend_from_slice(begin.as_bytes());
        }
        if !self.packet.is_empty() {
            self.packet.push(b';');
        }
        self.packet.extend_from_slice(sql);
        Ok(())
    }

    /// Sends what was added, without an end.
    pub(super) fn send(&mut self) -> Result<(), CopyError> {
        if self.packet.is_empty() {
            return Ok(());
        }
        self.is_begun = true;
        let sent = self.connection.query(&self.packet);
        let summary = sent.map_err(CopyError::target("applying changes"))?;
        if summary.warnings > 0 {
            return Err(self.warned());
        }
        self.packet.clear();
        self.packet.shrink_to(4 * PACKET_BYTES);
        Ok(())
    }

    /// Which statement it was is not known, but what the last one said is.
    fn warned(&mut self) -> CopyError {
        let rows = self
            .connection
            .query_rows(b"SHOW WARNINGS")
            .unwrap_or_default();
        let texts: Vec<String> = rows
            .iter()
            .map(|row| {
                let value = |v: &Option<Vec<u8>>| v.clone().unwrap_or_default();
                let row: Vec<Vec<u8>> = row.iter().map(value).collect();
                String::from_utf8_lossy(&row.join(&b' ')).into_owned()
            })
            .collect();
        let statements = String::from_utf8_lossy(&self.packet[..self.packet.len().min(300)]);
        CopyError::Data {
            table: self.plan.target.endpoint.to_string(),
            what: format!(
                "it took changes with warnings, which are not committed ({}): {statements}…",
                texts.join("; ")
            ),
        }
    }

    /// Ends the transaction with the target at `position`.
    pub(super) fn commit(&mut self, position: &Position) -> Result<(), CopyError> {
        // Before the commit is sent, all statements were taken without a warning.
        self.send()?;
        let reach = self.plan.job.reach(position);
        self.add(reach.as_bytes())?;
        self.packet.extend_from_slice(b";COMMIT");
        self.send().map_err(|error| match Job::is_taken(&error) {
            true => CopyError::Progress(format!(
                "another copier has taken over job {}; this one ends",
                self.plan.job.name()
            )),
            false => error,
        })?;
        self.is_begun = false;
        Ok(())
    }

    /// Gives the transaction up.
    pub(super) fn roll_back(&mut self) {
        self.packet.clear();
        if self.is_begun {
            self.is_begun = false;
            // A session that is lost has rolled back.
            let _ = self.connection.query(b"ROLLBACK");
        }
    }

    /// Rows of the transaction's view.
    pub(super) fn rows(&mut self, sql: &str) -> Result<Vec<waggle_wire::Row>, CopyError> {
        self.send()?;
        let rows = self.connection.query_rows(sql.as_bytes());
        rows.map_err(CopyError::target("reading what was prepared"))
    }

    /// After an error: where the target is, with a session that works. Gives the error back when
    /// another attempt cannot have another end.
    pub(super) fn recover(
        &mut self,
        error: CopyError,
        restart: &mut Restart,
        control: &Control,
    ) -> Result<Position, CopyError> {
        // What the spool says of the source was tried there for long.
        let is_here = matches!(
            &error,
            CopyError::Server {
                side: Side::Target,
                ..
            }
        );
        let is_locked = error.is_locked();
        let may_pass = is_here && (error.is_lost() || is_locked);
        if !may_pass || !restart.may_try(is_locked) {
            return Err(error);
        }
        self.roll_back();
        let deadline = Instant::now() + PATIENCE;
        let mut last = error;
        while Instant::now() < deadline {
            if control.is_stopping() {
                return Err(CopyError::Stopped);
            }
            let found = match self.connection.is_usable() {
                true => Ok(()),
                false => Target::connect(self.plan).map(|anew| *self = anew),
            };
            let found = found.and_then(|()| self.plan.job.state(&mut self.connection));
            match found {
                Ok(state) => {
                    return state.position.ok_or_else(|| {
                        CopyError::Progress("the target does not know where it is".to_owned())
                    });
                }
                Err(error) if is_away(&error) => last = error,
                Err(error) => return Err(error),
            }
            std::thread::sleep(RETRY);
        }
        Err(last)
    }
}

/// A server that is gone, starts or has no room for a session.
pub(super) fn is_away(error: &CopyError) -> bool {
    error.is_lost() || matches!(error.errno(), Some(1040 | 1203))
}

fn run(connection: &mut Connection, sql: &[u8]) -> Result<(), CopyError> {
    let done = connection.query(sql);
    done.map(drop)
        .map_err(CopyError::target("setting the session up"))
}
