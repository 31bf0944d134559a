//! A record of a point, as the kernel half wrote it.
//!
//! Invariant: no byte is read beyond the record's length; a short or odd record is none.

use std::mem::offset_of;

use super::skeleton::types;
use crate::record::{addresses, half, head, quarter, word};

/// What a thread did at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PointRecord<'a> {
    /// When, ns of the monotonic clock.
    pub ns: u64,
    /// When the thread began, ns of the boot clock; 0 if not known.
    pub began_ns: u64,
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub tgid: u32,
    /// On which processor.
    pub cpu: u16,
    /// Records that this processor had lost by then.
    pub lost: u32,
    /// The point.
    pub point: u16,
    /// The value; 0 if it could not be read.
    pub value: u64,
    /// The second value, likewise.
    pub second: u64,
    /// The value's memory could not be read: `value` says nothing.
    pub value_unread: bool,
    /// The second's could not.
    pub second_unread: bool,
    /// The word on top of the stack where that is the return address, else 0.
    pub top: u64,
    frames: &'a [u8],
}

impl<'a> PointRecord<'a> {
    /// Parses a record; `None` if it is not one of a point.
    pub fn parse(record: &'a [u8]) -> Option<Self> {
        use types::point_record as body;
        let (head, kind) = head(record)?;
        if kind != types::trace_kind::TRACE_POINT.0 {
            return None;
        }
        let unread = half(record, offset_of!(body, unread))?;
        let count = usize::from(quarter(record, offset_of!(body, frames))?);
        let frames = record.get(size_of::<body>()..)?;
        let frames = frames.get(..count * 8)?;
        Some(Self {
            ns: head.ns,
            began_ns: head.began_ns,
            tid: head.tid,
            tgid: head.tgid,
            cpu: head.cpu,
            lost: head.lost,
            point: quarter(record, offset_of!(body, point))?,
            value: word(record, offset_of!(body, value))?,
            second: word(record, offset_of!(body, second))?,
            value_unread: unread & 1 != 0,
            second_unread: unread & 2 != 0,
            top: word(record, offset_of!(body, top))?,
            frames,
        })
    }

    /// Where the thread was: addresses, innermost first. The caller of a function whose entry
    /// this is, which has not made a frame of its own yet, is put in if the kernel left it out.
    pub fn frames(&self) -> impl Iterator<Item = u64> + '_ {
        let mut words = addresses(self.frames);
        let first = words.next();
        let mut rest = words.peekable();
        let is_there = self.top == 0 || rest.peek() == Some(&self.top);
        let caller = (first.is_some() && !is_there).then_some(self.top);
        first.into_iter().chain(caller).chain(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(frames: &[u64], top: u64) -> Vec<u8> {
        let mut bytes = vec![0; size_of::<types::point_record>()];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        let kind = u16::try_from(types::trace_kind::TRACE_POINT.0).unwrap();
        put(offset_of!(types::trace_head, kind), &kind.to_ne_bytes());
        put(offset_of!(types::trace_head, ns), &7u64.to_ne_bytes());
        put(offset_of!(types::point_record, top), &top.to_ne_bytes());
        let count = u16::try_from(frames.len()).unwrap();
        put(
            offset_of!(types::point_record, frames),
            &count.to_ne_bytes(),
        );
        for frame in frames {
            bytes.extend(frame.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn the_caller_is_put_in_once() {
        let frames = |bytes: &[u8]| -> Vec<u64> {
            let record = PointRecord::parse(bytes).unwrap();
            record.frames().collect()
        };
        assert_eq!(frames(&record(&[1, 3], 2)), [1, 2, 3]);
        assert_eq!(frames(&record(&[1, 2, 3], 2)), [1, 2, 3]);
        assert_eq!(frames(&record(&[1, 3], 0)), [1, 3]);
        assert_eq!(frames(&record(&[1], 2)), [1, 2]);
        assert_eq!(frames(&record(&[], 2)), [0u64; 0]);
    }

    #[test]
    fn a_cut_or_damaged_record_is_none_or_within_its_bytes() {
        let whole = record(&[1, 2, 3], 2);
        for length in 0..whole.len() {
            assert!(PointRecord::parse(&whole[..length]).is_none(), "{length}");
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xff;
            if let Some(record) = PointRecord::parse(&damaged) {
                assert!(record.frames().count() <= 4);
            }
        }
    }
}
