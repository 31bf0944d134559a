//! Is each field what the statement did?

use std::path::Path;
use std::time::Duration;

use serde_json::Value as Json;
use waggle_server::Flavour;
use waggle_wire::Connection;

use super::exact::{assert_counts, with_table};
use super::stage::{Account, can_watch, flavours, observe, run, settle};

/// The lines that `--log` wrote.
fn lines(path: &Path) -> Vec<Json> {
    let text = std::fs::read_to_string(path).expect("the log");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// What a user `ann` does in a database of her own, with what was counted of it.
fn statements_of_ann(flavour: Flavour, log: &Path) -> (Account, Connection) {
    let (server, mut admin) = with_table(flavour);
    run(
        &mut admin,
        &[
            "CREATE DATABASE other_place",
            "CREATE USER ann IDENTIFIED BY ''",
            "GRANT ALL ON *.* TO ann",
            // 1 to 100.
            "CREATE TABLE n (id INT PRIMARY KEY)",
            "INSERT INTO n SELECT a.id + 5 * (b.id - 1) + 25 * (c.id - 1) \
             FROM t a, t b, t c WHERE c.id <= 4",
        ],
    );
    let mut dsn = server.dsn();
    dsn.user = "ann".into();
    dsn.password = None;
    dsn.database = Some("other_place".into());
    let options = ["--log", log.to_str().expect("a path")];
    let observed = observe(&server, &options, |_| {
        let mut ann = Connection::connect(&dsn).expect("ann logs in");
        run(
            &mut ann,
            &[
                "SELECT * FROM sbtest.n",
                "SELECT COUNT(*) FROM sbtest.n WHERE id > 90",
                "SELECT id FROM sbtest.n WHERE id = 7",
                "SELECT id FROM sbtest.n WHERE id = 1000",
                "SELECT SLEEP(0.2)",
                "UPDATE sbtest.n SET id = id + 1000 WHERE id > 98",
            ],
        );
        ann.query(b"SELECT * FROM missing")
            .expect_err("no such table");
        run(&mut ann, &["USE sbtest", "SELECT 'here'"]);
        settle(&mut ann);
        ann
    });
    drop(server);
    observed
}

#[test]
fn every_field_of_a_statement() {
    for flavour in flavours() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        let (account, ann) = statements_of_ann(flavour, &log);
        let all = lines(&log);
        assert_eq!(all.len() as u64, account.report.captured());
        let line = |text: &str| {
            let found: Vec<&Json> = all.iter().filter(|line| line["text"] == text).collect();
            assert_eq!(found.len(), 1, "{text:?} in {all:?}");
            found[0]
        };
        // Rows sent and examined; an index finds none without examining one.
        for (text, sent, examined, error) in [
            ("SELECT * FROM sbtest.n", 100, 100, 0),
            ("SELECT COUNT(*) FROM sbtest.n WHERE id > 90", 1, 10, 0),
            ("SELECT id FROM sbtest.n WHERE id = 7", 1, 1, 0),
            ("SELECT id FROM sbtest.n WHERE id = 1000", 0, 0, 0),
            // Both find the rows first, as their key changes, and read them again.
            ("UPDATE sbtest.n SET id = id + 1000 WHERE id > 98", 0, 4, 0),
            ("SELECT * FROM missing", 0, 0, 1146),
        ] {
            let line = line(text);
            let found = (&line["rows_sent"], &line["rows_examined"], &line["error"]);
            assert_eq!(
                found,
                (&sent.into(), &examined.into(), &error.into()),
                "{flavour}: {line}"
            );
            assert_eq!(
                (&line["user"], &line["database"]),
                (&"ann".into(), &"other_place".into())
            );
            assert_eq!(line["connection"], ann.connection_id());
            assert_eq!(
                (&line["truncated"], &line["redacted"]),
                (&false.into(), &false.into())
            );
        }
        assert_eq!(line("SELECT 'here'")["database"], "sbtest");
        let slept = line("SELECT SLEEP(0.2)")["latency_us"]
            .as_f64()
            .expect("a latency");
        assert!(
            (200e3..10e6).contains(&slept),
            "{flavour}: slept {slept} us"
        );
        let digest = account.report.digest("select sleep(?)");
        let total = digest["latency_us"]["total"].as_f64().expect("a total");
        assert!((slept - total).abs() < 1.0, "{digest} against {slept}");
        assert_eq!(
            (&digest["user"], &digest["database"]),
            (&"ann".into(), &"other_place".into())
        );
        let wrong_clock = all
            .iter()
            .filter(|l| !(0.0..10e6).contains(&l["latency_us"].as_f64().expect("a latency")));
        assert_eq!(wrong_clock.count(), 0, "{all:?}");
    }
}

#[test]
fn names_of_every_length_and_script() {
    if !can_watch(Flavour::MariaDb) {
        return;
    }
    let (server, mut admin) = with_table(Flavour::MariaDb);
    // Longer than what is copied: 50 characters of three bytes (more make no file name, as the
    // server spells them), and a user of 80 characters.
    let database = "蜂".repeat(50);
    let user = "u".repeat(80);
    run(
        &mut admin,
        &[
            &format!("CREATE DATABASE `{database}`"),
            &format!("CREATE USER '{user}' IDENTIFIED BY ''"),
            &format!("GRANT ALL ON *.* TO '{user}'"),
        ],
    );
    let mut dsn = server.dsn_socket();
    dsn.user.clone_from(&user);
    dsn.password = None;
    dsn.database = Some(database.clone());
    let (account, _named) = observe(&server, &[], |_| {
        let mut named = Connection::connect(&dsn).expect("it logs in");
        // More than it takes to judge whether what is read can be a name.
        for _ in 0..300 {
            run(&mut named, &["SELECT 1"]);
        }
        settle(&mut named);
        named
    });
    assert_counts("names", &account, 300, 300, 300);
    let missing = account
        .report
        .0
        .pointer("/servers/0/missing")
        .expect("missing");
    for field in ["query", "user", "database", "client_host"] {
        assert_eq!(
            missing.get(field),
            None,
            "nothing is doubted because it is cut"
        );
    }
    let digest = account.report.digest("select ?");
    let shown = |field: &str| digest[field].as_str().expect("a name").to_owned();
    assert!(shown("database").starts_with(&"蜂".repeat(20)), "{digest}");
    assert!(
        database.starts_with(shown("database").trim_end_matches('\u{fffd}')),
        "{digest}"
    );
    assert!(
        user.starts_with(&shown("user")) && shown("user").len() >= 60,
        "{digest}"
    );
}

#[test]
fn a_statement_that_is_slow_to_be_read_is_timed_to_its_end() {
    if !can_watch(Flavour::MariaDb) {
        return;
    }
    let (server, mut connection) = with_table(Flavour::MariaDb);
    let (account, elapsed) = observe(&server, &[], |_| {
        let begun = std::time::Instant::now();
        run(&mut connection, &["SELECT SLEEP(0.3)"]);
        settle(&mut connection);
        begun.elapsed()
    });
    let digest = account.report.digest("select sleep(?)");
    let total = digest["latency_us"]["total"].as_f64().expect("a latency");
    let latency = Duration::from_secs_f64(total / 1e6);
    assert!(
        latency >= Duration::from_millis(300) && latency <= elapsed,
        "{latency:?} of {elapsed:?}"
    );
}

/// A user or database that somebody has given an odd name does not cost the server its fields.
#[test]
fn names_with_controls_are_names() {
    const USER: &str = "a\x1b[31m\u{202e}";
    const DATABASE: &str = "d\x1b]0;x\x07\n'\"\u{202e}";
    for flavour in flavours() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        let (server, mut admin) = with_table(flavour);
        run(
            &mut admin,
            &[
                &format!("CREATE DATABASE `{DATABASE}`"),
                &format!("CREATE USER '{USER}' IDENTIFIED BY ''"),
                &format!("GRANT ALL ON *.* TO '{USER}'"),
            ],
        );
        let mut dsn = server.dsn();
        dsn.user = USER.into();
        dsn.password = None;
        dsn.database = Some(DATABASE.into());
        let options = ["--log", log.to_str().expect("a path")];
        observe(&server, &options, |_| {
            let mut odd = Connection::connect(&dsn).expect("it logs in");
            // More than are looked at before a field is believed or not.
            for _ in 0..300 {
                odd.query(b"\x01 no statement").expect_err("it is none");
            }
            for _ in 0..300 {
                run(&mut odd, &["SELECT 1"]);
            }
            run(&mut odd, &["SELECT 'here'"]);
            settle(&mut odd);
        });
        let all = lines(&log);
        let here = all.iter().find(|line| line["text"] == "SELECT 'here'");
        let here = here.unwrap_or_else(|| panic!("{flavour}: its text is gone"));
        for (field, part) in [("user", "[31m"), ("database", "]0;x")] {
            let name = here[field].as_str();
            assert!(
                name.is_some_and(|n| n.contains(part)),
                "{flavour}: {field} of {here}"
            );
        }
    }
}
