//! From events to waits: who waits for what, what each stage has reached, and what may be missing.
//!
//! A wait is cut into its parts when it ends, and given out once [`Tracker::settle`] says that no
//! loss before its end can still come to light.
//!
//! Invariant: every wait whose beginning and end were seen is counted once, as a no-wait, flagged
//! or decomposed; every other beginning or end as cut or torn.

mod stages;

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::counts::Counts;
use super::decompose::{self, Reached, Wait};
use super::doing::Activity;
use super::layout::{Layout, Seen};
use super::losses::Losses;
use super::open::{Ended, Open, Outcome};
use super::progress::{Progress, Turns};
use crate::event::{Departure, Event, PointId, Thread, What};

/// What a point is to the pipeline; in this order when it is several things.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    Begin(usize),
    Stage(usize),
    End,
    Start,
}

/// Threads whose last beginning or end is remembered; beyond, all are forgotten, and the next end
/// of each may be one that began before the trace.
const MET_MAX: usize = 65_536;

/// Follows the waits of a process.
#[derive(Debug)]
pub struct Tracker {
    layout: Layout,
    /// By the point's number.
    uses: Vec<Vec<Use>>,
    logs: Vec<Progress>,
    turns: Vec<Turns>,
    open: FxHashMap<Thread, Open>,
    /// When each thread was last seen to begin or end a wait, or to begin; a thread that was not
    /// seen yet may end a wait that began before the trace did.
    met: FxHashMap<Thread, u64>,
    ended: VecDeque<Ended>,
    /// Room for the marks and the stages of waits to come, from waits that are over.
    spare: Vec<Vec<Option<Reached>>>,
    losses: Losses,
    counts: Counts,
    now_ns: u64,
    /// Of a slice of time: which stages there are to be seen, as the slice before has it.
    expected: Option<Vec<bool>>,
}

impl Tracker {
    /// Nothing was seen yet.
    pub fn new(layout: Layout) -> Self {
        let mut uses: Vec<Vec<Use>> = Vec::new();
        let mut note = |point: &PointId, what| {
            let at = usize::from(point.0);
            if uses.len() <= at {
                uses.resize(at + 1, Vec::new());
            }
            uses[at].push(what);
        };
        for (index, stage) in layout.stages.iter().enumerate() {
            if let Seen::Points(points, _) = &stage.seen {
                points.iter().for_each(|p| note(p, Use::Stage(index)));
            }
            stage.begin.iter().for_each(|p| note(p, Use::Begin(index)));
        }
        layout.end.iter().for_each(|point| note(point, Use::End));
        layout
            .start
            .iter()
            .for_each(|point| note(point, Use::Start));
        for uses in &mut uses {
            uses.sort_unstable();
            uses.dedup();
        }
        let count = layout.stages.len();
        Self {
            uses,
            logs: std::iter::repeat_with(Progress::default)
                .take(count)
                .collect(),
            turns: vec![Turns::default(); count],
            layout,
            open: FxHashMap::default(),
            met: FxHashMap::default(),
            ended: VecDeque::new(),
            spare: Vec::new(),
            losses: Losses::default(),
            counts: Counts::default(),
            now_ns: 0,
            expected: None,
        }
    }

    /// As [`Tracker::new`], for a slice of time, where `expected` stages were seen in the slice
    /// before. A wait is cut, too, if one of these was not seen yet, or had reached the wait's
    /// value when it was first seen and the wait was under way: that may have been before. A trace
    /// has few of these waits, and each of many slices has as many.
    pub fn of_slice(layout: Layout, expected: Vec<bool>) -> Self {
        Self {
            expected: Some(expected),
            ..Self::new(layout)
        }
    }

    /// Which stages were seen to reach anything, of those whose progress only grows.
    pub fn stages_seen(&self) -> Vec<bool> {
        let seen = |log: &Progress| log.was_known_at(u64::MAX);
        self.logs.iter().map(seen).collect()
    }

    /// When each wait that is under way began, ns.
    pub fn under_way(&self) -> impl Iterator<Item = u64> + '_ {
        self.open.values().map(|open| open.start_ns)
    }

    /// The pipeline.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// What became of the waits so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Takes the next event. `activity` has to know the threads up to the event's time.
    pub fn observe(&mut self, event: &Event, activity: &impl Activity) {
        self.now_ns = self.now_ns.max(event.ns);
        match event.what {
            What::Point { point, .. } => {
                let mut index = 0;
                while let Some(what) = self.what_is(point, index) {
                    match what {
                        Use::Begin(stage) => _ = self.turns[stage].next(event.thread, event.ns),
                        Use::Stage(stage) => self.stage(stage, event),
                        Use::End => self.end(event, activity),
                        Use::Start => self.start(event),
                    }
                    index += 1;
                }
            }
            What::Left { why, .. } => {
                if let Some(open) = self.open.get_mut(&event.thread)
                    && why != Departure::Runnable
                {
                    open.sleeps += 1;
                }
            }
            What::Came => {
                if let Some(open) = self.open.get_mut(&event.thread)
                    && open.wake.is_some()
                    && open.came.is_none()
                {
                    open.came = Some(reached(event.ns, Some(event.thread), 0, 0));
                }
            }
            What::Wakes {
                woken, interrupt, ..
            } => {
                if let Some(open) = self.open.get_mut(&woken) {
                    let waker = (!interrupt).then_some(event.thread);
                    open.wake = Some(reached(event.ns, waker, 0, 0));
                    open.came = None;
                }
            }
            What::Began => {
                self.meet(event);
            }
            What::Ended => self.thread_ended(event.thread),
            What::Lost { since_ns, count } => {
                self.counts.lost += count;
                self.losses.add(since_ns, event.ns);
            }
        }
    }

    /// One of the things that the point is, from index 0 on.
    fn what_is(&self, point: PointId, index: usize) -> Option<Use> {
        let uses = self.uses.get(usize::from(point.0))?;
        uses.get(index).copied()
    }

    /// Everything up to this time has been observed, losses included. Gives out the waits that
    /// ended until then and were not flagged, in the order of their end.
    pub fn settle(&mut self, up_to_ns: u64, mut sink: impl FnMut(&Wait)) {
        let is_settled = |ended: &Ended| ended.end_ns <= up_to_ns;
        while self.ended.front().is_some_and(is_settled)
            && let Some(ended) = self.ended.pop_front()
        {
            let touched = self.losses.touch(ended.known_from_ns, ended.end_ns);
            match ended.outcome {
                Outcome::Stray { is_first } => self.counts.end_alone(touched, is_first),
                Outcome::Wait {
                    wait,
                    is_no_wait,
                    is_truncated,
                } => {
                    self.counts.seen += 1;
                    if touched || is_truncated {
                        self.counts.flagged += 1;
                    } else if is_no_wait {
                        self.counts.no_wait += 1;
                    } else {
                        self.counts.decomposed += 1;
                        self.counts.inexact += u64::from(!wait.is_exact());
                        sink(&wait);
                    }
                }
            }
        }
        let oldest = self.open.values().map(|open| open.start_ns).min();
        let oldest = oldest.unwrap_or(self.now_ns);
        for log in &mut self.logs {
            log.forget(oldest);
        }
    }

    /// The trace is over: gives out what is left. Waits under way are cut.
    pub fn finish(&mut self, sink: impl FnMut(&Wait)) {
        self.counts.cut += self.open.len() as u64;
        self.open.clear();
        self.settle(u64::MAX, sink);
    }

    fn start(&mut self, event: &Event) {
        let What::Point {
            value,
            second,
            stack,
            ..
        } = event.what
        else {
            return;
        };
        self.meet(event);
        self.counts.began += 1;
        let mut marks = self.spare.pop().unwrap_or_default();
        marks.resize(self.layout.stages.len(), None);
        let open = Open {
            start_ns: event.ns,
            key: value,
            second,
            stack,
            marks,
            sleeps: 0,
            wake: None,
            came: None,
        };
        if let Some(torn) = self.open.insert(event.thread, open) {
            self.counts.torn += 1;
            self.give_back(torn.marks);
        }
    }

    /// Keeps the room, of which there is never more than waits were under way at once, and one.
    fn give_back(&mut self, mut room: Vec<Option<Reached>>) {
        room.clear();
        self.spare.push(room);
    }

    fn end(&mut self, event: &Event, activity: &impl Activity) {
        let Some(open) = self.open.remove(&event.thread) else {
            self.stray(event);
            return;
        };
        self.meet(event);
        let has_logs = (0..self.logs.len()).any(|index| self.grows(index));
        let decisive = self.decisive(open.start_ns);
        if has_logs && decisive.is_none() {
            self.counts.cut += 1;
            self.give_back(open.marks);
            return;
        }
        let room = self.spare.pop().unwrap_or_default();
        let found = self.reached(&open, event.ns, room);
        let decisive = decisive.and_then(|index| found.stages[index]);
        let is_no_wait = decisive.is_some_and(|reached| reached.ns <= open.start_ns);
        if found.is_unknown && !is_no_wait {
            self.counts.cut += 1;
            self.give_back(open.marks);
            self.give_back(found.stages);
            return;
        }
        let parts = if is_no_wait {
            Vec::new()
        } else {
            let stages = &found.stages;
            decompose::parts(event.thread, open.start_ns, event.ns, stages, activity)
        };
        let wait = Wait {
            waiter: event.thread,
            key: open.key,
            second: open.second,
            start_ns: open.start_ns,
            end_ns: event.ns,
            stack: open.stack,
            spurious: open.sleeps.saturating_sub(1),
            parts,
        };
        self.ended.push_back(Ended {
            end_ns: event.ns,
            known_from_ns: found.known_from_ns,
            outcome: Outcome::Wait {
                wait,
                is_no_wait,
                is_truncated: found.is_truncated,
            },
        });
        self.give_back(open.marks);
        self.give_back(found.stages);
    }

    /// An end without a beginning. Which it is of those there are shows when it is settled.
    fn stray(&mut self, event: &Event) {
        let before_ns = self.meet(event);
        self.ended.push_back(Ended {
            end_ns: event.ns,
            // Of a thread that was not seen yet, the beginning may be among all that was lost.
            known_from_ns: before_ns.unwrap_or(0),
            outcome: Outcome::Stray {
                is_first: before_ns.is_none(),
            },
        });
    }

    /// Notes that the thread was seen; returns when it was before.
    fn meet(&mut self, event: &Event) -> Option<u64> {
        if self.met.len() >= MET_MAX {
            self.met.clear();
        }
        self.met.insert(event.thread, event.ns)
    }

    fn thread_ended(&mut self, thread: Thread) {
        if let Some(open) = self.open.remove(&thread) {
            self.counts.cut += 1;
            self.give_back(open.marks);
        }
        self.met.remove(&thread);
        self.turns.iter_mut().for_each(|turns| turns.forget(thread));
    }
}

fn reached(ns: u64, thread: Option<Thread>, value: u64, before_ns: u64) -> Reached {
    Reached {
        ns,
        thread,
        value,
        before_ns,
    }
}

#[cfg(test)]
impl Tracker {
    /// Steps and waits that are remembered.
    pub(super) fn held(&self) -> usize {
        let steps: usize = self.logs.iter().map(Progress::len).sum();
        steps + self.open.len() + self.ended.len()
    }
}
