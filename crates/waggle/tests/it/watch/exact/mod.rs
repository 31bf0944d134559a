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
//!
//! Here is how a case is held against its numbers; the cases are in [`statements`], [`routines`]
//! and [`connections`].

mod connections;
mod routines;
mod statements;

use waggle_server::Flavour;
use waggle_server::sandbox::Sandbox;
use waggle_wire::{Connection, Error};

use super::stage::{Account, connect, observe, run, server, settle};

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

/// The authentication plugin of root.
fn plugin(flavour: Flavour) -> &'static str {
    match flavour {
        Flavour::MySql => "caching_sha2_password",
        Flavour::MariaDb => "mysql_native_password",
    }
}
