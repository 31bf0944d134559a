//! From the kernel's records to what is seen: what is each sleep for?
//!
//! Neighbours: `naming` knows latches by their stacks; [`super`] puts what is seen here in the
//! order of its time.
//!
//! Invariant: a sleep for what is no latch makes no wait, and is counted.

use std::collections::HashSet;

use waggle_probes::latch::{self as probe, Record, Sleep};
use waggle_probes::timeline::{Head, addresses};

use super::Source;
use crate::event::Thread;
use crate::latch::naming::{Naming, Purpose};
use crate::latch::seen::{Kind, LatchId, Mode, Seen, What};
use crate::stack::Stacks;

/// Operations of the futex call.
const FUTEX_WAIT: u32 = 0;
/// What a futex call returns if the word had changed before.
const AGAIN: i64 = -11;
/// What a mutex of the C library has in its word while threads sleep for it.
const MUTEX_WITH_SLEEPERS: u32 = 2;

/// Threads that sleep for what makes no wait: no latch, or before all probes were in their places.
#[derive(Debug, Default)]
pub(super) struct Elsewhere(HashSet<u32>);

impl Elsewhere {
    /// What ends this sleep is none of a wait.
    fn sleeps(&mut self, tid: u32) {
        self.0.insert(tid);
    }

    /// It sleeps for a latch, so it was woken from what it slept for before. If that was not seen,
    /// because the probe that sees it was not in its place yet, the next waking is the wait's.
    fn sleeps_no_more(&mut self, tid: u32) {
        self.0.remove(&tid);
    }

    /// Is this the end of a sleep that makes no wait?
    fn wakes(&mut self, tid: u32) -> bool {
        self.0.remove(&tid)
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Source {
    pub(super) fn read(&mut self) -> usize {
        let Self {
            probe,
            naming,
            stacks,
            waiting,
            latches,
            elsewhere,
            conditions,
            window: (from_ns, to_ns),
            attached,
            ..
        } = self;
        let (from_ns, to_ns, since_ns) = (*from_ns, *to_ns, attached.since_ns());
        probe.read(|head, record| match record {
            // It is sent once, and of use whenever it comes.
            Record::Stack(stack) => {
                stacks.add(stack.number, head.tgid, stack.end, addresses(stack.frames));
            }
            // Of a slice before, or while probes were being taken away.
            _ if head.ns < since_ns || head.ns > to_ns => {}
            Record::Sleeps { sleep, .. } if head.ns < from_ns => {
                // While they were being placed; what ends it is not to be missed for a wait.
                latches.insert(sleep.key);
                elsewhere.sleeps(head.tid);
            }
            Record::Sleeps { sleep, thread } => {
                let stack = stacks.id(sleep.stack);
                naming.thread(who(head), thread, stacks, stack);
                match slept(naming, stacks, sleep) {
                    Some(what) => {
                        latches.insert(sleep.key);
                        elsewhere.sleeps_no_more(head.tid);
                        waiting.push(seen(head, sleep.key, what));
                    }
                    None => {
                        elsewhere.sleeps(head.tid);
                        *conditions += 1;
                    }
                }
            }
            Record::Wakes { .. } if elsewhere.wakes(head.tid) => {}
            Record::Wakes { key, result } => {
                let in_vain = *result == AGAIN;
                waiting.push(seen(head, *key, What::Wakes { in_vain }));
            }
            Record::Releases { key, stack, thread } if latches.contains(key) => {
                let stack = stacks.id(*stack);
                naming.thread(who(head), thread, stacks, stack);
                waiting.push(seen(head, *key, What::Releases { stack }));
            }
            Record::Releases { .. } => {}
        })
    }
}

fn seen(head: &Head, key: u64, what: What) -> Seen {
    Seen {
        ns: head.ns,
        thread: who(head),
        key,
        what,
    }
}

fn who(head: &Head) -> Thread {
    Thread {
        tid: head.tid,
        began_ns: head.began_ns,
    }
}

/// What is slept for; `None`: no latch.
fn slept(naming: &mut Naming, stacks: &mut Stacks, sleep: &Sleep<'_>) -> Option<What> {
    let stack = stacks.id(sleep.stack);
    let (kind, mode): (Kind, Mode) = match sleep.source {
        probe::Source::InnoDb => match sleep.kind {
            2 => (Kind::RwLock, Mode::Shared),
            3 => (Kind::RwLock, Mode::SharedExclusive),
            4 => (Kind::RwLock, Mode::Exclusive),
            5 => (Kind::RwLock, Mode::ExclusiveDraining),
            _ => (Kind::Mutex, Mode::Plain),
        },
        probe::Source::Metadata => (Kind::Metadata, Mode::Plain),
        probe::Source::Static => (Kind::Static, Mode::Plain),
        probe::Source::Futex => {
            let is_plain = sleep.kind == FUTEX_WAIT;
            // A thread's number is not 0. A wait for a condition ends with one for its mutex.
            let has_owner = is_plain && sleep.value == MUTEX_WITH_SLEEPERS && sleep.owner != 0;
            let kind = match naming.purpose(stacks, stack) {
                Some(Purpose::Latch(kind)) => kind,
                _ if has_owner => Kind::PthreadMutex,
                Some(Purpose::Condition) => return None,
                None if !is_plain => return None,
                None => Kind::Futex,
            };
            (kind, Mode::Plain)
        }
    };
    let latch: LatchId = match kind {
        Kind::Mutex | Kind::RwLock => naming.innodb(sleep, kind),
        Kind::Metadata => naming.metadata(sleep),
        _ => naming.plain(sleep, stacks, stack),
    };
    let owner = match kind {
        Kind::Mutex | Kind::RwLock | Kind::PthreadMutex => sleep.owner,
        _ => 0,
    };
    Some(What::Sleeps {
        latch,
        kind,
        mode,
        owner: (owner != 0).then_some(owner),
        request: naming.asks(sleep),
        stack,
        frame: sleep.frame,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_whose_end_was_not_seen_takes_no_end_from_the_next() {
        let mut elsewhere = Elsewhere::default();
        elsewhere.sleeps(1);
        elsewhere.sleeps(2);
        // Of the first, woken before the probe for it was in its place.
        elsewhere.sleeps_no_more(1);
        assert!(!elsewhere.wakes(1), "it is the end of a wait");
        assert!(elsewhere.wakes(2) && !elsewhere.wakes(2));
    }
}
