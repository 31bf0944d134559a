//! What the log tells is in the target: transactions, keys and values of every kind.

use std::collections::HashMap;
use std::time::Duration;

use waggle_copy::Position;
use waggle_server::Flavour;
use waggle_wire::binlog::event::kind;
use waggle_wire::binlog::rows::RowsEvent;
use waggle_wire::binlog::stream::{Dump, DumpRequest, Start};
use waggle_wire::binlog::table_map::TableMap;

use super::{
    STOPPED, assert_tables_equal, connect, end, replicate, run, stage, wait_until_applied,
};
use crate::copy::{Stage, flavours};

#[test]
fn transactions_arrive_whole_whatever_they_are_made_of() {
    for flavour in flavours() {
        let stage = stage(
            flavour,
            &[
                "CREATE TABLE t (id INT PRIMARY KEY, u INT, v VARCHAR(100), UNIQUE KEY u (u))",
                "CREATE TABLE other LIKE t",
                "INSERT INTO t SELECT 1, 1, 'one' UNION SELECT 2, 2, 'two' UNION SELECT 3, 3, ''",
            ],
        );
        let copier = replicate(&stage);
        let mut source = connect(&stage);
        for sql in [
            // Values of a unique key change places; the key of a row changes, and back.
            "BEGIN; UPDATE t SET u = NULL WHERE id = 1; UPDATE t SET u = 1 WHERE id = 2; \
             UPDATE t SET u = 2 WHERE id = 1; COMMIT",
            "UPDATE t SET id = id + 10",
            "UPDATE t SET id = id - 5 ORDER BY id",
            "BEGIN; DELETE FROM t WHERE id = 6; INSERT INTO t VALUES (6, 9, 'new'); COMMIT",
            "REPLACE INTO t VALUES (20, 9, 'pushes 6 out')",
            "INSERT INTO t VALUES (20, 0, '') ON DUPLICATE KEY UPDATE v = 'twice'",
            "INSERT IGNORE INTO t VALUES (20, 0, ''), (21, 21, '\\\\N'), (22, NULL, NULL)",
            // Two tables, and a part of a transaction that is taken back.
            "BEGIN; INSERT INTO other SELECT * FROM t; SAVEPOINT s; DELETE FROM other; \
             INSERT INTO t VALUES (30, 30, 'not to be'); ROLLBACK TO s; \
             INSERT INTO t VALUES (31, 31, 'to be'); COMMIT",
            "BEGIN; DELETE FROM t; ROLLBACK",
            "UPDATE t, other SET t.v = 'both', other.v = 'both' WHERE t.id = other.id",
        ] {
            run(&mut source, sql);
        }
        if flavour == Flavour::MariaDb {
            // A table without transactions makes the server write savepoints into the log.
            stage.run(&["CREATE TABLE b.plain (id INT) ENGINE = MyISAM"]);
            run(
                &mut source,
                "BEGIN; INSERT INTO t VALUES (40, 40, 'stays'); SAVEPOINT `a b`; \
                 INSERT INTO b.plain VALUES (1); INSERT INTO t VALUES (41, 41, 'goes'); \
                 ROLLBACK TO `a b`; INSERT INTO t VALUES (42, 42, 'stays'); COMMIT",
            );
        }
        wait_until_applied(&stage);
        assert_tables_equal(&stage);
        assert_eq!(
            stage
                .value("SELECT COUNT(*) FROM b.t WHERE id = 41")
                .unwrap(),
            "0"
        );
        end(copier);
    }
}

/// Changed rows of database `a` in the binary log after a position.
fn logged_rows(stage: &Stage, position: &Position) -> u64 {
    let request = DumpRequest {
        server_id: 987_654,
        start: match position {
            Position::MySql(set) => Start::Gtids(set),
            Position::MariaDb(list) => Start::MariaDb(list),
        },
        heartbeat: Duration::from_secs(5),
        ends: true,
    };
    let mut dump = Dump::start(stage.connect(), &request).unwrap();
    let mut maps: HashMap<u64, TableMap> = HashMap::new();
    let mut count = 0;
    while let Some(event) = dump.next().unwrap() {
        if event.header.kind == kind::TABLE_MAP {
            let map = TableMap::parse(event.body).unwrap();
            maps.insert(map.id, map);
        } else if let Some(event) = RowsEvent::parse(event.header.kind, event.body).unwrap() {
            let map = &maps[&event.table_id()];
            if map.schema == b"a" {
                let mut rows = event.rows(map).unwrap();
                while rows.next().unwrap().is_some() {
                    count += 1;
                }
            }
        }
    }
    count
}

/// Statements that the log tells as other changes than they say, while rows are copied.
#[test]
fn rows_that_take_the_place_of_others_are_applied_and_counted_as_logged() {
    for flavour in flavours() {
        let stage = stage(
            flavour,
            &[
                "CREATE TABLE p (id INT PRIMARY KEY, v VARCHAR(400))",
                "INSERT INTO p WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n \
                 WHERE i < 900), m AS (SELECT 0 AS k UNION ALL SELECT k + 1 FROM m WHERE k < 5) \
                 SELECT i + 900 * k, REPEAT('p', 300) FROM n, m",
                "CREATE TABLE t (id INT PRIMARY KEY, u INT, v VARCHAR(30), UNIQUE KEY u (u))",
                "INSERT INTO t SELECT id, id * 10, 'first' FROM p",
            ],
        );
        let slow = ["--max-rate", "1", "--ranges", "1", "--slice", "1"];
        let copier = stage.begin(&[&STOPPED[..], &slow].concat());
        let copied = "SELECT SUM(rows_copied) FROM waggle_copy.ranges";
        stage.wait(copied, |rows| {
            rows.parse::<u64>().is_ok_and(|rows| rows > 1)
        });
        // Changes after the snapshot are the log's after this.
        let begun = stage
            .value("SELECT position FROM waggle_copy.jobs")
            .unwrap();
        let begun: Position = begun.parse().unwrap();
        let mut source = connect(&stage);
        for sql in [
            "REPLACE INTO p VALUES (5, 'replaced')",
            "REPLACE INTO p VALUES (5, 'replaced')",
            // Takes the place of two rows.
            "REPLACE INTO t VALUES (5, 70, 'two')",
            "REPLACE INTO t SELECT id, id * 10 + 10, 'shifted' FROM p WHERE id BETWEEN 500 AND 520",
            "INSERT INTO t VALUES (9, 1, '') ON DUPLICATE KEY UPDATE u = u + 1, v = 'updated'",
            "INSERT INTO t VALUES (100001, 100001, 'new') ON DUPLICATE KEY UPDATE v = 'never'",
            "INSERT INTO t VALUES (11, 110, 'same') ON DUPLICATE KEY UPDATE v = t.v",
            "INSERT INTO t VALUES (13, -1, ''), (100002, 140, ''), (100003, 100003, 'new') \
             ON DUPLICATE KEY UPDATE id = t.id + 200000, v = 'moved'",
            "BEGIN; DELETE FROM t WHERE id BETWEEN 20 AND 400; INSERT INTO t SELECT id, id * 10, \
             'again' FROM p WHERE id BETWEEN 20 AND 300; COMMIT",
            "UPDATE t SET id = id + 1000000 WHERE id BETWEEN 1000 AND 1100",
            "BEGIN; DELETE FROM p WHERE id > 5000; INSERT INTO p SELECT id + 100, v FROM p \
             WHERE id > 4900; DELETE FROM p WHERE id > 5000 AND id % 2 = 0; COMMIT",
        ] {
            run(&mut source, sql);
        }
        wait_until_applied(&stage);
        assert_tables_equal(&stage);
        let document = end(copier);
        let logged = logged_rows(&stage, &begun);
        assert!(logged > 800, "{flavour}: {logged}");
        assert_eq!(document["changes"], logged, "{flavour}");
    }
}

#[test]
fn prepared_transactions_count_from_their_commit_on() {
    for flavour in flavours() {
        let stage = stage(flavour, &["CREATE TABLE t (id INT PRIMARY KEY, v INT)"]);
        let copier = replicate(&stage);
        let mut source = connect(&stage);
        for (name, id) in [("kept", 1), ("undone", 2)] {
            let sql = format!(
                "XA START '{name}'; INSERT INTO t VALUES ({id}, 0); XA END '{name}'; \
                 XA PREPARE '{name}'"
            );
            run(&mut source, &sql);
            source = connect(&stage);
        }
        run(
            &mut source,
            "XA START 'at once'; INSERT INTO t VALUES (3, 0); XA END 'at once'; \
             XA COMMIT 'at once' ONE PHASE",
        );
        wait_until_applied(&stage);
        let copied = "SELECT GROUP_CONCAT(id ORDER BY id) FROM b.t";
        assert_eq!(stage.value(copied).as_deref(), Some("3"), "{flavour}");
        // Another process, which has not seen the changes come.
        end(copier);
        let copier = replicate(&stage);
        run(&mut source, "XA COMMIT 'kept'");
        run(&mut source, "XA ROLLBACK 'undone'");
        wait_until_applied(&stage);
        assert_eq!(stage.value(copied).as_deref(), Some("1,3"), "{flavour}");
        let left = "SELECT COUNT(*) FROM waggle_copy.prepared";
        assert_eq!(stage.value(left).as_deref(), Some("0"));
        end(copier);
    }
}

#[test]
fn compressed_and_partial_events_arrive_as_what_they_stand_for() {
    for flavour in flavours() {
        let column = match flavour {
            Flavour::MySql => "JSON",
            Flavour::MariaDb => "TEXT COMPRESSED",
        };
        let table = format!("CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT, j {column})");
        let stage = stage(flavour, &[&table]);
        let copier = replicate(&stage);
        let mut source = connect(&stage);
        match flavour {
            Flavour::MySql => {
                let on = "SET binlog_transaction_compression = ON, \
                          binlog_row_value_options = PARTIAL_JSON";
                run(&mut source, on);
            }
            Flavour::MariaDb => {
                run(&mut source, "SET GLOBAL log_bin_compress = ON");
                source = connect(&stage);
            }
        }
        run(
            &mut source,
            "INSERT INTO t VALUES (1, REPEAT('a', 200000), '{\"a\": [1, 2.5, \"x\"], \"b\": {}}'), \
             (2, 'b', '[]'), (3, NULL, NULL)",
        );
        run(
            &mut source,
            "UPDATE t SET v = REPEAT('\\'', 70000) WHERE id = 2",
        );
        if flavour == Flavour::MySql {
            for sql in [
                "UPDATE t SET j = JSON_REPLACE(j, '$.a[1]', CAST(1.50 AS DECIMAL(5,2))) \
                 WHERE id = 1",
                "UPDATE t SET j = JSON_SET(JSON_REMOVE(j, '$.a[0]'), '$.b.\"k]\"', JSON_ARRAY()) \
                 WHERE id = 1",
                "UPDATE t SET j = JSON_ARRAY_INSERT(j, '$.a[0]', CAST('2026-11-20' AS DATE)) \
                 WHERE id = 1",
                "UPDATE t SET j = JSON_SET(j, '$.a[1]', 1e22, '$.c', 18446744073709551615)",
            ] {
                run(&mut source, sql);
            }
        }
        wait_until_applied(&stage);
        assert_tables_equal(&stage);
        if flavour == Flavour::MySql {
            let types = |database: &str| {
                stage.rows(&format!(
                    "SELECT JSON_TYPE(j->'$.a[0]'), JSON_TYPE(j->'$.a[1]'), JSON_TYPE(j->'$.c') \
                     FROM {database}.t ORDER BY id"
                ))
            };
            assert_eq!(types("a"), types("b"));
        }
        end(copier);
    }
}

#[test]
fn keys_of_every_kind_find_their_rows() {
    for flavour in flavours() {
        let kinds = [
            ("s", "VARCHAR(20) CHARACTER SET latin1", "CONCAT('\\'é', n)"),
            (
                "c",
                "CHAR(10) COLLATE utf8mb4_general_ci",
                "CONCAT('A', n, ' ')",
            ),
            ("b", "BINARY(4)", "CONCAT(X'5c00', CHAR(n))"),
            ("vb", "VARBINARY(20)", "CONCAT(X'30781a', n)"),
            ("u", "BIGINT UNSIGNED", "18446744073709551615 - n"),
            ("d", "DECIMAL(30,10)", "-n / 7"),
            ("dt", "DATETIME(6)", "'2026-01-01' + INTERVAL n MICROSECOND"),
            (
                "ts",
                "TIMESTAMP(3)",
                "'2026-01-01 00:00:00' + INTERVAL n SECOND",
            ),
            ("e", "ENUM('x','y','z','w')", "1 + n % 4"),
            ("bits", "BIT(60)", "1152921504606846975 - n"),
        ];
        let tables: Vec<String> = kinds
            .iter()
            .flat_map(|(name, kind, value)| {
                [
                    format!(
                        "CREATE TABLE k_{name} (k {kind} NOT NULL, n INT NOT NULL, v INT, \
                         g INT AS (v + 1) VIRTUAL, PRIMARY KEY (k, n))"
                    ),
                    format!(
                        "INSERT INTO k_{name} (k, n, v) SELECT {value}, n, 0 FROM (SELECT 1 AS n \
                         UNION SELECT 2 UNION SELECT 3 UNION SELECT 4) AS numbers"
                    ),
                ]
            })
            .collect();
        let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
        let stage = stage(flavour, &tables);
        let copier = replicate(&stage);
        let mut source = connect(&stage);
        for (name, ..) in kinds {
            run(
                &mut source,
                &format!("UPDATE k_{name} SET v = n WHERE n < 4"),
            );
            run(&mut source, &format!("DELETE FROM k_{name} WHERE n = 2"));
            run(
                &mut source,
                &format!("UPDATE k_{name} SET n = 9 WHERE n = 3"),
            );
        }
        // The same key for the collation, another one in bytes.
        run(&mut source, "UPDATE k_c SET k = LOWER(k)");
        wait_until_applied(&stage);
        assert_tables_equal(&stage);
        assert_eq!(stage.value("SELECT COUNT(*) FROM b.k_bits").unwrap(), "3");
        end(copier);
    }
}
