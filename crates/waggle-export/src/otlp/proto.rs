//! The messages of OTLP 1 that this exporter sends and reads, field by field.
//!
//! Only what is used: the numbers are those of the `opentelemetry.proto` packages `common`,
//! `resource`, `metrics`, `logs` and `collector`, all stable. The published crate of all messages
//! brings services, conversions and an SDK that nothing here needs. Invariant: a number is never
//! changed; fields that are not listed are skipped when read.

use prost::{Message, Oneof};

/// What both kinds of requests describe: which agent on which host.
#[derive(Clone, PartialEq, Message)]
pub struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

/// Which part of a program made the records.
#[derive(Clone, PartialEq, Message)]
pub struct Scope {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub version: String,
}

/// One attribute.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// A value of any type.
#[derive(Clone, PartialEq, Message)]
pub struct AnyValue {
    #[prost(oneof = "Value", tags = "1, 2, 3, 4, 5")]
    pub value: Option<Value>,
}

/// Which type.
#[derive(Clone, PartialEq, Oneof)]
pub enum Value {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Truth(bool),
    #[prost(int64, tag = "3")]
    Whole(i64),
    #[prost(double, tag = "4")]
    Real(f64),
    #[prost(message, tag = "5")]
    List(List),
}

/// Several values.
#[derive(Clone, PartialEq, Message)]
pub struct List {
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<AnyValue>,
}

/// Body of a request to `/v1/metrics`.
#[derive(Clone, PartialEq, Message)]
pub struct MetricsRequest {
    #[prost(message, repeated, tag = "1")]
    pub resources: Vec<ResourceMetrics>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ResourceMetrics {
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub scopes: Vec<ScopeMetrics>,
    #[prost(string, tag = "3")]
    pub schema_url: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct ScopeMetrics {
    #[prost(message, optional, tag = "1")]
    pub scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub metrics: Vec<Metric>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Metric {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub description: String,
    #[prost(string, tag = "3")]
    pub unit: String,
    #[prost(oneof = "Data", tags = "5, 7, 9, 10")]
    pub data: Option<Data>,
}

/// The kind of a metric, and its points.
#[derive(Clone, PartialEq, Oneof)]
pub enum Data {
    #[prost(message, tag = "5")]
    Gauge(Gauge),
    #[prost(message, tag = "7")]
    Sum(Sum),
    #[prost(message, tag = "9")]
    Histogram(Histogram),
    #[prost(message, tag = "10")]
    Exponential(Exponential),
}

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
pub const CUMULATIVE: i32 = 2;

#[derive(Clone, PartialEq, Message)]
pub struct Gauge {
    #[prost(message, repeated, tag = "1")]
    pub points: Vec<NumberPoint>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Sum {
    #[prost(message, repeated, tag = "1")]
    pub points: Vec<NumberPoint>,
    #[prost(int32, tag = "2")]
    pub temporality: i32,
    #[prost(bool, tag = "3")]
    pub is_monotonic: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct Histogram {
    #[prost(message, repeated, tag = "1")]
    pub points: Vec<HistogramPoint>,
    #[prost(int32, tag = "2")]
    pub temporality: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct Exponential {
    #[prost(message, repeated, tag = "1")]
    pub points: Vec<ExponentialPoint>,
    #[prost(int32, tag = "2")]
    pub temporality: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct NumberPoint {
    #[prost(fixed64, tag = "2")]
    pub start_ns: u64,
    #[prost(fixed64, tag = "3")]
    pub time_ns: u64,
    #[prost(oneof = "Number", tags = "4, 6")]
    pub value: Option<Number>,
    #[prost(message, repeated, tag = "7")]
    pub attributes: Vec<KeyValue>,
}

#[derive(Clone, Copy, PartialEq, Oneof)]
pub enum Number {
    #[prost(double, tag = "4")]
    Real(f64),
    #[prost(sfixed64, tag = "6")]
    Whole(i64),
}

/// Without bounds: only count and sum are known.
#[derive(Clone, PartialEq, Message)]
pub struct HistogramPoint {
    #[prost(fixed64, tag = "2")]
    pub start_ns: u64,
    #[prost(fixed64, tag = "3")]
    pub time_ns: u64,
    #[prost(fixed64, tag = "4")]
    pub count: u64,
    #[prost(double, optional, tag = "5")]
    pub sum: Option<f64>,
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ExponentialPoint {
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
    #[prost(fixed64, tag = "2")]
    pub start_ns: u64,
    #[prost(fixed64, tag = "3")]
    pub time_ns: u64,
    #[prost(fixed64, tag = "4")]
    pub count: u64,
    #[prost(double, optional, tag = "5")]
    pub sum: Option<f64>,
    #[prost(sint32, tag = "6")]
    pub scale: i32,
    #[prost(fixed64, tag = "7")]
    pub zero_count: u64,
    #[prost(message, optional, tag = "8")]
    pub positive: Option<Buckets>,
}

/// Bucket `offset + i` holds values in `(base^(offset+i), base^(offset+i+1)]`.
#[derive(Clone, PartialEq, Message)]
pub struct Buckets {
    #[prost(sint32, tag = "1")]
    pub offset: i32,
    #[prost(uint64, repeated, tag = "2")]
    pub counts: Vec<u64>,
}

/// Body of a request to `/v1/logs`.
#[derive(Clone, PartialEq, Message)]
pub struct LogsRequest {
    #[prost(message, repeated, tag = "1")]
    pub resources: Vec<ResourceLogs>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ResourceLogs {
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub scopes: Vec<ScopeLogs>,
    #[prost(string, tag = "3")]
    pub schema_url: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct ScopeLogs {
    #[prost(message, optional, tag = "1")]
    pub scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub records: Vec<LogRecord>,
}

#[derive(Clone, PartialEq, Message)]
pub struct LogRecord {
    #[prost(fixed64, tag = "1")]
    pub time_ns: u64,
    #[prost(int32, tag = "2")]
    pub severity: i32,
    #[prost(string, tag = "3")]
    pub severity_text: String,
    #[prost(message, optional, tag = "5")]
    pub body: Option<AnyValue>,
    #[prost(message, repeated, tag = "6")]
    pub attributes: Vec<KeyValue>,
    #[prost(fixed32, tag = "8")]
    pub flags: u32,
    #[prost(bytes = "vec", tag = "9")]
    pub trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "10")]
    pub span_id: Vec<u8>,
    #[prost(fixed64, tag = "11")]
    pub observed_ns: u64,
    #[prost(string, tag = "12")]
    pub event_name: String,
}

/// The answer to either request.
#[derive(Clone, PartialEq, Message)]
pub struct Response {
    #[prost(message, optional, tag = "1")]
    pub partial_success: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PartialSuccess {
    /// Data points or log records that were not taken.
    #[prost(int64, tag = "1")]
    pub rejected: i64,
    #[prost(string, tag = "2")]
    pub message: String,
}

/// What a refusal carries (`google.rpc.Status`).
#[derive(Clone, PartialEq, Message)]
pub struct Status {
    #[prost(string, tag = "2")]
    pub message: String,
}

/// An attribute with a text.
pub(crate) fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Value::Text(value.to_owned()))
}

/// An attribute with a whole number.
pub(crate) fn whole(key: &str, value: u64) -> KeyValue {
    attribute(key, Value::Whole(i64::try_from(value).unwrap_or(i64::MAX)))
}

/// An attribute with a real number.
pub(crate) fn real(key: &str, value: f64) -> KeyValue {
    attribute(key, Value::Real(value))
}

/// An attribute with several texts.
pub(crate) fn texts<'a>(key: &str, values: impl Iterator<Item = &'a str>) -> KeyValue {
    let value = |value: &str| AnyValue {
        value: Some(Value::Text(value.to_owned())),
    };
    let values = values.map(value).collect();
    attribute(key, Value::List(List { values }))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
    }
}

/// An attribute that is true or false.
pub(crate) fn truth(key: &str, value: bool) -> KeyValue {
    attribute(key, Value::Truth(value))
}
