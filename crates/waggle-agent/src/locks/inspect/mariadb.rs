//! The lock tables of MariaDB.
//!
//! InnoDB's are snapshots that the server makes at most every 100 ms. Metadata locks are in
//! PERFORMANCE_SCHEMA if that is on, else in `METADATA_LOCK_INFO` if its plug-in is loaded, else
//! nowhere.

use waggle_wire::{Connection, Error};

use super::{Finding, MetadataHold, mysql, rows};

/// No such table; and no such database.
const MISSING: [u16; 3] = [1109, 1146, 1049];

const ROW_WAITS: &str = "SELECT rx.trx_mysql_thread_id, bx.trx_mysql_thread_id, \
    '', REPLACE(rl.lock_table, '`', ''), rl.lock_index, rl.lock_mode, bl.lock_mode, \
    TIMESTAMPDIFF(MICROSECOND, rx.trx_started, NOW(6)), \
    TIMESTAMPDIFF(MICROSECOND, bx.trx_started, NOW(6)) \
    FROM information_schema.INNODB_LOCK_WAITS w \
    JOIN information_schema.INNODB_LOCKS rl ON rl.lock_id = w.requested_lock_id \
    JOIN information_schema.INNODB_LOCKS bl ON bl.lock_id = w.blocking_lock_id \
    JOIN information_schema.INNODB_TRX rx ON rx.trx_id = w.requesting_trx_id \
    JOIN information_schema.INNODB_TRX bx ON bx.trx_id = w.blocking_trx_id \
    LIMIT 1000";

/// Who waits is not in `METADATA_LOCK_INFO`; the probes, or the process list, tell that.
const METADATA_INFO: &str = "SELECT THREAD_ID, LOCK_TYPE, TABLE_SCHEMA, TABLE_NAME, \
    LOCK_MODE, 0 FROM information_schema.METADATA_LOCK_INFO LIMIT 5000";

/// Asks all that is known of the waits that go on.
pub(super) fn ask(connection: &mut Connection) -> Result<Finding, Error> {
    let mut finding = Finding {
        rows: rows::row_waits(connection, ROW_WAITS)?,
        transactions: rows::transactions(connection)?,
        metadata: mysql::metadata(connection).or_else(without_table)?,
        ..Finding::default()
    };
    if finding.metadata.is_empty() {
        finding.metadata = rows::holds(connection, METADATA_INFO).or_else(without_table)?;
    }
    Ok(finding)
}

/// A table that this server does not have says nothing.
fn without_table(error: Error) -> Result<Vec<MetadataHold>, Error> {
    match error {
        Error::Server { errno, .. } if MISSING.contains(&errno) => Ok(Vec::new()),
        other => Err(other),
    }
}
