//! Sessions at both servers, set so that values pass as they are.
//!
//! Everything that connects in this crate does it here. Invariant: results come in the columns'
//! own character sets, times in UTC, and a value that the target would change is an error. A server
//! may be silent for as long as it says that it is at work, and for no longer.

use std::time::Duration;

use waggle_wire::{Connection, Dsn};

use crate::error::{CopyError, Side};

/// A session may be idle or slow for this long, in seconds, before a server ends it.
const PATIENCE_S: u32 = 604_800;
/// A server that is silent for this long is asked, in another session, whether it is at work: to
/// build a key or to add up a table may take hours, and nothing is heard of it meanwhile.
const SILENCE: Duration = Duration::from_secs(60);
/// How long that answer may take.
const ANSWER: Duration = Duration::from_secs(10);
/// What the target takes: everything that the source may hold (zero, partial and impossible
/// dates), but nothing that it would have to change.
const TARGET_MODE: &str = "STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES,\
                           NO_ENGINE_SUBSTITUTION";

/// A session at the source, for reading.
///
/// # Errors
/// What connecting or the server says.
pub fn source(dsn: &Dsn) -> Result<Connection, CopyError> {
    open(dsn, Side::Source, ", sql_mode = ''")
}

/// A session at the target, for writing.
///
/// # Errors
/// What connecting or the server says.
pub fn target(dsn: &Dsn) -> Result<Connection, CopyError> {
    let more = format!(", sql_mode = '{TARGET_MODE}', foreign_key_checks = 0");
    open(dsn, Side::Target, &more)
}

fn open(dsn: &Dsn, side: Side, more: &str) -> Result<Connection, CopyError> {
    // Names are quoted with their schema everywhere; a default database may not exist yet.
    let mut dsn = dsn.clone();
    dsn.database = None;
    // What the wire says names the endpoint.
    let connected = Connection::connect(&dsn);
    let mut connection = connected.map_err(CopyError::on(side, "opening a session"))?;
    connection.set_timeout(Some(SILENCE));
    let session = connection.connection_id();
    connection.ask_when_silent(Box::new(move || is_at_work(&dsn, session)));
    let limit = match connection.is_mariadb() {
        // It may also end transactions that wait, as a snapshot does while the target stores.
        true => {
            "max_statement_time = 0, idle_transaction_timeout = 0, \
             idle_readonly_transaction_timeout = 0, idle_write_transaction_timeout = 0"
        }
        false => "max_execution_time = 0",
    };
    let sql = format!(
        "SET NAMES utf8mb4, character_set_results = NULL, time_zone = '+00:00', \
         wait_timeout = {PATIENCE_S}, net_read_timeout = {PATIENCE_S}, \
         net_write_timeout = {PATIENCE_S}, {limit}{more}"
    );
    connection
        .query(sql.as_bytes())
        .map_err(CopyError::on(side, "setting the session up"))?;
    Ok(connection)
}

/// Whether a server goes on with the statement of this session. One that is there and has no room
/// for another session, or does not show it, is believed to.
fn is_at_work(dsn: &Dsn, session: u32) -> bool {
    let ask = || {
        let mut other = Connection::connect(dsn)?;
        other.set_timeout(Some(ANSWER));
        let sql = format!(
            "SELECT 1 FROM information_schema.PROCESSLIST \
             WHERE ID = {session} AND COMMAND <> 'Sleep'"
        );
        other.query_rows(sql.as_bytes())
    };
    match ask() {
        Ok(rows) => !rows.is_empty(),
        Err(error) => matches!(error, waggle_wire::Error::Server { .. }),
    }
}

/// Runs a statement at the target.
pub(crate) fn run(target: &mut Connection, sql: &str, doing: &str) -> Result<(), CopyError> {
    let done = target.query(sql.as_bytes());
    done.map(drop).map_err(CopyError::target(doing))
}
