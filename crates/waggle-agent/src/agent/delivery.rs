//! Hands views, samples, waits and deadlocks to the sinks, and never waits for one.
//!
//! A thread and a bounded queue a sink. Invariant: the caller never blocks; what a queue has no
//! room for is counted as `queue_full` in that sink's status, and so is what a sink did not manage
//! to take before the end.

use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SyncSender, TrySendError, channel, sync_channel,
};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::budget::rights::without_rights;
use crate::lock::{Deadlock, LockWait};
use crate::sample::Sample;
use crate::sink::{Sink, SinkStatus};
use crate::statement::ServerId;
use crate::view::View;

/// Messages that may wait for one sink.
const QUEUE: usize = 16;
/// How often a sink that was told nothing is asked how it fares.
const STATUS: Duration = Duration::from_secs(1);

/// Everything that is not part of a view, since the last one.
#[derive(Debug, Clone, Default)]
pub(super) struct Single {
    pub(super) samples: Vec<Sample>,
    pub(super) waits: Vec<(ServerId, LockWait)>,
    pub(super) deadlocks: Vec<(ServerId, Deadlock)>,
}

impl Single {
    fn is_empty(&self) -> bool {
        self.samples.is_empty() && self.waits.is_empty() && self.deadlocks.is_empty()
    }

    fn len(&self) -> u64 {
        (self.samples.len() + self.waits.len() + self.deadlocks.len()) as u64
    }
}

enum Message {
    View(Arc<View>),
    Single(Arc<Single>),
    Close(Duration),
}

impl Message {
    fn records(&self) -> u64 {
        match self {
            Self::View(_) => 1,
            Self::Single(single) => single.len(),
            Self::Close(_) => 0,
        }
    }
}

/// One sink and its queue.
struct Outlet {
    name: &'static str,
    queue: SyncSender<Message>,
    status: Arc<Mutex<SinkStatus>>,
    /// Records the queue had no room for.
    refused: u64,
    done: Receiver<()>,
}

/// All sinks.
#[derive(Default)]
pub(super) struct Delivery {
    outlets: Vec<Outlet>,
}

impl Delivery {
    /// Starts the thread of a sink.
    pub(super) fn add(&mut self, sink: Box<dyn Sink>) -> std::io::Result<()> {
        let name = sink.name();
        let (queue, messages) = sync_channel(QUEUE);
        let (finished, done) = channel();
        let status = Arc::new(Mutex::new(sink.status()));
        let shared = Arc::clone(&status);
        thread::Builder::new()
            .name(format!("sink-{name}"))
            .spawn(move || {
                without_rights(|| serve(sink, &messages, &shared));
                // Nobody listens any more if the deadline passed.
                let _ = finished.send(());
            })?;
        self.outlets.push(Outlet {
            name,
            queue,
            status,
            refused: 0,
            done,
        });
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.outlets.is_empty()
    }

    /// Hands out a view and what came with it.
    pub(super) fn hand_out(&mut self, view: &Arc<View>, single: Single) {
        let single = Arc::new(single);
        for outlet in &mut self.outlets {
            outlet.offer(Message::View(Arc::clone(view)));
            if !single.is_empty() {
                outlet.offer(Message::Single(Arc::clone(&single)));
            }
        }
    }

    /// How every sink fares.
    pub(super) fn status(&self) -> Vec<(&'static str, SinkStatus)> {
        let status = self.outlets.iter().map(|o| (o.name, o.status()));
        status.collect()
    }

    /// Lets every sink deliver what it can within `within`, all at once, and ends them.
    pub(super) fn close(&mut self, within: Duration) {
        let deadline = Instant::now() + within;
        for outlet in &mut self.outlets {
            let left = deadline.saturating_duration_since(Instant::now());
            outlet.close(left);
        }
        for outlet in &mut self.outlets {
            let left = deadline.saturating_duration_since(Instant::now());
            // A sink that keeps to `within` ends a little after it.
            let _ = outlet.done.recv_timeout(left + STATUS);
        }
    }
}

impl Outlet {
    fn offer(&mut self, message: Message) {
        match self.queue.try_send(message) {
            Ok(()) => {}
            Err(TrySendError::Full(message) | TrySendError::Disconnected(message)) => {
                self.refused += message.records();
            }
        }
    }

    /// Asks for the end; waits for room in the queue, as this is the last message.
    fn close(&mut self, within: Duration) {
        let deadline = Instant::now() + within;
        while let Err(TrySendError::Full(_)) = self.queue.try_send(Message::Close(within)) {
            if Instant::now() >= deadline {
                return;
            }
            // sleep: between two looks at a queue, with a deadline
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn status(&self) -> SinkStatus {
        let mut status = lock(&self.status).clone();
        if self.refused > 0 {
            status.dropped.push(("queue_full", self.refused));
        }
        status
    }
}

fn lock(status: &Mutex<SinkStatus>) -> std::sync::MutexGuard<'_, SinkStatus> {
    status.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread of one sink.
fn serve(mut sink: Box<dyn Sink>, messages: &Receiver<Message>, status: &Mutex<SinkStatus>) {
    loop {
        match messages.recv_timeout(STATUS) {
            Ok(Message::View(view)) => sink.view(&view),
            Ok(Message::Single(single)) => hand_single(&mut *sink, &single),
            Ok(Message::Close(within)) => {
                sink.close(within);
                *lock(status) = sink.status();
                return;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return sink.close(Duration::ZERO),
        }
        let now = sink.status();
        *lock(status) = now;
    }
}

fn hand_single(sink: &mut dyn Sink, single: &Single) {
    if !single.samples.is_empty() {
        sink.samples(&single.samples);
    }
    if !single.waits.is_empty() {
        sink.waits(&single.waits);
    }
    if !single.deadlocks.is_empty() {
        sink.deadlocks(&single.deadlocks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Counts views; each call waits until the gate is open.
    struct Gated {
        gate: Arc<Mutex<()>>,
        views: Arc<AtomicU64>,
        closed: Arc<AtomicU64>,
    }

    impl Sink for Gated {
        fn name(&self) -> &'static str {
            "gated"
        }
        fn view(&mut self, _view: &Arc<View>) {
            drop(self.gate.lock());
            self.views.fetch_add(1, Ordering::Relaxed);
        }
        fn status(&self) -> SinkStatus {
            SinkStatus {
                delivered: self.views.load(Ordering::Relaxed),
                ..SinkStatus::default()
            }
        }
        fn close(&mut self, _within: Duration) {
            self.closed.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_sink_that_hangs_never_holds_the_agent_up_and_what_it_missed_is_counted() {
        let gate = Arc::new(Mutex::new(()));
        let [views, closed] = [const { AtomicU64::new(0) }; 2].map(Arc::new);
        let mut delivery = Delivery::default();
        let sink = Gated {
            gate: Arc::clone(&gate),
            views: Arc::clone(&views),
            closed: Arc::clone(&closed),
        };
        delivery.add(Box::new(sink)).expect("a thread");
        let shut = gate.lock().expect("the gate");
        let view = Arc::new(View::default());
        for _ in 0..100 {
            delivery.hand_out(&view, Single::default());
        }
        let refused = delivery.status()[0].1.dropped[0];
        assert_eq!(refused.0, "queue_full");
        assert!(refused.1 >= 100 - QUEUE as u64 - 1, "{refused:?}");
        drop(shut);
        delivery.close(Duration::from_secs(60));
        assert_eq!(closed.load(Ordering::Relaxed), 1);
        assert_eq!(views.load(Ordering::Relaxed) + refused.1, 100);
        assert_eq!(delivery.status()[0].1.delivered, 100 - refused.1);
    }
}
