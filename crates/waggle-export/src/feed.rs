//! How does news get from the agent's thread to an exporter's own, without the one waiting for the
//! other?
//!
//! A bounded channel into a thread that encodes. Neighbours: `clickhouse` and `otlp` encode; the
//! agent calls through their `Sink`s. Invariant: what does not fit is counted and gone at once. A
//! view that does not fit costs resolution only: the next one has all its counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use waggle_agent::budget::rights::without_rights;
use waggle_agent::lock::{Deadlock, LockWait};
use waggle_agent::sample::Sample;
use waggle_agent::statement::ServerId;
use waggle_agent::view::View;

/// So many calls of the agent may wait for the encoder.
const CALLS_MAX: usize = 64;

/// What the agent hands out in one call.
#[derive(Debug)]
pub(crate) enum News {
    View(Arc<View>),
    Samples(Vec<Sample>),
    Waits(Vec<(ServerId, LockWait)>),
    Deadlocks(Vec<(ServerId, Deadlock)>),
}

/// Makes an exporter's records of news, in a thread of its own.
pub(crate) trait Encoder: Send + 'static {
    /// May block on the disk.
    fn take(&mut self, news: News);

    /// Nothing comes any more: hands on all that it kept back.
    fn end(&mut self);
}

/// The agent's end of the channel.
#[derive(Debug)]
pub(crate) struct Feed {
    sender: Option<SyncSender<News>>,
    thread: Option<JoinHandle<()>>,
    /// Records, and views, that found the channel full.
    dropped: AtomicU64,
    views_skipped: AtomicU64,
}

impl Feed {
    pub(crate) fn start(name: &str, mut encoder: impl Encoder) -> std::io::Result<Self> {
        let (sender, receiver) = sync_channel(CALLS_MAX);
        let work = move || without_rights(|| run(&receiver, &mut encoder));
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(work)?;
        Ok(Self {
            sender: Some(sender),
            thread: Some(thread),
            dropped: AtomicU64::new(0),
            views_skipped: AtomicU64::new(0),
        })
    }

    pub(crate) fn view(&self, view: &Arc<View>) {
        if !self.offer(News::View(Arc::clone(view))) {
            self.views_skipped.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn records<T: Clone>(&self, records: &[T], news: fn(Vec<T>) -> News) {
        if !records.is_empty() && !self.offer(news(records.to_vec())) {
            let count = records.len() as u64;
            self.dropped.fetch_add(count, Ordering::Relaxed);
        }
    }

    fn offer(&self, news: News) -> bool {
        match self.sender.as_ref().map(|sender| sender.try_send(news)) {
            Some(Ok(())) => true,
            Some(Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) | None => false,
        }
    }

    /// Records and views that found the channel full, by cause.
    pub(crate) fn dropped(&self) -> [(&'static str, u64); 2] {
        [
            ("queue_full", self.dropped.load(Ordering::Relaxed)),
            ("view_skipped", self.views_skipped.load(Ordering::Relaxed)),
        ]
    }

    /// Ends the thread after all that waits has been encoded.
    pub(crate) fn close(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            // It panicked: what it held is lost with it, what it handed on is not.
            let _ = thread.join();
        }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.close();
    }
}

fn run(receiver: &Receiver<News>, encoder: &mut impl Encoder) {
    while let Ok(news) = receiver.recv() {
        encoder.take(news);
    }
    encoder.end();
}
