//! A process held by descriptor, so that its number cannot come to mean another process.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// A process, dead or alive.
#[derive(Debug)]
pub(crate) struct PidFd(OwnedFd);

impl PidFd {
    /// Takes hold of a process. `ESRCH` if there is none.
    pub(crate) fn open(pid: u32) -> io::Result<Self> {
        // SAFETY: pidfd_open takes two integers and returns a new descriptor or -1.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just made this descriptor, and nothing else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd as RawFd) }))
    }

    /// Sends a signal to this very process. `ESRCH` if it has ended.
    pub(crate) fn signal(&self, signal: i32) -> io::Result<()> {
        // SAFETY: integers and a null pointer, which the call allows.
        let sent = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.0.as_raw_fd(),
                signal,
                std::ptr::null::<libc::siginfo_t>(),
                0,
            )
        };
        if sent == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Waits until the process has ended; false if it lives on at the deadline.
    pub(crate) fn wait_until(&self, deadline: Instant) -> bool {
        wait_readable(&[self.0.as_raw_fd()], Some(deadline)).is_ok_and(|ready| ready[0])
    }
}

/// Waits until one of the descriptors can be read (or was closed at its other end), or until the
/// deadline. Tells for each whether it can.
pub(crate) fn wait_readable(fds: &[RawFd], deadline: Option<Instant>) -> io::Result<Vec<bool>> {
    let mut polled: Vec<libc::pollfd> = fds
        .iter()
        .map(|&fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    loop {
        let left_ms = deadline.map_or(-1, |deadline| {
            let left = deadline.saturating_duration_since(Instant::now());
            // Rounded up: waking a fraction of a millisecond early would spin.
            let ms = left.saturating_add(Duration::from_micros(999)).as_millis();
            i32::try_from(ms).unwrap_or(i32::MAX)
        });
        // SAFETY: `polled` is an array of that many pollfd for the length of the call.
        let n = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, left_ms) };
        if n >= 0 {
            return Ok(polled.iter().map(|fd| fd.revents != 0).collect());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ended_child_is_seen_and_a_living_one_is_not() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let held = PidFd::open(child.id()).unwrap();
        assert!(!held.wait_until(Instant::now()));
        held.signal(libc::SIGKILL).unwrap();
        assert!(held.wait_until(Instant::now() + Duration::from_secs(10)));
        child.wait().unwrap();
        assert_eq!(
            held.signal(libc::SIGKILL).unwrap_err().raw_os_error(),
            Some(libc::ESRCH)
        );
    }
}
