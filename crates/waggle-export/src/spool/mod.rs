//! What is not delivered yet, on disk: batches in, in order out, each until it was acknowledged.
//!
//! A folder of segment files (`segment`); one process at a time owns it (a lock file).
//! Neighbours: remote write, ClickHouse and OTLP append what they made of a view and deliver from
//! the front by a [`courier`].
//!
//! Invariants:
//! - Order: batches leave in the order they came, also across restarts.
//! - At least once: a batch leaves the spool when it was acknowledged, not before. It has the same
//!   [`BatchId`] every time it is handed out, also after a restart, so that a store can tell a
//!   repetition. Nothing is repeated but the batches whose acknowledgement could not be noted.
//! - Durability: what `append` returned for survives the death of this process at any moment. It is
//!   synchronised to the device when its segment is full and, if it still waits, 10 s after it
//!   came: a power cut costs at most that. A store that keeps up therefore costs no synchronisation
//!   at all, which matters: the device is often the database's.
//! - Bounds: at most `max_bytes` on disk; beyond it the oldest segment goes. A disk with less than
//!   `min_free_bytes` left takes nothing more, and what is refused is the new batch: what is safe
//!   is not given up for room that another program may take.
//! - Every batch that is given up is counted, in records, by cause.

mod batch;
pub mod courier;
mod segment;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use waggle_agent::budget::rights::without_rights;

pub use batch::{Batch, BatchId, Limits, Refused, SpoolError, SpoolStatus};
use segment::{Frame, Next, Segment};

/// How long an appended batch may wait before it is synchronised to the device.
const SYNC_AFTER: Duration = Duration::from_secs(10);
/// A spool is at least this large, or a few batches would not fit.
const MAX_BYTES_LEAST: u64 = 64 << 10;
/// Segments to a spool: what is dropped at once when it is full is one of so many.
const SEGMENTS: u64 = 16;

/// A batch that was handed out and not settled.
#[derive(Debug, Clone, Copy)]
struct Lent {
    frame: Frame,
    /// Its segment was dropped meanwhile: whether it is lost shows when it is settled.
    orphaned: bool,
}

/// The buffer on disk. All calls may block on the disk: none is for the agent's own thread.
#[derive(Debug)]
pub struct Spool {
    folder: PathBuf,
    limits: Limits,
    run: u64,
    sequence_next: u64,
    number_next: u64,
    /// Oldest first.
    segments: VecDeque<Segment>,
    /// The last segment is still written to.
    is_writing: bool,
    unsynced_since: Option<Instant>,
    lent: Option<Lent>,
    records_delivered: u64,
    dropped: Vec<(&'static str, u64)>,
    _lock: File,
}

impl Spool {
    /// Opens the spool in `folder`, which is made if it is not there, with all that waits in it.
    ///
    /// By a thread without rights, as those are that use it: what they may not do is found here.
    ///
    /// # Errors
    /// The folder cannot be used, or another process uses it.
    pub fn open(folder: &Path, limits: Limits) -> Result<Self, SpoolError> {
        let open = || without_rights(|| Self::open_as_is(folder, limits));
        std::thread::scope(|scope| scope.spawn(open).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn open_as_is(folder: &Path, limits: Limits) -> Result<Self, SpoolError> {
        let failed = |source| SpoolError::Folder {
            path: folder.to_owned(),
            source,
        };
        waggle_files::create_dir_all(folder).map_err(failed)?;
        let lock = take_lock(folder)?;
        let mut spool = Self {
            folder: folder.to_owned(),
            limits: Limits {
                max_bytes: limits.max_bytes.max(MAX_BYTES_LEAST),
                ..limits
            },
            run: RandomState::new().build_hasher().finish(),
            sequence_next: 0,
            number_next: 0,
            segments: VecDeque::new(),
            is_writing: false,
            unsynced_since: None,
            lent: None,
            records_delivered: 0,
            dropped: Vec::new(),
            _lock: lock,
        };
        spool.recover().map_err(failed)?;
        Ok(spool)
    }

    /// Takes up the segments that an earlier run left.
    fn recover(&mut self) -> io::Result<()> {
        for number in segment::list(&self.folder)? {
            self.number_next = self.number_next.max(number + 1);
            match Segment::reopen(&self.folder, number) {
                Ok(found) => {
                    count(&mut self.dropped, "half_written", found.half_written);
                    self.segments.push_back(found.segment);
                }
                Err(_) => {
                    // No header: a kill while it was made, or not a segment of this version.
                    count(&mut self.dropped, "damaged", 1);
                    let _ = fs::remove_file(segment::path(&self.folder, number));
                }
            }
        }
        self.forget_settled();
        Ok(())
    }

    /// Keeps a batch of `records` records. `tag` comes back with it.
    ///
    /// # Errors
    /// It was not kept, and is counted.
    pub fn append(&mut self, tag: u8, records: u32, payload: &[u8]) -> Result<BatchId, Refused> {
        let result = self.try_append(tag, records, payload);
        if let Err(refused) = &result {
            count(&mut self.dropped, refused.cause(), u64::from(records));
        }
        result
    }

    fn try_append(&mut self, tag: u8, records: u32, payload: &[u8]) -> Result<BatchId, Refused> {
        let bytes = segment::frame_bytes(payload.len());
        let fits = u32::try_from(payload.len()).is_ok();
        if !fits || bytes > self.limits.max_bytes / 2 {
            return Err(Refused::TooLarge(payload.len()));
        }
        self.make_room(bytes)?;
        let segment = self.segment_to_write()?;
        let frame = Frame {
            is_done: false,
            tag,
            records,
            sequence: 0,
            written_us: now_us(),
            run: 0,
        };
        let (run, sequence) = (self.run, self.sequence_next);
        let frame = Frame {
            run,
            sequence,
            ..frame
        };
        if let Err(error) = self.segments[segment].append(&frame, payload) {
            // What was half written cannot be taken back with certainty on a failing disk:
            // the segment ends before it, and the next batch goes to a new one.
            self.is_writing = false;
            return Err(refused(error));
        }
        self.sequence_next += 1;
        self.sync_if_due();
        Ok(BatchId { run, sequence })
    }

    /// Drops the oldest segments until `bytes` more are within the bound.
    fn make_room(&mut self, bytes: u64) -> Result<(), Refused> {
        while self.bytes() + bytes > self.limits.max_bytes && !self.segments.is_empty() {
            self.drop_oldest();
        }
        if self.limits.min_free_bytes > 0 {
            let disk = rustix::fs::statvfs(&self.folder).map_err(|e| Refused::Failed(e.into()))?;
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            if free < self.limits.min_free_bytes.saturating_add(bytes) {
                return Err(Refused::DiskFull);
            }
        }
        Ok(())
    }

    fn drop_oldest(&mut self) {
        let Some(oldest) = self.segments.pop_front() else {
            return;
        };
        if self.segments.is_empty() {
            self.is_writing = false;
        }
        let mut lost = oldest.records_waiting;
        if let Some(lent) = &mut self.lent
            && !lent.orphaned
        {
            lent.orphaned = true;
            lost -= u64::from(lent.frame.records);
        }
        count(&mut self.dropped, "spool_full", lost);
        oldest.remove(&self.folder);
    }

    /// Index of the segment that takes the next batch; makes a new one when it is time.
    fn segment_to_write(&mut self) -> Result<usize, Refused> {
        let full = self.limits.max_bytes / SEGMENTS;
        if self.is_writing && self.segments.back().is_some_and(|last| last.end < full) {
            return Ok(self.segments.len() - 1);
        }
        self.sync();
        self.is_writing = false;
        let made = Segment::create(&self.folder, self.number_next, self.run).map_err(refused)?;
        self.number_next += 1;
        self.segments.push_back(made);
        self.is_writing = true;
        self.forget_settled();
        Ok(self.segments.len() - 1)
    }

    /// The oldest batch that waits; the same one again until it is settled.
    pub fn front(&mut self) -> Option<Batch> {
        if let Some(lent) = self.lent.take()
            && lent.orphaned
        {
            count(
                &mut self.dropped,
                "spool_full",
                u64::from(lent.frame.records),
            );
        }
        loop {
            self.forget_settled();
            let oldest = self.segments.front_mut()?;
            match oldest.next() {
                Next::Batch(frame, payload) => {
                    self.lent = Some(Lent {
                        frame,
                        orphaned: false,
                    });
                    return Some(Batch {
                        id: frame.id(),
                        tag: frame.tag,
                        records: frame.records,
                        written_us: frame.written_us,
                        payload,
                    });
                }
                Next::Damaged(records) => count(&mut self.dropped, "damaged", records),
                Next::End if self.segments.len() == 1 => return None,
                Next::End => {}
            }
        }
    }

    /// The store has it: the batch that [`front`](Self::front) gave last leaves the spool.
    pub fn acknowledge(&mut self, id: BatchId) {
        if let Some(records) = self.settle(id) {
            self.records_delivered += records;
        }
    }

    /// The store will never take it: the batch leaves the spool and is counted under `cause`.
    pub fn reject(&mut self, id: BatchId, cause: &'static str) {
        if let Some(records) = self.settle(id) {
            count(&mut self.dropped, cause, records);
        }
    }

    /// Takes the lent batch out; its records, or `None` if `id` is not the one.
    fn settle(&mut self, id: BatchId) -> Option<u64> {
        let lent = self.lent.take_if(|lent| lent.frame.id() == id)?;
        if !lent.orphaned
            && let Some(oldest) = self.segments.front_mut()
        {
            oldest.settle();
            self.forget_settled();
        }
        Some(u64::from(lent.frame.records))
    }

    /// Removes segments from the front in which nothing waits and nothing will be written.
    fn forget_settled(&mut self) {
        while self
            .segments
            .front()
            .is_some_and(|oldest| oldest.batches_waiting == 0)
            && !(self.is_writing && self.segments.len() == 1)
        {
            if let Some(oldest) = self.segments.pop_front() {
                oldest.remove(&self.folder);
            }
        }
    }

    /// What it holds and what became of what it held.
    pub fn status(&self) -> SpoolStatus {
        SpoolStatus {
            batches_waiting: self.segments.iter().map(|s| s.batches_waiting).sum(),
            records_waiting: self.segments.iter().map(|s| s.records_waiting).sum(),
            bytes: self.bytes(),
            records_delivered: self.records_delivered,
            dropped: self.dropped.clone(),
        }
    }

    /// Synchronises what waits to the device.
    pub fn sync(&mut self) {
        if self.unsynced_since.take().is_none() {
            return;
        }
        if let Some(last) = self.segments.back()
            && last.batches_waiting > 0
        {
            last.sync();
        }
    }

    fn sync_if_due(&mut self) {
        let since = *self.unsynced_since.get_or_insert_with(Instant::now);
        if since.elapsed() >= SYNC_AFTER {
            self.sync();
        }
    }

    fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.end).sum()
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.sync();
    }
}

fn refused(error: io::Error) -> Refused {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Refused::DiskFull,
        _ => Refused::Failed(error),
    }
}

fn count(dropped: &mut Vec<(&'static str, u64)>, cause: &'static str, records: u64) {
    if records == 0 {
        return;
    }
    match dropped.iter_mut().find(|(name, _)| *name == cause) {
        Some((_, sum)) => *sum += records,
        None => dropped.push((cause, records)),
    }
}

fn take_lock(folder: &Path) -> Result<File, SpoolError> {
    let failed = |source| SpoolError::Folder {
        path: folder.to_owned(),
        source,
    };
    let lock =
        waggle_files::open(&folder.join("lock"), File::options().write(true)).map_err(failed)?;
    match rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(lock),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(SpoolError::InUse {
            path: folder.to_owned(),
        }),
        Err(error) => Err(failed(error.into())),
    }
}

fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| u64::try_from(d.as_micros()).unwrap_or(u64::MAX))
}
