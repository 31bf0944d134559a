//! Waits, on behalf of `server up`, for Ctrl-C, SIGTERM or SIGHUP, or for the end of the server.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use waggle_server::sandbox::Sandbox;

/// What ended the wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    /// This process was asked to end.
    Signal,
    /// The server ended.
    Ended,
}

/// Waits. From its return on the signals act as usual again, so that a second Ctrl-C ends this
/// process at once, and the server's guardian does the rest.
pub(super) fn hold(sandbox: &Sandbox) -> io::Result<Held> {
    let Some(end) = sandbox.end_fd() else {
        return Ok(Held::Ended);
    };
    let (signals, before) = signal_fd()?;
    let mut fds = [signals.as_raw_fd(), end.as_raw_fd()].map(|fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    });
    let held = loop {
        // SAFETY: two pollfd that live during the call.
        if unsafe { libc::poll(fds.as_mut_ptr(), 2, -1) } < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                break Err(error);
            }
        } else if fds[0].revents != 0 {
            let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
            // Taken off the queue, or it would act as soon as it is unblocked.
            // SAFETY: the buffer is that long.
            unsafe { libc::read(signals.as_raw_fd(), info.as_mut_ptr().cast(), info.len()) };
            break Ok(Held::Signal);
        } else if fds[1].revents != 0 {
            break Ok(Held::Ended);
        }
    };
    // SAFETY: the set was filled by the kernel; no old set is asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    held
}

/// A descriptor that the ending signals arrive at, and the signal mask of before.
fn signal_fd() -> io::Result<(OwnedFd, libc::sigset_t)> {
    // SAFETY: signal sets are plain data of this frame; the descriptor is new and owned by nobody.
    unsafe {
        let (mut ending, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigemptyset(&raw mut ending);
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::sigaddset(&raw mut ending, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const ending, &raw mut before);
        let fd = libc::signalfd(-1, &raw const ending, libc::SFD_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(fd), before))
    }
}
