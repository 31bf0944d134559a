//! Which statement did the thread run at that moment?
//!
//! A statement is known when it ends, by its thread, its beginning and its end; what was seen of
//! the thread waits here until then. Neighbours: `statements` hears of the ends, `offcpu` and the
//! sampling probe of what the thread did.
//!
//! Invariant: everything that was put in comes out once, with the innermost statement that covers
//! it, or with the word that there is none.

use std::collections::HashMap;

/// What a thread ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ran {
    /// A statement of the digest of this number.
    Digest(u32),
    /// None, though it runs statements.
    Between,
    /// A statement that had not ended.
    Unfinished,
    /// It runs none.
    None,
}

/// A statement that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Whose thread.
    pub tid: u32,
    /// When it began, ns.
    pub start_ns: u64,
    /// When it ended, ns.
    pub end_ns: u64,
    /// The number of its digest.
    pub digest: u32,
    /// Within a routine: another statement goes on around it.
    pub within: bool,
}

#[derive(Debug)]
struct Waiting<T> {
    /// When, and what; not in any order.
    items: Vec<(u64, T)>,
    /// A statement of this thread has ended.
    ran: bool,
}

/// What waits for its statement's end.
#[derive(Debug)]
pub struct Join<T> {
    threads: HashMap<u32, Waiting<T>>,
    waiting: usize,
    waiting_max: usize,
    overdue: u64,
}

impl<T> Join<T> {
    /// With room for so many items that wait.
    pub fn new(waiting_max: usize) -> Self {
        Self {
            threads: HashMap::new(),
            waiting: 0,
            waiting_max: waiting_max.max(1),
            overdue: 0,
        }
    }

    fn thread(&mut self, tid: u32) -> &mut Waiting<T> {
        self.threads.entry(tid).or_insert_with(|| Waiting {
            items: Vec::new(),
            ran: false,
        })
    }

    /// Takes what a thread did at a moment. If there is no more room, what waits longest for its
    /// thread is given up: as of a statement that does not end, or of none if the thread never ran
    /// one.
    pub fn put(&mut self, tid: u32, at_ns: u64, item: T, mut each: impl FnMut(T, Ran)) {
        if self.waiting >= self.waiting_max {
            let most = self.threads.values_mut().max_by_key(|t| t.items.len());
            if let Some(most) = most {
                let given_up = most.items.len().div_ceil(2);
                self.waiting -= given_up;
                let ran = if most.ran {
                    self.overdue += given_up as u64;
                    Ran::Unfinished
                } else {
                    Ran::None
                };
                for (_, item) in most.items.drain(..given_up) {
                    each(item, ran);
                }
            }
        }
        self.waiting += 1;
        self.thread(tid).items.push((at_ns, item));
    }

    /// Takes the end of a statement; ends of a thread come in their order, and after everything
    /// that the thread did before.
    pub fn ended(&mut self, statement: &Ended, mut each: impl FnMut(T, Ran)) {
        let thread = self.thread(statement.tid);
        thread.ran = true;
        let before = thread.items.len();
        let mut kept = Vec::new();
        for (at_ns, item) in thread.items.drain(..) {
            if at_ns > statement.end_ns || (at_ns < statement.start_ns && statement.within) {
                kept.push((at_ns, item));
            } else if at_ns >= statement.start_ns {
                each(item, Ran::Digest(statement.digest));
            } else {
                each(item, Ran::Between);
            }
        }
        let came_out = before - kept.len();
        thread.items = kept;
        self.waiting -= came_out;
    }

    /// Hands out all that still waits: `what` says what a thread ran at that moment, and is told
    /// whether a statement of the thread ever ended.
    pub fn finish(
        &mut self,
        mut what: impl FnMut(u32, bool, u64) -> Ran,
        mut each: impl FnMut(T, Ran),
    ) {
        for (tid, thread) in self.threads.drain() {
            for (at_ns, item) in thread.items {
                each(item, what(tid, thread.ran, at_ns));
            }
        }
        self.waiting = 0;
    }

    /// Items of threads that run statements that were given up, since too many waited.
    pub fn overdue(&self) -> u64 {
        self.overdue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(tid: u32, start_ns: u64, end_ns: u64, digest: u32) -> Ended {
        Ended {
            tid,
            start_ns,
            end_ns,
            digest,
            within: false,
        }
    }

    #[test]
    fn each_moment_gets_the_statement_that_covers_it() {
        let mut join = Join::new(100);
        let mut told = Vec::new();
        for at_ns in [5, 12, 15, 30] {
            join.put(1, at_ns, at_ns, |item, ran| told.push((item, ran)));
        }
        join.put(2, 14, 14, |item, ran| told.push((item, ran)));
        join.ended(&ended(1, 10, 20, 7), |item, ran| told.push((item, ran)));
        let first = [
            (5, Ran::Between),
            (12, Ran::Digest(7)),
            (15, Ran::Digest(7)),
        ];
        assert_eq!(told, first);
        join.ended(&ended(1, 25, 26, 8), |_, _| panic!("nothing was then"));
        let mut rest = Vec::new();
        join.finish(
            |tid, ran, _| match (tid, ran) {
                (1, true) => Ran::Unfinished,
                (2, false) => Ran::None,
                other => panic!("{other:?}"),
            },
            |item, ran| rest.push((item, ran)),
        );
        rest.sort_unstable();
        assert_eq!(rest, [(14, Ran::None), (30, Ran::Unfinished)]);
    }

    #[test]
    fn a_statement_within_a_routine_leaves_the_rest_to_the_one_around_it() {
        let mut join = Join::new(100);
        let mut told = Vec::new();
        for at_ns in [5, 12, 15, 18] {
            join.put(1, at_ns, at_ns, |_, _| {});
        }
        let inner = Ended {
            within: true,
            ..ended(1, 14, 16, 2)
        };
        join.ended(&inner, |item, ran| told.push((item, ran)));
        join.ended(&ended(1, 10, 20, 1), |item, ran| told.push((item, ran)));
        told.sort_unstable();
        let expected = [
            (5, Ran::Between),
            (12, Ran::Digest(1)),
            (15, Ran::Digest(2)),
            (18, Ran::Digest(1)),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn memory_is_bounded_and_nothing_is_lost() {
        for (runs, given_up) in [(true, Ran::Unfinished), (false, Ran::None)] {
            let mut join = Join::new(10);
            if runs {
                join.ended(&ended(1, 0, 0, 1), |(), _| panic!("nothing was then"));
            }
            let mut out = 0;
            for at_ns in 1..=1000 {
                join.put(1, at_ns, (), |(), ran| {
                    assert_eq!(ran, given_up);
                    out += 1;
                });
                assert!(join.waiting <= 10);
            }
            assert!(out > 900, "{out}");
            assert_eq!(join.overdue(), if runs { out } else { 0 });
            join.ended(&ended(1, 1, 2000, 1), |(), _| out += 1);
            assert_eq!((out, join.waiting), (1000, 0));
        }
    }
}
