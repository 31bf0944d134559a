//! Errors of the run directory: they name the file, the system's own words and what to try.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// A run directory could not be created or written.
///
/// Everything written before the failing step stays readable.
#[derive(Debug, Error)]
#[error("cannot {action} {}: {cause}; {}", path.display(), remedy(cause, *kept))]
pub struct RunError {
    /// What was being done, as words that fit after "cannot".
    pub action: &'static str,
    /// The file or directory it was done to.
    pub path: PathBuf,
    /// Whether a run directory with readable content exists already.
    pub kept: bool,
    /// What the system said. It is part of the message, and so not a source of its own.
    pub cause: io::Error,
}

impl RunError {
    pub(crate) fn new(action: &'static str, path: &Path, kept: bool, cause: io::Error) -> Self {
        Self {
            action,
            path: path.to_path_buf(),
            kept,
            cause,
        }
    }

    /// Whether the file system (or the user's share of it) is full.
    pub fn is_full(&self) -> bool {
        is_full(&self.cause)
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG)
    )
}

fn remedy(error: &io::Error, kept: bool) -> String {
    let step = match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => {
            "free space there or choose another directory for runs"
        }
        Some(libc::ENOENT | libc::ESTALE) => {
            "the directory is gone: create it again or choose another directory for runs"
        }
        Some(libc::EACCES | libc::EPERM | libc::EROFS) => {
            "make it writable or choose another directory for runs"
        }
        Some(libc::ENOTDIR | libc::EEXIST | libc::EISDIR) => {
            "something else has that name: move it or choose another directory for runs"
        }
        Some(libc::EMFILE | libc::ENFILE) => "raise the limit of open files (`ulimit -n`)",
        _ => "check that file system or choose another directory for runs",
    };
    let kept = if kept {
        "; what was written before stays readable"
    } else {
        ""
    };
    format!("{step}{kept}")
}

/// A run directory could not be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The path holds no run.
    #[error(
        "{} is not a run: it has no {}{}",
        path.display(), super::RUN_FILE, others(runs_inside)
    )]
    NotARun {
        /// The path as given.
        path: PathBuf,
        /// Names of runs found one level below, newest first, at most five.
        runs_inside: Vec<String>,
    },
    /// A file of the run could not be opened or read.
    #[error("cannot read {}: {cause}; check that it exists and is readable", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said. It is part of the message, and so not a source of its own.
        cause: io::Error,
    },
    /// A file of the run is not what it should be.
    #[error(
        "{} is not a usable run file: {reason}; it was damaged or written by another program",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The run was written by a newer waggle.
    #[error(
        "{} has run format {found}, this waggle reads up to {known}; use the waggle that wrote it \
         or a newer one",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version found.
        found: u32,
        /// The newest version this build reads.
        known: u32,
    },
}

impl ReadError {
    /// Of what the system, or a bound, said of a file.
    pub(super) fn of(path: &Path, cause: io::Error) -> Self {
        let path = path.to_path_buf();
        match cause.kind() {
            io::ErrorKind::FileTooLarge | io::ErrorKind::InvalidInput => Self::Damaged {
                path,
                reason: cause.to_string(),
            },
            _ => Self::Io { path, cause },
        }
    }
}

/// A run could not be taken up again.
#[derive(Debug, Error)]
pub enum ReopenError {
    /// What is there cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// What is there cannot be written.
    #[error(transparent)]
    Write(#[from] RunError),
}

fn others(runs_inside: &[String]) -> String {
    match runs_inside {
        [] => "; name a directory that waggle wrote".to_owned(),
        runs => format!(
            "; it holds runs, name one of them, newest first: {}",
            runs.join(", ")
        ),
    }
}
