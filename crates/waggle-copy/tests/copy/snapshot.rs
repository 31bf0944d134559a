//! A snapshot's rows are those of the position that goes with it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use waggle_copy::{Control, Table, TableName, snapshot};
use waggle_server::Flavour;
use waggle_wire::Row;

use crate::stage::{Stage, flavours};

/// A server has a transaction in its log, and in the log's position, before its rows can be seen.
/// The naive way, a snapshot and the position beside it, loses such a row; ours never does.
#[test]
fn a_position_holds_what_its_snapshot_sees() {
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        stage.run(&["CREATE DATABASE a", "CREATE TABLE a.t (id INT PRIMARY KEY)"]);
        if flavour == Flavour::MySql {
            // Between the log and the engine, every commit takes a while.
            stage.run(&["SET GLOBAL binlog_group_commit_sync_delay = 200000"]);
            assert!(
                naive_loses(&stage),
                "the naive way lost nothing in a minute"
            );
        }
        ours_never_loses(&stage);
    }
}

/// Ends the writer, also when the reader fails: the scope waits for it.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whether a position beside a snapshot ever has a row that the snapshot lacks.
fn naive_loses(stage: &Stage) -> bool {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _over = Over(&over);
        scope.spawn(|| write(stage, &over));
        let mut reader = stage.connect();
        let mut lost = false;
        let deadline = Instant::now() + Duration::from_secs(60);
        while Instant::now() < deadline {
            let offset = |row: &Row| {
                String::from_utf8(row[1].clone().unwrap())
                    .unwrap()
                    .parse::<u64>()
                    .unwrap()
            };
            let snapshot = b"START TRANSACTION WITH CONSISTENT SNAPSHOT";
            reader.query(snapshot).unwrap();
            let position = offset(&reader.query_rows(b"SHOW BINARY LOG STATUS").unwrap()[0]);
            let seen = count(&reader.query_rows(b"SELECT COUNT(*) FROM a.t").unwrap());
            reader.query(b"COMMIT").unwrap();
            let logged = reader.query_rows(b"SHOW BINLOG EVENTS").unwrap();
            let is_row = |row: &&Row| {
                let text = |column: usize| String::from_utf8_lossy(row[column].as_ref().unwrap());
                let end: u64 = text(4).parse().unwrap();
                text(2) == "Write_rows" && end <= position
            };
            lost |= logged.iter().filter(is_row).count() as u64 > seen;
            if lost {
                break;
            }
        }
        lost
    })
}

/// Transactions that made the database and the table.
const MADE: u64 = 2;

fn ours_never_loses(stage: &Stage) {
    let over = AtomicBool::new(false);
    let name = TableName {
        schema: "a".into(),
        name: "t".into(),
    };
    let table = Table {
        number: 0,
        source: name.clone(),
        target: name,
        columns: Vec::new(),
        key: None,
        is_mariadb: stage.server.flavour() == Flavour::MariaDb,
        definition: String::new(),
        rows_estimate: 0,
        bytes_estimate: 0,
        typed_json: Vec::new(),
    };
    std::thread::scope(|scope| {
        let _over = Over(&over);
        scope.spawn(|| write(stage, &over));
        for _ in 0..5 {
            let tables = std::slice::from_ref(&table);
            let mut snapshot =
                snapshot::open(&stage.server.dsn_socket(), tables, 3, &Control::new()).unwrap();
            let counts: Vec<u64> = snapshot
                .readers
                .iter_mut()
                .map(|reader| count(&reader.query_rows(b"SELECT COUNT(*) FROM a.t").unwrap()))
                .collect();
            // One transaction a row, and no other since the table was made.
            let position = snapshot.position.to_string();
            let number = position.rsplit(['-', ':']).next().unwrap();
            let transactions: u64 = number.parse().unwrap();
            assert_eq!(counts, [transactions - MADE; 3], "{position}");
        }
    });
}

/// Inserts rows, a transaction each, until it is over.
fn write(stage: &Stage, over: &AtomicBool) {
    let mut connection = stage.connect();
    while !over.load(Ordering::Relaxed) {
        let next = b"INSERT INTO a.t SELECT COALESCE(MAX(id), 0) + 1 FROM a.t AS b";
        connection.query(next).unwrap();
    }
}

fn count(rows: &[Row]) -> u64 {
    String::from_utf8_lossy(rows[0][0].as_ref().unwrap())
        .parse()
        .unwrap()
}
