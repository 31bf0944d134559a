//! Real clients and servers over 127.0.0.1: what was run is what was seen.

use std::process::Command;

use waggle_agent::source::packets::PacketPlan;
use waggle_need::need;
use waggle_server::Flavour;
use waggle_server::sandbox::Sandbox;
use waggle_wire::{Connection, Value};

use crate::stage::{Ear, flavours, questions, server, tcp};

/// What is expected of one statement: text, rows, affected, error.
type Expected = (String, u64, Option<u64>, u32);

/// Runs statements of every kind, and says what they were.
fn run_all(connection: &mut Connection, table: &str) -> Vec<Expected> {
    let mut expected = Vec::new();
    let mut query = |connection: &mut Connection, sql: &str| {
        let (rows, affected, error) = match connection.query(sql.as_bytes()) {
            Ok(summary) => (summary.rows, Some(summary.affected), 0),
            Err(error) => (0, None, error.errno().expect("a server's error").into()),
        };
        let text = sql.chars().take(80).collect();
        expected.push((text, rows, affected, error));
    };
    query(
        connection,
        &format!("CREATE TABLE {table} (a INT PRIMARY KEY, b LONGTEXT)"),
    );
    query(connection, "BEGIN");
    for number in 0..20 {
        query(
            connection,
            &format!("INSERT INTO {table} VALUES ({number}, REPEAT('x', 1000))"),
        );
    }
    query(connection, "COMMIT");
    query(
        connection,
        &format!("SELECT * FROM {table} WHERE b LIKE '%x'"),
    );
    query(connection, &format!("INSERT INTO {table} VALUES (3, '')"));
    query(connection, &format!("SELECT * FROM missing_{table}"));
    query(connection, "SELEC");
    query(
        connection,
        &format!("UPDATE {table} SET b = '' WHERE a < 7"),
    );
    query(
        connection,
        &format!("SELECT '{}' AS long_text", "wide ".repeat(20_000)),
    );
    // A row beyond one frame, and rows beyond any segment.
    query(connection, "SELECT REPEAT('y', 17 * 1024 * 1024)");
    query(
        connection,
        &format!("SELECT REPEAT('z', 300000) FROM {table}"),
    );
    let sql = format!("SELECT a FROM {table} WHERE a < ?");
    let mut statement = connection.prepare(sql.as_bytes()).expect("it prepares");
    for limit in 0..10 {
        connection
            .execute(&mut statement, &[Value::Int(limit)])
            .expect("it executes");
        expected.push((sql.clone(), limit.cast_unsigned(), Some(0), 0));
    }
    connection.close_statement(statement).expect("it closes");
    connection.ping().expect("it lives");
    expected
}

fn check(ear: &Ear, expected: &[Expected], connection: &Connection) {
    assert_eq!(ear.statements.len(), expected.len());
    for (seen, expected) in ear.statements.iter().zip(expected) {
        let (text, rows, affected, error) = expected;
        assert_eq!((&seen.text, seen.error), (text, Some(*error)));
        // The client does not tell the rows before an error; there are none here.
        assert_eq!(
            (seen.rows, seen.affected),
            (Some(*rows), *affected),
            "{text}"
        );
        assert_eq!(
            (seen.user.as_str(), seen.database.as_str()),
            ("root", "sbtest")
        );
        assert_eq!(seen.host, "127.0.0.1");
        assert_eq!(seen.connection, Some(connection.connection_id().into()));
        assert!(seen.latency_ns > 0, "{seen:?}");
    }
}

#[test]
fn every_statement_over_tcp_is_seen_with_its_rows() {
    for flavour in flavours() {
        let server = server(flavour);
        for options in ["compression=off", "compression=zlib", "compression=zstd"] {
            if options.ends_with("zstd") && flavour == Flavour::MariaDb {
                continue;
            }
            let options = format!("{options}&ssl-mode=disabled");
            let mut plan = PacketPlan::of(server.pid());
            // All of it fits while nobody reads.
            plan.ring_bytes = 64 << 20;
            let mut ear = Ear::with(&plan);
            let mut admin = Connection::connect(&server.dsn_socket()).expect("a connection");
            let before = questions(&mut admin);
            let mut connection = Connection::connect(&tcp(&server, &options)).expect("TCP");
            let expected = run_all(&mut connection, &options[12..16].replace('&', "t"));
            let executed = questions(&mut admin) - before - 1;
            // The ping is the last of it.
            ear.until("everything is seen", |ear| {
                ear.statements.len() >= expected.len() && ear.others >= 2
            });
            check(&ear, &expected, &connection);
            assert_eq!(ear.statements.len() as u64, executed, "{flavour} {options}");
            assert_eq!(ear.lost.len(), 0, "{flavour} {options}: {:?}", ear.lost);
            assert_eq!(ear.source.counters().dropped, 0);
        }
    }
}

#[test]
fn what_ran_just_before_the_end_is_told() {
    for flavour in flavours() {
        let server = server(flavour);
        let mut admin = Connection::connect(&server.dsn_socket()).expect("a connection");
        let mut connection = Connection::connect(&tcp(&server, "ssl-mode=disabled")).expect("TCP");
        for statements in [1, 2, 10, 300] {
            let mut plan = PacketPlan::of(server.pid());
            // Nobody reads meanwhile, and a block is handed over after some time however empty.
            plan.ring_bytes = 64 << 20;
            let mut ear = Ear::with(&plan);
            let before = questions(&mut admin);
            for _ in 0..statements {
                connection.query(b"SELECT 'late'").expect("it runs");
            }
            // The block they are in is not full, and was not handed over.
            ear.finish();
            let executed = questions(&mut admin) - before - 1;
            assert_eq!(executed, statements, "{flavour}");
            let lost: u64 = ear.lost.values().sum();
            assert_eq!(ear.statements.len() as u64 + lost, executed, "{flavour}");
            assert_eq!(lost, 0, "{flavour}: {:?}", ear.lost);
        }
    }
}

#[test]
fn a_connection_that_was_open_before_is_seen_without_a_name() {
    for flavour in flavours() {
        let server = server(flavour);
        for options in ["ssl-mode=disabled", "ssl-mode=disabled&compression=zlib"] {
            let mut connection = Connection::connect(&tcp(&server, options)).expect("TCP");
            let mut statement = connection.prepare(b"SELECT ?").expect("it prepares");
            let mut ear = Ear::at(&server);
            connection
                .execute(&mut statement, &[Value::Int(1)])
                .expect("it executes");
            connection
                .query(b"SELECT 1 UNION SELECT 2")
                .expect("it runs");
            connection.query(b"DO 1").expect("it runs");
            ear.until_text("DO 1");
            let seen: Vec<_> = ear
                .statements
                .iter()
                .map(|s| (s.text.as_str(), s.rows))
                .collect();
            let expected = [
                ("unknown", Some(1)),
                ("SELECT 1 UNION SELECT 2", Some(2)),
                ("DO 1", Some(0)),
            ];
            assert_eq!(seen, expected, "{flavour} {options}");
            let named = |seen: &crate::stage::Seen| {
                !seen.user.is_empty() || seen.connection.is_some() || !seen.database.is_empty()
            };
            assert!(!ear.statements.iter().any(named), "nothing is made up");
            assert_eq!(ear.lost.len(), 0, "{:?}", ear.lost);
        }
    }
}

#[test]
fn tls_hides_statements_and_that_is_counted() {
    for flavour in flavours() {
        let server = server(flavour);
        let mut connection = match Connection::connect(&tcp(&server, "ssl-mode=required")) {
            Ok(connection) => connection,
            // Debian's MariaDB 10.11 makes no certificate of its own.
            Err(error) => {
                assert_eq!(flavour, Flavour::MariaDb, "{error}");
                continue;
            }
        };
        drop(connection);
        let mut ear = Ear::at(&server);
        connection = Connection::connect(&tcp(&server, "ssl-mode=required")).expect("TLS");
        for _ in 0..10 {
            connection.query(b"SELECT 'hidden'").expect("it runs");
        }
        ear.until("what is hidden is told", |ear| {
            ear.lost.get("tls").is_some_and(|lost| *lost >= 10)
        });
        assert_eq!(ear.statements, []);
        // An estimate: what is taken for the login may be less than it was (session tickets, the
        // steps of its authentication), by up to three exchanges.
        assert!(ear.lost["tls"] <= 13, "{:?}", ear.lost);
    }
}

/// Runs statements with MariaDB's own client, which is another implementation.
fn client(server: &Sandbox, arguments: &[&str], sql: &str) {
    let output = Command::new("mariadb")
        .args([
            "--no-defaults",
            "-h127.0.0.1",
            "-uroot",
            "--skip-ssl",
            "--local-infile=1",
        ])
        .arg(format!("-P{}", server.port().expect("it has TCP")))
        .env("MYSQL_PWD", server.password().expose())
        .args(arguments)
        .args(["-e", sql, "sbtest"])
        .output()
        .expect("the client starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
}

fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[test]
fn another_client_is_understood_with_files_procedures_and_databases() {
    if !need("mariadb", has("mariadb"), "its client is not installed") {
        return;
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "1\n2\n3\n").expect("rows");
    for flavour in flavours() {
        let server = server(flavour);
        let mut admin = Connection::connect(&server.dsn_socket()).expect("a connection");
        for sql in [
            "SET GLOBAL local_infile = 1",
            "CREATE DATABASE other",
            "CREATE TABLE sbtest.t (a INT)",
            "CREATE PROCEDURE sbtest.p() BEGIN SELECT 1; SELECT 2; DO 3; END",
        ] {
            admin.query(sql.as_bytes()).expect("it runs");
        }
        for arguments in [&[][..], &["--compress"]] {
            let mut ear = Ear::at(&server);
            let load = format!(
                "LOAD DATA LOCAL INFILE '{}' INTO TABLE t",
                file.path().display()
            );
            let sql = format!("{load}; CALL p(); USE other; DO 1; SELECT 'the end'");
            client(&server, arguments, &sql);
            ear.until_text("SELECT 'the end'");
            // The client asks a few things of its own at its start.
            let at = ear
                .statements
                .iter()
                .position(|s| s.text == load.as_str())
                .expect("the load");
            let seen: Vec<_> = ear.statements[at..]
                .iter()
                .map(|s| (s.text.as_str(), s.rows, s.affected, s.database.as_str()))
                .collect();
            // Before USE, the client asks where it is.
            let expected = [
                (load.as_str(), Some(0), Some(3), "sbtest"),
                ("CALL p()", Some(2), Some(0), "sbtest"),
                ("SELECT DATABASE()", Some(1), Some(0), "sbtest"),
                ("", Some(0), Some(0), "sbtest"),
                ("DO 1", Some(0), Some(0), "other"),
                ("SELECT 'the end'", Some(1), Some(0), "other"),
            ];
            assert_eq!(seen, expected, "{flavour} {arguments:?}");
            assert_eq!(ear.lost.len(), 0, "{:?}", ear.lost);
        }
    }
}

#[test]
fn what_finds_no_room_is_counted() {
    for flavour in flavours() {
        let server = server(flavour);
        let mut plan = PacketPlan::of(server.pid());
        plan.ring_bytes = 1 << 20;
        let mut ear = Ear::with(&plan);
        let mut connection = Connection::connect(&tcp(&server, "ssl-mode=disabled")).expect("TCP");
        let mut admin = Connection::connect(&server.dsn_socket()).expect("a connection");
        let before = questions(&mut admin);
        // Enough to fill the ring several times while nobody reads it.
        connection.query(b"DO 0").expect("it runs");
        ear.until_text("DO 0");
        for number in 0..20_000 {
            let sql = format!("DO 'some text that takes room {number:06}'");
            connection.query(sql.as_bytes()).expect("it runs");
        }
        ear.listen();
        connection.query(b"DO 1").expect("it runs");
        connection.query(b"DO 2").expect("it runs");
        ear.until_text("DO 2");
        let executed = questions(&mut admin) - before - 1;
        let lost = ear.lost["packets_dropped"];
        assert!(
            ear.source.counters().dropped > 10_000,
            "{:?}",
            ear.source.counters()
        );
        assert!(lost > 5_000);
        // Where bytes are missing, their statements are estimated.
        let told = ear.statements.len() as u64 + lost;
        assert!(
            told.abs_diff(executed) <= executed / 100,
            "{told} of {executed}"
        );
    }
}

/// As above, but nothing comes after what was dropped that would show it.
#[test]
fn what_finds_no_room_last_of_all_is_counted() {
    for flavour in flavours() {
        let server = server(flavour);
        let mut plan = PacketPlan::of(server.pid());
        plan.ring_bytes = 1 << 20;
        let mut ear = Ear::with(&plan);
        let mut connection = Connection::connect(&tcp(&server, "ssl-mode=disabled")).expect("TCP");
        let mut admin = Connection::connect(&server.dsn_socket()).expect("a connection");
        let before = questions(&mut admin);
        for number in 0..20_000 {
            let sql = format!("DO 'some text that takes room {number:06}'");
            connection.query(sql.as_bytes()).expect("it runs");
        }
        ear.finish();
        let executed = questions(&mut admin) - before - 1;
        let lost = ear.lost["packets_dropped"];
        assert!(lost > 5_000, "{flavour}: {lost}");
        let told = ear.statements.len() as u64 + lost;
        assert!(
            told.abs_diff(executed) <= executed / 100,
            "{flavour}: {told} of {executed}"
        );
    }
}

/// A statement that takes more room than there is, and small ones behind it.
#[test]
fn small_statements_after_a_large_one_are_seen() {
    for flavour in flavours() {
        let server = server(flavour);
        let mut connection = Connection::connect(&tcp(&server, "ssl-mode=disabled")).expect("TCP");
        let mut admin = Connection::connect(&server.dsn_socket()).expect("a connection");
        let mut ear = Ear::at(&server);
        // Where statements begin on it is known from the first that is seen whole.
        connection.query(b"DO 'in step'").expect("it runs");
        ear.until_text("DO 'in step'");
        for statements in [10, 100] {
            ear.statements.clear();
            ear.lost.clear();
            let before = questions(&mut admin);
            let mut long = b"SELECT LENGTH('".to_vec();
            long.resize(16 << 20, b'x');
            long.extend_from_slice(b"')");
            connection.query(&long).expect("a statement of 16 MiB");
            ear.listen();
            for number in 0..statements {
                let sql = format!("DO {number}");
                connection.query(sql.as_bytes()).expect("it runs");
            }
            ear.until_text(&format!("DO {}", statements - 1));
            let executed = questions(&mut admin) - before - 1;
            // What hides in the large one is estimated, itself at least.
            let told = ear.statements.len() as u64 + ear.lost.values().sum::<u64>();
            let small = ear.statements.iter().filter(|s| s.text.starts_with("DO "));
            assert_eq!(small.count(), statements, "{flavour}: {:?}", ear.lost);
            assert!(
                (executed..executed + 64).contains(&told),
                "{flavour}: {told} of {executed}: {:?}",
                ear.lost
            );
        }
    }
}
