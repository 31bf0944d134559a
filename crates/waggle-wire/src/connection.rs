//! A session on a server: the commands, one at a time.
//!
//! Ties together the socket, the login and the reading of results. Neighbour: `prepared` has the
//! commands of prepared statements. Invariant: between two calls the session is in step (every
//! answer read to its end) or marked unusable; a command never goes out on an unusable one.

mod prepared;

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use crate::handshake::{DEPRECATE_EOF, LONG_PASSWORD};
use crate::packet::Channel;
use crate::result::{Kept, Rows, Terms};
use crate::rows::{Encoding, Row};
use crate::stream::Stream;
use crate::{
    Begin, Dsn, Error, Interrupter, RowStream, TextResults, Timeouts, login, reply, result,
};

pub use prepared::Statement;

/// How long connecting may take in all, from the name of the host to the end of the login, if the
/// DSN does not say.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a server may be silent in a command if neither the DSN nor the caller says: nothing
/// waits for ever by oversight.
const SILENCE: Duration = Duration::from_secs(3600);

const COM_QUIT: u8 = 0x01;
const COM_QUERY: u8 = 0x03;
const COM_PING: u8 = 0x0e;

/// Errors after which the server closes the session: shutdown, a command above its
/// `max_allowed_packet`, killed (MariaDB, MySQL), idle for too long.
const CLOSING_ERRNOS: [u16; 5] = [1053, 1153, 1927, 3169, 4031];

/// What a command did, over all its results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Results, of whatever kind: one for each statement of a text, more for a `CALL`.
    pub results: u32,
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
    terms: Terms,
    timeouts: Timeouts,
    is_usable: bool,
}

impl Connection {
    /// Connects and logs in, within the DSN's `connect-timeout` (10 seconds).
    ///
    /// Speaks `mysql_native_password`, `caching_sha2_password` and `client_ed25519`. The second's
    /// full form sends the password as it is over a Unix socket or TLS, and else encrypted as the
    /// DSN's [`ServerKey`](crate::ServerKey) allows, or not at all. Who can pose as the server on
    /// that network can show a TLS certificate of his own; only the modes that verify keep him out.
    ///
    /// # Errors
    /// [`Error::Io`] when there is no server or it does not answer in time, [`Error::Server`]
    /// when it refuses, [`Error::Tls`] when TLS was asked for and cannot be had,
    /// [`Error::Unsupported`] for other plugins and for servers that insist on TLS.
    pub fn connect(dsn: &Dsn) -> Result<Connection, Error> {
        Connection::connect_with(dsn, &mut |_, _| Ok(None))
    }

    /// The same, for a caller who wants to move the session's bytes or to break the attempt off.
    ///
    /// # Errors
    /// As [`Connection::connect`], and what `begin` refuses as [`Error::Io`].
    pub fn connect_with(dsn: &Dsn, begin: &mut Begin<'_>) -> Result<Connection, Error> {
        let timeout = dsn.timeouts.connect.unwrap_or(CONNECT_TIMEOUT);
        let deadline = Instant::now() + timeout;
        let stream = Stream::connect(&dsn.endpoint, deadline, begin)?;
        Connection::over(stream, dsn).map_err(|error| match error {
            Error::Io(error) => Error::Io(io::Error::new(
                error.kind(),
                format!("logging in at {}: {error}", dsn.endpoint),
            )),
            other => other,
        })
    }

    /// Logs in over a connected stream, whose limits it then lifts.
    pub(crate) fn over(stream: Stream, dsn: &Dsn) -> Result<Connection, Error> {
        let is_local = stream.is_local();
        let mut channel = Channel::new(stream);
        let (greeting, agreed) = login::login(&mut channel, dsn, is_local)?;
        channel.logged_in();
        let timeouts = dsn.timeouts;
        let limits = timeouts.limits(Some(SILENCE));
        channel.transport.set_limits(limits);
        Ok(Connection {
            channel,
            timeouts,
            version: greeting.version,
            id: greeting.connection_id,
            is_mariadb: greeting.is_mariadb,
            terms: Terms {
                deprecates_eof: agreed & DEPRECATE_EOF != 0,
                may_omit_columns: agreed & LONG_PASSWORD == 0,
                in_transaction: false,
            },
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
    /// the connection unusable. `None` waits without limit; after connecting it is an hour. What
    /// the DSN says (`read-timeout`, `write-timeout`) goes before.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.channel
            .transport
            .set_limits(self.timeouts.limits(timeout));
    }

    /// Once the server was silent for as long as it may be, asks this whether it is at work: if so,
    /// it may be silent for as long again. Not asked by sessions whose bytes the caller moves.
    pub fn ask_when_silent(&mut self, is_at_work: Box<dyn FnMut() -> bool + Send>) {
        self.channel.transport.ask_when_silent(is_at_work);
    }

    /// A way to break a wait of this connection from another thread.
    pub fn interrupter(&self) -> Interrupter {
        self.channel.transport.interrupter()
    }

    /// Whether a transaction was open after the last statement that succeeded. A statement that
    /// fails does not tell: a lock wait that timed out leaves the transaction open, a deadlock
    /// has ended it.
    pub fn in_transaction(&self) -> bool {
        self.terms.in_transaction
    }

    /// Runs one or more statements, reads every result to its end and skips the rows.
    ///
    /// # Errors
    /// Any [`Error`]; after the first statement that fails, the server runs none of the rest.
    pub fn query(&mut self, sql: &[u8]) -> Result<Summary, Error> {
        self.run_text(sql, Rows::Skip)
    }

    /// Runs one or more statements and keeps the rows of the first result set, as text. For
    /// small results: all rows are held in memory (1 GiB at most).
    ///
    /// # Errors
    /// As [`Connection::query`].
    pub fn query_rows(&mut self, sql: &[u8]) -> Result<Vec<Row>, Error> {
        let mut kept = Kept::new(Encoding::Text);
        self.run_text(sql, Rows::First(&mut kept))?;
        Ok(kept.rows)
    }

    /// Runs one or more statements and keeps the rows of every result set in `results`, in place
    /// of what was there. 1 GiB of rows at most.
    ///
    /// # Errors
    /// As [`Connection::query`]; `results` then holds what came before.
    pub fn query_text(&mut self, sql: &[u8], results: &mut TextResults) -> Result<Summary, Error> {
        results.clear();
        self.run_text(sql, Rows::Text(results))
    }

    /// Runs one `LOAD DATA LOCAL` and sends it the rows of `fill`, which appends whole rows to the
    /// buffer it gets and says how many; appending nothing ends them. The file name in `sql` is
    /// for the server's eyes: no file is ever read here.
    ///
    /// What one call of `fill` appends leaves at once, in packets of 256 KiB at most; some 64 KiB
    /// at a time keep both sides busy.
    ///
    /// # Errors
    /// Any [`Error`]; a server that fails a row says so when all have been sent. [`Error::Load`]
    /// when it took fewer rows than were sent, or took them with warnings: with `LOCAL` it skips
    /// duplicates and cuts values without an error. [`Error::Unsupported`] when the statement
    /// asked for no rows.
    pub fn load_local(
        &mut self,
        sql: &[u8],
        fill: &mut dyn FnMut(&mut Vec<u8>) -> u64,
    ) -> Result<Summary, Error> {
        self.command(COM_QUERY, sql, |connection| {
            result::load(&mut connection.channel, &mut connection.terms, fill)
        })
    }

    /// Runs one SELECT and lends its rows one by one, as the server sends them.
    ///
    /// # Errors
    /// As [`Connection::query`]; [`Error::Unsupported`] for a statement without rows, after which
    /// the connection is unusable.
    pub fn stream_rows(&mut self, sql: &[u8]) -> Result<RowStream<'_>, Error> {
        self.begin_stream(COM_QUERY, sql)?;
        // An error in place of rows leaves the session in step.
        let refused = match self.channel.peek() {
            Ok((_, reply::ERROR)) => true,
            Ok(_) => false,
            Err(error) => return Err(error),
        };
        if refused {
            let refusal = reply::server_error(self.channel.packet()?)?;
            self.settle(Err(refusal))?;
        }
        RowStream::begin(self)
    }

    /// What reading a stream of rows goes by.
    #[inline]
    pub(crate) fn parts(&mut self) -> (&mut Channel<Stream>, &mut Terms) {
        (&mut self.channel, &mut self.terms)
    }

    /// A stream of rows was read to its end, well or not.
    pub(crate) fn settle(&mut self, end: Result<reply::Done, Error>) -> Result<(), Error> {
        self.exchange(|connection| {
            connection.terms.in_transaction = end?.in_transaction();
            Ok(())
        })
    }

    fn run_text(&mut self, sql: &[u8], rows: Rows<'_>) -> Result<Summary, Error> {
        self.command(COM_QUERY, sql, |connection| {
            result::read(&mut connection.channel, &mut connection.terms, None, rows)
        })
    }

    /// Asks the server for a sign of life.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn ping(&mut self) -> Result<(), Error> {
        self.command(COM_PING, &[], |connection| {
            let done = reply::done(connection.channel.packet()?)?;
            connection.terms.in_transaction = done.in_transaction();
            Ok(())
        })
    }

    /// Ends the session.
    ///
    /// # Errors
    /// [`Error::Io`] when the server cannot be told.
    pub fn quit(mut self) -> Result<(), Error> {
        let sent = self.command(COM_QUIT, &[], |connection| {
            Ok(connection.channel.transport.flush()?)
        });
        self.is_usable = false;
        sent
    }

    /// Sends a command whose answer may never end: from now on the session is of use for
    /// [`Connection::stream_packet`] only.
    pub(crate) fn begin_stream(&mut self, command: u8, body: &[u8]) -> Result<(), Error> {
        self.check_usable()?;
        self.is_usable = false;
        self.channel.send_command(command, body)
    }

    /// The next packet of such an answer.
    pub(crate) fn stream_packet(&mut self) -> Result<&[u8], Error> {
        self.channel.release();
        self.channel.packet()
    }

    fn command<R>(
        &mut self,
        command: u8,
        body: &[u8],
        read: impl FnOnce(&mut Connection) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.check_usable()?;
        self.exchange(|connection| {
            connection.channel.send_command(command, body)?;
            read(connection)
        })
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
                Ok(_)
                | Err(Error::Unsupported(_) | Error::Parameters { .. } | Error::Load { .. }) => {
                    true
                }
                Err(Error::Server { errno, .. }) => !CLOSING_ERRNOS.contains(errno),
                Err(Error::Io(_) | Error::Protocol(_) | Error::Auth(_) | Error::Tls(_)) => false,
            };
        outcome
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.is_usable {
            // Best effort: without it the server counts an aborted client.
            let _ = self.channel.transport.send_last(&[1, 0, 0, 0, COM_QUIT]);
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
