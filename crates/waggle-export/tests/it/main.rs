//! Exporters against the real other side: Prometheus's tools, servers, stores, and receivers that
//! decode what they get.

mod clickhouse;
mod contrib;
mod fixture;
mod otlp;
mod promtool;
mod pushed;
mod scrape;
mod spool;
mod store;
mod views;
