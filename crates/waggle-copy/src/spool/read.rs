//! Reading: records in order, waiting for more at the end.
//!
//! Neighbours: `state` says how far files are whole, `apply` reads. Invariants: a record is checked
//! before it is given out; memory is as large as the largest record of late.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::record::{self, HEAD_BYTES, Record};
use super::state::Shared;
use super::{segment, write};
use crate::error::CopyError;
use crate::position::Position;

/// Read at once.
const PIECE_BYTES: usize = 256 << 10;

/// Where a record begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    segment: u64,
    offset: u64,
}

/// A walk through a spool.
#[derive(Debug)]
pub struct Reader {
    dir: PathBuf,
    shared: Arc<Shared>,
    file: File,
    /// Of the next record.
    place: Place,
    /// Bytes of the file from `place` on.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Reader {
    pub(super) fn open(
        dir: &Path,
        shared: &Arc<Shared>,
        from: &Position,
    ) -> Result<Reader, CopyError> {
        let segments = shared.segments();
        let begin = segments
            .iter()
            .rev()
            .find(|segment| segment.base.is_within(from));
        let Some(begin) = begin else {
            return Err(CopyError::Progress(format!(
                "the target is at {from}, and the spool {} begins after that",
                dir.display()
            )));
        };
        let segment = begin.number;
        Ok(Reader {
            file: open(dir, segment)?,
            dir: dir.to_owned(),
            shared: Arc::clone(shared),
            place: Place { segment, offset: 0 },
            buffer: Vec::new(),
            start: 0,
            end: 0,
        })
    }

    /// Where the next record begins.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Goes back to a place that was not released.
    ///
    /// # Errors
    /// What the file says.
    pub fn go_to(&mut self, place: Place) -> Result<(), CopyError> {
        self.file = open(&self.dir, place.segment)?;
        self.place = place;
        (self.start, self.end) = (0, 0);
        Ok(())
    }

    /// Everything before the next record is at the target: files that hold nothing else go.
    ///
    /// # Errors
    /// What the directory says.
    pub fn release(&self) -> Result<(), CopyError> {
        for number in self.shared.release(self.place.segment, self.place.offset) {
            write::remove(&self.dir, number)?;
        }
        Ok(())
    }

    /// Whether there is a record already.
    pub fn has_more(&self) -> bool {
        match self.shared.extent(self.place.segment) {
            Some((end, next)) => self.place.offset < end || next.is_some(),
            None => false,
        }
    }

    /// The next record; `None` when none came for so long.
    ///
    /// # Errors
    /// Why no more will come; a record that is damaged.
    pub fn next(&mut self, limit: Duration) -> Result<Option<Record<'_>>, CopyError> {
        if !self.find(limit)? {
            return Ok(None);
        }
        let end = match self.shared.extent(self.place.segment) {
            Some((end, _)) => end,
            None => return Err(self.damaged("was removed")),
        };
        self.fill(HEAD_BYTES, end)?;
        let first = self.buffer[self.start..].first_chunk::<HEAD_BYTES>();
        let Some((length, sum)) = first.and_then(|first| record::head(*first)) else {
            return Err(self.damaged("is damaged"));
        };
        self.fill(HEAD_BYTES + length, end)?;
        let from = self.start + HEAD_BYTES;
        self.start = from + length;
        self.place.offset += (HEAD_BYTES + length) as u64;
        if record::parse(&self.buffer[from..from + length], sum).is_none() {
            return Err(self.damaged("is damaged"));
        }
        // Twice, because what a borrow of one of two returns holds is held on both.
        Ok(record::parse(&self.buffer[from..from + length], sum))
    }

    /// Whether there is a record at the place, after going on to the next file where one ends.
    fn find(&mut self, limit: Duration) -> Result<bool, CopyError> {
        let mut has_waited = false;
        loop {
            let Some((end, next)) = self.shared.extent(self.place.segment) else {
                return Err(self.damaged("was removed"));
            };
            if self.place.offset == 0 && end > 0 {
                self.skip_first(end)?;
                continue;
            }
            match next {
                _ if self.place.offset < end => return Ok(true),
                Some(next) => {
                    self.go_to(Place {
                        segment: next,
                        offset: 0,
                    })?;
                }
                None if has_waited => return Ok(false),
                None => {
                    let Place { segment, offset } = self.place;
                    self.shared.wait_for_more(segment, offset, limit)?;
                    has_waited = true;
                }
            }
        }
    }

    /// The position at a file's beginning was read when it was opened.
    fn skip_first(&mut self, end: u64) -> Result<(), CopyError> {
        self.fill(HEAD_BYTES, end)?;
        let first = self.buffer[self.start..].first_chunk::<HEAD_BYTES>();
        let Some((length, _)) = first.and_then(|first| record::head(*first)) else {
            return Err(self.damaged("is damaged"));
        };
        self.fill(HEAD_BYTES + length, end)?;
        self.start += HEAD_BYTES + length;
        self.place.offset += (HEAD_BYTES + length) as u64;
        Ok(())
    }

    /// Reads until so many bytes lie after `start`.
    fn fill(&mut self, needed: usize, end: u64) -> Result<(), CopyError> {
        if self.end - self.start >= needed {
            return Ok(());
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if needed <= PIECE_BYTES && self.buffer.len() > 16 * PIECE_BYTES {
            self.buffer.truncate(self.end.max(PIECE_BYTES));
            self.buffer.shrink_to_fit();
        }
        let left = end.saturating_sub(self.place.offset + self.end as u64);
        if ((needed - self.end) as u64) > left {
            return Err(self.damaged("ends within a record"));
        }
        let wanted = needed.max(PIECE_BYTES.min(self.end + left as usize));
        self.buffer.resize(wanted.max(self.buffer.len()), 0);
        let at = self.place.offset + self.end as u64;
        let target = &mut self.buffer[self.end..wanted];
        let read = self.file.read_exact_at(target, at);
        let path = segment::path(&self.dir, self.place.segment);
        read.map_err(CopyError::file(format!("reading {}", path.display())))?;
        self.end = wanted;
        Ok(())
    }

    fn damaged(&self, what: &str) -> CopyError {
        let path = segment::path(&self.dir, self.place.segment);
        CopyError::Io {
            doing: format!(
                "reading {} at byte {}: it {what}; remove the spool's directory and run the same \
                 command again: the log is then read from the source",
                path.display(),
                self.place.offset
            ),
            error: std::io::ErrorKind::InvalidData.into(),
        }
    }
}

fn open(dir: &Path, number: u64) -> Result<File, CopyError> {
    let path = segment::path(dir, number);
    File::open(&path).map_err(CopyError::file(format!("opening {}", path.display())))
}
