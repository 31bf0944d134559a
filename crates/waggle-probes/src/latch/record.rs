//! What does a record of the kernel half say?
//!
//! Invariant: a record that is too short, or of a kind that is not known, is no record; nothing is
//! read beyond its bytes.

use std::mem::offset_of;

use super::types;
use crate::record::{Head, STACK_KIND, Stack, bytes, half, head, stack, word};

/// Where a sleep was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// InnoDB's wait array.
    InnoDb,
    /// A wait for a metadata lock.
    Metadata,
    /// The kernel's futex call.
    Futex,
    /// A static probe.
    Static,
}

/// A thread goes to sleep for a latch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sleep<'a> {
    /// Where it was seen.
    pub source: Source,
    /// What its sleeps and releases share.
    pub key: u64,
    /// The number of the thread's stack; 0: none.
    pub stack: u64,
    /// The latch's address.
    pub latch: u64,
    /// The stack pointer of the request.
    pub frame: u64,
    /// Address of the name of the file that asks; 0: not told.
    pub file: u64,
    /// Line.
    pub line: u32,
    /// Address of the name of the file that made it; 0: not told.
    pub made_file: u64,
    /// Line.
    pub made_line: u32,
    /// The thread that has it; 0: not told.
    pub owner: u32,
    /// Of InnoDB's: 1 mutex, 2 S, 3 SX, 4 X, 5 X with readers leaving. Of a futex: its operation.
    pub kind: u32,
    /// Number of a mutex's name.
    pub id: u32,
    /// Of a futex: what its word held; of a rw-lock: its word.
    pub value: u32,
    /// Of a futex that is a mutex of the C library: the mutex's kind.
    pub mutex_kind: u32,
    /// A metadata lock's key: kind of object, database, 0, name, 0; as much as is told.
    pub name: &'a [u8],
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record<'a> {
    /// The thread goes to sleep for a latch.
    Sleeps {
        /// For which, and where.
        sleep: Sleep<'a>,
        /// The thread's name, filled up with 0.
        thread: [u8; 16],
    },
    /// It wakes.
    Wakes {
        /// What it slept on.
        key: u64,
        /// What the call returned.
        result: i64,
    },
    /// It lets go of a latch that is slept for.
    Releases {
        /// What is slept on.
        key: u64,
        /// The number of its stack; 0: none.
        stack: u64,
        /// The thread's name, filled up with 0.
        thread: [u8; 16],
    },
    /// A stack that other records name by its number; some of them may come before it.
    Stack(Stack<'a>),
}

/// A record of this probe.
pub(super) fn parse(record: &[u8]) -> Option<(Head, Record<'_>)> {
    use types::latch_brief as b;
    use types::latch_what as what;
    let (head, number) = head(record)?;
    if number == STACK_KIND {
        return Some((head, Record::Stack(stack(record)?)));
    }
    if number != types::trace_kind::TRACE_LATCH.0 {
        return None;
    }
    let key = word(record, offset_of!(b, key))?;
    let thread = bytes(record, offset_of!(b, name))?;
    let told = match half(record, offset_of!(b, what))? {
        n if n == what::LATCH_SLEEPS.0 => Record::Sleeps {
            sleep: sleep(record, key)?,
            thread,
        },
        n if n == what::LATCH_WAKES.0 => Record::Wakes {
            key,
            result: word(record, offset_of!(b, result))?.cast_signed(),
        },
        n if n == what::LATCH_RELEASES.0 => Record::Releases {
            key,
            stack: word(record, offset_of!(b, stack))?,
            thread,
        },
        _ => return None,
    };
    Some((head, told))
}

fn sleep(record: &[u8], key: u64) -> Option<Sleep<'_>> {
    use types::latch_metadata as m;
    use types::latch_sleep as s;
    use types::latch_source as of;
    let source = match half(record, offset_of!(s, source))? {
        n if n == of::LATCH_INNODB.0 => Source::InnoDb,
        n if n == of::LATCH_METADATA.0 => Source::Metadata,
        n if n == of::LATCH_FUTEX.0 => Source::Futex,
        n if n == of::LATCH_STATIC_PROBE.0 => Source::Static,
        _ => return None,
    };
    let name = if source == Source::Metadata {
        let length = usize::try_from(half(record, offset_of!(m, key_length))?).ok()?;
        let room = record.get(offset_of!(m, key)..).unwrap_or_default();
        &room[..length
            .min(room.len())
            .min(types::latch_metadata::default().key.len())]
    } else {
        &[]
    };
    Some(Sleep {
        source,
        key,
        stack: word(record, offset_of!(s, stack))?,
        latch: word(record, offset_of!(s, latch))?,
        frame: word(record, offset_of!(s, frame))?,
        file: word(record, offset_of!(s, file))?,
        line: half(record, offset_of!(s, line))?,
        made_file: word(record, offset_of!(s, made_file))?,
        made_line: half(record, offset_of!(s, made_line))?,
        owner: half(record, offset_of!(s, owner))?,
        kind: half(record, offset_of!(s, how))?,
        id: half(record, offset_of!(s, id))?,
        value: half(record, offset_of!(s, value))?,
        mutex_kind: half(record, offset_of!(s, kind))?,
        name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::random;

    #[test]
    fn the_two_shapes_begin_alike() {
        use types::latch_brief as b;
        use types::latch_sleep as s;
        assert_eq!(offset_of!(b, what), offset_of!(s, what));
        assert_eq!(offset_of!(b, source), offset_of!(s, source));
        assert_eq!(offset_of!(b, key), offset_of!(s, key));
        assert_eq!(offset_of!(b, stack), offset_of!(s, stack));
        assert_eq!(offset_of!(b, name), offset_of!(s, name));
    }

    #[test]
    fn any_bytes_are_a_record_or_none() {
        let mut random = random(0x853c_49e6_748f_ea9b);
        let mut seen = [0; 4];
        for _ in 0..50_000 {
            let length = usize::try_from(random() % 420).unwrap();
            let mut record: Vec<u8> = (0..length)
                .map(|_| u8::try_from(random() & 0xff).unwrap())
                .collect();
            let mut put = |at: usize, number: u64, width: usize| {
                if let Some(place) = record.get_mut(at..at + width) {
                    place.copy_from_slice(&number.to_ne_bytes()[..width]);
                }
            };
            put(24, 7 + random() % 2, 2);
            put(offset_of!(types::latch_brief, what), random() % 5, 4);
            put(offset_of!(types::latch_brief, source), random() % 6, 4);
            match parse(&record) {
                Some((_, Record::Sleeps { sleep, .. })) => {
                    assert!(sleep.name.len() <= record.len());
                    seen[0] += 1;
                }
                Some((_, Record::Wakes { .. })) => seen[1] += 1,
                Some((_, Record::Releases { .. })) => seen[2] += 1,
                Some((_, Record::Stack(stack))) => {
                    assert!(stack.frames.len() <= record.len());
                    seen[3] += 1;
                }
                None => {}
            }
        }
        assert!(seen[..3].iter().all(|n| *n > 100), "{seen:?}");
    }
}
