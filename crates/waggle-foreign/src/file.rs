//! Files that others made: opened without waiting, only if they are ordinary, read up to a bound.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Opens an ordinary file. A pipe, socket or device is refused before it is opened: opening could
/// wait for ever or do something to a machine. Links are followed; what they lead to has to be an
/// ordinary file, too.
///
/// # Errors
/// It is none (`InvalidInput`), is not there, or may not be opened.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let place = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_CLOEXEC)
        .open(path)?;
    reopen(&place)
}

/// Opens an ordinary file that is no link: a file of a directory that somebody else may have
/// filled, where a link would lead to anything.
///
/// # Errors
/// It is none (`InvalidInput`), is not there, or may not be opened.
pub fn open_own(path: &Path) -> io::Result<File> {
    let place = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(path)?;
    reopen(&place)
}

/// Opens for reading what is known by a place alone (`O_PATH`), if it is an ordinary file.
fn reopen(place: &File) -> io::Result<File> {
    let kind = place.metadata()?.file_type();
    if !kind.is_file() {
        use std::os::unix::fs::FileTypeExt;
        let what = match kind {
            kind if kind.is_dir() => "a directory",
            kind if kind.is_fifo() => "a pipe",
            kind if kind.is_socket() => "a socket",
            kind if kind.is_symlink() => "a link",
            _ => "a device",
        };
        let why = format!("it is {what}, not an ordinary file");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    // Without waiting: its owner may hold a lease on it.
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC)
        .open(format!("/proc/self/fd/{}", place.as_raw_fd()))
}

/// Opens an ordinary file, or with `O_DIRECTORY` in `flags` a directory, by its path in the root
/// of process `pid`, links and all, without waiting and without leaving that root.
///
/// # Errors
/// It is none, is not there, or may not be opened; or the process has ended.
pub fn open_in_root(pid: u32, path: &Path, flags: libc::c_int) -> io::Result<File> {
    let root = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
        .open(format!("/proc/{pid}/root"))?;
    let path = CString::new(path.as_os_str().as_bytes())?;
    let is_directory = flags & libc::O_DIRECTORY != 0;
    let flags = match is_directory {
        true => flags | libc::O_RDONLY | libc::O_NONBLOCK,
        false => flags | libc::O_PATH,
    };
    // SAFETY: open_how is plain numbers, for which zero is a value.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = u64::from((flags | libc::O_CLOEXEC).cast_unsigned());
    how.resolve = libc::RESOLVE_IN_ROOT | libc::RESOLVE_NO_MAGICLINKS;
    // SAFETY: the path ends with a zero byte and `how` has the size given, both for the length
    // of the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_openat2,
            root.as_raw_fd(),
            path.as_ptr(),
            &raw const how,
            size_of::<libc::open_how>(),
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the descriptor is new and nobody else's.
    let opened = unsafe { File::from_raw_fd(fd) };
    match is_directory {
        true => Ok(opened),
        false => reopen(&opened),
    }
}

/// The content of a file of at most `bytes_max` bytes.
///
/// # Errors
/// It cannot be read, or is larger (`FileTooLarge`); nothing is kept of it then.
pub fn read_bounded(file: &File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    let too_large = || {
        let why = format!("it is larger than {bytes_max} bytes, the most that is read");
        io::Error::new(io::ErrorKind::FileTooLarge, why)
    };
    if length > bytes_max {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    // It may be growing.
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > bytes_max {
        true => Err(too_large()),
        false => Ok(bytes),
    }
}

/// The first `bytes_max` bytes of a file of `/proc` or `/sys` as text; bytes that are no UTF-8 are
/// replaced, since a name of another's process must not hide the rest.
///
/// # Errors
/// It cannot be read.
pub fn read_text(path: impl AsRef<Path>, bytes_max: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

/// A short text of a process in `/proc`, such as its state or its name.
///
/// # Errors
/// The process has ended, or may not be looked at.
pub fn read_proc(path: impl AsRef<Path>) -> io::Result<String> {
    const BYTES_MAX: u64 = 64 << 10;
    read_text(path, BYTES_MAX)
}

/// The table of mappings of a process. The kernel lets it have 65,530 lines, of 100 bytes each, but
/// the names in them may be of 4096, and are its own.
///
/// # Errors
/// The process has ended, or may not be looked at.
pub fn read_maps(pid: u32) -> io::Result<String> {
    const BYTES_MAX: u64 = 16 << 20;
    read_text(format!("/proc/{pid}/maps"), BYTES_MAX)
}

/// Whether a library may map this file: only root, or the user this process runs as, can cut it
/// short. Of anyone else's, reading a mapping may end in SIGBUS.
pub fn is_safe_to_map(file: &File) -> bool {
    let Ok(facts) = file.metadata() else {
        return false;
    };
    // SAFETY: geteuid has no arguments and cannot fail.
    let own = unsafe { libc::geteuid() };
    facts.is_file() && (facts.uid() == 0 || facts.uid() == own) && facts.mode() & 0o022 == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn only_ordinary_files_are_opened_and_nothing_waits() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        symlink(at("file"), at("link")).unwrap();
        symlink("/dev/zero", at("zero")).unwrap();
        let pipe = CString::new(at("pipe").as_os_str().as_bytes()).unwrap();
        // SAFETY: the path ends with a zero byte.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        for good in ["file", "link"] {
            let file = open_regular(&at(good)).unwrap();
            assert_eq!(read_bounded(&file, 4).unwrap(), b"text");
        }
        assert!(open_own(&at("file")).is_ok());
        assert!(
            open_own(&at("link"))
                .unwrap_err()
                .to_string()
                .contains("a link")
        );
        let pid = std::process::id();
        for (bad, what) in [
            ("pipe", "pipe"),
            ("zero", "device"),
            ("socket", "socket"),
            ("", "dir"),
        ] {
            for error in [
                open_regular(&at(bad)).unwrap_err(),
                open_in_root(pid, &at(bad), 0).unwrap_err(),
            ] {
                assert!(error.to_string().contains(what), "{bad}: {error}");
            }
        }
        let file = open_regular(&at("file")).unwrap();
        let error = read_bounded(&file, 3).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(open_in_root(pid, &at(""), libc::O_DIRECTORY).is_ok());
    }

    #[test]
    fn others_files_are_not_mapped() {
        let file = tempfile::tempfile().unwrap();
        assert!(is_safe_to_map(&file));
        file.set_permissions(std::fs::Permissions::from_mode(0o666))
            .unwrap();
        assert!(!is_safe_to_map(&file));
        assert!(!is_safe_to_map(&File::open("/dev/zero").unwrap()));
    }
}
