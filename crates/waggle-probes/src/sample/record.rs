//! What does a record of the sampling probe say?
//!
//! Neighbour: `crate::record` reads heads and stacks, which all trace programs share. Invariant: a
//! record that is too short, or of a kind that is not known, is no record; nothing is read beyond
//! its bytes.

use std::mem::offset_of;

use super::types;
use crate::record::{Head, Name, STACK_KIND, Stack, bytes, half, head, stack, word};

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
    /// [`addresses`](crate::timeline::addresses).
    pub kernel: &'a [u8],
}

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record<'a> {
    /// A sample.
    Sample(Sample<'a>),
    /// A stack that samples name by its number.
    Stack(Stack<'a>),
}

/// A record of this probe.
pub(super) fn parse(record: &[u8]) -> Option<(Head, Record<'_>)> {
    use types::sample_record as t;
    let (head, kind) = head(record)?;
    if kind == STACK_KIND {
        return Some((head, Record::Stack(stack(record)?)));
    }
    if kind != types::sample_kind::SAMPLE_TAKEN.0 {
        return None;
    }
    let count = usize::try_from(half(record, offset_of!(t, count))?).ok()?;
    let frames = offset_of!(t, frames);
    let sample = Sample {
        stack: word(record, offset_of!(t, stack))?,
        in_kernel: half(record, offset_of!(t, in_kernel))? != 0,
        name: bytes(record, offset_of!(t, name)).map(Name::from_bytes)?,
        kernel: record.get(frames..frames.checked_add(count.checked_mul(8)?)?)?,
    };
    Some((head, Record::Sample(sample)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{addresses, random};

    #[test]
    fn any_bytes_are_a_record_or_none() {
        let mut random = random(0x9e37_79b9_7f4a_7c15);
        let mut samples = 0;
        for _ in 0..20_000 {
            let length = usize::try_from(random() % 256).unwrap();
            let mut record: Vec<u8> = (0..length)
                .map(|_| u8::try_from(random() & 0xff).unwrap())
                .collect();
            let kind = [types::sample_kind::SAMPLE_TAKEN.0, STACK_KIND, 3];
            let kind = kind[usize::try_from(random() % 3).unwrap()];
            if let Some(bytes) = record.get_mut(24..26) {
                bytes.copy_from_slice(&u16::try_from(kind).unwrap().to_ne_bytes());
            }
            // A count that fits, sometimes.
            let at = offset_of!(types::sample_record, count);
            if let Some(bytes) = record.get_mut(at..at + 4) {
                bytes.copy_from_slice(&u32::try_from(random() % 24).unwrap().to_ne_bytes());
            }
            if let Some((_, Record::Sample(sample))) = parse(&record) {
                samples += 1;
                assert!(addresses(sample.kernel).count() * 8 <= record.len());
            }
        }
        assert!(samples > 100, "{samples}");
    }
}
