//! One file that grows, is cut, and is moved away.
//!
//! Neighbours: [`super`] follows the name, this the file behind it. Invariants: one read buffer of
//! fixed size; an entry is handed on when the next one begins, or when the file has not grown for
//! a moment and the entry is whole.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use super::entry::Entry;
use super::parser::Parser;

/// After so long without growth the last entry is taken to be whole, if it looks so.
const SETTLED: Duration = Duration::from_millis(300);
const BUFFER_BYTES: usize = 64 << 10;
/// What is read, and yields nothing, before the end from which a file is followed: an entry that is
/// being written is understood then, and the default database is known.
const LOOK_BACK_BYTES: u64 = 64 << 10;

/// Device and inode.
pub(super) type FileId = (u64, u64);

/// The file that has this name now.
pub(super) fn id_of(path: &Path) -> io::Result<FileId> {
    let facts = fs::metadata(path)?;
    Ok((facts.dev(), facts.ino()))
}

/// A file and how far it was read.
pub(super) struct Tail {
    file: File,
    id: FileId,
    offset: u64,
    parser: Parser,
    grown: Instant,
    lost: u64,
    buffer: Box<[u8]>,
}

impl Tail {
    pub(super) fn open(path: &Path, from_start: bool) -> io::Result<Self> {
        // Opening must not wait, whatever took the place of the file.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)?;
        let facts = file.metadata()?;
        if !facts.is_file() {
            return Err(io::Error::other("it is no ordinary file"));
        }
        let end = facts.len();
        let mut tail = Self {
            id: (facts.dev(), facts.ino()),
            offset: if from_start {
                0
            } else {
                end.saturating_sub(LOOK_BACK_BYTES)
            },
            file,
            parser: Parser::default(),
            grown: Instant::now(),
            lost: 0,
            buffer: vec![0; BUFFER_BYTES].into(),
        };
        if !from_start {
            let mut left = usize::try_from(end - tail.offset).unwrap_or(0);
            tail.read(&mut left, &mut |_| {})?;
            tail.parser.finish(&mut |_| {});
            tail.take_lost();
        }
        Ok(tail)
    }

    pub(super) fn id(&self) -> FileId {
        self.id
    }

    /// How long it has not grown.
    pub(super) fn quiet_for(&self) -> Duration {
        self.grown.elapsed()
    }

    /// Bytes it has beyond what was read.
    pub(super) fn unread(&self) -> u64 {
        let length = self.file.metadata().map_or(0, |facts| facts.len());
        length.saturating_sub(self.offset)
    }

    /// Something was read of it.
    pub(super) fn was_read(&self) -> bool {
        self.offset > 0
    }

    /// Entries whose end never came, once.
    pub(super) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// Nothing more will come: yields the last entry if it is whole, else counts it as lost.
    pub(super) fn finish(&mut self, each: &mut dyn FnMut(&Entry)) {
        if !self.parser.finish(each) {
            self.lost += u64::from(self.parser.is_within_entry());
        }
        self.lost += self.parser.take_broken();
    }

    /// Reads what is new, at most `left` bytes, of which it takes what it read.
    pub(super) fn read(
        &mut self,
        left: &mut usize,
        each: &mut dyn FnMut(&Entry),
    ) -> io::Result<()> {
        while *left > 0 {
            let room = self.buffer.len().min(*left);
            let count = match self.file.read_at(&mut self.buffer[..room], self.offset) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if count > 0 {
                self.offset += count as u64;
                *left -= count;
                self.grown = Instant::now();
                self.parser.feed(&self.buffer[..count], each);
                continue;
            }
            if self.file.metadata()?.len() >= self.offset {
                break;
            }
            // It was cut: what was there and not yet read is gone, and nobody can tell how much.
            self.finish(each);
            self.parser = Parser::default();
            self.offset = 0;
        }
        self.lost += self.parser.take_broken();
        if self.quiet_for() >= SETTLED {
            self.parser.finish(each);
        }
        Ok(())
    }
}
