//! Who may read what waggle writes? Its owner alone, whatever the umask.
//!
//! What is written holds statements, names of databases and users, rows: so a file that is made
//! gets mode 0600 and a directory 0700. A file that is there keeps the mode its owner gave it. In a
//! directory where anybody may make names (`/tmp`), only what belongs to this user, to root or to
//! the user who called sudo is written to or gone through, and no link is followed: another user
//! may have put it there. Neighbours: all crates that write files; `tidy` refuses other ways.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;
/// Others may write.
const WRITABLE_BY_ALL: u32 = 0o002;

/// Makes a file to write to, or empties the one that is there.
///
/// # Errors
/// What the system says; `PermissionDenied` where another user may have put what is there.
pub fn create(path: &Path) -> io::Result<File> {
    let file = open(path, OpenOptions::new().write(true))?;
    // A pipe or a terminal has no length.
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    Ok(file)
}

/// Makes a file that must not be there yet; also a link of that name is an error.
///
/// # Errors
/// As [`create`]; `AlreadyExists`.
pub fn create_new(path: &Path, options: &OpenOptions) -> io::Result<File> {
    check_way(path)?;
    options.clone().create_new(true).mode(FILE_MODE).open(path)
}

/// Opens a file as `options` say, made if it is missing; what it holds stays.
///
/// # Errors
/// As [`create`].
pub fn open(path: &Path, options: &OpenOptions) -> io::Result<File> {
    check_way(path)?;
    let mut options = options.clone();
    if !directory_of(path).metadata()?.is_writable_by_all() {
        return options.create(true).mode(FILE_MODE).open(path);
    }
    match create_new(path, &options) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => return made,
    }
    let file = options
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)?;
    // Asked of what was opened: the name may be another's by now.
    let found = file.metadata()?;
    if !is_trusted(found.uid()) || found.is_file() && found.nlink() > 1 {
        return Err(foreign(path, &found));
    }
    Ok(file)
}

/// Writes a whole file, made or emptied first.
///
/// # Errors
/// As [`create`], and when the file system is full.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    create(path)?.write_all(bytes)
}

/// Replaces a file by rename, so that a reader sees the old content or the new, never a mixture.
///
/// # Errors
/// As [`create`]; the earlier content is then still in place.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let temporary = PathBuf::from(temporary);
    // What a kill left behind, or a link that somebody put there.
    let _ = std::fs::remove_file(&temporary);
    let written = create_new(&temporary, OpenOptions::new().write(true)).and_then(|mut file| {
        file.write_all(bytes)?;
        // Without this, a crash after the rename could leave an empty file in place of the old.
        file.sync_data()
    });
    written
        .and_then(|()| std::fs::rename(&temporary, path))
        .inspect_err(|_| {
            // The half-written copy is of no use, and on a full disk its space is needed.
            let _ = std::fs::remove_file(&temporary);
        })
}

/// Makes a directory that must not be there yet.
///
/// # Errors
/// As [`create_new`].
pub fn create_dir(path: &Path) -> io::Result<()> {
    check_way(path)?;
    DirBuilder::new().mode(DIRECTORY_MODE).create(path)
}

/// Makes a directory and those above it that are missing; one that is there keeps its mode.
///
/// # Errors
/// As [`create`].
pub fn create_dir_all(path: &Path) -> io::Result<()> {
    check_way(path)?;
    DirBuilder::new()
        .recursive(true)
        .mode(DIRECTORY_MODE)
        .create(path)?;
    // It may have been made by another in between.
    check_way(path)
}

/// Refuses a path on which another user may have put something: the name itself, or a directory
/// or link before it.
fn check_way(path: &Path) -> io::Result<()> {
    let path = std::path::absolute(path)?;
    check_names(&path)?;
    // Where the links on the way lead.
    match directory_of(&path).canonicalize() {
        Ok(real) => check_names(&real.join(path.file_name().unwrap_or_default())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn check_names(path: &Path) -> io::Result<()> {
    let mut names: Vec<&Path> = path.ancestors().collect();
    names.reverse();
    for pair in names.windows(2) {
        let [directory, name] = pair else { continue };
        match directory.metadata() {
            Ok(directory) if directory.is_writable_by_all() => {}
            Ok(_) => continue,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        }
        match name.symlink_metadata() {
            Ok(found) if !is_trusted(found.uid()) => return Err(foreign(name, &found)),
            // Of a link's owner nothing follows for where it leads; the last name is not followed.
            Ok(found) if found.is_symlink() && *name == path => return Err(foreign(name, &found)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

trait WritableByAll {
    fn is_writable_by_all(&self) -> bool;
}

impl WritableByAll for Metadata {
    fn is_writable_by_all(&self) -> bool {
        self.is_dir() && self.mode() & WRITABLE_BY_ALL != 0
    }
}

/// The directory that holds the name; of a name alone, the working directory.
fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
}

/// This user, root, and who called sudo: what they put there, they meant.
fn is_trusted(owner: u32) -> bool {
    let this = rustix::process::geteuid().as_raw();
    let caller = || std::env::var("SUDO_UID").is_ok_and(|uid| uid == owner.to_string());
    owner == 0 || owner == this || this == 0 && caller()
}

fn foreign(path: &Path, found: &Metadata) -> io::Error {
    let what = if found.is_symlink() {
        "is a link".to_owned()
    } else if is_trusted(found.uid()) {
        "has another name elsewhere".to_owned()
    } else {
        format!("belongs to another user (uid {})", found.uid())
    };
    let message = format!(
        "{} {what}, in a directory where anybody may make files; name a place of your own",
        path.display()
    );
    io::Error::new(io::ErrorKind::PermissionDenied, message)
}

#[cfg(test)]
mod tests;
