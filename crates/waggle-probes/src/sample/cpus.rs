//! A clock for each processor that runs, and the program that each tick starts.
//!
//! Invariant: a clock ticks no longer than its link lives.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::{Link, ProgramMut};

/// The processors that run, by their numbers.
pub(super) fn online() -> io::Result<Vec<i32>> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online")?;
    parse(text.trim()).ok_or_else(|| io::Error::other(format!("cannot read the list {text:?}")))
}

/// Such as `0-3,5`.
fn parse(list: &str) -> Option<Vec<i32>> {
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<i32>().ok()?, last.parse::<i32>().ok()?);
        if first < 0 || last < first || last > 1 << 16 {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(parse("0"), Some(vec![0]));
        assert_eq!(parse("0-2,5,7-8"), Some(vec![0, 1, 2, 5, 7, 8]));
        for wild in ["", "-", "2-1", "0-", "a", "0,,1", "0-99999999", "-1"] {
            assert_eq!(parse(wild), None, "{wild}");
        }
        assert!(!online().unwrap().is_empty());
    }
}
