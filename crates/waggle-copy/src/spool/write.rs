//! Writing: transactions at the end of the last segment.
//!
//! Neighbours: `transaction` says what, `state` when there is room. Invariants: a transaction lies
//! in one segment; what was written of one that does not end is taken back; nothing is said to be
//! there before its bytes are.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::record::{Mark, Record};
use super::segment::{self, Whole};
use super::state::{Room, Segment, Shared};
use crate::error::CopyError;
use crate::position::Position;

/// Written at once.
const BUFFER_BYTES: usize = 256 << 10;
/// A crash of the machine costs this much, which the source is asked for again.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// The end of a spool.
pub(super) struct Writer {
    dir: PathBuf,
    shared: Arc<Shared>,
    file: File,
    number: u64,
    segment_bytes: u64,
    /// After the last whole transaction.
    position: Position,
    /// Where that one ends in the file.
    whole: u64,
    /// Where what was handed to the file ends.
    written: u64,
    buffer: Vec<u8>,
    synced: Instant,
    is_dirty: bool,
}

impl Writer {
    /// Goes on after what is whole of the directory's segments, if it begins before `from` and
    /// ends after it; else throws it away and begins at `from`.
    pub(super) fn open(
        dir: &Path,
        from: &Position,
        segment_bytes: u64,
        shared: &Arc<Shared>,
    ) -> Result<Writer, CopyError> {
        let numbers = segment::list(dir)?;
        let next = numbers.last().map_or(1, |last| last + 1);
        if let Some(writer) = Writer::resume(dir, &numbers, from, segment_bytes, shared)? {
            return Ok(writer);
        }
        for number in segment::list(dir)? {
            remove(dir, number)?;
        }
        let file = create(dir, next, from)?;
        let mut writer = Writer::at(dir, file, next, from.clone(), segment_bytes, shared);
        writer.begin_segment(from.clone())?;
        Ok(writer)
    }

    fn at(
        dir: &Path,
        file: File,
        number: u64,
        position: Position,
        segment_bytes: u64,
        shared: &Arc<Shared>,
    ) -> Writer {
        Writer {
            dir: dir.to_owned(),
            shared: Arc::clone(shared),
            file,
            number,
            segment_bytes,
            position,
            whole: 0,
            written: 0,
            buffer: Vec::with_capacity(BUFFER_BYTES),
            synced: Instant::now(),
            is_dirty: false,
        }
    }

    /// Segments before the last one were synced when they ended, and a reader checks every
    /// record; so only the last one is gone through. One whose beginning was lost is passed over.
    fn resume(
        dir: &Path,
        numbers: &[u64],
        from: &Position,
        segment_bytes: u64,
        shared: &Arc<Shared>,
    ) -> Result<Option<Writer>, CopyError> {
        let mut kept = Vec::new();
        for (i, &number) in numbers.iter().enumerate() {
            let path = segment::path(dir, number);
            let is_last = i + 1 == numbers.len();
            // A gap means that somebody else was here.
            if i > 0 && numbers[i - 1] + 1 != number {
                return Ok(None);
            }
            match segment::base(&path)? {
                Some((base, end)) => kept.push(Segment { number, base, end }),
                None if is_last => remove(dir, number)?,
                None => return Ok(None),
            }
        }
        let Some(last) = kept.last() else {
            return Ok(None);
        };
        let (number, path) = (last.number, segment::path(dir, last.number));
        let Some(Whole { position, end, .. }) = segment::whole_end(&path)? else {
            return Ok(None);
        };
        let is_of_use = kept[0].base.is_within(from) && from.is_within(&position);
        if !is_of_use {
            return Ok(None);
        }
        let doing = || format!("opening {}", path.display());
        let file = OpenOptions::new()
            .write(true)
            .open(&path)
            .map_err(CopyError::file(doing()))?;
        file.set_len(end).map_err(CopyError::file(doing()))?;
        let mut writer = Writer::at(dir, file, number, position, segment_bytes, shared);
        writer.whole = end;
        writer.written = end;
        for mut segment in kept {
            if segment.number == number {
                segment.end = end;
            }
            shared.add(segment);
        }
        shared.resumes();
        Ok(Some(writer))
    }

    /// After the last whole transaction.
    pub(super) fn position(&self) -> &Position {
        &self.position
    }

    /// Appends a record of the transaction being written.
    pub(super) fn put(&mut self, record: &Record<'_>) -> Result<(), CopyError> {
        record.put(&mut self.buffer);
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
            let coming = self.written - self.whole;
            self.room(coming)?;
        }
        Ok(())
    }

    /// Where the next record will lie: of use for [`Writer::cut`].
    pub(super) fn offset(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Takes back what was written of this transaction from `offset` on.
    pub(super) fn cut(&mut self, offset: u64) -> Result<(), CopyError> {
        if offset >= self.written {
            self.buffer.truncate((offset - self.written) as usize);
            return Ok(());
        }
        self.buffer.clear();
        self.written = offset.max(self.whole);
        let doing = format!("cutting {}", self.path().display());
        self.file
            .set_len(self.written)
            .map_err(CopyError::file(doing))
    }

    /// Takes back all of this transaction.
    pub(super) fn abandon(&mut self) -> Result<(), CopyError> {
        self.cut(self.whole)
    }

    /// The transaction is whole: its last record was put.
    pub(super) fn end(&mut self, mark: &Mark) -> Result<(), CopyError> {
        self.flush()?;
        mark.advance(&mut self.position);
        self.whole = self.written;
        self.is_dirty = true;
        self.shared.extend(self.whole);
        if self.whole >= self.segment_bytes {
            self.sync()?;
            self.file = create(&self.dir, self.number + 1, &self.position)?;
            self.number += 1;
            self.begin_segment(self.position.clone())?;
        }
        self.room(0)?;
        self.sync_sometimes()
    }

    /// Syncs what was written a while ago; to be called when nothing comes, too.
    pub(super) fn sync_sometimes(&mut self) -> Result<(), CopyError> {
        if self.is_dirty && self.synced.elapsed() >= SYNC_INTERVAL {
            self.sync()?;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), CopyError> {
        let doing = format!("syncing {}", self.path().display());
        self.file.sync_data().map_err(CopyError::file(doing))?;
        self.synced = Instant::now();
        self.is_dirty = false;
        Ok(())
    }

    fn room(&mut self, coming: u64) -> Result<(), CopyError> {
        match self.shared.wait_for_room(coming) {
            Room::Yes => Ok(()),
            Room::Closed => Err(CopyError::Stopped),
            Room::Never => Err(CopyError::Io {
                doing: format!(
                    "keeping a transaction of more than {coming} bytes in {}: --spool-max is less",
                    self.dir.display()
                ),
                error: std::io::ErrorKind::StorageFull.into(),
            }),
        }
    }

    fn begin_segment(&mut self, base: Position) -> Result<(), CopyError> {
        let path = self.path();
        let length = self.file.metadata().map(|file| file.len());
        let end = length.map_err(CopyError::file(format!("reading {}", path.display())))?;
        self.whole = end;
        self.written = end;
        let number = self.number;
        self.shared.add(Segment { number, base, end });
        Ok(())
    }

    fn flush(&mut self) -> Result<(), CopyError> {
        let path = segment::path(&self.dir, self.number);
        self.file
            .write_all_at(&self.buffer, self.written)
            .map_err(|error| CopyError::Io {
                doing: match error.kind() {
                    std::io::ErrorKind::StorageFull => format!(
                        "writing {}: free some space or lower --spool-max, then run the same \
                         command again",
                        path.display()
                    ),
                    _ => format!("writing {}", path.display()),
                },
                error,
            })?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        // One row may be as large as 1 GiB; the next ones are not.
        self.buffer.shrink_to(4 * BUFFER_BYTES);
        Ok(())
    }

    fn path(&self) -> PathBuf {
        segment::path(&self.dir, self.number)
    }
}

/// Makes a segment whose first record and name survive a crash of the machine.
fn create(dir: &Path, number: u64, base: &Position) -> Result<File, CopyError> {
    let path = segment::path(dir, number);
    let doing = || format!("making {}", path.display());
    let mut file = waggle_files::create(&path).map_err(CopyError::file(doing()))?;
    let mut first = Vec::new();
    Record::Segment(&base.to_string()).put(&mut first);
    file.write_all(&first).map_err(CopyError::file(doing()))?;
    file.sync_all().map_err(CopyError::file(doing()))?;
    segment::sync_dir(dir)?;
    Ok(file)
}

pub(super) fn remove(dir: &Path, number: u64) -> Result<(), CopyError> {
    let path = segment::path(dir, number);
    let doing = format!("removing {}", path.display());
    fs::remove_file(&path).map_err(CopyError::file(doing))
}
