//! Which server, as whom: the one text form in which a user names a server.
//!
//! The connection reads a [`Dsn`], every verb takes one. Invariant: neither `Debug`, `Display`
//! nor a [`DsnError`] ever shows a password, or any part of the text that could hold one when
//! special characters in it were not percent-encoded.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use crate::compress::CompressionError;
use crate::secret::{PasswordFileError, Secret};
use crate::socket::Limits;
use crate::tls::{TlsError, TlsModeError};
use crate::{Compression, Tls, TlsMode};

/// The port a server listens on when the name gives none.
const DEFAULT_PORT: u16 = 3306;
/// Longest path of a Unix socket that Linux takes, without the closing zero byte.
const SOCKET_PATH_MAX: usize = 107;

/// The names of the parameters, in the order in which they are printed.
const PARAMETERS: [&str; 12] = [
    "socket",
    "password-file",
    "ssl-mode",
    "ssl-ca",
    "ssl-cert",
    "ssl-key",
    "compression",
    "server-public-key-path",
    "get-server-public-key",
    "connect-timeout",
    "read-timeout",
    "write-timeout",
];

/// Which RSA key the password is encrypted with where `caching_sha2_password` asks for the password
/// itself and the connection is neither TLS nor a Unix socket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ServerKey {
    /// None: such a login is refused, as MySQL's clients do.
    #[default]
    Refused,
    /// The key of this file, in PEM form; the server is never asked for one.
    Pinned(PathBuf),
    /// Whatever key comes over the connection: who poses as the server gets the password.
    Asked,
}

impl ServerKey {
    fn of(path: Option<String>, asks: Option<String>) -> Result<ServerKey, DsnError> {
        let asks = asks.map(|asks| asks.to_ascii_lowercase());
        let asks = match asks.as_deref() {
            None | Some("false" | "off" | "0") => false,
            Some("true" | "on" | "1") => true,
            Some(_) => return Err(DsnError::AskKey),
        };
        Ok(match path {
            // A file that cannot be used is an error, not a reason to ask.
            Some(path) => ServerKey::Pinned(path.into()),
            None if asks => ServerKey::Asked,
            None => ServerKey::Refused,
        })
    }
}

/// How long a server is waited for, each `None` where the DSN leaves it to the program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// From the name of the host to the end of the login; never zero.
    pub connect: Option<Duration>,
    /// The longest that a command may get no byte; zero is without limit.
    pub read: Option<Duration>,
    /// The longest that the server may take no byte of a command; zero is without limit.
    pub write: Option<Duration>,
}

impl Timeouts {
    /// The longest given: some 31 years.
    const SECONDS_MAX: u64 = 1_000_000_000;

    /// What the DSN says, else `timeout`.
    pub(crate) fn limits(&self, timeout: Option<Duration>) -> Limits {
        let of = |given: Option<Duration>| match given {
            Some(given) => Some(given).filter(|given| !given.is_zero()),
            None => timeout,
        };
        Limits {
            read: of(self.read),
            write: of(self.write),
            deadline: None,
        }
    }

    fn of(texts: [Option<String>; 3]) -> Result<Timeouts, DsnError> {
        let seconds = |text: String| {
            let seconds = text.parse().ok();
            let seconds = seconds.filter(|seconds| *seconds <= Timeouts::SECONDS_MAX);
            seconds.map(Duration::from_secs).ok_or(DsnError::Timeout)
        };
        let [connect, read, write] = texts.map(|text| text.map(seconds).transpose());
        let connect = connect?;
        if connect.is_some_and(|connect| connect.is_zero()) {
            return Err(DsnError::Timeout);
        }
        Ok(Timeouts {
            connect,
            read: read?,
            write: write?,
        })
    }

    fn texts(&self) -> [Option<String>; 3] {
        [self.connect, self.read, self.write]
            .map(|timeout| timeout.map(|timeout| timeout.as_secs().to_string()))
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
/// * `password-file=`: the password is the first line of this file, read now;
/// * `ssl-mode=disabled|preferred|required|verify-ca|verify-identity`, `ssl-ca=`, `ssl-cert=`,
///   `ssl-key=`: see [`Tls`];
/// * `compression=off|zlib|zstd`: see [`Compression`];
/// * `server-public-key-path=FILE`, `get-server-public-key=true|false`: see [`ServerKey`]; with
///   both, the file is what counts;
/// * `connect-timeout=`, `read-timeout=`, `write-timeout=`, in whole seconds: see [`Timeouts`].
///
/// Printed in the same form with the password, if there is one that was not read from a file, as
/// `***`.
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
    /// Under which key the password may leave where nothing else hides it.
    pub server_key: ServerKey,
    /// How long the server is waited for.
    pub timeouts: Timeouts,
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
            server_key: ServerKey::Refused,
            timeouts: Timeouts::default(),
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
        "unknown or repeated parameter after the ?: there are {}, each with = and a value, \
         joined by &",
        PARAMETERS.join(", ")
    )]
    Parameter,
    /// The file of the password gives none.
    #[error(transparent)]
    PasswordFile(#[from] PasswordFileError),
    /// Both a password and a file of one.
    #[error("both a password and a password-file are given: leave one of them out")]
    TwoPasswords,
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
    /// Neither yes nor no.
    #[error("get-server-public-key is true or false")]
    AskKey,
    /// No number of seconds.
    #[error(
        "a timeout is a whole number of seconds, 0 for read-timeout and write-timeout without limit"
    )]
    Timeout,
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
            Some((user, password)) => (user, Some(Secret::new(decode(password, "password")?))),
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
        let password = match (password, parameters.password_file) {
            (Some(_), Some(_)) => return Err(DsnError::TwoPasswords),
            (None, Some(file)) => Some(Secret::from_file(file)?),
            (password, None) => password,
        };
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
            server_key: parameters.server_key,
            timeouts: parameters.timeouts,
        })
    }
}

/// What stands after the `?`.
struct Parameters {
    socket: Option<PathBuf>,
    password_file: Option<PathBuf>,
    tls: Tls,
    compression: Compression,
    server_key: ServerKey,
    timeouts: Timeouts,
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
        let [
            socket,
            password_file,
            mode,
            ca,
            cert,
            key,
            compression,
            server_key,
            asks_key,
            timeouts @ ..,
        ] = given;
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
            password_file: password_file.map(PathBuf::from),
            tls,
            compression: compression.map_or(Ok(Compression::Off), |name| name.parse())?,
            server_key: ServerKey::of(server_key, asks_key)?,
            timeouts: Timeouts::of(timeouts)?,
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
        let password_file = self.password.as_ref().and_then(Secret::file);
        if self.password.is_some() && password_file.is_none() {
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
        let (server_key, asks_key) = match &self.server_key {
            ServerKey::Refused => (None, None),
            ServerKey::Pinned(path) => (Some(path.as_path()), None),
            ServerKey::Asked => (None, Some(Path::new("true"))),
        };
        let timeouts = self.timeouts.texts();
        let [connect, read, write] = timeouts.each_ref().map(Option::as_deref);
        let values = [
            socket,
            password_file,
            mode.as_deref().map(Path::new),
            tls.ca.as_deref(),
            tls.cert.as_deref(),
            tls.key.as_deref(),
            compression.as_deref().map(Path::new),
            server_key,
            asks_key,
            connect.map(Path::new),
            read.map(Path::new),
            write.map(Path::new),
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
