//! A session on a server: the commands, one at a time.
//!
//! Ties together the socket, the login and the reading of results. Invariant: between two calls
//! the session is in step (every answer read to its end) or marked unusable; a command never
//! goes out on an unusable one.

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use crate::cursor::Cursor;
use crate::handshake::DEPRECATE_EOF;
use crate::packet::Channel;
use crate::rows::{Encoding, Row};
use crate::stream::Stream;
use crate::value::put_execute;
use crate::{Dsn, Error, Value, login, reply, result};

/// How long connecting may take in all, from the socket to the end of the login.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

const COM_QUIT: u8 = 0x01;
const COM_QUERY: u8 = 0x03;
const COM_PING: u8 = 0x0e;
const COM_STMT_PREPARE: u8 = 0x16;
const COM_STMT_EXECUTE: u8 = 0x17;
const COM_STMT_CLOSE: u8 = 0x19;

/// Errors after which the server closes the session: shutdown, a command above its
/// `max_allowed_packet`, killed (MariaDB, MySQL), idle for too long.
const CLOSING_ERRNOS: [u16; 5] = [1053, 1153, 1927, 3169, 4031];

/// A prepared statement of one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// The server's number for it, of use on this connection only.
    pub id: u32,
    /// Number of parameter markers.
    pub params: u16,
    /// Number of columns of its result set; 0 if it has none.
    pub columns: u16,
}

/// What a command did, over all its results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Results that had columns.
    pub result_sets: u32,
    /// Rows in those.
    pub rows: u64,
    /// Rows that statements without a result set say they affected, summed.
    pub affected: u64,
    /// The last AUTO_INCREMENT value that was not 0.
    pub last_insert_id: u64,
    /// Warnings of all results, summed; at most 65535.
    pub warnings: u16,
}

/// A logged-in session, used by one thread at a time.
///
/// Dropping it tells the server; [`Connection::quit`] does so and reports a failure.
pub struct Connection {
    channel: Channel<Stream>,
    version: String,
    id: u32,
    is_mariadb: bool,
    deprecates_eof: bool,
    is_usable: bool,
}

impl Connection {
    /// Connects and logs in, within 10 seconds (plus the time to resolve a host name).
    ///
    /// Speaks `mysql_native_password` and `caching_sha2_password`. The latter's full form sends
    /// the password as it is over a Unix socket, and encrypted with the RSA key that the server
    /// gives over TCP; who can pose as the server on that network can give a key of his own.
    ///
    /// # Errors
    /// [`Error::Io`] when there is no server or it does not answer in time, [`Error::Server`]
    /// when it refuses, [`Error::Unsupported`] for other plugins and for servers that insist
    /// on TLS.
    pub fn connect(dsn: &Dsn) -> Result<Connection, Error> {
        let deadline = Instant::now() + CONNECT_TIMEOUT;
        let stream = Stream::connect(&dsn.endpoint, deadline)?;
        Connection::over(stream, dsn).map_err(|error| match error {
            Error::Io(error) => Error::Io(io::Error::new(
                error.kind(),
                format!("logging in at {}: {error}", dsn.endpoint),
            )),
            other => other,
        })
    }

    /// Logs in over a connected stream, whose limits it then lifts.
    fn over(stream: Stream, dsn: &Dsn) -> Result<Connection, Error> {
        let is_local = stream.is_local();
        let mut channel = Channel::new(stream);
        let (greeting, agreed) = login::login(&mut channel, dsn, is_local)?;
        channel.logged_in();
        channel.transport.set_limits(None, None);
        Ok(Connection {
            channel,
            version: greeting.version,
            id: greeting.connection_id,
            is_mariadb: greeting.is_mariadb,
            deprecates_eof: agreed & DEPRECATE_EOF != 0,
            is_usable: true,
        })
    }

    /// The server's version, for example `9.7.4` or `10.11.14-MariaDB`.
    pub fn server_version(&self) -> &str {
        &self.version
    }

    /// The server's number for this connection, as in `KILL` and the process list.
    pub fn connection_id(&self) -> u32 {
        self.id
    }

    /// Whether the server is a MariaDB.
    pub fn is_mariadb(&self) -> bool {
        self.is_mariadb
    }

    /// Whether another command may be sent. Once false it stays false: connect again. A server
    /// that closes an idle connection is noticed by the next command only.
    pub fn is_usable(&self) -> bool {
        self.is_usable
    }

    /// Limits how long the server may keep a command waiting without any progress (bytes sent
    /// or received); a command over the limit fails with [`io::ErrorKind::TimedOut`] and leaves
    /// the connection unusable. `None`, the state after connecting, waits without limit.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.channel.transport.set_limits(timeout, None);
    }

    /// Runs one or more statements, reads every result to its end and skips the rows.
    ///
    /// # Errors
    /// Any [`Error`]; after the first statement that fails, the server runs none of the rest.
    pub fn query(&mut self, sql: &[u8]) -> Result<Summary, Error> {
        self.command(COM_QUERY, sql, |connection| {
            result::drain(&mut connection.channel, connection.deprecates_eof)
        })
    }

    /// Runs one or more statements and keeps the rows of the first result set, as text. For
    /// small results: all rows are held in memory (1 GiB at most).
    ///
    /// # Errors
    /// As [`Connection::query`].
    pub fn query_rows(&mut self, sql: &[u8]) -> Result<Vec<Row>, Error> {
        self.command(COM_QUERY, sql, |connection| {
            result::collect(
                &mut connection.channel,
                connection.deprecates_eof,
                Encoding::Text,
            )
        })
    }

    /// Prepares a statement.
    ///
    /// # Errors
    /// Any [`Error`]; 1461 when the server has `max_prepared_stmt_count` of them.
    pub fn prepare(&mut self, sql: &[u8]) -> Result<Statement, Error> {
        self.command(COM_STMT_PREPARE, sql, |connection| {
            let statement = parse_prepared(connection.channel.packet()?)?;
            for definitions in [statement.params, statement.columns] {
                result::skip_definitions(
                    &mut connection.channel,
                    definitions,
                    connection.deprecates_eof,
                )?;
            }
            Ok(statement)
        })
    }

    /// Executes a prepared statement, reads every result to its end and skips the rows.
    ///
    /// # Errors
    /// Any [`Error`]; [`Error::Parameters`] when `params` has another length than the statement.
    pub fn execute(
        &mut self,
        statement: &Statement,
        params: &[Value<'_>],
    ) -> Result<Summary, Error> {
        self.send_execute(statement, params)?;
        self.exchange(|connection| {
            result::drain(&mut connection.channel, connection.deprecates_eof)
        })
    }

    /// Executes a prepared statement and keeps the rows of the first result set, as text. For
    /// small results, as [`Connection::query_rows`].
    ///
    /// Values read as the text protocol gives them, but floating point numbers, which have as
    /// many digits as they need, and ZEROFILL, which is not applied.
    ///
    /// # Errors
    /// As [`Connection::execute`].
    pub fn execute_rows(
        &mut self,
        statement: &Statement,
        params: &[Value<'_>],
    ) -> Result<Vec<Row>, Error> {
        self.send_execute(statement, params)?;
        self.exchange(|connection| {
            result::collect(
                &mut connection.channel,
                connection.deprecates_eof,
                Encoding::Binary,
            )
        })
    }

    /// Gives a prepared statement back to the server, which does not answer.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be sent.
    pub fn close_statement(&mut self, statement: Statement) -> Result<(), Error> {
        self.command(COM_STMT_CLOSE, &statement.id.to_le_bytes(), |_| Ok(()))
    }

    /// Asks the server for a sign of life.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn ping(&mut self) -> Result<(), Error> {
        self.command(COM_PING, &[], |connection| {
            reply::done(connection.channel.packet()?).map(|_| ())
        })
    }

    /// Ends the session.
    ///
    /// # Errors
    /// [`Error::Io`] when the server cannot be told.
    pub fn quit(mut self) -> Result<(), Error> {
        let sent = self.command(COM_QUIT, &[], |_| Ok(()));
        self.is_usable = false;
        sent
    }

    fn command<R>(
        &mut self,
        command: u8,
        body: &[u8],
        read: impl FnOnce(&mut Connection) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.check_usable()?;
        self.channel.command(command).extend_from_slice(body);
        self.exchange(|connection| {
            connection.channel.send()?;
            read(connection)
        })
    }

    fn send_execute(&mut self, statement: &Statement, params: &[Value<'_>]) -> Result<(), Error> {
        if params.len() != usize::from(statement.params) {
            return Err(Error::Parameters {
                expected: statement.params.into(),
                given: params.len(),
            });
        }
        self.check_usable()?;
        put_execute(self.channel.command(COM_STMT_EXECUTE), statement.id, params);
        self.exchange(|connection| connection.channel.send())
    }

    fn check_usable(&self) -> Result<(), Error> {
        if self.is_usable {
            return Ok(());
        }
        Err(Error::Io(io::Error::new(
            io::ErrorKind::NotConnected,
            "an earlier error ended this connection; connect again",
        )))
    }

    /// Runs a step of a command and decides whether the session is still in step after it.
    fn exchange<R>(
        &mut self,
        step: impl FnOnce(&mut Connection) -> Result<R, Error>,
    ) -> Result<R, Error> {
        // Should `step` panic, the position in the stream is lost.
        self.is_usable = false;
        let outcome = step(self);
        self.is_usable = self.channel.is_in_step()
            && match &outcome {
                Ok(_) | Err(Error::Unsupported(_) | Error::Parameters { .. }) => true,
                Err(Error::Server { errno, .. }) => !CLOSING_ERRNOS.contains(errno),
                Err(Error::Io(_) | Error::Protocol(_) | Error::Auth(_)) => false,
            };
        outcome
    }
}

/// Reads the answer to a prepare command.
fn parse_prepared(packet: &[u8]) -> Result<Statement, Error> {
    if packet.first() == Some(&reply::ERROR) {
        return Err(reply::server_error(packet)?);
    }
    let mut cursor = Cursor::new(packet, "prepared statement");
    if cursor.u8()? != 0 {
        return Err(cursor.error("it does not start as one"));
    }
    let id = cursor.u32()?;
    let columns = cursor.u16()?;
    Ok(Statement {
        id,
        columns,
        params: cursor.u16()?,
    })
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.is_usable {
            // Best effort: without it the server counts an aborted client.
            let _ = self.channel.transport.send_some(&[1, 0, 0, 0, COM_QUIT]);
        }
    }
}

// The buffers may hold data of the user's, so none is shown.
impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("id", &self.id)
            .field("version", &self.version)
            .field("is_usable", &self.is_usable)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
