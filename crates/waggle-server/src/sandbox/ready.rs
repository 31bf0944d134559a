//! When does a server that was just started answer, or why will it not.
//!
//! Waits on conditions only: inotify tells of every change in the server's directory (its log, its
//! socket), the guardian tells when the server has ended. Invariant: no wait is a sleep, and none
//! lasts longer than the deadline.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use memchr::memmem;
use waggle_wire::{Connection, Dsn};

use super::guardian::{Guardian, ServerExit, c_path};
use crate::pidfd::wait_readable;

/// How a wait ended.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It answered; its own version string.
    Answers(String),
    /// It ended first.
    Ended(ServerExit),
    /// The deadline passed; the last failed attempt to connect, if one was made.
    TooLate(Option<String>),
}

/// A watch on a directory, made before the server is started so that nothing is missed.
#[derive(Debug)]
pub(super) struct Watch(OwnedFd);

impl Watch {
    pub(super) fn new(dir: &Path) -> io::Result<Self> {
        // SAFETY: integers in; a new descriptor that nothing else owns, or -1, out.
        let fd = unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: checked above.
        let watch = Self(unsafe { OwnedFd::from_raw_fd(fd) });
        let path = c_path(dir)?;
        let events = libc::IN_CREATE | libc::IN_MODIFY | libc::IN_MOVED_TO;
        // SAFETY: an open descriptor and a C string that lives during the call.
        if unsafe { libc::inotify_add_watch(fd, path.as_ptr(), events) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(watch)
    }

    /// Forgets the changes told so far. What they were is seen in the files.
    fn drain(&self) {
        let mut buffer = [0u8; 4096];
        // SAFETY: the buffer is that long; the descriptor does not block.
        while unsafe { libc::read(self.0.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) }
            > 0
        {}
    }
}

/// Waits until the server answers a statement. `socket` is its path as the server names it in its
/// log; `from` is where its part of the log begins.
pub(super) fn wait(
    watch: &Watch,
    guardian: &mut Guardian,
    log: (&Path, u64),
    socket: &str,
    dsn: &Dsn,
    deadline: Instant,
) -> io::Result<Outcome> {
    let mut last_failure = None;
    loop {
        watch.drain();
        // An end comes first: a socket file may be left of a server that has failed.
        if let Some(exit) = guardian.exit_until(Instant::now())? {
            return Ok(Outcome::Ended(exit));
        }
        if says_ready(log.0, log.1, socket) {
            match ask(dsn) {
                Ok(version) => return Ok(Outcome::Answers(version)),
                Err(error) => last_failure = Some(error.to_string()),
            }
        }
        let fds = [guardian.status_fd(), watch.0.as_raw_fd()];
        if !wait_readable(&fds, Some(deadline))?.contains(&true) {
            return Ok(Outcome::TooLate(last_failure));
        }
    }
}

/// Whether the log has the line that both families write when they begin to accept connections.
/// The words are translated if `lc_messages` says so, but the socket is always named.
fn says_ready(log: &Path, from: u64, socket: &str) -> bool {
    let text = fs::read(log).unwrap_or_default();
    let text = text
        .get(usize::try_from(from).unwrap_or(usize::MAX)..)
        .unwrap_or_default();
    memmem::find(text, b"ready for connections").is_some()
        || memmem::find(text, format!("'{socket}'").as_bytes()).is_some()
}

fn ask(dsn: &Dsn) -> Result<String, waggle_wire::Error> {
    let mut connection = Connection::connect(dsn)?;
    connection.query(b"SELECT 1")?;
    let version = connection.server_version().to_owned();
    // An orderly goodbye, as an aborted connection would be counted.
    connection.quit()?;
    Ok(version)
}
