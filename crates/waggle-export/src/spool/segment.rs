//! One file of the spool: batches one after the other, each with a checksum and a mark.
//!
//! A header names the file and its run; then frames: 40 bytes of head, then the payload. The head
//! has a checksum of its own, so that a damaged payload costs that batch alone and its records
//! are known. That a batch was settled is one byte of its head, overwritten in place: it cannot be
//! half done, and needs no room on a full disk. Neighbour: [`super::Spool`] decides what is kept.
//!
//! Invariant: no byte of the file is believed before a checksum was right.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::BatchId;

const MAGIC: &[u8; 8] = b"wagspool";
const VERSION: u32 = 1;
/// Magic, version, run, checksum.
const HEADER_BYTES: usize = 24;
/// Mark, tag, two zeros, length, records, checksum of the payload, sequence, time, two reserved
/// words, checksum of the head.
const HEAD_BYTES: usize = 40;
const MARK_DONE: u8 = 1;
const SUFFIX: &str = ".segment";

/// The head of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) is_done: bool,
    pub(super) tag: u8,
    pub(super) records: u32,
    pub(super) sequence: u64,
    pub(super) written_us: u64,
    pub(super) run: u64,
}

impl Frame {
    pub(super) fn id(&self) -> BatchId {
        BatchId {
            run: self.run,
            sequence: self.sequence,
        }
    }
}

/// A frame's head and where its payload is.
struct Head {
    frame: Frame,
    length: u32,
    checksum: u32,
}

/// What stands at a place of the file.
enum At {
    /// A whole head; its payload may be cut off.
    Head(Head),
    /// Nothing more.
    End,
    /// Bytes that are no head.
    Broken,
}

/// The next batch of a segment.
pub(super) enum Next {
    /// Waits to be settled.
    Batch(Frame, Vec<u8>),
    /// So many records cannot be read; skipped.
    Damaged(u64),
    /// Nothing waits.
    End,
}

/// A segment file.
#[derive(Debug)]
pub(super) struct Segment {
    number: u64,
    run: u64,
    file: File,
    /// First byte beyond the last whole frame.
    pub(super) end: u64,
    /// The first frame that is not known to be settled.
    read_at: u64,
    pub(super) batches_waiting: u64,
    pub(super) records_waiting: u64,
}

/// A segment of an earlier run.
pub(super) struct Reopened {
    pub(super) segment: Segment,
    /// Records in a last frame that was cut off.
    pub(super) half_written: u64,
}

/// Bytes that a payload of this length takes in a file.
pub(super) fn frame_bytes(payload: usize) -> u64 {
    (HEAD_BYTES + payload) as u64
}

/// Path of segment `number`.
pub(super) fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:020}{SUFFIX}"))
}

/// Numbers of the segments in `folder`, oldest first; what a kill left half made is removed.
pub(super) fn list(folder: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let Some(name) = name.to_str() else { continue };
        if let Some(number) = name.strip_suffix(SUFFIX).and_then(|n| n.parse().ok()) {
            numbers.push(number);
        } else if name.ends_with(".new") {
            fs::remove_file(folder.join(name))?;
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

impl Segment {
    /// Makes an empty segment. It appears under its name only when its header is whole.
    pub(super) fn create(folder: &Path, number: u64, run: u64) -> io::Result<Self> {
        let temporary = folder.join(format!("{number:020}.new"));
        let made = (|| {
            // One that a kill left was removed when the folder was listed.
            let file =
                waggle_files::create_new(&temporary, File::options().read(true).write(true))?;
            file.write_all_at(&header(run), 0)?;
            fs::rename(&temporary, path(folder, number))?;
            Ok(file)
        })();
        match made {
            Ok(file) => Ok(Self {
                number,
                run,
                file,
                end: HEADER_BYTES as u64,
                read_at: HEADER_BYTES as u64,
                batches_waiting: 0,
                records_waiting: 0,
            }),
            Err(error) => {
                let _ = fs::remove_file(&temporary);
                Err(error)
            }
        }
    }

    /// Opens a segment of an earlier run and counts what waits in it.
    pub(super) fn reopen(folder: &Path, number: u64) -> io::Result<Reopened> {
        let file = File::options()
            .read(true)
            .write(true)
            .open(path(folder, number))?;
        let mut bytes = [0; HEADER_BYTES];
        file.read_exact_at(&mut bytes, 0)?;
        let run = u64::from_le_bytes(array(&bytes[12..20]));
        if bytes != header(run) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let length = file.metadata()?.len();
        let mut segment = Self {
            number,
            run,
            file,
            end: length,
            read_at: HEADER_BYTES as u64,
            batches_waiting: 0,
            records_waiting: 0,
        };
        let half_written = segment.scan();
        Ok(Reopened {
            segment,
            half_written,
        })
    }

    /// Walks the heads; sets what waits and where the whole frames end. Returns the records of a
    /// frame that was cut off.
    fn scan(&mut self) -> u64 {
        let mut at = HEADER_BYTES as u64;
        loop {
            let (beyond, cut_off) = match self.head_at(at) {
                At::Head(head) => {
                    let beyond = at + frame_bytes(head.length as usize);
                    if beyond <= self.end && !head.frame.is_done {
                        self.batches_waiting += 1;
                        self.records_waiting += u64::from(head.frame.records);
                    }
                    let lost = if head.frame.is_done {
                        0
                    } else {
                        head.frame.records
                    };
                    (beyond, u64::from(lost))
                }
                At::End => return 0,
                At::Broken => (u64::MAX, 1),
            };
            if beyond > self.end {
                self.end = at;
                return cut_off;
            }
            at = beyond;
        }
    }

    fn head_at(&self, at: u64) -> At {
        if at >= self.end {
            return At::End;
        }
        let mut bytes = [0; HEAD_BYTES];
        if self.file.read_exact_at(&mut bytes, at).is_err() {
            return At::Broken;
        }
        let is_done = bytes[0] == MARK_DONE;
        bytes[0] = 0;
        let word = |from: usize| u32::from_le_bytes(array(&bytes[from..from + 4]));
        let long = |from: usize| u64::from_le_bytes(array(&bytes[from..from + 8]));
        if crc32fast::hash(&bytes[..36]) != word(36) {
            return At::Broken;
        }
        At::Head(Head {
            frame: Frame {
                is_done,
                tag: bytes[1],
                records: word(8),
                sequence: long(16),
                written_us: long(24),
                run: self.run,
            },
            length: word(4),
            checksum: word(12),
        })
    }

    /// Writes a batch at the end. After an error the segment ends where it did.
    pub(super) fn append(&mut self, frame: &Frame, payload: &[u8]) -> io::Result<()> {
        let length = u32::try_from(payload.len()).map_err(io::Error::other)?;
        let mut bytes = Vec::with_capacity(HEAD_BYTES + payload.len());
        bytes.extend_from_slice(&[0, frame.tag, 0, 0]);
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&frame.records.to_le_bytes());
        bytes.extend_from_slice(&crc32fast::hash(payload).to_le_bytes());
        bytes.extend_from_slice(&frame.sequence.to_le_bytes());
        bytes.extend_from_slice(&frame.written_us.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        bytes.extend_from_slice(payload);
        if let Err(error) = self.file.write_all_at(&bytes, self.end) {
            // Room that a failed write took is given back, so that a full disk is not fuller.
            let _ = self.file.set_len(self.end);
            return Err(error);
        }
        self.end += bytes.len() as u64;
        self.batches_waiting += 1;
        self.records_waiting += u64::from(frame.records);
        Ok(())
    }

    /// The first batch that waits; the same until it is [settled](Self::settle).
    pub(super) fn next(&mut self) -> Next {
        loop {
            let head = match self.head_at(self.read_at) {
                At::Head(head) => head,
                At::End => return self.give_up(self.end),
                // It was right when the file was opened or written: the disk lost it since.
                At::Broken => return self.give_up(self.end),
            };
            let payload_at = self.read_at + HEAD_BYTES as u64;
            let beyond = self.read_at + frame_bytes(head.length as usize);
            if beyond > self.end {
                return self.give_up(self.end);
            }
            if head.frame.is_done {
                self.read_at = beyond;
                continue;
            }
            let mut payload = vec![0; head.length as usize];
            let read = self.file.read_exact_at(&mut payload, payload_at);
            if read.is_ok() && crc32fast::hash(&payload) == head.checksum {
                return Next::Batch(head.frame, payload);
            }
            let records = u64::from(head.frame.records);
            self.leave(beyond, records);
            return Next::Damaged(records);
        }
    }

    /// Skips to `end`: what still counts as waiting cannot be read.
    fn give_up(&mut self, end: u64) -> Next {
        self.read_at = end;
        self.batches_waiting = 0;
        match std::mem::take(&mut self.records_waiting) {
            0 => Next::End,
            records => Next::Damaged(records),
        }
    }

    /// Marks the batch that [`next`](Self::next) gave as settled.
    pub(super) fn settle(&mut self) {
        let At::Head(head) = self.head_at(self.read_at) else {
            return;
        };
        // A mark that cannot be written means that a later run delivers the batch once more,
        // under the same id.
        let _ = self.file.write_all_at(&[MARK_DONE], self.read_at);
        let beyond = self.read_at + frame_bytes(head.length as usize);
        self.leave(beyond, u64::from(head.frame.records));
    }

    fn leave(&mut self, beyond: u64, records: u64) {
        self.read_at = beyond;
        self.batches_waiting = self.batches_waiting.saturating_sub(1);
        self.records_waiting = self.records_waiting.saturating_sub(records);
    }

    /// To the device.
    pub(super) fn sync(&self) {
        // A device that cannot is noticed by the next write; there is nothing else to do here.
        let _ = self.file.sync_data();
    }

    /// Takes the file away.
    pub(super) fn remove(self, folder: &Path) {
        let _ = fs::remove_file(path(folder, self.number));
    }
}

fn header(run: u64) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..20].copy_from_slice(&run.to_le_bytes());
    let checksum = crc32fast::hash(&bytes[..20]);
    bytes[20..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// The first `N` of `bytes`, which are there.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(bytes);
    array
}
