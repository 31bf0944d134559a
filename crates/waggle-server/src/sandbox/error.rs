//! Why a throw-away server could not be had, in words a user can act on.

use std::io;
use std::path::PathBuf;

use super::ServerExit;
use crate::Flavour;

/// Why a throw-away server could not be started or stopped.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// No program of this family is installed.
    #[error("no {flavour} server was found: {remedy}")]
    NotInstalled {
        /// The family asked for.
        flavour: Flavour,
        /// What to do about it.
        remedy: String,
    },
    /// The server lies in a root of its own, which only root may enter.
    #[error("MySQL in {root} runs in a root of its own: run waggle as root")]
    NeedsRoot {
        /// The root directory.
        root: PathBuf,
    },
    /// The name cannot be used.
    #[error("a server cannot be named {name:?}: {why}")]
    BadName {
        /// The name asked for.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Another server has this name.
    #[error(
        "a server named {name:?} is running already: choose another name, or \
         `waggle server down {name}`"
    )]
    NameTaken {
        /// The name asked for.
        name: String,
    },
    /// There is no such throw-away server.
    #[error("no server named {name:?} is running: `waggle server list` shows those that are")]
    NoSuchName {
        /// The name asked for.
        name: String,
    },
    /// The setting cannot be passed on.
    #[error("the setting {name:?} cannot be given to a throw-away server: {why}")]
    BadSetting {
        /// The setting asked for.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The data directory to copy belongs to a server that runs.
    #[error(
        "the data directory {datadir} cannot be copied: a server runs on it; stop that server first"
    )]
    DataInUse {
        /// The directory.
        datadir: PathBuf,
    },
    /// There is no data directory to copy.
    #[error("the data directory {datadir} cannot be copied: it has no ibdata1, so it is none")]
    NoData {
        /// The directory.
        datadir: PathBuf,
    },
    /// The server's user cannot get to where the server is to be.
    #[error(
        "a throw-away server cannot be made in {dir}: it runs as a user of its own, who may not \
         enter {barred}; choose a directory that others may go through, such as /var/tmp"
    )]
    NotReachable {
        /// Where the server was to be made.
        dir: PathBuf,
        /// The first part of the path that is closed.
        barred: PathBuf,
    },
    /// The path of the Unix socket would be longer than the kernel allows.
    #[error("the socket path {path} is longer than 107 bytes: choose a shorter directory or name")]
    PathTooLong {
        /// What the path would be.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("{doing}: {cause}")]
    Io {
        /// What was being done, to what.
        doing: String,
        /// The failure.
        cause: io::Error,
    },
    /// The first data directory of this server build could not be made.
    #[error(
        "{flavour} could not make its first data directory ({exit}): {message}\n  its log: {log}"
    )]
    Template {
        /// The family of the server.
        flavour: Flavour,
        /// How it ended.
        exit: ServerExit,
        /// The server's own words.
        message: String,
        /// The whole log.
        log: PathBuf,
    },
    /// The server ended before it answered.
    #[error("{flavour} did not start ({exit}): {message}\n  its log: {log}")]
    Refused {
        /// The family of the server.
        flavour: Flavour,
        /// How it ended.
        exit: ServerExit,
        /// The server's own words.
        message: String,
        /// The whole log.
        log: PathBuf,
    },
    /// The server runs but did not answer in time.
    #[error("{flavour} did not answer within {seconds} s: {message}\n  its log: {log}")]
    NotReady {
        /// The family of the server.
        flavour: Flavour,
        /// How long it was waited for.
        seconds: u64,
        /// The last failure of a connection, and what the log ends with.
        message: String,
        /// The whole log.
        log: PathBuf,
    },
    /// The server ended although nobody asked it to, or failed while it shut down.
    #[error("{flavour} {name:?} failed ({exit}): {message}\n  its log: {log}")]
    Died {
        /// The family of the server.
        flavour: Flavour,
        /// Its name.
        name: String,
        /// How it ended.
        exit: ServerExit,
        /// The server's own words.
        message: String,
        /// The whole log.
        log: PathBuf,
    },
    /// The server did not shut down when asked to, and was killed.
    #[error("server {name:?} did not shut down within {seconds} s and was killed")]
    Killed {
        /// Its name.
        name: String,
        /// How long it was waited for.
        seconds: u64,
    },
}

impl SandboxError {
    /// Whether the request itself cannot be met here (wrong name, wrong setting, no program), as
    /// opposed to a failure of something that had begun. Either way nothing is left behind but
    /// the log that the message names.
    pub fn is_unusable(&self) -> bool {
        !matches!(
            self,
            Self::Io { .. } | Self::NotReady { .. } | Self::Died { .. } | Self::Killed { .. }
        )
    }

    pub(super) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |cause| Self::Io { doing, cause }
    }
}
