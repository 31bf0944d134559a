//! The lines of a slice, as the sender asks for them.
//!
//! Takes rows from the running SELECT and appends their lines, some tens of kilobytes at a time;
//! a slice ends at a row's end once it has its bytes. Invariant: memory does not grow with a
//! row's size; the key it gives is that of the last row in the slice.

use waggle_wire::{Error, Piece, RowStream};

use crate::range::KeyValue;
use crate::rows::Encoder;

/// What leaves at once, about: enough for few system calls, little enough that both servers work.
const SEND_BYTES: usize = 64 << 10;
/// Marked rows of a slice, so that what is remembered of them is bounded.
const MARKED_MAX: usize = 1000;

/// A running SELECT and its lines.
pub(super) struct Feed<'c> {
    stream: RowStream<'c>,
    encoder: Encoder,
    slice_bytes: u64,
    /// Of the running slice.
    bytes: u64,
    is_full: bool,
    last: Option<KeyValue>,
    /// Keys of the slice's marked rows.
    marked: Vec<KeyValue>,
    /// The source's error, which the sender cannot carry.
    error: Option<Error>,
    is_over: bool,
}

impl<'c> Feed<'c> {
    pub(super) fn new(stream: RowStream<'c>, encoder: Encoder, slice_bytes: u64) -> Feed<'c> {
        Feed {
            stream,
            encoder,
            slice_bytes,
            bytes: 0,
            is_full: false,
            last: None,
            marked: Vec::new(),
            error: None,
            is_over: false,
        }
    }

    /// Begins the next slice.
    pub(super) fn begin(&mut self) {
        (self.bytes, self.is_full, self.last) = (0, false, None);
        self.marked.clear();
    }

    /// Appends lines, and parts of lines, to what leaves next. Gives how many ended; appends
    /// nothing at the slice's end.
    pub(super) fn fill(&mut self, out: &mut Vec<u8>) -> u64 {
        let start = out.len();
        let mut rows = 0;
        while out.len() - start < SEND_BYTES && !self.is_full && !self.is_over {
            match self.step(out) {
                Ok(ended) => rows += ended,
                Err(error) => {
                    // What is sent is rolled back; the row's beginning is of no account.
                    self.error = Some(error);
                    self.is_over = true;
                }
            }
        }
        rows
    }

    #[inline]
    fn step(&mut self, out: &mut Vec<u8>) -> Result<u64, Error> {
        match self.stream.next()? {
            None => {
                self.is_over = true;
                Ok(0)
            }
            Some(Piece::Row(row)) => {
                self.encoder.row(row, out)?;
                self.bytes += row.len() as u64;
                let is_marked = self.encoder.is_marked();
                if is_marked || self.bytes >= self.slice_bytes {
                    let key = self.encoder.key(row)?;
                    if is_marked {
                        self.marked.push(key.clone());
                    }
                    if self.bytes >= self.slice_bytes || self.marked.len() >= MARKED_MAX {
                        self.is_full = true;
                        self.last = Some(key);
                    }
                }
                Ok(1)
            }
            Some(Piece::Part { bytes, is_last }) => {
                self.bytes += bytes.len() as u64;
                let key = self.encoder.part(bytes, is_last, out)?;
                if let Some(key) = key {
                    if self.encoder.is_marked() {
                        self.marked.push(key.clone());
                    }
                    if self.bytes >= self.slice_bytes || self.marked.len() >= MARKED_MAX {
                        self.is_full = true;
                        self.last = Some(key);
                    }
                }
                Ok(u64::from(is_last))
            }
        }
    }

    /// Bytes of row data in the slice.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The key of the slice's last row; `None` when the range ended with it.
    pub(super) fn last(&mut self) -> Option<KeyValue> {
        self.last.take()
    }

    /// Keys of the slice's marked rows.
    pub(super) fn marked(&self) -> &[KeyValue] {
        &self.marked
    }

    /// What went wrong at the source.
    pub(super) fn error(&mut self) -> Option<Error> {
        self.error.take()
    }

    /// Whether the source has no more rows.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }
}
