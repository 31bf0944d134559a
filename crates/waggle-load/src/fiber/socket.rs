//! A session's socket for a fiber: requests leave together with the wait for their answer.
//!
//! Invariant: bytes go out in the order they came, whether through the ring or by a system call,
//! and none is dropped while the session goes on.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use waggle_wire::Io;

use super::{exchange, is_fiber, sleep_until, writable};

/// What is sent with the next receive; more goes out at once. A socket's buffer takes this much.
const PENDING_BYTES_MAX: usize = 16 << 10;

/// Moves a session's bytes through the ring of the fiber's thread.
#[derive(Debug)]
pub(crate) struct FiberSocket {
    socket: Arc<OwnedFd>,
    pending: Vec<u8>,
}

impl FiberSocket {
    pub(crate) fn new(socket: Arc<OwnedFd>) -> FiberSocket {
        FiberSocket {
            socket,
            pending: Vec::new(),
        }
    }

    /// Bytes that have not been sent.
    #[cfg(test)]
    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Sends what the kernel takes at once.
    fn send_some(&self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: readable bytes and a descriptor that is open as long as `socket`.
        let sent = unsafe {
            libc::send(
                self.socket.as_raw_fd(),
                bytes.as_ptr().cast(),
                bytes.len(),
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        };
        match sent {
            0.. => Ok(sent as usize),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn send_now(&self, mut bytes: &[u8], limit: Option<Duration>) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.send_some(bytes) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => self.writable(limit)?,
                    io::ErrorKind::Interrupted => {}
                    _ => return Err(error),
                },
            }
        }
        Ok(())
    }

    fn writable(&self, limit: Option<Duration>) -> io::Result<()> {
        if limit == Some(Duration::ZERO) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        in_fiber()?;
        writable(self.socket.as_raw_fd(), limit)
    }
}

fn in_fiber() -> io::Result<()> {
    match is_fiber() {
        true => Ok(()),
        false => Err(io::Error::other(
            "the session belongs to a fiber that has ended",
        )),
    }
}

impl Io for FiberSocket {
    fn send(&mut self, bytes: &[u8], limit: Option<Duration>) -> io::Result<()> {
        if self.pending.len() + bytes.len() <= PENDING_BYTES_MAX {
            self.pending.extend_from_slice(bytes);
            return Ok(());
        }
        self.flush(limit)?;
        self.send_now(bytes, limit)
    }

    fn receive(&mut self, buffer: &mut [u8], limit: Option<Duration>) -> io::Result<usize> {
        in_fiber()?;
        let fd = self.socket.as_raw_fd();
        match exchange(fd, &self.pending, buffer, limit) {
            Ok((received, sent)) => {
                self.pending.drain(..sent);
                Ok(received)
            }
            Err(error) => {
                // The session is over, and nothing of it is sent twice.
                self.pending.clear();
                Err(error)
            }
        }
    }

    fn flush(&mut self, limit: Option<Duration>) -> io::Result<()> {
        // If it fails, the session is over.
        let pending = std::mem::take(&mut self.pending);
        self.send_now(&pending, limit)
    }

    fn connected(&mut self, limit: Option<Duration>) -> io::Result<()> {
        self.writable(limit)
    }

    fn sleep(&mut self, length: Duration) {
        let until = Instant::now() + length;
        while is_fiber() && Instant::now() < until {
            sleep_until(until);
        }
    }
}

/// Last words: an alert of TLS, say.
impl Drop for FiberSocket {
    fn drop(&mut self) {
        let _ = self.flush(Some(Duration::ZERO));
    }
}
