//! What became of the waits of a trace?
//!
//! Invariant: every wait is in exactly one of `no_wait`, `flagged`, `decomposed`, `cut` and `torn`.

/// What became of the waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Began and ended within the trace: the sum of the three below.
    pub seen: u64,
    /// What was waited for had been reached before.
    pub no_wait: u64,
    /// May be affected by a loss.
    pub flagged: u64,
    /// Their parts are known.
    pub decomposed: u64,
    /// Were under way when the trace, or the knowledge of the stages, began, or when it ended.
    pub cut: u64,
    /// Of the cut: ends without a beginning, with nothing lost before: it was before the trace
    /// began.
    pub begun_before: u64,
    /// Ends whose beginning, and beginnings whose end, may have been lost.
    pub torn: u64,
    /// Of the torn: ends without a beginning, which may have been lost.
    pub begin_lost: u64,
    /// Records that were lost.
    pub lost: u64,
    /// Waits whose parts do not sum to them.
    pub inexact: u64,
    /// Waits whose beginning was seen, whatever became of them.
    pub began: u64,
}

impl Counts {
    /// An end without a beginning. `may_be_lost`: records were, since its thread was last seen, or
    /// since the trace began. `is_first`: it is the thread's first, whose wait may have begun
    /// before the trace; a later one, if nothing was lost, is that of a wait nobody asks for.
    pub(super) fn end_alone(&mut self, may_be_lost: bool, is_first: bool) {
        if may_be_lost {
            self.torn += 1;
            self.begin_lost += 1;
        } else if is_first {
            self.cut += 1;
            self.begun_before += 1;
        }
    }

    /// Adds those of another trace.
    pub fn add(&mut self, other: &Counts) {
        self.seen += other.seen;
        self.no_wait += other.no_wait;
        self.flagged += other.flagged;
        self.decomposed += other.decomposed;
        self.cut += other.cut;
        self.begun_before += other.begun_before;
        self.torn += other.torn;
        self.begin_lost += other.begin_lost;
        self.lost += other.lost;
        self.inexact += other.inexact;
        self.began += other.began;
    }

    /// Share of the waits that a loss may have touched, 0 to 1.
    pub fn flagged_share(&self) -> f64 {
        let touched = (self.flagged + self.torn) as f64;
        let all = (self.seen + self.torn) as f64;
        if all == 0.0 { 0.0 } else { touched / all }
    }
}
