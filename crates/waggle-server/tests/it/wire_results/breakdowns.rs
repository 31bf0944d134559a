//! Statements, sessions and servers that are ended: what the client says, and what it can do then.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_wire::{Connection, Error};

use super::{each_server, one, run, shown};
use crate::needs::flavours;

const PATIENCE: Duration = Duration::from_secs(60);

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

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        // sleep: looking all the time would take the processor from who is waited for
        thread::sleep(Duration::from_millis(1));
    }
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
