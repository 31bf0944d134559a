//! The directory of one throw-away server, and the lock that says it is in use.
//!
//! `<parent>/waggle-<name>/` holds `lock`, `password` and `error.log`, which are the starter's, and
//! for the server `data/`, `tmp/`, `files/` (LOAD DATA, INTO OUTFILE) and `run/` (socket, pid
//! file). The server's group may pass, nobody else. Its maker and the guardian hold the lock
//! (flock) on one open file. Invariants: a directory that has a lock file nobody holds belongs to
//! nobody, and [`sweep`] removes it; what the server can rename or replace lies below its own
//! directories alone.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::SandboxError;
use super::account::{barred_at, give};
use super::guardian::c_path;

/// First line of a lock file: nothing else is ever removed by [`sweep`].
const MAGIC: &[u8] = b"waggle sandbox\n";

/// The socket, below the server's directory.
pub(super) const SOCKET: &str = "run/mysqld.sock";

/// The longest path a Unix socket can have, without its closing NUL.
const SOCKET_PATH_BYTES: usize = 107;

/// A directory in use. Dropping it removes it, if the guardian has not yet.
#[derive(Debug)]
pub(super) struct RunDir {
    path: PathBuf,
    account: Option<u32>,
    lock: File,
    keep: bool,
}

impl RunDir {
    /// Makes the directory for a server of this name, which runs as `account` or as this user. It
    /// appears under its name complete and locked.
    pub(super) fn create(
        parent: &Path,
        name: &str,
        account: Option<u32>,
    ) -> Result<Self, SandboxError> {
        let path = parent.join(format!("waggle-{name}"));
        let socket = path.join(SOCKET);
        if socket.as_os_str().as_bytes().len() > SOCKET_PATH_BYTES {
            return Err(SandboxError::PathTooLong { path: socket });
        }
        let doing = || format!("cannot make the server's directory {}", path.display());
        let draft = parent.join(format!(".waggle-new-{}", random_word(12)));
        let lock = Self::fill(&draft, account).map_err(|error| {
            let _ = fs::remove_dir_all(&draft);
            SandboxError::io(doing())(error)
        })?;
        // Renaming a directory onto one that is not empty fails, so a name has one owner.
        match fs::rename(&draft, &path) {
            Ok(()) => Ok(Self {
                path,
                account,
                lock,
                keep: false,
            }),
            Err(error) => {
                let _ = fs::remove_dir_all(&draft);
                Err(match error.kind() {
                    io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists => {
                        SandboxError::NameTaken {
                            name: name.to_owned(),
                        }
                    }
                    _ => SandboxError::io(doing())(error),
                })
            }
        }
    }

    fn fill(draft: &Path, account: Option<u32>) -> io::Result<File> {
        fs::DirBuilder::new().mode(0o700).create(draft)?;
        for (name, mode) in [("tmp", 0o700), ("files", 0o700), ("run", 0o711)] {
            make_for(&draft.join(name), mode, account)?;
        }
        if account.is_some() {
            // The group is the server's, which may pass; the owner stays.
            std::os::unix::fs::chown(draft, None, account)?;
            fs::set_permissions(draft, fs::Permissions::from_mode(0o710))?;
        }
        let mut lock = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(draft.join("lock"))?;
        if !try_lock(&lock)? {
            return Err(io::Error::other(
                "somebody else locked a directory just made",
            ));
        }
        lock.write_all(MAGIC)?;
        Ok(lock)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn lock(&self) -> &File {
        &self.lock
    }

    /// Opens the error log for appending, for the server's standard output and error.
    pub(super) fn open_log(&self) -> io::Result<File> {
        File::options()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(self.path.join("error.log"))
    }

    /// Makes an empty directory for the server's data.
    pub(super) fn make_data(&self) -> io::Result<()> {
        make_for(&self.path.join("data"), 0o700, self.account)
    }

    /// Writes a file that this user alone reads.
    pub(super) fn write_private(&self, name: &str, content: &[u8]) -> io::Result<()> {
        self.new_file(name, 0o600)?.write_all(content)
    }

    /// Writes a file that the server can read, and nobody but this user can change.
    pub(super) fn write_readable(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let mut file = self.new_file(name, 0o600)?;
        file.write_all(content)?;
        if self.account.is_some() {
            std::os::unix::fs::fchown(&file, None, self.account)?;
            file.set_permissions(fs::Permissions::from_mode(0o640))?;
        }
        Ok(())
    }

    /// Removes a file that this user wrote here; one that is not there is fine.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.path.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn new_file(&self, name: &str, mode: u32) -> io::Result<File> {
        self.remove(name)?;
        File::options()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(self.path.join(name))
    }

    /// Makes the server's directory for temporary files empty, as a host does when it boots: a
    /// server that was killed leaves files there, and one of them (a replica's `SQL_LOAD-…`) keeps
    /// its successor's applier from starting.
    pub(super) fn clear_tmp(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.path.join("tmp"))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Leaves the directory to the guardian.
    pub(super) fn release(mut self) {
        self.keep = true;
    }
}

/// Gives the server a file under another name; a copy where that cannot be, or where the server's
/// user could not read it.
pub(super) fn lend(from: &Path, to: &Path, account: Option<u32>) -> io::Result<()> {
    let mut source = File::open(from)?;
    if fs::symlink_metadata(to).is_ok() {
        fs::remove_file(to)?;
    }
    let is_readable = account.is_none() || source.metadata()?.mode() & 0o004 != 0;
    if is_readable && fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    // The server's own directory: a link that it put there meanwhile is not followed.
    let mut copy = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(to)?;
    io::copy(&mut source, &mut copy)?;
    match account {
        Some(id) => std::os::unix::fs::fchown(&copy, Some(id), Some(id)),
        None => Ok(()),
    }
}

/// Makes a directory that belongs to the server.
fn make_for(path: &Path, mode: u32, account: Option<u32>) -> io::Result<()> {
    fs::DirBuilder::new().mode(mode).create(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    give(path, account)
}

impl Drop for RunDir {
    fn drop(&mut self) {
        if !self.keep {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Longest path of `TMPDIR` that leaves room for a socket's, bytes.
const TMPDIR_MAX: usize = 60;

/// Where throw-away servers live unless told otherwise: `TMPDIR` if it is set and can be used, else
/// `/tmp`, or `/var/tmp` where `/tmp` is in memory, as a server on a memory file system would be
/// another server.
pub(super) fn default_parent() -> PathBuf {
    let named = std::env::var_os("TMPDIR").map(PathBuf::from);
    let fits = |dir: &PathBuf| {
        // SAFETY: geteuid has no arguments and cannot fail.
        let is_root = unsafe { libc::geteuid() } == 0;
        let is_place = dir.is_absolute() && dir.is_dir();
        let is_place = is_place && !(is_root && barred_at(dir).is_some());
        is_place && dir.as_os_str().len() <= TMPDIR_MAX
    };
    if let Some(named) = named.filter(|dir| fits(dir) && !is_in_memory(dir)) {
        return named;
    }
    let [tmp, var_tmp] = ["/tmp", "/var/tmp"].map(PathBuf::from);
    if is_in_memory(&tmp) && !is_in_memory(&var_tmp) {
        var_tmp
    } else {
        tmp
    }
}

fn is_in_memory(path: &Path) -> bool {
    let Ok(path) = c_path(path) else { return true };
    // SAFETY: statfs is plain data, the path is a C string; both live during the call.
    unsafe {
        let mut facts: libc::statfs = std::mem::zeroed();
        // A place that cannot be looked at is as little use as one in memory.
        libc::statfs(path.as_ptr(), &raw mut facts) != 0 || facts.f_type == libc::TMPFS_MAGIC
    }
}

/// Whether somebody holds the lock of this directory.
pub(super) fn is_in_use(dir: &Path) -> bool {
    File::open(dir.join("lock")).is_ok_and(|lock| !try_lock(&lock).unwrap_or(false))
}

/// Removes the directories that servers of ended machines or killed guardians left in `parents`.
pub(super) fn sweep(parents: &[&Path]) {
    // SAFETY: geteuid has no arguments and cannot fail.
    let own = unsafe { libc::geteuid() };
    for entry in parents
        .iter()
        .filter_map(|parent| fs::read_dir(parent).ok())
        .flatten()
        .flatten()
    {
        let name = entry.file_name();
        let ours = [&b"waggle-"[..], b".waggle-new-"];
        let is_ours = ours
            .iter()
            .any(|prefix| name.as_bytes().starts_with(prefix))
            && entry
                .metadata()
                .is_ok_and(|facts| facts.is_dir() && facts.uid() == own);
        if is_ours {
            let _ = remove_if_dead(&entry.path());
        }
    }
}

fn remove_if_dead(dir: &Path) -> io::Result<()> {
    let mut lock = File::open(dir.join("lock"))?;
    let mut magic = [0u8; MAGIC.len()];
    lock.read_exact(&mut magic)?;
    // Held until it is gone, so that two sweepers do not meet in it.
    if magic == MAGIC && try_lock(&lock)? {
        fs::remove_dir_all(dir)
    } else {
        Ok(())
    }
}

/// Takes the lock if nobody holds it. It belongs to the open file, which forked processes share.
pub(super) fn try_lock(file: &File) -> io::Result<bool> {
    // SAFETY: an open descriptor and integers.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::WouldBlock {
        Ok(false)
    } else {
        Err(error)
    }
}

/// Takes the lock, waiting for whoever holds it.
pub(super) fn lock(file: &File) -> io::Result<()> {
    loop {
        // SAFETY: an open descriptor and an integer.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Some random letters and digits, for names.
pub(crate) fn random_word(len: usize) -> String {
    let mut bytes = vec![0u8; len];
    // SAFETY: the buffer is that long. So few bytes always come at once; zeros would still be a
    // name, if an unlucky one.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), len, 0) };
    word(&bytes)
}

/// Five bits of each byte as a letter or digit.
fn word(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    bytes
        .iter()
        .map(|byte| char::from(ALPHABET[usize::from(byte % 32)]))
        .collect()
}

/// A password that cannot be guessed: 130 bits, as letters and digits.
pub(crate) fn random_password() -> io::Result<String> {
    let mut bytes = [0u8; 26];
    // SAFETY: the buffer is that long.
    let filled = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if filled != bytes.len() as isize {
        return Err(io::Error::last_os_error());
    }
    Ok(word(&bytes))
}

/// Some random number.
pub(crate) fn random_number() -> u32 {
    let mut bytes = [0u8; 4];
    // SAFETY: the buffer is that long; see above for so few bytes.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    u32::from_ne_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_owner_a_name_and_only_dead_directories_are_swept() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path();
        let live = RunDir::create(parent, "a", None).unwrap();
        assert!(matches!(
            RunDir::create(parent, "a", None),
            Err(SandboxError::NameTaken { .. })
        ));
        let dead = RunDir::create(parent, "b", None).unwrap();
        let dead_path = dead.path().to_owned();
        dead.release();
        fs::create_dir(parent.join("waggle-stranger")).unwrap();
        fs::write(
            parent.join("waggle-stranger/lock"),
            b"something else, quite long",
        )
        .unwrap();
        assert!(is_in_use(live.path()) && !is_in_use(&dead_path));

        sweep(&[parent]);
        let mut left: Vec<_> = fs::read_dir(parent)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["waggle-a", "waggle-stranger"]);
        drop(live);
        assert!(!parent.join("waggle-a").exists());
    }

    #[test]
    fn a_socket_path_has_a_limit() {
        let parent = PathBuf::from(format!("/{}", "x".repeat(100)));
        assert!(matches!(
            RunDir::create(&parent, "a", None),
            Err(SandboxError::PathTooLong { .. })
        ));
    }
}
