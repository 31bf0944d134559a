//! The server that a load goes to, seen from a process that may open less than its parent.
//!
//! A socket may lie where only root may enter, and the files of keys may be root's. The parent
//! opens the socket's folder, from where a server that starts again is found too, or the socket
//! itself if nobody else may look into its folder, and reads the files; descriptors stand for them
//! in the child, whose paths begin with `/proc/self/fd`. Invariant: a password is in no path and no
//! error.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use waggle_wire::{Dsn, Endpoint, Secret, ServerKey};

use super::message::{DoorForm, ServerForm};

/// The longest file of keys: bundles of all authorities are a quarter of a megabyte.
const KEY_FILE_BYTES_MAX: u64 = 4 << 20;

/// The server's name for the child, and what has to be handed over with it.
pub(super) fn carried(dsn: &Dsn) -> (ServerForm, Vec<OwnedFd>) {
    let mut descriptors = Vec::new();
    // What cannot be opened stays a name: the child says why it cannot, in the usual words.
    let mut hand_over = |opened: io::Result<OwnedFd>| match opened {
        Ok(descriptor) => {
            descriptors.push(descriptor);
            true
        }
        Err(_) => false,
    };
    let door = match &dsn.endpoint {
        Endpoint::Socket(path) => door(path).filter(|door| hand_over(opened(door.path()))),
        Endpoint::Tcp { .. } => None,
    };
    let server_key = match &dsn.server_key {
        ServerKey::Pinned(path) => Some(path.clone()),
        ServerKey::Refused | ServerKey::Asked => None,
    };
    let files = [&dsn.tls.ca, &dsn.tls.cert, &dsn.tls.key, &server_key];
    // The text would name the password's file, which the child may not be able to read.
    let mut named = dsn.clone();
    named.password = None;
    let form = ServerForm {
        dsn: named.to_string(),
        password: dsn
            .password
            .as_ref()
            .map(|secret| secret.expose().to_owned()),
        door: door.as_ref().map(Door::form),
        files: files.map(|file| file.as_ref().is_some_and(|file| hand_over(copied(file)))),
    };
    (form, descriptors)
}

/// What leads to a server.
enum Door<'a> {
    /// Names are looked up in it.
    Folder(&'a Path),
    Socket(&'a Path),
}

impl<'a> Door<'a> {
    fn path(&self) -> &'a Path {
        let (Door::Folder(path) | Door::Socket(path)) = self;
        path
    }

    fn form(&self) -> DoorForm {
        let text = self.path().display().to_string();
        match self {
            Door::Folder(_) => DoorForm::Folder(text),
            Door::Socket(_) => DoorForm::Socket(text),
        }
    }
}

fn door(socket: &Path) -> Option<Door<'_>> {
    let folder = socket.parent()?;
    let about = fs::metadata(folder).ok()?;
    Some(match about.mode() & 0o001 {
        0 => Door::Socket(socket),
        _ => Door::Folder(folder),
    })
}

/// To connect through, or to look a name up in; nothing can be read through it.
fn opened(path: &Path) -> io::Result<OwnedFd> {
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_CLOEXEC)
        .open(path)?;
    Ok(file.into())
}

/// The content of a file, in memory.
fn copied(path: &Path) -> io::Result<OwnedFd> {
    let file = File::open(path)?;
    let about = file.metadata()?;
    if !about.is_file() || about.len() > KEY_FILE_BYTES_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, KEY_FILE_BYTES_MAX), &mut bytes)?;
    // SAFETY: constant text and a flag; the descriptor that comes back is nobody else's.
    let mut memory = unsafe {
        let descriptor = libc::memfd_create(c"waggle-keys".as_ptr(), libc::MFD_CLOEXEC);
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        File::from_raw_fd(descriptor)
    };
    memory.write_all(&bytes)?;
    Ok(memory.into())
}

/// The server as this process reaches it.
pub(super) struct Reached {
    pub(super) dsn: Dsn,
    /// Kept open: the paths lead through them.
    _descriptors: Vec<OwnedFd>,
    /// A path that stands for another one.
    pub(super) stand_in: (String, String),
}

impl Reached {
    pub(super) fn new(form: ServerForm, descriptors: Vec<OwnedFd>) -> Result<Reached, String> {
        let mut dsn: Dsn = form.dsn.parse().map_err(|error| format!("{error}"))?;
        dsn.password = form.password.map(Secret::new);
        let mut paths = descriptors
            .iter()
            .map(|descriptor| format!("/proc/self/fd/{}", descriptor.as_raw_fd()));
        let mut next = || paths.next().ok_or("a descriptor is missing".to_owned());
        // Nothing is called so.
        let mut stand_in = ("\0".to_owned(), String::new());
        if let (Endpoint::Socket(path), Some(door)) = (&mut dsn.endpoint, form.door) {
            let link = next()?;
            (*path, stand_in) = match door {
                DoorForm::Folder(folder) => {
                    let name = path.file_name().unwrap_or_default();
                    (Path::new(&link).join(name), (link, folder))
                }
                DoorForm::Socket(socket) => (PathBuf::from(&link), (link, socket)),
            };
        }
        let mut server_key = None;
        let tls = &mut dsn.tls;
        let files = [&mut tls.ca, &mut tls.cert, &mut tls.key, &mut server_key];
        for (file, is_copied) in files.into_iter().zip(form.files) {
            if is_copied {
                *file = Some(PathBuf::from(next()?));
            }
        }
        if let Some(path) = server_key {
            dsn.server_key = ServerKey::Pinned(path);
        }
        drop(paths);
        Ok(Reached {
            dsn,
            _descriptors: descriptors,
            stand_in,
        })
    }
}
