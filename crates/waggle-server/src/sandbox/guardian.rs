//! The process between us and a throw-away server, which sees to it that the server and its
//! directory never outlive us.
//!
//! [`spawn`] forks a guardian; the guardian forks the server. The guardian holds one end of a pipe
//! whose other end only this process has: when this process ends, in whatever way, the kernel
//! closes that end, and the guardian kills the server and removes the directory. If the guardian
//! itself is killed, the server goes with it (`PR_SET_PDEATHSIG`). The guardian also holds the
//! lock of the directory, which tells everybody else that it is in use.
//!
//! ```text
//!   waggle --control pipe--> guardian --fork, exec--> mysqld
//!          <--status pipe--
//! ```
//!
//! Invariant: between fork and exec there are only async-signal-safe calls, on memory prepared
//! before the fork; another thread may have held the allocator's lock at that moment.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::account::Account;
use super::child::{self, Prepared, Step};
use crate::install::InstalledServer;
use crate::pidfd::wait_readable;

/// What to run, and where.
#[derive(Debug)]
pub(super) struct Launch<'a> {
    /// Program and arguments, as seen inside the root.
    pub(super) program: PathBuf,
    pub(super) args: Vec<String>,
    /// A root to change to, in a mount namespace of its own.
    pub(super) root: Option<RootPlan>,
    /// Whom it runs as; `None`: as this process does.
    pub(super) account: Option<&'a Account>,
    /// Where its output goes.
    pub(super) log: &'a File,
    /// Held as long as the guardian lives.
    pub(super) lock: &'a File,
    /// Removed when the guardian ends, in this order.
    pub(super) remove: Vec<PathBuf>,
    /// Removed as soon as the program has ended: others read it to find the program.
    pub(super) announcement: Option<PathBuf>,
    /// Where the log goes if the program failed of itself.
    pub(super) log_kept: Option<(PathBuf, PathBuf)>,
}

/// How a root directory is made fit to run a server in. Every mount is private to the server.
#[derive(Debug, Clone)]
pub(super) struct RootPlan {
    pub(super) root: PathBuf,
    parent: PathBuf,
    /// Directory outside, mount point inside the root (without leading slash).
    pub(super) binds: Vec<(PathBuf, &'static str)>,
}

impl RootPlan {
    /// What a server in a root of its own needs there; `None` for one in the ordinary root.
    /// `parent` is where directories of servers are made; the server sees it as its `/tmp`, so
    /// that with `/tmp` itself a path means the same inside and outside.
    pub(super) fn of(server: &InstalledServer, parent: &Path) -> Option<Self> {
        let root = server.root.clone()?;
        let parent = parent.to_owned();
        let binds = vec![("/proc".into(), "proc"), (parent.clone(), "tmp")];
        Some(Self {
            root,
            parent,
            binds,
        })
    }

    /// What a path below the parent is called inside the root.
    pub(super) fn inside(&self, path: &Path) -> PathBuf {
        Path::new("/tmp").join(path.strip_prefix(&self.parent).unwrap_or(path))
    }
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerExit {
    /// It ended with this exit code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// Its guardian was killed, and it with its guardian.
    WithGuardian,
}

impl std::fmt::Display for ServerExit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::WithGuardian => f.write_str("killed together with its guardian"),
        }
    }
}

/// Our end of a guardian.
#[derive(Debug)]
pub(super) struct Guardian {
    guardian_pid: libc::pid_t,
    server_pid: u32,
    /// `None` once closed, which tells the guardian to end everything.
    control: Option<File>,
    status: File,
    exit: Option<ServerExit>,
}

/// Commands to a guardian, one byte each.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub(super) enum Command {
    /// Ask the server to shut down.
    Terminate = b'T',
    /// Kill the server.
    Kill = b'K',
    /// Live on without us, until the server ends.
    Detach = b'D',
    /// Remove nothing at the end.
    Leave = b'L',
}

/// Forks the guardian, which forks and runs the program; returns when the program's process
/// exists. That it could not be executed is reported by [`Guardian::exit_until`].
pub(super) fn spawn(launch: &Launch<'_>) -> io::Result<Guardian> {
    let (control_read, control_write) = pipe()?;
    let (status_read, status_write) = pipe()?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    let prepared = Prepared::new(launch, &control_read, &status_write, &null)?;
    let guardian_pid = fork_with_signals_blocked(&prepared)?;
    drop((control_read, status_write));
    let mut guardian = Guardian {
        guardian_pid,
        server_pid: 0,
        control: Some(File::from(control_write)),
        status: File::from(status_read),
        exit: None,
    };
    match guardian.read_record()? {
        Some((child::STARTED, pid, _)) => guardian.server_pid = pid as u32,
        Some((_, step, errno)) => return Err(step_error(step, errno)),
        None => return Err(io::Error::other("the guardian process ended at once")),
    }
    Ok(guardian)
}

fn fork_with_signals_blocked(prepared: &Prepared) -> io::Result<libc::pid_t> {
    // No handler of this process may run in the guardian, where it would write into pipes that
    // both processes share; the guardian keeps every signal blocked for good.
    // SAFETY: the sets are plain values of this frame; the calls take valid pointers to them.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut before);
        let pid = libc::fork();
        if pid == 0 {
            child::guard(prepared);
        }
        let error = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        if pid < 0 { Err(error) } else { Ok(pid) }
    }
}

fn step_error(step: i32, errno: i32) -> io::Error {
    let cause = io::Error::from_raw_os_error(errno);
    io::Error::new(cause.kind(), format!("{}: {cause}", Step::name(step)))
}

impl Guardian {
    /// Process id of the program.
    pub(super) fn server_pid(&self) -> u32 {
        self.server_pid
    }

    /// Process id of the guardian.
    pub(super) fn pid(&self) -> u32 {
        self.guardian_pid as u32
    }

    /// A descriptor that becomes readable when the program ends.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.status.as_fd()
    }

    /// The same, as a number.
    pub(super) fn status_fd(&self) -> RawFd {
        self.status.as_raw_fd()
    }

    /// Sends a command; a guardian that is gone needs none.
    pub(super) fn command(&mut self, command: Command) {
        if let Some(control) = &mut self.control {
            let _ = control.write_all(&[command as u8]);
        }
    }

    /// How the program ended, waiting for it until the deadline. `Ok(None)`: it still runs.
    ///
    /// # Errors
    /// The program could not be executed at all; the error names the step that failed.
    pub(super) fn exit_until(&mut self, deadline: Instant) -> io::Result<Option<ServerExit>> {
        while self.exit.is_none() {
            if !wait_readable(&[self.status_fd()], Some(deadline))?[0] {
                return Ok(None);
            }
            self.exit = match self.read_record()? {
                Some((child::EXITED, libc::CLD_EXITED, code)) => Some(ServerExit::Code(code)),
                Some((child::EXITED, _, signal)) => Some(ServerExit::Signal(signal)),
                Some((child::FAILED, step, errno)) => return Err(step_error(step, errno)),
                Some(_) => None,
                None => Some(ServerExit::WithGuardian),
            };
        }
        Ok(self.exit)
    }

    /// One record of the status pipe; `None` if the guardian is gone.
    fn read_record(&mut self) -> io::Result<Option<(i32, i32, i32)>> {
        let mut bytes = [0u8; child::RECORD_BYTES];
        match self.status.read_exact(&mut bytes) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let word = |at: usize| {
            i32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        Ok(Some((word(0), word(4), word(8))))
    }

    /// Asks the program to end, kills it after `patience`, and says how it ended and whether it
    /// had to be killed.
    pub(super) fn terminate(&mut self, patience: Duration) -> io::Result<(ServerExit, bool)> {
        self.command(Command::Terminate);
        if let Some(exit) = self.exit_until(Instant::now() + patience)? {
            return Ok((exit, false));
        }
        self.command(Command::Kill);
        // Only a process stuck in the kernel outlives SIGKILL for so long.
        let exit = self.exit_until(Instant::now() + Duration::from_secs(30))?;
        exit.map(|exit| (exit, true)).ok_or_else(|| {
            io::Error::other(format!(
                "process {} outlives SIGKILL for 30 s",
                self.server_pid
            ))
        })
    }

    /// Lets the guardian end everything, and waits until it has.
    pub(super) fn finish(mut self) {
        self.close();
    }

    /// Leaves the server and its guardian to themselves.
    pub(super) fn detach(mut self) {
        self.command(Command::Detach);
        self.control = None;
        // Not waited for: it lives on, and init takes it over when this process ends.
        self.guardian_pid = 0;
    }

    fn close(&mut self) {
        self.control = None;
        if self.guardian_pid > 0 {
            // SAFETY: waits for our own child; a null status pointer is allowed.
            while unsafe { libc::waitpid(self.guardian_pid, std::ptr::null_mut(), 0) } < 0
                && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
            {}
            self.guardian_pid = 0;
        }
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        self.close();
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = io::pipe()?;
    Ok((reader.into(), writer.into()))
}

/// A path or argument for the kernel.
pub(super) fn c_string(text: impl Into<Vec<u8>>) -> io::Result<CString> {
    CString::new(text.into())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a path or setting holds a NUL"))
}

/// A path for the kernel.
pub(super) fn c_path(path: &Path) -> io::Result<CString> {
    use std::os::unix::ffi::OsStrExt;
    c_string(path.as_os_str().as_bytes())
}
