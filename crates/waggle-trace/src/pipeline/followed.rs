//! Of which threads do the scheduler's events tell, and from when to when?
//!
//! The kernel half tells only of threads that are in a wait, or carry out stages without being in
//! one: those of every idle connection would be most of all records. What it does is done here once
//! more with the points that were passed, so that the time in between is not taken for what a
//! thread did last. Neighbours: `waggle_probes::point::Follow` is the kernel half's part of it, the
//! [`Timeline`] keeps what threads did.
//!
//! Invariant: a thread that is not told of is [`State::Elsewhere`](crate::timeline::State), never
//! in the state that was told last.

use rustc_hash::FxHashSet;

use crate::event::{Event, PointId, Thread, What};
use crate::resolve::{Plan, Role};
use crate::timeline::Timeline;

/// Threads that are followed.
#[derive(Debug)]
pub struct Followed {
    /// By the point's number.
    roles: Vec<Option<Role>>,
    waiting: FxHashSet<Thread>,
    always: FxHashSet<Thread>,
}

impl Followed {
    /// Nobody yet; by the points of `plan`.
    pub fn of(plan: &Plan) -> Self {
        Self::by(plan.points.iter().map(|point| (point.id, point.role)))
    }

    fn by(of_points: impl IntoIterator<Item = (PointId, Role)>) -> Self {
        let mut roles = Vec::new();
        for (point, role) in of_points {
            let at = usize::from(point.0);
            if roles.len() <= at {
                roles.resize(at + 1, None);
            }
            roles[at] = Some(role);
        }
        Self {
            roles,
            waiting: FxHashSet::default(),
            always: FxHashSet::default(),
        }
    }

    fn role(&self, point: PointId) -> Option<Role> {
        self.roles.get(usize::from(point.0)).copied().flatten()
    }

    /// Before the event is looked at.
    pub fn before(&mut self, event: &Event, timeline: &mut Timeline) {
        let thread = event.thread;
        match event.what {
            What::Point { point, .. } => {
                match self.role(point) {
                    Some(Role::WaitStart) => _ = self.waiting.insert(thread),
                    Some(Role::Stage(_) | Role::StageBegin(_))
                        if !self.waiting.contains(&thread) =>
                    {
                        self.always.insert(thread);
                    }
                    _ => {}
                }
                timeline.comes_into_view(thread, event.ns);
            }
            // Preempted between passing the end and being told of no more.
            What::Came if !self.waiting.contains(&thread) && !self.always.contains(&thread) => {
                timeline.goes_out_of_view(thread, event.ns);
            }
            What::Began => timeline.goes_out_of_view(thread, event.ns),
            What::Ended => {
                self.waiting.remove(&thread);
                self.always.remove(&thread);
            }
            _ => {}
        }
    }

    /// After it was looked at.
    pub fn after(&mut self, event: &Event, timeline: &mut Timeline) {
        let What::Point { point, .. } = event.what else {
            return;
        };
        if self.role(point) != Some(Role::WaitEnd) {
            return;
        }
        // The kernel half tells of an end in a wait only. If the beginning was lost, so may be what
        // made it follow for that wait alone.
        if !self.waiting.remove(&event.thread) {
            self.always.remove(&event.thread);
        }
        if !self.always.contains(&event.thread) {
            timeline.goes_out_of_view(event.thread, event.ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Departure;
    use crate::timeline::Split;

    const USER: Thread = Thread {
        tid: 1,
        began_ns: 1,
    };
    const WRITER: Thread = Thread {
        tid: 2,
        began_ns: 1,
    };

    fn told(events: &[(u64, Thread, What)]) -> Timeline {
        let roles = [Role::WaitStart, Role::Stage(0), Role::WaitEnd];
        let roles = (0..).map(PointId).zip(roles);
        let mut followed = Followed::by(roles);
        let mut timeline = Timeline::new(1_000_000, 1_000);
        for (ns, thread, what) in events {
            let event = Event {
                ns: *ns,
                thread: *thread,
                cpu: 0,
                what: *what,
            };
            timeline.record(&event);
            followed.before(&event, &mut timeline);
            followed.after(&event, &mut timeline);
        }
        timeline
    }

    fn passes(point: u16) -> What {
        What::Point {
            point: PointId(point),
            value: 0,
            second: 0,
            stack: None,
        }
    }

    fn sleeps() -> What {
        What::Left {
            why: Departure::Futex(8),
            stack: None,
        }
    }

    #[test]
    fn between_two_waits_a_thread_is_elsewhere() {
        let timeline = told(&[
            (100, USER, passes(0)),
            (120, USER, sleeps()),
            (150, USER, What::Came),
            (160, USER, passes(2)),
            (300, USER, passes(0)),
            (310, USER, passes(2)),
        ]);
        let expected = Split {
            on_cpu_ns: 20 + 10 + 10,
            blocked: vec![(Departure::Futex(8), 30)],
            elsewhere_ns: 140,
            ..Split::default()
        };
        assert_eq!(timeline.split(USER, 100, 310), expected);
    }

    #[test]
    fn who_carries_out_a_stage_in_a_wait_is_followed_for_that_wait() {
        let timeline = told(&[
            (50, WRITER, passes(1)),
            (60, WRITER, sleeps()),
            (100, USER, passes(0)),
            (110, USER, passes(1)),
            (120, USER, passes(2)),
            (200, WRITER, What::Came),
            (210, WRITER, passes(1)),
        ]);
        assert_eq!(timeline.split(WRITER, 60, 210).blocked_ns(), 140);
        assert_eq!(timeline.split(USER, 120, 210).elsewhere_ns, 90);
    }

    #[test]
    fn a_lost_beginning_does_not_put_all_that_follows_on_a_processor() {
        // The point that begins the wait was lost; the stage in it made nobody's beginning known.
        let timeline = told(&[
            (110, USER, passes(1)),
            (120, USER, passes(2)),
            (300, USER, passes(0)),
            (310, USER, passes(2)),
            (315, USER, sleeps()),
            (390, USER, What::Came),
            (400, USER, passes(0)),
        ]);
        assert_eq!(timeline.split(USER, 120, 300).elsewhere_ns, 180);
        assert_eq!(timeline.split(USER, 390, 400).elsewhere_ns, 10);
        assert_eq!(timeline.split(USER, 300, 400).on_cpu_ns, 10);
    }

    #[test]
    fn a_thread_that_began_is_elsewhere_until_it_waits() {
        let timeline = told(&[(10, USER, What::Began), (30, USER, passes(0))]);
        assert_eq!(timeline.split(USER, 10, 30).elsewhere_ns, 20);
    }
}
