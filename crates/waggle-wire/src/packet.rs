//! Packets: the frames that every message travels in, read in place from one buffer.
//!
//! A frame is three bytes of length, one of sequence, and the payload; a payload of 16 MiB - 1
//! bytes or more continues in the next frame. Above sits the handshake and the commands, below
//! the [`Stream`]; sending and the buffers are here, `receive` is the other direction. Invariants:
//! a command leaves in one write while it is small (16 KiB), and is not copied whole when it is
//! not; memory never grows past the limit, and is given back when the large results are over.

mod receive;

use std::io;

use crate::Error;
use crate::stream::Stream;

pub(crate) use receive::{Lent, Open};

/// Payload length at which a packet continues in the next frame.
pub(crate) const FRAME_BYTES_MAX: usize = 0xff_ffff;
/// The server's own upper limit of `max_allowed_packet`, with room for a row's other columns.
const PACKET_BYTES_MAX: usize = (1 << 30) + (1 << 20);
/// Before the login no honest packet comes near this.
const LOGIN_PACKET_BYTES_MAX: usize = 1 << 18;
const HEADER_BYTES: usize = 4;
/// The receive buffer of a session with small results: many sessions share a machine.
const BUFFER_BYTES_MIN: usize = 16 << 10;
/// What it grows to when the server has more to say: fewer system calls per result.
const BUFFER_BYTES_MAX: usize = 64 << 10;
/// Commands in a row that would have done with the small buffer until it is the small one again:
/// long enough that growing costs nothing, short against a run.
const COMMANDS_UNTIL_SMALL: u32 = 1024;
/// A value that was put together from frames, or came in a frame above this, is memory that goes
/// back at the next command.
const VALUE_BYTES_KEPT: usize = 1 << 20;
/// Of a larger command only a beginning is copied behind its header.
const COPIED_BYTES_MAX: usize = 16 << 10;

/// What packets are read from and written to.
pub(crate) trait Transport {
    /// Receives at least one byte; the end is an error.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize>;
    /// Sends everything.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// A command begins: what is counted in an exchange starts again.
    fn begin_command(&mut self) {}
    /// Whether a layer below numbers its own frames and the last one came in turn. Servers then
    /// set the packets' numbers after those of the frames.
    fn is_numbered_below(&self) -> bool {
        false
    }
}

/// Both directions of a connection, in packets. It has no `Debug`: its buffers hold what users
/// send.
pub(crate) struct Channel<T = Stream> {
    pub(crate) transport: T,
    /// Received bytes; those in `start..end` are not consumed yet.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Commands since the buffer was filled past its smallest size.
    small_commands: u32,
    /// A packet put together from several frames.
    joined: Vec<u8>,
    /// The packet being written, after room for its header.
    out: Vec<u8>,
    sequence: u8,
    packet_bytes_max: usize,
    in_step: bool,
}

impl<T: Transport> Channel<T> {
    pub(crate) fn new(transport: T) -> Channel<T> {
        Channel {
            transport,
            buffer: vec![0; BUFFER_BYTES_MIN],
            start: 0,
            end: 0,
            small_commands: 0,
            joined: Vec::new(),
            out: Vec::new(),
            sequence: 0,
            packet_bytes_max: LOGIN_PACKET_BYTES_MAX,
            in_step: true,
        }
    }

    /// Lifts the limit on packets to what commands need, and forgets the login's last packet.
    pub(crate) fn logged_in(&mut self) {
        self.out.fill(0);
        self.packet_bytes_max = PACKET_BYTES_MAX;
    }

    /// Whether nothing was received that is not consumed.
    pub(crate) fn is_drained(&self) -> bool {
        self.start == self.end
    }

    /// False once an error came out of turn: what follows it cannot be told apart.
    pub(crate) fn is_in_step(&self) -> bool {
        self.in_step
    }

    /// Sends a command: the first packet of a new exchange.
    pub(crate) fn send_command(&mut self, command: u8, body: &[u8]) -> Result<(), Error> {
        self.begin_exchange();
        self.answer().push(command);
        let mut rest = body;
        loop {
            // The frame's payload: what is in `out` after the header, then the head of `rest`.
            let before = self.out.len() - HEADER_BYTES;
            let length = (before + rest.len()).min(FRAME_BYTES_MAX);
            let (frame, later) = rest.split_at(length - before);
            let (copied, direct) = frame.split_at(frame.len().min(COPIED_BYTES_MAX));
            self.out.extend_from_slice(copied);
            put_header(&mut self.out, length, self.sequence);
            self.sequence = self.sequence.wrapping_add(1);
            let mut sent = self.transport.send(&self.out);
            if sent.is_ok() && !direct.is_empty() {
                sent = self.transport.send(direct);
            }
            sent.map_err(|error| self.send_error(error))?;
            if length < FRAME_BYTES_MAX {
                return Ok(());
            }
            rest = later;
            self.answer();
        }
    }

    /// Sends a command that lies ready in one piece, with room for the header of a packet at its
    /// start; it must fit one frame.
    pub(crate) fn send_ready(&mut self, packet: &mut [u8]) -> Result<(), Error> {
        self.begin_exchange();
        put_header(packet, packet.len() - HEADER_BYTES, self.sequence);
        self.sequence = self.sequence.wrapping_add(1);
        let sent = self.transport.send(packet);
        sent.map_err(|error| self.send_error(error))
    }

    fn begin_exchange(&mut self) {
        self.sequence = 0;
        self.transport.begin_command();
        if self.buffer.len() > BUFFER_BYTES_MIN && self.start == self.end {
            self.small_commands += 1;
            if self.small_commands > COMMANDS_UNTIL_SMALL || self.buffer.len() > VALUE_BYTES_KEPT {
                self.buffer = vec![0; BUFFER_BYTES_MIN];
                (self.start, self.end) = (0, 0);
            }
        }
        self.release_joined();
    }

    fn release_joined(&mut self) {
        if self.joined.capacity() > VALUE_BYTES_KEPT {
            self.joined = Vec::new();
        }
    }

    /// Gives back what a large packet took, between two packets of one long answer.
    pub(crate) fn release(&mut self) {
        self.release_joined();
        if self.start == self.end && self.buffer.len() > VALUE_BYTES_KEPT {
            self.buffer = vec![0; BUFFER_BYTES_MAX];
            (self.start, self.end) = (0, 0);
        }
    }

    /// Starts the next packet of an exchange: append its payload to the returned buffer, and
    /// [`Channel::send`] it.
    pub(crate) fn answer(&mut self) -> &mut Vec<u8> {
        self.out.clear();
        self.out.extend_from_slice(&[0; HEADER_BYTES]);
        &mut self.out
    }

    /// Sends the packet that `answer` started; it must fit one frame.
    pub(crate) fn send(&mut self) -> Result<(), Error> {
        self.send_from(0, self.out.len() - HEADER_BYTES)
    }

    /// Sends `length` bytes of `out` that stand behind room for their header at `start`.
    fn send_from(&mut self, start: usize, length: usize) -> Result<(), Error> {
        let packet = &mut self.out[start..start + HEADER_BYTES + length];
        put_header(packet, length, self.sequence);
        self.sequence = self.sequence.wrapping_add(1);
        let sent = self.transport.send(packet);
        sent.map_err(|error| self.send_error(error))
    }

    /// Sends what `answer` started as packets of at most `bytes_max`, which must fit one frame.
    pub(crate) fn send_pieces(&mut self, bytes_max: usize) -> Result<(), Error> {
        // A header is written over bytes that have left.
        let mut start = 0;
        while self.out.len() - HEADER_BYTES - start > bytes_max {
            self.send_from(start, bytes_max)?;
            start += bytes_max;
        }
        self.send_from(start, self.out.len() - HEADER_BYTES - start)
    }

    fn send_error(&mut self, error: io::Error) -> Error {
        self.reason_for_closing(&error).unwrap_or(Error::Io(error))
    }

    /// A server that refuses a command (too large, session killed) may say so and close while
    /// the command is still on its way; its words are better than "broken pipe".
    fn reason_for_closing(&mut self, error: &io::Error) -> Option<Error> {
        self.in_step = false;
        if !matches!(
            error.kind(),
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
        ) {
            return None;
        }
        let packet = self.packet().ok()?;
        match packet.first() {
            Some(0xff) => crate::reply::server_error(packet).ok(),
            _ => None,
        }
    }
}

fn put_header(packet: &mut [u8], length: usize, sequence: u8) {
    let [a, b, c, _] = (length as u32).to_le_bytes();
    packet[..HEADER_BYTES].copy_from_slice(&[a, b, c, sequence]);
}

#[cfg(test)]
pub(crate) mod tests;
