//! Which requests does the news make?
//!
//! Metrics once an interval, one request a server; logs as they come, at least once an interval.
//! Requests are packed here, so that the spool is small and what is sent is what was kept.
//! Neighbours: `feed` brings the news, `metrics` and `logs` make records of it.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use waggle_agent::lock::{Deadlock, LockWait};
use waggle_agent::sample::Sample;
use waggle_agent::statement::ServerId;
use waggle_agent::view::View;

use super::logs;
use super::metrics::{Metrics, of_server, points};
use super::proto::{
    KeyValue, LogRecord, LogsRequest, MetricsRequest, Resource, ResourceLogs, ResourceMetrics,
    Scope, ScopeLogs, ScopeMetrics, text,
};
use crate::feed::{Encoder, News};
use crate::spool::courier::Queue;

/// Which of the two kinds a batch is; the tag in the spool.
pub(crate) const METRICS: u8 = 0;
pub(crate) const LOGS: u8 = 1;

/// The conventions that names and attributes follow.
const SCHEMA: &str = "https://opentelemetry.io/schemas/1.44.0";
/// Log records of one request, and most that wait for the end of the interval.
const RECORDS_MAX: usize = 500;

pub(crate) struct ToRequests {
    queue: Arc<Queue>,
    interval_ns: u64,
    metrics: Metrics,
    latest: Option<Arc<View>>,
    sent_ns: Option<u64>,
    samples: Vec<Sample>,
    waits: Vec<(ServerId, LockWait)>,
    deadlocks: Vec<(ServerId, Deadlock)>,
}

impl ToRequests {
    pub(crate) fn new(queue: Arc<Queue>, interval_ns: u64) -> Self {
        Self {
            queue,
            interval_ns,
            metrics: Metrics::default(),
            latest: None,
            sent_ns: None,
            samples: Vec::new(),
            waits: Vec::new(),
            deadlocks: Vec::new(),
        }
    }

    fn write_metrics(&mut self, view: &View) {
        if self.sent_ns.replace(view.time_ns) == Some(view.time_ns) {
            return;
        }
        for server in &view.servers {
            let metrics: Vec<_> = self
                .metrics
                .of(view, server)
                .into_iter()
                .filter(|metric| points(metric) > 0)
                .collect();
            let count = metrics.iter().map(points).sum();
            let request = MetricsRequest {
                resources: vec![ResourceMetrics {
                    resource: Some(resource(view)),
                    scopes: vec![ScopeMetrics {
                        scope: Some(scope()),
                        metrics,
                    }],
                    schema_url: SCHEMA.to_owned(),
                }],
            };
            self.ship(METRICS, count, &request);
        }
    }

    fn write_logs(&mut self, view: &View) {
        let known = view.servers.iter().map(|s| (s.id, of_server(view, s)));
        let known: HashMap<ServerId, Vec<KeyValue>> = known.collect();
        let place = |id: ServerId| known.get(&id).cloned().unwrap_or_default();
        let summaries: HashMap<&str, &str> = if self.samples.is_empty() {
            HashMap::new()
        } else {
            let digests = view.servers.iter().flat_map(|server| &server.digests);
            digests.map(|d| (&*d.digest, &*d.summary)).collect()
        };
        let mut records: Vec<LogRecord> = Vec::new();
        for sample in std::mem::take(&mut self.samples) {
            let summary = summaries.get(&*sample.digest).copied().unwrap_or("");
            records.push(logs::of_sample(&sample, summary, place(sample.server)));
        }
        for (server, wait) in std::mem::take(&mut self.waits) {
            records.push(logs::of_wait(&wait, place(server)));
        }
        for (server, deadlock) in std::mem::take(&mut self.deadlocks) {
            records.push(logs::of_deadlock(&deadlock, place(server)));
        }
        for record in &mut records {
            record.observed_ns = view.time_us * 1000;
        }
        while !records.is_empty() {
            let rest = records.split_off(records.len().min(RECORDS_MAX));
            let count = records.len();
            let request = LogsRequest {
                resources: vec![ResourceLogs {
                    resource: Some(resource(view)),
                    scopes: vec![ScopeLogs {
                        scope: Some(scope()),
                        records,
                    }],
                    schema_url: SCHEMA.to_owned(),
                }],
            };
            self.ship(LOGS, count, &request);
            records = rest;
        }
    }

    fn ship(&self, tag: u8, records: usize, request: &impl Message) {
        let records = u32::try_from(records).unwrap_or(u32::MAX);
        // The queue counts what it refuses.
        let _ = self
            .queue
            .append(tag, records, &packed(&request.encode_to_vec()));
    }

    fn is_due(&self, view: &View) -> bool {
        let due = |last: u64| view.time_ns.saturating_sub(last) >= self.interval_ns;
        self.sent_ns.is_none_or(due)
    }
}

impl Encoder for ToRequests {
    fn take(&mut self, news: News) {
        match news {
            News::View(view) => {
                self.metrics.add(&view);
                if self.is_due(&view) {
                    self.write_metrics(&view);
                    self.write_logs(&view);
                }
                self.latest = Some(view);
            }
            News::Samples(more) => self.samples.extend(more),
            News::Waits(more) => self.waits.extend(more),
            News::Deadlocks(more) => self.deadlocks.extend(more),
        }
        let records = self.samples.len() + self.waits.len() + self.deadlocks.len();
        if records >= RECORDS_MAX
            && let Some(view) = self.latest.clone()
        {
            self.write_logs(&view);
        }
    }

    fn end(&mut self) {
        if let Some(view) = self.latest.clone() {
            self.write_metrics(&view);
            self.write_logs(&view);
        }
    }
}

fn resource(view: &View) -> Resource {
    Resource {
        attributes: vec![
            text("service.name", "waggle"),
            text("service.version", env!("CARGO_PKG_VERSION")),
            // One agent's life on one host.
            text(
                "service.instance.id",
                &format!("{}-{}", view.host_name, view.started_us),
            ),
            text("host.name", &view.host_name),
        ],
    }
}

fn scope() -> Scope {
    Scope {
        name: "waggle".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// gzip; writing to memory does not fail.
fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let written = encoder.write_all(bytes);
    debug_assert!(written.is_ok());
    encoder.finish().unwrap_or_default()
}
