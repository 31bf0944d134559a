//! One connection's side of a conversation, without the socket: what to send, when it is answered.
//!
//! Every way of waiting (`bare-loop`) drives the same session. Invariant: only what tells the end
//! of an answer is looked at: packet headers and first bytes.

use crate::statements::Statements;

/// Answers of the workloads fit; a longer one arrives in several parts.
const BUFFER_BYTES: usize = 32 << 10;

/// Where in an answer the next packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// OK, an error, or the number of columns.
    First,
    /// Definitions of columns, so many; then, of old servers, an EOF.
    Definitions(u32),
    Rows,
}

/// What a session did.
#[derive(Debug, Clone, Copy, Default)]
pub struct Done {
    /// Statements answered.
    pub queries: u64,
    /// Events that ended.
    pub events: u64,
    /// Answers that were errors (deadlocks, mostly).
    pub errors: u64,
}

/// A connection that waits for an answer or has something to send.
pub struct Session {
    statements: Statements,
    deprecates_eof: bool,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes of the current packet that have not arrived.
    missing: usize,
    /// The current packet is the last of the answer, and this is its first byte.
    last: Option<u8>,
    phase: Phase,
    is_last: bool,
    /// Counted here, by one thread.
    pub done: Done,
}

impl Session {
    /// A session at its beginning.
    pub fn new(statements: Statements, deprecates_eof: bool) -> Session {
        Session {
            statements,
            deprecates_eof,
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            missing: 0,
            last: None,
            phase: Phase::First,
            is_last: false,
            done: Done::default(),
        }
    }

    /// The bytes of the next statement.
    #[inline]
    pub fn command(&mut self) -> &[u8] {
        let (packet, is_last) = self.statements.draw();
        self.is_last = is_last;
        packet
    }

    /// Where received bytes go.
    #[inline]
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.buffer[self.end..]
    }

    /// Takes note of received bytes; true when the answer is complete.
    #[inline]
    pub fn received(&mut self, length: usize) -> bool {
        self.end += length;
        loop {
            let left = self.end - self.start;
            let taken = self.missing.min(left);
            self.missing -= taken;
            self.start += taken;
            if self.missing == 0
                && let Some(first) = self.last.take()
            {
                self.answered(first);
                return true;
            }
            // What is looked at of a packet: its header and its first byte.
            if left - taken < 5 {
                self.compact();
                return false;
            }
            let header = &self.buffer[self.start..];
            let length = u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize;
            let first = header[4];
            self.missing = length + 4;
            if self.ends(length, first) {
                self.last = Some(first);
            }
        }
    }

    /// Steps through the packets of an answer; true at its last one.
    #[inline]
    fn ends(&mut self, length: usize, first: u8) -> bool {
        match self.phase {
            Phase::First if matches!(first, 0 | 0xff) => return true,
            Phase::First => {
                let end = u32::from(!self.deprecates_eof);
                self.phase = Phase::Definitions(u32::from(first) + end);
            }
            Phase::Definitions(1) => self.phase = Phase::Rows,
            Phase::Definitions(count) => self.phase = Phase::Definitions(count - 1),
            Phase::Rows => return first == 0xff || first == 0xfe && length < 0xff_ffff,
        }
        false
    }

    #[inline]
    fn answered(&mut self, first: u8) {
        self.phase = Phase::First;
        self.compact();
        self.done.queries += 1;
        if first == 0xff {
            self.done.errors += 1;
            self.statements.restart();
        } else if self.is_last {
            self.done.events += 1;
        }
    }

    #[inline]
    fn compact(&mut self) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.buffer.len() - self.end < 4096 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
    }
}
