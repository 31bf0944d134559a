//! Rows in a real ClickHouse: they equal the views, once, whatever happens on the way.

mod exact;
mod faults;
pub(crate) mod proxy;
mod schema;
mod server;
