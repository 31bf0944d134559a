//! The two clocks a server may take its start time from, at one moment.

use waggle_symbols::layout::StartClock;

/// Both clocks, read together.
#[derive(Debug, Clone, Copy)]
pub struct Clocks {
    /// Of the monotonic clock, ns.
    pub monotonic_ns: u64,
    /// Of the wall clock, ns since 1970.
    pub realtime_ns: u64,
}

impl Clocks {
    /// Reads both.
    pub fn now() -> Self {
        Self {
            monotonic_ns: clock_ns(libc::CLOCK_MONOTONIC),
            realtime_ns: clock_ns(libc::CLOCK_REALTIME),
        }
    }

    /// `time_ns` of the monotonic clock as wall-clock time, us since 1970.
    pub fn realtime_us(self, time_ns: u64) -> u64 {
        self.on(StartClock::Realtime, time_ns) / 1000
    }

    /// `time_ns` of the monotonic clock on `clock`, ns.
    pub fn on(self, clock: StartClock, time_ns: u64) -> u64 {
        match clock {
            StartClock::Monotonic => time_ns,
            StartClock::Realtime => (self.realtime_ns + time_ns).saturating_sub(self.monotonic_ns),
        }
    }
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is writable; both clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}
