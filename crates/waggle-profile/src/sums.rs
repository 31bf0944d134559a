//! How much time did each thread spend in each stack, and for which statement?
//!
//! Neighbours: `capture` puts in what it reads, `naming` makes a profile of the sums. Invariant:
//! memory is bounded by stacks and threads, not by time, except for what was asked to be kept one
//! by one, which is bounded by itself.

use std::collections::HashMap;

use waggle_probes::timeline::Name;
use waggle_trace::{Departure, StackId, Thread};

use crate::join::{Ended, Join, Ran};
use crate::model::Kind;

/// Moments that wait for their statement's end; about 60 bytes each.
const WAITING_MAX: usize = 1 << 20;
/// Moments that are kept one by one, if asked for; about 60 bytes each.
const TIMED_MAX: usize = 2_000_000;

/// What a thread was in beyond its own calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Inner {
    /// Nothing: it ran its own code.
    Own,
    /// The kernel, in the calls of this number.
    Kernel(u32),
    /// The kernel, in calls that are not known.
    InKernel,
    /// It waited.
    Wait(Departure),
    /// It waited for a processor, after it had waited.
    Processor,
}

/// What time is told apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// A place in [`Sums::threads`].
    pub(crate) thread: u32,
    pub(crate) kind: Kind,
    pub(crate) stack: Option<StackId>,
    pub(crate) inner: Inner,
}

/// Time at a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) key: Key,
    pub(crate) at_ns: u64,
    pub(crate) ns: u64,
}

/// A thread that was seen.
#[derive(Debug, Clone)]
pub(crate) struct Met {
    pub(crate) thread: Thread,
    pub(crate) pid: u32,
    /// What it called itself last.
    pub(crate) name: Option<Name>,
    /// It waited for a client's statement when the recording ended, if that is known.
    pub(crate) idle: Option<bool>,
}

/// Samples and time, ns.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sum {
    pub(crate) samples: u64,
    pub(crate) ns: u64,
}

/// The sums.
#[derive(Debug)]
pub(crate) struct Sums {
    pub(crate) threads: Vec<Met>,
    numbers: HashMap<Thread, u32>,
    pub(crate) kernel_stacks: Vec<Box<[u64]>>,
    kernel_numbers: HashMap<Box<[u64]>, u32>,
    pub(crate) sums: HashMap<(Key, Ran), Sum>,
    pub(crate) timed: Option<Vec<(Moment, Ran)>>,
    /// Moments that were not kept one by one, for want of room.
    pub(crate) untimed: u64,
    join: Option<Join<Moment>>,
}

impl Sums {
    pub(crate) fn new(by_digest: bool, one_by_one: bool) -> Self {
        Self {
            threads: Vec::new(),
            numbers: HashMap::new(),
            kernel_stacks: Vec::new(),
            kernel_numbers: HashMap::new(),
            sums: HashMap::new(),
            timed: one_by_one.then(Vec::new),
            untimed: 0,
            join: by_digest.then(|| Join::new(WAITING_MAX)),
        }
    }

    /// The number of a thread, which is of process `pid`.
    pub(crate) fn thread(&mut self, thread: Thread, pid: u32, name: Option<Name>) -> u32 {
        let next = u32::try_from(self.threads.len()).unwrap_or(u32::MAX);
        let number = *self.numbers.entry(thread).or_insert(next);
        if number == next {
            self.threads.push(Met {
                thread,
                pid,
                name: None,
                idle: None,
            });
        }
        if name.is_some() {
            self.threads[number as usize].name = name;
        }
        number
    }

    /// The number of a thread, if it was seen.
    pub(crate) fn known(&self, thread: Thread) -> Option<u32> {
        self.numbers.get(&thread).copied()
    }

    /// The number of a stack in the kernel.
    pub(crate) fn kernel_stack(&mut self, addresses: impl Iterator<Item = u64>) -> u32 {
        let addresses: Box<[u64]> = addresses.collect();
        if let Some(number) = self.kernel_numbers.get(&addresses) {
            return *number;
        }
        let number = u32::try_from(self.kernel_stacks.len()).unwrap_or(u32::MAX);
        self.kernel_stacks.push(addresses.clone());
        self.kernel_numbers.insert(addresses, number);
        number
    }

    /// Adds time.
    pub(crate) fn put(&mut self, moment: Moment) {
        let Self {
            threads,
            sums,
            timed,
            untimed,
            join,
            ..
        } = self;
        let mut into = Into {
            sums,
            timed,
            untimed,
        };
        match join {
            Some(join) => {
                let tid = threads[moment.key.thread as usize].thread.tid;
                join.put(tid, moment.at_ns, moment, |moment, ran| {
                    into.add(moment, ran)
                });
            }
            None => into.add(moment, Ran::None),
        }
    }

    /// A statement has ended.
    pub(crate) fn ended(&mut self, statement: &Ended) {
        let mut into = Into {
            sums: &mut self.sums,
            timed: &mut self.timed,
            untimed: &mut self.untimed,
        };
        if let Some(join) = &mut self.join {
            join.ended(statement, |moment, ran| into.add(moment, ran));
        }
    }

    /// Nothing more comes: `what` says what a thread ran at a moment for which no statement's end
    /// was seen; see [`Join::finish`].
    pub(crate) fn settle(&mut self, what: impl FnMut(u32, bool, u64) -> Ran) {
        let mut into = Into {
            sums: &mut self.sums,
            timed: &mut self.timed,
            untimed: &mut self.untimed,
        };
        if let Some(join) = &mut self.join {
            join.finish(what, |moment, ran| into.add(moment, ran));
        }
    }

    /// Moments whose statement took too long to be waited for.
    pub(crate) fn overdue(&self) -> u64 {
        self.join.as_ref().map_or(0, Join::overdue)
    }
}

struct Into<'a> {
    sums: &'a mut HashMap<(Key, Ran), Sum>,
    timed: &'a mut Option<Vec<(Moment, Ran)>>,
    untimed: &'a mut u64,
}

impl Into<'_> {
    fn add(&mut self, moment: Moment, ran: Ran) {
        let sum = self.sums.entry((moment.key, ran)).or_default();
        sum.samples += 1;
        sum.ns += moment.ns;
        if let Some(timed) = self.timed {
            if timed.len() < TIMED_MAX {
                timed.push((moment, ran));
            } else {
                *self.untimed += 1;
            }
        }
    }
}
