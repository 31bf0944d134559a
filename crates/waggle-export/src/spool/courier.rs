//! Carries batches from the front of a spool to a store, one at a time, until each is settled.
//!
//! A thread that sends, waits longer after each failure, and tells how it fares. Neighbours: an
//! exporter appends through [`Queue`]; its [`Transport`] knows the store's protocol.
//!
//! Invariants: the lock on the spool is never held while the store is talked to, so appending never
//! waits for the store. A batch is settled once: acknowledged, or rejected and counted.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use waggle_agent::budget::rights::without_rights;
use waggle_agent::sink::SinkStatus;

use super::{Batch, BatchId, Refused, Spool, SpoolStatus};

/// The first wait after a failure, and the longest.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(30));

/// What the store said to a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It has it.
    Delivered,
    /// Not now: it is away, overloaded or broken. Tried again, under the same id.
    Later {
        /// For people.
        why: String,
        /// How long the store asked to be left alone.
        after: Option<Duration>,
    },
    /// Never: it understood and refused. Counted, not tried again.
    Rejected {
        /// For people.
        why: String,
        /// Stable name for the count, such as `rejected`.
        cause: &'static str,
    },
}

/// Knows how to give a batch to one store.
pub trait Transport: Send + 'static {
    /// Gives `batch` to the store. Must return within a bounded time, whatever the store does.
    fn send(&mut self, batch: &Batch) -> Outcome;
}

#[derive(Debug)]
struct State {
    spool: Spool,
    last_error: Option<String>,
    /// When delivery is over: at once if that is past.
    close_by: Option<Instant>,
    /// The courier's thread has ended.
    is_over: bool,
}

/// A spool that one side appends to while a courier empties it.
#[derive(Debug)]
pub struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

impl Queue {
    /// A queue on `spool`.
    pub fn new(spool: Spool) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                spool,
                last_error: None,
                close_by: None,
                is_over: false,
            }),
            changed: Condvar::new(),
        })
    }

    /// Appends a batch, see [`Spool::append`]. May block on the disk, never on the store.
    ///
    /// # Errors
    /// It was not kept; it is counted, and told as the latest error.
    pub fn append(&self, tag: u8, records: u32, payload: &[u8]) -> Result<BatchId, Refused> {
        let mut state = self.lock();
        let result = state.spool.append(tag, records, payload);
        match &result {
            Ok(_) => self.changed.notify_all(),
            Err(refused) => state.last_error = Some(refused.to_string()),
        }
        result
    }

    /// What waits and what became of the rest.
    pub fn spool_status(&self) -> SpoolStatus {
        self.lock().spool.status()
    }

    /// The same as a sink tells it; `dropped` are the exporter's own losses, added to the spool's.
    pub fn sink_status(&self, dropped: &[(&'static str, u64)]) -> SinkStatus {
        let state = self.lock();
        let spool = state.spool.status();
        let mut all = spool.dropped;
        for (cause, records) in dropped.iter().filter(|(_, records)| *records > 0) {
            super::count(&mut all, cause, *records);
        }
        SinkStatus {
            delivered: spool.records_delivered,
            dropped: all,
            waiting: spool.records_waiting,
            last_error: state.last_error.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the lock leaves the spool as its last whole operation did.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next batch; `None` when it is time to end.
    fn next(&self) -> Option<Batch> {
        let mut state = self.lock();
        loop {
            if state.close_by.is_some_and(|by| by <= Instant::now()) {
                return None;
            }
            if let Some(batch) = state.spool.front() {
                return Some(batch);
            }
            if state.close_by.is_some() {
                return None;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Notes what became of a batch.
    fn settle(&self, id: BatchId, outcome: Outcome) {
        let mut state = self.lock();
        match outcome {
            Outcome::Delivered => {
                state.spool.acknowledge(id);
                state.last_error = None;
            }
            Outcome::Rejected { why, cause } => {
                state.spool.reject(id, cause);
                state.last_error = Some(why);
            }
            Outcome::Later { why, .. } => state.last_error = Some(why),
        }
    }

    /// Waits `pause`, or until the queue closes.
    fn rest(&self, pause: Duration) {
        let until = Instant::now() + pause;
        let mut state = self.lock();
        loop {
            let by = state.close_by.map_or(until, |by| by.min(until));
            let left = by.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}

/// The thread that empties a [`Queue`].
#[derive(Debug)]
pub struct Courier {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

impl Courier {
    /// Starts to deliver from `queue` by `transport`, in a thread called `name`.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(
        name: &str,
        queue: Arc<Queue>,
        transport: impl Transport,
    ) -> std::io::Result<Self> {
        let of_thread = Arc::clone(&queue);
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || without_rights(|| deliver(&of_thread, transport)))?;
        Ok(Self {
            queue,
            thread: Some(thread),
        })
    }

    /// Delivers what it can within `within`; the rest stays on disk. A thread that still waits for
    /// the store then is left to its own time limit: it settles its batch or the process ends, in
    /// which case the batch is sent again, under the same id.
    pub fn close(&mut self, within: Duration) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        let by = Instant::now() + within;
        let mut state = self.queue.lock();
        state.close_by = Some(by);
        self.queue.changed.notify_all();
        while !state.is_over {
            let left = by.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self
                .queue
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        state.spool.sync();
        let is_over = state.is_over;
        drop(state);
        if is_over {
            let _ = thread.join();
        }
    }
}

impl Drop for Courier {
    fn drop(&mut self) {
        self.close(Duration::ZERO);
    }
}

/// Says that the thread is over, also if it panicked.
struct Over<'q>(&'q Queue);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.changed.notify_all();
    }
}

fn deliver(queue: &Queue, mut transport: impl Transport) {
    let _over = Over(queue);
    let mut failures = 0u32;
    while let Some(batch) = queue.next() {
        let outcome = transport.send(&batch);
        let pause = match &outcome {
            Outcome::Later { after, .. } => {
                failures += 1;
                let asked = after.unwrap_or_default().min(BACK_OFF.1);
                Some(back_off(failures, batch.id).max(asked))
            }
            Outcome::Delivered | Outcome::Rejected { .. } => None,
        };
        queue.settle(batch.id, outcome);
        match pause {
            Some(pause) => queue.rest(pause),
            None => failures = 0,
        }
    }
}

/// How long to wait after so many failures in a row: doubling, and shortened by up to a quarter,
/// by the batch's name, so that agents that lost the same store do not return in step.
fn back_off(failures: u32, id: BatchId) -> Duration {
    let doubled = BACK_OFF
        .0
        .saturating_mul(1 << failures.saturating_sub(1).min(10));
    let full = doubled.min(BACK_OFF.1);
    let share = (id.run.rotate_left(failures) % 256) as u32;
    full - full * share / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_its_bound_and_is_never_short() {
        for run in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef] {
            let id = BatchId { run, sequence: 0 };
            for failures in 1..40 {
                let wait = back_off(failures, id);
                assert!(wait >= BACK_OFF.0 * 3 / 4 && wait <= BACK_OFF.1, "{wait:?}");
            }
            assert!(back_off(1, id) < back_off(3, id));
            assert!(back_off(39, id) >= BACK_OFF.1 * 3 / 4);
        }
    }
}
