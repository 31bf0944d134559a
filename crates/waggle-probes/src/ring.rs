//! Reads a BPF ring buffer in place.
//!
//! The layout is kernel ABI: one page with the consumer's position, one with the producer's, then
//! the data, mapped twice in a row so that no record is ever split. Nothing is copied: a record is
//! lent to the caller and its room is given back when the whole batch is done.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Set in a record's length while the kernel is still writing it.
const BUSY: u32 = 1 << 31;
/// Set in a record's length if the kernel gave it up.
const DISCARDED: u32 = 1 << 30;
/// Bytes before each record.
const HEADER: u64 = 8;

/// A mapped ring buffer; one reader at a time.
#[derive(Debug)]
pub struct Ring {
    consumer: Mapping,
    producer: Mapping,
    size: u64,
    page: usize,
}

// SAFETY: the mappings are owned, and every method that moves the position takes `&mut self`.
unsafe impl Send for Ring {}

#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

impl Mapping {
    fn new(fd: i32, length: usize, offset: usize, writable: bool) -> io::Result<Self> {
        let protection = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
        let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        // SAFETY: a fresh shared mapping of a descriptor we hold; the result is checked below.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                protection,
                libc::MAP_SHARED,
                fd,
                offset,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at 0"))?;
        Ok(Self { start, length })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, and nothing borrows it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

impl Ring {
    /// Maps the ring buffer map `fd`, whose data area has `size` bytes (a power of two).
    ///
    /// # Errors
    /// The descriptor cannot be mapped.
    pub fn new(fd: BorrowedFd<'_>, size: u32) -> io::Result<Self> {
        // SAFETY: sysconf has no preconditions.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let page = usize::try_from(page).map_err(io::Error::other)?;
        let raw = fd.as_raw_fd();
        let consumer = Mapping::new(raw, page, 0, true)?;
        let producer = Mapping::new(raw, page + 2 * size as usize, page, false)?;
        Ok(Self {
            consumer,
            producer,
            size: u64::from(size),
            page,
        })
    }

    fn consumer_position(&self) -> &AtomicU64 {
        // SAFETY: the page begins with the 8-byte position, aligned, alive as long as `self`.
        unsafe { self.consumer.start.cast().as_ref() }
    }

    fn producer_position(&self) -> &AtomicU64 {
        // SAFETY: as above; the kernel writes it atomically.
        unsafe { self.producer.start.cast().as_ref() }
    }

    /// Calls `each` for every finished record, at most `limit`, and gives their room back.
    /// Returns how many there were.
    pub fn consume(&mut self, limit: usize, mut each: impl FnMut(&[u8])) -> usize {
        let mut position = self.consumer_position().load(Ordering::Relaxed);
        let end = self.producer_position().load(Ordering::Acquire);
        let mut count = 0;
        while position < end && count < limit {
            let at = self.page + usize::try_from(position & (self.size - 1)).unwrap_or(0);
            // SAFETY: `at` lies within the first copy of the data area, records are 8-aligned.
            let length: &AtomicU32 = unsafe { self.producer.start.add(at).cast().as_ref() };
            let length = length.load(Ordering::Acquire);
            if length & BUSY != 0 {
                break;
            }
            let bytes = length & !DISCARDED;
            if length & DISCARDED == 0 {
                // SAFETY: the kernel finished this record (BUSY is clear) and will not touch it
                // until the consumer's position passes it; the second copy of the data area
                // behind the first makes it contiguous.
                let record = unsafe {
                    let start = self
                        .producer
                        .start
                        .add(at + usize::try_from(HEADER).unwrap_or(8));
                    std::slice::from_raw_parts(start.as_ptr(), bytes as usize)
                };
                each(record);
                count += 1;
            }
            position += (HEADER + u64::from(bytes)).next_multiple_of(8);
        }
        self.consumer_position().store(position, Ordering::Release);
        count
    }

    /// Bytes the kernel has written and nobody has read.
    pub fn backlog_bytes(&self) -> u64 {
        let end = self.producer_position().load(Ordering::Acquire);
        end.saturating_sub(self.consumer_position().load(Ordering::Relaxed))
    }
}

/// The smallest power of two that is at least `bytes` and a whole number of pages.
pub fn ring_bytes(bytes: u32) -> u32 {
    bytes.clamp(4096, 1 << 30).next_power_of_two()
}
