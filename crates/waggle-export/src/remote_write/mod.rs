//! Remote write: the same series as `/metrics`, pushed to any store that speaks Prometheus's
//! protocol (1.0), and kept on disk while it is away.
//!
//! A view goes to a thread that makes bodies of it (`encode`) and appends them to the spool;
//! another sends them in order (`send`). Neighbours: `prometheus` names the series; `spool` keeps
//! and carries them.
//!
//! Invariants:
//! - A sample has the time at which its view was taken, however late it is delivered.
//! - Samples of a series are sent in the order of their times, and each time once: a view that is
//!   not later than the one before (the clock was put back) is dropped and counted.
//! - A counter that is new begins with a 0 between the page before and its own, so that a rate over
//!   it misses nothing; likewise when its server restarts.

mod encode;
mod send;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use waggle_agent::budget::rights::without_rights;
use waggle_agent::sink::{Sink, SinkStatus};
use waggle_agent::view::View;

use crate::prometheus::{Bounds, Exposition};
use crate::spool::courier::{Courier, Queue};
use crate::spool::{Limits, Spool, SpoolError};
use encode::{Encoder, Times};
pub use send::Authorization;

/// Views that may wait for the encoder; each holds the agent's tables as they were.
const VIEWS_WAITING: usize = 2;

/// What to send where.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The store's address for remote write, such as `http://127.0.0.1:9090/api/v1/write`.
    pub url: String,
    /// Sent as it is in each request, if given.
    pub authorization: Option<Authorization>,
    /// Labels that each series gets, such as `job`. Without an `instance` among them, the host's
    /// name is it, as a scrape would give its address.
    pub labels: Vec<(String, String)>,
    /// How often: views that come sooner than nine tenths of it after the last are left out.
    pub interval: Duration,
    /// How many series.
    pub bounds: Bounds,
    /// Folder of the spool.
    pub spool: PathBuf,
    /// Its limits.
    pub limits: Limits,
}

/// Why nothing is sent.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Not an address.
    #[error("{url:?} is no address for remote write: {why}")]
    Url {
        /// What was given, without what may be a password.
        url: String,
        /// What is wrong.
        why: &'static str,
    },
    /// Not a name for a label.
    #[error("{0:?} is no name for a label: letters, digits and _, not beginning with __")]
    Label(String),
    /// The spool cannot be used.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// No thread.
    #[error("cannot start a thread for remote write: {0}")]
    Thread(io::Error),
}

/// Checks an address before anything is opened.
///
/// # Errors
/// It is not `http://` or `https://` with a host, or it carries a password, which would be seen in
/// process lists.
pub fn check_url(url: &str) -> Result<(), StartError> {
    let wrong = |url: &str, why| {
        let url = url.to_owned();
        Err(StartError::Url { url, why })
    };
    let Some((scheme, rest)) = url.split_once("://") else {
        return wrong(url, "it begins with neither http:// nor https://");
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or("");
    if let Some((_, host)) = authority.rsplit_once('@') {
        let redacted = format!("{scheme}://...@{host}");
        return wrong(&redacted, "give credentials apart from the address");
    }
    if !matches!(scheme, "http" | "https") {
        return wrong(url, "it begins with neither http:// nor https://");
    }
    match url.parse::<ureq::http::Uri>() {
        Ok(uri) if uri.host().is_some_and(|host| !host.is_empty()) => Ok(()),
        _ => wrong(url, "it names no host"),
    }
}

fn check_label(name: &str) -> Result<(), StartError> {
    let letters = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let begins = name.bytes().next().is_some_and(|b| !b.is_ascii_digit());
    if letters && begins && !name.starts_with("__") {
        return Ok(());
    }
    Err(StartError::Label(name.to_owned()))
}

/// What the agent's side counts.
#[derive(Debug, Default)]
struct Counts {
    /// Samples of the latest page: what a view that was left out would have had.
    page_samples: AtomicU64,
    queue_full: AtomicU64,
    clock_went_back: AtomicU64,
}

/// The sink that pushes.
#[derive(Debug)]
pub struct RemoteWrite {
    interval_ns: u64,
    taken_ns: Option<u64>,
    /// The latest view, if it came too early.
    skipped: Option<Arc<View>>,
    views: Option<SyncSender<Arc<View>>>,
    encoder: Option<JoinHandle<()>>,
    counts: Arc<Counts>,
    queue: Arc<Queue>,
    courier: Courier,
}

impl RemoteWrite {
    /// Opens the spool and starts to deliver what waits in it.
    ///
    /// # Errors
    /// The address, a label or the spool cannot be used.
    pub fn start(settings: Settings) -> Result<Self, StartError> {
        check_url(&settings.url)?;
        for (name, _) in &settings.labels {
            check_label(name)?;
        }
        let queue = Queue::new(Spool::open(&settings.spool, settings.limits)?);
        let store = send::Store::new(settings.url, settings.authorization);
        let courier = Courier::start("waggle-rw-send", Arc::clone(&queue), store)
            .map_err(StartError::Thread)?;
        let counts = Arc::new(Counts::default());
        let (views, waiting) = sync_channel(VIEWS_WAITING);
        let mut writer = Writer {
            exposition: Exposition::new(settings.bounds),
            labels: settings.labels,
            said_ms: None,
            counts: Arc::clone(&counts),
            queue: Arc::clone(&queue),
        };
        let encoder = std::thread::Builder::new()
            .name("waggle-rw-make".to_owned())
            .spawn(move || without_rights(|| writer.run(&waiting)))
            .map_err(StartError::Thread)?;
        Ok(Self {
            interval_ns: u64::try_from(settings.interval.as_nanos()).unwrap_or(u64::MAX),
            taken_ns: None,
            skipped: None,
            views: Some(views),
            encoder: Some(encoder),
            counts,
            queue,
            courier,
        })
    }
}

impl Sink for RemoteWrite {
    fn name(&self) -> &'static str {
        "remote_write"
    }

    fn view(&mut self, view: &Arc<View>) {
        let least_ns = self.interval_ns - self.interval_ns / 10;
        let is_early = |taken: u64| view.time_ns.saturating_sub(taken) < least_ns;
        if self.taken_ns.is_some_and(is_early) {
            self.skipped = Some(Arc::clone(view));
            return;
        }
        self.take(view);
    }

    /// Counts samples.
    fn status(&self) -> SinkStatus {
        let counts = &self.counts;
        self.queue.sink_status(&[
            ("queue_full", counts.queue_full.load(Ordering::Relaxed)),
            (
                "clock_went_back",
                counts.clock_went_back.load(Ordering::Relaxed),
            ),
        ])
    }

    fn close(&mut self, within: Duration) {
        let by = Instant::now() + within;
        // The last view is pushed however early it is: it has what came since the one before.
        if let Some(last) = self.skipped.take() {
            self.take(&last);
        }
        // The encoder ends when it has made all that was handed to it.
        self.views = None;
        if let Some(encoder) = self.encoder.take() {
            let _ = encoder.join();
        }
        self.courier
            .close(by.saturating_duration_since(Instant::now()));
    }
}

impl RemoteWrite {
    /// Hands `view` to the encoder.
    fn take(&mut self, view: &Arc<View>) {
        self.skipped = None;
        self.taken_ns = Some(view.time_ns);
        let Some(views) = &self.views else { return };
        if let Err(TrySendError::Full(_)) = views.try_send(Arc::clone(view)) {
            let samples = self.counts.page_samples.load(Ordering::Relaxed);
            self.counts
                .queue_full
                .fetch_add(samples.max(1), Ordering::Relaxed);
        }
    }
}

impl Drop for RemoteWrite {
    fn drop(&mut self) {
        self.close(Duration::ZERO);
    }
}

/// The thread that makes bodies.
struct Writer {
    exposition: Exposition,
    labels: Vec<(String, String)>,
    /// Time of the latest page, ms.
    said_ms: Option<i64>,
    counts: Arc<Counts>,
    queue: Arc<Queue>,
}

impl Writer {
    fn run(&mut self, views: &Receiver<Arc<View>>) {
        while let Ok(view) = views.recv() {
            self.write(&view);
        }
    }

    fn write(&mut self, view: &View) {
        let Some(times) = times(view, self.said_ms) else {
            let samples = self.counts.page_samples.load(Ordering::Relaxed);
            self.counts
                .clock_went_back
                .fetch_add(samples.max(1), Ordering::Relaxed);
            return;
        };
        self.said_ms = Some(times.now_ms);
        let has_instance = self.labels.iter().any(|(name, _)| name == "instance");
        if !has_instance && !view.host_name.is_empty() {
            let host = view.host_name.to_string();
            self.labels.push(("instance".to_owned(), host));
        }
        let mut encoder = Encoder::new(&self.labels, times);
        self.exposition.visit(view, &mut encoder);
        let mut samples = 0;
        for body in encoder.finish() {
            samples += u64::from(body.samples);
            // A refusal is counted by the spool; the next body may fit.
            let _ = self.queue.append(0, body.samples, &body.packed);
        }
        self.counts.page_samples.store(samples, Ordering::Relaxed);
    }
}

/// Time stamps of the page of `view`, after one at `said_ms`; `None` if it is not later than that.
fn times(view: &View, said_ms: Option<i64>) -> Option<Times> {
    let ms = |us: u64| i64::try_from(us / 1000).unwrap_or(i64::MAX);
    let now_ms = ms(view.time_us);
    match said_ms {
        // Room for the zeros in between.
        Some(said_ms) if now_ms <= said_ms + 1 => None,
        Some(said_ms) => Some(Times {
            now_ms,
            zero_ms: said_ms + 1,
        }),
        None => Some(Times {
            now_ms,
            zero_ms: ms(view.started_us).min(now_ms - 1),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(started_us: u64, time_us: u64) -> View {
        View {
            started_us,
            time_us,
            ..View::default()
        }
    }

    #[test]
    fn times_only_grow() {
        let at = |view: &View, said| times(view, said).map(|t| (t.zero_ms, t.now_ms));
        assert_eq!(at(&view(1_000_000, 5_000_000), None), Some((1000, 5000)));
        assert_eq!(at(&view(9_000_000, 5_000_000), None), Some((4999, 5000)));
        assert_eq!(at(&view(0, 6_000_999), Some(5000)), Some((5001, 6000)));
        assert_eq!(at(&view(0, 5_001_999), Some(5000)), None);
        assert_eq!(at(&view(0, 1_000_000), Some(5000)), None);
    }

    #[test]
    fn addresses_are_checked_and_passwords_not_repeated() {
        for good in [
            "http://127.0.0.1:9090/api/v1/write",
            "https://store.example/api/v1/push?x=a@b",
            "http://[::1]:8428/api/v1/write",
        ] {
            check_url(good).unwrap();
        }
        for bad in ["", "store:9090", "ftp://a/b", "http://", "http:///x"] {
            assert!(check_url(bad).is_err(), "{bad}");
        }
        let error = check_url("http://u:s3cret@store/x")
            .unwrap_err()
            .to_string();
        assert!(
            !error.contains("s3cret") && error.contains("store"),
            "{error}"
        );
    }

    #[test]
    fn names_of_labels() {
        for good in ["job", "a1", "_x"] {
            check_label(good).unwrap();
        }
        for bad in ["", "1a", "__name__", "a-b", "\u{e9}"] {
            assert!(check_label(bad).is_err(), "{bad}");
        }
    }
}
