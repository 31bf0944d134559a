//! What does a record of the kernel half say?
//!
//! Invariant: a record that is too short, or of a kind that is not known, is no record; nothing is
//! read beyond its bytes.

use super::types;

/// What begins every record of every trace program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// When, ns of the monotonic clock.
    pub ns: u64,
    /// When the thread began, ns of the boot clock; 0: not known.
    pub began_ns: u64,
    /// Thread id.
    pub tid: u32,
    /// Process id.
    pub tgid: u32,
    /// On which processor.
    pub cpu: u16,
    /// Records that this processor could not write so far.
    pub lost: u32,
}

/// The first bytes of a thread's name, up to the first 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Name([u8; 16]);

impl Name {
    /// Of the kernel's bytes.
    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The name; bytes that are no text are replaced.
    pub fn text(&self) -> String {
        let length = self.0.iter().position(|b| *b == 0).unwrap_or(self.0.len());
        String::from_utf8_lossy(&self.0[..length]).into_owned()
    }
}

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

/// Where a stack ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StackEnd {
    /// Where the thread began.
    Whole,
    /// After the most calls that are kept.
    TooDeep,
    /// The next frame could not be found.
    Cut,
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
    Stack {
        /// The number.
        number: u64,
        /// Where it ends.
        end: StackEnd,
        /// The addresses, innermost first, 8 bytes each.
        frames: &'a [u8],
    },
}

fn bytes<const N: usize>(record: &[u8], at: usize) -> Option<[u8; N]> {
    record.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn word(record: &[u8], at: usize) -> Option<u64> {
    bytes(record, at).map(u64::from_ne_bytes)
}

fn half(record: &[u8], at: usize) -> Option<u32> {
    bytes(record, at).map(u32::from_ne_bytes)
}

fn quarter(record: &[u8], at: usize) -> Option<u16> {
    bytes(record, at).map(u16::from_ne_bytes)
}

/// The number of the kind of [`Record::Stack`].
pub(crate) const STACK_KIND: u32 = types::trace_kind::TRACE_STACK.0;

/// The head of a record and the number of its kind.
pub(crate) fn head(record: &[u8]) -> Option<(Head, u32)> {
    use std::mem::offset_of;
    use types::trace_head as t;
    let head = Head {
        ns: word(record, offset_of!(t, ns))?,
        began_ns: word(record, offset_of!(t, began_ns))?,
        tid: half(record, offset_of!(t, tid))?,
        tgid: half(record, offset_of!(t, tgid))?,
        cpu: quarter(record, offset_of!(t, cpu))?,
        lost: half(record, offset_of!(t, lost))?,
    };
    Some((head, u32::from(quarter(record, offset_of!(t, kind))?)))
}

/// A record of this probe.
pub(super) fn parse(record: &[u8]) -> Option<(Head, Record<'_>)> {
    use std::mem::offset_of;
    use types::timeline_event as t;
    use types::trace_kind as kind;
    let (head, number) = head(record)?;
    let name = || bytes(record, offset_of!(t, name)).map(Name);
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
        n if n == kind::TRACE_STACK.0 => return Some((head, stack(record)?)),
        _ => return None,
    };
    Some((head, what))
}

fn why(record: &[u8]) -> Option<Why> {
    use std::mem::offset_of;
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

/// A record of a stack, of any trace program.
pub(crate) fn stack(record: &[u8]) -> Option<Record<'_>> {
    use std::mem::offset_of;
    use types::unwind_end as e;
    use types::unwind_stack as t;
    let count = usize::try_from(half(record, offset_of!(t, count))?).ok()?;
    let at = offset_of!(t, frames);
    Some(Record::Stack {
        number: word(record, offset_of!(t, number))?,
        end: match half(record, offset_of!(t, end))? {
            n if n == e::UNWIND_WHOLE.0 => StackEnd::Whole,
            n if n == e::UNWIND_TOO_DEEP.0 => StackEnd::TooDeep,
            _ => StackEnd::Cut,
        },
        frames: record.get(at..at.checked_add(count.checked_mul(8)?)?)?,
    })
}

/// The addresses of [`Record::Stack`].
pub fn addresses(frames: &[u8]) -> impl Iterator<Item = u64> + '_ {
    frames
        .as_chunks::<8>()
        .0
        .iter()
        .map(|chunk| u64::from_ne_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_are_a_record_or_none() {
        let mut state = 0x853c_49e6_748f_ea9b_u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state >> 11
        };
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
                if let Record::Stack { frames, .. } = what {
                    assert!(addresses(frames).count() * 8 <= record.len());
                }
            }
        }
        // All but the largest kind of record, whose count random bytes do not meet.
        assert_eq!(kinds & 0b111_1100, 0b111_1100);
    }
}
