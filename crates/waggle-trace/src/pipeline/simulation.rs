//! A pipeline in time, with its truth: everything the tracker is asked is computed again the plain
//! way, from all that ever happened.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::event::{Departure, Event, PointId, Thread, What};
use crate::stagefile::Rule;

const START: PointId = PointId(0);
const END: PointId = PointId(1);
const STAGES: usize = 3;

fn layout() -> Layout {
    let point = |index: usize| StageLayout {
        name: format!("stage {index}"),
        seen: Seen::Points(vec![PointId(2 + index as u16)], Rule::AtLeast),
        begin: Vec::new(),
    };
    let mut stages: Vec<StageLayout> = (0..STAGES).map(point).collect();
    for (name, seen) in [("woken", Seen::Waking), ("running", Seen::SwitchIn)] {
        stages.push(StageLayout {
            name: name.to_owned(),
            seen,
            begin: Vec::new(),
        });
    }
    Layout {
        start: vec![START],
        end: vec![END],
        stages,
    }
}

/// A small generator of numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

fn thread(tid: u32) -> Thread {
    Thread { tid, began_ns: 1 }
}

fn event(ns: u64, tid: u32, cpu: u16, what: What) -> Event {
    Event {
        ns,
        thread: thread(tid),
        cpu,
        what,
    }
}

fn point(ns: u64, tid: u32, cpu: u16, point: PointId, value: u64) -> Event {
    let what = What::Point {
        point,
        value,
        second: 0,
        stack: None,
    };
    event(ns, tid, cpu, what)
}

/// Events of users that wait for ever larger values and of stages that reach them in batches, with
/// skips, spurious wake-ups and waits for what was reached long ago.
fn simulate(seed: u64, steps: usize) -> Vec<Event> {
    let mut random = Random(seed);
    let mut ns = 1_000;
    let mut lsn = 10;
    let mut reached = [5_u64; STAGES];
    // As after the first moment of a trace: something is known of every stage.
    let first = |stage: u16| point(u64::from(stage) + 1, 100, 0, PointId(2 + stage), 5);
    let mut events: Vec<Event> = (0..STAGES as u16).map(first).collect();
    let mut waiting: HashMap<u32, u64> = HashMap::new();
    for _ in 0..steps {
        // No two at once: their order would be of no account.
        ns += 2 + random.below(40);
        let cpu = random.below(2) as u16;
        let user = 1 + random.below(5) as u32;
        match random.below(9) {
            0..3 if !waiting.contains_key(&user) => {
                lsn += random.below(9);
                let key = if random.chance(15) { lsn / 2 } else { lsn };
                waiting.insert(user, key);
                events.push(point(ns, user, cpu, START, key));
                if random.chance(70) {
                    let stack = None;
                    let why = Departure::Futex(1);
                    events.push(event(ns + 1, user, cpu, What::Left { why, stack }));
                }
            }
            3..6 => {
                let stage = random.below(STAGES as u64) as usize;
                let upstream = if stage == 0 { lsn } else { reached[stage - 1] };
                // A batch, or all there is; a stage may be passed over by the one behind it.
                let target = if random.chance(20) { lsn } else { upstream };
                let value =
                    reached[stage] + random.below(target.max(reached[stage]) + 1 - reached[stage]);
                reached[stage] = reached[stage].max(value);
                let id = PointId(2 + stage as u16);
                events.push(point(ns, 100 + stage as u32, cpu, id, value));
            }
            6 => {
                let stack = None;
                let interrupt = random.chance(30);
                let woken = thread(user);
                let what = What::Wakes {
                    woken,
                    stack,
                    interrupt,
                };
                events.push(event(ns, 102, cpu, what));
            }
            7 => events.push(event(ns, user, cpu, What::Came)),
            _ => {
                let is_done = waiting
                    .get(&user)
                    .is_some_and(|key| *key <= reached[STAGES - 1]);
                if is_done || random.chance(5) {
                    events.extend(waiting.remove(&user).map(|_| point(ns, user, cpu, END, 0)));
                }
            }
        }
    }
    events.sort_by_key(|event| event.ns);
    events
}

fn run(events: &[Event]) -> (Vec<Wait>, Counts) {
    let mut tracker = Tracker::new(layout());
    let mut waits = Vec::new();
    for (index, event) in events.iter().enumerate() {
        tracker.observe(event, &Unknown);
        // A loss is known only once its processor speaks again: settle nothing before that.
        if index % 7 == 0 && !events.iter().any(|e| matches!(e.what, What::Lost { .. })) {
            tracker.settle(event.ns - 1, |wait| waits.push(wait.clone()));
        }
    }
    tracker.finish(|wait| waits.push(wait.clone()));
    (waits, tracker.counts())
}

/// What a stage's value reached, the first time it was at least `key`.
fn first(events: &[Event], stage: usize, key: u64) -> Option<u64> {
    let id = PointId(2 + stage as u16);
    events.iter().find_map(|event| match event.what {
        What::Point { point, value, .. } if point == id && value >= key => Some(event.ns),
        _ => None,
    })
}

/// A lossy recording: some records are missing, and each processor says so with its next one.
fn lose(events: &[Event], seed: u64, percent: u64) -> Vec<Event> {
    let mut random = Random(seed);
    let mut kept = Vec::new();
    let mut last = [0_u64; 2];
    let mut lost = [0_u64; 2];
    let mut losing = [0_u64; 2];
    for (index, event) in events.iter().enumerate() {
        let cpu = usize::from(event.cpu);
        if index >= STAGES && (losing[cpu] > 0 || random.chance(percent)) {
            losing[cpu] = losing[cpu].saturating_sub(1);
            if lost[cpu] == 0 {
                losing[cpu] = random.below(4);
            }
            lost[cpu] += 1;
            continue;
        }
        if lost[cpu] > 0 {
            let (since_ns, count) = (last[cpu], lost[cpu]);
            let what = What::Lost { since_ns, count };
            kept.push(Event { what, ..*event });
            lost[cpu] = 0;
        }
        last[cpu] = event.ns;
        kept.push(*event);
    }
    // At the end, the counters tell what no further record does.
    let end_ns = events.last().map_or(0, |event| event.ns) + 1;
    for cpu in 0..2 {
        let (since_ns, count) = (last[usize::from(cpu)], lost[usize::from(cpu)]);
        if count > 0 {
            kept.push(event(end_ns, 0, cpu, What::Lost { since_ns, count }));
        }
    }
    kept
}

/// A wait without when and by whom it was reached what had been reached before it began: that may
/// be forgotten by the time it is asked for.
fn essence(wait: &Wait) -> Wait {
    let mut wait = wait.clone();
    for part in &mut wait.parts {
        part.reached = part.reached.filter(|reached| reached.ns > wait.start_ns);
    }
    wait
}

proptest! {
    #[test]
    fn every_wait_is_decomposed_as_the_truth_has_it(seed: u64, steps in 10_usize..400) {
        let events = simulate(seed, steps);
        let (waits, counts) = run(&events);
        prop_assert_eq!(counts.inexact, 0);
        prop_assert_eq!((counts.flagged, counts.torn), (0, 0));
        prop_assert_eq!(counts.seen, counts.no_wait + counts.decomposed);
        prop_assert_eq!(counts.decomposed, waits.len() as u64);
        let is = |event: &&Event, wanted: PointId| {
            matches!(event.what, What::Point { point, .. } if point == wanted)
        };
        let ends = events.iter().filter(|event| is(event, END)).count() as u64;
        let starts = events.iter().filter(|event| is(event, START)).count() as u64;
        prop_assert_eq!(counts.seen + counts.cut, starts);
        prop_assert!(counts.seen <= ends);
        for wait in &waits {
            prop_assert!(wait.is_exact());
            let times: Vec<_> = (0..STAGES).map(|s| first(&events, s, wait.key)).collect();
            prop_assert!(times[STAGES - 1].is_none_or(|ns| ns > wait.start_ns), "no wait");
            for (stage, time) in times.iter().enumerate() {
                let part = &wait.parts[stage];
                if let Some(reached) = part.reached {
                    if reached.ns > wait.start_ns {
                        prop_assert_eq!(Some(reached.ns), *time);
                    } else {
                        // Long ago: when exactly may be forgotten.
                        prop_assert!(time.is_some_and(|ns| ns <= reached.ns));
                    }
                    prop_assert!(reached.value >= wait.key);
                    continue;
                }
                // Passed over: never, too late, or after a later stage or the wake-up.
                prop_assert!(part.skipped && part.ns == 0);
                let later = wait.parts[stage + 1..].iter();
                let later = later.filter_map(|p| Some(p.reached?.ns)).min();
                let overtaken = |ns: u64| later.is_some_and(|l| ns > l.max(wait.start_ns));
                prop_assert!(time.is_none_or(|ns| ns > wait.end_ns || overtaken(ns)));
            }
        }
    }

    /// The heart of it: what was lost never changes a wait that is not flagged.
    #[test]
    fn a_loss_flags_waits_and_changes_none(
        seed: u64, steps in 50_usize..400, percent in 1_u64..12,
    ) {
        let events = simulate(seed, steps);
        let (truth, _) = run(&events);
        let truth: HashMap<_, _> = truth.iter().map(|w| ((w.waiter, w.start_ns), w)).collect();
        let lossy = lose(&events, seed ^ 1, percent);
        let (waits, counts) = run(&lossy);
        prop_assert_eq!(counts.seen, counts.no_wait + counts.decomposed + counts.flagged);
        // Every wait begins within the trace: an end without a beginning has lost it.
        prop_assert_eq!(counts.begun_before, 0);
        prop_assert!(counts.begin_lost <= counts.torn);
        for wait in &waits {
            let whole = truth.get(&(wait.waiter, wait.start_ns));
            let whole = whole.map(|wait| essence(wait));
            prop_assert_eq!(Some(essence(wait)), whole, "not flagged, and not the same");
        }
    }
}

fn lost(since_ns: u64, told_ns: u64, cpu: u16) -> Event {
    let what = What::Lost { since_ns, count: 1 };
    event(told_ns, 0, cpu, what)
}

/// What became of an end without a beginning: cut, of it begun before; torn, of it begin lost.
fn without_beginning(events: &[Event]) -> (u64, u64, u64, u64) {
    let (waits, counts) = run(events);
    assert_eq!((waits.len(), counts.seen), (0, 0));
    let Counts {
        cut,
        begun_before,
        torn,
        begin_lost,
        ..
    } = counts;
    (cut, begun_before, torn, begin_lost)
}

#[test]
fn an_end_without_a_beginning_began_before_the_trace_or_lost_it() {
    let end = point(100, 1, 0, END, 0);
    let again = point(200, 1, 0, END, 0);
    assert_eq!(without_beginning(&[end]), (1, 1, 0, 0), "nothing was lost");
    // What is lost after it is not its beginning.
    assert_eq!(without_beginning(&[end, lost(110, 120, 1)]), (1, 1, 0, 0));
    // It may be among what was lost before, also if that is told of later only.
    assert_eq!(without_beginning(&[lost(0, 50, 1), end]), (0, 0, 1, 1));
    assert_eq!(without_beginning(&[end, lost(90, 120, 1)]), (0, 0, 1, 1));
    // The second of the same thread began within the trace, or is of no wait that is asked for.
    assert_eq!(without_beginning(&[end, again]), (1, 1, 0, 0));
    let between = [end, lost(110, 120, 1), again];
    assert_eq!(without_beginning(&between), (1, 1, 1, 1));
    // A thread that began within the trace has no wait from before.
    let began = event(90, 1, 0, What::Began);
    assert_eq!(without_beginning(&[began, end]), (0, 0, 0, 0));
    assert_eq!(
        without_beginning(&[lost(0, 50, 1), began, end]),
        (0, 0, 0, 0)
    );
}

#[test]
fn memory_does_not_grow_with_the_length_of_the_trace() {
    let mut tracker = Tracker::new(layout());
    let mut aggregate = Aggregate::new(layout().stages.len(), AggregateSettings::default());
    // One thread waits for what never comes, for all of 10 minutes at 10,000 waits a second.
    tracker.observe(&point(0, 999, 0, START, u64::MAX), &Unknown);
    for lsn in 1..=6_000_000_u64 / 20 {
        let ns = lsn * 100_000;
        let user = (lsn % 64) as u32;
        tracker.observe(&point(ns, user, 0, START, lsn), &Unknown);
        for stage in 0..STAGES as u64 {
            let id = PointId(2 + stage as u16);
            let at = ns + 10 * (stage + 1);
            tracker.observe(&point(at, 100 + stage as u32, 0, id, lsn), &Unknown);
        }
        tracker.observe(&point(ns + 50, user, 0, END, 0), &Unknown);
        tracker.settle(ns, |wait| {
            aggregate.add(wait, |_| crate::threads::RoleId(0))
        });
        assert!(
            tracker.held() <= STAGES * progress::ENTRIES_MAX + 2,
            "{}",
            tracker.held()
        );
    }
    tracker.finish(|wait| aggregate.add(wait, |_| crate::threads::RoleId(0)));
    let counts = tracker.counts();
    assert_eq!((counts.flagged, counts.torn, counts.inexact), (0, 0, 0));
    // The first had no stage to be compared with, the one that never ended is cut as well.
    assert_eq!((counts.decomposed, counts.cut), (300_000 - 1, 2));
    assert_eq!(
        aggregate.sum_ns,
        aggregate.stages.iter().map(|s| s.sum_ns).sum::<u64>()
    );
}

proptest! {
    /// A slice of time knows nothing of what was before it, and has no wait wrong for that.
    #[test]
    fn a_slice_cuts_waits_and_changes_none(
        seed: u64, steps in 50_usize..400, from in 0_usize..300, length in 20_usize..300,
    ) {
        let events = simulate(seed, steps);
        let (truth, _) = run(&events);
        let truth: HashMap<_, _> = truth.iter().map(|w| ((w.waiter, w.start_ns), w)).collect();
        let slice: Vec<Event> = events.iter().skip(from).take(length).copied().collect();
        let mut tracker = Tracker::of_slice(layout(), vec![true; layout().stages.len()]);
        slice.iter().for_each(|event| tracker.observe(event, &Unknown));
        let mut waits = Vec::new();
        tracker.finish(|wait| waits.push(wait.clone()));
        let counts = tracker.counts();
        prop_assert_eq!((counts.flagged, counts.torn, counts.inexact), (0, 0, 0));
        prop_assert_eq!(counts.decomposed, waits.len() as u64);
        let begins = |event: &&Event| {
            matches!(event.what, What::Point { point, .. } if point == START)
        };
        prop_assert_eq!(counts.began, slice.iter().filter(begins).count() as u64);
        prop_assert_eq!(counts.began, counts.seen + counts.cut - counts.begun_before);
        for wait in &waits {
            let whole = truth.get(&(wait.waiter, wait.start_ns));
            let whole = whole.map(|wait| known_by(wait));
            prop_assert_eq!(Some(known_by(wait)), whole, "not cut, and not the same");
        }
    }
}

/// As [`essence`], without when threads had carried stages out before: that may be in another
/// slice.
fn known_by(wait: &Wait) -> Wait {
    let mut wait = essence(wait);
    for part in &mut wait.parts {
        if let Some(reached) = &mut part.reached {
            reached.before_ns = 0;
        }
    }
    wait
}
