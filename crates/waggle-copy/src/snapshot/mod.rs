//! A consistent view of the source's tables by several sessions, and its position.
//!
//! A server's log has a transaction before its rows can be seen, so a position read beside a
//! snapshot may hold transactions that the snapshot lacks: those rows would be lost. Two ways lead
//! past that. MySQL: `LOCK TABLES … READ` waits for the metadata locks of every transaction that
//! wrote to the tables, which they keep until their rows can be seen and their numbers are in
//! `@@gtid_executed`; the position is read and the snapshots are opened before the lock goes.
//! MariaDB: the server says of each snapshot where in its log it is; sessions that say the same are
//! at one place, and only if that does not come about tables are locked there too.
//!
//! Neighbours: `range` and `ingest` read with the sessions, `spool` begins at the position.
//! Invariant: of the tables copied, a transaction is in the position if, and only if, its rows are
//! in every session's view.

use std::time::Duration;

use waggle_wire::{Connection, Dsn, Row};

use crate::control::Control;
use crate::error::{CopyError, Finding, Severity};
use crate::position::Position;
use crate::session;
use crate::table::Table;

/// How long the tables' locks may be waited for; statements of others wait behind meanwhile.
const LOCK_WAIT_S: u32 = 3;
/// Between two attempts, so that those who waited behind get on.
const LOCK_PAUSE: Duration = Duration::from_secs(2);
const LOCK_ATTEMPTS: u32 = 20;
/// Attempts to get MariaDB's sessions to one place without a lock.
const LUCK_ATTEMPTS: u32 = 10;

/// Sessions that see the same, and where that is.
#[derive(Debug)]
pub struct Snapshot {
    /// Where in the source's history.
    pub position: Position,
    /// Sessions inside the snapshot; at least one.
    pub readers: Vec<Connection>,
    /// One more inside of it, of tables whose JSON has to be asked about.
    pub spare: Option<Connection>,
}

impl Snapshot {
    fn new(position: Position, mut readers: Vec<Connection>, has_spare: bool) -> Snapshot {
        let spare = has_spare.then(|| readers.pop()).flatten();
        Snapshot {
            position,
            readers,
            spare,
        }
    }
}

/// Opens a snapshot of `tables` in `readers` sessions.
///
/// # Errors
/// What the source says; [`CopyError::Refused`] when it keeps no positions.
pub fn open(
    source: &Dsn,
    tables: &[Table],
    readers: usize,
    control: &Control,
) -> Result<Snapshot, CopyError> {
    let has_spare = tables.iter().any(|table| table.marks_json());
    let count = readers.max(1) + usize::from(has_spare);
    let mut sessions = Vec::with_capacity(count);
    for _ in 0..count {
        let mut session = session::source(source)?;
        let sql = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ";
        run(&mut session, sql, "choosing the isolation level")?;
        sessions.push(session);
    }
    let mut keeper = session::source(source)?;
    if keeper.is_mariadb() {
        if let Some(position) = without_locks(&mut keeper, &mut sessions)? {
            return Ok(Snapshot::new(position, sessions, has_spare));
        }
    } else {
        check_gtids(&mut keeper)?;
    }
    let position = behind_locks(&mut keeper, &mut sessions, tables, control)?;
    Ok(Snapshot::new(position, sessions, has_spare))
}

fn check_gtids(keeper: &mut Connection) -> Result<(), CopyError> {
    let sql = "SELECT @@GLOBAL.gtid_mode, @@GLOBAL.log_bin";
    let found = rows(keeper, sql, "reading gtid_mode")?;
    match (text(&found, 0).as_deref(), text(&found, 1).as_deref()) {
        (Some("ON"), Some("1")) => Ok(()),
        (mode, _) => Err(CopyError::Refused(vec![Finding {
            check: "position",
            severity: Severity::Refusal,
            reason: format!(
                "the source keeps no transaction numbers to tell a snapshot's position by \
                 (gtid_mode is {}, or its binary log is off)",
                mode.unwrap_or("unknown")
            ),
            remedy: "set log_bin, enforce_gtid_consistency=ON and gtid_mode=ON at the source"
                .into(),
        }])),
    }
}

/// MariaDB: opens all snapshots until the server gives all the same place in its log.
fn without_locks(
    keeper: &mut Connection,
    sessions: &mut [Connection],
) -> Result<Option<Position>, CopyError> {
    for _ in 0..LUCK_ATTEMPTS {
        let mut places = Vec::with_capacity(sessions.len());
        for session in sessions.iter_mut() {
            begin(session)?;
        }
        for session in sessions.iter_mut() {
            places.push(place(session)?);
        }
        if places.iter().all(|place| *place == places[0]) {
            return position_of(keeper, &places[0]).map(Some);
        }
    }
    Ok(None)
}

/// Opens all snapshots while nobody can write to the tables.
fn behind_locks(
    keeper: &mut Connection,
    sessions: &mut [Connection],
    tables: &[Table],
    control: &Control,
) -> Result<Position, CopyError> {
    let names: Vec<String> = tables
        .iter()
        .map(|table| format!("{} READ", table.source.quoted()))
        .collect();
    let lock = format!("LOCK TABLES {}", names.join(", "));
    let wait = format!("SET SESSION lock_wait_timeout = {LOCK_WAIT_S}");
    run(keeper, &wait, "limiting the wait for locks")?;
    let mut attempts = 0;
    while !names.is_empty() {
        attempts += 1;
        match run(keeper, &lock, "locking the tables for a moment") {
            Ok(()) => break,
            Err(error) if error.is_locked() && attempts < LOCK_ATTEMPTS => {
                control.wait(LOCK_PAUSE);
            }
            Err(error) => return Err(error),
        }
        if control.is_stopping() {
            return Err(CopyError::Stopped);
        }
    }
    let position = match keeper.is_mariadb() {
        false => {
            let found = rows(
                keeper,
                "SELECT @@GLOBAL.gtid_executed",
                "reading the position",
            )?;
            parse(false, text(&found, 0))?
        }
        true => {
            begin(&mut sessions[0])?;
            let place = place(&mut sessions[0])?;
            position_of(keeper, &place)?
        }
    };
    let opened = usize::from(keeper.is_mariadb());
    for session in &mut sessions[opened..] {
        begin(session)?;
    }
    run(keeper, "UNLOCK TABLES", "unlocking the tables")?;
    Ok(position)
}

fn begin(session: &mut Connection) -> Result<(), CopyError> {
    let sql = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY";
    run(session, sql, "opening a snapshot")
}

/// The log file and offset of a MariaDB session's snapshot.
fn place(session: &mut Connection) -> Result<(String, u64), CopyError> {
    let doing = "reading the snapshot's place in the log";
    let found = rows(session, "SHOW STATUS LIKE 'binlog_snapshot_%'", doing)?;
    let value = |name: &str| -> Option<String> {
        let row = found.iter().find(|row| {
            let is_named = |value: &Vec<u8>| value.eq_ignore_ascii_case(name.as_bytes());
            row.first().and_then(Option::as_ref).is_some_and(is_named)
        })?;
        String::from_utf8(row.get(1)?.clone()?).ok()
    };
    let file = value("binlog_snapshot_file").filter(|file| !file.is_empty());
    let offset = value("binlog_snapshot_position").and_then(|offset| offset.parse().ok());
    match (file, offset) {
        (Some(file), Some(offset)) => Ok((file, offset)),
        _ => Err(CopyError::Refused(vec![Finding {
            check: "position",
            severity: Severity::Refusal,
            reason: "the source says of no snapshot where in its binary log it is".into(),
            remedy: "set log_bin at the source".into(),
        }])),
    }
}

fn position_of(
    keeper: &mut Connection,
    (file, offset): &(String, u64),
) -> Result<Position, CopyError> {
    let sql = format!(
        "SELECT BINLOG_GTID_POS('{}', {offset})",
        file.replace('\'', "''")
    );
    let found = rows(keeper, &sql, "reading the position")?;
    parse(true, text(&found, 0))
}

fn parse(is_mariadb: bool, text: Option<String>) -> Result<Position, CopyError> {
    let text = text.ok_or_else(|| CopyError::Progress("the source gave no position".into()))?;
    // MySQL breaks its lines after each server.
    let text = text.replace(['\n', '\r'], "");
    Position::parse(is_mariadb, &text).map_err(|error| CopyError::Progress(error.to_string()))
}

fn text(rows: &[Row], column: usize) -> Option<String> {
    let value = rows.first()?.get(column)?.clone()?;
    String::from_utf8(value).ok()
}

fn run(session: &mut Connection, sql: &str, doing: &str) -> Result<(), CopyError> {
    let done = session.query(sql.as_bytes());
    done.map(drop).map_err(CopyError::source(doing))
}

fn rows(session: &mut Connection, sql: &str, doing: &str) -> Result<Vec<Row>, CopyError> {
    let found = session.query_rows(sql.as_bytes());
    found.map_err(CopyError::source(doing))
}
