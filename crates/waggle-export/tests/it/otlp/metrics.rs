//! What are metrics: their values, kinds, units, and what becomes of their series?

use waggle_agent::sink::Sink;
use waggle_export::otlp::proto::{CUMULATIVE, Data, MetricsRequest};

use super::receiver::Receiver;
use super::{PATIENCE, attribute, metric, sums};
use crate::views::{Simulated, view};

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
    let metric = super::metric(request, "db.client.response.returned_rows");
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
