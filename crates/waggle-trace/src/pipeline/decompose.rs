//! Cuts one wait into its stages.
//!
//! A stage ends when what it has reached covers what is waited for, which may have been before the
//! wait began (then it took none of it). A stage that was never reached, or only after a later one,
//! was passed over: it is skipped, and its time belongs to the stage that passed it. What is left
//! after the last stage is a part of its own.
//!
//! Invariant: with `T'_0 = start` and `T'_i = clamp(max(T_i, T'_(i-1)), start, end)`, part `i` is
//! `T'_i - T'_(i-1)` and the last is `end - T'_n`. They sum to `end - start` whatever `T` is.

use super::doing::{Activity, Doing};
use crate::event::{StackId, Thread};

/// When a stage was reached, and who carried it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reached {
    /// When, ns.
    pub ns: u64,
    /// Who; nothing if an interrupt did it.
    pub thread: Option<Thread>,
    /// The value reached.
    pub value: u64,
    /// When the same thread had last carried this stage out, ns; 0: never, as far as was seen.
    pub before_ns: u64,
}

/// A wait and its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// Who waited.
    pub waiter: Thread,
    /// For what.
    pub key: u64,
    /// The second value at its start.
    pub second: u64,
    /// When it began, ns.
    pub start_ns: u64,
    /// When it ended, ns.
    pub end_ns: u64,
    /// Where the waiter was.
    pub stack: Option<StackId>,
    /// Wake-ups that led to another sleep.
    pub spurious: u32,
    /// Its parts: one a stage, and what was left.
    pub parts: Vec<Part>,
}

/// A part of a wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Part {
    /// Its share of the wait, ns.
    pub ns: u64,
    /// The stage was no part of this wait.
    pub skipped: bool,
    /// When it was reached; of a skipped one, nothing.
    pub reached: Option<Reached>,
    /// What the thread that carried it out was doing.
    pub doing: Doing,
}

impl Wait {
    /// How long it took, ns.
    pub fn ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }

    /// The parts sum to the wait, and what threads were doing to the parts.
    pub fn is_exact(&self) -> bool {
        let sum: u64 = self.parts.iter().map(|part| part.ns).sum();
        let split = |part: &Part| part.doing.sum_ns() == part.ns;
        sum == self.ns() && self.parts.iter().all(split)
    }
}

/// The parts of a wait of `waiter` from `start_ns` to `end_ns`.
///
/// `reached` has an element for each stage, `None` where it was not reached by `end_ns`.
pub(super) fn parts(
    waiter: Thread,
    start_ns: u64,
    end_ns: u64,
    reached: &[Option<Reached>],
    activity: &impl Activity,
) -> Vec<Part> {
    let mut parts = Vec::with_capacity(reached.len() + 1);
    let mut at = start_ns;
    for (index, stage) in reached.iter().enumerate() {
        // The earliest time at which a later stage was reached: who comes after that was passed
        // over. Stages are few.
        let later = reached[index + 1..].iter().flatten();
        let overtaken = later.map(|later| later.ns).min();
        // Before the wait began, the order is of no account.
        let in_order =
            |ns: u64| overtaken.is_none_or(|later| ns.max(start_ns) <= later.max(start_ns));
        let on_time = |r: &Reached| r.ns <= end_ns && in_order(r.ns);
        let Some(reached) = stage.filter(on_time) else {
            parts.push(Part {
                skipped: true,
                ..Part::default()
            });
            continue;
        };
        let until = reached.ns.max(at).clamp(start_ns, end_ns);
        parts.push(Part {
            ns: until - at,
            skipped: false,
            reached: Some(reached),
            doing: doing(&reached, at, until, activity),
        });
        at = until;
    }
    parts.push(Part {
        ns: end_ns - at,
        skipped: false,
        reached: None,
        doing: activity.doing(waiter, at, end_ns),
    });
    parts
}

/// What the stage's thread was doing: what it did before belongs to others, then to this wait.
fn doing(reached: &Reached, from_ns: u64, to_ns: u64, activity: &impl Activity) -> Doing {
    let Some(thread) = reached.thread else {
        return Doing::unknown(to_ns - from_ns);
    };
    let began = reached.before_ns.clamp(from_ns, to_ns);
    let mut doing = activity.doing(thread, began, to_ns);
    doing.queued_ns += began - from_ns;
    doing
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pipeline::Unknown;

    const WAITER: Thread = Thread {
        tid: 1,
        began_ns: 1,
    };
    const STAGE: Thread = Thread {
        tid: 2,
        began_ns: 1,
    };

    fn at(ns: u64) -> Option<Reached> {
        Some(Reached {
            ns,
            thread: Some(STAGE),
            value: 0,
            before_ns: 0,
        })
    }

    fn cut(start: u64, end: u64, reached: &[Option<Reached>]) -> Vec<(u64, bool)> {
        let parts = parts(WAITER, start, end, reached, &Unknown);
        parts.iter().map(|part| (part.ns, part.skipped)).collect()
    }

    #[test]
    fn stages_follow_each_other() {
        let parts = cut(100, 200, &[at(120), at(150), at(190)]);
        assert_eq!(parts, [(20, false), (30, false), (40, false), (10, false)]);
    }

    #[test]
    fn a_stage_reached_before_the_wait_took_none_of_it() {
        let parts = cut(100, 200, &[at(50), at(150)]);
        assert_eq!(parts, [(0, false), (50, false), (50, false)]);
    }

    #[test]
    fn a_stage_that_was_passed_over_is_skipped_and_its_passer_has_the_time() {
        // The notifier comes only after the flusher woke the waiter itself.
        let parts = cut(100, 200, &[at(120), at(195), at(180)]);
        assert_eq!(parts, [(20, false), (0, true), (60, false), (20, false)]);
        // Never reached, or only after the wait.
        assert_eq!(
            cut(100, 200, &[None, at(300)]),
            [(0, true), (0, true), (100, false)]
        );
    }

    #[test]
    fn what_the_thread_did_before_is_queueing() {
        let reached = Reached {
            ns: 180,
            thread: Some(STAGE),
            value: 7,
            before_ns: 130,
        };
        let parts = parts(WAITER, 100, 200, &[Some(reached)], &Unknown);
        assert_eq!(parts[0].doing.queued_ns, 30);
        assert_eq!(parts[0].doing.unknown_ns, 50);
    }

    proptest! {
        #[test]
        fn the_parts_sum_to_the_wait_whatever_was_reached_when(
            start in 0_u64..1_000,
            length in 0_u64..1_000,
            times in prop::collection::vec(prop::option::of((0_u64..3_000, 0_u64..3_000)), 0..8),
        ) {
            let end = start + length;
            let reached: Vec<_> = times
                .iter()
                .map(|time| time.map(|(ns, before_ns)| Reached {
                    ns, before_ns, thread: Some(STAGE), value: 0,
                }))
                .collect();
            let parts = parts(WAITER, start, end, &reached, &Unknown);
            let wait = Wait {
                waiter: WAITER, key: 0, second: 0, start_ns: start, end_ns: end, stack: None,
                spurious: 0, parts,
            };
            prop_assert!(wait.is_exact());
            prop_assert_eq!(wait.parts.len(), times.len() + 1);
            // What is kept is in order of time, and within the wait.
            let kept = wait.parts.iter().filter_map(|p| Some(p.reached?.ns));
            let kept: Vec<u64> = kept.map(|ns| ns.max(start)).collect();
            prop_assert!(kept.is_sorted());
            prop_assert!(kept.iter().all(|ns| *ns <= end));
        }
    }
}
