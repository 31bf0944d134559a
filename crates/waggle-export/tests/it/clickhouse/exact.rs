//! Rows and sums equal the views.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use waggle_agent::host::{HostSample, ServerStatus};
use waggle_agent::lock::{Deadlock, LockKind, LockObject, LockWait, Party};
use waggle_agent::sample::{Reason, Sample};
use waggle_agent::sink::Sink;
use waggle_agent::statement::{Origin, ServerId, Work};
use waggle_agent::view::{DigestView, View};

use super::server::{Server, server};
use crate::views::{Simulated, view};

const PATIENCE: Duration = Duration::from_secs(60);

/// The sums of one digest in ClickHouse, and the same of a view.
fn stored(server: &Server, id: u32) -> BTreeMap<String, Vec<String>> {
    let rows = server.rows(&format!(
        "SELECT digest, sum(count), sum(errors), sum(latency_sum_ns), sum(cpu_ns), \
         sum(rows_sent), sum(lock_ns), sum(switches_voluntary), sum(switches_forced), \
         sum(rows_examined), sumMap(latency_upper_ns, latency_count) FROM waggle.waggle_statements \
         WHERE server = {id} GROUP BY digest"
    ));
    rows.into_iter()
        .map(|mut row| (row.remove(0), row))
        .collect()
}

fn expected(digest: &DigestView) -> Vec<String> {
    let ns = |s: f64| ((s * 1e9).round() as u64).to_string();
    let bars: Vec<(u64, u64)> = digest
        .latency
        .bars()
        .map(|(_, upper, n)| (upper as u64, n))
        .collect();
    let list = |values: Vec<String>| format!("[{}]", values.join(","));
    let switches = digest.switches.expect("switches");
    vec![
        digest.latency.count().to_string(),
        digest.errors.to_string(),
        digest.latency.sum_ns().to_string(),
        ns(digest.time.cpu_s),
        digest.rows_sent.expect("rows").to_string(),
        ns(digest.lock_s.expect("time")),
        switches.0.to_string(),
        switches.1.to_string(),
        "\\N".to_owned(),
        format!(
            "({},{})",
            list(bars.iter().map(|bar| bar.0.to_string()).collect()),
            list(bars.iter().map(|bar| bar.1.to_string()).collect())
        ),
    ]
}

fn assert_equal(server: &Server, simulated: &Simulated) {
    let stored = stored(server, simulated.view.id.0);
    let expected: BTreeMap<String, Vec<String>> = simulated
        .digests
        .values()
        .map(|digest| (digest.digest.to_string(), expected(digest)))
        .collect();
    assert_eq!(stored, expected);
}

#[test]
fn sums_equal_the_views_and_quantiles_merge() {
    let Some(server) = server() else { return };
    let mut sink = server.sink(server.port);
    let (mut a, mut b) = (Simulated::new(0, "mariadb"), Simulated::new(1, "mysql"));
    for step in 0..12 {
        a.work(200, 20);
        b.work(step * 10, 3);
        sink.view(&view(step, &[&a, &b]));
    }
    sink.close(PATIENCE);
    let status = sink.status();
    assert_eq!((status.waiting, status.last_error), (0, None));
    assert_eq!(status.dropped, []);
    assert_equal(&server, &a);
    assert_equal(&server, &b);
    server.assert_no_row_twice();
    let captured = server.rows(
        "SELECT server, sum(captured), sum(lost_count[1]), sum(other_commands), sum(own), \
         sum(in_routines) \
         FROM waggle.waggle_servers GROUP BY server ORDER BY server",
    );
    assert_eq!(captured[0], ["0", "2400", "240", "12", "24", "36"]);
    assert_eq!(captured[1], ["1", "660", "66", "12", "24", "36"]);
    assert_load(&server, &a);
    assert_quantiles(&server, &[&a, &b]);
    let texts = server.query("SELECT count() FROM waggle.waggle_digests FINAL");
    let digests: std::collections::BTreeSet<_> = a.digests.keys().chain(b.digests.keys()).collect();
    assert_eq!(texts, digests.len().to_string());
}

fn assert_load(server: &Server, simulated: &Simulated) {
    let found = server.rows(
        "SELECT sum(cpu_ns), sum(blocked_row_lock_ns) FROM waggle.waggle_load \
         WHERE server = 0 AND dimension = 'user' AND name = 'app'",
    );
    let all = &simulated.view.load.all;
    let ns = |s: f64| ((s * 1e9).round() as u64).to_string();
    assert_eq!(found[0], [ns(all.cpu_s), ns(all.blocked_s[0])]);
}

/// The quantile over any rows is that of a histogram of all their statements.
fn assert_quantiles(server: &Server, servers: &[&Simulated]) {
    let mut all = waggle_stats::compact::CompactHistogram::default();
    for digest in servers.iter().flat_map(|server| server.digests.values()) {
        all.merge(&digest.latency);
    }
    let bars: Vec<(u64, u64)> = all.bars().map(|(_, upper, n)| (upper as u64, n)).collect();
    for quantile in [0.5, 0.95, 0.99, 1.0] {
        let mut seen = 0.0;
        let wanted = all.count() as f64 * quantile;
        let bar = bars.iter().find(|bar| {
            seen += bar.1 as f64;
            seen >= wanted
        });
        let found = server.query(&format!(
            "SELECT arrayElement(tupleElement(m, 1), arrayFirstIndex(x -> x >= {quantile} * \
             arraySum(tupleElement(m, 2)), arrayCumSum(tupleElement(m, 2)))) FROM \
             (SELECT sumMap(latency_upper_ns, latency_count) AS m FROM waggle.waggle_statements)"
        ));
        assert_eq!(found, bar.expect("a bar").0.to_string(), "{quantile}");
    }
}

#[test]
fn views_that_were_skipped_and_digests_that_left_cost_no_count() {
    let Some(server) = server() else { return };
    let mut sink = server.sink(server.port);
    let mut a = Simulated::new(0, "mariadb");
    let mut truth = 0;
    for step in 0..10 {
        a.work(100, 8);
        truth += 100;
        // Digests come and go between two views of which this one sees every second.
        a.retire(step % 8);
        a.work(50, 8);
        truth += 50;
        if step % 2 == 1 {
            sink.view(&view(step, &[&a]));
        }
    }
    // The server is started anew: another number, counters from zero.
    let mut again = Simulated::new(7, "mariadb");
    again.work(30, 8);
    truth += 30;
    sink.view(&view(11, &[&a, &again]));
    again.work(5, 8);
    truth += 5;
    sink.view(&view(12, &[&again]));
    sink.close(PATIENCE);
    let found = server.rows(
        "SELECT sum(count), arraySum(tupleElement(sumMap(latency_upper_ns, latency_count), 2)) \
         FROM waggle.waggle_statements",
    );
    assert_eq!(found[0], [truth.to_string(), truth.to_string()]);
    assert_equal(&server, &again);
    server.assert_no_row_twice();
}

/// Quotes, ends of lines, zeros, and what is no character.
const HOSTILE: &str = "'; DROP TABLE waggle_samples; --\"`\\\n\t\r\0\u{fffd}\u{1f41d}\u{202e}";

fn hostile_party(id: u64) -> Party {
    Party {
        connection_id: Some(id),
        user: Arc::from(HOSTILE),
        database: Arc::from("shop"),
        digest: Some("00000000000000AA".to_owned()),
        fingerprint: Arc::from(HOSTILE),
        is_running: id == 1,
        transaction_us: None,
        idle_us: Some(5),
    }
}

fn hostile_sample() -> Sample {
    let comment = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    Sample {
        sequence: 3,
        server: ServerId(0),
        reason: Reason::Failed,
        time_us: 1_700_000_000_123_456,
        digest: Arc::from("00000000000000BB"),
        fingerprint: Arc::from(HOSTILE),
        text: Some(format!("select '{HOSTILE}'")),
        comments: vec![
            comment(HOSTILE, HOSTILE),
            comment(
                "traceparent",
                "00-5bd66ef5095369c7b0d1f8f4bd33716a-c532cb4098ac3dd2-01",
            ),
        ],
        user: Arc::from(HOSTILE),
        host: Arc::from("10.0.0.1"),
        database: Arc::from(""),
        connection_id: None,
        origin: Some(Origin::Client),
        latency_us: Some(1.5),
        cpu_us: None,
        runnable_us: None,
        blocked_us: Some([0.25; waggle_agent::WaitClass::COUNT]),
        work: Work {
            error: Some(1062),
            rows_sent: Some(u64::MAX),
            ..Work::default()
        },
    }
}

fn hostile_locks() -> (LockWait, Deadlock) {
    let wait = LockWait {
        id: 9,
        kind: LockKind::Row,
        waiter: hostile_party(1),
        blocker: hostile_party(2),
        object: LockObject {
            table: HOSTILE.into(),
            ..LockObject::default()
        },
        since_us: 1_700_000_000_000_000,
        waited_us: 500,
        ended: true,
    };
    let deadlock = Deadlock {
        time_us: 1_700_000_000_000_000,
        victim: hostile_party(1),
        cycle: vec![hostile_party(1), hostile_party(2)],
    };
    (wait, deadlock)
}

#[test]
fn hostile_text_arrives_byte_by_byte() {
    let Some(server) = server() else { return };
    let mut sink = server.sink(server.port);
    let mut a = Simulated::new(0, "mariadb");
    a.view.instance = Arc::from(HOSTILE);
    let (wait, deadlock) = hostile_locks();
    sink.samples(&[hostile_sample()]);
    sink.waits(&[(ServerId(0), wait)]);
    sink.deadlocks(&[(ServerId(0), deadlock)]);
    sink.view(&view(0, &[&a]));
    sink.close(PATIENCE);
    assert_eq!(sink.status().last_error, None);
    let hex = |text: &str| text.bytes().map(|b| format!("{b:02X}")).collect::<String>();
    let hostile = hex(HOSTILE);
    let row = server.rows(
        "SELECT hex(instance), hex(assumeNotNull(text)), hex(user), hex(comment_key[1]), \
         hex(comment_value[1]), trace_id, span_id, latency_ns, error, rows_sent, connection_id, \
         blocked_sleep_ns, time_us, toUnixTimestamp(time) FROM waggle.waggle_samples",
    );
    assert_eq!(
        row[0],
        [
            &hostile,
            &hex(&format!("select '{HOSTILE}'")),
            &hostile,
            &hostile,
            &hostile,
            "5bd66ef5095369c7b0d1f8f4bd33716a",
            "c532cb4098ac3dd2",
            "1500",
            "1062",
            "18446744073709551615",
            "\\N",
            "250",
            "1700000000123456",
            "1700000000"
        ]
    );
    let wait = server.rows(
        "SELECT hex(table_name), hex(waiter_user), blocker_connection_id, ended, kind \
         FROM waggle.waggle_waits",
    );
    assert_eq!(wait[0], [hostile.as_str(), &hostile, "2", "1", "row"]);
    let deadlock =
        server.rows("SELECT cycle_connection_id, hex(cycle_user[2]) FROM waggle.waggle_deadlocks");
    assert_eq!(deadlock[0], ["[1,2]", hostile.as_str()]);
    let texts = server
        .rows("SELECT digest, hex(fingerprint) FROM waggle.waggle_digests FINAL ORDER BY digest");
    assert_eq!(
        texts,
        [
            ["00000000000000AA", hostile.as_str()],
            ["00000000000000BB", &hostile]
        ]
    );
}

#[test]
fn the_machine_and_the_counters_are_recorded() {
    let Some(server) = server() else { return };
    let mut sink = server.sink(server.port);
    let mut a = Simulated::new(0, "mariadb");
    a.view.status = Some(ServerStatus {
        values: vec![("innodb_rows_read".into(), 12.0)],
        lag_s: vec![("ch1".into(), 1.5)],
        missing_because: None,
    });
    let host = HostSample {
        processors: 2,
        load: [0.5, 0.25, 0.125],
        ..HostSample::default()
    };
    let mut seen: View = (*view(0, &[&a])).clone();
    seen.host = Some(host);
    sink.view(&Arc::new(seen));
    sink.close(PATIENCE);
    let value = |scope: &str, name: &str, label: &str| {
        server.query(&format!(
            "SELECT value FROM waggle.waggle_metrics WHERE scope = '{scope}' AND name = '{name}' \
             AND label = '{label}' AND host = 'db1'"
        ))
    };
    assert_eq!(value("host", "processors", ""), "2");
    assert_eq!(value("host", "load_average", "5m"), "0.25");
    assert_eq!(value("status", "innodb_rows_read", ""), "12");
    assert_eq!(value("status", "replication_lag_seconds", "ch1"), "1.5");
}
