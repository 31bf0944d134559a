//! Who had a statement carried out: a client and from where, a routine, replication, an event.

use std::time::{Duration, Instant};

use waggle_server::Flavour;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_symbols::{FieldName, ThreadKind};
use waggle_wire::Connection;

use crate::stage::{Stage, flavours, value};
use crate::thread::{Place, Seen, observe, observe_child};

fn kind(place: &Place, seen: &Seen) -> ThreadKind {
    let raw = u32::try_from(seen.number(FieldName::SystemThread)).expect("32 bits");
    place.layout.thread_kind(raw)
}

#[test]
fn a_routine_is_one_while_its_statements_run() {
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        let mut session = stage.session(stage.server.dsn());
        let inner = "UPDATE t SET v = v + 1 WHERE id = 5";
        session.run(&format!(
            "CREATE PROCEDURE p() BEGIN {inner}; SELECT COUNT(*) FROM t; END"
        ));
        if flavour == Flavour::MariaDb {
            // Its routines end a statement where the probe is only for the sake of the slow log.
            // Stock, these are left out of it (`sp`), and only the CALL passes the probe.
            session.run("SET log_slow_disabled_statements = ''");
        }
        let (all, _) = session.observe("CALL p()");
        let texts: Vec<_> = all.iter().map(|s| s.text(FieldName::Query)).collect();
        let within: Vec<_> = all
            .iter()
            .map(|seen| seen.number(FieldName::Routine) != 0)
            .collect();
        assert_eq!(
            texts,
            [inner, "SELECT COUNT(*) FROM t", "CALL p()"],
            "{flavour}"
        );
        assert_eq!(within, [true, true, false], "{flavour}: {texts:?}");
        assert_eq!(all[0].number(FieldName::RowsAffected), 1, "{flavour}");
        let (after, _) = session.one("SELECT 1");
        assert_eq!(after.number(FieldName::Routine), 0, "{flavour}");
    }
}

#[test]
fn the_host_is_that_of_the_process_list() {
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        for (dsn, is_tcp) in [
            (stage.server.dsn(), true),
            (stage.server.dsn_socket(), false),
        ] {
            let mut session = stage.session(dsn);
            let id = session.connection.connection_id();
            let sql = format!("SELECT HOST FROM information_schema.PROCESSLIST WHERE ID = {id}");
            let listed = value(&mut session.connection, &sql, 0);
            let (host, port) = listed.split_once(':').unwrap_or((&listed, ""));
            assert_eq!(!port.is_empty(), is_tcp, "{flavour}: {listed}");
            let (seen, _) = session.one("SELECT 1");
            assert_eq!(seen.text(FieldName::ClientHost), host, "{flavour}");
            assert_eq!(
                kind(stage.place, &seen),
                ThreadKind::Client,
                "{flavour}: {seen:?}"
            );
        }
    }
}

fn connect(server: &Sandbox) -> Connection {
    Connection::connect(&server.dsn_socket()).expect("a connection")
}

fn run(connection: &mut Connection, sql: &str) {
    let done = connection.query(sql.as_bytes());
    done.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// Waits until `sql` has a row, and gives the number in its first column.
fn await_number(connection: &mut Connection, sql: &str) -> u32 {
    let begin = Instant::now();
    loop {
        let rows = connection.query_rows(sql.as_bytes()).expect(sql);
        if let Some(Some(found)) = rows.first().map(|row| row[0].clone()) {
            let text = String::from_utf8(found).expect("UTF-8");
            return text.parse().expect("a number");
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{sql}: nothing");
    }
}

/// Makes `replica` follow `source` from here on.
fn follow(replica: &mut Connection, source: &mut Connection, server: &Sandbox) {
    let (port, password) = (
        server.port().expect("it has TCP"),
        server.password().expose(),
    );
    let flavour = server.flavour();
    let is_mysql = flavour == Flavour::MySql;
    let status = if is_mysql {
        "SHOW BINARY LOG STATUS"
    } else {
        "SHOW MASTER STATUS"
    };
    let (file, position) = (value(source, status, 0), value(source, status, 1));
    if is_mysql {
        run(
            replica,
            &format!(
                "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {port}, \
                 SOURCE_USER = 'root', SOURCE_PASSWORD = '{password}', GET_SOURCE_PUBLIC_KEY = 1, \
                 SOURCE_LOG_FILE = '{file}', SOURCE_LOG_POS = {position}"
            ),
        );
        run(replica, "START REPLICA");
    } else {
        run(
            replica,
            &format!(
                "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}, \
                 MASTER_USER = 'root', MASTER_PASSWORD = '{password}', \
                 MASTER_LOG_FILE = '{file}', MASTER_LOG_POS = {position}"
            ),
        );
        run(replica, "START SLAVE");
    }
}

#[test]
fn an_applier_of_replication_is_one() {
    for flavour in flavours() {
        let spec = |id: &str| {
            SandboxSpec::new(flavour)
                .set("performance_schema", "ON")
                .set("server_id", id)
                .set("log_bin", "binlog")
        };
        let source_server = Sandbox::start(&spec("1").tcp()).expect("a source");
        // One worker, so that it is known which applies.
        let mut replica_spec = spec("2");
        if flavour == Flavour::MySql {
            replica_spec = replica_spec.set("replica_parallel_workers", "1");
        }
        let replica_server = Sandbox::start(&replica_spec).expect("a replica");
        let (mut source, mut replica) = (connect(&source_server), connect(&replica_server));
        follow(&mut replica, &mut source, &source_server);
        let applier = match flavour {
            Flavour::MySql => {
                "SELECT THREAD_OS_ID FROM performance_schema.threads \
                 WHERE NAME = 'thread/sql/replica_worker' AND THREAD_OS_ID IS NOT NULL"
            }
            _ => {
                "SELECT TID FROM information_schema.PROCESSLIST \
                 WHERE COMMAND = 'Slave_SQL' AND TID > 0"
            }
        };
        let tid = await_number(&mut replica, applier);
        let place = Place::of(&replica_server);
        let sql = "CREATE TABLE sbtest.replicated (id INT)";
        let tid = i32::try_from(tid).expect("a thread id");
        let (all, ()) = observe(&place, (tid, &[]), sql, || run(&mut source, sql));
        let last = all.last().expect("one at least");
        assert_eq!(
            kind(&place, last),
            ThreadKind::Replication,
            "{flavour}: {last:?}"
        );
        let raw = if flavour == Flavour::MySql { 64 } else { 4 };
        assert_eq!(last.number(FieldName::SystemThread), raw, "{flavour}");
        assert_eq!(last.number(FieldName::Routine), 0, "{flavour}");
    }
}

#[test]
fn an_event_is_one() {
    for flavour in flavours() {
        let mut spec = SandboxSpec::new(flavour)
            .set("performance_schema", "ON")
            .set("event_scheduler", "ON");
        if flavour == Flavour::MariaDb {
            spec = spec.set("log_slow_disabled_statements", "");
        }
        let server = Sandbox::start(&spec).expect("a server");
        let mut admin = connect(&server);
        let scheduler = match flavour {
            Flavour::MySql => {
                "SELECT THREAD_OS_ID FROM performance_schema.threads \
                 WHERE NAME = 'thread/sql/event_scheduler' AND THREAD_OS_ID IS NOT NULL"
            }
            _ => {
                "SELECT TID FROM information_schema.PROCESSLIST \
                 WHERE USER = 'event_scheduler' AND TID > 0"
            }
        };
        let tid = await_number(&mut admin, scheduler);
        let place = Place::of(&server);
        run(&mut admin, "CREATE TABLE sbtest.done (at INT)");
        let sql = "INSERT INTO sbtest.done VALUES (1)";
        let tid = i32::try_from(tid).expect("a thread id");
        let seen = observe_child(&place, tid, || {
            let at = format!("CREATE EVENT sbtest.e ON SCHEDULE AT NOW() DO {sql}");
            run(&mut admin, &at);
        });
        assert_eq!(seen.text(FieldName::Query), sql, "{flavour}");
        assert_eq!(
            kind(&place, &seen),
            ThreadKind::Event,
            "{flavour}: {seen:?}"
        );
        assert_eq!(seen.number(FieldName::SystemThread), 16, "{flavour}");
        // Its body is a routine.
        assert_ne!(seen.number(FieldName::Routine), 0, "{flavour}");
    }
}
