//! How a file of a run is opened and how much of it is believed: a run directory may come from
//! anyone, and `report` reads it as root.
//!
//! Neighbour: [`super::reader`] says what stands in which file. Invariants: what is no ordinary
//! file, and what is a link, is never opened, so that nothing waits, and nothing from elsewhere
//! gets into a report; no file, line or document takes more memory than its bound.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use serde_json::Value;
use waggle_foreign::{open_own, read_bounded};

/// Largest `run.json`, bytes. One with all variables of a server has 60 kB.
pub(super) const FACTS_BYTES_MAX: u64 = 2 << 20;
/// Largest document, bytes. That of a profile of a busy server for an hour has some 10 MB.
pub(super) const DOCUMENT_BYTES_MAX: u64 = 64 << 20;
/// Largest histogram, bytes. One of 5 digits over all times has 1.5 MB.
pub(super) const HISTOGRAM_BYTES_MAX: u64 = 4 << 20;
/// Largest file of lines, bytes. A day of intervals of a second has 100 MB.
const LINES_BYTES_MAX: u64 = 256 << 20;
/// Longest line, bytes. A window's, with its latencies, has 20 kB.
const LINE_BYTES_MAX: usize = 4 << 20;
/// Most files of a kind that are looked at in a run: profiles, histograms.
pub(super) const FILES_MAX: usize = 64;
/// Most memory that a document, a line, or all lines that are kept at once may take, bytes.
pub(super) const MEMORY_MAX: u64 = 96 << 20;

/// What could not be read of a file of lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinesRead {
    /// Complete lines that are not JSON, or are too long.
    pub damaged: u64,
    /// The last line has no end.
    pub half_written: bool,
}

/// The content of a file of a run, of at most so many bytes.
pub(super) fn bytes(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_bounded(&open_own(path)?, bytes_max)
}

/// Memory that a document may take once it is read, bytes, by how many parts it has: a text of a
/// megabyte may be a million of them, each an allocation.
pub(super) fn memory_of(json: &[u8]) -> u64 {
    let mut memory = json.len() as u64;
    let mut in_text = false;
    let mut is_escaped = false;
    for byte in json {
        if in_text {
            in_text = is_escaped || *byte != b'"';
            is_escaped = !is_escaped && *byte == b'\\';
            continue;
        }
        memory += match byte {
            b'"' => {
                in_text = true;
                0
            }
            // As large as the largest record of a report, or a node of a map.
            b'{' => 640,
            b':' => 48,
            b'[' => 64,
            b',' => 32,
            _ => 0,
        };
    }
    memory
}

/// Hands every value of a file of JSON lines to `take`, in the order written, until it says that
/// it has enough.
pub(super) fn each_line(
    path: &Path,
    mut take: impl FnMut(Value, &[u8]) -> io::Result<()>,
) -> io::Result<LinesRead> {
    let file = open_own(path)?;
    if file.metadata()?.len() > LINES_BYTES_MAX {
        let why = format!("it is larger than {LINES_BYTES_MAX} bytes, the most that is read");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    let mut read = LinesRead::default();
    // It may be growing: what is there by now is what is read.
    let mut source = BufReader::new(io::Read::take(file, LINES_BYTES_MAX));
    let mut line = Vec::new();
    while let Some(is_whole) = next_line(&mut source, &mut line)? {
        if !is_whole {
            read.half_written = true;
            break;
        }
        let is_sane = line.len() <= LINE_BYTES_MAX && memory_of(&line) <= MEMORY_MAX;
        match serde_json::from_slice(&line).ok().filter(|_| is_sane) {
            Some(value) => take(value, &line)?,
            None => read.damaged += 1,
        }
    }
    Ok(read)
}

/// The next line without its end, cut a byte beyond [`LINE_BYTES_MAX`], and whether it had an end;
/// `None` at the end of the file.
fn next_line(source: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Option<bool>> {
    line.clear();
    let limit = LINE_BYTES_MAX as u64 + 1;
    let count = io::Read::take(&mut *source, limit).read_until(b'\n', line)?;
    if count == 0 {
        return Ok(None);
    }
    if line.pop_if(|byte| *byte == b'\n').is_some() {
        return Ok(Some(true));
    }
    if line.len() <= LINE_BYTES_MAX {
        return Ok(Some(false));
    }
    source.skip_until(b'\n')?;
    Ok(Some(true))
}

/// Opens the file of samples to go on with it, made if it is missing.
pub(super) fn open_to_append(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    match std::fs::symlink_metadata(path) {
        Ok(facts) if !facts.is_file() => {
            let why = "it is not an ordinary file";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        _ => {}
    }
    let mut options = File::options();
    options.read(true).append(true).custom_flags(flags);
    let file = waggle_files::open(path, &options)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::from_raw_os_error(libc::EINVAL)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_counted_outside_of_text_alone() {
        assert_eq!(memory_of(b"1"), 1);
        assert_eq!(memory_of(br#""{[,:\"{[""#), 10);
        assert!(memory_of(br#"{"a":[0,0]}"#) > 640 + 48 + 64 + 32);
        let objects = "{},".repeat(1 << 20);
        assert!(memory_of(objects.as_bytes()) > MEMORY_MAX);
    }
}
