//! What can go wrong between this client and a server.
//!
//! Every module here reports through [`Error`]. Invariant: no variant ever holds a password, a
//! scramble or an authentication answer, so an error may be printed and filed as it is.

use std::io;

/// A failed connect or command.
///
/// After [`Error::Server`] the connection is usually still usable (see
/// [`Connection::is_usable`](crate::Connection::is_usable)); after `Io` and `Protocol` it never
/// is, because the position in the packet stream is unknown.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server answered with an error packet.
    #[error("server error {errno} ({}): {message}", String::from_utf8_lossy(.sqlstate))]
    Server {
        /// The server's error number, for example 1213 for a deadlock.
        errno: u16,
        /// The five characters of the SQLSTATE; `HY000` where the server sent none.
        sqlstate: [u8; 5],
        /// The server's text, as it came (bytes that are not UTF-8 are replaced).
        message: String,
    },
    /// The socket failed, was closed by the server, or a wait ran into its time limit
    /// ([`io::ErrorKind::TimedOut`]).
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The server sent bytes that the protocol does not allow at this place.
    #[error("protocol error: {0}")]
    Protocol(String),
    /// The exchange of credentials could not be finished on this side. A refusal by the server
    /// is [`Error::Server`] (1045, 1044, 1698).
    #[error("authentication failed: {0}")]
    Auth(String),
    /// TLS was asked for, and there is none: the server does not offer it, its certificate is
    /// refused, or a file that is needed for it cannot be used.
    #[error("TLS: {0}")]
    Tls(String),
    /// The server asks for something this client does not do; the text names it.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// Rows were sent to `LOAD DATA LOCAL`, and the server did not take all of them as they were:
    /// it skips duplicate keys and cuts values with a warning at most. The session can go on.
    #[error(
        "LOAD DATA LOCAL: {sent} rows were sent, the server stored {stored} and gave {warnings} \
         warnings"
    )]
    Load {
        /// Rows sent.
        sent: u64,
        /// Rows that the server says it stored.
        stored: u64,
        /// Warnings it counted; at most 65535.
        warnings: u16,
    },
    /// A prepared statement was given another number of parameters than it has. Nothing was
    /// sent.
    #[error("the prepared statement takes {expected} parameters, {given} were given")]
    Parameters {
        /// Parameter markers in the statement.
        expected: usize,
        /// Values handed in.
        given: usize,
    },
}

impl Error {
    /// The server's error number, if a server answered.
    pub fn errno(&self) -> Option<u16> {
        match self {
            Error::Server { errno, .. } => Some(*errno),
            _ => None,
        }
    }

    pub(crate) fn protocol(what: impl Into<String>) -> Error {
        Error::Protocol(what.into())
    }
}
