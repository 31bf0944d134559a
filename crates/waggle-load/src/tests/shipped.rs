//! The shipped workloads: the statements they send, the tables that `prepare` fills.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{spec, start};
use crate::driver::Outcome;
use crate::driver::scripted::{Scripted, ScriptedDriver, server_error};
use crate::{LoadState, Progress, Script, command};

#[test]
fn statements_of_the_shipped_workloads_are_the_documented_ones() {
    let wanted = [
        (
            "oltp_point_select",
            1,
            vec!["SELECT c FROM sbtest1 WHERE id=?"],
        ),
        (
            "oltp_read_only",
            16,
            vec![
                "BEGIN",
                "SELECT c FROM sbtest1 WHERE id=?",
                "SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ?",
                "SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN ? AND ?",
                "SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c",
                "SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c",
                "COMMIT",
            ],
        ),
        (
            "oltp_read_write",
            20,
            vec![
                "BEGIN",
                "SELECT c FROM sbtest1 WHERE id=?",
                "SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ?",
                "SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN ? AND ?",
                "SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c",
                "SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c",
                "UPDATE sbtest1 SET k=k+1 WHERE id=?",
                "UPDATE sbtest1 SET c=? WHERE id=?",
                "DELETE FROM sbtest1 WHERE id=?",
                "INSERT INTO sbtest1 (id, k, c, pad) VALUES (?, ?, ?, ?)",
                "COMMIT",
            ],
        ),
    ];
    for (name, statements, distinct) in wanted {
        let server = Scripted::silent();
        let load = start(&spec(Script::open(name).unwrap()), &server).unwrap();
        while load.counters().transactions == 0 {
            assert_eq!(load.wait(Duration::from_millis(1)), LoadState::Active);
        }
        load.stop().unwrap();
        let mut texts = server.texts();
        texts.truncate(statements);
        texts.dedup();
        assert_eq!(texts, distinct, "{name}");
    }
}

#[test]
fn prepare_fills_every_table_and_reports_rows() {
    let mut spec = spec(Script::open("oltp_read_write").unwrap());
    spec.threads = 3;
    spec.options = BTreeMap::from([
        ("tables".to_owned(), "4".to_owned()),
        ("table-size".to_owned(), "5000".to_owned()),
        ("auto_inc".to_owned(), "off".to_owned()),
    ]);
    let server = Scripted::silent();
    let most_rows = Arc::new(Mutex::new(0));
    let seen = most_rows.clone();
    let progress = move |progress: Progress<'_>| {
        if let Progress::Rows { inserted } = progress {
            let mut most = seen.lock().unwrap();
            *most = inserted.max(*most);
        }
    };
    let driver = Arc::new(ScriptedDriver(server.clone()));
    command::run(&spec, "prepare", driver.clone(), Arc::new(progress)).unwrap();
    assert_eq!(*most_rows.lock().unwrap(), 20_000);

    let texts = server.texts();
    let count = |part: &str| texts.iter().filter(|text| text.contains(part)).count();
    assert_eq!(count("CREATE TABLE sbtest"), 4);
    assert_eq!(count("CREATE INDEX k_"), 4);
    // 5,000 rows of about 200 bytes do not fit one packet of 512 KiB.
    assert_eq!(count("INSERT INTO sbtest3 (id, k, c, pad) VALUES (1, "), 1);
    assert_eq!(count("INSERT INTO sbtest3 (id, k, c, pad) VALUES ("), 2);
    assert!(texts.iter().all(|text| text.len() <= 512 * 1024));

    command::run(&spec, "cleanup", driver, Arc::new(|_| {})).unwrap();
    assert_eq!(
        server
            .texts()
            .iter()
            .filter(|text| text.starts_with("DROP TABLE"))
            .count(),
        4
    );
}

#[test]
fn a_failed_thread_of_prepare_ends_the_others_and_is_reported() {
    let mut spec = spec(Script::open("oltp_read_write").unwrap());
    spec.threads = 2;
    spec.options = BTreeMap::from([("tables".to_owned(), "2".to_owned())]);
    let server = Scripted::answering(
        |_, asked| match asked.sql.contains("CREATE TABLE sbtest2") {
            true => Err(server_error(1114, "The table is full")),
            false => Ok(Outcome::default()),
        },
    );
    let driver = Arc::new(ScriptedDriver(server));
    let error = command::run(&spec, "prepare", driver, Arc::new(|_| {})).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("thread 1") && text.contains("The table is full"),
        "{text}"
    );
    assert!(text.contains("at oltp_common.lua:"), "{text}");
    assert!(
        !spec.cancel.load(Ordering::Relaxed),
        "the caller's flag is the caller's"
    );
}
