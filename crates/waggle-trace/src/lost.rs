//! Which records did each processor lose, and since when?
//!
//! Every record has its processor's count so far, so that the next one that is written tells of a
//! loss before it. Neighbours: the readers of the scheduler's records and of the points'.
//!
//! Invariant: a loss is told once, before the first record that was written after it, or at the
//! end.

use rustc_hash::FxHashMap;

use crate::event::{Event, Thread, What};

/// What is known of the losses of each processor.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    /// Records lost so far, and when the last one was written.
    processors: FxHashMap<u16, (u32, u64)>,
    sum: u64,
}

impl Lost {
    /// Takes note of a record of `ns` and of what its processor had lost by then; returns the loss
    /// before it.
    pub(crate) fn before(&mut self, cpu: u16, ns: u64, lost: u32) -> Option<What> {
        // Of what was lost before a processor's first record, the beginning is not known.
        let (known, last_ns) = self.processors.entry(cpu).or_insert((0, 0));
        let count = lost.wrapping_sub(*known);
        let since_ns = *last_ns;
        *last_ns = ns.max(*last_ns);
        // A record may come in the midst of another of this processor, which has the older count.
        if count == 0 || count >= 1 << 31 {
            return None;
        }
        *known = lost;
        self.sum += u64::from(count);
        Some(What::Lost {
            since_ns,
            count: count.into(),
        })
    }

    /// Hands `each` the losses that no later record told of, given those of each processor.
    pub(crate) fn at_the_end(&mut self, lost: &[u64], now_ns: u64, mut each: impl FnMut(Event)) {
        for (cpu, total) in (0u16..).zip(lost) {
            let (known, last_ns) = self.processors.entry(cpu).or_insert((0, 0));
            let total = u32::try_from(*total & u64::from(u32::MAX)).unwrap_or(0);
            let count = total.wrapping_sub(*known);
            if count == 0 {
                continue;
            }
            *known = total;
            self.sum += u64::from(count);
            each(Event {
                ns: now_ns,
                thread: Thread {
                    tid: 0,
                    began_ns: 0,
                },
                cpu,
                what: What::Lost {
                    since_ns: *last_ns,
                    count: count.into(),
                },
            });
        }
    }

    /// All of them so far, as far as they were told.
    pub(crate) fn sum(&self) -> u64 {
        self.sum
    }
}
