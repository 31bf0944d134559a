//! How long was each thread away from a processor, and was it blocked or waiting for one?
//!
//! Fed with the scheduler's events in the order of their time; hands out time away as it ends.
//! Neighbour: `waggle_trace::timeline` turns records into events and keeps histories, where here
//! nothing is kept of a thread but its last step.
//!
//! Invariant: what is handed out was seen whole. Time of which a part was not seen (a lost record,
//! a switch that the kernel did not announce) is counted, not guessed.

use std::collections::HashMap;

use waggle_trace::{Departure, Event, StackId, Thread, What};

use crate::model::Kind;

/// A thread that is on its way off its processor may be woken before it has left: at most so long
/// before, ns.
const EARLY_NS: u64 = 100_000;

/// Time that a thread was away from a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Away {
    /// Which.
    pub thread: Thread,
    /// Since when, ns.
    pub from_ns: u64,
    /// How long.
    pub ns: u64,
    /// [`Kind::OffCpu`] or [`Kind::Runnable`].
    pub kind: Kind,
    /// Why it left.
    pub why: Departure,
    /// Where it left.
    pub stack: Option<StackId>,
}

/// What could not be told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Untold {
    /// Times away of which a part was not seen, as records were lost meanwhile.
    pub lossy: u64,
    /// Times away whose end the kernel did not announce.
    pub unannounced: u64,
    /// Threads that were away when the recording began, or went on: since when is not known.
    pub from_before: u64,
}

#[derive(Debug, Clone, Copy)]
struct Left {
    ns: u64,
    why: Departure,
    stack: Option<StackId>,
    woken_ns: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// It runs; somebody woke it at that time, when it was not asleep yet.
    Runs(Option<u64>),
    Away(Left),
    Unknown,
}

/// The last step of each thread.
#[derive(Debug, Default)]
pub struct OffCpu {
    threads: HashMap<Thread, State>,
    untold: Untold,
}

impl OffCpu {
    /// Takes an event; hands `each` what has ended with it.
    pub fn event(&mut self, event: &Event, mut each: impl FnMut(Away)) {
        let (thread, ns) = (event.thread, event.ns);
        match event.what {
            What::Left { why, stack } => self.left(event, why, stack, &mut each),
            What::Came => self.came(thread, ns, each),
            What::Wakes { woken, .. } => self.woken(woken, ns),
            What::Began => {
                let left = Left {
                    ns,
                    why: Departure::Runnable,
                    stack: None,
                    woken_ns: None,
                };
                self.threads.insert(thread, State::Away(left));
            }
            What::Ended => {
                self.threads.remove(&thread);
            }
            What::Lost { since_ns, .. } => self.lost(since_ns, &mut each),
            What::Point { .. } => {}
        }
    }

    fn left(
        &mut self,
        event: &Event,
        why: Departure,
        stack: Option<StackId>,
        each: &mut impl FnMut(Away),
    ) {
        let (thread, ns) = (event.thread, event.ns);
        let mut left = Left {
            ns,
            why,
            stack,
            woken_ns: None,
        };
        match self.threads.get(&thread) {
            Some(State::Away(before)) => {
                // It came back meanwhile; until it was woken, it was blocked all the same.
                self.untold.unannounced += 1;
                if let Some(woken_ns) = before.woken_ns {
                    hand_out(thread, before, woken_ns, each);
                }
            }
            Some(State::Runs(Some(early))) if ns.saturating_sub(*early) <= EARLY_NS => {
                left.woken_ns = Some(ns);
            }
            _ => {}
        }
        self.threads.insert(thread, State::Away(left));
    }

    fn came(&mut self, thread: Thread, ns: u64, mut each: impl FnMut(Away)) {
        match self.threads.insert(thread, State::Runs(None)) {
            Some(State::Away(left)) => hand_out(thread, &left, ns, &mut each),
            Some(State::Runs(_)) => self.untold.unannounced += 1,
            Some(State::Unknown) => {}
            None => self.untold.from_before += 1,
        }
    }

    fn woken(&mut self, thread: Thread, ns: u64) {
        match self.threads.get_mut(&thread) {
            Some(State::Away(left)) if left.woken_ns.is_none() => {
                left.woken_ns = Some(ns.max(left.ns));
            }
            Some(State::Runs(early)) => *early = Some(ns),
            _ => {}
        }
    }

    /// Whatever happened since, to any thread, may be what was lost.
    fn lost(&mut self, since_ns: u64, each: &mut impl FnMut(Away)) {
        for (thread, state) in &mut self.threads {
            if let State::Away(left) = state {
                self.untold.lossy += 1;
                if left.ns < since_ns {
                    hand_out(*thread, left, since_ns, each);
                }
            }
            *state = State::Unknown;
        }
    }

    /// Hands out the time of those that are away, up to `now_ns`, and forgets all threads: the
    /// recording ends, or pauses.
    pub fn end(&mut self, now_ns: u64, mut each: impl FnMut(Away)) {
        for (thread, state) in self.threads.drain() {
            if let State::Away(left) = state {
                hand_out(thread, &left, now_ns, &mut each);
            }
        }
    }

    /// What could not be told so far.
    pub fn untold(&self) -> Untold {
        self.untold
    }
}

/// A time away, in its one or two parts.
fn hand_out(thread: Thread, left: &Left, to_ns: u64, each: &mut impl FnMut(Away)) {
    let woken_ns = match left.why {
        Departure::Runnable => left.ns,
        _ => left
            .woken_ns
            .unwrap_or(to_ns)
            .clamp(left.ns, to_ns.max(left.ns)),
    };
    let mut part = |kind, from_ns: u64, to_ns: u64| {
        if to_ns > from_ns {
            each(Away {
                thread,
                from_ns,
                ns: to_ns - from_ns,
                kind,
                why: left.why,
                stack: left.stack,
            });
        }
    };
    part(Kind::OffCpu, left.ns, woken_ns);
    part(Kind::Runnable, woken_ns, to_ns);
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Thread = Thread {
        tid: 1,
        began_ns: 1,
    };
    const B: Thread = Thread {
        tid: 2,
        began_ns: 1,
    };

    fn event(thread: Thread, ns: u64, what: What) -> Event {
        Event {
            ns,
            thread,
            cpu: 0,
            what,
        }
    }

    fn left(why: Departure) -> What {
        What::Left {
            why,
            stack: Some(StackId(7)),
        }
    }

    fn wakes(woken: Thread) -> What {
        What::Wakes {
            woken,
            stack: None,
            interrupt: false,
        }
    }

    /// Kind, since when, and how long.
    fn told(events: &[Event], end_ns: u64) -> (Vec<(Kind, u64, u64)>, Untold) {
        let mut off = OffCpu::default();
        let mut told = Vec::new();
        for event in events {
            off.event(event, |away| told.push((away.kind, away.from_ns, away.ns)));
        }
        off.end(end_ns, |away| told.push((away.kind, away.from_ns, away.ns)));
        (told, off.untold())
    }

    #[test]
    fn a_wait_is_blocked_until_woken_and_runnable_until_it_comes() {
        let events = [
            event(A, 100, left(Departure::Sleep)),
            event(B, 300, wakes(A)),
            event(B, 320, wakes(A)),
            event(A, 350, What::Came),
            event(A, 400, left(Departure::Runnable)),
            event(A, 410, What::Came),
            event(A, 500, left(Departure::Disk)),
        ];
        let expected = vec![
            (Kind::OffCpu, 100, 200),
            (Kind::Runnable, 300, 50),
            (Kind::Runnable, 400, 10),
            (Kind::OffCpu, 500, 100),
        ];
        assert_eq!(told(&events, 600), (expected, Untold::default()));
    }

    #[test]
    fn one_that_was_woken_before_it_left_was_never_asleep() {
        let events = [
            event(A, 10, What::Began),
            event(A, 20, What::Came),
            event(B, 90, wakes(A)),
            event(A, 100, left(Departure::Futex(1))),
            event(A, 130, What::Came),
        ];
        let expected = vec![(Kind::Runnable, 10, 10), (Kind::Runnable, 100, 30)];
        assert_eq!(told(&events, 600), (expected, Untold::default()));
    }

    #[test]
    fn what_was_not_seen_is_counted_and_not_guessed() {
        let lost = What::Lost {
            since_ns: 200,
            count: 3,
        };
        let events = [
            event(A, 50, What::Came),
            event(A, 100, left(Departure::Sleep)),
            event(B, 250, lost),
            event(A, 300, What::Came),
            event(A, 400, left(Departure::Sleep)),
            event(A, 500, left(Departure::Sleep)),
            event(A, 550, What::Came),
            event(A, 560, What::Came),
            event(A, 570, left(Departure::Sleep)),
            event(B, 575, wakes(A)),
            event(A, 580, left(Departure::Runnable)),
        ];
        let expected = vec![
            (Kind::OffCpu, 100, 100),
            (Kind::OffCpu, 500, 50),
            (Kind::OffCpu, 570, 5),
            (Kind::Runnable, 580, 20),
        ];
        let untold = Untold {
            lossy: 1,
            unannounced: 3,
            from_before: 1,
        };
        assert_eq!(told(&events, 600), (expected, untold));
    }
}
