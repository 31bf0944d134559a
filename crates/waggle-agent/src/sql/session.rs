//! A connection that comes back: after a restart of the server, an error, a time-out.
//!
//! Neighbours: `waggle-wire` below. Invariants: between two attempts to connect is a pause that
//! grows, so that a server that refuses is not hammered; a statement that makes no progress for
//! [`PATIENCE`] ends the connection, not the caller.

use std::time::{Duration, Instant};

use waggle_wire::{Connection, Error, Row};

use super::access::{Access, MARK};

/// How long a statement may make no progress.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause after the first failed attempt to connect, and the longest one.
const PAUSE_FIRST: Duration = Duration::from_millis(500);
const PAUSE_LONGEST: Duration = Duration::from_secs(15);

/// A server, and the connection to it while there is one.
pub(crate) struct Session {
    access: Access,
    connection: Option<Connection>,
    /// Why there is none, until when no attempt is made.
    refused: Option<(Instant, String)>,
    pause: Duration,
    /// How often a connection was made.
    connects: u64,
}

impl Session {
    pub(crate) fn new(access: Access) -> Self {
        Self {
            access,
            connection: None,
            refused: None,
            pause: PAUSE_FIRST,
            connects: 0,
        }
    }

    /// The connection; connects if there is none and it is time to.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub(crate) fn connection(&mut self) -> Result<&mut Connection, String> {
        if !self.connection.as_ref().is_some_and(Connection::is_usable) {
            self.connection = None;
            if let Some((until, why)) = &self.refused
                && Instant::now() < *until
            {
                return Err(why.clone());
            }
            match self.access.connect() {
                Ok(mut connection) => {
                    connection.set_timeout(Some(PATIENCE));
                    self.connection = Some(connection);
                    self.refused = None;
                    self.pause = PAUSE_FIRST;
                    self.connects += 1;
                }
                Err(error) => {
                    let why = error.to_string();
                    self.refused = Some((Instant::now() + self.pause, why.clone()));
                    self.pause = (self.pause * 2).min(PAUSE_LONGEST);
                    return Err(why);
                }
            }
        }
        match &mut self.connection {
            Some(connection) => Ok(connection),
            None => Err("there is no connection".into()),
        }
    }

    /// The rows of one statement, which is marked as the agent's own.
    ///
    /// # Errors
    /// In words; `Err` with an [`Error::Server`] leaves the connection as it is.
    pub(crate) fn rows(&mut self, sql: &str) -> Result<Vec<Row>, Failed> {
        let connection = self.connection().map_err(Failed::NoConnection)?;
        let marked = format!("{MARK}{sql}");
        connection
            .query_rows(marked.as_bytes())
            .map_err(Failed::Query)
    }

    /// How often a connection was made: a change means that it is another one, and may be to
    /// another server process.
    pub(crate) fn connects(&self) -> u64 {
        self.connects
    }
}

/// Why a statement has no rows.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failed {
    /// There is no connection; the text says why.
    #[error("{0}")]
    NoConnection(String),
    /// The statement failed.
    #[error("{0}")]
    Query(Error),
}

impl Failed {
    /// The server answered, with an error of this number.
    pub(crate) fn errno(&self) -> Option<u16> {
        match self {
            Self::NoConnection(_) => None,
            Self::Query(error) => error.errno(),
        }
    }
}

/// A value of a row as text; empty for NULL and for a column that is not there.
pub(crate) fn text(row: &Row, column: usize) -> String {
    let value = row.get(column).and_then(Option::as_deref);
    String::from_utf8_lossy(value.unwrap_or_default()).into_owned()
}

/// A value of a row as a whole number; `None` for NULL and for what is no such number.
pub(crate) fn number(row: &Row, column: usize) -> Option<u64> {
    let value = row.get(column)?.as_deref()?;
    std::str::from_utf8(value).ok()?.parse().ok()
}
