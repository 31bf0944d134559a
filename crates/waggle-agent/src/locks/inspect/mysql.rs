//! The lock tables of MySQL 8.0 and later.
//!
//! `data_locks` is made anew for each reading, under a latch of the lock system: that is why it is
//! asked for the locks of waits only, and only while somebody waits.

use waggle_wire::{Connection, Error};

use super::rows::{self, Columns};
use super::{Finding, MetadataHold};

/// Ages are taken from the transactions' own start, which has whole seconds.
const ROW_WAITS: &str = "SELECT rx.trx_mysql_thread_id, bx.trx_mysql_thread_id, \
    rl.OBJECT_SCHEMA, rl.OBJECT_NAME, rl.INDEX_NAME, rl.LOCK_MODE, bl.LOCK_MODE, \
    TIMESTAMPDIFF(MICROSECOND, rx.trx_started, NOW(6)), \
    TIMESTAMPDIFF(MICROSECOND, bx.trx_started, NOW(6)) \
    FROM performance_schema.data_lock_waits w \
    JOIN performance_schema.data_locks rl ON rl.ENGINE_LOCK_ID = w.REQUESTING_ENGINE_LOCK_ID \
    AND rl.ENGINE = w.ENGINE \
    JOIN performance_schema.data_locks bl ON bl.ENGINE_LOCK_ID = w.BLOCKING_ENGINE_LOCK_ID \
    AND bl.ENGINE = w.ENGINE \
    JOIN information_schema.INNODB_TRX rx ON rx.trx_id = w.REQUESTING_ENGINE_TRANSACTION_ID \
    JOIN information_schema.INNODB_TRX bx ON bx.trx_id = w.BLOCKING_ENGINE_TRANSACTION_ID \
    LIMIT 1000";

const METADATA: &str = "SELECT t.PROCESSLIST_ID, m.OBJECT_TYPE, m.OBJECT_SCHEMA, \
    m.OBJECT_NAME, m.LOCK_TYPE, m.LOCK_STATUS = 'PENDING' \
    FROM performance_schema.metadata_locks m \
    JOIN performance_schema.threads t ON t.THREAD_ID = m.OWNER_THREAD_ID \
    WHERE EXISTS (SELECT 1 FROM performance_schema.metadata_locks p \
    WHERE p.LOCK_STATUS = 'PENDING' AND p.OBJECT_TYPE = m.OBJECT_TYPE \
    AND p.OBJECT_SCHEMA <=> m.OBJECT_SCHEMA AND p.OBJECT_NAME <=> m.OBJECT_NAME) \
    AND t.PROCESSLIST_ID IS NOT NULL LIMIT 5000";

/// Asks all that is known of the waits that go on.
pub(super) fn ask(connection: &mut Connection) -> Result<Finding, Error> {
    let mut finding = Finding::default();
    if !is_on(connection)? {
        finding.problem = Some("PERFORMANCE_SCHEMA is off".into());
        return Ok(finding);
    }
    finding.rows = rows::row_waits(connection, ROW_WAITS)?;
    finding.metadata = metadata(connection)?;
    finding.transactions = rows::transactions(connection)?;
    Ok(finding)
}

/// `metadata_locks`, which MariaDB has too if its PERFORMANCE_SCHEMA is on.
pub(super) fn metadata(connection: &mut Connection) -> Result<Vec<MetadataHold>, Error> {
    rows::holds(connection, METADATA)
}

/// Without it the tables of locks are empty, whoever waits.
fn is_on(connection: &mut Connection) -> Result<bool, Error> {
    let rows = rows::rows_of(connection, "SELECT @@performance_schema")?;
    Ok(rows.first().and_then(|row| Columns(row).number(0)) == Some(1))
}
