//! OTLP over HTTP: metrics and logs by OpenTelemetry's database conventions.
//!
//! ```text
//! agent ─► feed ─► encode (metrics, logs) ─► spool (disk) ─► transport ─► receiver
//! ```
//!
//! Neighbours: the agent calls the [`StoreSink`]; [`crate::spool`] keeps what is not delivered.
//! Invariants: all metrics are cumulative, so no request depends on another; a log record is sent
//! again only where the receiver did not say that it had it.

mod encode;
mod histogram;
mod logs;
mod metrics;
#[doc(hidden)]
pub mod proto;
mod transport;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use crate::spool::{Limits, SpoolError};
use crate::store::{Kind, StoreSink};

/// What an exporter over OTLP needs to know.
#[derive(Clone)]
pub struct Options {
    /// The receiver: `http://host:4318`; `/v1/metrics` and `/v1/logs` are added.
    pub url: String,
    /// More headers of every request, such as a token; they show in no output.
    pub headers: Vec<(String, String)>,
    /// Metrics are sent once so long.
    pub interval: Duration,
    /// How long one request may take.
    pub timeout: Duration,
    /// The folder of the buffer on disk; one agent's alone.
    pub spool: PathBuf,
    /// How large that may be.
    pub limits: Limits,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Options")
            .field("url", &self.url)
            .field("headers", &names)
            .field("interval", &self.interval)
            .field("timeout", &self.timeout)
            .field("spool", &self.spool)
            .field("limits", &self.limits)
            .finish()
    }
}

/// Why the exporter cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum OtlpError {
    /// Not `http://` or `https://`, or with a password in it, which would show in errors.
    #[error("{0:?} is no address of an OTLP receiver: give http://HOST:4318, secrets in a header")]
    Url(String),
    /// A header that HTTP does not allow.
    #[error("{0:?} is no name of a header, or its value has an end of line")]
    Header(String),
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
    /// The address or a header is not usable.
    pub fn check(&self) -> Result<(), OtlpError> {
        let url = &self.url;
        let rest = url
            .strip_prefix("http://")
            .or_else(|| url.strip_prefix("https://"));
        if rest.is_none_or(|rest| rest.is_empty() || rest.contains(['@', '?', '#', ' '])) {
            let shown = url.rsplit('@').next().unwrap_or_default();
            return Err(OtlpError::Url(shown.to_owned()));
        }
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        for (name, value) in &self.headers {
            let is_name = !name.is_empty() && name.bytes().all(is_token);
            if !is_name || !value.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
                return Err(OtlpError::Header(name.clone()));
            }
        }
        Ok(())
    }
}

/// Which [`StoreSink`] this is.
#[derive(Debug)]
pub struct Signals;

impl Kind for Signals {
    const NAME: &'static str = "otlp";
}

/// The sink.
pub type Otlp = StoreSink<Signals>;

impl Otlp {
    /// Starts to export. The receiver need not be there yet.
    ///
    /// # Errors
    /// The options are not usable, or the buffer on disk is not.
    pub fn start(options: Options) -> Result<Self, OtlpError> {
        options.check()?;
        let queue = Self::queue(&options.spool, options.limits)?;
        let rejected = Arc::new(AtomicU64::new(0));
        let interval_ns = u64::try_from(options.interval.as_nanos()).unwrap_or(u64::MAX);
        let transport = transport::ToReceiver::new(options, Arc::clone(&rejected));
        let encoder = encode::ToRequests::new(Arc::clone(&queue), interval_ns);
        Ok(Self::begin(queue, encoder, transport, rejected)?)
    }
}
