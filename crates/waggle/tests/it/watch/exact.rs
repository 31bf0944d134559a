//! Does `watch` capture exactly what the server counted?
//!
//! Each case has a number of statements that follows from the case alone, and holds the server's
//! counters and the capture against it. How they count, measured:
//!
//! * `Questions` has one for each command of a client, except ping, statistics and the prepare,
//!   close and reset of a statement. It has quit, and with MySQL the long data of a parameter.
//! * `Queries` has more: every instruction of a stored program (`SET`, `IF`, `FETCH` and `RETURN`
//!   too), and with MySQL every command but statistics, so the pings that end each case here.
//! * MySQL passes the probed function once for each command, whatever it is, and a second site once
//!   for each statement inside a routine or a trigger that succeeds: captured, less those in
//!   routines, equals `Questions`, less quits and long data, which carry no statement. A statement
//!   that fails inside a routine passes neither.
//! * MariaDB passes it once for each statement of a client, and for each statement inside a
//!   function or a trigger. It does not pass it for statements inside a procedure, as
//!   `log_slow_disabled_statements` has `sp` by default, and not for commands without a statement
//!   (`COM_INIT_DB`, quit).

use std::path::Path;

use waggle_server::Flavour;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_wire::{Connection, Error, Value};

use super::raw::RawClient;
use super::stage::{Account, connect, file, flavours, observe, run, server, settle, wait_until};

const OBSERVER: &str = "show global status where variable_name in(?+)";

/// What a case comes to.
#[derive(Debug, PartialEq, Eq)]
struct Counts {
    captured: u64,
    questions: u64,
    queries: u64,
}

/// Holds the account of a case against what it comes to.
pub(super) fn assert_counts(
    case: &str,
    account: &Account,
    captured: u64,
    questions: u64,
    queries: u64,
) {
    let found = Counts {
        captured: account.captured,
        questions: account.questions,
        queries: account.queries,
    };
    let expected = Counts {
        captured,
        questions,
        queries,
    };
    assert_eq!(found, expected, "{case}\n{}", account.report.listing());
    assert_eq!(account.report.lost(), 0, "{case}");
    assert_eq!(account.report.count(OBSERVER), 2, "{case}");
    let counted: u64 = account
        .report
        .digests()
        .iter()
        .map(|d| d["count"].as_u64().expect("a count"))
        .sum();
    assert_eq!(
        counted,
        account.report.captured(),
        "{case}: each is in one digest"
    );
}

/// Holds the digests of a case, without the observer's own, against `(count, errors, fingerprint)`.
fn assert_digests(case: &str, account: &Account, expected: &[(u64, u64, &str)]) {
    for &(count, errors, fingerprint) in expected {
        let digest = account.report.digest(fingerprint);
        assert_eq!(
            (&digest["count"], &digest["errors"]),
            (&count.into(), &errors.into()),
            "{case}: {digest}"
        );
    }
    let listing = account.report.listing();
    assert_eq!(
        account.report.digests().len(),
        expected.len() + 1,
        "{case}\n{listing}"
    );
}

/// Holds how many of them ran within routines, which the server does not count in `Questions`.
fn assert_in_routines(case: &str, account: &Account, expected: u64) {
    let within = account.report.number("/in_routines");
    assert_eq!(within, expected, "{case}\n{}", account.report.listing());
    assert_eq!(account.captured - within, account.questions, "{case}");
}

/// Pings are among `Queries` with MySQL, not with MariaDB.
fn pings(flavour: Flavour, count: u64) -> u64 {
    if flavour == Flavour::MySql { count } else { 0 }
}

/// A table with the rows 1 to 5.
pub(super) fn with_table(flavour: Flavour) -> (Sandbox, Connection) {
    let server = server(flavour);
    let mut connection = connect(&server);
    run(
        &mut connection,
        &[
            "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(100))",
            "INSERT INTO t (v) VALUES ('a'), ('b'), ('c'), ('d'), ('e')",
        ],
    );
    settle(&mut connection);
    (server, connection)
}

/// Runs statements of which each has to end with this error number, 0 for none.
fn run_to(connection: &mut Connection, statements: &[(&str, u16)]) {
    for (statement, expected) in statements {
        let number = match connection.query(statement.as_bytes()) {
            Ok(_) => 0,
            Err(Error::Server { errno, .. }) => errno,
            Err(error) => panic!("{statement}: {error}"),
        };
        assert_eq!(number, *expected, "{statement}");
    }
    settle(connection);
}

fn observe_statements(
    server: &Sandbox,
    connection: &mut Connection,
    statements: &[(&str, u16)],
) -> Account {
    observe(server, &[], |_| run_to(connection, statements)).0
}

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
fn procedures() {
    for flavour in flavours() {
        let (server, mut connection) = with_table(flavour);
        run(
            &mut connection,
            &[
                "CREATE PROCEDURE p(n INT) BEGIN DECLARE i INT DEFAULT 0; \
                 WHILE i < n DO INSERT INTO t (v) VALUES ('p'); SET i = i + 1; END WHILE; \
                 SELECT COUNT(*) FROM t; END",
                "CREATE PROCEDURE outer_p() BEGIN CALL p(1); SELECT 9; END",
                "CREATE PROCEDURE fails() BEGIN SELECT 1; SELECT * FROM nope; SELECT 2; END",
                "CREATE PROCEDURE handles() BEGIN \
                 DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SET @e = 1; \
                 SELECT 1; INSERT INTO t (id) VALUES (1); SELECT 2; END",
            ],
        );
        let mut binary = connection.prepare(b"CALL p(?)").expect("a statement");
        let (account, ()) = observe(&server, &[], |_| {
            run_to(
                &mut connection,
                &[
                    ("CALL p(3)", 0),
                    ("CALL p(3)", 0),
                    ("CALL outer_p()", 0),
                    ("CALL fails()", 1146),
                    ("CALL handles()", 0),
                ],
            );
            connection
                .execute(&mut binary, &[Value::Int(3)])
                .expect("a call");
            settle(&mut connection);
        });
        // Six calls are six statements of the client. `Queries` has their instructions too:
        // p(n): DECLARE, n + 1 tests of the loop, n INSERTs, n SETs, SELECT
        let p = |n: u64| 1 + (n + 1) + n + n + 1;
        // outer_p: CALL, what p(1) has, SELECT; fails: SELECT, SELECT;
        // handles: SELECT, INSERT, SET of the handler, SELECT
        let instructions = 3 * p(3) + (2 + p(1)) + 2 + 4;
        let queries = 6 + instructions + pings(flavour, 2);
        // p(n) succeeds with n INSERTs and the SELECT; outer_p with the CALL, those of p(1), and
        // its SELECT; fails with its first; handles with both of its, and the handler's SET. The
        // INSERT and the SELECT that fail inside pass no probe, nor do instructions.
        let passing = |n: u64| n + 1;
        let (outer, fails, handles) = (1 + passing(1) + 1, 1, 2 + 1);
        let mut digests = vec![
            (3, 0, "call p"),
            (1, 0, "call outer_p"),
            (1, 1, "call fails"),
            (1, 0, "call handles"),
        ];
        let inside = if flavour == Flavour::MySql {
            digests[0].0 += 1;
            digests.push((3 * 3 + 1, 0, "insert into t (v) values(?+)"));
            digests.push((3 + 1, 0, "select count(*) from t"));
            digests.push((1 + fails + 2, 0, "select ?"));
            digests.push((1, 0, "set @e = ?"));
            3 * passing(3) + outer + fails + handles
        } else {
            0
        };
        assert_counts("procedures", &account, 6 + inside, 6, queries);
        assert_in_routines("procedures", &account, inside);
        assert_digests("procedures", &account, &digests);
    }
}

#[test]
fn functions_and_triggers() {
    for flavour in flavours() {
        let (server, mut connection) = with_table(flavour);
        run(
            &mut connection,
            &[
                "CREATE TABLE log (v VARCHAR(100))",
                "CREATE FUNCTION f(n INT) RETURNS INT DETERMINISTIC READS SQL DATA BEGIN \
                 DECLARE x INT; SELECT MAX(id) INTO x FROM t; RETURN x + n; END",
                "CREATE TRIGGER tr AFTER INSERT ON t FOR EACH ROW BEGIN \
                 INSERT INTO log VALUES (NEW.v); INSERT INTO log VALUES ('again'); END",
            ],
        );
        let account = observe_statements(
            &server,
            &mut connection,
            &[
                ("SELECT f(1)", 0),
                ("SELECT f(1), f(2)", 0),
                ("INSERT INTO t (v) VALUES ('1')", 0),
                ("INSERT INTO t (v) VALUES ('2'), ('3')", 0),
            ],
        );
        // Three calls of f with 3 instructions each, three rows with 2 statements each.
        let queries = 4 + 3 * 3 + 3 * 2 + pings(flavour, 1);
        // The statements inside, as such: one in each call, two for each row.
        let (calls, rows) = (1 + 2, 1 + 2);
        let inside = calls + 2 * rows;
        let digests = [
            (1, 0, "select f(?)"),
            (1, 0, "select f(?), f(?)"),
            (2, 0, "insert into t (v) values(?+)"),
            (calls, 0, "select max(id) into x from t"),
            (2 * rows, 0, "insert into log values(?+)"),
        ];
        assert_counts("functions", &account, 4 + inside, 4, queries);
        assert_in_routines("functions", &account, inside);
        assert_digests("functions", &account, &digests);
    }
}

/// Statements on another connection's state, until it is `wanted`; they count on both sides.
fn wait_for_state(
    admin: &mut Connection,
    id: u32,
    what: &str,
    wanted: impl Fn(Option<&str>) -> bool,
) {
    let sql = format!("SELECT info FROM information_schema.processlist WHERE id = {id}");
    wait_until(what, || {
        let rows = admin.query_rows(sql.as_bytes()).expect("the process list");
        let info = rows
            .first()
            .map(|row| String::from_utf8_lossy(row[0].as_deref().unwrap_or_default()).into_owned());
        wanted(info.as_deref())
    });
}

#[test]
fn killed_statements_and_connections() {
    // Of several rows: MySQL's SLEEP only returns early when killed, the next row is not begun.
    const SLEEP: &str = "SELECT SLEEP(100) FROM t";
    for flavour in flavours() {
        let (server, mut admin) = with_table(flavour);
        for (order, error) in [("KILL QUERY", Some(1317)), ("KILL CONNECTION", None)] {
            let (account, _victim) = observe(&server, &[], |server| {
                let mut victim = connect(server);
                let id = victim.connection_id();
                let sleeping = std::thread::spawn(move || {
                    let error = victim.query(SLEEP.as_bytes()).expect_err("it is killed");
                    let number = match error {
                        Error::Server { errno, .. } => Some(errno),
                        _ => None,
                    };
                    if number == Some(1317) {
                        settle(&mut victim);
                    }
                    (number, victim)
                });
                wait_for_state(&mut admin, id, "it sleeps", |info| info == Some(SLEEP));
                run(&mut admin, &[&format!("{order} {id}")]);
                let (number, victim) = sleeping.join().expect("the victim");
                if order == "KILL CONNECTION" {
                    wait_for_state(&mut admin, id, "it is gone", |info| info.is_none());
                } else {
                    assert_eq!(number, error, "{flavour}");
                }
                settle(&mut admin);
                victim
            });
            // However often the process list was looked at: both sides counted the same.
            let looks = account
                .report
                .count("select info from information_schema.processlist where id = ?");
            assert_eq!(account.captured, 2 + looks, "{}", account.report.listing());
            assert_eq!(account.captured, account.questions, "{flavour} {order}");
            let killed = account.report.digest("select sleep(?) from t");
            assert_eq!(
                (&killed["count"], &killed["errors"]),
                (&1.into(), &1.into()),
                "{killed}"
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
        let inside = server.path_in_server(&rows).expect("the server sees it");
        let mut raw = RawClient::connect(server.socket(), plugin(flavour));
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

fn plugin(flavour: Flavour) -> &'static str {
    match flavour {
        Flavour::MySql => "caching_sha2_password",
        Flavour::MariaDb => "mysql_native_password",
    }
}

#[test]
fn commands_that_are_no_statements() {
    for flavour in flavours() {
        let (server, mut admin) = with_table(flavour);
        let mut raw = RawClient::connect(server.socket(), plugin(flavour));
        let (account, ()) = observe(&server, &[], |server| {
            // Neither counted nor captured: statistics, ping, and three that name a statement.
            raw.command(9, b"");
            raw.command(14, b"");
            raw.send_only(25, &[9, 0, 0, 0]);
            raw.command(26, &[9, 0, 0, 0]);
            raw.command(14, b"");
            // Questions to both servers, statements to none: INIT_DB, SET_OPTION, CHANGE_USER,
            // RESET_CONNECTION, a fetch from no statement, and a command that does not exist.
            raw.command(2, b"sbtest");
            raw.command(27, &[0, 0]);
            raw.change_user(plugin(flavour));
            raw.command(31, b"");
            raw.command(28, &[9, 0, 0, 0, 1, 0, 0, 0]);
            raw.command(99, b"");
            raw.command(14, b"");
            // And a quit.
            let leaving = connect(server);
            let id = leaving.connection_id();
            leaving.quit().expect("it leaves");
            wait_for_state(&mut admin, id, "it is gone", |info| info.is_none());
            settle(&mut admin);
        });
        let looks = account
            .report
            .count("select info from information_schema.processlist where id = ?");
        assert_eq!(
            account.questions,
            6 + 1 + looks,
            "{}",
            account.report.listing()
        );
        if flavour == Flavour::MySql {
            // The ends of the six are captured; the fetch and the unknown one failed.
            assert_eq!(account.captured, 6 + looks, "{}", account.report.listing());
            let textless = account.report.digest("(no text)");
            assert_eq!(
                (&textless["count"], &textless["errors"]),
                (&6.into(), &2.into())
            );
            // Quit, close, reset, and four pings were seen and set aside. Statistics, too.
            assert!(
                account.report.number("/other_commands") >= 8,
                "{}",
                account.report.0
            );
        } else {
            assert_eq!(account.captured, looks, "{}", account.report.listing());
            assert_eq!(account.report.number("/other_commands"), 0);
        }
    }
}

/// Runs the stock command-line client.
fn client(arguments: &[&str], sql: &str) -> String {
    let output = std::process::Command::new("mariadb")
        .args(["--no-defaults", "-uroot", "-N", "-B"])
        .args(arguments)
        .args(["-e", sql])
        .output()
        .expect("the mariadb client");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    String::from_utf8(output.stdout).expect("text")
}

/// A key and a certificate for a MariaDB that is to speak TLS.
fn certificate(folder: &Path) -> [String; 2] {
    let paths = ["key.pem", "cert.pem"].map(|name| folder.join(name).display().to_string());
    let output = std::process::Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=waggle",
        ])
        .args(["-keyout", &paths[0], "-out", &paths[1]])
        .output()
        .expect("openssl");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    paths
}

#[test]
fn tls_tcp_and_socket_clients_alike() {
    for flavour in flavours() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut spec = SandboxSpec::new(flavour);
        // MySQL makes its own certificate.
        if flavour == Flavour::MariaDb {
            let [key, certificate] = certificate(folder.path());
            spec = spec.set("ssl_key", key).set("ssl_cert", certificate);
        }
        let server = Sandbox::start(&spec).expect("a server");
        let port = server.port().to_string();
        let tcp = ["--protocol=tcp", "-h127.0.0.1", "-P", &port];
        let socket = server.socket().display().to_string();
        let mut admin = connect(&server);
        let (account, ()) = observe(&server, &[], |server| {
            let tls = client(
                &[&tcp[..], &["--ssl"]].concat(),
                "SELECT 'over TLS' AS tls; SHOW STATUS LIKE 'Ssl_cipher'",
            );
            assert!(tls.contains("over TLS") && tls.contains("TLS_"), "{tls}");
            let plain = client(
                &[&tcp[..], &["--skip-ssl"]].concat(),
                "SELECT 'over TCP' AS tcp; SHOW STATUS LIKE 'Ssl_cipher'",
            );
            assert!(!plain.contains("TLS_"), "{plain}");
            client(&["-S", &socket], "SELECT 'over the socket' AS unix_socket");
            let mut tcp = Connection::connect(&server.dsn()).expect("a connection over TCP");
            run(&mut tcp, &["SELECT 'our own' AS own"]);
            tcp.quit().expect("it leaves");
            let rows = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'root'";
            wait_until("only the two of the observer are left", || {
                let rows = admin.query_rows(rows.as_bytes()).expect("the process list");
                rows[0][0].as_deref() == Some(b"2")
            });
            settle(&mut admin);
        });
        let report = &account.report;
        for (fingerprint, count) in [
            ("select ? as tls", 1),
            ("select ? as tcp", 1),
            ("select ? as unix_socket", 1),
            ("select ? as own", 1),
            ("show status like ?", 2),
        ] {
            assert_eq!(
                report.count(fingerprint),
                count,
                "{flavour}\n{}",
                report.listing()
            );
        }
        // Four clients have left, each with a quit.
        assert_eq!(
            account.captured + 4,
            account.questions,
            "{}",
            report.listing()
        );
    }
}
