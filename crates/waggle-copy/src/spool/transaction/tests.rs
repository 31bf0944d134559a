//! Events as servers send them, and as they never would.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::Position;
use crate::spool::state::Shared;
use crate::spool::{Reader, records};

fn table(name: &str) -> Table {
    let name = TableName {
        schema: "shop".to_owned(),
        name: name.to_owned(),
    };
    Table {
        number: 0,
        source: name.clone(),
        target: name,
        columns: Vec::new(),
        key: None,
        is_mariadb: true,
        definition: String::new(),
        rows_estimate: 0,
        bytes_estimate: 0,
        typed_json: Vec::new(),
    }
}

fn header(kind: u8) -> Header {
    Header {
        timestamp: 5,
        kind,
        server_id: 1,
        length: 0,
        next_position: 0,
        flags: 0,
    }
}

fn gtid(sequence: u64, flags: u8) -> (u8, Vec<u8>) {
    let mut body = sequence.to_le_bytes().to_vec();
    body.extend_from_slice(&0u32.to_le_bytes());
    body.push(flags);
    (kind::MARIADB_GTID, body)
}

fn query(sql: &str) -> (u8, Vec<u8>) {
    let mut body = vec![0; 8];
    body.extend_from_slice(&[4, 0, 0, 0, 0]);
    body.extend_from_slice(b"shop\0");
    body.extend_from_slice(sql.as_bytes());
    (kind::QUERY, body)
}

fn map(id: u8, name: &str) -> (u8, Vec<u8>) {
    let mut body = vec![id, 0, 0, 0, 0, 0, 1, 0, 4];
    body.extend_from_slice(b"shop\0");
    body.push(name.len() as u8);
    body.extend_from_slice(name.as_bytes());
    body.extend_from_slice(&[0, 1, 3, 0, 1]);
    (kind::TABLE_MAP, body)
}

fn rows(id: u8) -> (u8, Vec<u8>) {
    (
        kind::WRITE_ROWS_V1,
        vec![id, 0, 0, 0, 0, 0, 1, 0, 1, 1, 0, 9, 0, 0, 0],
    )
}

fn xid() -> (u8, Vec<u8>) {
    (kind::XID, vec![0; 8])
}

/// What is kept of these events, a word a record.
fn kept(dir: &Path, events: &[(u8, Vec<u8>)]) -> Result<Vec<String>, CopyError> {
    let shared = Arc::new(Shared::new(1 << 20));
    let from: Position = "mariadb:".parse().unwrap();
    let mut writer = Writer::open(dir, &from, 1 << 20, &shared)?;
    let mut assembler = Assembler::new(&[table("t")]);
    for (kind, body) in events {
        let event = Event {
            header: header(*kind),
            body,
        };
        assembler.take(&event, &mut writer)?;
    }
    let mut reader = Reader::open(dir, &shared, &from)?;
    let mut words = Vec::new();
    while reader.has_more() {
        words.extend(reader.next(Duration::ZERO)?.map(|record| match record {
            Record::Begin { .. } => "begin".to_owned(),
            Record::Skipped { .. } => "skipped".to_owned(),
            Record::Table(_) => "table".to_owned(),
            Record::Rows(..) => "rows".to_owned(),
            Record::Commit => "commit".to_owned(),
            other => format!("{other:?}").replace("Statement", "statement"),
        }));
    }
    Ok(words)
}

fn kept_of(events: &[(u8, Vec<u8>)]) -> String {
    let dir = tempfile::tempdir().unwrap();
    kept(dir.path(), events).unwrap().join(" ")
}

#[test]
fn only_what_concerns_the_tables_is_kept() {
    let events = [
        gtid(1, 0),
        map(7, "t"),
        map(8, "other"),
        rows(7),
        rows(8),
        xid(),
        gtid(2, 0),
        map(8, "other"),
        rows(8),
        query("COMMIT"),
        gtid(3, 1),
        query("CREATE TABLE other2 (a INT)"),
        // The number is another table's now.
        gtid(4, 0),
        map(7, "other"),
        rows(7),
        xid(),
    ];
    assert_eq!(
        kept_of(&events),
        "begin table rows commit skipped skipped skipped"
    );
}

#[test]
fn savepoints_and_rollbacks_take_back_what_they_should() {
    let events = [
        gtid(1, 0),
        query("SAVEPOINT `a`"),
        map(7, "t"),
        rows(7),
        query("SAVEPOINT `b`"),
        map(7, "t"),
        rows(7),
        query("ROLLBACK TO `b`"),
        rows(7),
        query("ROLLBACK TO `b`"),
        query("COMMIT"),
        gtid(2, 0),
        query("SAVEPOINT `a`"),
        map(7, "t"),
        rows(7),
        query("ROLLBACK TO `a`"),
        xid(),
        gtid(3, 0),
        map(7, "t"),
        rows(7),
        query("ROLLBACK"),
    ];
    assert_eq!(kept_of(&events), "begin table rows commit skipped skipped");
}

#[test]
fn definitions_and_prepared_transactions_are_kept() {
    let mut prepare = vec![0];
    prepare.extend_from_slice(&1u32.to_le_bytes());
    prepare.extend_from_slice(&1u32.to_le_bytes());
    prepare.extend_from_slice(&0u32.to_le_bytes());
    prepare.push(b'a');
    let events = [
        gtid(1, 1),
        query("DROP TABLE t"),
        gtid(2, 0),
        query("XA START X'61',X'',1"),
        map(7, "t"),
        rows(7),
        query("XA END X'61',X'',1"),
        (kind::XA_PREPARE, prepare.clone()),
        gtid(3, 1),
        query("XA COMMIT X'61',X'',1"),
        // MariaDB says it with a flag.
        gtid(4, 64),
        map(8, "other"),
        rows(8),
        query("XA END X'61',X'',1"),
        (kind::XA_PREPARE, prepare),
    ];
    let name = format!("{:?}", b"x'61',x'',1");
    let sql = format!("{:?}", b"DROP TABLE t");
    assert_eq!(
        kept_of(&events),
        format!(
            "begin statement({sql}) commit begin XaStart({name}) table rows Prepared({name}) \
             begin XaCommit({name}) commit begin XaStart({:?}) Prepared({name})",
            b"0-1-4"
        )
    );
}

#[test]
fn what_is_not_understood_is_never_passed_over() {
    for events in [
        vec![gtid(1, 0), gtid(2, 0)],
        vec![map(7, "t")],
        vec![xid()],
        vec![(ANONYMOUS, vec![0; 50])],
        vec![gtid(1, 0), (kind::PARTIAL_ROW_DATA, vec![0; 20])],
        vec![(kind::INCIDENT, vec![0; 3])],
        vec![gtid(1, 0), (99, vec![])],
        vec![gtid(1, 0), query("ROLLBACK TO `x`")],
        vec![gtid(1, 0), xid(), gtid(1, 0)],
    ] {
        let dir = tempfile::tempdir().unwrap();
        assert!(kept(dir.path(), &events).is_err(), "{events:?}");
    }
}

proptest! {
    #[test]
    fn damaged_events_are_answered(at in any::<usize>(), bit in 0u8..8) {
        let mut events = [
            gtid(1, 0), query("SAVEPOINT `b`"), map(7, "t"), rows(7), query("ROLLBACK TO `b`"),
            query("XA START X'61',X'',1"), (kind::XA_PREPARE, vec![0; 15]),
        ];
        let length: usize = events.iter().map(|(_, body)| body.len()).sum();
        let mut at = at % length;
        for (_, body) in &mut events {
            if at < body.len() {
                body[at] ^= 1 << bit;
                break;
            }
            at -= body.len();
        }
        let dir = tempfile::tempdir().unwrap();
        let _ = kept(dir.path(), &events);
        let _ = records(&events[2].1).count();
    }
}
