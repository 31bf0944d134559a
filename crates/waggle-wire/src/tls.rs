//! TLS: whether and how strictly a user wants it, and the session itself.
//!
//! The login starts it between greeting and answer, the [`Stream`](crate::stream::Stream) then
//! sends and receives through it. Invariants: a mode above `preferred` never ends in plain text;
//! what `verify-ca` and `verify-identity` promise was checked before a byte of the login is sent.
//!
//! Every connection reads the files anew and keeps no session ticket for the next one: what a
//! connect costs is then the same each time, as with MySQL's own clients.

use std::fmt;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use rustls::ClientConnection;
use rustls::pki_types::ServerName;

use crate::packet::Transport;
use crate::{Endpoint, Error};

mod trust;

/// Received at once, as the packet layer does.
const INCOMING_BYTES: usize = 64 << 10;
/// A buffer for sending that grew above this is given back.
const OUTGOING_BYTES_KEPT: usize = 1 << 20;

/// How strictly TLS is wanted, with the meanings of MySQL's clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// No TLS.
    #[default]
    Disabled,
    /// TLS over TCP if the server offers it; its certificate is not looked at.
    Preferred,
    /// TLS or an error; the server's certificate is not looked at.
    Required,
    /// As `Required`, and the certificate has to be signed by the CA.
    VerifyCa,
    /// As `VerifyCa`, and the certificate has to name the host (as subject alternative name;
    /// the common name is not read). Over a Unix socket the name is `localhost`.
    VerifyIdentity,
}

impl TlsMode {
    const ALL: [TlsMode; 5] = [
        TlsMode::Disabled,
        TlsMode::Preferred,
        TlsMode::Required,
        TlsMode::VerifyCa,
        TlsMode::VerifyIdentity,
    ];

    fn name(self) -> &'static str {
        match self {
            TlsMode::Disabled => "disabled",
            TlsMode::Preferred => "preferred",
            TlsMode::Required => "required",
            TlsMode::VerifyCa => "verify-ca",
            TlsMode::VerifyIdentity => "verify-identity",
        }
    }

    /// Whether the server's certificate is checked.
    pub fn verifies(self) -> bool {
        matches!(self, TlsMode::VerifyCa | TlsMode::VerifyIdentity)
    }
}

impl fmt::Display for TlsMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that is no [`TlsMode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a TLS mode is disabled, preferred, required, verify-ca or verify-identity")]
pub struct TlsModeError;

impl FromStr for TlsMode {
    type Err = TlsModeError;

    /// Reads a mode in any case, with `-` or `_`, as MySQL's `--ssl-mode` does.
    fn from_str(text: &str) -> Result<TlsMode, TlsModeError> {
        let plain = text.to_ascii_lowercase().replace('_', "-");
        let mut modes = TlsMode::ALL.into_iter();
        modes.find(|mode| mode.name() == plain).ok_or(TlsModeError)
    }
}

/// Whether and how a connection uses TLS. The files are in PEM form.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// How strictly TLS is wanted.
    pub mode: TlsMode,
    /// Certificates of the authorities that the modes which verify trust; they need it.
    pub ca: Option<PathBuf>,
    /// This client's certificate, followed by those that lead to its authority.
    pub cert: Option<PathBuf>,
    /// The key of `cert`, not encrypted.
    pub key: Option<PathBuf>,
}

/// Why a [`Tls`] makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// A mode that verifies, and nothing to verify with.
    #[error("ssl-mode verify-ca and verify-identity need ssl-ca, the file of the authority")]
    NoCa,
    /// A certificate without its key, or a key alone.
    #[error("ssl-cert and ssl-key go together: a certificate and its key")]
    HalfAPair,
}

impl Tls {
    /// TLS of this mode, without files.
    pub fn of(mode: TlsMode) -> Tls {
        Tls {
            mode,
            ..Tls::default()
        }
    }

    /// Checks that what belongs together is there; opens no file.
    ///
    /// # Errors
    /// [`TlsError`] names what is missing.
    pub fn check(&self) -> Result<(), TlsError> {
        if self.mode.verifies() && self.ca.is_none() {
            return Err(TlsError::NoCa);
        }
        if self.cert.is_some() != self.key.is_some() {
            return Err(TlsError::HalfAPair);
        }
        Ok(())
    }

    /// Whether to go on over TLS with a server that does or does not offer it.
    pub(crate) fn is_to_start(&self, is_offered: bool, is_local: bool) -> Result<bool, Error> {
        match self.mode {
            TlsMode::Disabled => Ok(false),
            // On a socket of this machine there is nothing to win, and MySQL's clients agree.
            TlsMode::Preferred => Ok(is_offered && !is_local),
            _ if is_offered => Ok(true),
            mode => Err(Error::Tls(format!(
                "the server does not offer it, and ssl-mode is {mode}"
            ))),
        }
    }
}

/// A TLS session after its handshake.
pub(crate) struct Session {
    connection: ClientConnection,
    /// Received and not yet given to `connection`: `start..end`.
    incoming: Vec<u8>,
    start: usize,
    end: usize,
    /// Records on their way out; empty between two calls.
    outgoing: Vec<u8>,
}

/// Starts a session over `lower`.
pub(crate) fn connect(
    tls: &Tls,
    endpoint: &Endpoint,
    lower: &mut impl Transport,
) -> Result<Session, Error> {
    tls.check().map_err(|error| Error::Tls(error.to_string()))?;
    let host = match endpoint {
        Endpoint::Tcp { host, .. } => host.as_str(),
        Endpoint::Socket(_) => "localhost",
    };
    let name = match ServerName::try_from(host.to_owned()) {
        Ok(name) => name,
        Err(_) if tls.mode == TlsMode::VerifyIdentity => {
            return Err(Error::Tls(format!("no certificate can name {host:?}")));
        }
        // Nobody looks at it, and it is not sent.
        Err(_) => ServerName::IpAddress(std::net::Ipv4Addr::LOCALHOST.into()),
    };
    let connection = ClientConnection::new(Arc::new(trust::config(tls)?), name)
        .map_err(|error| Error::Tls(error.to_string()))?;
    let mut session = Session {
        connection,
        incoming: vec![0; INCOMING_BYTES],
        start: 0,
        end: 0,
        outgoing: Vec::new(),
    };
    session.handshake(lower).map_err(|error| {
        let reason = error.get_ref().and_then(|inner| inner.downcast_ref());
        match reason {
            Some(reason) => Error::Tls(trust::explain(reason, tls, host)),
            None => Error::Io(io::Error::new(
                error.kind(),
                format!("in the TLS handshake: {error}"),
            )),
        }
    })?;
    Ok(session)
}

impl Session {
    fn handshake(&mut self, lower: &mut impl Transport) -> io::Result<()> {
        loop {
            self.flush(lower)?;
            if !self.connection.is_handshaking() {
                return Ok(());
            }
            self.advance(lower)?;
        }
    }

    /// Receives at least one byte of plain text.
    pub(crate) fn receive(
        &mut self,
        lower: &mut impl Transport,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        loop {
            match self.connection.reader().read(buffer) {
                Ok(0) => return Err(closed()),
                Ok(length) => return Ok(length),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            self.advance(lower)?;
            // A server may ask for new keys at any time.
            self.flush(lower)?;
        }
    }

    /// Sends all of `bytes`.
    pub(crate) fn send(&mut self, lower: &mut impl Transport, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let length = self.connection.writer().write(bytes)?;
            bytes = bytes.get(length..).unwrap_or_default();
            self.flush(lower)?;
        }
        Ok(())
    }

    /// Gives the session more of what came, from the buffer if there is some: a receive of the
    /// socket brings many records.
    fn advance(&mut self, lower: &mut impl Transport) -> io::Result<()> {
        if self.start == self.end {
            self.end = lower.receive(&mut self.incoming)?;
            self.start = 0;
        }
        let mut unread = self.incoming.get(self.start..self.end).unwrap_or_default();
        self.connection.read_tls(&mut unread)?;
        self.start = self.end - unread.len();
        match self.connection.process_new_packets() {
            Ok(_) => Ok(()),
            Err(error) => {
                // The alert tells the server why; that it arrives is not worth an error.
                let _ = self.flush(lower);
                Err(io::Error::new(io::ErrorKind::InvalidData, error))
            }
        }
    }

    fn flush(&mut self, lower: &mut impl Transport) -> io::Result<()> {
        if !self.connection.wants_write() {
            return Ok(());
        }
        self.outgoing.clear();
        while self.connection.wants_write() {
            self.connection.write_tls(&mut self.outgoing)?;
        }
        let sent = lower.send(&self.outgoing);
        self.outgoing.clear();
        if self.outgoing.capacity() > OUTGOING_BYTES_KEPT {
            self.outgoing = Vec::new();
        }
        sent
    }
}

fn closed() -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        "the server closed the connection",
    )
}

#[cfg(test)]
mod tests;
