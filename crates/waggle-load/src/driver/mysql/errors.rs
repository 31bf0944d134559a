//! Errors of the client as scripts know them: what no server answered has the number that client
//! libraries give it.

use std::io::ErrorKind;

use waggle_wire::{Dsn, Endpoint, Error};

use crate::driver::DriverError;

/// What client libraries call a server that cannot be reached.
const CR_CONNECTION_ERROR: u16 = 2002;

/// What client libraries call a name that has no address.
const CR_UNKNOWN_HOST: u16 = 2005;

/// What client libraries call TLS that was asked for and cannot be had.
const CR_SSL_CONNECTION_ERROR: u16 = 2026;

/// What client libraries call a connection that broke during a statement.
const CR_SERVER_LOST: u16 = 2013;

/// Why there is no session with `dsn`.
pub(super) fn of_connecting(dsn: &Dsn, error: Error) -> DriverError {
    match error {
        Error::Io(source) => DriverError::Lost {
            errno: match &dsn.endpoint {
                // No address has no such file.
                Endpoint::Tcp { .. } if source.kind() == ErrorKind::NotFound => CR_UNKNOWN_HOST,
                _ => CR_CONNECTION_ERROR,
            },
            message: format!("no connection to the server: {source}"),
        },
        other => other.into(),
    }
}

impl From<Error> for DriverError {
    fn from(error: Error) -> DriverError {
        match error {
            Error::Server {
                errno,
                sqlstate,
                message,
            } => DriverError::Server {
                errno,
                sqlstate: String::from_utf8_lossy(&sqlstate).into_owned(),
                message,
            },
            Error::Parameters { .. } => DriverError::Refused(error.to_string()),
            Error::Io(source) => DriverError::Lost {
                errno: CR_SERVER_LOST,
                message: format!("lost the connection to the server: {source}"),
            },
            Error::Tls(_) => DriverError::Lost {
                errno: CR_SSL_CONNECTION_ERROR,
                message: error.to_string(),
            },
            other => DriverError::Lost {
                errno: CR_SERVER_LOST,
                message: other.to_string(),
            },
        }
    }
}
