//! The packets that come in: whole, in parts, looked at or passed over.
//!
//! A packet is lent where it lies in the receive buffer; only one of several frames is put
//! together elsewhere. Neighbour: the parent sends, and says when memory goes back. Invariants:
//! skipping a packet allocates nothing, whatever its size; memory grows with what the server sent,
//! not with what it announced.

use super::{
    BUFFER_BYTES_MAX, BUFFER_BYTES_MIN, Channel, FRAME_BYTES_MAX, HEADER_BYTES, Transport,
};
use crate::Error;

/// A packet that is lent in parts, between two of them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Open {
    /// Bytes of the frame that are still to come.
    left: usize,
    /// Another frame follows this one.
    continues: bool,
}

impl Open {
    /// Whether parts of the packet are still to come.
    pub(crate) fn is_open(self) -> bool {
        self.left > 0 || self.continues
    }
}

/// A packet, or a part of one that does not fit the buffer.
#[derive(Debug)]
pub(crate) enum Lent<'a> {
    Whole(&'a [u8]),
    Part { bytes: &'a [u8], is_last: bool },
}

impl<T: Transport> Channel<T> {
    /// The next packet's payload length in its first frame and its first byte, without
    /// consuming it.
    pub(crate) fn peek(&mut self) -> Result<(usize, u8), Error> {
        self.fill(HEADER_BYTES)?;
        let (length, _) = self.header_here();
        if length == 0 {
            return Err(Error::protocol("the server sent an empty packet"));
        }
        self.fill(HEADER_BYTES + 1)?;
        Ok((length, self.buffer[self.start + HEADER_BYTES]))
    }

    /// The next packet's payload.
    pub(crate) fn packet(&mut self) -> Result<&[u8], Error> {
        let length = self.header()?;
        self.check_size(length)?;
        if length < FRAME_BYTES_MAX {
            self.fill(length)?;
            let start = self.start;
            self.start += length;
            return Ok(&self.buffer[start..start + length]);
        }
        self.joined.clear();
        let mut left = length;
        loop {
            while left > 0 {
                self.fill(1)?;
                let taken = left.min(self.end - self.start);
                self.joined
                    .extend_from_slice(&self.buffer[self.start..self.start + taken]);
                self.start += taken;
                left -= taken;
            }
            if !self.joined.len().is_multiple_of(FRAME_BYTES_MAX) {
                return Ok(&self.joined);
            }
            left = self.header()?;
            self.check_size(self.joined.len() + left)?;
            if left == 0 {
                return Ok(&self.joined);
            }
        }
    }

    /// The next packet, or the next part of the one that is open. Memory does not grow past the
    /// buffer, whatever the packet's size.
    #[inline]
    pub(crate) fn lend(&mut self, open: &mut Open) -> Result<Lent<'_>, Error> {
        if !open.is_open() {
            let length = self.header()?;
            if length <= BUFFER_BYTES_MAX - HEADER_BYTES {
                self.fill(length)?;
                let start = self.start;
                self.start += length;
                return Ok(Lent::Whole(&self.buffer[start..start + length]));
            }
            *open = Open {
                left: length,
                continues: length == FRAME_BYTES_MAX,
            };
        } else if open.left == 0 {
            open.left = self.header()?;
            open.continues = open.left == FRAME_BYTES_MAX;
        }
        if open.left > 0 {
            self.fill(1)?;
        }
        let taken = open.left.min(self.end - self.start);
        let start = self.start;
        self.start += taken;
        open.left -= taken;
        Ok(Lent::Part {
            bytes: &self.buffer[start..start + taken],
            is_last: !open.is_open(),
        })
    }

    /// Consumes packets unseen until `limit` of them are gone or the next one is one of those
    /// that `ends` knows by length and first byte. Gives how many it consumed.
    pub(crate) fn skip_until(
        &mut self,
        limit: u64,
        ends: impl Fn(usize, u8) -> bool,
    ) -> Result<u64, Error> {
        let mut skipped = 0;
        loop {
            // Packets that lie whole in the buffer, in turn: a few instructions for each.
            let received = &self.buffer[..self.end];
            while let Some(&[a, b, c, sequence, first]) = received
                .get(self.start..)
                .and_then(|rest| rest.first_chunk())
            {
                let length = u32::from_le_bytes([a, b, c, 0]) as usize;
                let next = self.start + HEADER_BYTES + length;
                if skipped == limit
                    || ends(length, first)
                    || next > received.len()
                    || sequence != self.sequence
                    || matches!(length, 0 | FRAME_BYTES_MAX)
                {
                    break;
                }
                self.start = next;
                self.sequence = sequence.wrapping_add(1);
                skipped += 1;
            }
            // What stopped it, with all checks.
            if skipped == limit {
                return Ok(skipped);
            }
            let (length, first) = self.peek()?;
            if ends(length, first) {
                return Ok(skipped);
            }
            self.skip()?;
            skipped += 1;
        }
    }

    /// Consumes the next packet unseen.
    pub(super) fn skip(&mut self) -> Result<(), Error> {
        loop {
            let length = self.header()?;
            let mut left = length;
            while left > self.end - self.start {
                left -= self.end - self.start;
                (self.start, self.end) = (0, 0);
                self.receive()?;
            }
            self.start += left;
            if length < FRAME_BYTES_MAX {
                return Ok(());
            }
        }
    }

    fn check_size(&self, length: usize) -> Result<(), Error> {
        if length <= self.packet_bytes_max {
            return Ok(());
        }
        Err(Error::protocol(format!(
            "the server announced a packet of {length} bytes or more; at most {} are taken here",
            self.packet_bytes_max
        )))
    }

    /// Length and sequence of the frame at `start`; four bytes must be there.
    fn header_here(&self) -> (usize, u8) {
        let header = &self.buffer[self.start..self.start + HEADER_BYTES];
        let length = u32::from_le_bytes([header[0], header[1], header[2], 0]);
        (length as usize, header[3])
    }

    /// Consumes a frame's header.
    fn header(&mut self) -> Result<usize, Error> {
        self.fill(HEADER_BYTES)?;
        let (length, sequence) = self.header_here();
        if sequence != self.sequence && !self.transport.is_numbered_below() {
            self.in_step = false;
            // A server that ends a session (shutdown, idle, killed) says so out of turn.
            let is_error = length > 0 && self.peek()?.1 == 0xff;
            if !is_error {
                return Err(Error::protocol(format!(
                    "the server sent packet {sequence} where packet {} was due",
                    self.sequence
                )));
            }
        }
        self.sequence = sequence.wrapping_add(1);
        self.start += HEADER_BYTES;
        Ok(length)
    }

    /// Receives until `needed` bytes are there to consume.
    #[inline]
    fn fill(&mut self, needed: usize) -> Result<(), Error> {
        if self.end - self.start >= needed {
            return Ok(());
        }
        self.fill_slowly(needed)
    }

    fn fill_slowly(&mut self, needed: usize) -> Result<(), Error> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start + needed > self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        while self.end - self.start < needed {
            if self.end == self.buffer.len() {
                // Twice what came, not at once what was announced.
                let longer = (self.end * 2).min(self.start + needed);
                self.buffer.resize(longer, 0);
            }
            self.receive()?;
        }
        Ok(())
    }

    /// Receives once, behind what is there.
    fn receive(&mut self) -> Result<(), Error> {
        self.end += self.transport.receive(&mut self.buffer[self.end..])?;
        if self.end > BUFFER_BYTES_MIN / 2 {
            self.small_commands = 0;
        }
        if self.end == self.buffer.len() && self.end < BUFFER_BYTES_MAX {
            // There is more to come than fits.
            self.buffer.resize(BUFFER_BYTES_MAX, 0);
        }
        Ok(())
    }
}
