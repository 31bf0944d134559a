//! How one thread counts durations without costing the thread anything.
//!
//! Buckets are log-linear: 128 to every doubling, found by counting leading zeros, so a value is
//! known to 0.8% from a nanosecond to over an hour. `tally` holds a thread's recorders; readers
//! add them up into a [`LatencyHistogram`].
//!
//! Invariants: a recorder has one writer, which uses plain loads and stores; nothing is ever
//! reset, so two readings give the interval between; memory that no value needed is never touched
//! (a page holds four doublings, and a thread's durations rarely span more than three pages).

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use waggle_stats::latency::{Exact, LatencyHistogram};

/// Bits of a value below its highest one that tell buckets apart.
const SUB_BITS: u32 = 7;
const SUB_BUCKETS: u64 = 1 << SUB_BITS;
/// The first value above the range; durations from here on count as the largest below it: 73 min.
const RANGE_NS: u64 = 1 << 42;
const BUCKETS: usize = ((42 - SUB_BITS as usize) + 1) * SUB_BUCKETS as usize;

fn index_of(value_ns: u64) -> usize {
    if value_ns < SUB_BUCKETS {
        return value_ns as usize;
    }
    let shift = 63 - value_ns.leading_zeros() - SUB_BITS;
    (((u64::from(shift) + 1) << SUB_BITS) + ((value_ns >> shift) - SUB_BUCKETS)) as usize
}

/// The middle of a bucket.
fn value_of(index: usize) -> u64 {
    let index = index as u64;
    if index < SUB_BUCKETS {
        return index;
    }
    let shift = (index >> SUB_BITS) - 1;
    let low = ((index & (SUB_BUCKETS - 1)) + SUB_BUCKETS) << shift;
    low + (1 << shift) / 2
}

/// A counter with one writer.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// To be called by the one writer.
    #[inline]
    pub(crate) fn add_by_owner(&self, count: u64) {
        let sum = self.0.load(Ordering::Relaxed).wrapping_add(count);
        self.0.store(sum, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Durations of one thread, in nanoseconds. The counters lie on cache lines of their own.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Recorder {
    buckets: Buckets,
    sum_ns: Counter,
    /// One more than the smallest; 0 when nothing was recorded.
    min_plus_one: AtomicU64,
    max_ns: AtomicU64,
}

impl Recorder {
    pub(crate) fn new() -> Recorder {
        Recorder {
            buckets: Buckets::new(),
            sum_ns: Counter::default(),
            min_plus_one: AtomicU64::new(0),
            max_ns: AtomicU64::new(0),
        }
    }

    /// To be called by the one writer.
    #[inline]
    pub(crate) fn record(&self, duration_ns: u64) {
        let value = duration_ns.min(RANGE_NS - 1);
        // The range is widened before the bucket is filled: readers look inside it only.
        if value > self.max_ns.load(Ordering::Relaxed) {
            self.max_ns.store(value, Ordering::Relaxed);
        }
        let min_plus_one = self.min_plus_one.load(Ordering::Relaxed);
        if min_plus_one == 0 || value + 1 < min_plus_one {
            self.min_plus_one.store(value + 1, Ordering::Relaxed);
        }
        self.sum_ns.add_by_owner(value);
        self.buckets.all()[index_of(value)].add_by_owner(1);
    }

    /// Adds everything recorded so far. A value that is being recorded meanwhile may be missing.
    pub(crate) fn add_to(&self, sum: &mut Totals) {
        let min_plus_one = self.min_plus_one.load(Ordering::Relaxed);
        if min_plus_one == 0 {
            return;
        }
        let (min_ns, max_ns) = (min_plus_one - 1, self.max_ns.load(Ordering::Relaxed));
        sum.min_ns = sum.min_ns.min(min_ns);
        sum.max_ns = sum.max_ns.max(max_ns);
        sum.sum_ns += u128::from(self.sum_ns.read());
        let touched = index_of(min_ns)..=index_of(max_ns).max(index_of(min_ns));
        for (total, bucket) in sum.counts[touched.clone()]
            .iter_mut()
            .zip(&self.buckets.all()[touched])
        {
            *total += bucket.read();
        }
    }
}

/// What several recorders counted.
#[derive(Debug)]
pub(crate) struct Totals {
    counts: Vec<u64>,
    min_ns: u64,
    max_ns: u64,
    sum_ns: u128,
}

impl Totals {
    pub(crate) fn new() -> Totals {
        Totals {
            counts: vec![0; BUCKETS],
            min_ns: u64::MAX,
            max_ns: 0,
            sum_ns: 0,
        }
    }

    /// Hands out the sum and starts over.
    pub(crate) fn take(&mut self) -> LatencyHistogram {
        let mut histogram = LatencyHistogram::new();
        if self.min_ns > self.max_ns {
            return histogram;
        }
        let touched = index_of(self.min_ns)..=index_of(self.max_ns);
        let counts = &mut self.counts[touched.clone()];
        let bars = touched.zip(counts.iter().copied());
        let exact = Exact {
            min_ns: self.min_ns,
            max_ns: self.max_ns,
            sum_ns: self.sum_ns,
        };
        histogram.add_bars(bars.map(|(index, count)| (value_of(index), count)), exact);
        counts.fill(0);
        (self.min_ns, self.max_ns, self.sum_ns) = (u64::MAX, 0, 0);
        histogram
    }
}

/// Zeroed counters on pages of their own that cost nothing until they are touched.
#[derive(Debug)]
struct Buckets(NonNull<Counter>);

const BUCKET_BYTES: usize = BUCKETS * size_of::<Counter>();

// SAFETY: the memory belongs to this value alone and holds atomics.
unsafe impl Send for Buckets {}
// SAFETY: as above.
unsafe impl Sync for Buckets {}

impl Buckets {
    fn new() -> Buckets {
        // SAFETY: a new private mapping; nothing else is changed by it.
        let memory = unsafe {
            let (protection, flags) = (
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            );
            libc::mmap(std::ptr::null_mut(), BUCKET_BYTES, protection, flags, -1, 0)
        };
        let address = NonNull::new(memory.cast::<Counter>())
            .filter(|_| memory != libc::MAP_FAILED)
            // As for any other allocation that fails.
            .unwrap_or_else(|| panic!("no memory: {}", io::Error::last_os_error()));
        // A huge page would touch what nobody asked for. A kernel without them refuses; fine.
        // SAFETY: the mapping made above.
        let _ = unsafe { libc::madvise(memory, BUCKET_BYTES, libc::MADV_NOHUGEPAGE) };
        Buckets(address)
    }

    #[inline]
    fn all(&self) -> &[Counter; BUCKETS] {
        // SAFETY: the mapping is as long as this, zeroed (a counter of zero), page-aligned, and
        // lives as long as `self`; counters are changed through shared references only.
        unsafe { &*self.0.as_ptr().cast::<[Counter; BUCKETS]>() }
    }
}

impl Drop for Buckets {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length, unmapped once.
        unsafe { libc::munmap(self.0.as_ptr().cast(), BUCKET_BYTES) };
    }
}

/// A sum with one writer, of any numbers.
#[derive(Debug, Default)]
pub(crate) struct Sum(AtomicU64);

impl Sum {
    /// To be called by the one writer.
    pub(crate) fn add_by_owner(&self, amount: f64) {
        self.0
            .store((self.read() + amount).to_bits(), Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_within_eight_permille_of_its_buckets_middle() {
        let mut value = 1_u64;
        while value < RANGE_NS {
            let index = index_of(value);
            assert!(index < BUCKETS);
            let middle = value_of(index);
            let error = middle.abs_diff(value) as f64 / value as f64;
            assert!(error <= 0.004, "{value}: {middle}");
            assert_eq!(index_of(middle), index);
            value += 1 + value / 977;
        }
        assert_eq!(index_of(RANGE_NS - 1), BUCKETS - 1);
    }

    #[test]
    fn buckets_follow_one_another_without_a_gap() {
        let starts = (0..BUCKETS).map(|index| match index as u64 {
            index if index < SUB_BUCKETS => index,
            index => (index % SUB_BUCKETS + SUB_BUCKETS) << (index / SUB_BUCKETS - 1),
        });
        for (index, start) in starts.enumerate().skip(1) {
            assert_eq!((index_of(start - 1), index_of(start)), (index - 1, index));
        }
    }

    #[test]
    fn totals_keep_count_sum_least_and_most_exactly() {
        let (one, two) = (Recorder::new(), Recorder::new());
        for value in [1_000_003, 5, 70_000_007] {
            one.record(value);
        }
        two.record(3_000);
        two.record(u64::MAX);
        let mut totals = Totals::new();
        for recorder in [&one, &two] {
            recorder.add_to(&mut totals);
        }
        let histogram = totals.take();
        assert_eq!(histogram.count(), 5);
        assert_eq!(histogram.min_ns(), 5);
        let largest = waggle_stats::latency::LATENCY_NS_MAX;
        assert_eq!((histogram.max_ns(), histogram.clamped()), (largest, 1));
        assert!(totals.take().is_empty());
        one.add_to(&mut totals);
        let histogram = totals.take();
        assert_eq!(
            (histogram.min_ns(), histogram.max_ns(), histogram.sum_ns()),
            (5, 70_000_007, 71_000_015)
        );
    }
}
