//! A server on the data that another one left: how a trial starts again from the same tables, and
//! how a replica gets its primary's.
//!
//! Neighbours: `copy` copies, the parent module starts. Invariant: a data directory is copied only
//! while no server runs on it, as the copy of one that does is of no single moment.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use super::copy::open_plain;
use super::guardian::Command;
use super::{STOP_PATIENCE, Sandbox, SandboxError, SandboxSpec, registry};

/// A data directory to start from, and what of its top is not taken over.
pub(super) struct Data<'a> {
    pub(super) from: &'a Path,
    pub(super) is_left: &'a dyn Fn(&OsStr) -> bool,
}

impl Sandbox {
    /// Starts a server on a copy of the data directory `from`, which a server of the same build
    /// left in an orderly way: one that was [halted](Self::halt), for instance. The copy is a
    /// server of its own (another UUID); its settings are those of `spec` alone.
    ///
    /// # Errors
    /// Those of [`start`](Self::start), [`SandboxError::DataInUse`] and [`SandboxError::NoData`].
    pub fn start_on_copy(spec: &SandboxSpec, from: &Path) -> Result<Self, SandboxError> {
        Self::start_on_part(spec, from, &|_| false)
    }

    /// The same without the files of the directory's top that `is_left` says so of.
    pub(crate) fn start_on_part(
        spec: &SandboxSpec,
        from: &Path,
        is_left: &dyn Fn(&OsStr) -> bool,
    ) -> Result<Self, SandboxError> {
        check_unused(from)?;
        Self::begin(spec, Some(Data { from, is_left }))
    }

    /// Stops the server in an orderly way and keeps its directory, for [`restart`](Self::restart)
    /// or for [copies](Self::start_on_copy). Nothing is done to one that was stopped before.
    ///
    /// # Errors
    /// As [`stop`](Self::stop): it failed or had to be killed. The server is down even so.
    pub fn halt(&mut self) -> Result<(), SandboxError> {
        let Some(mut guardian) = self.guardian.take() else {
            return Ok(());
        };
        let ended = guardian.terminate(STOP_PATIENCE);
        guardian.command(Command::Leave);
        guardian.finish();
        self.judge_end(ended)
    }

    /// Says in the registry whose replica it is.
    ///
    /// # Errors
    /// [`SandboxError::Io`] if the registry cannot be written; the server runs on.
    pub fn set_replica_of(&mut self, primary: Option<String>) -> Result<(), SandboxError> {
        self.entry.replica_of = primary;
        // One that is down is published when it is up.
        if self.guardian.is_some() {
            let path = registry::entry_path(&self.entry.name);
            registry::announce(&self.entry)
                .map_err(SandboxError::io(format!("cannot write {}", path.display())))?;
        }
        Ok(())
    }
}

/// Refuses what is no data directory, and one that a server has open.
fn check_unused(datadir: &Path) -> Result<(), SandboxError> {
    let space = datadir.join("ibdata1");
    let in_use = open_plain(&space).and_then(|file| is_locked(&file));
    match in_use {
        Ok(false) => Ok(()),
        Ok(true) => Err(SandboxError::DataInUse {
            datadir: datadir.to_owned(),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(SandboxError::NoData {
            datadir: datadir.to_owned(),
        }),
        Err(error) => Err(SandboxError::io(format!(
            "cannot look at {}",
            space.display()
        ))(error)),
    }
}

/// Whether another process holds a lock on the file, as InnoDB does on its first table space.
fn is_locked(file: &File) -> io::Result<bool> {
    // SAFETY: a flock is plain data; the call fills the one of this frame.
    let (answer, lock) = unsafe {
        let mut lock: libc::flock = std::mem::zeroed();
        lock.l_type = libc::F_WRLCK as libc::c_short;
        lock.l_whence = libc::SEEK_SET as libc::c_short;
        let answer = libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut lock);
        (answer, lock)
    };
    match answer {
        0 => Ok(lock.l_type != libc::F_UNLCK as libc::c_short),
        _ => Err(io::Error::last_os_error()),
    }
}
