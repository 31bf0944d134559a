//! The one clock of the engine: nanoseconds of CLOCK_MONOTONIC, and sleeping on it.
//!
//! Plain numbers, so that intended times of a schedule and readings compare without conversions.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Nanoseconds since an arbitrary moment; read without a system call.
#[inline]
pub(crate) fn now_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the answer, and this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A length of time as the number that the clock's are.
pub(crate) fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// How a sleep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    /// Its time has come.
    Due,
    /// `word` is not, or no longer, what the sleeper expected.
    Told,
}

/// Sleeps until `at_ns` while `word` holds `expected`; whoever changes it calls [`wake_all`].
///
/// A futex with an absolute time-out: as exact as clock_nanosleep, and it needs no slices to
/// notice that there is something else to do.
pub(crate) fn sleep_until(at_ns: u64, word: &AtomicU32, expected: u32) -> Woken {
    let at = libc::timespec {
        tv_sec: (at_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (at_ns % 1_000_000_000) as libc::c_long,
    };
    loop {
        // SAFETY: the word and the time live through the call; the kernel reads both.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG,
                expected,
                &raw const at,
                std::ptr::null::<u32>(),
                libc::FUTEX_BITSET_MATCH_ANY,
            )
        };
        if answer == 0 {
            // A change may wake those who saw it already and slept again: that is no news.
            if word.load(Ordering::Relaxed) == expected {
                continue;
            }
            return Woken::Told;
        }
        match std::io::Error::last_os_error().raw_os_error() {
            Some(libc::ETIMEDOUT) => return Woken::Due,
            Some(libc::EINTR) => {}
            _ => return Woken::Told,
        }
    }
}

/// Wakes everybody who sleeps on this word.
pub(crate) fn wake_all(word: &AtomicU32) {
    // SAFETY: the word lives through the call; the kernel takes its address as a name.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            i32::MAX,
        );
    }
}

/// Timers of this thread fire when they are due: by default the kernel may add 50 us.
pub(crate) fn wake_on_time() {
    // SAFETY: changes a number of the calling thread. Where it is refused, wake-ups stay late and
    // the lag histogram says so.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_wakes_when_it_is_due_or_told() {
        let word = AtomicU32::new(7);
        let due = now_ns() + 1_000_000;
        assert_eq!(sleep_until(due, &word, 7), Woken::Due);
        assert!(now_ns() >= due);
        let never = u64::MAX / 2;
        assert_eq!(sleep_until(never, &word, 8), Woken::Told);
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| sleep_until(never, &word, 7));
            word.store(8, Ordering::Relaxed);
            wake_all(&word);
            assert_eq!(sleeper.join().unwrap(), Woken::Told);
        });
    }
}
