//! Which performance counters can be had: each is opened on this process, run and read.
//!
//! A counter that opens may still stand still (a virtual machine without the hardware behind it),
//! so those that must move are looked at twice.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::FromRawFd;

use libbpf_rs::libbpf_sys as sys;

use super::programs::errno_name;
use super::{Fact, Facts, Rights};

/// Name, type, event, and whether it must move while a program runs.
const COUNTERS: [(&str, sys::perf_type_id, u32, bool); 7] = [
    (
        "cycles",
        sys::PERF_TYPE_HARDWARE,
        sys::PERF_COUNT_HW_CPU_CYCLES,
        true,
    ),
    (
        "instructions",
        sys::PERF_TYPE_HARDWARE,
        sys::PERF_COUNT_HW_INSTRUCTIONS,
        true,
    ),
    (
        "cache_misses",
        sys::PERF_TYPE_HARDWARE,
        sys::PERF_COUNT_HW_CACHE_MISSES,
        false,
    ),
    (
        "branch_misses",
        sys::PERF_TYPE_HARDWARE,
        sys::PERF_COUNT_HW_BRANCH_MISSES,
        false,
    ),
    (
        "cpu_clock",
        sys::PERF_TYPE_SOFTWARE,
        sys::PERF_COUNT_SW_CPU_CLOCK,
        true,
    ),
    (
        "task_clock",
        sys::PERF_TYPE_SOFTWARE,
        sys::PERF_COUNT_SW_TASK_CLOCK,
        true,
    ),
    (
        "context_switches",
        sys::PERF_TYPE_SOFTWARE,
        sys::PERF_COUNT_SW_CONTEXT_SWITCHES,
        false,
    ),
];

/// Tries every counter.
pub(super) fn try_all(rights: &Rights) -> Facts {
    let answer =
        |&(name, kind, event, moves): &(&'static str, u32, u32, bool)| match count(kind, event) {
            Ok(0) if moves => Fact::no(
                name,
                "opens, but counts nothing",
                "the hypervisor hides the hardware; use an instance type that shows it",
            ),
            Ok(_) => Fact::yes(name, ""),
            Err(error) => refused(name, kind, &error, rights),
        };
    Facts(COUNTERS.iter().map(answer).collect())
}

fn refused(name: &'static str, kind: u32, error: &io::Error, rights: &Rights) -> Fact {
    let code = error.raw_os_error().unwrap_or(0);
    let hardware = kind == sys::PERF_TYPE_HARDWARE;
    match code {
        libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP if hardware => Fact::no(
            name,
            format!("no hardware counters here ({})", errno_name(code)),
            "use a machine that shows them (a virtual one needs a virtual PMU); CPU time is taken \
             from clocks meanwhile",
        ),
        libc::EPERM | libc::EACCES if !rights.can_load => Fact::unknown(
            name,
            format!("may not be opened ({})", errno_name(code)),
            "run as root, or sysctl kernel.perf_event_paranoid=2",
        ),
        libc::EPERM | libc::EACCES if rights.seccomp_filter => Fact::no(
            name,
            format!("perf_event_open() is refused ({})", errno_name(code)),
            "allow perf_event_open() in the container's seccomp profile",
        ),
        libc::ENOSYS => Fact::no(
            name,
            "no perf events (ENOSYS)",
            "use a kernel with CONFIG_PERF_EVENTS=y",
        ),
        _ => Fact::no(name, format!("perf_event_open() fails: {error}"), ""),
    }
}

/// Opens the counter on this thread, user mode only, lets it run for some microseconds, reads it.
fn count(kind: u32, event: u32) -> io::Result<u64> {
    let mut attributes = sys::perf_event_attr {
        type_: kind,
        size: u32::try_from(size_of::<sys::perf_event_attr>()).unwrap_or(u32::MAX),
        config: u64::from(event),
        ..Default::default()
    };
    attributes.set_exclude_kernel(1);
    attributes.set_exclude_hv(1);
    // SAFETY: the attributes live through the call and say their own size.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            0,
            -1,
            -1,
            sys::PERF_FLAG_FD_CLOEXEC,
        )
    };
    let Ok(fd @ 0..) = i32::try_from(fd) else {
        return Err(io::Error::last_os_error());
    };
    // SAFETY: a fresh descriptor that nobody else owns.
    let mut counter = unsafe { File::from_raw_fd(fd) };
    for turn in 0..20_000_u32 {
        std::hint::black_box(turn);
    }
    let mut value = [0; 8];
    counter.read_exact(&mut value)?;
    Ok(u64::from_ne_bytes(value))
}
