//! What one worker thread counts, and how others read it.
//!
//! Invariant: each counter is written by its thread alone (a relaxed load and a relaxed store, no
//! locked instruction) and lies on cache lines no other thread writes. The histogram sits behind a
//! lock that only its reader contends for, once an interval, for the length of a swap: about 20 ns
//! a transaction, which is thousands of times longer.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use waggle_stats::latency::LatencyHistogram;

use crate::driver::Outcome;

/// What the workers of a load counted since it started or was reset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Statements the server executed or refused with an error: text statements and executions
    /// of prepared ones, as the server counts them in `Questions`.
    pub queries: u64,
    /// Events that ended well.
    pub transactions: u64,
    /// Statement errors that restarted an event.
    pub errors: u64,
    /// Statements with a result set.
    pub reads: u64,
    /// Statements without a result set that changed rows.
    pub writes: u64,
    /// Other statements that ended well (`BEGIN`, an update of nothing).
    pub other: u64,
    /// Statements prepared; not among `queries`.
    pub prepares: u64,
}

impl Counters {
    /// What was counted since `earlier`.
    pub fn since(&self, earlier: &Counters) -> Counters {
        self.combined(earlier, u64::saturating_sub)
    }

    pub(crate) fn plus(&self, other: &Counters) -> Counters {
        self.combined(other, |left, right| left + right)
    }

    fn combined(&self, other: &Counters, with: impl Fn(u64, u64) -> u64) -> Counters {
        Counters {
            queries: with(self.queries, other.queries),
            transactions: with(self.transactions, other.transactions),
            errors: with(self.errors, other.errors),
            reads: with(self.reads, other.reads),
            writes: with(self.writes, other.writes),
            other: with(self.other, other.other),
            prepares: with(self.prepares, other.prepares),
        }
    }
}

/// A counter with one writer.
#[derive(Debug, Default)]
struct Counter(AtomicU64);

impl Counter {
    fn add_by_owner(&self, count: u64) {
        self.0
            .store(self.0.load(Ordering::Relaxed) + count, Ordering::Relaxed);
    }

    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of one thread. 128 bytes: processors fetch cache lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Tally {
    failed: Counter,
    transactions: Counter,
    errors: Counter,
    reads: Counter,
    writes: Counter,
    other: Counter,
    prepares: Counter,
    latency: Mutex<LatencyHistogram>,
    cpu: Mutex<ThreadCpu>,
    /// Errors that restarted an event, by number; off the hot path.
    errors_by_errno: Mutex<BTreeMap<u16, u64>>,
}

/// CPU time of a thread that may have ended.
#[derive(Debug, Default)]
enum ThreadCpu {
    #[default]
    NotStarted,
    Running(libc::clockid_t),
    Ended(u64),
}

impl Tally {
    pub(crate) fn statement_done(&self, outcome: &Outcome) {
        let counter = match outcome {
            Outcome {
                result_sets: 1.., ..
            } => &self.reads,
            Outcome { affected: 1.., .. } => &self.writes,
            _ => &self.other,
        };
        counter.add_by_owner(1);
    }

    /// The server answered with an error: it counted the statement, so it is counted here.
    pub(crate) fn statement_failed(&self) {
        self.failed.add_by_owner(1);
    }

    pub(crate) fn error_ignored(&self, errno: u16) {
        self.errors.add_by_owner(1);
        *locked(&self.errors_by_errno).entry(errno).or_default() += 1;
    }

    pub(crate) fn prepared(&self) {
        self.prepares.add_by_owner(1);
    }

    pub(crate) fn transaction_done(&self, latency_ns: u64) {
        self.transactions.add_by_owner(1);
        locked(&self.latency).record(latency_ns);
    }

    pub(crate) fn counters(&self) -> Counters {
        let (reads, writes, other) = (self.reads.read(), self.writes.read(), self.other.read());
        Counters {
            queries: reads + writes + other + self.failed.read(),
            transactions: self.transactions.read(),
            errors: self.errors.read(),
            reads,
            writes,
            other,
            prepares: self.prepares.read(),
        }
    }

    pub(crate) fn errors_by_errno(&self) -> BTreeMap<u16, u64> {
        locked(&self.errors_by_errno).clone()
    }

    /// Takes the latencies recorded since the last call, leaving `empty` in their place.
    pub(crate) fn take_latency(&self, empty: LatencyHistogram) -> LatencyHistogram {
        std::mem::replace(&mut *locked(&self.latency), empty)
    }

    /// To be called by the thread itself when it starts.
    pub(crate) fn thread_started(&self) {
        let mut clock = 0;
        // SAFETY: pthread_self names the calling thread and `clock` is a valid place for the
        // answer.
        let failed = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &mut clock) };
        if failed == 0 {
            *locked(&self.cpu) = ThreadCpu::Running(clock);
        }
    }

    /// To be called by the thread itself as its last act: its clock dies with it.
    pub(crate) fn thread_ended(&self) {
        let mut cpu = locked(&self.cpu);
        if let ThreadCpu::Running(clock) = *cpu {
            *cpu = ThreadCpu::Ended(clock_ns(clock));
        }
    }

    /// CPU time of the thread so far, in nanoseconds, also after it ended.
    pub(crate) fn cpu_ns(&self) -> u64 {
        // The lock keeps a running thread from ending (and its clock from naming another thread)
        // while the clock is read.
        match *locked(&self.cpu) {
            ThreadCpu::NotStarted => 0,
            ThreadCpu::Running(clock) => clock_ns(clock),
            ThreadCpu::Ended(ns) => ns,
        }
    }
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the answer; an unknown clock is an error, not a fault.
    if unsafe { libc::clock_gettime(clock, &mut time) } != 0 {
        return 0;
    }
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A poisoned lock here means that a thread panicked between two plain writes; the data is whole.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_classified_by_what_the_server_sent() {
        let tally = Tally::default();
        let read = Outcome {
            result_sets: 1,
            rows: 0,
            ..Outcome::default()
        };
        tally.statement_done(&read);
        tally.statement_done(&Outcome {
            affected: 3,
            ..Outcome::default()
        });
        tally.statement_done(&Outcome::default());
        tally.statement_failed();
        tally.error_ignored(1213);
        tally.prepared();
        let wanted = Counters {
            queries: 4,
            transactions: 0,
            errors: 1,
            reads: 1,
            writes: 1,
            other: 1,
            prepares: 1,
        };
        assert_eq!(tally.counters(), wanted);
    }

    #[test]
    fn cpu_time_survives_its_thread() {
        let tally = Tally::default();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                tally.thread_started();
                let mut sum = 0u64;
                while tally.cpu_ns() < 1_000_000 {
                    sum = std::hint::black_box(sum + 1);
                }
                tally.thread_ended();
            });
        });
        assert!(tally.cpu_ns() >= 1_000_000);
    }
}
