//! What one worker counts, and how others read it.
//!
//! Durations are recorded for a thread, not for a worker: workers that are fibers of one thread
//! share its [`Recorders`], which stay in the processor's caches where hundreds would not.
//!
//! Invariant: each counter and each recorder is written by one thread alone (a relaxed load and a
//! relaxed store, no lock, no locked instruction) and lies on cache lines no other thread writes;
//! nothing is ever reset. Locks guard lists that grow a few times a run and thread clocks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::clock::now_ns;
use crate::driver::Outcome;
use crate::recorder::{Counter, Recorder, Sum};
use serde::{Deserialize, Serialize};

/// What the workers of a load counted since it started or was reset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Statements the server executed or refused with an error: text statements and executions
    /// of prepared ones, as the server counts them in `Questions`.
    pub queries: u64,
    /// Events that ended well.
    pub transactions: u64,
    /// Errors that restarted an event.
    pub errors: u64,
    /// Statements with a result set.
    pub reads: u64,
    /// Statements without a result set that changed rows.
    pub writes: u64,
    /// Other statements that ended well (`BEGIN`, an update of nothing).
    pub other: u64,
    /// Statements prepared; not among `queries`.
    pub prepares: u64,
    /// Connections that were lost and opened again.
    pub reconnects: u64,
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
            reconnects: with(self.reconnects, other.reconnects),
        }
    }
}

/// The counters of one worker. 128 bytes: processors fetch cache lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Tally {
    failed: Counter,
    transactions: Counter,
    errors: Counter,
    reads: Counter,
    writes: Counter,
    other: Counter,
    prepares: Counter,
    reconnects: Counter,
    /// Events of an open loop that were begun.
    begun: Counter,
    downtime_ns: Counter,
    /// Since when the thread has no connection; 0: it has.
    down_since: AtomicU64,
    /// Response times of its events, together.
    busy_ns: Counter,
    pub(crate) recorders: Arc<Recorders>,
    pub(crate) sums: Grown<Sum>,
    cpu: Mutex<ThreadCpu>,
}

/// The durations that the workers of one thread record.
#[derive(Debug)]
pub(crate) struct Recorders {
    pub(crate) response: Recorder,
    /// Open loop only.
    pub(crate) open: Option<OpenRecorders>,
    pub(crate) operations: Grown<OperationRecorders>,
    pub(crate) statements: Grown<Recorder>,
}

impl Recorders {
    pub(crate) fn new(is_open: bool) -> Arc<Recorders> {
        Arc::new(Recorders {
            response: Recorder::new(),
            open: is_open.then(OpenRecorders::new),
            operations: Grown::default(),
            statements: Grown::default(),
        })
    }
}

/// The parts of a response time.
#[derive(Debug)]
pub(crate) struct OpenRecorders {
    pub(crate) service: Recorder,
    pub(crate) wait: Recorder,
    pub(crate) lag: Recorder,
}

impl OpenRecorders {
    fn new() -> OpenRecorders {
        OpenRecorders {
            service: Recorder::new(),
            wait: Recorder::new(),
            lag: Recorder::new(),
        }
    }
}

/// One kind of event.
#[derive(Debug)]
pub(crate) struct OperationRecorders {
    pub(crate) response: Recorder,
    /// Open loop only.
    pub(crate) service: Option<Recorder>,
}

/// Recorders that a thread made while it ran, by number. Its workers keep references of their own;
/// the lock is for readers.
#[derive(Debug)]
pub(crate) struct Grown<T>(Mutex<Vec<(u32, Arc<T>)>>);

impl<T> Default for Grown<T> {
    fn default() -> Grown<T> {
        Grown(Mutex::default())
    }
}

impl<T> Grown<T> {
    /// The one of this number, made if it is new.
    pub(crate) fn of(&self, number: u32, make: impl FnOnce() -> T) -> Arc<T> {
        let mut all = locked(&self.0);
        if let Some((_, made)) = all.iter().find(|(known, _)| *known == number) {
            return made.clone();
        }
        let made = Arc::new(make());
        all.push((number, made.clone()));
        made
    }

    pub(crate) fn all(&self) -> Vec<(u32, Arc<T>)> {
        locked(&self.0).clone()
    }
}

/// CPU time of a thread that may have ended.
#[derive(Debug, Default)]
enum ThreadCpu {
    #[default]
    NotStarted,
    Running(libc::clockid_t),
    Ended(u64),
}

impl Default for Tally {
    fn default() -> Tally {
        Tally::new(Recorders::new(false))
    }
}

impl Tally {
    pub(crate) fn new(recorders: Arc<Recorders>) -> Tally {
        Tally {
            failed: Counter::default(),
            transactions: Counter::default(),
            errors: Counter::default(),
            reads: Counter::default(),
            writes: Counter::default(),
            other: Counter::default(),
            prepares: Counter::default(),
            reconnects: Counter::default(),
            begun: Counter::default(),
            downtime_ns: Counter::default(),
            down_since: AtomicU64::new(0),
            busy_ns: Counter::default(),
            recorders,
            sums: Grown::default(),
            cpu: Mutex::default(),
        }
    }

    /// Of a text of several statements, those with result sets are reads; the others are one write
    /// if rows were changed, and the rest.
    pub(crate) fn statement_done(&self, outcome: &Outcome) {
        let counter = match outcome {
            Outcome {
                result_sets: 1.., ..
            } => &self.reads,
            Outcome { affected: 1.., .. } => &self.writes,
            _ => &self.other,
        };
        counter.add_by_owner(1);
        if outcome.statements > 1 {
            self.others_done(outcome);
        }
    }

    #[cold]
    fn others_done(&self, outcome: &Outcome) {
        let statements = u64::from(outcome.statements);
        let reads = u64::from(outcome.result_sets).min(statements);
        let writes = u64::from(outcome.affected > 0).min(statements - reads);
        // One of them is counted already: the first of these kinds that there is.
        let counted = [reads, writes, statements - reads - writes];
        let first = counted.iter().position(|count| *count > 0);
        for (kind, counter) in [&self.reads, &self.writes, &self.other]
            .into_iter()
            .enumerate()
        {
            counter.add_by_owner(counted[kind] - u64::from(first == Some(kind)));
        }
    }

    /// The server answered with an error: it counted the statement, so it is counted here.
    pub(crate) fn statement_failed(&self) {
        self.failed.add_by_owner(1);
    }

    pub(crate) fn error_ignored(&self) {
        self.errors.add_by_owner(1);
    }

    pub(crate) fn prepared(&self) {
        self.prepares.add_by_owner(1);
    }

    pub(crate) fn reconnected(&self) {
        self.reconnects.add_by_owner(1);
    }

    pub(crate) fn event_begun(&self) {
        self.begun.add_by_owner(1);
    }

    pub(crate) fn begun(&self) -> u64 {
        self.begun.read()
    }

    /// An event took this long.
    #[inline]
    pub(crate) fn responded(&self, response_ns: u64) {
        self.busy_ns.add_by_owner(response_ns);
        self.recorders.response.record(response_ns);
    }

    /// Response times of its events, together.
    pub(crate) fn busy_ns(&self) -> u64 {
        self.busy_ns.read()
    }

    pub(crate) fn transaction_done(&self) {
        self.transactions.add_by_owner(1);
    }

    pub(crate) fn connection_lost(&self) {
        self.down_since.store(now_ns(), Ordering::Relaxed);
    }

    pub(crate) fn connection_back(&self) {
        let since = self.down_since.load(Ordering::Relaxed);
        self.downtime_ns
            .add_by_owner(now_ns().saturating_sub(since));
        self.down_since.store(0, Ordering::Relaxed);
    }

    /// Time without a connection so far, the present one included.
    pub(crate) fn downtime_ns(&self) -> u64 {
        let present = match self.down_since.load(Ordering::Relaxed) {
            0 => 0,
            since => now_ns().saturating_sub(since),
        };
        self.downtime_ns.read() + present
    }

    /// The counter behind a number of sysbench's `sb_counter_type`.
    fn by_number(&self, number: u32) -> Option<&Counter> {
        match number {
            0 => Some(&self.other),
            1 => Some(&self.reads),
            2 => Some(&self.writes),
            3 => Some(&self.transactions),
            4 => Some(&self.errors),
            5 => Some(&self.reconnects),
            _ => None,
        }
    }

    /// A script counts by itself; numbers that nobody keeps are ignored.
    pub(crate) fn count(&self, number: u32, amount: u64) {
        if let Some(counter) = self.by_number(number) {
            counter.add_by_owner(amount);
        }
    }

    pub(crate) fn counted(&self, number: u32) -> u64 {
        self.by_number(number).map_or(0, Counter::read)
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
            reconnects: self.reconnects.read(),
        }
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
mod tests;
