//! What an OTLP receiver gets: values, kinds, units, temporality, and what its refusals do.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use prost::Message;
use tempfile::TempDir;
use waggle_agent::lock::{Deadlock, LockKind, LockObject, LockWait, Party};
use waggle_agent::sample::{Reason, Sample};
use waggle_agent::sink::Sink;
use waggle_agent::statement::{Origin, ServerId, Work};
use waggle_export::otlp::proto::{
    AnyValue, CUMULATIVE, Data, KeyValue, LogRecord, LogsRequest, Metric, MetricsRequest, Number,
    PartialSuccess, Response, Status, Value,
};
use waggle_export::otlp::{Options, Otlp};
use waggle_export::spool::Limits;

use crate::clickhouse::proxy::request;
use crate::views::{Simulated, view, wait_until};

const PATIENCE: Duration = Duration::from_secs(60);

/// One request as it came.
#[derive(Debug, Clone)]
struct Got {
    path: String,
    head: String,
    body: Vec<u8>,
    at: Instant,
}

/// Status, more of the head, body.
type Answer = (u16, &'static str, Vec<u8>);

struct Receiver {
    url: String,
    got: Arc<Mutex<Vec<Got>>>,
    folder: TempDir,
}

impl Receiver {
    /// Answers with `answers` first, then always with an empty success.
    fn start(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("a port"));
        let got = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&got);
        let mut answers = VecDeque::from(answers);
        thread::spawn(move || {
            for mut client in listener.incoming().map_while(Result::ok) {
                let Ok((head, packed)) = request(&mut client) else {
                    continue;
                };
                let mut body = Vec::new();
                flate2::read::GzDecoder::new(packed.as_slice())
                    .read_to_end(&mut body)
                    .expect("gzip");
                let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                let at = Instant::now();
                seen.lock().expect("requests").push(Got {
                    path,
                    head,
                    body,
                    at,
                });
                let (status, more, body) = answers.pop_front().unwrap_or((200, "", Vec::new()));
                let head = format!(
                    "HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n{more}\r\n",
                    body.len()
                );
                let _ = client.write_all(&[head.as_bytes(), &body].concat());
            }
        });
        let folder = tempfile::tempdir().expect("a folder");
        Self { url, got, folder }
    }

    fn sink(&self) -> Otlp {
        Otlp::start(Options {
            url: self.url.clone(),
            headers: vec![("X-Token".into(), "planted".into())],
            interval: Duration::ZERO,
            timeout: Duration::from_secs(20),
            spool: self.folder.path().join("spool"),
            limits: Limits {
                min_free_bytes: 0,
                ..Limits::default()
            },
        })
        .expect("a sink")
    }

    fn got(&self) -> Vec<Got> {
        self.got.lock().expect("requests").clone()
    }

    fn metrics(&self) -> Vec<MetricsRequest> {
        let is_metrics = |got: &Got| got.path == "/v1/metrics";
        let decode = |got: Got| MetricsRequest::decode(got.body.as_slice()).expect("metrics");
        self.got()
            .into_iter()
            .filter(is_metrics)
            .map(decode)
            .collect()
    }

    fn logs(&self) -> Vec<LogRecord> {
        let got = self.got();
        let requests = got.iter().filter(|got| got.path == "/v1/logs");
        requests
            .map(|got| LogsRequest::decode(got.body.as_slice()).expect("logs"))
            .flat_map(|request| request.resources)
            .flat_map(|resource| resource.scopes)
            .flat_map(|scope| scope.records)
            .collect()
    }
}

fn shown(value: &Option<AnyValue>) -> String {
    match value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::Text(text)) => text.clone(),
        Some(Value::Truth(truth)) => truth.to_string(),
        Some(Value::Whole(whole)) => whole.to_string(),
        Some(Value::Real(real)) => real.to_string(),
        Some(Value::List(list)) => {
            let each = list.values.iter().map(|value| shown(&Some(value.clone())));
            each.collect::<Vec<_>>().join("|")
        }
        None => "nothing".to_owned(),
    }
}

fn attribute(attributes: &[KeyValue], key: &str) -> Option<String> {
    let mut found = attributes.iter().filter(|attribute| attribute.key == key);
    let value = found.next().map(|attribute| shown(&attribute.value));
    assert!(found.next().is_none(), "{key} is there twice");
    value
}

fn metric(request: &MetricsRequest, name: &str) -> Metric {
    let metrics = &request.resources[0].scopes[0].metrics;
    let found = metrics.iter().find(|metric| metric.name == name);
    found.unwrap_or_else(|| panic!("no {name}")).clone()
}

/// Value and attribute `key` of each point of a cumulative, growing sum.
fn sums(request: &MetricsRequest, name: &str, unit: &str, key: &str) -> Vec<(String, f64)> {
    let metric = metric(request, name);
    assert_eq!(metric.unit, unit, "{name}");
    let Some(Data::Sum(sum)) = metric.data else {
        panic!("{name} is no sum")
    };
    assert_eq!(
        (sum.temporality, sum.is_monotonic),
        (CUMULATIVE, true),
        "{name}"
    );
    let value = |value: Option<Number>| match value {
        Some(Number::Real(real)) => real,
        Some(Number::Whole(whole)) => whole as f64,
        None => panic!("{name} has no value"),
    };
    let points = sum.points.iter();
    points
        .map(|p| {
            (
                attribute(&p.attributes, key).unwrap_or_default(),
                value(p.value),
            )
        })
        .collect()
}

#[test]
fn metrics_have_the_values_kinds_and_units_of_the_conventions() {
    let receiver = Receiver::start(Vec::new());
    let mut sink = receiver.sink();
    let mut a = Simulated::new(0, "mariadb");
    for step in 0..3 {
        a.work(400, 5);
        sink.view(&view(step, &[&a]));
    }
    sink.close(PATIENCE);
    assert_eq!(sink.status().last_error, None);
    let requests = receiver.metrics();
    assert_eq!(requests.len(), 3);
    let last = &requests[2];
    let resource = last.resources[0].resource.clone().expect("a resource");
    assert_eq!(
        attribute(&resource.attributes, "service.name").as_deref(),
        Some("waggle")
    );
    assert_eq!(
        attribute(&resource.attributes, "host.name").as_deref(),
        Some("db1")
    );
    assert_latencies(last, &a);
    let errors = sums(
        last,
        "waggle.statement.errors",
        "{error}",
        "db.query.summary",
    );
    let truth: u64 = a.digests.values().map(|digest| digest.errors).sum();
    assert_eq!(errors.iter().map(|(_, n)| *n as u64).sum::<u64>(), truth);
    let captured = sums(last, "waggle.statement.count", "{statement}", "server.port");
    assert_eq!(captured, [("3306".to_owned(), 1200.0)]);
    let within = "waggle.statement.in_routines";
    let within = sums(last, within, "{statement}", "server.port");
    assert_eq!(within, [("3306".to_owned(), 9.0)]);
    let own = sums(last, "waggle.statement.own", "{statement}", "server.port");
    assert_eq!(own, [("3306".to_owned(), 6.0)]);
    let lost = sums(last, "waggle.statement.lost", "{statement}", "waggle.cause");
    assert_eq!(
        lost,
        [("ring_full".to_owned(), 120.0), ("tls".to_owned(), 0.0)]
    );
    let time = sums(last, "waggle.session.time", "s", "waggle.session.class");
    assert_eq!(time.len(), 15);
    assert!((time[0].1 - a.view.load.all.cpu_s).abs() < 1e-9 && time[0].0 == "cpu");
    let active = metric(last, "waggle.session.active");
    assert!(matches!(active.data, Some(Data::Gauge(ref gauge)) if gauge.points.len() == 15));
    let head = &receiver.got()[0].head.to_lowercase();
    for expected in [
        "x-token: planted",
        "content-type: application/x-protobuf",
        "gzip",
    ] {
        assert!(head.contains(expected), "{expected} in {head}");
    }
}

fn assert_latencies(request: &MetricsRequest, simulated: &Simulated) {
    let metric = metric(request, "db.client.operation.duration");
    assert_eq!(metric.unit, "s");
    let Some(Data::Exponential(histogram)) = metric.data else {
        panic!("no exponential histogram")
    };
    assert_eq!(histogram.temporality, CUMULATIVE);
    assert_eq!(histogram.points.len(), simulated.digests.len());
    for (point, digest) in histogram.points.iter().zip(simulated.digests.values()) {
        let of = |key| attribute(&point.attributes, key).expect(key);
        assert_eq!(of("db.system.name"), "mariadb");
        assert_eq!(of("db.namespace"), "shop");
        assert_eq!(of("db.query.summary"), &*digest.summary);
        assert_eq!(
            (of("server.address"), of("server.port")),
            ("db1".into(), "3306".into())
        );
        assert_eq!(point.start_ns, simulated.view.started_us * 1000);
        assert_eq!(point.count, digest.latency.count());
        let sum = point.sum.expect("a sum");
        assert!((sum - digest.latency.sum_ns() as f64 / 1e9).abs() < 1e-9);
        let buckets = point.positive.as_ref().expect("buckets");
        assert_eq!(
            buckets.counts.iter().sum::<u64>() + point.zero_count,
            point.count
        );
        // The median by the receiver's arithmetic.
        let base = 2f64.powf(2f64.powi(-point.scale));
        let mut seen = 0;
        let index = buckets.counts.iter().position(|count| {
            seen += count;
            seen * 2 >= point.count
        });
        let upper_us = base.powi(buckets.offset + index.expect("a median") as i32 + 1) * 1e6;
        let ratio = upper_us / digest.latency.quantile_us(0.5);
        assert!(
            (0.98..base * 1.03).contains(&ratio),
            "{ratio} at scale {}",
            point.scale
        );
    }
    let metric = self::metric(request, "db.client.response.returned_rows");
    let Some(Data::Histogram(rows)) = metric.data else {
        panic!("no histogram")
    };
    assert_eq!(
        (metric.unit.as_str(), rows.temporality),
        ("{row}", CUMULATIVE)
    );
    let sent: u64 = simulated
        .digests
        .values()
        .filter_map(|digest| digest.rows_sent)
        .sum();
    let sum: f64 = rows.points.iter().filter_map(|point| point.sum).sum();
    assert_eq!(sum, sent as f64);
}

/// A series goes on when its digest leaves the view, and when it comes back.
#[test]
fn series_never_shrink_when_digests_leave() {
    let receiver = Receiver::start(Vec::new());
    let mut sink = receiver.sink();
    let mut a = Simulated::new(0, "mysql");
    for step in 0..8 {
        a.work(100, 4);
        sink.view(&view(step, &[&a]));
        a.retire(step % 4);
    }
    sink.close(PATIENCE);
    let mut before = 0;
    for request in receiver.metrics() {
        let metric = metric(&request, "db.client.operation.duration");
        let Some(Data::Exponential(histogram)) = metric.data else {
            panic!("no exponential histogram")
        };
        let count = histogram
            .points
            .iter()
            .map(|point| point.count)
            .sum::<u64>();
        assert_eq!(count, before + 100);
        before = count;
    }
}

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

fn one_view(receiver: &Receiver) -> Otlp {
    let mut sink = receiver.sink();
    let mut a = Simulated::new(0, "mysql");
    a.work(50, 3);
    sink.view(&view(0, &[&a]));
    sink
}

fn delivered(sink: &Otlp) -> bool {
    sink.status().waiting == 0 && sink.status().delivered > 0
}

#[test]
fn what_may_be_retried_is_retried_and_not_before_its_time() {
    let answers = vec![
        (503, "", b"busy".to_vec()),
        (429, "Retry-After: 1\r\n", Vec::new()),
        (502, "", Vec::new()),
        (504, "", Vec::new()),
    ];
    let receiver = Receiver::start(answers);
    let mut sink = one_view(&receiver);
    wait_until("it is delivered", || delivered(&sink));
    sink.close(PATIENCE);
    let got = receiver.got();
    assert_eq!(got.len(), 5);
    assert!(got.iter().all(|request| request.body == got[0].body));
    assert!(
        got[2].at - got[1].at >= Duration::from_secs(1),
        "the receiver asked for 1 s"
    );
    assert_eq!(
        (sink.status().dropped, sink.status().last_error),
        (Vec::new(), None)
    );
}

#[test]
fn other_refusals_are_final_and_counted() {
    for status in [400, 401, 404, 413, 500, 501] {
        let why = Status {
            message: "no such tenant".into(),
        };
        let receiver = Receiver::start(vec![(status, "", why.encode_to_vec())]);
        let mut sink = one_view(&receiver);
        wait_until("it is counted", || !sink.status().dropped.is_empty());
        let found = sink.status();
        assert_eq!((found.delivered, found.waiting), (0, 0));
        assert_eq!(found.dropped[0].0, "rejected");
        assert!(found.dropped[0].1 > 10, "records, not requests");
        let error = found.last_error.expect("an error");
        assert!(
            error.contains("no such tenant") && error.contains(&status.to_string()),
            "{error}"
        );
        assert!(!format!("{error}{sink:?}").contains("planted"));
        sink.close(PATIENCE);
        assert_eq!(receiver.got().len(), 1);
    }
}

#[test]
fn a_partial_success_is_counted_and_not_repeated() {
    let partial = Response {
        partial_success: Some(PartialSuccess {
            rejected: 4,
            message: "too many series".into(),
        }),
    };
    let receiver = Receiver::start(vec![(200, "", partial.encode_to_vec())]);
    let mut sink = one_view(&receiver);
    wait_until("it is delivered", || delivered(&sink));
    sink.close(PATIENCE);
    let status = sink.status();
    assert_eq!(status.dropped, [("partly_rejected", 4)]);
    let request = &receiver.metrics()[0];
    let points: usize = request.resources[0].scopes[0]
        .metrics
        .iter()
        .map(|metric| match &metric.data {
            Some(Data::Sum(sum)) => sum.points.len(),
            Some(Data::Gauge(gauge)) => gauge.points.len(),
            Some(Data::Histogram(histogram)) => histogram.points.len(),
            Some(Data::Exponential(histogram)) => histogram.points.len(),
            None => 0,
        })
        .sum();
    assert_eq!(status.delivered + 4, points as u64);
    assert_eq!(receiver.got().len(), 1);
}

#[test]
fn more_summaries_than_the_bound_become_one_series() {
    let receiver = Receiver::start(Vec::new());
    let mut sink = receiver.sink();
    let mut a = Simulated::new(0, "mysql");
    a.work(30_000, 1500);
    sink.view(&view(0, &[&a]));
    sink.close(PATIENCE);
    let metric = metric(&receiver.metrics()[0], "db.client.operation.duration");
    let Some(Data::Exponential(histogram)) = metric.data else {
        panic!("no exponential histogram")
    };
    assert_eq!(histogram.points.len(), 1001);
    assert_eq!(
        histogram.points.iter().map(|p| p.count).sum::<u64>(),
        30_000
    );
    let overflow = histogram.points.iter().filter(|point| {
        attribute(&point.attributes, "otel.metric.overflow").as_deref() == Some("true")
    });
    assert_eq!(overflow.count(), 1);
}
