//! What did each thread do at each moment: run, wait for a processor, or wait for something else?
//!
//! Fed with the events of the scheduler in the order of their time. Pipelines split a stage by what
//! the thread that carried it out did meanwhile, latches and functions likewise. Neighbours:
//! `records` turns the probe's records into events; `waits` asks who ended whose wait.
//!
//! Invariant: the parts of a split add up to the span that was asked for, to the nanosecond. What
//! was not seen (before the first event of a thread, while events were lost, a switch that the
//! kernel did not announce) is a part of its own.

mod history;
mod records;
mod spans;

pub use records::Records;
pub use spans::{Span, Split, State, Waker};

use rustc_hash::FxHashMap;

use crate::event::{Departure, Event, StackId, Thread, What};
use history::{Change, History};

/// A thread that is on its way off its processor may be woken before it has left: at most so long
/// before, ns.
pub(crate) const EARLY_NS: u64 = 100_000;

/// What all threads did, as far back as is kept.
#[derive(Debug)]
pub struct Timeline {
    threads: FxHashMap<Thread, History>,
    keep_ns: u64,
    changes_max: usize,
    changes: usize,
    /// Nothing is known before.
    kept_from_ns: u64,
    now_ns: u64,
    forgotten_at_ns: u64,
}

/// Most changes of state that are kept, of all threads together; about 80 bytes each.
pub const CHANGES_MAX: usize = 1_000_000;

impl Timeline {
    /// Keeps `keep_ns` of history, and at most `changes_max` changes of state.
    pub fn new(keep_ns: u64, changes_max: usize) -> Self {
        Self {
            threads: FxHashMap::default(),
            keep_ns,
            changes_max: changes_max.max(2),
            changes: 0,
            kept_from_ns: 0,
            now_ns: 0,
            forgotten_at_ns: 0,
        }
    }

    /// Takes note of an event; those that are not the scheduler's only move the time on.
    pub fn record(&mut self, event: &Event) {
        self.now_ns = self.now_ns.max(event.ns);
        match event.what {
            What::Left { why, stack } => self.left(event, why, stack),
            What::Came => self.came(event.thread, event.ns),
            What::Wakes {
                woken,
                stack,
                interrupt,
            } => {
                let waker = Waker {
                    thread: event.thread,
                    stack,
                    interrupt,
                };
                self.woken(woken, event.ns, waker);
            }
            What::Began => {
                let history = self.threads.entry(event.thread).or_default();
                self.changes += history.change(event.ns, State::Runnable);
            }
            What::Ended => {
                self.threads.entry(event.thread).or_default().ended_ns = Some(event.ns);
            }
            What::Lost { since_ns, .. } => self.lost(since_ns),
            What::Point { .. } => {}
        }
        if self.now_ns.saturating_sub(self.forgotten_at_ns) > self.keep_ns / 4
            || self.changes > self.changes_max
        {
            self.forget();
        }
    }

    /// From here on the scheduler's events tell of `thread`, which runs.
    pub fn comes_into_view(&mut self, thread: Thread, ns: u64) {
        let history = self.threads.entry(thread).or_default();
        let last = history.changes.back();
        if last.is_none_or(|last| matches!(last.state, State::Elsewhere | State::Unseen)) {
            self.changes += history.change(ns, State::OnCpu);
        }
    }

    /// From here on they do not: it is at something else.
    pub fn goes_out_of_view(&mut self, thread: Thread, ns: u64) {
        let history = self.threads.entry(thread).or_default();
        self.changes += history.change(ns, State::Elsewhere);
        history.early = None;
    }

    fn left(&mut self, event: &Event, why: Departure, stack: Option<StackId>) {
        let state = match why {
            Departure::Runnable => State::Runnable,
            why => State::Blocked(why),
        };
        let history = self.threads.entry(event.thread).or_default();
        if let Some(last) = history.changes.back_mut()
            && !matches!(last.state, State::OnCpu | State::Elsewhere | State::Unseen)
        {
            // Its coming was not announced: since it left or was woken, nothing is known.
            last.state = State::Unseen;
            last.waker = None;
        }
        history.changes.push_back(Change {
            ns: event.ns,
            state,
            stack,
            waker: None,
        });
        self.changes += 1;
    }

    fn came(&mut self, thread: Thread, ns: u64) {
        let history = self.threads.entry(thread).or_default();
        let early = history.early.take();
        // Nobody woke it since it left: who did so just before has, and it was never asleep.
        if let Some(last) = history.changes.back_mut()
            && matches!(last.state, State::Blocked(_))
            && let Some((woken_ns, waker)) = early
            && last.ns.saturating_sub(woken_ns) <= EARLY_NS
        {
            last.waker = Some(waker);
            last.state = State::Runnable;
        }
        self.changes += history.change(ns, State::OnCpu);
    }

    fn woken(&mut self, thread: Thread, ns: u64, waker: Waker) {
        let Some(history) = self.threads.get_mut(&thread) else {
            return;
        };
        let Some(last) = history.changes.back_mut() else {
            return;
        };
        if matches!(last.state, State::Blocked(_)) && last.ns <= ns {
            last.waker = Some(waker);
            history.early = None;
            self.changes += history.change(ns, State::Runnable);
        } else if last.state == State::OnCpu {
            history.early = Some((ns, waker));
        }
    }

    /// Whatever happened since, to any thread, may be what was lost.
    fn lost(&mut self, since_ns: u64) {
        for history in self.threads.values_mut() {
            if history.ended_ns.is_some() {
                continue;
            }
            let keep = history.changes.partition_point(|c| c.ns < since_ns);
            for change in history.changes.iter_mut().skip(keep.saturating_sub(1)) {
                change.waker = None;
            }
            history.changes.push_back(Change {
                ns: since_ns.max(history.changes.back().map_or(0, |c| c.ns)),
                state: State::Unseen,
                stack: None,
                waker: None,
            });
            self.changes += 1;
        }
    }

    fn forget(&mut self) {
        self.forgotten_at_ns = self.now_ns;
        let mut before = self.now_ns.saturating_sub(self.keep_ns);
        loop {
            let mut left = 0;
            self.threads.retain(|_, history| {
                // The one that holds at `before` stays.
                let holds = history.changes.partition_point(|c| c.ns <= before);
                history.changes.drain(..holds.saturating_sub(1));
                left += history.changes.len();
                history.ended_ns.is_none_or(|ended| ended >= before)
            });
            self.kept_from_ns = self.kept_from_ns.max(before);
            self.changes = left;
            let age = self.now_ns - before;
            if left <= self.changes_max / 2 || age < 2 {
                return;
            }
            before = self.now_ns - age / 2;
        }
    }

    /// The time before which nothing is kept any more.
    pub fn kept_from_ns(&self) -> u64 {
        self.kept_from_ns
    }

    /// The latest event's time.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// What `thread` did from `from_ns` to `to_ns`, in order and without a gap; what was not seen
    /// is a span, too.
    pub fn spans(&self, thread: Thread, from_ns: u64, to_ns: u64) -> Vec<Span> {
        let mut spans = Vec::new();
        self.walk(thread, (from_ns, to_ns), |from_ns, to_ns, change| {
            spans.push(Span {
                from_ns,
                to_ns,
                state: change.map_or(State::Unseen, |c| c.state),
                stack: change.and_then(|c| c.stack),
                waker: change.and_then(|c| c.waker),
            });
        });
        spans
    }

    /// Hands `each` the states of the same spans, with how long each lasted, ns.
    pub fn each_state(
        &self,
        thread: Thread,
        from_ns: u64,
        to_ns: u64,
        mut each: impl FnMut(State, u64),
    ) {
        self.walk(thread, (from_ns, to_ns), |from_ns, to_ns, change| {
            each(change.map_or(State::Unseen, |c| c.state), to_ns - from_ns);
        });
    }

    /// Hands `each` the spans from and to these times; without a change: not seen.
    fn walk(
        &self,
        thread: Thread,
        (from_ns, to_ns): (u64, u64),
        mut each: impl FnMut(u64, u64, Option<&Change>),
    ) {
        let mut at = from_ns;
        // True if there is more to tell.
        let mut tell = |until: u64, change: Option<&Change>| {
            let until = until.min(to_ns);
            if until > at {
                each(at, until, change);
                at = until;
            }
            at < to_ns
        };
        if to_ns <= from_ns {
            return;
        }
        let Some(history) = self.threads.get(&thread) else {
            tell(to_ns, None);
            return;
        };
        let changes = &history.changes;
        let first = history.count_until(from_ns);
        if let Some(next) = changes.front()
            && first == 0
            && !tell(next.ns, None)
        {
            return;
        }
        let last_ns = history.ended_ns.unwrap_or(self.now_ns.max(from_ns));
        for index in first.saturating_sub(1)..changes.len() {
            let until = changes.get(index + 1).map_or(last_ns, |next| next.ns);
            if !tell(until, changes.get(index)) {
                return;
            }
        }
        tell(to_ns, None);
    }

    /// True if it is known what `thread` did at `ns`.
    pub fn knows(&self, thread: Thread, ns: u64) -> bool {
        let history = self.threads.get(&thread);
        let first = history.and_then(|h| h.changes.front());
        first.is_some_and(|first| first.ns <= ns)
    }

    /// All threads that something is kept of, and when the first of it was.
    pub fn threads(&self) -> impl Iterator<Item = (Thread, u64)> + '_ {
        let threads = self.threads.iter();
        threads.filter_map(|(thread, h)| Some((*thread, h.changes.front()?.ns)))
    }

    /// What the time of `thread` from `from_ns` to `to_ns` was made of.
    pub fn split(&self, thread: Thread, from_ns: u64, to_ns: u64) -> Split {
        let mut split = Split::default();
        self.each_state(thread, from_ns, to_ns, |state, ns| split.add(state, ns));
        split
    }
}

#[cfg(test)]
mod tests;
