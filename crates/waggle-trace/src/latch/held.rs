//! Who held the latch during one wait, and for which part of it?
//!
//! The evidence of a latch, in order of time, is cut at its releases. Up to a release, the latch
//! was held by whoever let go; from when on, its own wake-up, somebody who found the latch held, or
//! the kind of latch says. What no evidence covers is not observed, and counted as such.
//!
//! Invariant: the parts add up to the wait.

use super::seen::Kind;
use crate::event::StackId;

/// One piece of evidence about a latch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evidence {
    /// When.
    pub ns: u64,
    /// Which thread it tells of.
    pub tid: u32,
    /// What it tells.
    pub tells: Tells,
}

/// What a piece of evidence tells of its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tells {
    /// It woke, and may have taken the latch.
    Woke,
    /// It went to sleep: somebody else held the latch then, whose release is going to be seen.
    Slept,
    /// It let go.
    Released(Option<StackId>),
}

/// A part of a wait during which one thread held the latch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// The holder.
    pub tid: u32,
    /// Where it let go.
    pub stack: Option<StackId>,
    /// From, ns.
    pub from_ns: u64,
    /// To, ns: the release, or the end of the wait.
    pub to_ns: u64,
    /// The moment it got the latch, if that was seen; else it held it longer than this part says.
    pub since_ns: Option<u64>,
}

/// What one wait was made of, ns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parts {
    /// Held by threads that are known, in order.
    pub held: Vec<Held>,
    /// From a release to the next holder's coming, or to the waiter's running.
    pub handing_over_ns: u64,
    /// Held by nobody knows whom.
    pub unobserved_ns: u64,
    /// Releases that were seen.
    pub releases: u32,
}

impl Parts {
    /// The part with a known holder, ns.
    pub fn held_ns(&self) -> u64 {
        self.held.iter().map(|h| h.to_ns - h.from_ns).sum()
    }

    /// The whole, ns.
    pub fn total_ns(&self) -> u64 {
        self.held_ns() + self.handing_over_ns + self.unobserved_ns
    }
}

/// Splits the wait of thread `waiter` from `from_ns` to `to_ns` by the evidence of its latch, which
/// is in order of time and may begin before and end after it. `owner`: whom the latch's own word
/// named when the wait began.
pub fn split(
    kind: Kind,
    evidence: &[Evidence],
    (waiter, owner): (u32, Option<u32>),
    (from_ns, to_ns): (u64, u64),
) -> Parts {
    let mut parts = Parts::default();
    let in_wait = |e: &Evidence| e.ns > from_ns && e.ns <= to_ns;
    let lets_go = |e: &Evidence| matches!(e.tells, Tells::Released(_)) && in_wait(e);
    let owner_is_seen = evidence.iter().any(|e| owner == Some(e.tid) && lets_go(e));
    let mut cursor_ns = from_ns;
    let mut first = true;
    // Everything since the release before the one at hand.
    let mut begin = 0;
    // Since when the waiter sleeps: while it is awake between two sleeps, releases go unseen.
    let mut asleep_ns = Some(from_ns);
    for (index, at) in evidence.iter().enumerate() {
        let Tells::Released(stack) = at.tells else {
            if at.tid == waiter && at.ns > from_ns {
                asleep_ns = (at.tells == Tells::Slept).then_some(at.ns);
            }
            continue;
        };
        let before = &evidence[begin..index];
        begin = index + 1;
        // Evidence that comes late stands behind what is later: the time before is accounted for.
        if at.ns <= cursor_ns || at.tid == waiter {
            continue;
        }
        if at.ns > to_ns {
            break;
        }
        parts.releases += 1;
        if first && owner.is_some_and(|owner| owner != at.tid) {
            // It gave the latch up before the wait, and was taken off its processor before it said
            // so: the owner has it, until it lets go in turn.
            if !owner_is_seen {
                parts.unobserved_ns += at.ns - cursor_ns;
                (cursor_ns, first) = (at.ns, false);
            }
            continue;
        }
        let span = (cursor_ns, at.ns);
        let mut holding = Holding::of(before, at.tid);
        let shown = kind.shows_own_release();
        holding.since_ns = holding
            .woke_ns
            .filter(|ns| shown || asleep_ns.is_some_and(|slept| *ns >= slept));
        let awake = before
            .iter()
            .any(|e| e.tid == waiter && e.tells == Tells::Woke);
        let continuous = first || (kind.shows_every_release() && !awake);
        account(&mut parts, continuous, span, (at.tid, stack), &holding);
        cursor_ns = at.ns;
        first = false;
    }
    if first {
        parts.unobserved_ns += to_ns - cursor_ns;
    } else {
        parts.handing_over_ns += to_ns - cursor_ns;
    }
    parts
}

/// When the thread that let go is known to have had the latch.
struct Holding {
    /// It woke from its own wait for it and went on.
    woke_ns: Option<u64>,
    /// Somebody found the latch held, and nobody else let go since.
    found_ns: Option<u64>,
    /// As `woke_ns`, if it cannot have let go since: that would have been seen.
    since_ns: Option<u64>,
}

impl Holding {
    fn of(before: &[Evidence], tid: u32) -> Self {
        let mut holding = Self {
            woke_ns: None,
            found_ns: None,
            since_ns: None,
        };
        for at in before {
            match (at.tells, at.tid == tid) {
                (Tells::Woke, true) => holding.woke_ns = Some(at.ns),
                (Tells::Slept, true) => (holding.woke_ns, holding.found_ns) = (None, None),
                (Tells::Slept, false) => holding.found_ns = holding.found_ns.or(Some(at.ns)),
                _ => {}
            }
        }
        holding
    }
}

/// Accounts for the time up to a release. `continuous`: there was one holder all the time, since
/// the first release after a thread went to sleep is the holder's it found, and while it sleeps on,
/// most kinds of latch show every release.
fn account(
    parts: &mut Parts,
    continuous: bool,
    (begin_ns, end_ns): (u64, u64),
    (tid, stack): (u32, Option<StackId>),
    holding: &Holding,
) {
    let known_ns = match (holding.woke_ns, holding.found_ns) {
        (Some(woke), Some(found)) => Some(woke.min(found)),
        (one, other) => one.or(other),
    };
    let from_ns = if continuous && holding.woke_ns.is_none_or(|ns| ns <= begin_ns) {
        begin_ns
    } else {
        known_ns.unwrap_or(end_ns).clamp(begin_ns, end_ns)
    };
    if holding.woke_ns.is_some() {
        parts.handing_over_ns += from_ns - begin_ns;
    } else {
        parts.unobserved_ns += from_ns - begin_ns;
    }
    if from_ns < end_ns {
        parts.held.push(Held {
            tid,
            stack,
            from_ns,
            to_ns: end_ns,
            since_ns: holding.since_ns,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64, tid: u32, tells: Tells) -> Evidence {
        Evidence { ns, tid, tells }
    }

    const LET_GO: Tells = Tells::Released(None);

    #[test]
    fn one_release_names_the_holder_of_the_whole_sleep() {
        let evidence = [at(100, 2, Tells::Slept), at(400, 1, LET_GO)];
        let parts = split(Kind::Mutex, &evidence, (2, None), (100, 450));
        assert_eq!((parts.held_ns(), parts.held[0].tid), (300, 1));
        assert_eq!((parts.handing_over_ns, parts.unobserved_ns), (50, 0));
        let agreed = split(Kind::Mutex, &evidence, (2, Some(1)), (100, 450));
        assert_eq!(agreed, parts);
    }

    /// Thread 1 gave the latch up before 2 came, and says so late; 9 has it meanwhile.
    #[test]
    fn the_word_tells_a_late_release_from_the_holders() {
        let mut evidence = vec![
            at(100, 2, Tells::Slept),
            at(150, 1, LET_GO),
            at(160, 2, Tells::Woke),
            at(170, 2, Tells::Slept),
            at(400, 9, LET_GO),
        ];
        let parts = split(Kind::Mutex, &evidence, (2, Some(9)), (100, 450));
        assert_eq!((parts.held_ns(), parts.held[0].tid), (300, 9));
        assert_eq!((parts.held.len(), parts.releases), (1, 2));
        assert_eq!((parts.handing_over_ns, parts.unobserved_ns), (50, 0));
        // 9 let go unseen: how long it had it is not known.
        evidence.truncate(3);
        let parts = split(Kind::Mutex, &evidence, (2, Some(9)), (100, 160));
        assert_eq!((parts.held_ns(), parts.releases), (0, 1));
        assert_eq!((parts.unobserved_ns, parts.handing_over_ns), (50, 10));
    }

    #[test]
    fn a_wait_without_a_release_is_not_observed() {
        let evidence = [at(100, 2, Tells::Slept)];
        let parts = split(Kind::PthreadMutex, &evidence, (2, None), (100, 450));
        assert_eq!((parts.held_ns(), parts.unobserved_ns), (0, 350));
    }

    #[test]
    fn a_woken_holder_holds_from_its_waking() {
        let evidence = [
            at(100, 3, Tells::Slept),
            at(110, 2, Tells::Slept),
            at(200, 1, LET_GO),
            at(230, 3, Tells::Woke),
            at(500, 3, LET_GO),
            at(520, 2, Tells::Woke),
        ];
        let parts = split(Kind::PthreadMutex, &evidence, (2, None), (110, 520));
        let held: Vec<_> = parts
            .held
            .iter()
            .map(|h| (h.tid, h.from_ns, h.to_ns))
            .collect();
        assert_eq!(held, [(1, 110, 200), (3, 230, 500)]);
        assert_eq!(parts.held[1].since_ns, Some(230));
        assert_eq!((parts.handing_over_ns, parts.unobserved_ns), (30 + 20, 0));
    }

    /// Thread 9 takes the mutex before the woken thread 3 is there, who goes to sleep again.
    #[test]
    fn one_that_barges_in_is_known_from_when_another_found_it() {
        let evidence = [
            at(100, 3, Tells::Slept),
            at(110, 2, Tells::Slept),
            at(200, 1, LET_GO),
            at(230, 3, Tells::Woke),
            at(240, 3, Tells::Slept),
            at(500, 9, LET_GO),
        ];
        let parts = split(Kind::PthreadMutex, &evidence, (2, None), (110, 510));
        let held: Vec<_> = parts
            .held
            .iter()
            .map(|h| (h.tid, h.from_ns, h.to_ns))
            .collect();
        assert_eq!(held, [(1, 110, 200), (9, 240, 500)]);
        assert_eq!((parts.handing_over_ns, parts.unobserved_ns), (10, 40));
        let all_seen = split(Kind::Futex, &evidence, (2, None), (110, 510));
        assert_eq!(all_seen.unobserved_ns, 0);
    }
}
