//! What a running copy shows and takes: counters, its phase, pause and stop.
//!
//! Threads of the copy write, the verb reads and prints. Invariant: no counter is locked or
//! waited for; the list of phases is, as each begins.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How soon a wait notices that the end was asked for.
const LOOK: Duration = Duration::from_millis(50);

/// What a copy is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Phase {
    /// Checks; nothing has been changed.
    Preflight,
    /// Tables are made at the target.
    Schema,
    /// Rows are copied.
    Copy,
    /// Secondary keys are built.
    Keys,
    /// Changes since the snapshot are applied.
    CatchUp,
    /// Changes are applied as they come.
    Replicate,
    /// Source and target are compared.
    Verify,
    /// Over.
    Done,
}

const PHASES: [Phase; 8] = [
    Phase::Preflight,
    Phase::Schema,
    Phase::Copy,
    Phase::Keys,
    Phase::CatchUp,
    Phase::Replicate,
    Phase::Verify,
    Phase::Done,
];

/// Shared by all threads of a copy and whoever watches it.
#[derive(Debug, Default)]
pub struct Control {
    stops: AtomicBool,
    pauses: AtomicBool,
    phase: AtomicU8,
    /// When each phase began, in order.
    entered: Mutex<Vec<(Phase, Instant)>>,
    /// Rows copied by this process.
    pub rows: AtomicU64,
    /// Bytes of row data copied by this process.
    pub bytes: AtomicU64,
    /// Rows that earlier processes had copied of these tables.
    pub rows_before: AtomicU64,
    /// Rows of all tables, as the source estimates them.
    pub rows_expected: AtomicU64,
    /// Ranges that the target has whole.
    pub ranges_done: AtomicU64,
    /// Ranges of all tables.
    pub ranges: AtomicU64,
    /// Transactions applied from the binary log.
    pub transactions: AtomicU64,
    /// Row changes applied from the binary log.
    pub changes: AtomicU64,
    /// How far the target is behind the source, in ms; `u64::MAX` when it is not known.
    pub lag_ms: AtomicU64,
    /// Bytes in the spool that are not applied.
    pub spool_bytes: AtomicU64,
    /// CPU time of the threads that copy rows, in ns; a thread adds its own at its end.
    pub copy_cpu_ns: AtomicU64,
}

impl Control {
    /// Nothing done, nothing asked for.
    pub fn new() -> Control {
        let control = Control::default();
        control.lag_ms.store(u64::MAX, Ordering::Relaxed);
        control
    }

    /// Asks every thread to end at its next slice or batch, which is committed.
    pub fn stop(&self) {
        self.stops.store(true, Ordering::Relaxed);
    }

    /// Whether the end was asked for.
    pub fn is_stopping(&self) -> bool {
        self.stops.load(Ordering::Relaxed)
    }

    /// Asks every thread to pause before its next slice or batch, or to go on.
    pub fn pause(&self, pauses: bool) {
        self.pauses.store(pauses, Ordering::Relaxed);
    }

    /// Whether a pause was asked for.
    pub fn is_paused(&self) -> bool {
        self.pauses.load(Ordering::Relaxed)
    }

    /// Waits, but no longer than until the end is asked for.
    pub(crate) fn wait(&self, length: Duration) {
        let until = Instant::now() + length;
        while !self.is_stopping() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            thread::sleep(left.min(LOOK));
        }
    }

    /// What is being done.
    pub fn phase(&self) -> Phase {
        PHASES[usize::from(self.phase.load(Ordering::Relaxed)) % PHASES.len()]
    }

    /// Says what is being done from now on.
    pub fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
        let mut entered = self.entered.lock().unwrap_or_else(|p| p.into_inner());
        entered.push((phase, Instant::now()));
    }

    /// Wall time of each phase that was entered, in order; that of the last one until now.
    pub fn phases(&self) -> Vec<(Phase, Duration)> {
        let entered = self.entered.lock().unwrap_or_else(|p| p.into_inner());
        let ends = entered.iter().skip(1).map(|(_, at)| *at);
        let times = entered.iter().zip(ends.chain([Instant::now()]));
        times
            .filter(|((phase, _), _)| *phase != Phase::Done)
            .map(|((phase, from), to)| (*phase, to.saturating_duration_since(*from)))
            .collect()
    }

    /// Adds to a counter.
    pub fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phase_reads_back() {
        let control = Control::new();
        for (number, phase) in PHASES.into_iter().enumerate() {
            assert_eq!(phase as usize, number);
            control.enter(phase);
            assert_eq!(control.phase(), phase);
        }
        // Being done takes no time.
        assert_eq!(control.phases().len(), PHASES.len() - 1);
    }
}
