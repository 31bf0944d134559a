//! The clock of every record: the kernel's monotonic one, which its programs read as well.
//!
//! Invariant: no time of another clock is ever compared with one of a record.

/// Now, ns.
pub fn now_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the value is there to be written; this clock is always known.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    part(now.tv_sec) * 1_000_000_000 + part(now.tv_nsec)
}
