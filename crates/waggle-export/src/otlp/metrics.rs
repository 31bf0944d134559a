//! Which metrics does a view make?
//!
//! Names, units and attributes of OpenTelemetry's database conventions where they fit, `waggle.*`
//! elsewhere. All sums and histograms are cumulative: a view is, so a request that is lost costs
//! resolution and not count, one that arrives twice does no harm, and Prometheus-like stores take
//! nothing else. One series for each default database and query summary: bounded, and what is
//! beyond the bound has the attribute that OpenTelemetry gives to such series.
//! Neighbours: `encode` calls, `delta` takes differences. Invariant: a series never shrinks, also
//! when a digest leaves the view.

use std::collections::BTreeMap;
use std::sync::Arc;

use waggle_agent::WaitClass;
use waggle_agent::host::ProcessSample;
use waggle_agent::statement::ServerId;
use waggle_agent::view::{ServerView, View};

use super::histogram::exponential;
use super::proto::{
    CUMULATIVE, Data, Exponential, ExponentialPoint, Gauge, Histogram, HistogramPoint, KeyValue,
    Metric, Number, NumberPoint, Sum, text, whole,
};
use crate::delta::{Deltas, SessionNs, Sums};

/// Most series of one server; the convention's attribute marks the sum of the others.
pub(crate) const SERIES_MAX: usize = 1000;
const OVERFLOW: &str = "otel.metric.overflow";

/// Default database and query summary; `None` for what is beyond the bound.
type Key = Option<(Arc<str>, Arc<str>)>;

/// What the series of one server hold.
#[derive(Debug, Default)]
struct Series {
    sums: BTreeMap<Key, Sums>,
    /// Session time and time of the view before, for active sessions.
    before: Option<(SessionNs, u64)>,
}

/// Adds up what views bring.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    deltas: Deltas,
    servers: BTreeMap<ServerId, Series>,
}

impl Metrics {
    /// Takes in a view, whether or not it is exported.
    pub(crate) fn add(&mut self, view: &View) {
        self.deltas.begin(&view.servers);
        let is_there = |id: &ServerId| view.servers.iter().any(|server| server.id == *id);
        self.servers.retain(|id, _| is_there(id));
        for server in &view.servers {
            let series = self.servers.entry(server.id).or_default();
            self.deltas.digests(server, |digest, news| {
                let key = digest.map(|d| (Arc::clone(&d.database), Arc::clone(&d.summary)));
                let is_full = series.sums.len() >= SERIES_MAX && !series.sums.contains_key(&key);
                let key = if is_full { None } else { key };
                series.sums.entry(key).or_default().add(&news);
            });
        }
    }

    /// The metrics of one server as of `view`.
    pub(crate) fn of(&mut self, view: &View, server: &ServerView) -> Vec<Metric> {
        let series = self.servers.entry(server.id).or_default();
        let points = Points {
            attributes: of_server(view, server),
            start_ns: server.started_us * 1000,
            time_ns: view.time_us * 1000,
        };
        let mut metrics = points.statements(&series.sums);
        let now = SessionNs::of(&server.load.all);
        metrics.push(points.session_time(&now));
        if let Some((before, time_ns)) = series.before.replace((now, view.time_ns)) {
            let seconds = view.time_ns.saturating_sub(time_ns) as f64 / 1e9;
            if seconds > 0.0 {
                metrics.push(points.active_sessions(&now.since(&before), seconds));
            }
        }
        metrics.extend(points.server(server));
        metrics
    }
}

/// What every record of a server says of it.
pub(crate) fn of_server(view: &View, server: &ServerView) -> Vec<KeyValue> {
    let mut attributes = vec![
        text("db.system.name", server.flavour),
        text("server.address", &view.host_name),
    ];
    match server.instance.parse::<u16>() {
        Ok(port) => attributes.push(whole("server.port", port.into())),
        Err(_) => attributes.push(text("waggle.server.instance", &server.instance)),
    }
    attributes
}

/// Makes points of one server at one time.
struct Points {
    attributes: Vec<KeyValue>,
    start_ns: u64,
    time_ns: u64,
}

impl Points {
    fn attributes(&self, more: impl IntoIterator<Item = KeyValue>) -> Vec<KeyValue> {
        self.attributes.iter().cloned().chain(more).collect()
    }

    fn series(&self, key: &Key) -> Vec<KeyValue> {
        let Some((database, summary)) = key else {
            let overflow = super::proto::truth(OVERFLOW, true);
            return self.attributes([overflow]);
        };
        let named = [("db.namespace", database), ("db.query.summary", summary)];
        let present = named.into_iter().filter(|(_, value)| !value.is_empty());
        self.attributes(present.map(|(name, value)| text(name, value)))
    }

    fn number(&self, value: Number, more: impl IntoIterator<Item = KeyValue>) -> NumberPoint {
        NumberPoint {
            start_ns: self.start_ns,
            time_ns: self.time_ns,
            value: Some(value),
            attributes: self.attributes(more),
        }
    }

    /// By database and summary: latencies, rows, errors.
    fn statements(&self, sums: &BTreeMap<Key, Sums>) -> Vec<Metric> {
        let (mut latencies, mut rows, mut errors) = (Vec::new(), Vec::new(), Vec::new());
        for (key, sums) in sums {
            let (scale, positive) = exponential(&sums.bars);
            latencies.push(ExponentialPoint {
                attributes: self.series(key),
                start_ns: self.start_ns,
                time_ns: self.time_ns,
                count: sums.count,
                sum: Some(sums.latency_ns as f64 / 1e9),
                scale,
                zero_count: 0,
                positive: Some(positive),
            });
            if let Some(sent) = sums.optional[0] {
                rows.push(HistogramPoint {
                    start_ns: self.start_ns,
                    time_ns: self.time_ns,
                    count: sums.count,
                    sum: Some(sent as f64),
                    attributes: self.series(key),
                });
            }
            errors.push(NumberPoint {
                start_ns: self.start_ns,
                time_ns: self.time_ns,
                value: Some(count(sums.errors)),
                attributes: self.series(key),
            });
        }
        let latency = Data::Exponential(Exponential {
            points: latencies,
            temporality: CUMULATIVE,
        });
        let rows = Data::Histogram(Histogram {
            points: rows,
            temporality: CUMULATIVE,
        });
        vec![
            metric(
                "db.client.operation.duration",
                "s",
                "Duration of statements, as the server measured it.",
                latency,
            ),
            metric(
                "db.client.response.returned_rows",
                "{row}",
                "Rows sent to clients; count and sum only.",
                rows,
            ),
            metric(
                "waggle.statement.errors",
                "{error}",
                "Statements that failed.",
                monotonic(errors),
            ),
        ]
    }

    fn session_time(&self, now: &SessionNs) -> Metric {
        let points = classes(now)
            .map(|(class, ns)| {
                let seconds = Number::Real(ns as f64 / 1e9);
                self.number(seconds, [text("waggle.session.class", class)])
            })
            .collect();
        metric(
            "waggle.session.time",
            "s",
            "Time of sessions by what they did; its rate is the number of active sessions.",
            monotonic(points),
        )
    }

    fn active_sessions(&self, news: &SessionNs, seconds: f64) -> Metric {
        let points = classes(news)
            .map(|(class, ns)| {
                let mean = Number::Real(ns as f64 / 1e9 / seconds);
                let mut point = self.number(mean, [text("waggle.session.class", class)]);
                point.start_ns = 0;
                point
            })
            .collect();
        metric(
            "waggle.session.active",
            "{session}",
            "Active sessions by what they did, the mean since the last export.",
            Data::Gauge(Gauge { points }),
        )
    }

    /// Counters of the server as a whole.
    fn server(&self, server: &ServerView) -> Vec<Metric> {
        let causes = |causes: &[(&'static str, u64)]| {
            let point = |&(cause, lost): &(&str, u64)| {
                self.number(count(lost), [text("waggle.cause", cause)])
            };
            monotonic(causes.iter().map(point).collect())
        };
        let one = |value| monotonic(vec![self.number(count(value), [])]);
        let mut metrics = vec![
            metric(
                "waggle.statement.count",
                "{statement}",
                "Statements captured.",
                one(server.captured),
            ),
            metric(
                "waggle.statement.in_routines",
                "{statement}",
                "Of the statements captured, those within routines and triggers.",
                one(server.in_routines),
            ),
            metric(
                "waggle.statement.own",
                "{statement}",
                "Statements of the agent itself, which are not among those captured.",
                one(server.own),
            ),
            metric(
                "waggle.statement.lost",
                "{statement}",
                "Statements lost.",
                causes(&server.lost),
            ),
            metric(
                "waggle.statement.degraded",
                "{statement}",
                "Statements captured with less than all.",
                causes(&server.degraded),
            ),
        ];
        metrics.extend(self.locks(server));
        metrics.extend(
            server
                .process
                .iter()
                .flat_map(|process| self.process(process)),
        );
        metrics
    }

    fn locks(&self, server: &ServerView) -> [Metric; 3] {
        let kinds = ["row", "metadata", "table"];
        let waits = |value: fn((u64, u64)) -> Number| {
            let each = kinds.into_iter().zip(server.waits_ended);
            let point = |(kind, ended)| self.number(value(ended), [text("waggle.lock.kind", kind)]);
            monotonic(each.map(point).collect())
        };
        let deadlocks = self.number(count(server.deadlock_count), []);
        [
            metric(
                "waggle.lock.wait.count",
                "{wait}",
                "Lock waits that ended.",
                waits(|w| count(w.0)),
            ),
            metric(
                "waggle.lock.wait.time",
                "s",
                "Time of lock waits that ended.",
                waits(|wait| Number::Real(wait.1 as f64 / 1e6)),
            ),
            metric(
                "waggle.deadlock.count",
                "{deadlock}",
                "Deadlocks.",
                monotonic(vec![deadlocks]),
            ),
        ]
    }

    fn process(&self, process: &ProcessSample) -> [Metric; 2] {
        let modes = [("user", process.cpu_s.0), ("system", process.cpu_s.1)];
        let point = |(mode, s)| self.number(Number::Real(s), [text("cpu.mode", mode)]);
        let cpu = monotonic(modes.into_iter().map(point).collect());
        let memory = Data::Sum(Sum {
            points: vec![self.number(count(process.rss_bytes), [])],
            temporality: CUMULATIVE,
            is_monotonic: false,
        });
        [
            metric("process.cpu.time", "s", "CPU time of the server.", cpu),
            metric(
                "process.memory.usage",
                "By",
                "Resident memory of the server.",
                memory,
            ),
        ]
    }
}

/// Every class with its time.
fn classes(time: &SessionNs) -> impl Iterator<Item = (&'static str, u64)> {
    let blocked = WaitClass::ALL.map(WaitClass::as_str).into_iter();
    [("cpu", time.cpu), ("runnable", time.runnable)]
        .into_iter()
        .chain(blocked.zip(time.blocked))
        .chain([("unclassified", time.unclassified)])
}

fn count(value: u64) -> Number {
    Number::Whole(i64::try_from(value).unwrap_or(i64::MAX))
}

fn monotonic(points: Vec<NumberPoint>) -> Data {
    Data::Sum(Sum {
        points,
        temporality: CUMULATIVE,
        is_monotonic: true,
    })
}

fn metric(name: &str, unit: &str, description: &str, data: Data) -> Metric {
    Metric {
        name: name.to_owned(),
        description: description.to_owned(),
        unit: unit.to_owned(),
        data: Some(data),
    }
}

/// Data points of a metric.
pub(crate) fn points(metric: &Metric) -> usize {
    match &metric.data {
        Some(Data::Gauge(gauge)) => gauge.points.len(),
        Some(Data::Sum(sum)) => sum.points.len(),
        Some(Data::Histogram(histogram)) => histogram.points.len(),
        Some(Data::Exponential(exponential)) => exponential.points.len(),
        None => 0,
    }
}
