//! kill -9 of the copier or the target between the last row and the last key: the same command, or
//! the same process, builds what is left.

use std::process::{Child, Stdio};
use std::time::Instant;

use waggle_server::sandbox::Sandbox;
use waggle_wire::Connection;

use super::kill::{Pair, crash, differences, prepare};
use super::{PATIENCE, flavours};

fn value(server: &Sandbox, sql: &str) -> Option<String> {
    let mut connection = Connection::connect(&server.dsn_socket()).ok()?;
    let rows = connection.query_rows(sql.as_bytes()).ok()?;
    let value = rows.first()?.last()?.clone()?;
    Some(String::from_utf8_lossy(&value).into_owned())
}

fn wait(server: &Sandbox, sql: &str, is_it: impl Fn(&str) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let value = value(server, sql);
        if value.as_deref().is_some_and(&is_it) {
            return;
        }
        assert!(Instant::now() < deadline, "{sql}: {value:?}");
        std::thread::yield_now();
    }
}

/// A session whose open transaction keeps the target's table from being altered, from when the
/// table is there.
fn hold(target: &Sandbox, database: &str) -> Connection {
    let table = format!(
        "SELECT COUNT(*) FROM information_schema.TABLES \
         WHERE TABLE_SCHEMA = '{database}' AND TABLE_NAME = 't'"
    );
    wait(target, &table, |count| count == "1");
    let mut holder = Connection::connect(&target.dsn_socket()).unwrap();
    holder.query(b"BEGIN").unwrap();
    let look = format!("SELECT 1 FROM {database}.t LIMIT 1");
    holder.query_rows(look.as_bytes()).unwrap();
    holder
}

fn begin(pair: &Pair, database: &str) -> Child {
    let mut command = pair.command(database, "caught-up");
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// A copier, and a session that keeps it from altering the target's table: no row is copied before
/// the session has its transaction.
fn begin_held(pair: &Pair, database: &str) -> (Child, Connection) {
    let file = pair.directory.path().join("pause");
    std::fs::write(&file, "").unwrap();
    let mut command = pair.command(database, "caught-up");
    command.args(["--pause-file", "pause"]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let copier = command.spawn().unwrap();
    let holder = hold(&pair.target, database);
    std::fs::remove_file(&file).unwrap();
    (copier, holder)
}

fn wait_until_altering(target: &Sandbox, database: &str) {
    let altering = format!(
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST \
         WHERE INFO LIKE 'ALTER TABLE `{database}`.`t`%'"
    );
    wait(target, &altering, |count| count != "0");
}

fn change(pair: &Pair, database: &str) {
    let mut source = Connection::connect(&pair.source.dsn_socket()).unwrap();
    for sql in [
        format!("UPDATE {database}.t SET v = v + 1 WHERE id % 5 = 0"),
        format!("DELETE FROM {database}.t WHERE id % 11 = 3"),
        format!("INSERT INTO {database}.t VALUES (100000, 100000, 1, 'new', NULL)"),
    ] {
        source.query(sql.as_bytes()).unwrap();
    }
}

fn assert_whole(pair: &Pair, database: &str, copier: Child) {
    let output = copier.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{database}: {words}");
    let differ = differences(pair, database);
    assert!(differ.is_empty(), "{database}: {}", differ.join("\n"));
    for table in ["t", "s"] {
        let show = format!("SHOW CREATE TABLE {database}.{table}");
        assert_eq!(value(&pair.target, &show), value(&pair.source, &show));
    }
    let left = format!(
        "SELECT COUNT(*) FROM waggle_copy.journal WHERE job = '{database}' AND is_done = 0"
    );
    assert_eq!(value(&pair.target, &left).as_deref(), Some("0"));
}

#[test]
fn a_copier_killed_before_its_keys_are_built_is_followed_by_another() {
    for flavour in flavours() {
        let pair = Pair::new(flavour);
        let database = "k1";
        prepare(&pair, database);
        let (mut copier, mut holder) = begin_held(&pair, database);
        wait_until_altering(&pair.target, database);
        copier.kill().unwrap();
        copier.wait().unwrap();
        change(&pair, database);
        let lock = format!("SELECT IS_FREE_LOCK('waggle_copy.{database}')");
        wait(&pair.target, &lock, |is_free| is_free == "1");
        // What the dead one has sent may still be run once the table is free.
        let copier = begin(&pair, database);
        holder.query(b"COMMIT").unwrap();
        assert_whole(&pair, database, copier);
    }
}

#[test]
fn a_target_killed_while_keys_are_built_is_waited_for() {
    for flavour in flavours() {
        let mut pair = Pair::new(flavour);
        // Before the building begins, and in the middle of it.
        for (database, is_begun) in [("k2", false), ("k3", true)] {
            prepare(&pair, database);
            let (copier, mut holder) = begin_held(&pair, database);
            wait_until_altering(&pair.target, database);
            if is_begun {
                holder.query(b"COMMIT").unwrap();
            }
            crash(&mut pair.target);
            change(&pair, database);
            assert_whole(&pair, database, copier);
        }
    }
}
