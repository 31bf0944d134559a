//! What a statement did: rows, warnings, flags, counters, lock time.

use waggle_server::Flavour;
use waggle_symbols::{FieldName, server_status};

use crate::stage::{Stage, flavours, value};

#[test]
fn rows_warnings_and_errors_are_what_the_client_heard() {
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        let mut session = stage.session(stage.server.dsn());
        for (sql, affected, warnings) in [
            ("UPDATE t SET v = v + 1 WHERE id <= 3", 3, 0),
            ("DELETE FROM t WHERE id = 10", 1, 0),
            ("INSERT IGNORE INTO t VALUES (1, 1), (10, 10), (2, 2)", 1, 2),
            (
                "SELECT CAST('abc' AS SIGNED), CAST('1x' AS SIGNED), 1/0",
                0,
                3,
            ),
            ("SELECT * FROM t", 0, 0),
        ] {
            let (seen, heard) = session.one(sql);
            let what = format!("{flavour}: {sql}: {seen:?}");
            assert_eq!(seen.number(FieldName::RowsAffected), affected, "{what}");
            assert_eq!(seen.number(FieldName::Warnings), warnings, "{what}");
            assert_eq!(heard.affected, affected, "{what}");
            assert_eq!(u64::from(heard.warnings), warnings, "{what}");
            assert_eq!(seen.number(FieldName::ErrorNumber), 0, "{what}");
        }
        // A failure changes nothing and warns of nothing, whatever the statement before it did.
        session.run("UPDATE t SET v = v + 1");
        let sql = "INSERT INTO t VALUES (1, 1)";
        let (all, heard) = session.observe_with(sql, |connection| connection.query(sql.as_bytes()));
        heard.expect_err("a duplicate key");
        assert_eq!(all[0].number(FieldName::ErrorNumber), 1062);
        assert_eq!(all[0].number(FieldName::RowsAffected), 0);
        assert_eq!(all[0].number(FieldName::Warnings), 0);
    }
}

#[test]
fn status_flags_are_those_of_the_statement() {
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        let mut session = stage.session(stage.server.dsn());
        let none = 0;
        let (open, no_index) = (server_status::IN_TRANSACTION, server_status::NO_INDEX_USED);
        for (sql, expected) in [
            ("SELECT v FROM t WHERE id = 1", none),
            ("SELECT id FROM t WHERE v = 1", no_index),
            ("BEGIN", open),
            ("UPDATE t SET v = 0 WHERE id = 1", open),
            ("SELECT id FROM t WHERE v = 1", open | no_index),
            ("COMMIT", none),
        ] {
            let (seen, _) = session.one(sql);
            let flags = u32::try_from(seen.number(FieldName::ServerStatus)).expect("32 bits");
            assert_eq!(
                flags & (open | no_index),
                expected,
                "{flavour}: {sql}: {flags:#x}"
            );
            assert_eq!(flags & 2, 2, "autocommit is on: {flags:#x}");
        }
        // An index is there for each row of the outer table, but none is good.
        session.run("CREATE TABLE k (a INT, b INT, KEY (a), KEY (b))");
        session.run("INSERT INTO k SELECT id, 11 - id FROM t");
        let sql = "SELECT COUNT(*) FROM t JOIN k ON k.a < t.v OR k.b > t.v + 5";
        let (seen, _) = session.one(sql);
        let no_good = u64::from(server_status::NO_GOOD_INDEX_USED);
        assert_eq!(
            seen.number(FieldName::ServerStatus) & no_good,
            no_good,
            "{flavour}"
        );
        let (seen, _) = session.one("SELECT v FROM t WHERE id = 1");
        assert_eq!(
            seen.number(FieldName::ServerStatus) & no_good,
            0,
            "{flavour}"
        );
    }
}

#[test]
fn counters_are_those_of_show_session_status() {
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        let mut session = stage.session(stage.server.dsn());
        session.run("CREATE TABLE s (w INT)");
        session.run("INSERT INTO s SELECT v FROM t");
        let on_disk = match flavour {
            Flavour::MySql => {
                "SET internal_tmp_mem_storage_engine = MEMORY, tmp_table_size = 1024, \
                 max_heap_table_size = 16384"
            }
            _ => "SET tmp_table_size = 0, max_heap_table_size = 16384",
        };
        let grouped = "SELECT SQL_BUFFER_RESULT v, COUNT(*) FROM t GROUP BY v ORDER BY 2";
        let big = "SELECT COUNT(*) FROM (SELECT DISTINCT \
                   CONCAT(REPEAT('x', 900), a.id, '-', b.id, '-', c.id) AS x \
                   FROM t a, t b, t c) AS y";
        let joined = "SELECT COUNT(*) FROM t JOIN s ON s.w < t.v";
        let counters = [
            (FieldName::TmpTables, "Created_tmp_tables"),
            (FieldName::TmpDiskTables, "Created_tmp_disk_tables"),
            (FieldName::SelectScan, "Select_scan"),
            (FieldName::SelectFullJoin, "Select_full_join"),
        ];
        let (mut before, _) = session.one("SELECT 1");
        let mut total = [0; 4];
        for sql in [
            grouped,
            joined,
            on_disk,
            big,
            "SELECT v FROM t WHERE id = 1",
        ] {
            let (seen, _) = session.one(sql);
            for (at, (name, variable)) in counters.into_iter().enumerate() {
                let shown = session.status(variable);
                assert_eq!(
                    seen.number(name),
                    shown,
                    "{flavour}: {variable} after {sql}"
                );
                total[at] += seen.number(name) - before.number(name);
            }
            before = seen;
        }
        // Each of them counted something, so that none agrees by being nought.
        assert!(total.iter().all(|grown| *grown > 0), "{flavour}: {total:?}");
    }
}

#[test]
fn bytes_are_those_of_show_session_status() {
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        let mut session = stage.session(stage.server.dsn());
        for sql in [
            "SELECT 1",
            "SELECT REPEAT('x', 5000)",
            "SELECT /* a longer text */ * FROM t",
        ] {
            let (seen, _) = session.one(sql);
            let sent = session.status("Bytes_sent");
            assert_eq!(seen.number(FieldName::BytesSent), sent, "{flavour}: {sql}");
            let (seen, _) = session.one(sql);
            let ask = "SHOW SESSION STATUS LIKE 'Bytes_received'";
            // Header and command byte of the question itself.
            let question = ask.len() as u64 + 4 + 1;
            let received: u64 = value(&mut session.connection, ask, 1)
                .parse()
                .expect("a number");
            assert_eq!(
                seen.number(FieldName::BytesReceived) + question,
                received,
                "{flavour}: {sql}"
            );
        }
    }
}
