//! The throw-away servers of this user, across processes.
//!
//! `${XDG_RUNTIME_DIR:-/run}/waggle/servers/<name>.json`, written when a server answers and removed
//! by its guardian when it ends. Invariant: an entry is shown only while the lock of its directory
//! is held and both its processes live; files of servers that are gone are removed when met.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::SandboxError;
use super::rundir::{is_in_use, random_word};
use crate::Flavour;
use crate::pidfd::PidFd;

/// A throw-away server that answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerEntry {
    /// What it is called in `waggle server down`.
    pub name: String,
    /// Its family.
    pub flavour: Flavour,
    /// What it calls itself.
    pub version: String,
    /// Process id of the server.
    pub pid: u32,
    /// Process id of its guardian.
    pub guardian_pid: u32,
    /// Process it ends with; `None` if it was detached.
    pub owner_pid: Option<u32>,
    /// How to connect over TCP, or over the socket if it has no TCP. It names the file with the
    /// password.
    pub dsn: String,
    /// How to connect over the Unix socket.
    pub dsn_socket: String,
    /// TCP port on 127.0.0.1; `None`: it has no TCP.
    pub port: Option<u16>,
    /// Unix socket.
    pub socket: PathBuf,
    /// Its own directory.
    pub dir: PathBuf,
    /// Data directory, within `dir`.
    pub datadir: PathBuf,
    /// Error log, within `dir`.
    pub log: PathBuf,
    /// When it answered, in seconds since 1970.
    pub started_unix_s: u64,
    /// The name of the throw-away server that it replicates from; `None`: from none.
    #[serde(default)]
    pub replica_of: Option<String>,
}

impl ServerEntry {
    /// Stops the server in an orderly way, by force after `patience`; true if force was needed.
    /// If it was detached, waits until its directory is removed.
    ///
    /// # Errors
    /// [`SandboxError::NoSuchName`] if it has ended meanwhile.
    pub fn stop(&self, patience: Duration) -> Result<bool, SandboxError> {
        let gone = || SandboxError::NoSuchName {
            name: self.name.clone(),
        };
        let io = || SandboxError::io(format!("cannot stop server {:?}", self.name));
        let server = PidFd::open(self.pid).map_err(|_| gone())?;
        let guardian = PidFd::open(self.guardian_pid).map_err(|_| gone())?;
        // The entry is removed before the number is free again, so now it is the right process.
        if find(&self.name).is_none_or(|now| now.pid != self.pid) {
            return Err(gone());
        }
        let signalled = |result: io::Result<()>| match result {
            Err(error) if error.raw_os_error() != Some(libc::ESRCH) => Err(io()(error)),
            _ => Ok(()),
        };
        signalled(server.signal(libc::SIGTERM))?;
        let forced = !server.wait_until(Instant::now() + patience);
        if forced {
            signalled(server.signal(libc::SIGKILL))?;
            server.wait_until(Instant::now() + Duration::from_secs(30));
        }
        if self.owner_pid.is_none() {
            guardian.wait_until(Instant::now() + Duration::from_secs(30));
        }
        Ok(forced)
    }
}

/// All throw-away servers of this user that answer, by name.
pub fn list() -> Vec<ServerEntry> {
    let Ok(files) = fs::read_dir(servers_dir()) else {
        return Vec::new();
    };
    let mut entries: Vec<ServerEntry> = files
        .filter_map(|file| Some(file.ok()?.path()))
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .filter_map(|path| read(&path))
        .collect();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    entries
}

/// The throw-away server of this name, if it answers.
pub fn find(name: &str) -> Option<ServerEntry> {
    super::check_name(name).ok()?;
    read(&entry_path(name))
}

/// An entry, if its server lives; else its file is removed.
fn read(path: &Path) -> Option<ServerEntry> {
    let entry: ServerEntry = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let lives = |pid| PidFd::open(pid).is_ok_and(|process| !process.wait_until(Instant::now()));
    if is_in_use(&entry.dir) && lives(entry.guardian_pid) && lives(entry.pid) {
        return Some(entry);
    }
    let _ = fs::remove_file(path);
    None
}

/// Publishes an entry, whole or not at all.
pub(super) fn announce(entry: &ServerEntry) -> io::Result<()> {
    let dir = servers_dir();
    make_private(&dir)?;
    let draft = dir.join(format!(".{}", random_word(12)));
    let mut file = fs::File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)?;
    let written = serde_json::to_writer(&mut file, entry)
        .map_err(io::Error::from)
        .and_then(|()| file.write_all(b"\n"))
        .and_then(|()| fs::rename(&draft, entry_path(&entry.name)));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}

/// The file of a server with this name.
pub(super) fn entry_path(name: &str) -> PathBuf {
    servers_dir().join(format!("{name}.json"))
}

fn servers_dir() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    // SAFETY: geteuid has no arguments and cannot fail.
    let own = unsafe { libc::geteuid() };
    let base = match runtime.filter(|dir| dir.is_absolute() && dir.is_dir()) {
        Some(runtime) => runtime.join("waggle"),
        None if own == 0 && Path::new("/run").is_dir() => "/run/waggle".into(),
        None => PathBuf::from(format!("/tmp/waggle.{own}")),
    };
    base.join("servers")
}

/// Makes a directory only we can write to; in `/tmp`, somebody else may have made it first.
fn make_private(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)?;
    // SAFETY: geteuid has no arguments and cannot fail.
    let own = unsafe { libc::geteuid() };
    for dir in [Some(dir), dir.parent()].into_iter().flatten() {
        if fs::symlink_metadata(dir)?.uid() != own {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("{} belongs to another user", dir.display()),
            ));
        }
    }
    Ok(())
}
