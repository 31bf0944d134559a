//! The bytes of a file as the parser of ELF files asks for them: read when asked for, kept, and
//! bounded in all.
//!
//! Not mapped: the owner of a program may cut it short while it is looked at, which a read answers
//! with an error and a mapping with SIGBUS. Ranges and blocks are kept until the whole is dropped,
//! as the parser hands out references to them.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use object::ReadRef;

/// Most bytes that are read of one file. The largest server, MySQL's own debug build with its
/// whole symbol table, takes about 50 MB of symbols, their names, relocations and frames; stock
/// servers take 5 to 20 MB.
const BYTES_MAX: u64 = 64 << 20;
/// Longest name, bytes; templates make names of hundreds. The parser's own cache has the same.
const NAME_BYTES_MAX: u64 = 4096;
/// Names are read in blocks of this many bytes, and what the last in it may have beyond.
const BLOCK: u64 = 64 << 10;
/// What an entry takes beside its bytes.
const ENTRY_BYTES: u64 = 64;

/// What was read, by what says where it was.
type Kept<K> = RefCell<HashMap<K, Box<[u8]>>>;

/// A file's bytes, read piece by piece.
#[derive(Debug)]
pub struct FileBytes {
    file: File,
    length: u64,
    left: Cell<u64>,
    /// By offset and length.
    ranges: Kept<(u64, u64)>,
    /// By the number of the block.
    blocks: Kept<u64>,
}

impl FileBytes {
    /// Of a file. How long it is is asked once: what it grows by later is not seen.
    ///
    /// # Errors
    /// The file's length cannot be asked for.
    pub fn new(file: &File) -> std::io::Result<Self> {
        let file = file.try_clone()?;
        let length = file.metadata()?.len();
        Ok(Self {
            file,
            length,
            left: Cell::new(BYTES_MAX),
            ranges: RefCell::default(),
            blocks: RefCell::default(),
        })
    }

    /// Whether something was refused since too much was asked for.
    pub fn is_exhausted(&self) -> bool {
        self.left.get() == 0
    }

    fn read(&self, offset: u64, length: u64) -> Result<Box<[u8]>, ()> {
        let end = offset.checked_add(length).ok_or(())?;
        if end > self.length {
            return Err(());
        }
        let Some(left) = self.left.get().checked_sub(length + ENTRY_BYTES) else {
            self.left.set(0);
            return Err(());
        };
        self.left.set(left);
        let mut bytes = vec![0; usize::try_from(length).map_err(|_| ())?];
        self.file
            .read_exact_at(&mut bytes, offset)
            .map_err(|_| ())?;
        Ok(bytes.into_boxed_slice())
    }
}

/// Gives a reference to what is kept under `key` the lifetime of the map's owner.
fn kept<K: Eq + std::hash::Hash>(
    map: &Kept<K>,
    key: K,
    read: impl FnOnce() -> Result<Box<[u8]>, ()>,
) -> Result<&[u8], ()> {
    use std::collections::hash_map::Entry;
    let mut map = map.borrow_mut();
    let bytes: &[u8] = match map.entry(key) {
        Entry::Occupied(entry) => entry.into_mut(),
        Entry::Vacant(entry) => entry.insert(read()?),
    };
    // SAFETY: the bytes are on the heap, where they stay when the map grows, and no entry is
    // changed or removed as long as the map, borrowed for as long as what is handed out, is there.
    Ok(unsafe { std::slice::from_raw_parts(bytes.as_ptr(), bytes.len()) })
}

impl<'a> ReadRef<'a> for &'a FileBytes {
    fn len(self) -> Result<u64, ()> {
        Ok(self.length)
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        if size == 0 {
            return Ok(&[]);
        }
        kept(&self.ranges, (offset, size), || self.read(offset, size))
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        if range.start > range.end || range.end > self.length {
            return Err(());
        }
        let number = range.start / BLOCK;
        let start = number * BLOCK;
        let block = kept(&self.blocks, number, || {
            self.read(start, (BLOCK + NAME_BYTES_MAX).min(self.length - start))
        })?;
        let length = (range.end - range.start).min(NAME_BYTES_MAX);
        let from = usize::try_from(range.start - start).map_err(|_| ())?;
        let until = from + usize::try_from(length).map_err(|_| ())?;
        let bytes = block.get(from..until.min(block.len())).ok_or(())?;
        let length = memchr::memchr(delimiter, bytes).ok_or(())?;
        Ok(&bytes[..length])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn ranges_and_names_are_those_of_the_file() {
        let mut file = tempfile::tempfile().unwrap();
        let names: Vec<u8> = (0..40_000)
            .flat_map(|i| format!("name{i}\0").into_bytes())
            .collect();
        file.write_all(&names).unwrap();
        let bytes = FileBytes::new(&file).unwrap();
        let all = (&bytes).read_bytes_at(0, names.len() as u64).unwrap();
        assert!(all == names);
        let end = names.len() as u64;
        let mut at = 0;
        for i in 0..40_000 {
            let name = (&bytes).read_bytes_at_until(at..end, 0).unwrap();
            assert_eq!(name, format!("name{i}").as_bytes());
            at += name.len() as u64 + 1;
        }
        assert!((&bytes).read_bytes_at_until(end..end, 0).is_err());
        assert!((&bytes).read_bytes_at_until(0..3, 0).is_err());
        assert!((&bytes).read_bytes_at(1, end).is_err());
        assert!((&bytes).read_bytes_at(u64::MAX, 2).is_err());
    }

    #[test]
    fn reading_is_bounded_in_all() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(5 << 30).unwrap();
        let bytes = FileBytes::new(&file).unwrap();
        assert!((&bytes).read_bytes_at(0, 5 << 30).is_err());
        assert!(bytes.is_exhausted());
        let bytes = FileBytes::new(&file).unwrap();
        let mut count = 0_u64;
        while (&bytes).read_bytes_at(count, 1 << 20).is_ok() {
            count += 1;
        }
        assert!((60..64).contains(&count), "{count}");
        assert!(bytes.is_exhausted());
    }

    #[test]
    fn a_file_that_is_cut_short_is_an_error() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        let bytes = FileBytes::new(&file).unwrap();
        file.set_len(10).unwrap();
        assert!((&bytes).read_bytes_at(0, 4096).is_err());
        assert!((&bytes).read_bytes_at_until(0..4096, 0).is_err());
    }
}
