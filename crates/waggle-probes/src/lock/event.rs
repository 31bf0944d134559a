//! What one event of the lock probe says.
//!
//! Invariant: any bytes of the right length are an event or none; nothing is trusted beyond that.

use super::skeleton::types;
use crate::plain::{Plain, value_in};

/// A session of the server, as a probe saw it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Thread {
    /// Address of its `THD`; 0 if not known.
    pub thd: u64,
    /// Connection id; 0 if it could not be read, or if the thread serves no connection.
    pub connection_id: u64,
}

/// What was reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockReport<'a> {
    /// `waiter` waits, or is about to wait, for a row or table lock of `blocker`.
    RowEdge {
        /// Who waits.
        waiter: Thread,
        /// For whom.
        blocker: Thread,
    },
    /// A wait for a lock of the storage engine begins.
    RowBegin {
        /// Who waits.
        waiter: Thread,
        /// For a table's lock, not a row's.
        is_table: bool,
    },
    /// It ended, however.
    RowEnd {
        /// Who waited.
        waiter: Thread,
    },
    /// The engine found a deadlock and chose a victim.
    RowDeadlock {
        /// Who is rolled back.
        victim: Thread,
        /// The members, in the order of the cycle, as addresses of `THD` and connection ids.
        members: (&'a [u64], &'a [u64]),
    },
    /// Two members of a deadlock that the reporting thread found.
    RowPair {
        /// One of them.
        one: Thread,
        /// Another.
        two: Thread,
    },
    /// A wait for a metadata lock begins, or goes on.
    MetadataBegin {
        /// Who waits.
        waiter: Thread,
        /// Its `MDL_context`.
        context: u64,
        /// The end of this wait is the end of all of it.
        is_final: bool,
    },
    /// It ended, or a part of it.
    MetadataEnd {
        /// Who waited.
        waiter: Thread,
        /// Its `MDL_context`.
        context: u64,
        /// It was granted, refused or killed; else time passed, and it may go on.
        is_decided: bool,
    },
    /// A search for blockers comes to a waiter.
    MetadataFrom {
        /// Who waits; its `THD` may not be known.
        waiter: Thread,
        /// Its `MDL_context`.
        context: u64,
        /// Steps from where the search began.
        depth: u32,
        /// The mode asked for, as the server numbers it.
        mode: u32,
        /// Key of the lock: kind of object, database, NUL, name, NUL; empty if unreadable.
        key: &'a [u8],
    },
    /// The search goes on to a blocker of the last [`MetadataFrom`](Self::MetadataFrom) that was
    /// one step nearer to where it began.
    MetadataBy {
        /// Who blocks; its `THD` may not be known.
        blocker: Thread,
        /// Its `MDL_context`.
        context: u64,
        /// Steps from where the search began, of the blocker.
        depth: u32,
    },
    /// The search found a deadlock; this is its victim.
    MetadataVictim {
        /// Who is to give way.
        victim: Thread,
        /// Its `MDL_context`.
        context: u64,
    },
}

/// One report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockEvent<'a> {
    /// When, ns of the monotonic clock.
    pub time_ns: u64,
    /// The thread that reports.
    pub tid: u32,
    /// What.
    pub report: LockReport<'a>,
}

impl<'a> LockEvent<'a> {
    pub(super) fn parse(record: &'a [u8]) -> Option<Self> {
        let event: &types::lock_event = value_in(record)?;
        let one = Thread {
            thd: event.one,
            connection_id: event.one_id,
        };
        let two = Thread {
            thd: event.two,
            connection_id: event.two_id,
        };
        let context = event.two;
        let report = match event.kind {
            0 => LockReport::RowEdge {
                waiter: one,
                blocker: two,
            },
            1 => LockReport::RowBegin {
                waiter: one,
                is_table: event.value == 6,
            },
            2 => LockReport::RowEnd { waiter: one },
            3 => {
                let deadlock: &types::lock_deadlock = value_in(record)?;
                let count = usize::try_from(event.count).ok()?.min(deadlock.thd.len());
                LockReport::RowDeadlock {
                    victim: one,
                    members: (&deadlock.thd[..count], &deadlock.id[..count]),
                }
            }
            4 => LockReport::RowPair { one, two },
            5 => LockReport::MetadataBegin {
                waiter: one,
                context,
                is_final: event.value != 0,
            },
            6 => LockReport::MetadataEnd {
                waiter: one,
                context,
                is_decided: event.value != 0,
            },
            7 => {
                let metadata: &types::lock_metadata = value_in(record)?;
                let length = usize::try_from(metadata.key_length).ok()?;
                let room = metadata.key.len() - 4;
                LockReport::MetadataFrom {
                    waiter: one,
                    context,
                    depth: event.count,
                    mode: event.value,
                    key: bytes_of(&metadata.key[..length.min(room)]),
                }
            }
            8 => LockReport::MetadataBy {
                blocker: one,
                context,
                depth: event.count,
            },
            9 => LockReport::MetadataVictim {
                victim: one,
                context,
            },
            _ => return None,
        };
        Some(Self {
            time_ns: event.time_ns,
            tid: event.tid,
            report,
        })
    }
}

// SAFETY: integers without padding.
unsafe impl Plain for types::lock_event {}
// SAFETY: integers without padding.
unsafe impl Plain for types::lock_deadlock {}
// SAFETY: integers without padding.
unsafe impl Plain for types::lock_metadata {}

/// C's `char` as bytes.
fn bytes_of(characters: &[i8]) -> &[u8] {
    // SAFETY: both are one byte without padding, and any byte is valid.
    unsafe { std::slice::from_raw_parts(characters.as_ptr().cast(), characters.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every length and kind, with and without damage: an event, or none, and never more bytes
    /// than there are.
    #[test]
    fn any_bytes_are_an_event_or_none() {
        let words: Vec<u64> = (0..64).map(|n| n * 0x0101_0101_0101_0101).collect();
        for kind in 0..32u32 {
            for length in 0..=words.len() * 8 {
                let mut words = words.clone();
                let at = std::mem::offset_of!(types::lock_event, kind);
                words[at / 8] = u64::from(kind) << 32 | 77;
                // SAFETY: plain integers, alive as long as the slice.
                let bytes = unsafe {
                    std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), words.len() * 8)
                };
                let parsed = LockEvent::parse(&bytes[..length]);
                let whole = match kind {
                    3 => size_of::<types::lock_deadlock>(),
                    7 => size_of::<types::lock_metadata>(),
                    0..=9 => size_of::<types::lock_event>(),
                    _ => usize::MAX,
                };
                assert_eq!(parsed.is_some(), length >= whole, "{kind} {length}");
                match parsed.map(|event| event.report) {
                    Some(LockReport::RowDeadlock { members, .. }) => {
                        assert!(members.0.len() == members.1.len() && members.0.len() <= 16);
                    }
                    Some(LockReport::MetadataFrom { key, .. }) => assert!(key.len() <= 192),
                    _ => {}
                }
            }
        }
    }
}
