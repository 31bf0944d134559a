//! What does a record of the kernel half say?
//!
//! Invariant: a record that is too short, or of a kind that is not known, is no record; nothing is
//! read beyond its bytes.

use std::mem::offset_of;

use super::types;
use crate::record::{Head, Name, STACK_KIND, Stack, bytes, half, head, quarter, stack, word};

/// Why a thread left its processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Why {
    /// It was preempted or gave way.
    Runnable,
    /// It waits on a futex at this address.
    Futex(u64),
    /// It waits for a disk, or for a page that has to be read.
    Disk,
    /// It waits for a socket or a pipe.
    Network,
    /// It sleeps for a set time.
    Sleep,
    /// It waits for something else.
    Other,
}

/// What happened. Of a switch, the head's thread is the one that left or came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record<'a> {
    /// The thread left its processor.
    Left {
        /// Why.
        why: Why,
        /// The number of the stack it was in; 0: none.
        stack: u64,
        /// The thread's name.
        name: Name,
    },
    /// It took one.
    Came,
    /// It wakes another.
    Wakes {
        /// Whom.
        tid: u32,
        /// When that one began, ns of the boot clock.
        began_ns: u64,
        /// The number of the waker's stack; 0: none.
        stack: u64,
        /// An interrupt wakes, whoever is on the processor.
        interrupt: bool,
        /// The waker's name.
        name: Name,
    },
    /// It began.
    Began,
    /// It ended.
    Ended {
        /// The thread's name.
        name: Name,
    },
    /// A stack that other records name by its number; some of them may come before it.
    Stack(Stack<'a>),
}

/// A record of this probe.
pub(super) fn parse(record: &[u8]) -> Option<(Head, Record<'_>)> {
    use types::timeline_event as t;
    use types::trace_kind as kind;
    let (head, number) = head(record)?;
    let name = || bytes(record, offset_of!(t, name)).map(Name::from_bytes);
    let what = match number {
        n if n == kind::TRACE_CAME.0 => Record::Came,
        n if n == kind::TRACE_BEGAN.0 => Record::Began,
        n if n == kind::TRACE_ENDED.0 => Record::Ended { name: name()? },
        n if n == kind::TRACE_LEFT.0 => Record::Left {
            why: why(record)?,
            stack: word(record, offset_of!(t, stack))?,
            name: name()?,
        },
        n if n == kind::TRACE_WAKES.0 => Record::Wakes {
            tid: half(record, offset_of!(t, woken))?,
            began_ns: word(record, offset_of!(t, value))?,
            stack: word(record, offset_of!(t, stack))?,
            interrupt: quarter(record, offset_of!(t, interrupt))? != 0,
            name: name()?,
        },
        STACK_KIND => Record::Stack(stack(record)?),
        _ => return None,
    };
    Some((head, what))
}

fn why(record: &[u8]) -> Option<Why> {
    use types::timeline_event as t;
    use types::timeline_why as w;
    let number = u32::from(quarter(record, offset_of!(t, why))?);
    Some(match number {
        n if n == w::WHY_RUNNABLE.0 => Why::Runnable,
        n if n == w::WHY_FUTEX.0 => Why::Futex(word(record, offset_of!(t, value))?),
        n if n == w::WHY_DISK.0 => Why::Disk,
        n if n == w::WHY_NETWORK.0 => Why::Network,
        n if n == w::WHY_SLEEP.0 => Why::Sleep,
        _ => Why::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{addresses, random};

    #[test]
    fn any_bytes_are_a_record_or_none() {
        let mut random = random(0x853c_49e6_748f_ea9b);
        let mut kinds = 0;
        for _ in 0..20_000 {
            let length = usize::try_from(random() % 128).unwrap();
            let mut record: Vec<u8> = (0..length)
                .map(|_| u8::try_from(random() & 0xff).unwrap())
                .collect();
            if let Some(kind) = record.get_mut(24..26) {
                kind.copy_from_slice(&u16::try_from(random() % 10).unwrap().to_ne_bytes());
            }
            if let Some((_, what)) = parse(&record) {
                kinds |= 1 << u32::from(record[24]);
                if let Record::Stack(stack) = what {
                    assert!(addresses(stack.frames).count() * 8 <= record.len());
                }
            }
        }
        // All but the largest kind of record, whose count random bytes do not meet.
        assert_eq!(kinds & 0b111_1100, 0b111_1100);
    }
}
