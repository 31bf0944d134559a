//! The rows of text statements as the server sent them, parsed when somebody looks.
//!
//! A script may fetch the rows of a statement or leave them. Keeping a row costs one copy of its
//! bytes; its fields are found when they are asked for. Invariant: a row in here was checked when
//! it came, so that reading it cannot fail.

use crate::Error;
use crate::cursor::{Cursor, put_integer};

/// The result sets of one command, in the text protocol; empty by default. Its memory is kept for
/// the next command.
#[derive(Debug, Default)]
pub struct TextResults {
    /// Rows one after the other: length-encoded values, NULL as 0xfb.
    bytes: Vec<u8>,
    /// Where each row ends.
    ends: Vec<usize>,
    sets: Vec<Set>,
}

#[derive(Debug, Clone, Copy)]
struct Set {
    columns: usize,
    /// Index of its first row, and one past its last.
    first: usize,
    end: usize,
}

impl TextResults {
    /// Forgets everything, keeps the memory (up to a megabyte).
    pub fn clear(&mut self) {
        const KEPT_BYTES_MAX: usize = 1 << 20;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
        self.ends.clear();
        self.ends.shrink_to(KEPT_BYTES_MAX / 8);
        self.sets.clear();
    }

    /// Number of result sets.
    pub fn sets(&self) -> usize {
        self.sets.len()
    }

    /// Columns of a result set.
    pub fn columns(&self, set: usize) -> usize {
        self.sets.get(set).map_or(0, |set| set.columns)
    }

    /// Rows of a result set.
    pub fn rows(&self, set: usize) -> usize {
        self.sets.get(set).map_or(0, |set| set.end - set.first)
    }

    /// The values of a row in column order; `None` is NULL. Nothing for a row that is not there.
    pub fn row(&self, set: usize, row: usize) -> impl Iterator<Item = Option<&[u8]>> {
        let found = self.sets.get(set).filter(|set| row < set.end - set.first);
        let (bytes, columns) = match found {
            Some(set) => (self.bytes_of(set.first + row), set.columns),
            None => (&[][..], 0),
        };
        let mut cursor = Cursor::new(bytes, "row");
        // Checked when it came; a fault here would be one of this program.
        (0..columns).map(move |_| cursor.value().unwrap_or_default())
    }

    fn bytes_of(&self, row: usize) -> &[u8] {
        let start = match row {
            0 => 0,
            row => self.ends[row - 1],
        };
        &self.bytes[start..self.ends[row]]
    }

    /// Begins a result set; rows pushed now are its.
    pub fn begin_set(&mut self, columns: usize) {
        let first = self.ends.len();
        self.sets.push(Set {
            columns,
            first,
            end: first,
        });
    }

    /// Adds a row to the last result set; it must have the set's number of values.
    ///
    /// # Panics
    /// When no set was begun or the number of values is another.
    pub fn push_row<'a>(&mut self, values: impl IntoIterator<Item = Option<&'a [u8]>>) {
        let mut count = 0;
        for value in values {
            count += 1;
            match value {
                None => self.bytes.push(0xfb),
                Some(value) => {
                    put_integer(&mut self.bytes, value.len() as u64);
                    self.bytes.extend_from_slice(value);
                }
            }
        }
        let set = self.sets.last_mut().expect("a set was begun");
        assert_eq!(count, set.columns, "a value for each column");
        self.ends.push(self.bytes.len());
        set.end = self.ends.len();
    }

    /// Adds a row packet to the last result set, after checking it.
    pub(crate) fn push_packet(&mut self, packet: &[u8]) -> Result<(), Error> {
        let Some(set) = self.sets.last_mut() else {
            return Err(Error::protocol("a row outside of any result set"));
        };
        let mut cursor = Cursor::new(packet, "row");
        for _ in 0..set.columns {
            cursor.value()?;
        }
        if !cursor.is_empty() {
            return Err(cursor.error("it has more values than columns"));
        }
        self.bytes.extend_from_slice(packet);
        self.ends.push(self.bytes.len());
        set.end = self.ends.len();
        Ok(())
    }

    /// Bytes of all rows.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_as_they_went_in() {
        let mut results = TextResults::default();
        results.begin_set(2);
        results.push_row([Some(&b"a"[..]), None]);
        results.push_packet(b"\x02bc\xfb").unwrap();
        results.begin_set(1);
        results.push_row([Some(&[7u8; 300][..])]);
        assert_eq!(
            (results.sets(), results.rows(0), results.rows(1)),
            (2, 2, 1)
        );
        let row: Vec<_> = results.row(0, 1).collect();
        assert_eq!(row, [Some(&b"bc"[..]), None]);
        assert_eq!(results.row(1, 0).next(), Some(Some(&[7u8; 300][..])));
        assert_eq!(results.row(1, 1).count(), 0);
        assert_eq!(results.row(9, 0).count(), 0);
        assert!(results.push_packet(b"\x05ab").is_err());
        assert!(results.push_packet(b"\x01ab").is_err());
        results.clear();
        assert_eq!(results.sets(), 0);
    }
}
