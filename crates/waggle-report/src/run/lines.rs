//! An append-only file of JSON values, one a line, that a kill or a full disk cannot corrupt.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::RunError;

/// Writer of a `.jsonl` file: one complete line per `write` call, visible to readers at once.
///
/// Nothing is synced to the disk per line: the measured server shares the disk, and a sync would
/// be a cost that the run itself causes.
#[derive(Debug)]
pub struct JsonLines {
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
    /// Bytes of complete lines; a half-written line beyond it is cut off.
    length: u64,
    /// A half-written line could not be cut off; the next line must begin on a line of its own.
    torn: bool,
}

impl JsonLines {
    /// Creates the file, which must not exist.
    pub(crate) fn create(path: &Path) -> Result<Self, RunError> {
        let file = waggle_files::create_new(path, OpenOptions::new().append(true))
            .map_err(|source| RunError::new("create", path, true, source))?;
        Ok(Self {
            path: path.to_path_buf(),
            file,
            buffer: Vec::with_capacity(1024),
            length: 0,
            torn: false,
        })
    }

    /// Opens a file of JSON lines to append to it, made if it is missing. A last line without an
    /// end, which a kill leaves, is cut off.
    pub(crate) fn reopen(path: &Path) -> Result<Self, RunError> {
        let opened = |action| move |source| RunError::new(action, path, true, source);
        let mut file = super::bounded::open_to_append(path).map_err(opened("open"))?;
        let length = whole_lines(&mut file).map_err(opened("read"))?;
        file.set_len(length).map_err(opened("shorten"))?;
        Ok(Self {
            path: path.to_path_buf(),
            file,
            buffer: Vec::with_capacity(1024),
            length,
            torn: false,
        })
    }

    /// Appends one value as one line.
    ///
    /// # Errors
    /// When the value cannot be serialised, the file system is full, or the file was removed.
    pub fn append(&mut self, value: &impl Serialize) -> Result<(), RunError> {
        self.buffer.clear();
        if self.torn {
            self.buffer.push(b'\n');
        }
        serde_json::to_writer(&mut self.buffer, value)
            .map_err(|error| self.error(io::Error::other(error)))?;
        self.buffer.push(b'\n');
        self.write_line().map_err(|error| self.error(error))
    }

    fn write_line(&mut self) -> io::Result<()> {
        // Writing to a removed file succeeds and keeps nothing, so ask first.
        if self.file.metadata()?.nlink() == 0 {
            return Err(io::Error::from_raw_os_error(libc::ENOENT));
        }
        match self.file.write_all(&self.buffer) {
            Ok(()) => {
                self.length += self.buffer.len() as u64;
                self.torn = false;
                Ok(())
            }
            Err(error) => {
                self.torn = self.file.set_len(self.length).is_err();
                Err(error)
            }
        }
    }

    fn error(&self, source: io::Error) -> RunError {
        RunError::new("append to", &self.path, true, source)
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Bytes up to and including the last line end, found from the end of the file.
fn whole_lines(file: &mut File) -> io::Result<u64> {
    let mut end = file.metadata()?.len();
    let mut chunk = vec![0; 64 << 10];
    while end > 0 {
        let start = end.saturating_sub(chunk.len() as u64);
        let part = &mut chunk[..(end - start) as usize];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(part)?;
        if let Some(at) = part.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}
