//! Segments: the files of a spool, and what of them survived.
//!
//! A spool is a directory of `segment-<number>`; each begins with the position before its first
//! transaction. Neighbours: `write` appends to the last one, `read` goes through all. Invariant:
//! what [`whole_end`] gives is the end of a transaction, with nothing damaged before it.

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use super::record::{self, HEAD_BYTES, Record};
use crate::{CopyError, Position};

const PREFIX: &str = "segment-";

pub(super) fn path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{PREFIX}{number:010}"))
}

/// The numbers of a directory's segments, in order.
pub(super) fn list(dir: &Path) -> Result<Vec<u64>, CopyError> {
    let doing = || format!("reading the spool's directory {}", dir.display());
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir).map_err(CopyError::file(doing()))? {
        let entry = entry.map_err(CopyError::file(doing()))?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        numbers.extend(number.and_then(|digits| digits.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// How far a segment can be trusted.
pub(super) struct Whole {
    /// The position after its last whole one.
    pub(super) position: Position,
    /// Where that one ends.
    pub(super) end: u64,
}

/// A segment's first record, the position before its first transaction, and the file's length;
/// `None` when the record is not whole.
pub(super) fn base(path: &Path) -> Result<Option<(Position, u64)>, CopyError> {
    let doing = || format!("reading {}", path.display());
    let mut file = File::open(path).map_err(CopyError::file(doing()))?;
    let length = file.metadata().map_err(CopyError::file(doing()))?.len();
    let mut first = [0; HEAD_BYTES];
    if !fill(&mut file, &mut first).map_err(CopyError::file(doing()))? {
        return Ok(None);
    }
    let Some((size, sum)) = record::head(first) else {
        return Ok(None);
    };
    if (HEAD_BYTES + size) as u64 > length {
        return Ok(None);
    }
    let mut bytes = vec![0; size];
    if !fill(&mut file, &mut bytes).map_err(CopyError::file(doing()))? {
        return Ok(None);
    }
    match record::parse(&bytes, sum) {
        Some(Record::Segment(text)) => Ok(text.parse().ok().map(|base| (base, length))),
        _ => Ok(None),
    }
}

/// Goes through a segment up to its last whole transaction; `None` when not even its first record
/// is whole.
pub(super) fn whole_end(path: &Path) -> Result<Option<Whole>, CopyError> {
    let doing = || format!("reading {}", path.display());
    let file = File::open(path).map_err(CopyError::file(doing()))?;
    let length = file.metadata().map_err(CopyError::file(doing()))?.len();
    let mut file = BufReader::with_capacity(256 << 10, file);
    let mut whole: Option<Whole> = None;
    let mut mark = None;
    let (mut at, mut bytes) = (0, Vec::new());
    loop {
        let mut first = [0; HEAD_BYTES];
        if !fill(&mut file, &mut first).map_err(CopyError::file(doing()))? {
            break;
        }
        let Some((size, sum)) = record::head(first) else {
            break;
        };
        // What it says of its length allocates nothing that the file has not.
        if at + (HEAD_BYTES + size) as u64 > length {
            break;
        }
        bytes.resize(size, 0);
        if !fill(&mut file, &mut bytes).map_err(CopyError::file(doing()))? {
            break;
        }
        at += (HEAD_BYTES + size) as u64;
        let Some(record) = record::parse(&bytes, sum) else {
            break;
        };
        match (&record, &mut whole) {
            (Record::Segment(text), None) => {
                let Ok(base) = text.parse::<Position>() else {
                    break;
                };
                whole = Some(Whole {
                    position: base,
                    end: at,
                });
                continue;
            }
            (_, None) | (Record::Segment(_), Some(_)) => break,
            (Record::Begin { mark: which, .. } | Record::Skipped { mark: which, .. }, _) => {
                mark = Some(which.clone());
            }
            _ => {}
        }
        if let (true, Some(whole)) = (record.ends_transaction(), &mut whole) {
            let Some(mark) = mark.take() else {
                break;
            };
            mark.advance(&mut whole.position);
            whole.end = at;
        }
    }
    Ok(whole)
}

/// Whether all of `bytes` could be read; not so at the file's end.
fn fill(file: &mut impl Read, bytes: &mut [u8]) -> std::io::Result<bool> {
    match file.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes the directory's entries survive a crash of the machine.
pub(super) fn sync_dir(dir: &Path) -> Result<(), CopyError> {
    let doing = format!("syncing the spool's directory {}", dir.display());
    File::open(dir)
        .and_then(|dir| dir.sync_all())
        .map_err(CopyError::file(doing))
}
