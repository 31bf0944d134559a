//! `waggle server up --replica-of`: a replica from the command line.

use std::time::{Duration, Instant};

use waggle_wire::{Connection, Dsn};

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

fn connect(facts: &Value) -> Connection {
    let dsn: Dsn = facts["dsn_socket"].as_str().unwrap().parse().unwrap();
    Connection::connect(&dsn).unwrap()
}

/// Waits until a statement's first value is this.
fn wait_for(connection: &mut Connection, sql: &str, wanted: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let rows = connection.query_rows(sql.as_bytes());
        // The table may not be there yet.
        let value = rows.ok().and_then(|rows| rows.first()?.first()?.clone());
        if value.as_deref() == Some(wanted.as_bytes()) {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "{sql} is {value:?}, not {wanted}"
        );
        // sleep: looking all the time would take the processor from who is waited for
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_replica_has_what_its_primary_had_and_gets_what_comes() {
    for flavour in flavours() {
        let place = Place::new();
        let args = [
            "up",
            flavour,
            "--primary",
            "--detach",
            "--name",
            "p",
            "--json",
        ];
        let primary = place.json(&args);
        assert_eq!(primary["replica_of"], Value::Null);
        let mut client = connect(&primary);
        client
            .query(b"CREATE TABLE t (id INT PRIMARY KEY)")
            .unwrap();
        client.query(b"INSERT INTO t VALUES (1), (2)").unwrap();

        // The family is the primary's.
        let args = [
            "up",
            "--replica-of",
            "p",
            "--detach",
            "--name",
            "r",
            "--json",
        ];
        let replica = place.json(&args);
        assert_eq!(replica["replica_of"], "p");
        assert_eq!(replica["flavour"], flavour);
        let count = "SELECT COUNT(*) FROM t";
        wait_for(&mut connect(&replica), count, "2");
        client.query(b"INSERT INTO t VALUES (3)").unwrap();
        wait_for(&mut connect(&replica), count, "3");

        let table = text(&place.run(&["list"]).stdout);
        assert!(table.contains("REPLICA OF"), "{table}");
        let row = table.lines().find(|line| line.starts_with('r')).unwrap();
        assert!(row.contains(" p "), "{table}");

        // The primary first: the replica keeps what it has.
        assert!(place.run(&["down", "p"]).status.success());
        wait_for(&mut connect(&replica), count, "3");
        assert!(place.run(&["down", "r"]).status.success());
        assert!(place.names().is_empty());
        assert!(!path(&primary, "dir").exists() && !path(&replica, "dir").exists());
    }
}

#[test]
fn what_cannot_be_replicated_from_is_refused_and_nothing_is_left() {
    for flavour in flavours() {
        let place = Place::new();
        place.json(&["up", flavour, "--detach", "--name", "plain", "--json"]);
        let other = if flavour == "mysql" {
            "mariadb"
        } else {
            "mysql"
        };
        for (args, words) in [
            (
                &["up", "--replica-of", "nobody"][..],
                "no throw-away server is named",
            ),
            (&["up", "--replica-of", "plain"], "writes no binary log"),
            (
                &["up", other, "--replica-of", "plain"],
                "cannot replicate from",
            ),
        ] {
            let output = place.run(args);
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
            assert!(said.contains(words), "{args:?}: {said}");
            assert!(output.stdout.is_empty());
        }
        assert_eq!(place.names(), ["plain"]);
        assert!(place.run(&["down", "--all"]).status.success());
    }
}

#[test]
fn a_kind_or_a_primary_has_to_be_named() {
    let place = Place::new();
    let output = place.run(&["up"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("required"),
        "{}",
        text(&output.stderr)
    );
}
