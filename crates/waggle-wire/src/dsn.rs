//! Which server, as whom: the one text form in which a user names a server.
//!
//! The connection reads a [`Dsn`], every verb takes one. Invariant: neither `Debug`, `Display`
//! nor a [`DsnError`] ever shows a password, or any part of the text that could hold one when
//! special characters in it were not percent-encoded.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::compress::CompressionError;
use crate::tls::{TlsError, TlsModeError};
use crate::{Compression, Tls, TlsMode};

/// The port a server listens on when the name gives none.
const DEFAULT_PORT: u16 = 3306;
/// Longest path of a Unix socket that Linux takes, without the closing zero byte.
const SOCKET_PATH_MAX: usize = 107;

/// The names of the parameters, in the order in which they are printed.
const PARAMETERS: [&str; 6] = [
    "socket",
    "ssl-mode",
    "ssl-ca",
    "ssl-cert",
    "ssl-key",
    "compression",
];

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text itself, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A host name or address, and a port.
    Tcp {
        /// Name, IPv4 address, or IPv6 address without brackets.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// The path of a Unix socket.
    Socket(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Endpoint::Tcp { host, port } => write!(f, "{host}:{port}"),
            Endpoint::Socket(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A server, an account on it, and a database.
///
/// Parsed from `mysql://user:password@host:port/database` or
/// `mysql://user@/database?socket=/path`. Each part is percent-decoded; the port defaults to
/// 3306. Further parameters, each at most once, joined by `&`:
///
/// * `ssl-mode=disabled|preferred|required|verify-ca|verify-identity`, `ssl-ca=`, `ssl-cert=`,
///   `ssl-key=`: see [`Tls`];
/// * `compression=off|zlib|zstd`: see [`Compression`].
///
/// Printed in the same form with the password, if there is one, as `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Dsn {
    /// Where the server listens.
    pub endpoint: Endpoint,
    /// Account name.
    pub user: String,
    /// `None` when the text has none; an empty password is sent as no password.
    pub password: Option<Secret>,
    /// Default database of the connection.
    pub database: Option<String>,
    /// Whether and how the connection uses TLS.
    pub tls: Tls,
    /// Whether and how the protocol is compressed.
    pub compression: Compression,
}

impl Dsn {
    /// An account without a password on a server, without TLS or compression.
    pub fn new(endpoint: Endpoint, user: impl Into<String>) -> Dsn {
        Dsn {
            endpoint,
            user: user.into(),
            password: None,
            database: None,
            tls: Tls::default(),
            compression: Compression::Off,
        }
    }
}

/// Why a text is no [`Dsn`]. Names the part that is wrong, never its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DsnError {
    /// The text does not start with `mysql://` or `mariadb://`.
    #[error("a server is named as mysql://user:password@host:port/database; this has no mysql://")]
    Scheme,
    /// There is no `user@`.
    #[error(
        "no user: write mysql://user@host/database, and %40, %2F, %3F, %23 for @, /, ?, # in a \
         password"
    )]
    User,
    /// Neither a host nor a socket.
    #[error("neither a host nor a socket: write user@host:port/ or user@/database?socket=/path")]
    Endpoint,
    /// Both a host and a socket.
    #[error("both a host and a socket are given: leave the host empty for a socket")]
    TwoEndpoints,
    /// The part after the host's colon is no number from 1 to 65535, or an IPv6 address has
    /// no brackets.
    #[error("the port is not a number from 1 to 65535 (an IPv6 address goes in brackets)")]
    Port,
    /// A `%` that is not followed by two hexadecimal digits.
    #[error("the {0} has a % without two hexadecimal digits; a plain % is written %25")]
    Percent(&'static str),
    /// Percent-decoding gave bytes that are no UTF-8, or a zero byte.
    #[error("the {0} is not UTF-8 text without zero bytes")]
    Text(&'static str),
    /// An unknown parameter, one without a value, or one given twice.
    #[error(
        "unknown or repeated parameter after the ?: there are socket, ssl-mode, ssl-ca, ssl-cert, \
         ssl-key and compression, each with = and a value, joined by &"
    )]
    Parameter,
    /// No TLS mode.
    #[error(transparent)]
    TlsMode(#[from] TlsModeError),
    /// Parameters for TLS that do not go together.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A file for TLS without a mode, which would not be used.
    #[error("ssl-ca, ssl-cert and ssl-key say how, not whether to use TLS: add ssl-mode")]
    TlsFile,
    /// No compression.
    #[error(transparent)]
    Compression(#[from] CompressionError),
    /// The socket path is relative or longer than Linux allows.
    #[error("the socket is not an absolute path of at most {SOCKET_PATH_MAX} bytes")]
    Socket,
}

impl FromStr for Dsn {
    type Err = DsnError;

    fn from_str(text: &str) -> Result<Dsn, DsnError> {
        let rest = text
            .strip_prefix("mysql://")
            .or_else(|| text.strip_prefix("mariadb://"))
            .ok_or(DsnError::Scheme)?;
        let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (account, server) = authority.rsplit_once('@').ok_or(DsnError::User)?;
        let (user, password) = match account.split_once(':') {
            Some((user, password)) => (user, Some(Secret(decode(password, "password")?))),
            None => (account, None),
        };
        let user = decode(user, "user")?;
        if user.is_empty() {
            return Err(DsnError::User);
        }
        let (path, parameters) = match tail.split_once('?') {
            Some((path, parameters)) => (path, Some(parameters)),
            None => (tail, None),
        };
        let database = decode(path.strip_prefix('/').unwrap_or(path), "database")?;
        let parameters = Parameters::parse(parameters.unwrap_or_default())?;
        let endpoint = match parameters.socket {
            Some(_) if !matches!(server, "" | "localhost") => return Err(DsnError::TwoEndpoints),
            Some(path) => Endpoint::Socket(path),
            None => tcp(server)?,
        };
        Ok(Dsn {
            endpoint,
            user,
            password,
            database: Some(database).filter(|d| !d.is_empty()),
            tls: parameters.tls,
            compression: parameters.compression,
        })
    }
}

/// What stands after the `?`.
struct Parameters {
    socket: Option<PathBuf>,
    tls: Tls,
    compression: Compression,
}

impl Parameters {
    fn parse(text: &str) -> Result<Parameters, DsnError> {
        let mut given: [Option<String>; PARAMETERS.len()] = Default::default();
        for pair in text.split('&').filter(|_| !text.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or(DsnError::Parameter)?;
            let known = PARAMETERS.iter().position(|known| *known == name);
            let at = known.ok_or(DsnError::Parameter)?;
            let value = decode(value, PARAMETERS[at])?;
            if value.is_empty() || given[at].replace(value).is_some() {
                return Err(DsnError::Parameter);
            }
        }
        let [socket, mode, ca, cert, key, compression] = given;
        let has_files = ca.is_some() || cert.is_some() || key.is_some();
        if mode.is_none() && has_files {
            return Err(DsnError::TlsFile);
        }
        let tls = Tls {
            mode: mode.map_or(Ok(TlsMode::Disabled), |mode| mode.parse())?,
            ca: ca.map(PathBuf::from),
            cert: cert.map(PathBuf::from),
            key: key.map(PathBuf::from),
        };
        tls.check()?;
        let fits = |path: &String| path.starts_with('/') && path.len() <= SOCKET_PATH_MAX;
        if !socket.as_ref().is_none_or(fits) {
            return Err(DsnError::Socket);
        }
        Ok(Parameters {
            socket: socket.map(PathBuf::from),
            tls,
            compression: compression.map_or(Ok(Compression::Off), |name| name.parse())?,
        })
    }
}

/// `host`, `host:port`, `[address]` or `[address]:port`.
fn tcp(server: &str) -> Result<Endpoint, DsnError> {
    let (host, port) = match server.strip_prefix('[') {
        Some(bracketed) => {
            let (host, after) = bracketed.split_once(']').ok_or(DsnError::Port)?;
            match after.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if after.is_empty() => (host, None),
                None => return Err(DsnError::Port),
            }
        }
        None => match server.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (server, None),
        },
    };
    let port = match port {
        Some(port) => port
            .parse()
            .ok()
            .filter(|p| *p != 0)
            .ok_or(DsnError::Port)?,
        None => DEFAULT_PORT,
    };
    let host = decode(host, "host")?;
    if host.is_empty() {
        return Err(DsnError::Endpoint);
    }
    Ok(Endpoint::Tcp { host, port })
}

/// Undoes percent-encoding. `part` names the place for the error.
fn decode(text: &str, part: &'static str) -> Result<String, DsnError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|b| char::from(b).to_digit(16));
        match (digit(), digit()) {
            (Some(high), Some(low)) => bytes.push((high * 16 + low) as u8),
            _ => return Err(DsnError::Percent(part)),
        }
    }
    // A zero byte would end the user name early inside the handshake packet.
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => Err(DsnError::Text(part)),
    }
}

/// Percent-encodes what has a meaning in a DSN.
struct Encoded<'a>(&'a str);

impl fmt::Display for Encoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '%' | '@' | ':' | '/' | '?' | '#' | '&' | '[' | ']' => {
                    write!(f, "%{:02X}", c as u32)?;
                }
                c if c.is_ascii_control() || c == ' ' => write!(f, "%{:02X}", c as u32)?,
                c => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}

/// The same for a path, whose slashes stay.
struct EncodedPath<'a>(&'a Path);

impl fmt::Display for EncodedPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, part) in self.0.to_string_lossy().split('/').enumerate() {
            let slash = if i == 0 { "" } else { "/" };
            write!(f, "{slash}{}", Encoded(part))?;
        }
        Ok(())
    }
}

impl fmt::Display for Dsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mysql://{}", Encoded(&self.user))?;
        if self.password.is_some() {
            f.write_str(":***")?;
        }
        let database = Encoded(self.database.as_deref().unwrap_or(""));
        match &self.endpoint {
            Endpoint::Tcp { host, port } if host.contains(':') => {
                write!(f, "@[{host}]:{port}/{database}")
            }
            Endpoint::Tcp { host, port } => write!(f, "@{}:{port}/{database}", Encoded(host)),
            Endpoint::Socket(_) => write!(f, "@/{database}"),
        }?;
        let socket = match &self.endpoint {
            Endpoint::Socket(path) => Some(path.as_path()),
            Endpoint::Tcp { .. } => None,
        };
        let tls = &self.tls;
        let is_plain = *tls == Tls::default();
        let mode = (!is_plain).then(|| tls.mode.to_string());
        let is_packed = self.compression != Compression::Off;
        let compression = is_packed.then(|| self.compression.to_string());
        let values = [
            socket,
            mode.as_deref().map(Path::new),
            tls.ca.as_deref(),
            tls.cert.as_deref(),
            tls.key.as_deref(),
            compression.as_deref().map(Path::new),
        ];
        let given = PARAMETERS.iter().zip(values);
        let given = given.filter_map(|(name, value)| Some((name, value?)));
        for (i, (name, value)) in given.enumerate() {
            let mark = if i == 0 { '?' } else { '&' };
            write!(f, "{mark}{name}={}", EncodedPath(value))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Dsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dsn({self})")
    }
}

#[cfg(test)]
mod tests;
