//! From what is seen of latches, in order of time, to waits and what each was made of.
//!
//! A wait is one thread's asking for one latch: its sleeps are one wait if the thread went to sleep
//! again at the same place (stack pointer) without having let go of the latch in between, within
//! [`AGAIN_NS`]. So it ends for good only when the thread does something else or that time is over.
//!
//! Invariant: each sleep that ended is in exactly one wait, or counted as in vain; each wait that
//! overlaps a loss is flagged.

use rustc_hash::FxHashMap;

use super::held::{Evidence, Parts, Tells, split};
use super::history::History;
use super::seen::{Kind, LatchId, Mode, Request, Seen, What};
use crate::event::{StackId, Thread};

/// A thread that sleeps again for the same latch from the same frame within this time after it
/// woke is taken to have asked on: InnoDB spins for some microseconds, the C library not at all.
/// Should it have had the latch in between after all, that time counts as not observed.
pub(super) const AGAIN_NS: u64 = 100_000;
/// Most latches that are remembered though nobody waits for them.
const IDLE_LATCHES_MAX: usize = 16_384;

/// A wait for a latch, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// Who waited.
    pub thread: Thread,
    /// For which latch.
    pub latch: LatchId,
    /// Of what sort.
    pub kind: Kind,
    /// How it asked for it.
    pub mode: Mode,
    /// File and line, if known.
    pub request: Option<Request>,
    /// Where it was.
    pub stack: Option<StackId>,
    /// From its first sleep, ns.
    pub from_ns: u64,
    /// To its last waking, ns.
    pub to_ns: u64,
    /// How often it slept.
    pub sleeps: u32,
    /// Who held the latch meanwhile.
    pub parts: Parts,
    /// Something was lost meanwhile, or forgotten for want of room: not for percentiles.
    pub flagged: bool,
    /// The owner's word at the first sleep named the thread that let go first; `None` if there was
    /// no word or no release.
    pub word_agrees: Option<bool>,
}

/// What the join counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JoinCounters {
    /// Waits handed out.
    pub waits: u64,
    /// Of these, flagged.
    pub flagged: u64,
    /// Sleeps that were none, because the latch had become free.
    pub in_vain: u64,
    /// Beginnings without an end, and ends without a beginning.
    pub torn: u64,
    /// Records lost.
    pub lost: u64,
    /// Waits whose beginning was seen, but for those that began in vain.
    pub began: u64,
}

impl JoinCounters {
    /// Adds those of another trace.
    pub fn add(&mut self, other: &Self) {
        self.waits += other.waits;
        self.flagged += other.flagged;
        self.in_vain += other.in_vain;
        self.torn += other.torn;
        self.lost += other.lost;
        self.began += other.began;
    }
}

/// A wait not yet whole.
#[derive(Debug, Clone, Copy)]
struct Open {
    key: u64,
    wait_from_ns: u64,
    sleep_from_ns: u64,
    /// 0 while it sleeps.
    woke_ns: u64,
    sleeps: u32,
    thread: Thread,
    latch: LatchId,
    kind: Kind,
    mode: Mode,
    owner: Option<u32>,
    request: Option<Request>,
    stack: Option<StackId>,
    frame: u64,
    flagged: bool,
}

/// The join.
#[derive(Debug, Default)]
pub struct Join {
    latches: FxHashMap<u64, History>,
    open: FxHashMap<u32, Open>,
    counters: JoinCounters,
    now_ns: u64,
    /// When everybody who may not sleep again was last looked for.
    swept_ns: u64,
    lossy_until_ns: u64,
}

impl Join {
    /// Takes one thing that was seen, in order of time; waits that are whole go to `done`.
    pub fn push(&mut self, seen: Seen, done: &mut impl FnMut(Wait)) {
        self.now_ns = self.now_ns.max(seen.ns);
        if self.now_ns > self.swept_ns + AGAIN_NS {
            self.sweep(done);
        }
        match seen.what {
            What::Sleeps { .. } => self.sleeps(&seen, done),
            What::Wakes { in_vain } => self.wakes(&seen, in_vain),
            What::Releases { stack } => self.releases(&seen, stack, done),
            What::Lost { until_ns, count } => self.lost(seen.ns, until_ns, count),
        }
    }

    /// Hands out what is whole, and returns how many still sleep.
    pub fn finish(&mut self, done: &mut impl FnMut(Wait)) -> u64 {
        let (asleep, awake): (Vec<u32>, Vec<u32>) = self
            .open
            .keys()
            .partition(|tid| self.open[*tid].woke_ns == 0);
        for tid in awake {
            self.complete(tid, done);
        }
        asleep.len() as u64
    }

    /// When each wait of a thread that still sleeps began, ns.
    pub fn under_way(&self) -> impl Iterator<Item = u64> + '_ {
        let asleep = self.open.values().filter(|open| open.woke_ns == 0);
        asleep.map(|open| open.wait_from_ns)
    }

    /// What was counted so far.
    pub fn counters(&self) -> JoinCounters {
        self.counters
    }

    /// Latches remembered, for tests of its bound.
    pub fn latches(&self) -> usize {
        self.latches.len()
    }

    fn sleeps(&mut self, seen: &Seen, done: &mut impl FnMut(Wait)) {
        let What::Sleeps {
            latch,
            kind,
            mode,
            owner,
            request,
            stack,
            frame,
        } = seen.what
        else {
            return;
        };
        let tid = seen.thread.tid;
        if let Some(open) = self.open.get_mut(&tid) {
            let again = open.woke_ns != 0
                && open.key == seen.key
                && open.frame == frame
                && seen.ns - open.woke_ns.min(seen.ns) <= AGAIN_NS;
            if again {
                open.sleep_from_ns = seen.ns;
                open.woke_ns = 0;
                open.sleeps += 1;
                self.evidence(seen.key, seen.ns, tid, Tells::Slept);
                return;
            }
            self.complete(tid, done);
        }
        let open = Open {
            key: seen.key,
            wait_from_ns: seen.ns,
            sleep_from_ns: seen.ns,
            woke_ns: 0,
            sleeps: 1,
            thread: seen.thread,
            latch,
            kind,
            mode,
            owner,
            request,
            stack,
            frame,
            flagged: seen.ns <= self.lossy_until_ns,
        };
        self.open.insert(tid, open);
        self.counters.began += 1;
        self.evidence(seen.key, seen.ns, tid, Tells::Slept);
        if let Some(history) = self.latches.get_mut(&seen.key) {
            history.open(seen.ns);
        }
    }

    fn wakes(&mut self, seen: &Seen, in_vain: bool) {
        let tid = seen.thread.tid;
        let Some(open) = self.open.get_mut(&tid) else {
            self.counters.torn += 1;
            return;
        };
        if open.woke_ns != 0 || open.key != seen.key {
            self.counters.torn += 1;
            return;
        }
        if !in_vain {
            open.woke_ns = seen.ns;
            self.evidence(seen.key, seen.ns, tid, Tells::Woke);
            return;
        }
        self.counters.in_vain += 1;
        let from_ns = open.sleep_from_ns;
        let whole = (open.sleeps == 1).then_some(open.wait_from_ns);
        if whole.is_none() {
            // It was awake all the time since; the earlier sleeps remain a wait.
            open.sleeps -= 1;
            open.woke_ns = seen.ns;
        }
        if let Some(history) = self.latches.get_mut(&seen.key) {
            history.take_back(tid, from_ns);
            if let Some(wait_from_ns) = whole {
                history.close(wait_from_ns);
            }
        }
        if whole.is_some() {
            self.open.remove(&tid);
            self.counters.began -= 1;
        }
    }

    fn releases(&mut self, seen: &Seen, stack: Option<StackId>, done: &mut impl FnMut(Wait)) {
        let tid = seen.thread.tid;
        // It had the latch: its wait is over.
        let own = self.open.get(&tid);
        if own.is_some_and(|open| open.key == seen.key && open.woke_ns != 0) {
            self.complete(tid, done);
        }
        self.evidence(seen.key, seen.ns, tid, Tells::Released(stack));
    }

    fn lost(&mut self, since_ns: u64, until_ns: u64, count: u64) {
        self.counters.lost += count;
        self.lossy_until_ns = self.lossy_until_ns.max(until_ns);
        for open in self.open.values_mut() {
            open.flagged |= open.woke_ns == 0 || open.woke_ns >= since_ns;
        }
    }

    fn evidence(&mut self, key: u64, ns: u64, tid: u32, tells: Tells) {
        let history = self.latches.entry(key).or_default();
        history.push(Evidence { ns, tid, tells });
    }

    /// Ends the waits of those who woke long enough ago, and forgets latches nobody waits for.
    fn sweep(&mut self, done: &mut impl FnMut(Wait)) {
        self.swept_ns = self.now_ns;
        let over = |open: &Open| open.woke_ns != 0 && open.woke_ns + AGAIN_NS < self.now_ns;
        let over: Vec<u32> = self
            .open
            .iter()
            .filter_map(|(tid, open)| over(open).then_some(*tid))
            .collect();
        for tid in over {
            self.complete(tid, done);
        }
        if self.latches.len() > IDLE_LATCHES_MAX {
            let horizon_ns = self.now_ns.saturating_sub(100 * AGAIN_NS);
            self.latches
                .retain(|_, history| !history.is_idle() || history.last_ns() > horizon_ns);
        }
    }

    fn complete(&mut self, tid: u32, done: &mut impl FnMut(Wait)) {
        let Some(open) = self.open.remove(&tid) else {
            return;
        };
        let Some(history) = self.latches.get_mut(&open.key) else {
            return;
        };
        if open.woke_ns == 0 {
            // Its waking was not seen.
            self.counters.torn += 1;
            history.close(open.wait_from_ns);
            return;
        }
        let (from_ns, to_ns) = (open.wait_from_ns, open.woke_ns);
        let owner = open.owner.filter(|owner| *owner != tid);
        let parts = split(
            open.kind,
            history.evidence(),
            (tid, owner),
            (from_ns, to_ns),
        );
        let first = history.release_after(from_ns, tid);
        let first = first.filter(|release| release.ns <= to_ns);
        let word_agrees = open
            .owner
            .zip(first)
            .map(|(owner, release)| owner == release.tid);
        let flagged = open.flagged || history.is_cut_after(from_ns);
        history.close(from_ns);
        self.counters.waits += 1;
        self.counters.flagged += u64::from(flagged);
        done(Wait {
            thread: open.thread,
            latch: open.latch,
            kind: open.kind,
            mode: open.mode,
            request: open.request,
            stack: open.stack,
            from_ns,
            to_ns,
            sleeps: open.sleeps,
            parts,
            flagged,
            word_agrees,
        });
    }
}

#[cfg(test)]
mod tests;
