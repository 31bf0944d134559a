//! Where does what the agent saw go? Prometheus (`/metrics`, remote write), ClickHouse, OTLP.
//!
//! Every exporter reads [`waggle_agent::view::View`]s and [`waggle_agent::sample::Sample`]s and
//! runs in threads of its own. Neighbours: the agent makes the views and never waits for an
//! exporter; the binary starts both.
//!
//! Invariant: an exporter that is slow, away or broken costs the agent nothing but a counter.

pub mod clickhouse;
mod delta;
mod feed;
mod http;
pub mod otlp;
pub mod prometheus;
pub mod remote_write;
pub mod spool;
pub mod store;
mod trace;
