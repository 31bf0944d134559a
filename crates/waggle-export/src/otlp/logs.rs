//! Which log records do kept statements, lock waits and deadlocks make?
//!
//! Attributes of OpenTelemetry's database conventions where they fit, `waggle.*` elsewhere; the
//! trace context is the client's own, from its comment. Neighbour: `encode` calls. Invariant: the
//! text is the fingerprint unless the sample carries the statement's own, which it does only where
//! literals were asked for.

use waggle_agent::WaitClass;
use waggle_agent::lock::{Deadlock, LockKind, LockWait, Party};
use waggle_agent::sample::{Reason, Sample};

use super::proto::{AnyValue, KeyValue, LogRecord, Value, real, text, texts, whole};
use crate::trace::trace_of;

/// OpenTelemetry's numbers of severities.
const INFO: (i32, &str) = (9, "INFO");
const WARN: (i32, &str) = (13, "WARN");
const ERROR: (i32, &str) = (17, "ERROR");

/// `ER_LOCK_DEADLOCK`, which the victim's client gets.
const DEADLOCK: &str = "1213";

/// A kept statement; `server` says where.
pub(crate) fn of_sample(sample: &Sample, summary: &str, server: Vec<KeyValue>) -> LogRecord {
    let severity = match sample.reason {
        Reason::Failed => ERROR,
        Reason::Slow => WARN,
        Reason::Random => INFO,
    };
    let mut attributes = Attributes(server);
    let shown = sample.text.as_deref().unwrap_or(&sample.fingerprint);
    attributes.text("db.namespace", &sample.database);
    attributes.text("db.query.summary", summary);
    attributes.text("db.query.text", shown);
    attributes.text("waggle.query.digest", &sample.digest);
    if let Some(error) = sample.work.error.filter(|error| *error != 0) {
        attributes.text("db.response.status_code", &error.to_string());
        attributes.text("error.type", &error.to_string());
    }
    attributes.whole("db.response.returned_rows", sample.work.rows_sent);
    attributes.text("client.address", &sample.host);
    attributes.text("user.name", &sample.user);
    attributes.whole("waggle.connection.id", sample.connection_id);
    attributes.text("waggle.sample.reason", reason(sample.reason));
    attributes.seconds("waggle.statement.duration", sample.latency_us);
    attributes.seconds("waggle.statement.cpu", sample.cpu_us);
    attributes.seconds("waggle.statement.runnable", sample.runnable_us);
    if let Some(blocked) = sample.blocked_us {
        for (class, us) in WaitClass::ALL.into_iter().zip(blocked) {
            if us > 0.0 {
                let name = format!("waggle.statement.blocked.{}", class.as_str());
                attributes.seconds(&name, Some(us));
            }
        }
    }
    attributes.whole("waggle.statement.rows_examined", sample.work.rows_examined);
    attributes.whole("waggle.statement.rows_affected", sample.work.rows_affected);
    let tags = sample.comments.iter();
    for (key, value) in tags.filter(|(key, _)| key != "traceparent" && key != "tracestate") {
        attributes.text(&format!("waggle.comment.{key}"), value);
    }
    let mut record = record("db.server.query_sample", severity, sample.time_us);
    record.body = body(shown);
    record.attributes = attributes.0;
    if let Some(trace) = trace_of(&sample.comments) {
        record.trace_id = bytes(trace.trace_id);
        record.span_id = bytes(trace.span_id);
        record.flags = trace.flags.into();
    }
    record
}

/// A lock wait, which ended.
pub(crate) fn of_wait(wait: &LockWait, server: Vec<KeyValue>) -> LogRecord {
    let mut attributes = Attributes(server);
    attributes.text("db.namespace", &wait.waiter.database);
    attributes.text("db.query.text", &wait.waiter.fingerprint);
    attributes.whole("waggle.lock.wait.id", Some(wait.id));
    attributes.text("waggle.lock.kind", kind(wait.kind));
    attributes.seconds("waggle.lock.wait.duration", Some(wait.waited_us as f64));
    attributes.text("db.collection.name", &wait.object.table);
    attributes.text("waggle.lock.index", &wait.object.index);
    attributes.text("waggle.lock.mode.wanted", &wait.object.mode_wanted);
    attributes.text("waggle.lock.mode.held", &wait.object.mode_held);
    attributes.party("waggle.lock.waiter", &wait.waiter);
    attributes.party("waggle.lock.blocker", &wait.blocker);
    let end_us = wait.since_us.saturating_add(wait.waited_us);
    let mut record = record("waggle.lock_wait", WARN, end_us);
    record.body = body(&format!(
        "{} lock wait of {:.3} s",
        kind(wait.kind),
        wait.waited_us as f64 / 1e6
    ));
    record.attributes = attributes.0;
    record
}

/// A deadlock.
pub(crate) fn of_deadlock(deadlock: &Deadlock, server: Vec<KeyValue>) -> LogRecord {
    let mut attributes = Attributes(server);
    attributes.text("db.namespace", &deadlock.victim.database);
    attributes.text("db.query.text", &deadlock.victim.fingerprint);
    attributes.text("db.response.status_code", DEADLOCK);
    attributes.text("error.type", DEADLOCK);
    attributes.party("waggle.deadlock.victim", &deadlock.victim);
    let cycle = deadlock.cycle.iter();
    let fingerprints = cycle.map(|party| &*party.fingerprint);
    attributes
        .0
        .push(texts("waggle.deadlock.cycle", fingerprints));
    let mut record = record("waggle.deadlock", ERROR, deadlock.time_us);
    record.body = body(&format!("deadlock of {}", deadlock.cycle.len()));
    record.attributes = attributes.0;
    record
}

/// Attributes; what is not known is left out.
struct Attributes(Vec<KeyValue>);

impl Attributes {
    fn text(&mut self, key: &str, value: &str) {
        if !value.is_empty() {
            self.0.push(text(key, value));
        }
    }

    fn whole(&mut self, key: &str, value: Option<u64>) {
        self.0.extend(value.map(|value| whole(key, value)));
    }

    fn seconds(&mut self, key: &str, us: Option<f64>) {
        self.0.extend(us.map(|us| real(key, us / 1e6)));
    }

    fn party(&mut self, role: &str, party: &Party) {
        self.whole(&format!("{role}.connection.id"), party.connection_id);
        self.text(&format!("{role}.user.name"), &party.user);
        self.text(
            &format!("{role}.digest"),
            party.digest.as_deref().unwrap_or(""),
        );
        self.text(&format!("{role}.query.text"), &party.fingerprint);
        let age = party.transaction_us.map(|us| us as f64);
        self.seconds(&format!("{role}.transaction.age"), age);
        self.seconds(&format!("{role}.idle"), party.idle_us.map(|us| us as f64));
    }
}

fn record(event: &str, severity: (i32, &str), time_us: u64) -> LogRecord {
    LogRecord {
        time_ns: time_us * 1000,
        severity: severity.0,
        severity_text: severity.1.to_owned(),
        event_name: event.to_owned(),
        ..LogRecord::default()
    }
}

fn body(shown: &str) -> Option<AnyValue> {
    let value = Some(Value::Text(shown.to_owned()));
    Some(AnyValue { value })
}

fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::Slow => "slow",
        Reason::Failed => "failed",
        Reason::Random => "random",
    }
}

fn kind(kind: LockKind) -> &'static str {
    match kind {
        LockKind::Row => "row",
        LockKind::Metadata => "metadata",
        LockKind::Table => "table",
    }
}

/// The bytes that pairs of hexadecimal digits stand for.
fn bytes(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks_exact(2);
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(0) as u8;
    pairs
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}
