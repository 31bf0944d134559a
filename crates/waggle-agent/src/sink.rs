//! Where what the agent knows goes: terminal, run directory, Prometheus, ClickHouse, OTLP.
//!
//! Each sink is called from a thread of its own, behind a bounded queue: the thread that empties
//! the ring buffers never waits for one, and what its queue has no room for is counted as dropped.
//! A call that takes long costs that sink's own records only. Neighbours: `agent::delivery` calls;
//! `waggle-export` and the binary's `watch` implement.

use std::sync::Arc;
use std::time::Duration;

use crate::lock::{Deadlock, LockWait};
use crate::sample::Sample;
use crate::statement::ServerId;
use crate::view::View;

/// How a sink fares; cumulative since it was made.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct SinkStatus {
    /// Records (rows, series, requests: the sink says what it counts) that the other side
    /// acknowledged.
    pub delivered: u64,
    /// Records that will never be delivered, by cause: a stable, short, snake-case name such as
    /// `queue_full`, `spool_full`, `rejected`.
    pub dropped: Vec<(&'static str, u64)>,
    /// Records that wait, in memory and on disk.
    pub waiting: u64,
    /// The latest failure, in words; `None` after a delivery.
    pub last_error: Option<String>,
}

/// Takes what the agent knows.
pub trait Sink: Send {
    /// Stable, short, snake case: `prometheus`, `remote_write`, `clickhouse`, `otlp`, `record`.
    fn name(&self) -> &'static str;

    /// A snapshot of everything, once an interval. Counts in it are cumulative: one that is
    /// dropped costs resolution, not count.
    fn view(&mut self, view: &Arc<View>);

    /// Single statements that were kept since the last call.
    fn samples(&mut self, _samples: &[Sample]) {}

    /// Waits that ended since the last call (those that go on are in the view).
    fn waits(&mut self, _waits: &[(ServerId, LockWait)]) {}

    /// Deadlocks since the last call.
    fn deadlocks(&mut self, _deadlocks: &[(ServerId, Deadlock)]) {}

    /// How it fares.
    fn status(&self) -> SinkStatus;

    /// Delivers what it can within `within`, then ends its threads. What could not be delivered
    /// is kept on disk, where there is a spool, or counted as dropped.
    fn close(&mut self, within: Duration);
}
