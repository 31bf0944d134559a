//! Tables of an older version, of a newer one, and days that go.

use std::time::Duration;

use waggle_agent::sink::Sink;
use waggle_export::clickhouse::ClickHouse;

use super::server::server;
use crate::views::{Simulated, now_us, view, wait_until};

const PATIENCE: Duration = Duration::from_secs(60);

/// The first version of the schema, as it was; never changed.
const FIRST: &str = include_str!("schema_v1.sql");

fn send(sink: &mut ClickHouse, count: u64) {
    let mut a = Simulated::new(0, "mariadb");
    a.work(count, 10);
    sink.view(&view(0, &[&a]));
    sink.close(PATIENCE);
    let status = sink.status();
    assert_eq!(
        (status.waiting, &status.last_error),
        (0, &None),
        "{status:?}"
    );
}

#[test]
fn tables_of_the_first_version_are_migrated_with_their_rows() {
    let Some(server) = server() else { return };
    for statement in FIRST.split(";\n").filter(|text| !text.trim().is_empty()) {
        server.query(statement);
    }
    server.query(
        "INSERT INTO waggle.waggle_samples (time, host, sequence, digest, text) \
         VALUES (1700000000, 'old', 1, 'AA', 'kept')",
    );
    send(&mut server.sink(server.port), 70);
    assert_eq!(
        server.query("SELECT max(version) FROM waggle.waggle_schema"),
        "4"
    );
    let old = server
        .rows("SELECT host, text, trace_id, comment_key FROM waggle.waggle_samples ORDER BY time");
    assert_eq!(old[0], ["old", "kept", "", "[]"]);
    assert_eq!(
        server.query("SELECT sum(count) FROM waggle.waggle_statements"),
        "70"
    );
    assert_ne!(
        server.query("SELECT count() FROM waggle.waggle_metrics"),
        "0"
    );
}

/// A migration that was killed between two steps is carried out to its end.
#[test]
fn half_a_migration_is_finished() {
    let Some(server) = server() else { return };
    for statement in FIRST.split(";\n").filter(|text| !text.trim().is_empty()) {
        server.query(statement);
    }
    server.query("ALTER TABLE waggle.waggle_samples ADD COLUMN comment_key Array(String)");
    send(&mut server.sink(server.port), 5);
    let columns = server.query(
        "SELECT count() FROM system.columns WHERE database = 'waggle' \
         AND table = 'waggle_samples' AND name IN ('comment_key', 'comment_value', 'span_id')",
    );
    assert_eq!(columns, "3");
}

#[test]
fn a_newer_schema_is_left_alone_and_written_to() {
    let Some(server) = server() else { return };
    send(&mut server.sink(server.port), 5);
    server.query("INSERT INTO waggle.waggle_schema VALUES (99, 1700000000, 'newer')");
    server.query("ALTER TABLE waggle.waggle_statements ADD COLUMN newer UInt64");
    send(&mut server.sink(server.port), 5);
    assert_eq!(
        server.query("SELECT max(version) FROM waggle.waggle_schema"),
        "99"
    );
    assert_eq!(
        server.query("SELECT sum(count) FROM waggle.waggle_statements"),
        "10"
    );
}

#[test]
fn days_beyond_the_retention_go() {
    let Some(server) = server() else { return };
    send(&mut server.sink(server.port), 5);
    let day = 86_400;
    let now_s = now_us() / 1_000_000;
    for age in [2, 3, 40] {
        let time = now_s - age * day;
        server.query(&format!(
            "INSERT INTO waggle.waggle_statements (time, digest, count) \
             VALUES ({time}, 'AA', {age})"
        ));
    }
    let spool = server.folder.path().join("spool");
    let mut options = server.options(server.port, &spool);
    options.retention_days = Some(2);
    let mut sink = ClickHouse::start(options).expect("a sink");
    send(&mut sink, 5);
    wait_until("old days are gone", || {
        server.query("SELECT count() FROM waggle.waggle_statements WHERE count IN (3, 40)") == "0"
    });
    let kept = server.query("SELECT count() FROM waggle.waggle_statements WHERE digest = 'AA'");
    assert_eq!(kept, "1");
}
