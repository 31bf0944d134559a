//! The points' records as events.
//!
//! Invariant: a loss becomes an event of its own, before the first record that was written after
//! it, or at the end.

use waggle_probes::point::{Attach, PointRecord, PointSpec};
use waggle_probes::timeline::StackEnd;

use crate::event::{Event, PointId, StackId, Thread, What};
use crate::lost::Lost;
use crate::stack::Stacks;

/// Frames of a stack at most, as the kernel half keeps them.
const FRAMES_MAX: usize = 48;

/// What has to be remembered from record to record.
#[derive(Debug, Default)]
pub(super) struct Points {
    lost: Lost,
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
        if let Some(loss) = self.lost.before(record.cpu, record.ns, record.lost) {
            each(event(loss));
        }
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

    /// Hands `each` the losses that no later record told of, given those of each processor.
    pub(super) fn lost_at_the_end(&mut self, lost: &[u64], now_ns: u64, each: impl FnMut(Event)) {
        self.lost.at_the_end(lost, now_ns, each);
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
