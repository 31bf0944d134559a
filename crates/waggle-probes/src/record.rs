//! What do the records of all trace programs share? Their heads, stacks, and numbers in bytes.
//!
//! Neighbours: `timeline`, `latch`, `point` and `sample` read what comes behind the head, others
//! the numbers of their own maps and records. Invariant: nothing is read beyond a record's bytes;
//! what is too short is no record.

use std::mem::offset_of;

use crate::timeline::types;

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

/// A stack that other records name by its number; some of them may come before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stack<'a> {
    /// The number.
    pub number: u64,
    /// Where it ends.
    pub end: StackEnd,
    /// The addresses, innermost first, 8 bytes each; for [`addresses`].
    pub frames: &'a [u8],
}

/// The bytes at this place, for a number of that size or a name.
pub(crate) fn bytes<const N: usize>(record: &[u8], at: usize) -> Option<[u8; N]> {
    record.get(at..at.checked_add(N)?)?.try_into().ok()
}

pub(crate) fn word(record: &[u8], at: usize) -> Option<u64> {
    bytes(record, at).map(u64::from_ne_bytes)
}

pub(crate) fn half(record: &[u8], at: usize) -> Option<u32> {
    bytes(record, at).map(u32::from_ne_bytes)
}

pub(crate) fn quarter(record: &[u8], at: usize) -> Option<u16> {
    bytes(record, at).map(u16::from_ne_bytes)
}

/// The number of the kind of a record that is a [`Stack`].
pub(crate) const STACK_KIND: u32 = types::trace_kind::TRACE_STACK.0;

/// The head of a record and the number of its kind.
pub(crate) fn head(record: &[u8]) -> Option<(Head, u32)> {
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

/// A record of a stack, of any trace program.
pub(crate) fn stack(record: &[u8]) -> Option<Stack<'_>> {
    use types::unwind_end as e;
    use types::unwind_stack as t;
    let count = usize::try_from(half(record, offset_of!(t, count))?).ok()?;
    let at = offset_of!(t, frames);
    Some(Stack {
        number: word(record, offset_of!(t, number))?,
        end: match half(record, offset_of!(t, end))? {
            n if n == e::UNWIND_WHOLE.0 => StackEnd::Whole,
            n if n == e::UNWIND_TOO_DEEP.0 => StackEnd::TooDeep,
            _ => StackEnd::Cut,
        },
        frames: record.get(at..at.checked_add(count.checked_mul(8)?)?)?,
    })
}

/// The addresses of a [`Stack`].
pub fn addresses(frames: &[u8]) -> impl Iterator<Item = u64> + '_ {
    frames
        .as_chunks::<8>()
        .0
        .iter()
        .map(|chunk| u64::from_ne_bytes(*chunk))
}

/// Numbers to make records of that nobody wrote.
#[cfg(test)]
pub(crate) fn random(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 11
    }
}
