//! When were records lost?
//!
//! Neighbour: `tracker` asks whether a loss may touch a wait. Invariant: a span that was added is
//! never shorter afterwards.

use std::collections::VecDeque;

/// Spans in which records were lost: in order, apart from each other.
#[derive(Debug, Default)]
pub(super) struct Losses(VecDeque<(u64, u64)>);

impl Losses {
    /// Spans that are remembered. The oldest go: waits of their time are settled.
    const SPANS_MAX: usize = 65_536;

    pub(super) fn add(&mut self, from_ns: u64, to_ns: u64) {
        let (mut from, mut to) = (from_ns.min(to_ns), to_ns);
        let first = self.0.partition_point(|span| span.1 < from);
        let mut past = first;
        while let Some(span) = self.0.get(past).filter(|span| span.0 <= to) {
            (from, to) = (from.min(span.0), to.max(span.1));
            past += 1;
        }
        self.0.drain(first..past);
        self.0.insert(first, (from, to));
        if self.0.len() > Self::SPANS_MAX {
            self.0.pop_front();
        }
    }

    /// True if a loss may lie between.
    pub(super) fn touch(&self, from_ns: u64, to_ns: u64) -> bool {
        let at = self.0.partition_point(|span| span.1 < from_ns);
        self.0.get(at).is_some_and(|span| span.0 <= to_ns)
    }
}
