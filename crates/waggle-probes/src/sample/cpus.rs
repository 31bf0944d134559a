//! A clock for each processor that runs, and the program that each tick starts.
//!
//! Invariant: a clock ticks no longer than its link lives.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::{Link, ProgramMut};

/// Starts a clock on a processor, with `period_ns` between two ticks.
///
/// # Errors
/// The kernel refuses: rights, or no such processor.
pub(super) fn start(program: &ProgramMut<'_>, cpu: i32, period_ns: u64) -> io::Result<Link> {
    let mut attributes = sys::perf_event_attr {
        type_: sys::PERF_TYPE_SOFTWARE,
        size: u32::try_from(size_of::<sys::perf_event_attr>()).unwrap_or(u32::MAX),
        config: u64::from(sys::PERF_COUNT_SW_CPU_CLOCK),
        ..Default::default()
    };
    attributes.__bindgen_anon_1.sample_period = period_ns;
    attributes.set_disabled(1);
    // SAFETY: the attributes live through the call and say their own size.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            -1,
            cpu,
            -1,
            sys::PERF_FLAG_FD_CLOEXEC,
        )
    };
    let Ok(fd @ 0..) = i32::try_from(fd) else {
        return Err(io::Error::last_os_error());
    };
    // SAFETY: a fresh descriptor that nobody else owns.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let link = program.attach_perf_event(fd.as_raw_fd());
    let link = link.map_err(io::Error::other)?;
    // The link closes it.
    let _ = fd.into_raw_fd();
    Ok(link)
}
