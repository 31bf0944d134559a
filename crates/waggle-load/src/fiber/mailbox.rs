//! Waking the loop of a thread from another thread.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Tells a loop that what its fibers wait for may have changed. Mail has no content and is never
/// lost: every fiber that waits for mail looks again.
#[derive(Debug)]
pub(crate) struct Mailbox(OwnedFd);

impl Mailbox {
    pub(crate) fn new() -> io::Result<Mailbox> {
        // SAFETY: no pointers; the descriptor is checked and owned by nobody else.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above.
        Ok(Mailbox(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Wakes every fiber of the loop that waits for mail or sleeps.
    pub(crate) fn post(&self) {
        let one = 1u64.to_ne_bytes();
        // It fails only when 2^64 letters are unread, which are letters enough.
        // SAFETY: eight readable bytes, as an event descriptor takes.
        let _ = unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    pub(super) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
