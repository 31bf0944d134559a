//! What the client reads from real servers: every type, every size, several results, breakdowns.

use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use waggle_server::Flavour;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_server::status::GlobalStatus;
use waggle_wire::{Connection, Error, Row, TextResults, Value};

use crate::needs::flavours;

const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `test` over TCP and over the socket.
fn over_both(
    flavour: Flavour,
    sandbox: &Sandbox,
    test: &impl Fn(Flavour, &Sandbox, &mut Connection),
) {
    for dsn in [sandbox.dsn(), sandbox.dsn_socket()] {
        let mut connection = Connection::connect(&dsn).unwrap();
        test(flavour, sandbox, &mut connection);
    }
}

/// Runs `test` on a server of each family, one for all tests, which take it in turns.
fn each_server(test: impl Fn(Flavour, &Sandbox, &mut Connection)) {
    static SERVERS: [Mutex<Option<Sandbox>>; 2] = [Mutex::new(None), Mutex::new(None)];
    for flavour in flavours() {
        let place = &SERVERS[usize::from(flavour == Flavour::MariaDb)];
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        let sandbox = place.get_or_insert_with(|| {
            let spec = SandboxSpec::new(flavour).set("max_allowed_packet", "67108864");
            Sandbox::start(&spec).unwrap()
        });
        over_both(flavour, sandbox, &test);
        assert_eq!(sandbox.ended(Duration::ZERO).unwrap(), None, "{flavour}");
    }
}

fn run(connection: &mut Connection, sql: &str) {
    connection
        .query(sql.as_bytes())
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
}

fn one(connection: &mut Connection, sql: &str) -> Option<String> {
    let rows = connection.query_rows(sql.as_bytes()).unwrap();
    let value = rows.first()?.first()?.clone()?;
    Some(String::from_utf8(value).unwrap())
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        // sleep: looking all the time would take the processor from who is waited for
        thread::sleep(Duration::from_millis(1));
    }
}

fn shown(rows: &[Row]) -> Vec<Vec<String>> {
    let value = |value: &Option<Vec<u8>>| match value {
        Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        None => "NULL".to_owned(),
    };
    rows.iter()
        .map(|row| row.iter().map(value).collect())
        .collect()
}

/// Type, and two values beside NULL.
const TYPES: [(&str, &str, &str); 34] = [
    ("TINYINT", "-128", "127"),
    ("TINYINT UNSIGNED", "0", "255"),
    ("SMALLINT", "-32768", "32767"),
    ("SMALLINT UNSIGNED", "0", "65535"),
    ("MEDIUMINT", "-8388608", "8388607"),
    ("MEDIUMINT UNSIGNED", "0", "16777215"),
    ("INT", "-2147483648", "2147483647"),
    ("INT UNSIGNED", "0", "4294967295"),
    ("BIGINT", "-9223372036854775808", "9223372036854775807"),
    ("BIGINT UNSIGNED", "0", "18446744073709551615"),
    ("FLOAT", "-1.5", "0.25"),
    ("DOUBLE", "-0.1", "123456.789"),
    ("DECIMAL(30,10)", "-1.5", "12345678901234567890.0123456789"),
    ("BIT(1)", "b'0'", "b'1'"),
    ("BIT(64)", "b'101'", "~0"),
    ("YEAR", "1901", "2155"),
    ("DATE", "'1000-01-01'", "'9999-12-31'"),
    ("TIME", "'-838:59:59'", "'838:59:59'"),
    ("TIME(6)", "'00:00:00.000001'", "'-12:34:56.789'"),
    ("DATETIME", "'1000-01-01 00:00:00'", "'9999-12-31 23:59:59'"),
    (
        "DATETIME(3)",
        "'2026-02-28 00:00:00'",
        "'2026-11-20 01:02:03.456'",
    ),
    (
        "TIMESTAMP(6) NULL",
        "'1971-01-01 00:00:00'",
        "'2037-12-31 23:59:59.999999'",
    ),
    ("CHAR(10)", "''", "'zehn'"),
    ("VARCHAR(300)", "'é😀'", "REPEAT('v', 300)"),
    ("BINARY(4)", "x'00'", "x'deadbeef'"),
    ("VARBINARY(9)", "''", "x'00ff00'"),
    ("TINYBLOB", "''", "REPEAT(x'00', 255)"),
    ("BLOB", "REPEAT(x'fb', 250)", "REPEAT(x'fe', 65535)"),
    ("MEDIUMTEXT", "REPEAT('m', 251)", "REPEAT('m', 70000)"),
    ("LONGTEXT", "''", "REPEAT('l', 65536)"),
    ("ENUM('a','b')", "'a'", "'b'"),
    ("SET('x','y','z')", "''", "'x,z'"),
    ("JSON", "'{\"a\": [1, null]}'", "'\"text\"'"),
    (
        "GEOMETRY",
        "ST_GeomFromText('POINT(1 2)')",
        "ST_GeomFromText('LINESTRING(0 0,1 1)')",
    ),
];

#[test]
fn every_type_reads_alike_as_text_and_binary() {
    each_server(|flavour, _, connection| {
        let columns: Vec<String> = TYPES
            .iter()
            .enumerate()
            .map(|(i, (kind, ..))| format!("c{i} {kind}"))
            .collect();
        run(connection, "DROP TABLE IF EXISTS kinds");
        run(
            connection,
            &format!(
                "CREATE TABLE kinds (id INT PRIMARY KEY, {})",
                columns.join(", ")
            ),
        );
        let values = |pick: fn(&(&'static str, &'static str, &'static str)) -> &'static str| {
            TYPES.iter().map(pick).collect::<Vec<_>>().join(", ")
        };
        for (id, row) in [values(|t| t.1), values(|_| "NULL"), values(|t| t.2)]
            .iter()
            .enumerate()
        {
            run(
                connection,
                &format!("INSERT INTO kinds VALUES ({id}, {row})"),
            );
        }
        const ALL: &[u8] = b"SELECT * FROM kinds ORDER BY id";
        let text = connection.query_rows(ALL).unwrap();
        assert_eq!((text.len(), text[0].len()), (3, TYPES.len() + 1));
        let mut statement = connection.prepare(ALL).unwrap();
        // The second execution may come without the columns, a skipped one lies between.
        for _ in 0..2 {
            let binary = connection.execute_rows(&mut statement, &[]).unwrap();
            for (text, binary) in text.iter().zip(&binary) {
                for (i, (text, binary)) in text.iter().zip(binary).enumerate() {
                    let kind = TYPES[i.saturating_sub(1)].0;
                    assert_eq!(text, binary, "{flavour}: {kind}");
                }
            }
            assert_eq!(text, binary);
            assert_eq!(connection.execute(&mut statement, &[]).unwrap().rows, 3);
        }
        // Columns that change under the statement are read by their new types.
        run(connection, "ALTER TABLE kinds MODIFY c0 BIGINT");
        assert_eq!(connection.execute(&mut statement, &[]).unwrap().rows, 3);
        let binary = connection.execute_rows(&mut statement, &[]).unwrap();
        assert_eq!(shown(&binary), shown(&connection.query_rows(ALL).unwrap()));
    });
}

#[test]
fn parameters_arrive_as_given_whatever_their_types_before() {
    each_server(|flavour, _, connection| {
        run(connection, "DROP TABLE IF EXISTS given");
        run(
            connection,
            "CREATE TABLE given (id INT PRIMARY KEY AUTO_INCREMENT, a VARCHAR(50), b VARCHAR(50))",
        );
        let long = "x".repeat(50);
        let values = [
            (Value::Null, None),
            (Value::Int(i64::MIN), Some("-9223372036854775808")),
            (Value::Int(7), Some("7")),
            (Value::UInt(u64::MAX), Some("18446744073709551615")),
            (Value::Double(-0.5), Some("-0.5")),
            (Value::Bytes(b""), Some("")),
            (Value::Bytes("é😀".as_bytes()), Some("é😀")),
            (Value::Bytes(long.as_bytes()), Some(&long[..])),
        ];
        let mut insert = connection
            .prepare(b"INSERT INTO given (a, b) VALUES (?, ?)")
            .unwrap();
        let mut expected = Vec::new();
        for (a, a_text) in values {
            for (b, b_text) in values {
                let done = connection.execute(&mut insert, &[a, b]).unwrap();
                assert_eq!((done.affected, done.result_sets), (1, 0));
                assert_eq!(done.last_insert_id, expected.len() as u64 + 1);
                expected.push([a_text, b_text].map(|text| text.unwrap_or("NULL").to_owned()));
            }
        }
        let rows = connection
            .query_rows(b"SELECT a, b FROM given ORDER BY id")
            .unwrap();
        assert_eq!(shown(&rows), expected, "{flavour}");
        let mut refused = connection
            .prepare(b"INSERT INTO given (id, a) VALUES (?, ?)")
            .unwrap();
        for (id, outcome) in [
            (900, None),
            (900, Some(1062)),
            (901, None),
            (901, Some(1062)),
        ] {
            let done = connection.execute(&mut refused, &[Value::Int(id), Value::Double(0.5)]);
            assert_eq!(done.err().and_then(|error| error.errno()), outcome);
        }
        assert!(connection.is_usable());
    });
}

#[test]
fn all_results_of_a_command_are_read() {
    each_server(|_, _, connection| {
        run(connection, "DROP PROCEDURE IF EXISTS several");
        run(
            connection,
            "CREATE PROCEDURE several(n INT) BEGIN SELECT n; SELECT 1, 2 UNION ALL SELECT 3, 4; \
             DO 1; SELECT 'x' WHERE FALSE; END",
        );
        let mut results = TextResults::default();
        let sql = b"SELECT 1; DO 0; SELECT 2, NULL UNION SELECT 3, 4; CALL several(5)";
        let summary = connection.query_text(sql, &mut results).unwrap();
        assert_eq!((summary.result_sets, summary.rows), (5, 6));
        let shape: Vec<_> = (0..5)
            .map(|i| (results.columns(i), results.rows(i)))
            .collect();
        assert_eq!(shape, [(1, 1), (2, 2), (1, 1), (2, 2), (1, 0)]);
        assert_eq!(
            results.row(1, 0).collect::<Vec<_>>(),
            [Some(&b"2"[..]), None]
        );
        let mut call = connection.prepare(b"CALL several(?)").unwrap();
        for n in 0..3 {
            let summary = connection.execute(&mut call, &[Value::Int(n)]).unwrap();
            assert_eq!((summary.result_sets, summary.rows), (3, 3));
            let rows = connection
                .execute_rows(&mut call, &[Value::Int(n)])
                .unwrap();
            assert_eq!(shown(&rows), [[n.to_string()]]);
        }
        // The statements after the one that fails are not run.
        let error = connection
            .query(b"SELECT 1; SELECT nope; DO 1")
            .unwrap_err();
        assert_eq!(error.errno(), Some(1054));
        assert_eq!(one(connection, "SELECT 5").as_deref(), Some("5"));
    });
}

#[test]
fn whether_a_transaction_is_open_is_known() {
    each_server(|_, sandbox, connection| {
        run(
            connection,
            "CREATE TABLE IF NOT EXISTS rows_1 (id INT PRIMARY KEY)",
        );
        run(connection, "INSERT IGNORE INTO rows_1 VALUES (1)");
        assert!(!connection.in_transaction());
        run(connection, "BEGIN; DELETE FROM rows_1");
        assert!(connection.in_transaction());
        let mut other = Connection::connect(&sandbox.dsn()).unwrap();
        run(
            &mut other,
            "SET innodb_lock_wait_timeout = 1; BEGIN; SELECT 1",
        );
        let error = other.query(b"DELETE FROM rows_1").unwrap_err();
        assert_eq!(error.errno(), Some(1205));
        assert!(other.in_transaction(), "only the statement was undone");
        run(&mut other, "ROLLBACK");
        assert!(!other.in_transaction());
        run(connection, "ROLLBACK");
        assert!(!connection.in_transaction());
    });
}

#[test]
fn values_and_commands_at_the_frame_border_and_past_it() {
    const FRAME: usize = 0xff_ffff;
    each_server(|flavour, _, connection| {
        // A value of n bytes makes a row of n + 4 or, from 16 MiB on, n + 9.
        let mut lengths: Vec<usize> = (FRAME - 5..=FRAME + 2).collect();
        lengths.push(20 << 20);
        let mut select = connection
            .prepare(b"SELECT REPEAT('v', ?) UNION ALL SELECT 'next'")
            .unwrap();
        for length in lengths {
            let sql = format!("SELECT REPEAT('v', {length}) UNION ALL SELECT 'next'");
            let text = connection.query_rows(sql.as_bytes()).unwrap();
            let params = [Value::UInt(length as u64)];
            let binary = connection.execute_rows(&mut select, &params).unwrap();
            assert!(text == binary, "{flavour}: {length}");
            assert_eq!(text[1], [Some(b"next".to_vec())]);
            let value = text[0][0].as_ref().unwrap();
            assert!(value.len() == length && value.iter().all(|byte| *byte == b'v'));
            assert_eq!(connection.query(sql.as_bytes()).unwrap().rows, 2);
            assert_eq!(connection.execute(&mut select, &params).unwrap().rows, 2);
        }
        let mut measure = connection.prepare(b"SELECT LENGTH(?)").unwrap();
        for length in FRAME - 30..=FRAME + 2 {
            // Every third: the command, its byte and its text, is around the border with one.
            if length % 3 != 0 && length < FRAME - 2 {
                continue;
            }
            let sql = format!("SELECT LENGTH('{}')", "c".repeat(length - 17));
            let counted = one(connection, &sql).unwrap();
            assert_eq!(counted, (length - 17).to_string());
            let bytes = vec![b'p'; length - 16];
            let rows = connection
                .execute_rows(&mut measure, &[Value::Bytes(&bytes)])
                .unwrap();
            assert_eq!(shown(&rows), [[bytes.len().to_string()]]);
        }
    });
}

#[test]
fn a_command_above_the_servers_limit_ends_the_session() {
    each_server(|flavour, sandbox, connection| {
        let sql = format!("SELECT '{}'", "x".repeat(70 << 20));
        let error = connection.query(sql.as_bytes()).unwrap_err();
        // The server's words, unless it had closed before they could be read.
        assert!(
            matches!(error.errno(), Some(1153)) || matches!(error, Error::Io(_)),
            "{flavour}: {error}"
        );
        assert!(!connection.is_usable());
        let mut again = Connection::connect(&sandbox.dsn()).unwrap();
        assert_eq!(one(&mut again, "SELECT 1").as_deref(), Some("1"));
    });
}

/// Runs for minutes if nobody ends it.
const ENDLESS: &str = "SELECT SUM(a.id * b.id * c.id) FROM many a, many b, many c";

fn make_many(connection: &mut Connection) {
    run(
        connection,
        "CREATE TABLE IF NOT EXISTS many (id INT PRIMARY KEY, pad CHAR(200))",
    );
    let rows: Vec<String> = (0..1500).map(|i| format!("({i}, 'pad')")).collect();
    run(
        connection,
        &format!("INSERT IGNORE INTO many VALUES {}", rows.join(",")),
    );
}

#[test]
fn a_killed_statement_leaves_the_session_and_a_killed_session_does_not() {
    each_server(|flavour, sandbox, connection| {
        make_many(connection);
        for (kill, goes_on) in [("KILL QUERY", true), ("KILL", false)] {
            let mut victim = Connection::connect(&sandbox.dsn()).unwrap();
            let id = victim.connection_id();
            let running = thread::spawn(move || {
                let outcome = victim.query(ENDLESS.as_bytes());
                (victim, outcome)
            });
            let count = format!(
                "SELECT COUNT(*) FROM information_schema.processlist \
                 WHERE id = {id} AND info LIKE 'SELECT SUM%'"
            );
            wait_until("the statement runs", || {
                one(connection, &count).as_deref() == Some("1")
            });
            run(connection, &format!("{kill} {id}"));
            let (mut victim, outcome) = running.join().unwrap();
            let error = outcome.unwrap_err();
            if goes_on {
                assert_eq!(error.errno(), Some(1317), "{flavour}: {error}");
                assert!(victim.is_usable());
                victim.ping().unwrap();
            } else {
                victim.ping().unwrap_err();
                assert!(!victim.is_usable(), "{flavour}: {error}");
            }
        }
    });
}

#[test]
fn another_thread_ends_a_wait_for_the_server() {
    each_server(|_, sandbox, connection| {
        make_many(connection);
        let mut waiting = Connection::connect(&sandbox.dsn_socket()).unwrap();
        let (id, interrupter) = (waiting.connection_id(), waiting.interrupter());
        let running = thread::spawn(move || (waiting.query(ENDLESS.as_bytes()), waiting));
        interrupter.interrupt();
        let (outcome, waiting) = running.join().unwrap();
        assert!(matches!(outcome, Err(Error::Io(_))), "{outcome:?}");
        assert!(!waiting.is_usable());
        drop(waiting);
        interrupter.interrupt();
        // Already gone where the statement had not begun.
        let _ = connection.query(format!("KILL {id}").as_bytes());
    });
}

#[test]
fn a_server_killed_amid_a_result_is_an_error() {
    for flavour in flavours() {
        let sandbox = Sandbox::start(&SandboxSpec::new(flavour)).unwrap();
        let mut connection = Connection::connect(&sandbox.dsn()).unwrap();
        make_many(&mut connection);
        let (began, begun) = mpsc::channel();
        let dsn = sandbox.dsn();
        let reading = thread::spawn(move || {
            let mut connection = Connection::connect(&dsn).unwrap();
            began.send(()).unwrap();
            let outcome = connection.query(b"SELECT * FROM many a, many b, many c");
            (outcome, connection.is_usable())
        });
        begun.recv().unwrap();
        let sent = |connection: &mut Connection| -> u64 {
            let rows = connection.query_rows(b"SHOW GLOBAL STATUS LIKE 'Bytes_sent'");
            shown(&rows.unwrap())[0][1].parse().unwrap()
        };
        let before = sent(&mut connection);
        wait_until("rows flow", || sent(&mut connection) > before + (4 << 20));
        // SAFETY: a signal to a process of this test; no memory is involved.
        let killed = unsafe { libc::kill(sandbox.pid() as i32, libc::SIGKILL) };
        assert_eq!(killed, 0);
        let (outcome, is_usable) = reading.join().unwrap();
        assert!(
            matches!(outcome, Err(Error::Io(_))),
            "{flavour}: {outcome:?}"
        );
        assert!(!is_usable);
    }
}

/// On a server of its own: what another test has sent may be counted late.
#[test]
fn the_server_counts_the_statements_that_were_sent() {
    for flavour in flavours() {
        let sandbox = Sandbox::start(&SandboxSpec::new(flavour)).unwrap();
        over_both(flavour, &sandbox, &counts_what_was_sent);
        sandbox.stop().unwrap();
    }
}

fn counts_what_was_sent(flavour: Flavour, _: &Sandbox, connection: &mut Connection) {
    run(
        connection,
        "CREATE TABLE IF NOT EXISTS counted (id INT PRIMARY KEY)",
    );
    let mut select = connection
        .prepare(b"SELECT id FROM counted WHERE id = ?")
        .unwrap();
    let questions = |connection: &mut Connection| GlobalStatus::read(connection).unwrap().questions;
    let before = questions(connection).unwrap();
    for id in 0..100 {
        connection.execute(&mut select, &[Value::Int(id)]).unwrap();
        run(connection, "DO 1");
    }
    assert_eq!(questions(connection).unwrap() - before, 201, "{flavour}");
}
