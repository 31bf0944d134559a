//! The probe's records as events.
//!
//! Invariant: a loss becomes an event of its own, before the first record that was written after
//! it.

use rustc_hash::FxHashMap;
use waggle_probes::timeline::{Head, Name, Record, Why, addresses};

use crate::event::{Departure, Event, Thread, What};
use crate::stack::Stacks;

/// Threads whose names are remembered, also after they ended.
const NAMES_MAX: usize = 131_072;

/// What has to be remembered from record to record.
#[derive(Debug, Default)]
pub struct Records {
    /// By processor: records lost so far, and when the last one was written.
    processors: FxHashMap<u16, (u32, u64)>,
    names: FxHashMap<Thread, Name>,
    lost: u64,
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
        // Of what was lost before a processor's first record, the beginning is not known.
        let (lost, last_ns) = self.processors.entry(head.cpu).or_insert((0, 0));
        let count = head.lost.wrapping_sub(*lost);
        // A record may come in the midst of another of this processor, which has the older count.
        if count > 0 && count < 1 << 31 {
            *lost = head.lost;
            self.lost += u64::from(count);
            each(event(What::Lost {
                since_ns: *last_ns,
                count: u64::from(count),
            }));
        }
        *last_ns = head.ns.max(*last_ns);
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
    pub fn lost_at_the_end(&mut self, lost: &[u64], now_ns: u64, mut each: impl FnMut(Event)) {
        for (cpu, total) in (0u16..).zip(lost) {
            let (known, last_ns) = self.processors.entry(cpu).or_insert((0, 0));
            let total = u32::try_from(*total & u64::from(u32::MAX)).unwrap_or(0);
            let count = total.wrapping_sub(*known);
            if count == 0 {
                continue;
            }
            *known = total;
            self.lost += u64::from(count);
            each(Event {
                ns: now_ns,
                thread: Thread {
                    tid: 0,
                    began_ns: 0,
                },
                cpu,
                what: What::Lost {
                    since_ns: *last_ns,
                    count: u64::from(count),
                },
            });
        }
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
        self.lost
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
