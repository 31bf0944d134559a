//! The sink of a store that is sent batches from a spool: ClickHouse, and receivers of OTLP.
//!
//! A `Feed` makes batches of views and records, a `Courier` delivers them; both are threads
//! without rights. Neighbours: `clickhouse` and `otlp` say how batches are made and sent.
//! Invariant: the caller never waits for the store.

use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use waggle_agent::lock::{Deadlock, LockWait};
use waggle_agent::sample::Sample;
use waggle_agent::sink::{Sink, SinkStatus};
use waggle_agent::statement::ServerId;
use waggle_agent::view::View;

use crate::feed::{Encoder, Feed, News};
use crate::spool::courier::{Courier, Queue, Transport};
use crate::spool::{Limits, Spool, SpoolError};

/// Which store.
pub trait Kind: Send {
    /// Its name in views, and the beginning of its threads' names.
    const NAME: &'static str;
}

/// A sink of one kind of store.
#[derive(Debug)]
pub struct StoreSink<K> {
    feed: Feed,
    queue: Arc<Queue>,
    courier: Courier,
    /// Records that the store did not take, within batches that it took.
    rejected: Arc<AtomicU64>,
    kind: PhantomData<K>,
}

impl<K: Kind> StoreSink<K> {
    /// The queue in `folder`, with all that an earlier run left there.
    pub(crate) fn queue(folder: &Path, limits: Limits) -> Result<Arc<Queue>, SpoolError> {
        Ok(Queue::new(Spool::open(folder, limits)?))
    }

    /// Starts both threads.
    pub(crate) fn begin(
        queue: Arc<Queue>,
        encoder: impl Encoder,
        transport: impl Transport,
        rejected: Arc<AtomicU64>,
    ) -> std::io::Result<Self> {
        let courier = Courier::start(&format!("{}-send", K::NAME), Arc::clone(&queue), transport)?;
        Ok(Self {
            feed: Feed::start(&format!("{}-make", K::NAME), encoder)?,
            queue,
            courier,
            rejected,
            kind: PhantomData,
        })
    }
}

impl<K: Kind> Sink for StoreSink<K> {
    fn name(&self) -> &'static str {
        K::NAME
    }

    fn view(&mut self, view: &Arc<View>) {
        self.feed.view(view);
    }

    fn samples(&mut self, samples: &[Sample]) {
        self.feed.records(samples, News::Samples);
    }

    fn waits(&mut self, waits: &[(ServerId, LockWait)]) {
        self.feed.records(waits, News::Waits);
    }

    fn deadlocks(&mut self, deadlocks: &[(ServerId, Deadlock)]) {
        self.feed.records(deadlocks, News::Deadlocks);
    }

    fn status(&self) -> SinkStatus {
        let [full, skipped] = self.feed.dropped();
        let rejected = self.rejected.load(Ordering::Relaxed);
        let mut status = self
            .queue
            .sink_status(&[full, skipped, ("partly_rejected", rejected)]);
        status.delivered = status.delivered.saturating_sub(rejected);
        status
    }

    fn close(&mut self, within: Duration) {
        self.feed.close();
        self.courier.close(within);
    }
}
