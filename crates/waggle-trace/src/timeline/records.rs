//! The probe's records as events.
//!
//! Invariant: a loss becomes an event of its own, before the first record that was written after
//! it.

use rustc_hash::FxHashMap;
use waggle_probes::timeline::{Head, Name, Record, Why, addresses};

use crate::event::{Departure, Event, Thread, What};
use crate::lost::Lost;
use crate::stack::Stacks;

/// Threads whose names are remembered, also after they ended.
const NAMES_MAX: usize = 131_072;

/// What has to be remembered from record to record.
#[derive(Debug, Default)]
pub struct Records {
    lost: Lost,
    names: FxHashMap<Thread, Name>,
}

impl Records {
    /// Hands `each` the events of a record: none, one, or a loss before it. Stacks go into
    /// `stacks`.
    pub fn events(
        &mut self,
        head: &Head,
        record: &Record<'_>,
        stacks: &mut Stacks,
        mut each: impl FnMut(Event),
    ) {
        let thread = Thread {
            tid: head.tid,
            began_ns: head.began_ns,
        };
        let event = |what| Event {
            ns: head.ns,
            thread,
            cpu: head.cpu,
            what,
        };
        if let Some(loss) = self.lost.before(head.cpu, head.ns, head.lost) {
            each(event(loss));
        }
        let what = match *record {
            Record::Came => What::Came,
            Record::Began => What::Began,
            Record::Ended { name } => {
                self.remember(thread, name);
                What::Ended
            }
            Record::Left { why, stack, name } => {
                self.remember(thread, name);
                What::Left {
                    why: departure(why),
                    stack: stacks.id(stack),
                }
            }
            Record::Wakes {
                tid,
                began_ns,
                stack,
                interrupt,
                name,
            } => {
                self.remember(thread, name);
                What::Wakes {
                    woken: Thread { tid, began_ns },
                    stack: stacks.id(stack),
                    interrupt,
                }
            }
            Record::Stack(stack) => {
                stacks.add(stack.number, head.tgid, stack.end, addresses(stack.frames));
                return;
            }
        };
        each(event(what));
    }

    /// Hands `each` the losses that no later record told of, given those of each processor.
    pub fn lost_at_the_end(&mut self, lost: &[u64], now_ns: u64, each: impl FnMut(Event)) {
        self.lost.at_the_end(lost, now_ns, each);
    }

    fn remember(&mut self, thread: Thread, name: Name) {
        if self.names.len() >= NAMES_MAX && !self.names.contains_key(&thread) {
            // Those that still live are learnt again.
            self.names.clear();
        }
        self.names.insert(thread, name);
    }

    /// The thread's name, the last that was seen; `None` if it neither left nor woke anybody.
    pub fn name(&self, thread: Thread) -> Option<String> {
        self.names.get(&thread).map(Name::text)
    }

    /// Records lost so far, as far as a later record told.
    pub fn lost(&self) -> u64 {
        self.lost.sum()
    }
}

fn departure(why: Why) -> Departure {
    match why {
        Why::Runnable => Departure::Runnable,
        Why::Futex(address) => Departure::Futex(address),
        Why::Disk => Departure::Disk,
        Why::Network => Departure::Network,
        Why::Sleep => Departure::Sleep,
        Why::Other => Departure::Other,
    }
}
