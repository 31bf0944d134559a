//! Stores to a word of a process' memory, seen by the processor's debug registers.
//!
//! A debug event is opened on every processor, for whatever process runs there: so threads that
//! begin later are seen too, and the kernel half passes over other processes that happen to use the
//! same address. There are four registers a processor, and each store costs some 11 us in a virtual
//! machine: for words that change up to a thousand times a second.
//!
//! Invariant: either every processor is watched, or none.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libbpf_rs::{Link, PerfEventOpts, ProgramMut};

use crate::object::ProbeError;
use crate::processors;

/// One processor's event with the program attached to it.
#[derive(Debug)]
pub(super) struct Watch {
    link: Link,
    /// Given to libbpf, which closes it with the link.
    _event: i32,
}

/// `perf_event_attr` up to its first published size with the breakpoint's fields, 72 bytes.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    bp_addr: u64,
    bp_len: u64,
}

const PERF_TYPE_BREAKPOINT: u32 = 5;
const HW_BREAKPOINT_W: u32 = 2;
const FLAG_EXCLUDE_KERNEL: u64 = 1 << 5;
const FLAG_EXCLUDE_HV: u64 = 1 << 6;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;

fn failed(address: u64, source: io::Error) -> ProbeError {
    ProbeError::Io {
        doing: format!(
            "watching the word at {address:#x} (each processor has four registers for that, \
             shared with debuggers)"
        ),
        source,
    }
}

impl Watch {
    pub(super) fn on_every_processor(
        program: &ProgramMut<'_>,
        address: u64,
        bytes: u8,
        cookie: u64,
    ) -> Result<Vec<Self>, ProbeError> {
        // The processor would take an address of the kernel too.
        let aligned = matches!(bytes, 1 | 2 | 4 | 8)
            && address.is_multiple_of(bytes.into())
            && address < 1 << 47;
        if !aligned {
            let source = io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{bytes} bytes there are no aligned word of a process"),
            );
            return Err(failed(address, source));
        }
        let mut watches = Vec::new();
        for cpu in processors::online().map_err(|source| failed(address, source))? {
            let event = open(cpu, address, bytes).map_err(|source| failed(address, source))?;
            let options = PerfEventOpts {
                cookie,
                ..Default::default()
            };
            let raw = event.as_raw_fd();
            let link = program
                .attach_perf_event_with_opts(raw, options)
                .map_err(|source| ProbeError::Attach {
                    path: format!("processor {cpu}").into(),
                    site: format!("the word at {address:#x}"),
                    source,
                })?;
            // libbpf's link owns the event from here on, and closes it.
            let event = std::os::fd::IntoRawFd::into_raw_fd(event);
            watches.push(Self {
                link,
                _event: event,
            });
        }
        Ok(watches)
    }

    pub(super) fn into_link(self) -> Link {
        self.link
    }
}

fn open(cpu: i32, address: u64, bytes: u8) -> io::Result<OwnedFd> {
    let attributes = Attributes {
        kind: PERF_TYPE_BREAKPOINT,
        size: u32::try_from(size_of::<Attributes>()).unwrap_or(72),
        sample_period: 1,
        flags: FLAG_EXCLUDE_KERNEL | FLAG_EXCLUDE_HV,
        bp_type: HW_BREAKPOINT_W,
        bp_addr: address,
        bp_len: bytes.into(),
        ..Default::default()
    };
    // SAFETY: the attributes live through the call and say their size; the result is checked.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            -1,
            cpu,
            -1,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_have_the_published_size() {
        assert_eq!(size_of::<Attributes>(), 72);
    }
}
