//! Copies a data directory the way a server would have laid it out.
//!
//! A server preallocates its files and leaves most of them zero. Copying those zeros would write
//! 100 MB and more at every start, which the disk then works off during somebody's measurement;
//! leaving holes would make the server's first writes allocate. So zeros are allocated without
//! being written, as the server itself does it. Files are not cloned (reflink): a clone makes the
//! first write to every page a copy, a cost that the measured server would pay.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::account::give;

/// Zeros are looked for in pieces of this size.
const PIECE_BYTES: usize = 64 * 1024;
/// What a piece is compared with: as one comparison of memory, it costs little in any build.
static ZEROS: [u8; PIECE_BYTES] = [0; PIECE_BYTES];

/// Copies a directory of plain files and directories, for this user or for `owner`. Entries of its
/// top that `is_left` says so of are left out: below that, a name may be a table's.
///
/// Links are not followed, which the server that `from` was made by may have put there.
pub(super) fn copy_tree(
    from: &Path,
    to: &Path,
    owner: Option<u32>,
    is_left: &dyn Fn(&OsStr) -> bool,
) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(to)?;
    let mut buffer = vec![0u8; 16 * PIECE_BYTES];
    copy_entries(from, to, owner, is_left, &mut buffer)?;
    give(to, owner)
}

fn copy_entries(
    from: &Path,
    to: &Path,
    owner: Option<u32>,
    is_left: &dyn Fn(&OsStr) -> bool,
    buffer: &mut [u8],
) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let target = to.join(entry.file_name());
        if is_left(&entry.file_name()) {
            continue;
        }
        if kind.is_dir() {
            fs::DirBuilder::new().mode(0o700).create(&target)?;
            copy_entries(&entry.path(), &target, owner, &|_| false, buffer)?;
            give(&target, owner)?;
        } else if kind.is_file() {
            copy_file(&entry.path(), &target, owner, buffer)?;
        }
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path, owner: Option<u32>, buffer: &mut [u8]) -> io::Result<()> {
    let source = open_plain(from)?;
    let facts = source.metadata()?;
    let target = File::options()
        .write(true)
        .create_new(true)
        .mode(facts.permissions().mode() & 0o777)
        .open(to)?;
    if owner.is_some() {
        std::os::unix::fs::fchown(&target, owner, owner)?;
    }
    target.set_len(facts.len())?;
    let mut written = 0;
    let mut at = 0;
    while let Some((start, end)) = next_data(&source, at, facts.len())? {
        at = start;
        while at < end {
            let wanted = buffer
                .len()
                .min(usize::try_from(end - at).unwrap_or(usize::MAX));
            let n = source.read_at(&mut buffer[..wanted], at)?;
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            for (i, piece) in buffer[..n].chunks(PIECE_BYTES).enumerate() {
                if *piece != ZEROS[..piece.len()] {
                    target.write_all_at(piece, at + (i * PIECE_BYTES) as u64)?;
                    written += piece.len() as u64;
                }
            }
            at += n as u64;
        }
    }
    if written < facts.len() {
        allocate(&target, facts.len())
    } else {
        Ok(())
    }
}

/// Opens a plain file that a server may have put in place of another: no link is followed, and a
/// FIFO is not waited for.
pub(super) fn open_plain(path: &Path) -> io::Result<File> {
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other(format!(
            "{} is no plain file",
            path.display()
        )))
    }
}

/// The next stretch of a file, from `at` on, that is not a hole.
fn next_data(file: &File, at: u64, len: u64) -> io::Result<Option<(u64, u64)>> {
    if at >= len {
        return Ok(None);
    }
    let seek = |offset: u64, whence| {
        // SAFETY: integers and an open descriptor.
        let found = unsafe { libc::lseek(file.as_raw_fd(), offset as libc::off_t, whence) };
        u64::try_from(found).map_err(|_| io::Error::last_os_error())
    };
    match seek(at, libc::SEEK_DATA) {
        Ok(start) => Ok(Some((start, seek(start, libc::SEEK_HOLE)?))),
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
        // A file system that cannot tell holes: everything may be data.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(Some((at, len))),
        Err(error) => Err(error),
    }
}

/// Gives the file its blocks, without writing them.
fn allocate(file: &File, len: u64) -> io::Result<()> {
    // SAFETY: integers and an open descriptor.
    if unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, len as libc::off_t) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EOPNOTSUPP | libc::ENOSYS) => Ok(()),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_tree_arrives_whole_and_zeros_are_allocated() {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join("from");
        fs::create_dir_all(from.join("inner")).unwrap();
        let mut bytes = vec![0u8; 5 * PIECE_BYTES + 7];
        bytes[3 * PIECE_BYTES + 5] = 9;
        *bytes.last_mut().unwrap() = 1;
        fs::write(from.join("inner/redo"), &bytes).unwrap();
        fs::write(from.join("empty"), b"").unwrap();
        fs::write(from.join("key"), b"secret").unwrap();
        fs::set_permissions(from.join("key"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(from.join("auto.cnf"), b"uuid").unwrap();
        fs::write(from.join("inner/auto.cnf"), b"a table may be called so").unwrap();
        let holes = File::create(from.join("holes")).unwrap();
        holes.set_len(1 << 20).unwrap();
        holes.write_all_at(b"x", 700_000).unwrap();

        let to = dir.path().join("to");
        copy_tree(&from, &to, None, &|name| name == "auto.cnf").unwrap();
        for name in ["inner/redo", "inner/auto.cnf", "empty", "key", "holes"] {
            assert_eq!(
                fs::read(from.join(name)).unwrap(),
                fs::read(to.join(name)).unwrap()
            );
        }
        assert_eq!(
            fs::metadata(to.join("key")).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert!(fs::metadata(to.join("holes")).unwrap().blocks() * 512 >= 1 << 20);
        assert!(!to.join("auto.cnf").exists());
    }
}
