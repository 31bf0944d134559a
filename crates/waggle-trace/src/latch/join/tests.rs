//! The join against latches that are simulated, whose holders are known.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

fn thread(tid: u32) -> Thread {
    Thread { tid, began_ns: 1 }
}

fn sleeps(ns: u64, tid: u32, kind: Kind, frame: u64) -> Seen {
    Seen {
        ns,
        thread: thread(tid),
        key: 7,
        what: What::Sleeps {
            latch: LatchId(7),
            kind,
            mode: Mode::Plain,
            owner: None,
            request: None,
            stack: None,
            frame,
        },
    }
}

fn simple(ns: u64, tid: u32, what: What) -> Seen {
    Seen {
        ns,
        thread: thread(tid),
        key: 7,
        what,
    }
}

const WOKE: What = What::Wakes { in_vain: false };
const LET_GO: What = What::Releases { stack: None };

fn run(seen: impl IntoIterator<Item = Seen>) -> (Vec<Wait>, Join) {
    let (mut join, mut waits) = (Join::default(), Vec::new());
    for seen in seen {
        join.push(seen, &mut |wait| waits.push(wait));
    }
    join.finish(&mut |wait| waits.push(wait));
    (waits, join)
}

#[test]
fn sleeping_again_at_the_same_place_is_one_wait() {
    let (waits, _) = run([
        sleeps(1_000, 2, Kind::Mutex, 64),
        simple(5_000, 1, LET_GO),
        simple(6_000, 2, WOKE),
        sleeps(9_000, 2, Kind::Mutex, 64),
        simple(20_000, 3, LET_GO),
        simple(21_000, 2, WOKE),
    ]);
    let [wait] = &waits[..] else {
        panic!("{waits:?}")
    };
    assert_eq!((wait.sleeps, wait.to_ns - wait.from_ns), (2, 20_000));
    let held: Vec<_> = wait
        .parts
        .held
        .iter()
        .map(|h| (h.tid, h.to_ns - h.from_ns))
        .collect();
    assert_eq!(held, [(1, 4_000), (3, 11_000)]);
    // Awake and spinning, somebody unseen may have come and gone.
    assert_eq!(wait.parts.unobserved_ns, 4_000);
    assert_eq!(wait.parts.handing_over_ns, 1_000);
}

#[test]
fn its_own_release_ends_a_wait() {
    let (waits, _) = run([
        sleeps(1_000, 2, Kind::PthreadMutex, 64),
        simple(5_000, 1, LET_GO),
        simple(6_000, 2, WOKE),
        simple(7_000, 2, LET_GO),
        sleeps(9_000, 2, Kind::PthreadMutex, 64),
        simple(20_000, 3, LET_GO),
        simple(21_000, 2, WOKE),
    ]);
    assert_eq!(waits.len(), 2);
    assert_eq!(waits.iter().map(|w| w.parts.unobserved_ns).sum::<u64>(), 0);
}

#[test]
fn a_sleep_in_vain_is_no_wait() {
    let (waits, join) = run([
        sleeps(1_000, 2, Kind::Futex, 64),
        simple(1_500, 2, What::Wakes { in_vain: true }),
    ]);
    assert!(waits.is_empty());
    assert_eq!(join.counters().in_vain, 1);
}

#[test]
fn a_loss_flags_what_it_overlaps_and_nothing_else() {
    let lost = What::Lost {
        until_ns: 50_000,
        count: 3,
    };
    let (waits, join) = run([
        sleeps(1_000, 2, Kind::Mutex, 64),
        simple(5_000, 1, LET_GO),
        simple(6_000, 2, WOKE),
        sleeps(28_000, 4, Kind::Mutex, 64),
        simple(30_000, 0, lost),
        sleeps(40_000, 5, Kind::Mutex, 64),
        simple(51_000, 1, LET_GO),
        simple(52_000, 4, WOKE),
        simple(52_500, 5, WOKE),
        sleeps(60_000, 6, Kind::Mutex, 64),
        simple(61_000, 1, LET_GO),
        simple(62_000, 6, WOKE),
    ]);
    let mut flagged: Vec<_> = waits.iter().map(|w| (w.thread.tid, w.flagged)).collect();
    flagged.sort_unstable();
    assert_eq!(flagged, [(2, false), (4, true), (5, true), (6, false)]);
    assert_eq!((join.counters().lost, join.counters().flagged), (3, 2));
}

#[test]
fn an_end_or_a_beginning_alone_is_counted() {
    let (waits, join) = run([
        simple(900, 5, WOKE),
        sleeps(1_000, 2, Kind::Mutex, 64),
        sleeps(9_000, 2, Kind::Mutex, 64),
        simple(10_000, 1, LET_GO),
        simple(11_000, 2, WOKE),
    ]);
    assert_eq!((waits.len(), join.counters().torn), (1, 2));
}

/// A latch whose sleepers are woken one by one, in order, and which others may take meanwhile.
struct Simulated {
    ns: u64,
    holder: Option<u32>,
    asleep: VecDeque<u32>,
    seen: Vec<Seen>,
    /// Who held it, from when to when.
    held: Vec<(u32, u64, u64)>,
    since_ns: u64,
}

impl Simulated {
    fn new() -> Self {
        Self {
            ns: 10,
            holder: None,
            asleep: VecDeque::new(),
            seen: Vec::new(),
            held: Vec::new(),
            since_ns: 0,
        }
    }

    fn take(&mut self, tid: u32) {
        (self.holder, self.since_ns) = (Some(tid), self.ns);
    }

    /// Asks for it: gets it, or sleeps.
    fn ask(&mut self, tid: u32) {
        if self.holder.is_none() {
            return self.take(tid);
        }
        self.asleep.push_back(tid);
        self.seen
            .push(sleeps(self.ns, tid, Kind::Futex, u64::from(tid)));
    }

    /// Lets go; the first sleeper wakes after `late_ns`, unless `thief` is there before it.
    fn let_go(&mut self, late_ns: u64, thief: Option<u32>) {
        let Some(holder) = self.holder.take() else {
            return;
        };
        self.held.push((holder, self.since_ns, self.ns));
        let Some(woken) = self.asleep.pop_front() else {
            return;
        };
        self.seen.push(simple(self.ns, holder, LET_GO));
        if let Some(thief) = thief {
            self.ns += 1;
            self.take(thief);
        }
        self.ns += late_ns;
        self.seen.push(simple(self.ns, woken, WOKE));
        self.ns += 1;
        self.ask(woken);
    }

    fn holder_at(&self, ns: u64) -> Option<u32> {
        let spans = self.held.iter();
        spans
            .clone()
            .find(|(_, from, to)| (*from..*to).contains(&ns))
            .map(|(tid, ..)| *tid)
    }
}

proptest! {
    /// Whatever happens, parts add up, and no part names one who did not hold the latch then.
    #[test]
    fn parts_add_up_and_name_nobody_wrongly(
        steps in prop::collection::vec((0u8..4, 1u64..3_000, 1u64..200), 10..300)
    ) {
        let mut latch = Simulated::new();
        for (step, gap_ns, late_ns) in steps {
            latch.ns += gap_ns;
            let busy: Vec<u32> = latch.asleep.iter().copied().chain(latch.holder).collect();
            let free = (100..600).find(|tid| !busy.contains(tid)).unwrap();
            match step {
                0 | 1 => latch.ask(free),
                2 => latch.let_go(late_ns, None),
                _ => latch.let_go(late_ns, Some(free)),
            }
        }
        let asleep = latch.asleep.len();
        let (mut join, mut waits) = (Join::default(), Vec::new());
        for seen in &latch.seen {
            join.push(*seen, &mut |wait| waits.push(wait));
        }
        prop_assert_eq!(join.finish(&mut |wait| waits.push(wait)), asleep as u64);
        prop_assert_eq!(join.counters().torn, 0);
        for wait in &waits {
            prop_assert_eq!(wait.parts.total_ns(), wait.to_ns - wait.from_ns);
            if wait.sleeps == 1 {
                prop_assert_eq!(wait.parts.unobserved_ns, 0);
            }
            for held in &wait.parts.held {
                prop_assert_eq!(latch.holder_at(held.to_ns - 1), Some(held.tid));
                if let Some(since_ns) = held.since_ns {
                    let got = latch.held.iter().find(|(_, _, to)| *to == held.to_ns).unwrap().1;
                    prop_assert!(got.abs_diff(since_ns) <= 1, "{} {}", got, since_ns);
                }
            }
        }
    }
}
