//! The binary log of real servers: what it says of every type, against what the server says.

mod follow;
mod kinds;
mod mutations;
mod types;

use std::time::{Duration, Instant};

use waggle_server::Flavour;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_wire::binlog::event::kind;
use waggle_wire::binlog::gtid::{GtidSet, MariaDbPosition};
use waggle_wire::binlog::stream::{Dump, DumpRequest, Start};
use waggle_wire::{Connection, Row};

use crate::needs::flavours;
use follow::follow;

const SESSION: &str = "SET time_zone = '+00:00', character_set_client = binary, \
                       character_set_results = NULL, sql_mode = 'STRICT_ALL_TABLES', \
                       foreign_key_checks = 0";

fn each_server(test: impl Fn(Flavour, &Sandbox, &mut Connection)) {
    for flavour in flavours() {
        let mut spec = SandboxSpec::new(flavour)
            .set("log_bin", "bin")
            .set("server_id", "7")
            .set("binlog_format", "ROW")
            .set("binlog_row_metadata", "FULL")
            .set("max_allowed_packet", "67108864")
            .set("local_infile", "ON");
        if flavour == Flavour::MySql {
            spec = spec
                .set("gtid_mode", "ON")
                .set("enforce_gtid_consistency", "ON");
        }
        let sandbox = Sandbox::start(&spec).unwrap();
        let mut connection = connect(&sandbox);
        test(flavour, &sandbox, &mut connection);
        sandbox.stop().unwrap();
    }
}

fn connect(sandbox: &Sandbox) -> Connection {
    let mut connection = Connection::connect(&sandbox.dsn_socket()).unwrap();
    run(&mut connection, SESSION);
    connection
}

fn run(connection: &mut Connection, sql: &str) {
    run_bytes(connection, sql.as_bytes());
}

fn run_bytes(connection: &mut Connection, sql: &[u8]) {
    let outcome = connection.query(sql);
    outcome.unwrap_or_else(|error| panic!("{}: {error}", String::from_utf8_lossy(sql)));
}

fn one(connection: &mut Connection, sql: &str) -> String {
    let rows = connection.query_rows(sql.as_bytes()).unwrap();
    String::from_utf8(rows[0][0].clone().unwrap_or_default()).unwrap()
}

/// Where the server's log ends.
enum Position {
    MySql(GtidSet),
    MariaDb(MariaDbPosition),
}

impl Position {
    fn now(connection: &mut Connection) -> Position {
        match connection.is_mariadb() {
            true => {
                let text = one(connection, "SELECT @@global.gtid_binlog_pos");
                Position::MariaDb(text.parse().unwrap())
            }
            false => {
                let text = one(connection, "SELECT @@global.gtid_executed");
                Position::MySql(text.parse().unwrap())
            }
        }
    }

    fn start(&self) -> Start<'_> {
        match self {
            Position::MySql(set) => Start::Gtids(set),
            Position::MariaDb(position) => Start::MariaDb(position),
        }
    }
}

fn request(start: Start<'_>, ends: bool) -> DumpRequest<'_> {
    DumpRequest {
        server_id: 4711,
        start,
        heartbeat: Duration::from_secs(10),
        ends,
    }
}

fn shown(row: &Option<Row>) -> String {
    let Some(row) = row else {
        return "-".to_owned();
    };
    let value = |value: &Option<Vec<u8>>| match value {
        Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        None => "NULL".to_owned(),
    };
    row.iter().map(value).collect::<Vec<_>>().join(" ")
}

#[test]
fn updates_and_deletes_have_what_the_row_image_has() {
    each_server(|_, sandbox, connection| {
        run(
            connection,
            "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(9))",
        );
        run(
            connection,
            "INSERT INTO t VALUES (1, 10, 'x'), (2, 20, NULL)",
        );
        let position = Position::now(connection);
        run(
            connection,
            "BEGIN; UPDATE t SET a = 11; DELETE FROM t WHERE id = 1; COMMIT",
        );
        run(connection, "BEGIN; DELETE FROM t; ROLLBACK");
        run(
            connection,
            "SET binlog_row_image = 'MINIMAL'; UPDATE t SET id = 3, b = 'y'",
        );
        run(
            connection,
            "SET binlog_row_image = 'NOBLOB'; DELETE FROM t WHERE id = 3",
        );
        let followed = follow(sandbox, position.start(), "t");
        let changes: Vec<String> = followed
            .changes
            .iter()
            .map(|(action, before, after)| {
                format!("{action:?} {} > {}", shown(before), shown(after))
            })
            .collect();
        assert_eq!(
            changes,
            [
                "Update 1 10 x > 1 11 x",
                "Update 2 20 NULL > 2 11 NULL",
                "Delete 1 11 x > -",
                "Update 2 > 3 y",
                "Delete 3 11 y > -",
            ]
        );
        assert_eq!(followed.gtids.len(), 3);
    });
}

#[test]
fn compressed_events_hold_the_same_rows() {
    each_server(|flavour, sandbox, connection| {
        run(
            connection,
            "CREATE TABLE t (id INT PRIMARY KEY, body LONGTEXT)",
        );
        let mut runs = Vec::new();
        for compress in ["OFF", "ON"] {
            match flavour {
                Flavour::MySql => {
                    run(
                        connection,
                        &format!("SET binlog_transaction_compression = {compress}"),
                    );
                }
                Flavour::MariaDb => {
                    run(
                        connection,
                        &format!("SET GLOBAL log_bin_compress = {compress}"),
                    );
                }
            }
            let position = Position::now(connection);
            run(
                connection,
                "BEGIN; INSERT INTO t VALUES (1, REPEAT('a', 20000000)), (2, 'b')",
            );
            run(
                connection,
                "UPDATE t SET body = REPEAT('c', 70000) WHERE id = 2",
            );
            run(connection, "DELETE FROM t; COMMIT");
            runs.push(follow(sandbox, position.start(), "t"));
        }
        let packed = |kinds: &[u8]| {
            let is_packed = |kind: &u8| *kind == kind::TRANSACTION_PAYLOAD || *kind >= 165;
            kinds.iter().filter(|kind| is_packed(kind)).count()
        };
        assert_eq!(packed(&runs[0].kinds), 0);
        assert_ne!(packed(&runs[1].kinds), 0);
        assert_eq!(runs[0].changes.len(), 5);
        let body = runs[0].changes[0].2.as_ref().unwrap()[1].as_ref().unwrap();
        assert_eq!(body.len(), 20_000_000);
        // Not `assert_eq`, which would print them.
        assert!(runs[0].changes == runs[1].changes);
    });
}

#[test]
fn json_changes_are_what_was_changed() {
    each_server(|flavour, sandbox, connection| {
        if flavour == Flavour::MariaDb {
            return; // Its JSON is text.
        }
        run(
            connection,
            "CREATE TABLE t (id INT PRIMARY KEY, a JSON, b JSON)",
        );
        run(
            connection,
            "INSERT INTO t VALUES (1, '{}', '{\"k\": \"long enough\", \"l\": [1, 2, 3]}')",
        );
        run(
            connection,
            "SET binlog_row_value_options = PARTIAL_JSON, binlog_row_image = MINIMAL",
        );
        let position = Position::now(connection);
        run(connection, "UPDATE t SET b = JSON_REPLACE(b, '$.k', 1.5)");
        run(
            connection,
            "UPDATE t SET b = JSON_REMOVE(JSON_SET(b, '$.l[0]', 'x'), '$.k')",
        );
        let followed = follow(sandbox, position.start(), "t");
        let after = |at: usize| shown(&followed.changes[at].2);
        assert_eq!(followed.changes.len(), 2);
        assert_eq!(after(0), "Replace $.k 1.5;");
        assert_eq!(after(1), "Replace $.l[0] \"x\";Remove $.k;");
        assert!(followed.kinds.contains(&kind::PARTIAL_UPDATE_ROWS));
    });
}

#[test]
fn positions_are_those_that_the_server_names() {
    each_server(|flavour, sandbox, connection| {
        run(connection, "CREATE TABLE t (id INT PRIMARY KEY)");
        if flavour == Flavour::MySql {
            run(
                connection,
                "SET gtid_next = 'AUTOMATIC:blue'; INSERT INTO t VALUES (1)",
            );
            run(connection, "SET gtid_next = AUTOMATIC");
        }
        run(connection, "INSERT INTO t VALUES (2)");
        run(connection, "FLUSH BINARY LOGS");
        run(connection, "INSERT INTO t VALUES (3)");
        // From the second file's beginning.
        let start = Start::File {
            name: "bin.000002",
            position: 4,
        };
        let second = follow(sandbox, start, "t");
        assert_eq!(second.changes.len(), 1);
        // From after what the first file holds, and from the start of all.
        let empty = match flavour {
            Flavour::MySql => Position::MySql(GtidSet::default()),
            Flavour::MariaDb => Position::MariaDb(MariaDbPosition::default()),
        };
        let all = follow(sandbox, empty.start(), "t");
        assert!(
            all.statements
                .iter()
                .any(|sql| sql.starts_with("CREATE TABLE t"))
        );
        let executed = Position::now(connection);
        assert!(follow(sandbox, executed.start(), "t").gtids.is_empty());
        match &executed {
            Position::MySql(executed) => {
                let seen: GtidSet = all.gtids.join(",").parse().unwrap();
                assert_eq!(&seen, executed);
                let mut before = seen.clone();
                before.subtract(&second.gtids.join(",").parse().unwrap());
                assert_eq!(second.previous, before);
                let rest = follow(sandbox, Start::Gtids(&before), "t");
                assert_eq!(rest.gtids, second.gtids);
            }
            Position::MariaDb(executed) => {
                let last = all.gtids.last().unwrap();
                assert_eq!(&executed.to_string(), last);
                let before: MariaDbPosition = all.gtids[all.gtids.len() - 2].parse().unwrap();
                let rest = follow(sandbox, Start::MariaDb(&before), "t");
                assert_eq!(rest.gtids, second.gtids);
            }
        }
    });
}

#[test]
fn a_purged_log_is_an_error_and_a_quiet_one_has_heartbeats() {
    each_server(|flavour, sandbox, connection| {
        run(connection, "CREATE TABLE t (id INT PRIMARY KEY)");
        let mut ask = request(
            Start::File {
                name: "bin.000001",
                position: 4,
            },
            false,
        );
        ask.heartbeat = Duration::from_millis(100);
        let mut dump = Dump::start(connect(sandbox), &ask).unwrap();
        let is_beat = |kind: u8| matches!(kind, kind::HEARTBEAT | kind::HEARTBEAT_V2);
        let mut wait_for = |is_it: &dyn Fn(u8) -> bool| loop {
            let event = dump.next().unwrap().expect("a stream without an end");
            if is_it(event.header.kind) {
                return;
            }
        };
        wait_for(&is_beat);
        run(connection, "INSERT INTO t VALUES (1)");
        wait_for(&|kind| matches!(kind, kind::WRITE_ROWS | kind::WRITE_ROWS_V1));
        wait_for(&is_beat);
        drop(dump);

        let first = match flavour {
            Flavour::MySql => Position::MySql(GtidSet::default()),
            Flavour::MariaDb => Position::MariaDb("0-7-1".parse().unwrap()),
        };
        run(connection, "FLUSH BINARY LOGS");
        // A log may be held until the stream that reads it has noticed its end.
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            run(connection, "PURGE BINARY LOGS TO 'bin.000002'");
            let logs = connection.query_rows(b"SHOW BINARY LOGS").unwrap();
            if logs.len() == 1 {
                break;
            }
            assert!(Instant::now() < deadline, "the log is never purged");
            run(connection, "INSERT INTO t SELECT MAX(id) + 1 FROM t");
        }
        let mut dump = Dump::start(connect(sandbox), &request(first.start(), true)).unwrap();
        let error = loop {
            match dump.next() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("{flavour}: the log ended without an error"),
                Err(error) => break error,
            }
        };
        assert_eq!(error.errno(), Some(1236), "{error}");
        assert!(dump.next().is_err());
    });
}
