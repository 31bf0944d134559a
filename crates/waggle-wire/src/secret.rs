//! Passwords: texts that are never printed, and the files they are read from.
//!
//! [`Dsn`](crate::Dsn) holds one. Invariant: neither `Debug` nor an error shows any of the text.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// The longest password file that is read, bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// A text that is never printed, and the file it came from.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    text: String,
    file: Option<PathBuf>,
}

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret {
            text: text.into(),
            file: None,
        }
    }

    /// Reads the first line of a file, without its end.
    ///
    /// # Errors
    /// It cannot be read, is no plain file, or its first line is no password.
    pub fn from_file(path: impl Into<PathBuf>) -> Result<Secret, PasswordFileError> {
        let path = path.into();
        let text = first_line(&path)?;
        Ok(Secret {
            text,
            file: Some(path),
        })
    }

    /// The text itself, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// The file it was read from.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Why a file gives no password. Shows nothing of what is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PasswordFileError {
    /// It cannot be opened or read.
    #[error("the file named by password-file cannot be read: {0}")]
    Unreadable(io::ErrorKind),
    /// A directory, a FIFO, a device.
    #[error("password-file names something that is no plain file")]
    NotAFile,
    /// Larger than a password can be.
    #[error("the file named by password-file is longer than {FILE_BYTES_MAX} bytes")]
    TooLong,
    /// Nothing in its first line.
    #[error("the first line of the file named by password-file, which is the password, is empty")]
    Empty,
    /// Bytes that no password is made of.
    #[error("the first line of the file named by password-file is not UTF-8 without zero bytes")]
    Text,
}

fn first_line(path: &Path) -> Result<String, PasswordFileError> {
    let unreadable = |error: io::Error| PasswordFileError::Unreadable(error.kind());
    // Opening a FIFO would otherwise wait for whoever writes to it.
    let file = File::options()
        .read(true)
        .custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32)
        .open(path)
        .map_err(unreadable)?;
    let facts = file.metadata().map_err(unreadable)?;
    if !facts.is_file() {
        return Err(PasswordFileError::NotAFile);
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(PasswordFileError::TooLong);
    }
    let line = bytes.split(|byte| *byte == b'\n').next();
    let line = line.unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    match String::from_utf8(line.to_vec()) {
        Ok(text) if text.is_empty() => Err(PasswordFileError::Empty),
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => Err(PasswordFileError::Text),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read(dir: &Path, content: &[u8]) -> Result<String, PasswordFileError> {
        let path = dir.join("password");
        fs::write(&path, content).unwrap();
        Secret::from_file(path).map(|secret| secret.expose().to_owned())
    }

    #[test]
    fn the_first_line_without_its_end_is_the_password() {
        let dir = tempfile::tempdir().unwrap();
        let password = |content: &[u8]| read(dir.path(), content);
        assert_eq!(password(b"s p@ce\n"), Ok("s p@ce".into()));
        assert_eq!(password(b"pw\r\nnot this\n"), Ok("pw".into()));
        assert_eq!(password(b" kept "), Ok(" kept ".into()));
        assert_eq!(password(b""), Err(PasswordFileError::Empty));
        assert_eq!(password(b"\npw\n"), Err(PasswordFileError::Empty));
        assert_eq!(password(b"a\0b\n"), Err(PasswordFileError::Text));
        assert_eq!(password(b"\xff\n"), Err(PasswordFileError::Text));
        let most = vec![b'x'; FILE_BYTES_MAX as usize];
        assert_eq!(password(&most).unwrap().len(), most.len());
        let more = [most, b"x".to_vec()].concat();
        assert_eq!(password(&more), Err(PasswordFileError::TooLong));
    }

    #[test]
    fn what_is_no_plain_file_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).unwrap();
        for path in [dir.path(), &fifo, Path::new("/dev/zero")] {
            let error = Secret::from_file(path).unwrap_err();
            assert_eq!(error, PasswordFileError::NotAFile, "{}", path.display());
        }
        let missing = Secret::from_file(dir.path().join("missing")).unwrap_err();
        assert_eq!(
            missing,
            PasswordFileError::Unreadable(io::ErrorKind::NotFound)
        );
    }

    #[test]
    fn nothing_of_it_is_shown() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("password");
        fs::write(&path, "hunter2\n").unwrap();
        let secret = Secret::from_file(&path).unwrap();
        assert_eq!(format!("{secret:?}"), "***");
        assert_eq!(secret.file(), Some(path.as_path()));
    }
}
