//! The lock tables of MariaDB.
//!
//! InnoDB's are snapshots that the server makes at most every 100 ms. Metadata locks are in
//! PERFORMANCE_SCHEMA if that is on, else in `METADATA_LOCK_INFO` if its plug-in is loaded, else
//! nowhere.

use waggle_wire::{Connection, Error};

use super::rows::Columns;
use super::{Finding, MetadataHold, RowWait, mysql};

/// No such table; and no such database.
const MISSING: [u16; 3] = [1109, 1146, 1049];

const ROW_WAITS: &str = "SELECT /* waggle */ rx.trx_mysql_thread_id, bx.trx_mysql_thread_id, \
    rl.lock_table, rl.lock_index, rl.lock_mode, bl.lock_mode, rl.lock_type, \
    TIMESTAMPDIFF(MICROSECOND, rx.trx_started, NOW(6)), \
    TIMESTAMPDIFF(MICROSECOND, bx.trx_started, NOW(6)) \
    FROM information_schema.INNODB_LOCK_WAITS w \
    JOIN information_schema.INNODB_LOCKS rl ON rl.lock_id = w.requested_lock_id \
    JOIN information_schema.INNODB_LOCKS bl ON bl.lock_id = w.blocking_lock_id \
    JOIN information_schema.INNODB_TRX rx ON rx.trx_id = w.requesting_trx_id \
    JOIN information_schema.INNODB_TRX bx ON bx.trx_id = w.blocking_trx_id \
    LIMIT 1000";

const TRANSACTIONS: &str = "SELECT /* waggle */ trx_mysql_thread_id, \
    TIMESTAMPDIFF(MICROSECOND, trx_started, NOW(6)) \
    FROM information_schema.INNODB_TRX LIMIT 5000";

/// Who waits is not in `METADATA_LOCK_INFO`; the probes, or the process list, tell that.
const METADATA_INFO: &str = "SELECT /* waggle */ THREAD_ID, LOCK_TYPE, TABLE_SCHEMA, TABLE_NAME, \
    LOCK_MODE FROM information_schema.METADATA_LOCK_INFO LIMIT 5000";

/// Asks all that is known of the waits that go on.
pub(super) fn ask(connection: &mut Connection) -> Result<Finding, Error> {
    let mut finding = Finding::default();
    for row in connection.query_rows(ROW_WAITS.as_bytes())? {
        let row = Columns(&row);
        let (Some(waiter), Some(blocker)) = (row.number(0), row.number(1)) else {
            continue;
        };
        finding.rows.push(RowWait {
            waiter,
            blocker,
            table: row.text(2).replace('`', ""),
            index: row.text(3),
            mode_wanted: row.text(4),
            mode_held: row.text(5),
            transaction_us: [row.number(7), row.number(8)],
        });
    }
    for row in connection.query_rows(TRANSACTIONS.as_bytes())? {
        let row = Columns(&row);
        finding
            .transactions
            .extend(row.number(0).zip(row.number(1)));
    }
    finding.metadata = mysql::metadata(connection).or_else(without_table)?;
    if finding.metadata.is_empty() {
        finding.metadata = held(connection).or_else(without_table)?;
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

fn held(connection: &mut Connection) -> Result<Vec<MetadataHold>, Error> {
    let rows = connection.query_rows(METADATA_INFO.as_bytes())?;
    let holds = rows.iter().filter_map(|row| {
        let row = Columns(row);
        let named = row.table(2, 3);
        Some(MetadataHold {
            connection_id: row.number(0)?,
            object: if named.is_empty() { row.text(1) } else { named },
            mode: row.text(4),
            is_pending: false,
        })
    });
    Ok(holds.collect())
}
