//! ClickHouse: statement samples, sums by digest with exact histograms, waits, and the machine.
//!
//! ```text
//! agent ─► feed ─► encode ─► spool (disk) ─► transport ─► ClickHouse over HTTP
//!         bounded   rows once an interval      one batch at a time, checked before a repetition
//! ```
//!
//! Latencies are stored as buckets (upper bound, count) that add up exactly: `sumMap` over any
//! rows gives the histogram of all of them, in 18.16 as in current versions. `schema` creates and
//! migrates the tables. Neighbours: the agent calls the [`StoreSink`]; [`crate::spool`] keeps
//! what is not delivered. Invariants: a row that ClickHouse acknowledged is there once; rows that
//! were not
//! acknowledged are on disk or counted.

mod batches;
mod connection;
mod encode;
mod fill;
mod metrics;
mod row;
mod schema;
mod tables;
mod transport;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use connection::Place;

use crate::spool::{Limits, SpoolError};
use crate::store::{Kind, StoreSink};

/// What an exporter to ClickHouse needs to know.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where it is.
    pub place: Place,
    /// Rows are written once so long; 10 s is ordinary, since each insertion costs ClickHouse.
    pub interval: Duration,
    /// How long one request may take.
    pub timeout: Duration,
    /// Days after which rows go, whole days at a time; `None` keeps them.
    pub retention_days: Option<u32>,
    /// The folder of the buffer on disk; one agent's alone.
    pub spool: PathBuf,
    /// How large that may be.
    pub limits: Limits,
}

/// Why the exporter cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum ClickHouseError {
    /// Not `http://` or `https://`, or with more than host and port.
    #[error("{0:?} is no address of ClickHouse's HTTP interface: give http://HOST:8123")]
    Url(String),
    /// A database name that would need quotes.
    #[error("{0:?} is no name of a database: use letters, digits and _")]
    Database(String),
    /// No days would be left.
    #[error("a retention of 0 days keeps nothing: give at least 1")]
    Retention,
    /// The buffer on disk cannot be used.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// No thread.
    #[error("no thread can be started: {0}")]
    Thread(#[from] std::io::Error),
}

impl Options {
    /// Whether these can be used; opens nothing.
    ///
    /// # Errors
    /// The address, the database's name or the retention is not usable.
    pub fn check(&self) -> Result<(), ClickHouseError> {
        let place = &self.place;
        let host = place
            .url
            .strip_prefix("http://")
            .or_else(|| place.url.strip_prefix("https://"));
        if host.is_none_or(|host| host.is_empty() || host.contains(['/', '?', '#', '@', ' '])) {
            return Err(ClickHouseError::Url(place.url.clone()));
        }
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let database = &place.database;
        if database.is_empty() || !database.bytes().all(is_name) {
            return Err(ClickHouseError::Database(database.clone()));
        }
        if self.retention_days == Some(0) {
            return Err(ClickHouseError::Retention);
        }
        Ok(())
    }
}

/// Which [`StoreSink`] this is.
#[derive(Debug)]
pub struct Tables;

impl Kind for Tables {
    const NAME: &'static str = "clickhouse";
}

/// The sink.
pub type ClickHouse = StoreSink<Tables>;

impl ClickHouse {
    /// Starts to export. ClickHouse need not be there yet.
    ///
    /// # Errors
    /// The options are not usable, or the buffer on disk is not.
    pub fn start(options: Options) -> Result<Self, ClickHouseError> {
        options.check()?;
        let queue = Self::queue(&options.spool, options.limits)?;
        let transport =
            transport::ToClickHouse::new(options.place, options.timeout, options.retention_days);
        let interval_ns = u64::try_from(options.interval.as_nanos()).unwrap_or(u64::MAX);
        let encoder = encode::ToRows::new(Arc::clone(&queue), interval_ns);
        Ok(Self::begin(queue, encoder, transport, Arc::default())?)
    }
}
