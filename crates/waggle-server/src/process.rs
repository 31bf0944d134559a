//! Which servers run on this machine, in whatever container or chroot.
//!
//! Asks `/proc` and, for what a program is, [`crate::binary`] through `/proc/PID/exe`, which opens
//! the very file that runs even when it was deleted by an upgrade or lies in another mount
//! namespace. Invariant: a process is called a server only after its program file has shown the
//! marks of one; a name alone is never enough.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use serde::Serialize;
use waggle_foreign::{Printable, read_maps, read_text};

use crate::Flavour;
use crate::binary::{self, NotAServerBinary, ServerBinary};
use crate::sandbox::DYNAMIC_IDS;

/// A running server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServerProcess {
    /// Process id, as this process sees it.
    pub pid: u32,
    /// The program as the kernel names it; to open it, use [`exe_file`](Self::exe_file).
    pub exe: PathBuf,
    /// The program file was removed or replaced since the server started (an upgrade).
    pub exe_deleted: bool,
    /// The family of the server.
    pub flavour: Flavour,
    /// Its version: what the running server calls itself (`10.11.19-MariaDB-0+deb12u1`) if its
    /// memory may be read, else what the program file says (`10.11.19-MariaDB`).
    pub version: Option<String>,
    /// GNU build id in lower-case hex.
    pub build_id: Option<String>,
    /// Its root directory if it is not `/` (a chroot or a container).
    pub root: Option<PathBuf>,
    /// It lives in another mount namespace than this process (a container or a sandbox).
    pub foreign_mounts: bool,
    /// Device number of the program file.
    pub exe_dev: u64,
    /// Inode number of the program file: servers with equal device and inode share probes.
    pub exe_inode: u64,
}

impl ServerProcess {
    /// A path that opens the very program file that runs, also when it was deleted or lies in
    /// another mount namespace: `/proc/PID/exe`.
    pub fn exe_file(&self) -> PathBuf {
        proc_path(self.pid, "exe")
    }
}

/// Longest texts of `/proc` that are read, bytes. A command line may have 2 MB.
const COMM_BYTES_MAX: u64 = 256;
const STATUS_BYTES_MAX: u64 = 64 << 10;
const ARGUMENT_BYTES_MAX: u64 = 8 << 10;

/// Why a process id does not name a server that can be used.
#[derive(Debug, thiserror::Error)]
pub enum NotAServer {
    /// There is no such process.
    #[error("there is no process {0}")]
    NoSuchProcess(u32),
    /// The process is something else.
    #[error("process {pid} is {name}, not a MySQL or MariaDB server")]
    OtherProgram {
        /// The process id asked for.
        pid: u32,
        /// What it is: its program, or its name in brackets if it has none.
        name: String,
    },
    /// The id is that of a thread.
    #[error("{tid} is a thread of process {pid}, not a process; use {pid}")]
    Thread {
        /// The id asked for.
        tid: u32,
        /// The process it belongs to.
        pid: u32,
    },
    /// The process may not be looked at.
    #[error("process {pid} ({name}) may not be inspected: permission denied; run as root")]
    PermissionDenied {
        /// The process id asked for.
        pid: u32,
        /// What it calls itself.
        name: String,
    },
    /// Something else failed while looking.
    #[error("process {pid} cannot be inspected: {cause}")]
    Io {
        /// The process id asked for.
        pid: u32,
        /// The failure.
        cause: io::Error,
    },
}

/// What is known of program files.
///
/// A file is told by more than its inode, whose number may be another file's after an upgrade.
#[derive(Debug, Default)]
pub(crate) struct Known(HashMap<FileId, Option<Program>>);

#[derive(Debug, Clone)]
struct Program {
    binary: ServerBinary,
    version_variable: Option<(u64, u64)>,
}

/// Device, inode, size, and when it was last changed, s and ns.
type FileId = (u64, u64, u64, i64, i64);

impl Known {
    /// Programs to remember; more are looked at again.
    const COUNT_MAX: usize = 64;

    fn inspect(&mut self, exe: &File, facts: &fs::Metadata) -> io::Result<Option<Program>> {
        let (size, changed) = (facts.size(), (facts.ctime(), facts.ctime_nsec()));
        let id = (facts.dev(), facts.ino(), size, changed.0, changed.1);
        if let Some(program) = self.0.get(&id) {
            return Ok(program.clone());
        }
        // By the file that is open: its process may end between two looks, and half of an answer
        // would be remembered for every other server of the same program.
        let exe = PathBuf::from(format!("/proc/self/fd/{}", exe.as_raw_fd()));
        let program = match binary::inspect(&exe) {
            Ok(binary) => Some(Program {
                binary,
                version_variable: binary::version_variable(&exe),
            }),
            Err(NotAServerBinary::Io(error)) => return Err(error),
            Err(_) => None,
        };
        if self.0.len() >= Self::COUNT_MAX {
            self.0.clear();
        }
        self.0.insert(id, program.clone());
        Ok(program)
    }
}

/// Every server that runs on this machine and may be looked at, in the order of process ids.
///
/// Only processes whose program or first argument is named like a server are opened.
/// Of each ordinary user, no more than 64 are: anyone may call a program so.
pub fn find_servers() -> Vec<ServerProcess> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mut known = Known::default();
    let mut pids: Vec<u32> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    pids.sort_unstable();
    let mut tried: HashMap<u32, usize> = HashMap::new();
    pids.into_iter()
        .filter(|&pid| is_named_like_a_server(pid))
        .filter(|&pid| {
            let user = user_of(pid).unwrap_or(u32::MAX);
            let count = tried.entry(user).or_default();
            *count += 1;
            !is_ordinary(user) || *count <= TRIED_OF_USER_MAX
        })
        .filter_map(|pid| look_at(pid, &mut known).ok())
        .take(SERVERS_MAX)
        .collect()
}

/// Most programs named like a server that are opened for each ordinary user.
pub(crate) const TRIED_OF_USER_MAX: usize = 64;
/// Most servers that are looked after on a host.
pub(crate) const SERVERS_MAX: usize = 1024;

/// The user that started a process. Asked of the process's state, since the owner of its directory
/// in `/proc` is root for one that hides its memory.
pub(crate) fn user_of(pid: u32) -> Option<u32> {
    let status = read_text(proc_path(pid, "status"), STATUS_BYTES_MAX).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// True for users that are people, or may be, and not a system's own. Services have ids below 1000
/// on every distribution, are `nobody`, or have an id for as long as they run: systemd's, and those
/// of throw-away servers ([`DYNAMIC_IDS`]).
pub(crate) fn is_ordinary(user: u32) -> bool {
    const NOBODY: u32 = 65_534;
    user >= 1000 && user != NOBODY && !DYNAMIC_IDS.contains(&user)
}

/// The server with this process id.
///
/// # Errors
/// [`NotAServer`] says what the process is instead, or why it could not be looked at.
pub fn from_pid(pid: u32) -> Result<ServerProcess, NotAServer> {
    let status = match read_text(proc_path(pid, "status"), STATUS_BYTES_MAX) {
        Ok(status) => status,
        Err(error) if is_gone(&error) => return Err(NotAServer::NoSuchProcess(pid)),
        Err(cause) => return Err(NotAServer::Io { pid, cause }),
    };
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
            .unwrap_or_default()
    };
    // /proc/TID exists for every thread, although it is not listed.
    match field("Tgid:").parse() {
        Ok(group) if group != pid => {
            return Err(NotAServer::Thread {
                tid: pid,
                pid: group,
            });
        }
        _ => {}
    }
    if field("State:").starts_with('Z') {
        return Err(NotAServer::NoSuchProcess(pid));
    }
    look_at(pid, &mut Known::default())
}

/// Program names of servers: `mysqld`, `mariadbd` and builds such as `mysqld-debug`. The wrapper
/// scripts `mysqld_safe` and `mysqld_multi` are not servers.
fn is_server_name(path: &Path) -> bool {
    let Some(name) = path.file_name() else {
        return false;
    };
    ["mysqld", "mariadbd"].iter().any(|known| {
        let rest = name.as_bytes().strip_prefix(known.as_bytes());
        rest.is_some_and(|rest| {
            rest.first()
                .is_none_or(|byte| matches!(byte, b'-' | b'.' | b' '))
        })
    })
}

pub(crate) fn is_named_like_a_server(pid: u32) -> bool {
    let exe = fs::read_link(proc_path(pid, "exe")).unwrap_or_default();
    // The first argument covers a server under a loader or with a renamed program.
    if is_server_name(&exe) {
        return true;
    }
    let mut argv0 = Vec::new();
    if let Ok(file) = File::open(proc_path(pid, "cmdline")) {
        let _ = file.take(ARGUMENT_BYTES_MAX).read_to_end(&mut argv0);
    }
    let argv0 = argv0.split(|&byte| byte == 0).next().unwrap_or_default();
    is_server_name(Path::new(OsStr::from_bytes(argv0)))
}

pub(crate) fn look_at(pid: u32, known: &mut Known) -> Result<ServerProcess, NotAServer> {
    let failed = |error: io::Error| match error.kind() {
        _ if is_gone(&error) && !proc_path(pid, "comm").exists() => NotAServer::NoSuchProcess(pid),
        // A kernel thread has no program.
        _ if is_gone(&error) => NotAServer::OtherProgram {
            pid,
            name: process_name(pid),
        },
        io::ErrorKind::PermissionDenied if seems_a_server(pid) => NotAServer::PermissionDenied {
            pid,
            name: process_name(pid),
        },
        io::ErrorKind::PermissionDenied => NotAServer::OtherProgram {
            pid,
            name: process_name(pid),
        },
        _ => NotAServer::Io { pid, cause: error },
    };
    let link = fs::read_link(proc_path(pid, "exe")).map_err(failed)?;
    let file = File::open(proc_path(pid, "exe")).map_err(failed)?;
    let facts = file.metadata().map_err(failed)?;
    let (exe, exe_deleted) = without_deleted_mark(link);
    let program = known.inspect(&file, &facts).map_err(failed)?;
    let Some(Program {
        binary,
        version_variable,
    }) = program
    else {
        return Err(NotAServer::OtherProgram {
            pid,
            name: Printable::of_path(&exe).into_string(),
        });
    };
    let root = fs::read_link(proc_path(pid, "root"))
        .ok()
        .filter(|root| root != Path::new("/"));
    Ok(ServerProcess {
        pid,
        exe,
        exe_deleted,
        flavour: binary.flavour,
        version: version_in_memory(pid, facts.ino(), version_variable).or(binary.version),
        build_id: binary.build_id,
        root,
        foreign_mounts: mount_namespace(pid) != mount_namespace(std::process::id()),
        exe_dev: facts.dev(),
        exe_inode: facts.ino(),
    })
}

/// The kernel marks the link of a program that is no longer in its directory.
pub(crate) fn without_deleted_mark(link: PathBuf) -> (PathBuf, bool) {
    let bytes = link.into_os_string().into_vec();
    match bytes.strip_suffix(b" (deleted)") {
        Some(rest) => (PathBuf::from(OsStr::from_bytes(rest)), true),
        None => (PathBuf::from(OsStr::from_bytes(&bytes)), false),
    }
}

/// Whether a process that may not be opened calls itself a server.
fn seems_a_server(pid: u32) -> bool {
    is_named_like_a_server(pid) || is_server_name(Path::new(comm(pid).trim()))
}

fn comm(pid: u32) -> String {
    read_text(proc_path(pid, "comm"), COMM_BYTES_MAX).unwrap_or_default()
}

/// What to call a process in a message: its program, else its kernel name in brackets.
fn process_name(pid: u32) -> String {
    match fs::read_link(proc_path(pid, "exe")) {
        Ok(exe) => Printable::of_path(&exe).into_string(),
        Err(_) => format!("[{}]", Printable::of(comm(pid).trim())),
    }
}

/// What the running server calls itself: its exported variable `server_version`.
fn version_in_memory(pid: u32, exe_inode: u64, variable: Option<(u64, u64)>) -> Option<String> {
    let (address, linked_base) = variable?;
    let base = read_maps(pid).ok()?;
    let base = mapping_base(&base, exe_inode)?;
    let memory = File::open(proc_path(pid, "mem")).ok()?;
    let mut bytes = [0u8; 60];
    memory
        .read_exact_at(
            &mut bytes,
            address.checked_sub(linked_base)?.checked_add(base)?,
        )
        .ok()?;
    let text = bytes.split(|&byte| byte == 0).next()?;
    // The text is read from another process, so it is believed only if it looks like a version.
    std::str::from_utf8(text)
        .ok()
        .filter(|text| binary::is_version(text))
        .map(str::to_owned)
}

/// Where the first page of the file with this inode is mapped, by the text of /proc/PID/maps.
pub(crate) fn mapping_base(maps: &str, inode: u64) -> Option<u64> {
    maps.lines().find_map(|line| {
        // start-end permissions offset device inode path
        let mut fields = line.split_ascii_whitespace();
        let (start, _) = fields.next()?.split_once('-')?;
        let offset = u64::from_str_radix(fields.nth(1)?, 16).ok()?;
        let mapped: u64 = fields.nth(1)?.parse().ok()?;
        (mapped == inode && offset == 0).then(|| u64::from_str_radix(start, 16).ok())?
    })
}

fn mount_namespace(pid: u32) -> Option<PathBuf> {
    fs::read_link(proc_path(pid, "ns/mnt")).ok()
}

pub(crate) fn proc_path(pid: u32, leaf: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{leaf}"))
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

#[cfg(test)]
mod tests;
