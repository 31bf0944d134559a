//! Where did a statement's time go?
//!
//! Neighbours: events and live threads say what they know. Invariant: the parts add up to the wall
//! time.

use crate::wait::WaitClass;

/// Where a statement's wall time went; `cpu + runnable + sum(blocked) + remainder = wall`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// On a processor, ns.
    pub cpu_ns: u64,
    /// Ready to run, but not running, ns.
    pub runnable_ns: u64,
    /// Blocked, by class in the order of [`WaitClass::ALL`], ns.
    pub blocked_ns: [u64; WaitClass::COUNT],
    /// Time at the statement's beginning that nothing is known of, ns.
    pub remainder_ns: u64,
}

impl Times {
    /// A thread may have waited between the moment it was counted from and the statement's start:
    /// no more than `known_ns` is the statement's, each class in its proportion.
    pub(super) fn bound_blocked(&mut self, known_ns: u64) {
        let sum: u128 = self.blocked_ns.iter().map(|ns| u128::from(*ns)).sum();
        if sum <= u128::from(known_ns) {
            return;
        }
        for ns in &mut self.blocked_ns {
            let share = u128::from(*ns) * u128::from(known_ns) / sum;
            *ns = u64::try_from(share).unwrap_or(known_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_no_longer_than_what_is_known() {
        let mut times = Times::default();
        times.blocked_ns[0] = u64::MAX;
        times.blocked_ns[1] = u64::MAX / 3;
        times.bound_blocked(1000);
        assert_eq!(times.blocked_ns[..2], [750, 250]);
        let before = times;
        times.bound_blocked(1000);
        assert_eq!(times, before);
    }
}
