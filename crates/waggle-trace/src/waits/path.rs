//! Whose doing was the time of a request?
//!
//! While the request's thread waits, the time is its waker's, from the beginning of the wait to the
//! wake-up; while that one waited in turn, its waker's, and so on. Neighbour: `timeline`.
//!
//! Invariant: the segments of a path are in order, without a gap, and add up to the span.

use super::Kind;
use crate::event::{StackId, Thread};
use crate::timeline::{Span, State, Timeline};

/// What a thread of the path did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Doing {
    /// It ran.
    OnCpu,
    /// It could run, but had no processor.
    Runnable,
    /// It waited, and no thread whose doing is known ended that.
    Blocked(Kind),
    /// Not known.
    Unseen,
}

impl Doing {
    /// As the tables have it.
    pub fn text(self) -> &'static str {
        match self {
            Self::OnCpu => "on-cpu",
            Self::Runnable => "runnable",
            Self::Blocked(kind) => kind.text(),
            Self::Unseen => "unseen",
        }
    }
}

/// A part of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Whose doing.
    pub thread: Thread,
    /// What it did.
    pub doing: Doing,
    /// Where it waited, if it did.
    pub stack: Option<StackId>,
    /// An interrupt ended the wait.
    pub interrupt: bool,
    /// From, ns.
    pub from_ns: u64,
    /// To, ns.
    pub to_ns: u64,
    /// 0: the request's own thread; 1: who woke it; and so on.
    pub depth: u8,
}

/// Longest chain of wakers that is followed.
const DEPTH_MAX: u8 = 16;
/// Most segments of a path; beyond, waits are not followed.
const SEGMENTS_MAX: usize = 4096;

/// The path of `thread` from `from_ns` to `to_ns`.
pub fn of(timeline: &Timeline, thread: Thread, from_ns: u64, to_ns: u64) -> Vec<Segment> {
    let mut path = Vec::new();
    follow(timeline, thread, (from_ns, to_ns), 0, &mut path);
    path
}

fn follow(
    timeline: &Timeline,
    thread: Thread,
    (from_ns, to_ns): (u64, u64),
    depth: u8,
    path: &mut Vec<Segment>,
) {
    for span in timeline.spans(thread, from_ns, to_ns) {
        let followed = match (span.state, span.waker) {
            (State::Blocked(_), Some(waker)) if !waker.interrupt => Some(waker.thread),
            _ => None,
        };
        match followed {
            Some(waker)
                if depth < DEPTH_MAX
                    && path.len() < SEGMENTS_MAX
                    && waker != thread
                    && timeline.knows(waker, span.from_ns) =>
            {
                follow(timeline, waker, (span.from_ns, span.to_ns), depth + 1, path);
            }
            _ => push(path, segment(thread, &span, depth)),
        }
    }
}

fn segment(thread: Thread, span: &Span, depth: u8) -> Segment {
    let doing = match span.state {
        State::OnCpu => Doing::OnCpu,
        State::Runnable => Doing::Runnable,
        State::Elsewhere | State::Unseen => Doing::Unseen,
        State::Blocked(why) => Kind::of(why).map_or(Doing::Runnable, Doing::Blocked),
    };
    Segment {
        thread,
        doing,
        stack: span.stack,
        interrupt: span.waker.is_some_and(|w| w.interrupt),
        from_ns: span.from_ns,
        to_ns: span.to_ns,
        depth,
    }
}

/// Appends, as one with the last where they are alike.
fn push(path: &mut Vec<Segment>, segment: Segment) {
    match path.last_mut() {
        Some(last)
            if (last.thread, last.doing, last.stack, last.depth)
                == (segment.thread, segment.doing, segment.stack, segment.depth) =>
        {
            last.to_ns = segment.to_ns;
        }
        _ => path.push(segment),
    }
}
