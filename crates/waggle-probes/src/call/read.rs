//! What the kernel half wrote, as Rust values. The bytes are a map's values and ring records: taken
//! as foreign, so that a half that does not fit gives nothing, never a panic.

use std::mem::offset_of;

use super::skeleton::types;
use crate::record;

/// Why a thread was off its processor, in the order of every array of times by reason.
pub const REASONS: [&str; 6] = ["runnable", "futex", "disk", "network", "sleep", "other"];

const SUB: u32 = 32;

/// The values that bucket `bucket` of a histogram counts: from the first on, below the second, ns.
/// Linear to 64 ns, then 32 buckets an octave.
pub fn bucket_bounds(bucket: usize) -> (u64, u64) {
    let bucket = u32::try_from(bucket).unwrap_or(u32::MAX);
    if bucket < 2 * SUB {
        return (u64::from(bucket), u64::from(bucket) + 1);
    }
    let shift = (bucket / SUB - 1).min(58);
    let low = u64::from(bucket - shift * SUB) << shift;
    (low, low + (1 << shift))
}

/// Calls that belong together. Times are ns; those by reason are in the order of [`REASONS`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Series {
    /// The return address, of a series by caller.
    pub caller: u64,
    /// The function's number, likewise.
    pub function: u32,
    /// How many calls.
    pub count: u64,
    /// From their beginnings to their returns.
    pub wall_ns: u64,
    /// Of that, off the processor, by reason.
    pub off_ns: [u64; REASONS.len()],
    /// Of that, waiting for a processor.
    pub queued_ns: u64,
    /// The longest call.
    pub max_ns: u64,
    /// The longest time off the processor in one call.
    pub off_max_ns: u64,
    /// Calls that left their processor.
    pub went_off: u64,
    /// Calls within another call of the same function.
    pub again: u64,
    /// Wall time of the others.
    pub outer_wall_ns: u64,
    /// Of that, off the processor.
    pub outer_off_ns: u64,
    /// Wall time in watched children; what is nested in another child is counted once.
    pub children_ns: u64,
    /// Of that, off the processor.
    pub children_off_ns: u64,
    /// Of a child's: calls within another child.
    pub nested: u64,
    /// And their wall time.
    pub nested_ns: u64,
    /// Calls in which the thread was switched more often than the kernel announced: their time off
    /// the processor is a lower bound.
    pub unannounced: u64,
    /// Calls by their wall time; see [`bucket_bounds`].
    pub wall: Vec<u32>,
    /// Calls that left their processor, by how long.
    pub off: Vec<u32>,
}

impl Series {
    /// All time off the processor, ns.
    pub fn off_sum_ns(&self) -> u64 {
        self.off_ns.iter().sum()
    }

    /// Adds the calls of another series.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.wall_ns += other.wall_ns;
        for (sum, ns) in self.off_ns.iter_mut().zip(other.off_ns) {
            *sum += ns;
        }
        self.queued_ns += other.queued_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
        self.off_max_ns = self.off_max_ns.max(other.off_max_ns);
        self.went_off += other.went_off;
        self.again += other.again;
        self.outer_wall_ns += other.outer_wall_ns;
        self.outer_off_ns += other.outer_off_ns;
        self.children_ns += other.children_ns;
        self.children_off_ns += other.children_off_ns;
        self.nested += other.nested;
        self.nested_ns += other.nested_ns;
        self.unannounced += other.unannounced;
        let sum = |mine: &mut Vec<u32>, others: &[u32]| {
            mine.resize(mine.len().max(others.len()), 0);
            for (mine, other) in mine.iter_mut().zip(others) {
                *mine += other;
            }
        };
        sum(&mut self.wall, &other.wall);
        sum(&mut self.off, &other.off);
    }

    pub(super) fn parse(value: &[u8]) -> Option<Self> {
        use types::call_series as at;
        if value.len() < size_of::<at>() {
            return None;
        }
        let buckets = |from: usize| {
            let bytes = &value[from..from + BUCKETS * 4];
            bytes.chunks_exact(4).map(|b| half(b, 0)).collect()
        };
        Some(Self {
            caller: word(value, offset_of!(at, caller)),
            function: half(value, offset_of!(at, function)),
            count: word(value, offset_of!(at, count)),
            wall_ns: word(value, offset_of!(at, wall_ns)),
            off_ns: by_reason(value, offset_of!(at, off_ns)),
            queued_ns: word(value, offset_of!(at, queued_ns)),
            max_ns: word(value, offset_of!(at, max_ns)),
            off_max_ns: word(value, offset_of!(at, off_max_ns)),
            went_off: word(value, offset_of!(at, went_off)),
            again: word(value, offset_of!(at, again)),
            outer_wall_ns: word(value, offset_of!(at, outer_wall_ns)),
            outer_off_ns: word(value, offset_of!(at, outer_off_ns)),
            children_ns: word(value, offset_of!(at, children_ns)),
            children_off_ns: word(value, offset_of!(at, children_off_ns)),
            nested: word(value, offset_of!(at, nested)),
            nested_ns: word(value, offset_of!(at, nested_ns)),
            unannounced: word(value, offset_of!(at, unannounced)),
            wall: buckets(offset_of!(at, wall)),
            off: buckets(offset_of!(at, off)),
        })
    }
}

const BUCKETS: usize =
    (offset_of!(types::call_series, off) - offset_of!(types::call_series, wall)) / 4;

/// A call as long as was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowCall {
    /// When it began, ns of the monotonic clock.
    pub start_ns: u64,
    /// When it returned.
    pub end_ns: u64,
    /// Off the processor, by reason.
    pub off_ns: [u64; REASONS.len()],
    /// Of that, waiting for a processor.
    pub queued_ns: u64,
    /// In watched children.
    pub children_ns: u64,
    /// The longest time off the processor at a stretch.
    pub longest_ns: u64,
    /// Why that was: an index into [`REASONS`].
    pub longest_reason: usize,
    /// The function's number.
    pub function: u32,
    /// The thread.
    pub tid: u32,
    /// The thread's name.
    pub comm: String,
    /// Return addresses, the caller's first; empty if they were not to be had.
    pub stack: Vec<u64>,
}

impl SlowCall {
    pub(super) fn parse(record: &[u8]) -> Option<Self> {
        use types::call_event as at;
        if record.len() < size_of::<at>() {
            return None;
        }
        let comm = &record[offset_of!(at, comm)..offset_of!(at, comm) + 16];
        let comm = comm.split(|b| *b == 0).next().unwrap_or_default();
        let bytes = half(record, offset_of!(at, stack_bytes)).cast_signed();
        let bytes = usize::try_from(bytes).unwrap_or(0);
        let stack = &record[offset_of!(at, stack)..];
        let stack = &stack[..bytes.min(stack.len())];
        Some(Self {
            start_ns: word(record, offset_of!(at, start_ns)),
            end_ns: word(record, offset_of!(at, end_ns)),
            off_ns: by_reason(record, offset_of!(at, off_ns)),
            queued_ns: word(record, offset_of!(at, queued_ns)),
            children_ns: word(record, offset_of!(at, children_ns)),
            longest_ns: word(record, offset_of!(at, longest_ns)),
            longest_reason: (half(record, offset_of!(at, longest_reason)) as usize)
                .min(REASONS.len() - 1),
            function: half(record, offset_of!(at, function)),
            tid: half(record, offset_of!(at, tid)),
            comm: String::from_utf8_lossy(comm).into_owned(),
            stack: stack.chunks_exact(8).map(|b| word(b, 0)).collect(),
        })
    }
}

/// What was counted beside the calls; each is a number of calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Seen to begin.
    pub entries: u64,
    /// Of these, seen to return.
    pub returns: u64,
    /// Began before counting did, and returned after: in no figure.
    pub early: u64,
    /// Returns of chosen functions that were not seen to begin.
    pub alone: u64,
    /// Left without returning (`longjmp`), or not seen to.
    pub missed: u64,
    /// Their thread ended.
    pub ended: u64,
    /// Deeper than can be followed.
    pub deep: u64,
    /// Of children, outside every chosen function.
    pub outside: u64,
    /// Of threads for which there was no room.
    pub threads_full: u64,
    /// Without room for their caller.
    pub callers_full: u64,
    /// As long as was asked for.
    pub slow: u64,
    /// Of these, lost because the ring buffer was full.
    pub slow_lost: u64,
}

impl Counters {
    pub(super) const PLACES: [usize; 12] = [
        offset_of!(types::call_counters, entries),
        offset_of!(types::call_counters, returns),
        offset_of!(types::call_counters, early),
        offset_of!(types::call_counters, alone),
        offset_of!(types::call_counters, missed),
        offset_of!(types::call_counters, ended),
        offset_of!(types::call_counters, deep),
        offset_of!(types::call_counters, outside),
        offset_of!(types::call_counters, threads_full),
        offset_of!(types::call_counters, callers_full),
        offset_of!(types::call_counters, slow),
        offset_of!(types::call_counters, slow_lost),
    ];

    pub(super) fn of(sums: [u64; 12]) -> Self {
        let [
            entries,
            returns,
            early,
            alone,
            missed,
            ended,
            deep,
            outside,
            threads_full,
            callers_full,
            slow,
            slow_lost,
        ] = sums;
        Self {
            entries,
            returns,
            early,
            alone,
            missed,
            ended,
            deep,
            outside,
            threads_full,
            callers_full,
            slow,
            slow_lost,
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    record::word(bytes, at).unwrap_or(0)
}

fn half(bytes: &[u8], at: usize) -> u32 {
    record::half(bytes, at).unwrap_or(0)
}

fn by_reason(bytes: &[u8], at: usize) -> [u64; REASONS.len()] {
    std::array::from_fn(|reason| word(bytes, at + 8 * reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::call_reason;

    #[test]
    fn reasons_are_numbered_as_in_the_kernel_half() {
        let kernel = [
            call_reason::CALL_AWAY_RUNNABLE,
            call_reason::CALL_AWAY_FUTEX,
            call_reason::CALL_AWAY_DISK,
            call_reason::CALL_AWAY_NETWORK,
            call_reason::CALL_AWAY_SLEEP,
            call_reason::CALL_AWAY_OTHER,
        ];
        assert_eq!(call_reason::CALL_REASONS.0 as usize, REASONS.len());
        for (kernel, place) in kernel.iter().zip(0..) {
            assert_eq!(kernel.0, place);
        }
    }

    #[test]
    fn buckets_touch_and_are_at_most_a_32nd_wide() {
        for bucket in 0..BUCKETS {
            let (low, high) = bucket_bounds(bucket);
            assert_eq!(bucket_bounds(bucket + 1).0, high, "bucket {bucket}");
            assert!(high - low <= (low / 32).max(1), "bucket {bucket}");
        }
        assert_eq!(bucket_bounds(0), (0, 1));
        assert_eq!(bucket_bounds(64), (64, 66));
        assert!(bucket_bounds(BUCKETS - 1).1 >= 1 << 42);
    }

    #[test]
    fn bytes_of_any_length_and_content_never_panic() {
        let mut seed = 6u64;
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            seed.to_le_bytes()[7]
        };
        let whole = size_of::<types::call_event>().max(size_of::<types::call_series>());
        let mut bytes = vec![0u8; whole];
        for round in 0..2000 {
            bytes.iter_mut().for_each(|byte| *byte = next());
            let length = usize::from(next()) * whole / 255;
            let slow = SlowCall::parse(&bytes[..length]);
            assert!(
                slow.is_none_or(|slow| slow.stack.len() <= whole / 8),
                "{round}"
            );
            let _ = Series::parse(&bytes[..length]);
        }
        assert_eq!(SlowCall::parse(&[]), None);
        assert_eq!(Series::parse(&[]), None);
    }
}
