//! The points' records as events.
//!
//! Invariant: a loss becomes an event of its own, before the first record that was written after
//! it, or at the end.

use rustc_hash::FxHashMap;
use waggle_probes::point::{Attach, PointRecord, PointSpec};
use waggle_probes::timeline::StackEnd;

use crate::event::{Event, PointId, StackId, Thread, What};
use crate::stack::Stacks;

/// Frames of a stack at most, as the kernel half keeps them.
const FRAMES_MAX: usize = 48;

/// What is known of the records of each processor.
#[derive(Debug, Default)]
pub(super) struct Points {
    /// Records lost so far, and when the last one was written.
    processors: FxHashMap<u16, (u32, u64)>,
    /// Records whose value could not be read where it stood: as good as lost.
    unread: u64,
}

impl Points {
    /// Hands `each` the event of a record, and a loss before it.
    pub(super) fn events(
        &mut self,
        record: &PointRecord<'_>,
        stacks: &mut Stacks,
        mut each: impl FnMut(Event),
    ) {
        let thread = Thread {
            tid: record.tid,
            began_ns: record.began_ns,
        };
        let event = |what| Event {
            ns: record.ns,
            thread,
            cpu: record.cpu,
            what,
        };
        // Of what was lost before a processor's first record, the beginning is not known.
        let (lost, last_ns) = self.processors.entry(record.cpu).or_insert((0, 0));
        let count = record.lost.wrapping_sub(*lost);
        // Another thread's record of this processor may come in its midst, with an older count.
        if count > 0 && count < 1 << 31 {
            *lost = record.lost;
            each(event(What::Lost {
                since_ns: *last_ns,
                count: count.into(),
            }));
        }
        *last_ns = record.ns.max(*last_ns);
        if record.value_unread {
            self.unread += 1;
            each(event(What::Lost {
                since_ns: record.ns,
                count: 1,
            }));
            return;
        }
        each(event(What::Point {
            point: PointId(record.point),
            value: record.value,
            second: record.second,
            stack: stack(record, stacks),
        }));
    }

    /// Records that arrived without their value.
    pub(super) fn unread(&self) -> u64 {
        self.unread
    }

    /// Hands `each` the losses that no later record told of.
    pub(super) fn lost_at_the_end(
        &mut self,
        lost: &[u64],
        now_ns: u64,
        mut each: impl FnMut(Event),
    ) {
        for (cpu, total) in (0u16..).zip(lost) {
            let (known, last_ns) = self.processors.entry(cpu).or_insert((0, 0));
            let total = u32::try_from(*total & u64::from(u32::MAX)).unwrap_or(0);
            let count = total.wrapping_sub(*known);
            if count == 0 {
                continue;
            }
            *known = total;
            each(Event {
                ns: now_ns,
                thread: Thread {
                    tid: 0,
                    began_ns: 0,
                },
                cpu,
                what: What::Lost {
                    since_ns: *last_ns,
                    count: count.into(),
                },
            });
        }
    }
}

fn stack(record: &PointRecord<'_>, stacks: &mut Stacks) -> Option<StackId> {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let mut count = 0;
    let mut number = OFFSET ^ u64::from(record.tgid);
    for frame in record.frames() {
        number = (number ^ frame).wrapping_mul(PRIME).rotate_left(23);
        count += 1;
    }
    if count == 0 {
        return None;
    }
    let number = number.max(1);
    let id = stacks.id(number)?;
    if stacks.get(id).is_none() {
        let end = if count < FRAMES_MAX {
            StackEnd::Whole
        } else {
            StackEnd::TooDeep
        };
        stacks.add(number, record.tgid, end, record.frames());
    }
    Some(id)
}

/// A place, for people.
pub(super) fn place(spec: &PointSpec) -> String {
    match &spec.attach {
        Attach::At { place, .. } => place.to_string(),
        Attach::Return(place) => format!("return of {}", place.function),
        Attach::Watch { address, .. } => format!("stores to {address:#x}"),
        Attach::Tracepoint { category, name } => format!("tracepoint {category}:{name}"),
    }
}
