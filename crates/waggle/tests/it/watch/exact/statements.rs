//! Statements of clients: as text, prepared, failed, large.

use waggle_server::Flavour;
use waggle_wire::Value;

use super::{assert_counts, assert_digests, observe_statements, pings, plugin, with_table};
use crate::watch::raw::RawClient;
use crate::watch::stage::{file, flavours, observe, run, settle};

#[test]
fn text_statements_and_several_in_a_packet() {
    for flavour in flavours() {
        let (server, mut connection) = with_table(flavour);
        let account = observe_statements(
            &server,
            &mut connection,
            &[
                ("SELECT 1", 0),
                ("SELECT id FROM t WHERE id = 2", 0),
                ("INSERT INTO t (v) VALUES ('x')", 0),
                ("BEGIN", 0),
                ("COMMIT", 0),
                ("SET @a = 1", 0),
                ("USE sbtest", 0),
                // Three, two and one statements; the last semicolon ends nothing.
                ("SELECT 1; SELECT 2; SELECT 3", 0),
                ("SELECT 4; SELECT 5;", 0),
                ("SELECT 6;", 0),
                // A packet ends with its first error: two statements each, the rest is not run.
                // What cannot be parsed has no end, so its text is the rest of the packet.
                ("SELECT 7; SELECT * FROM nope; SELECT 8", 1146),
                ("SELECT 9; SELEC 10; SELECT 11", 1064),
            ],
        );
        assert_counts("text", &account, 17, 17, 17 + pings(flavour, 1));
        assert_digests(
            "text",
            &account,
            &[
                (9, 0, "select ?"),
                (1, 0, "select id from t where id = ?"),
                (1, 0, "insert into t (v) values(?+)"),
                (1, 0, "begin"),
                (1, 0, "commit"),
                (1, 0, "set @a = ?"),
                (1, 0, "use ?"),
                (1, 1, "select * from nope"),
                (1, 1, "selec ?; select ?"),
            ],
        );
    }
}

#[test]
fn errors_and_statements_without_text() {
    for flavour in flavours() {
        let (server, mut connection) = with_table(flavour);
        let account = observe_statements(
            &server,
            &mut connection,
            &[
                ("SELEC 1", 1064),
                ("SELECT * FROM nope", 1146),
                ("SELECT * FROM nope", 1146),
                ("SELECT * FROM t WHERE nope = 1", 1054),
                ("INSERT INTO t (id) VALUES (1)", 1062),
                ("INSERT INTO t (id) VALUES (1000)", 0),
                ("KILL 999999", 1094),
                // A query that is empty is an error; one of comments only is not.
                ("", 1065),
                (";", 1065),
                (" ", 1065),
                ("/* c */", 0),
                ("-- x", 0),
            ],
        );
        assert_counts("errors", &account, 12, 12, 12 + pings(flavour, 1));
        assert_digests(
            "errors",
            &account,
            &[
                (1, 1, "selec ?"),
                (2, 2, "select * from nope"),
                (1, 1, "select * from t where nope = ?"),
                (2, 1, "insert into t (id) values(?+)"),
                (1, 1, "kill ?"),
                (5, 3, "(no text)"),
            ],
        );
    }
}

#[test]
fn prepared_before_the_attachment_and_after_it() {
    for flavour in flavours() {
        let (server, mut connection) = with_table(flavour);
        const SELECT: &[u8] = b"SELECT v FROM t WHERE id = ?";
        let mut select = connection.prepare(SELECT).expect("a statement");
        let mut insert = connection
            .prepare(b"INSERT INTO t (id) VALUES (?)")
            .expect("a statement");
        let (account, ()) = observe(&server, &[], |_| {
            for id in 1..=4 {
                connection
                    .execute(&mut select, &[Value::Int(id)])
                    .expect("a row");
            }
            connection
                .execute(&mut insert, &[Value::Int(100)])
                .expect("a new row");
            connection
                .execute(&mut insert, &[Value::Int(1)])
                .expect_err("a duplicate");
            // The same text, prepared while watched; and two that cannot be prepared.
            let mut again = connection.prepare(SELECT).expect("a statement");
            for id in 1..=3 {
                connection
                    .execute(&mut again, &[Value::Int(id)])
                    .expect("a row");
            }
            connection.prepare(b"SELEC").expect_err("no SQL");
            connection
                .prepare(b"SELECT * FROM nope")
                .expect_err("no such table");
            connection.close_statement(again).expect("it is closed");
            settle(&mut connection);
        });
        // `Queries` has 3 prepares and a close with both.
        let queries = 9 + 4 + pings(flavour, 1);
        assert_counts("prepared", &account, 9, 9, queries);
        assert_digests(
            "prepared",
            &account,
            &[
                (7, 0, "select v from t where id = ?"),
                (2, 1, "insert into t (id) values(?+)"),
            ],
        );
    }
}

#[test]
fn prepared_in_sql() {
    for flavour in flavours() {
        let (server, mut connection) = with_table(flavour);
        let account = observe_statements(
            &server,
            &mut connection,
            &[
                ("PREPARE s FROM 'SELECT ? + 1'", 0),
                ("SET @v = 2", 0),
                ("EXECUTE s USING @v", 0),
                ("EXECUTE s USING @v", 0),
                ("DEALLOCATE PREPARE s", 0),
                ("EXECUTE s USING @v", 1243),
                ("PREPARE s FROM 'SELEC'", 1064),
            ],
        );
        let mut digests = vec![
            (2, 1, "prepare s from ?"),
            (1, 0, "set @v = ?"),
            // What was executed, not that it was executed by name.
            (2, 0, "select ? + ?"),
            (1, 0, "deallocate prepare s"),
        ];
        if flavour == Flavour::MySql {
            digests.push((1, 1, "execute s using @v"));
            assert_counts("SQL", &account, 7, 7, 7 + pings(flavour, 1));
        } else {
            // MariaDB leaves the end of an EXECUTE to the statement it executes: one that names
            // none ends nothing.
            assert_counts("SQL", &account, 6, 7, 7);
        }
        assert_digests("SQL", &account, &digests);
        if flavour == Flavour::MariaDb {
            // Here, the statement ends, and then EXECUTE IMMEDIATE does: one question, two ends.
            let immediate = [("EXECUTE IMMEDIATE 'SELECT 77'", 0)];
            let account = observe_statements(&server, &mut connection, &immediate);
            assert_counts("EXECUTE IMMEDIATE", &account, 2, 1, 1);
            assert_digests(
                "EXECUTE IMMEDIATE",
                &account,
                &[(1, 0, "execute immediate ?"), (1, 0, "select ?")],
            );
        }
    }
}

#[test]
fn load_data_and_large_and_binary_statements() {
    for flavour in flavours() {
        let (server, mut connection) = with_table(flavour);
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::set_permissions(
            folder.path(),
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .expect("a mode");
        let rows = file(folder.path(), "rows", b"101\tx\n102\ty\n103\tz\n");
        let inside = server.lend(&rows).expect("the server sees it");
        let mut raw = RawClient::connect(&server, plugin(flavour));
        let (account, ()) = observe(&server, &[], |_| {
            let load = format!("LOAD DATA INFILE '{}' INTO TABLE t", inside.display());
            assert_eq!(connection.query(load.as_bytes()).expect("rows").affected, 3);
            for letter in ["x", "y"] {
                let large = format!("SELECT '{}' AS large", letter.repeat(1 << 20));
                run(&mut connection, &[&large]);
            }
            settle(&mut connection);
            // Bytes that are no text in any character set, a zero byte among them.
            raw.command_to_end(3, b"SELECT '\xff\xfe\x80\x81\0\x01\x1b[2J', 5", 2);
            raw.command(14, b"");
        });
        assert_counts("large", &account, 4, 4, 4 + pings(flavour, 2));
        assert_digests(
            "large",
            &account,
            &[
                (1, 0, "load data infile ? into table t"),
                // Cut within the literal, which says so; both are one.
                (2, 0, "select ? ..."),
                (1, 0, "select ?, ?"),
            ],
        );
        assert_eq!(account.report.number("/degraded/text_truncated"), 2);
        assert_eq!(account.report.number("/degraded/fields_unread"), 0);
    }
}
