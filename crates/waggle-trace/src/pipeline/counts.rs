//! What became of the waits of a trace?
//!
//! Invariant: every wait is in exactly one of the counts.

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
    /// Ends whose beginning, and beginnings whose end, may have been lost.
    pub torn: u64,
    /// Records that were lost.
    pub lost: u64,
    /// Waits whose parts do not sum to them.
    pub inexact: u64,
}

impl Counts {
    /// Share of the waits that a loss may have touched, 0 to 1.
    pub fn flagged_share(&self) -> f64 {
        let touched = (self.flagged + self.torn) as f64;
        let all = (self.seen + self.torn) as f64;
        if all == 0.0 { 0.0 } else { touched / all }
    }
}
