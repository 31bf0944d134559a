//! What a process costs: CPU time and resident memory, as the kernel accounts them.
//!
//! The lab takes its primary outcome from here. Invariant: CPU time is read from the scheduler's
//! own account, which includes the running slice of every thread and the threads that have ended,
//! so a difference of two readings misses nothing; one reading is one system call.

use std::fs;
use std::io;

use waggle_foreign::read_proc;

/// CPU time a process has used, user and kernel, in nanoseconds: every thread it has or had.
///
/// Needs no privilege. Fails with `ESRCH`-like [`io::ErrorKind::NotFound`] if there is no such
/// process.
pub fn process_cpu_ns(pid: u32) -> io::Result<u64> {
    // The kernel encodes "scheduler clock of this process" as the inverted id, shifted past the
    // three bits that say which clock: CPUCLOCK_SCHED is 2 (see clock_getcpuclockid(3)).
    let id = i32::try_from(pid).map_err(|_| no_such_process(pid))?;
    let clock: libc::clockid_t = (!id << 3) | 2;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec to write to for the length of the call.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        let error = io::Error::last_os_error();
        // A clock of a process that is gone is an invalid clock to the kernel.
        return Err(match error.raw_os_error() {
            Some(libc::EINVAL | libc::ESRCH) => no_such_process(pid),
            _ => error,
        });
    }
    Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// CPU time of the calling thread in nanoseconds.
pub fn own_thread_cpu_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec; this clock exists for every thread.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CPU time of one thread of any process in nanoseconds.
///
/// Exact for threads of the caller's own process. The kernel gives no clock for a foreign thread,
/// so there the value comes from `/proc/PID/task/TID/schedstat`, which lags by the slice that is
/// running (at most a tick). Fails with [`io::ErrorKind::NotFound`] if the thread is gone.
pub fn thread_cpu_ns(pid: u32, tid: u32) -> io::Result<u64> {
    if pid == std::process::id() {
        let id = i32::try_from(tid).map_err(|_| no_such_process(tid))?;
        let clock: libc::clockid_t = (!id << 3) | 4 | 2;
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `time` is a valid timespec to write to for the length of the call.
        if unsafe { libc::clock_gettime(clock, &raw mut time) } == 0 {
            return Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64);
        }
        return Err(no_such_process(tid));
    }
    let path = format!("/proc/{pid}/task/{tid}/schedstat");
    let text = read_proc(&path)?;
    text.split_ascii_whitespace()
        .next()
        .and_then(|field| field.parse().ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("{path} reads {text:?}")))
}

/// True if no thread of the process is running or wants to: all wait for something.
///
/// A server answers a statement a moment before it is done with it (logs, counters); at rest, no
/// statement is unfinished in that way. Fails with [`io::ErrorKind::NotFound`] if the process is
/// gone.
pub fn process_is_at_rest(pid: u32) -> io::Result<bool> {
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let Ok(stat) = read_proc(task?.path().join("stat")) else {
            continue;
        };
        // The name in parentheses may contain anything; the state follows the last one.
        let state = stat
            .rsplit_once(") ")
            .and_then(|(_, rest)| rest.chars().next());
        if matches!(state, Some('R' | 'D')) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Memory of a process that is resident now, in bytes.
///
/// Fails with [`io::ErrorKind::NotFound`] if there is no such process.
pub fn process_rss_bytes(pid: u32) -> io::Result<u64> {
    status_kib(pid, "VmRSS:")
}

/// The most memory a process has ever had resident, in bytes.
///
/// Fails with [`io::ErrorKind::NotFound`] if there is no such process.
pub fn process_rss_bytes_peak(pid: u32) -> io::Result<u64> {
    status_kib(pid, "VmHWM:")
}

/// A `kB` line of /proc/PID/status in bytes. A process without memory (a zombie) has no such
/// lines: 0.
fn status_kib(pid: u32, key: &str) -> io::Result<u64> {
    let text = read_proc(format!("/proc/{pid}/status"))?;
    let kib = text
        .lines()
        .find_map(|line| line.strip_prefix(key))
        .and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<u64>().ok());
    Ok(kib.unwrap_or(0) * 1024)
}

fn no_such_process(pid: u32) -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        format!("there is no process {pid}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_grows_with_work_and_counts_ended_threads() {
        let pid = std::process::id();
        let before = process_cpu_ns(pid).unwrap();
        let spent = std::thread::spawn(|| {
            let start = own_thread_cpu_ns();
            while own_thread_cpu_ns() - start < 20_000_000 {
                std::hint::black_box(0);
            }
            own_thread_cpu_ns() - start
        })
        .join()
        .unwrap();
        let delta = process_cpu_ns(pid).unwrap() - before;
        assert!(
            delta >= spent,
            "{delta} ns in the process, {spent} ns in a thread of it"
        );
    }

    #[test]
    fn own_thread_by_id_agrees_with_the_thread_clock() {
        // SAFETY: gettid has no arguments and cannot fail.
        let tid = unsafe { libc::gettid() } as u32;
        let low = own_thread_cpu_ns();
        let read = thread_cpu_ns(std::process::id(), tid).unwrap();
        assert!((low..=own_thread_cpu_ns()).contains(&read));
    }

    #[test]
    fn a_process_that_is_not_there_is_not_found() {
        // Above the largest pid the kernel gives out.
        for error in [
            process_cpu_ns(4_194_305).unwrap_err(),
            process_rss_bytes(4_194_305).unwrap_err(),
            process_cpu_ns(u32::MAX).unwrap_err(),
        ] {
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
        }
    }

    #[test]
    fn memory_of_this_process() {
        let rss = process_rss_bytes(std::process::id()).unwrap();
        assert!(rss > 100 * 1024 && rss <= process_rss_bytes_peak(std::process::id()).unwrap());
    }
}
