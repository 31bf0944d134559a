//! Which server, as whom: the one text form in which a user names a server.
//!
//! The connection reads a [`Dsn`], every verb takes one. Invariant: neither `Debug`, `Display`
//! nor a [`DsnError`] ever shows a password, or any part of the text that could hold one when
//! special characters in it were not percent-encoded.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The port a server listens on when the name gives none.
const DEFAULT_PORT: u16 = 3306;
/// Longest path of a Unix socket that Linux takes, without the closing zero byte.
const SOCKET_PATH_MAX: usize = 107;

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
/// 3306. Printed in the same form with the password, if there is one, as `***`.
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
    /// A parameter other than `socket`, or one without a value.
    #[error("unknown parameter after the ?: only socket=/path is known")]
    Parameter,
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
        let endpoint = match socket(parameters)? {
            Some(_) if !matches!(server, "" | "localhost") => return Err(DsnError::TwoEndpoints),
            Some(path) => Endpoint::Socket(path),
            None => tcp(server)?,
        };
        Ok(Dsn {
            endpoint,
            user,
            password,
            database: Some(database).filter(|d| !d.is_empty()),
        })
    }
}

/// The `socket=/path` among the parameters, if there are any.
fn socket(parameters: Option<&str>) -> Result<Option<PathBuf>, DsnError> {
    let Some(parameters) = parameters.filter(|p| !p.is_empty()) else {
        return Ok(None);
    };
    let path = parameters
        .strip_prefix("socket=")
        .ok_or(DsnError::Parameter)?;
    if path.contains('&') {
        return Err(DsnError::Parameter);
    }
    let path = decode(path, "socket")?;
    if !path.starts_with('/') || path.len() > SOCKET_PATH_MAX {
        return Err(DsnError::Socket);
    }
    Ok(Some(PathBuf::from(path)))
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
            Endpoint::Socket(path) => {
                write!(f, "@/{database}?socket=")?;
                for (i, part) in path.to_string_lossy().split('/').enumerate() {
                    let slash = if i == 0 { "" } else { "/" };
                    write!(f, "{slash}{}", Encoded(part))?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for Dsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dsn({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tcp_dsn(host: &str, port: u16) -> Dsn {
        Dsn {
            endpoint: Endpoint::Tcp {
                host: host.into(),
                port,
            },
            user: "u".into(),
            password: None,
            database: None,
        }
    }

    #[test]
    fn reads_the_two_forms() {
        let dsn: Dsn = "mysql://us%40er:p%2Fa%3As@db.example:3307/shop"
            .parse()
            .unwrap();
        assert_eq!(
            dsn.endpoint,
            Endpoint::Tcp {
                host: "db.example".into(),
                port: 3307
            }
        );
        assert_eq!(dsn.user, "us@er");
        assert_eq!(dsn.password.unwrap().expose(), "p/a:s");
        assert_eq!(dsn.database.as_deref(), Some("shop"));

        let dsn: Dsn = "mysql://root@/test?socket=/run/my%20sql.sock"
            .parse()
            .unwrap();
        assert_eq!(dsn.endpoint, Endpoint::Socket("/run/my sql.sock".into()));
        assert_eq!(dsn.password, None);
    }

    #[test]
    fn fills_in_defaults() {
        assert_eq!("mysql://u@h".parse(), Ok(tcp_dsn("h", 3306)));
        assert_eq!("mariadb://u@h/".parse(), Ok(tcp_dsn("h", 3306)));
        assert_eq!("mysql://u@[::1]".parse(), Ok(tcp_dsn("::1", 3306)));
        assert_eq!("mysql://u@[::1]:99/".parse(), Ok(tcp_dsn("::1", 99)));
        let socket: Dsn = "mysql://u@localhost?socket=/s".parse().unwrap();
        assert_eq!(socket.endpoint, Endpoint::Socket("/s".into()));
        assert_eq!(socket.to_string(), "mysql://u@/?socket=/s");
    }

    #[test]
    fn says_which_part_is_wrong() {
        for (text, error) in [
            ("root@localhost/x", DsnError::Scheme),
            ("mysql://host:3306/x", DsnError::User),
            ("mysql://@host/x", DsnError::User),
            ("mysql://u@/x", DsnError::Endpoint),
            ("mysql://u@:3306/x", DsnError::Endpoint),
            ("mysql://u@h:0/x", DsnError::Port),
            ("mysql://u@h:99999/x", DsnError::Port),
            ("mysql://u@::1/x", DsnError::Port),
            ("mysql://u@[::1/x", DsnError::Port),
            ("mysql://u:%zz@h/x", DsnError::Percent("password")),
            ("mysql://u:%f@h/x", DsnError::Percent("password")),
            ("mysql://u:%ff@h/x", DsnError::Text("password")),
            ("mysql://u%00@h/x", DsnError::Text("user")),
            ("mysql://u@h/x?ssl=1", DsnError::Parameter),
            ("mysql://u@/x?socket=/s&a=b", DsnError::Parameter),
            ("mysql://u@h/x?socket=/s", DsnError::TwoEndpoints),
            ("mysql://u@/x?socket=s", DsnError::Socket),
        ] {
            assert_eq!(text.parse::<Dsn>(), Err(error), "{text}");
        }
    }

    #[test]
    fn never_prints_the_password() {
        let dsn: Dsn = "mysql://u:hunter2@h/d".parse().unwrap();
        assert_eq!(dsn.to_string(), "mysql://u:***@h:3306/d");
        assert_eq!(format!("{dsn:?}"), "Dsn(mysql://u:***@h:3306/d)");
        assert_eq!(format!("{:?}", dsn.password), "Some(***)");
        // Special characters left as they are: wrong, but still not shown.
        for text in [
            "mysql://u:hun/ter2@h/d",
            "mysql://u:hun?ter2@h",
            "mysql://u@hun:ter2/@h",
        ] {
            let error = text.parse::<Dsn>().unwrap_err();
            assert!(!format!("{error} {error:?}").contains("ter2"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn printed_form_reads_back(user in "[^\0]{1,12}", database in "[^\0]{1,12}",
                                   socket in proptest::option::of("/[^\0]{1,20}")) {
            let endpoint = match socket {
                Some(path) => Endpoint::Socket(path.into()),
                None => Endpoint::Tcp { host: "h".into(), port: 1 },
            };
            let dsn = Dsn { endpoint, user, password: None, database: Some(database) };
            prop_assert_eq!(dsn.to_string().parse::<Dsn>(), Ok(dsn));
        }

        #[test]
        fn any_text_is_answered(text in "(mysql://)?[ -~é]{0,60}") {
            let _ = text.parse::<Dsn>();
        }
    }
}
