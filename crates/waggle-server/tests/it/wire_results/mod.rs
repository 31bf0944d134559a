//! What the client reads from real servers: every result of a command, and what comes with it.
//!
//! `values` has every type and size, `breakdowns` what is ended amid a statement.

mod breakdowns;
mod values;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use waggle_server::Flavour;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_server::status::GlobalStatus;
use waggle_wire::{Connection, Row, TextResults, Value};

use crate::needs::flavours;

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
            let spec = SandboxSpec::new(flavour)
                .set("max_allowed_packet", "67108864")
                .tcp();
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

fn shown(rows: &[Row]) -> Vec<Vec<String>> {
    let value = |value: &Option<Vec<u8>>| match value {
        Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        None => "NULL".to_owned(),
    };
    rows.iter()
        .map(|row| row.iter().map(value).collect())
        .collect()
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
