//! What a server says about itself: `SHOW GLOBAL STATUS` and `SHOW GLOBAL VARIABLES`.
//!
//! Read over a [`Connection`] the caller opened. Invariant: a counter this build of the server
//! does not have is `None`, never zero.

use std::collections::BTreeMap;

use serde::Serialize;
use waggle_wire::{Connection, Error};

/// One reading of the global status counters. Counts are since the server started.
///
/// Reading it is itself one statement, which [`questions`](Self::questions) of this very reading
/// already includes: between two readings an idle server shows a difference of one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct GlobalStatus {
    /// Statements clients sent (`Questions`): prepare and close excluded, execute included.
    pub questions: Option<u64>,
    /// Statements executed (`Queries`): those inside stored programs included.
    pub queries: Option<u64>,
    /// Client connections open now.
    pub threads_connected: Option<u64>,
    /// Client connections that execute a statement now.
    pub threads_running: Option<u64>,
    /// Connection attempts, successful or not.
    pub connections: Option<u64>,
    /// Statements slower than `long_query_time`.
    pub slow_queries: Option<u64>,
    /// `COMMIT` statements.
    pub com_commit: Option<u64>,
    /// `COM_STMT_EXECUTE` packets and `EXECUTE` statements.
    pub com_stmt_execute: Option<u64>,
    /// `COM_STMT_PREPARE` packets and `PREPARE` statements.
    pub com_stmt_prepare: Option<u64>,
    /// Bytes from all clients.
    pub bytes_received: Option<u64>,
    /// Bytes to all clients.
    pub bytes_sent: Option<u64>,
    /// Rows InnoDB read.
    pub innodb_rows_read: Option<u64>,
    /// Bytes InnoDB wrote to its redo log.
    pub innodb_os_log_written_bytes: Option<u64>,
    /// Memory the server says it holds, in bytes (MariaDB only).
    pub memory_used_bytes: Option<u64>,
    /// Seconds since the server started.
    pub uptime_s: Option<u64>,
    /// Every status variable, as the server prints it.
    #[serde(skip)]
    pub all: BTreeMap<String, String>,
}

impl GlobalStatus {
    /// Reads all global status variables: one statement.
    ///
    /// # Errors
    /// Those of [`Connection::query_rows`].
    pub fn read(connection: &mut Connection) -> Result<Self, Error> {
        Ok(Self::from_map(name_value_rows(
            connection,
            b"SHOW GLOBAL STATUS",
        )?))
    }

    /// Any counter by its name in the server, whatever the case of its letters.
    pub fn counter(&self, name: &str) -> Option<u64> {
        self.all
            .get(name)
            .and_then(|value| value.parse().ok())
            .or_else(|| {
                let (_, value) = self
                    .all
                    .iter()
                    .find(|(key, _)| key.eq_ignore_ascii_case(name))?;
                value.parse().ok()
            })
    }

    /// The counters in a map of names and values as the server prints them.
    pub fn from_map(all: BTreeMap<String, String>) -> Self {
        let counter = |name: &str| all.get(name).and_then(|value| value.parse().ok());
        Self {
            questions: counter("Questions"),
            queries: counter("Queries"),
            threads_connected: counter("Threads_connected"),
            threads_running: counter("Threads_running"),
            connections: counter("Connections"),
            slow_queries: counter("Slow_queries"),
            com_commit: counter("Com_commit"),
            com_stmt_execute: counter("Com_stmt_execute"),
            com_stmt_prepare: counter("Com_stmt_prepare"),
            bytes_received: counter("Bytes_received"),
            bytes_sent: counter("Bytes_sent"),
            innodb_rows_read: counter("Innodb_rows_read"),
            innodb_os_log_written_bytes: counter("Innodb_os_log_written"),
            memory_used_bytes: counter("Memory_used"),
            uptime_s: counter("Uptime"),
            all,
        }
    }
}

/// All global system variables: name to value as the server prints it.
///
/// # Errors
/// Those of [`Connection::query_rows`].
pub fn variables(connection: &mut Connection) -> Result<BTreeMap<String, String>, Error> {
    name_value_rows(connection, b"SHOW GLOBAL VARIABLES")
}

fn name_value_rows(
    connection: &mut Connection,
    sql: &[u8],
) -> Result<BTreeMap<String, String>, Error> {
    let rows = connection.query_rows(sql)?;
    let text = |value: &Option<Vec<u8>>| {
        String::from_utf8_lossy(value.as_deref().unwrap_or_default()).into_owned()
    };
    Ok(rows
        .iter()
        .filter_map(|row| Some((text(row.first()?), text(row.get(1)?))))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_the_server_lacks_is_none() {
        let all = [("Questions", "12"), ("Ssl_cipher", ""), ("Uptime", "3")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let status = GlobalStatus::from_map(all.into());
        assert_eq!(status.questions, Some(12));
        assert_eq!(status.queries, None);
        assert_eq!(status.counter("uptime"), Some(3));
        assert_eq!(status.counter("Ssl_cipher"), None);
    }
}
