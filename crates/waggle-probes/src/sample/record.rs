//! What does a record of the sampling probe say?
//!
//! Neighbour: `timeline::record` reads heads and stacks, which all trace programs share. Invariant:
//! a record that is too short, or of a kind that is not known, is no record; nothing is read beyond
//! its bytes.

use super::types;
use crate::timeline::{self, Head, Name};

/// A thread that was on a processor when the clock ticked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample<'a> {
    /// The number of the stack of its own calls; 0: it has none, or they could not be walked.
    pub stack: u64,
    /// True if it ran in the kernel.
    pub in_kernel: bool,
    /// The thread's name.
    pub name: Name,
    /// The addresses of the kernel's calls, innermost first, 8 bytes each; for
    /// [`timeline::addresses`].
    pub kernel: &'a [u8],
}

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record<'a> {
    /// A sample.
    Sample(Sample<'a>),
    /// A stack that samples name by its number: [`timeline::Record::Stack`].
    Stack(timeline::Record<'a>),
}

fn half(record: &[u8], at: usize) -> Option<u32> {
    let bytes = record.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

/// A record of this probe.
pub(super) fn parse(record: &[u8]) -> Option<(Head, Record<'_>)> {
    use std::mem::offset_of;
    use types::sample_record as t;
    let (head, kind) = timeline::head(record)?;
    if kind != types::sample_kind::SAMPLE_TAKEN.0 {
        // Of the other kinds, stacks alone are written here.
        let stack = (kind == timeline::STACK_KIND).then(|| timeline::stack(record));
        return Some((head, Record::Stack(stack??)));
    }
    let stack = record.get(offset_of!(t, stack)..offset_of!(t, stack) + 8)?;
    let name = record.get(offset_of!(t, name)..offset_of!(t, name) + 16)?;
    let count = usize::try_from(half(record, offset_of!(t, count))?).ok()?;
    let frames = offset_of!(t, frames);
    let sample = Sample {
        stack: u64::from_ne_bytes(stack.try_into().ok()?),
        in_kernel: half(record, offset_of!(t, in_kernel))? != 0,
        name: Name::from_bytes(name.try_into().ok()?),
        kernel: record.get(frames..frames.checked_add(count.checked_mul(8)?)?)?,
    };
    Some((head, Record::Sample(sample)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_are_a_record_or_none() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state >> 11
        };
        let mut samples = 0;
        for _ in 0..20_000 {
            let length = usize::try_from(random() % 256).unwrap();
            let mut record: Vec<u8> = (0..length)
                .map(|_| u8::try_from(random() & 0xff).unwrap())
                .collect();
            let kind = [types::sample_kind::SAMPLE_TAKEN.0, timeline::STACK_KIND, 3];
            let kind = kind[usize::try_from(random() % 3).unwrap()];
            if let Some(bytes) = record.get_mut(24..26) {
                bytes.copy_from_slice(&u16::try_from(kind).unwrap().to_ne_bytes());
            }
            // A count that fits, sometimes.
            let at = std::mem::offset_of!(types::sample_record, count);
            if let Some(bytes) = record.get_mut(at..at + 4) {
                bytes.copy_from_slice(&u32::try_from(random() % 24).unwrap().to_ne_bytes());
            }
            if let Some((_, Record::Sample(sample))) = parse(&record) {
                samples += 1;
                assert!(timeline::addresses(sample.kernel).count() * 8 <= record.len());
            }
        }
        assert!(samples > 100, "{samples}");
    }
}
