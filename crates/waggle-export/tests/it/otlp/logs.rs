//! What are samples, waits and deadlocks as logs?

use std::sync::Arc;

use waggle_agent::lock::{Deadlock, LockKind, LockObject, LockWait, Party};
use waggle_agent::sample::{Reason, Sample};
use waggle_agent::sink::Sink;
use waggle_agent::statement::{Origin, ServerId, Work};

use super::receiver::Receiver;
use super::{PATIENCE, attribute};
use crate::views::{Simulated, view};

fn party(id: u64, fingerprint: &str) -> Party {
    Party {
        connection_id: Some(id),
        user: Arc::from("app"),
        database: Arc::from("shop"),
        digest: Some("00000000000000AA".to_owned()),
        fingerprint: Arc::from(fingerprint),
        is_running: true,
        transaction_us: Some(2_500_000),
        idle_us: None,
    }
}

fn sample(sequence: u64) -> Sample {
    let comment = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let trace = "00-5bd66ef5095369c7b0d1f8f4bd33716a-c532cb4098ac3dd2-01";
    Sample {
        sequence,
        server: ServerId(0),
        reason: Reason::Failed,
        time_us: 1_700_000_000_000_000,
        digest: crate::views::digest(1).digest,
        fingerprint: Arc::from("select c from t1 where id=?"),
        text: None,
        comments: vec![comment("traceparent", trace), comment("action", "/cart")],
        user: Arc::from("app"),
        host: Arc::from("10.0.0.1"),
        database: Arc::from("shop"),
        connection_id: Some(7),
        origin: Some(Origin::Client),
        latency_us: Some(1500.0),
        cpu_us: Some(500.0),
        runnable_us: None,
        blocked_us: Some([0.0; waggle_agent::WaitClass::COUNT]),
        work: Work {
            error: Some(1062),
            rows_sent: Some(3),
            ..Work::default()
        },
    }
}

/// Attributes of the sample, the wait and the deadlock.
const EXPECTED: [&[(&str, &str)]; 3] = [
    &[
        ("db.system.name", "mysql"),
        ("db.namespace", "shop"),
        ("db.query.summary", "SELECT t1"),
        ("db.query.text", "select c from t1 where id=?"),
        ("db.response.status_code", "1062"),
        ("error.type", "1062"),
        ("db.response.returned_rows", "3"),
        ("server.address", "db1"),
        ("server.port", "3306"),
        ("client.address", "10.0.0.1"),
        ("waggle.comment.action", "/cart"),
        ("waggle.statement.duration", "0.0015"),
    ],
    &[
        ("db.collection.name", "shop.t"),
        ("waggle.lock.wait.duration", "1.5"),
        ("waggle.lock.waiter.connection.id", "1"),
        ("waggle.lock.blocker.query.text", "delete from t"),
        ("waggle.lock.blocker.transaction.age", "2.5"),
    ],
    &[
        ("db.response.status_code", "1213"),
        ("waggle.deadlock.victim.connection.id", "1"),
        ("waggle.deadlock.cycle", "update t set a=?|delete from t"),
    ],
];

#[test]
fn samples_waits_and_deadlocks_are_logs() {
    let receiver = Receiver::start(Vec::new());
    let mut sink = receiver.sink();
    let mut a = Simulated::new(0, "mysql");
    a.work(50, 3);
    let wait = LockWait {
        id: 9,
        kind: LockKind::Row,
        waiter: party(1, "update t set a=?"),
        blocker: party(2, "delete from t"),
        object: LockObject {
            table: "shop.t".into(),
            index: "PRIMARY".into(),
            mode_wanted: "X".into(),
            ..LockObject::default()
        },
        since_us: 1_700_000_000_000_000,
        waited_us: 1_500_000,
        ended: true,
    };
    let deadlock = Deadlock {
        time_us: 1_700_000_000_000_000,
        victim: party(1, "update t set a=?"),
        cycle: vec![party(1, "update t set a=?"), party(2, "delete from t")],
    };
    sink.samples(&[sample(1)]);
    sink.waits(&[(ServerId(0), wait)]);
    sink.deadlocks(&[(ServerId(0), deadlock)]);
    sink.view(&view(0, &[&a]));
    sink.close(PATIENCE);
    let logs = receiver.logs();
    let events: Vec<&str> = logs
        .iter()
        .map(|record| record.event_name.as_str())
        .collect();
    assert_eq!(
        events,
        [
            "db.server.query_sample",
            "waggle.lock_wait",
            "waggle.deadlock"
        ]
    );
    for (record, expected) in logs.iter().zip(EXPECTED) {
        for (key, value) in expected {
            let found = attribute(&record.attributes, key);
            assert_eq!(
                found.as_deref(),
                Some(*value),
                "{key} of {}",
                record.event_name
            );
        }
        assert_ne!(record.observed_ns, 0);
    }
    assert_eq!(logs[0].trace_id[..4], [0x5b, 0xd6, 0x6e, 0xf5]);
    assert_eq!(
        (logs[0].trace_id.len(), logs[0].span_id.len(), logs[0].flags),
        (16, 8, 1)
    );
    assert_eq!(logs[0].time_ns, 1_700_000_000_000_000_000);
    assert_eq!(
        (logs[0].severity, logs[0].severity_text.as_str()),
        (17, "ERROR")
    );
    assert_eq!(logs[1].time_ns, 1_700_000_001_500_000_000);
}
