//! Puts the events of several rings in the order of their time.
//!
//! A program takes its time stamp first and its room in the ring a moment later, so records of two
//! processors may stand in the wrong order in one ring, and two rings know nothing of each other.
//! Events are held back until no earlier one can come any more.
//!
//! Invariant: what was handed out never has an earlier time than what was handed out before. What
//! comes too late for that becomes a loss.

use crate::event::{Event, Thread, What};
use waggle_probes::clock::now_ns;

/// How long after its time stamp a record is in its ring at the latest, ns, unless its program was
/// held up.
pub(super) const LATE_NS: u64 = 2_000_000;

/// Events held back, and up to when all were handed out.
#[derive(Debug, Default)]
pub(super) struct Order {
    held: Vec<Event>,
    released_ns: u64,
    late: u64,
}

impl Order {
    /// Takes an event, in any order.
    pub(super) fn take(&mut self, event: Event) {
        if event.ns >= self.released_ns {
            self.held.push(event);
            return;
        }
        // A loss that is told late is the same loss.
        let (since_ns, count) = match event.what {
            What::Lost { since_ns, count } => (since_ns, count),
            _ => {
                self.late += 1;
                (event.ns, 1)
            }
        };
        self.held.push(Event {
            ns: self.released_ns,
            what: What::Lost { since_ns, count },
            ..event
        });
    }

    /// Takes a loss that no record told of: it may have been at any time before.
    pub(super) fn take_loss(&mut self, count: u64) {
        self.held.push(Event {
            ns: now_ns(),
            thread: Thread {
                tid: 0,
                began_ns: 0,
            },
            cpu: 0,
            what: What::Lost { since_ns: 0, count },
        });
    }

    /// Hands out every event up to `until_ns`, in order; returns how many.
    pub(super) fn release(&mut self, until_ns: u64, mut each: impl FnMut(Event)) -> usize {
        self.held.sort_by_key(|event| event.ns);
        let count = self.held.partition_point(|event| event.ns <= until_ns);
        for event in self.held.drain(..count) {
            self.released_ns = event.ns;
            each(event);
        }
        // What has this very time may still come, and is not late.
        if until_ns != u64::MAX {
            self.released_ns = self.released_ns.max(until_ns);
        }
        count
    }

    /// Up to when all was handed out, ns.
    pub(super) fn released_ns(&self) -> u64 {
        self.released_ns
    }

    /// Events that came too late.
    pub(super) fn late(&self) -> u64 {
        self.late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_that_is_told_late_keeps_its_span_and_count() {
        let mut order = Order::default();
        order.take(event(40));
        order.release(50, |_| {});
        let what = What::Lost {
            since_ns: 5,
            count: 7,
        };
        order.take(Event { what, ..event(30) });
        let mut seen = Vec::new();
        order.release(u64::MAX, |e| seen.push((e.ns, e.what)));
        assert_eq!((seen, order.late()), (vec![(50, what)], 0));
    }

    fn event(ns: u64) -> Event {
        Event {
            ns,
            thread: Thread {
                tid: 1,
                began_ns: 1,
            },
            cpu: 0,
            what: What::Came,
        }
    }

    #[test]
    fn events_come_in_order_and_what_is_late_is_a_loss() {
        let mut order = Order::default();
        for ns in [30, 10, 20, 50] {
            order.take(event(ns));
        }
        let mut seen = Vec::new();
        assert_eq!(order.release(40, |e| seen.push((e.ns, e.what))), 3);
        order.take(event(35));
        order.take(event(40));
        assert_eq!(order.release(u64::MAX, |e| seen.push((e.ns, e.what))), 3);
        let lost = What::Lost {
            since_ns: 35,
            count: 1,
        };
        let whats = [
            (10, What::Came),
            (20, What::Came),
            (30, What::Came),
            (40, lost),
            (40, What::Came),
            (50, What::Came),
        ];
        assert_eq!(seen, whats);
        assert_eq!(order.late(), 1);
    }
}
