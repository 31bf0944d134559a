//! Packets: the frames that every message travels in, read in place from one buffer.
//!
//! A frame is three bytes of length, one of sequence, and the payload; a payload of 16 MiB - 1
//! bytes or more continues in the next frame. Above sits the handshake and the commands, below
//! the [`Stream`]. Invariants: a command leaves in one write while it is small (16 KiB), and is
//! not copied whole when it is not; skipping a packet allocates nothing, whatever its size;
//! memory grows with what the server sent, not with what it announced, never past the limit,
//! and is given back when the large results are over.

use std::io;

use crate::Error;
use crate::stream::Stream;

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
    fn skip(&mut self) -> Result<(), Error> {
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

fn put_header(packet: &mut [u8], length: usize, sequence: u8) {
    let [a, b, c, _] = (length as u32).to_le_bytes();
    packet[..HEADER_BYTES].copy_from_slice(&[a, b, c, sequence]);
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bytes that arrive in pieces, and what was sent, by write.
    #[derive(Debug, Default)]
    pub(crate) struct Script {
        pub(crate) incoming: Vec<u8>,
        pub(crate) at: usize,
        pub(crate) piece_bytes: usize,
        pub(crate) writes: Vec<Vec<u8>>,
    }

    impl Transport for Script {
        fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            assert!(!buffer.is_empty());
            let left = &self.incoming[self.at..];
            let length = left.len().min(buffer.len()).min(self.piece_bytes);
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            buffer[..length].copy_from_slice(&left[..length]);
            self.at += length;
            Ok(length)
        }

        fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.writes.push(bytes.to_vec());
            Ok(())
        }
    }

    pub(crate) fn reading(incoming: Vec<u8>, piece_bytes: usize) -> Channel<Script> {
        Channel::new(Script {
            incoming,
            piece_bytes,
            ..Script::default()
        })
    }

    /// The payload in frames, as a server would send it.
    pub(crate) fn framed(payload: &[u8], sequence: &mut u8) -> Vec<u8> {
        let mut bytes = Vec::new();
        // A payload of whole frames ends with an empty one.
        for start in (0..=payload.len()).step_by(FRAME_BYTES_MAX) {
            let frame = &payload[start..payload.len().min(start + FRAME_BYTES_MAX)];
            bytes.extend_from_slice(&(frame.len() as u32).to_le_bytes()[..3]);
            bytes.push(*sequence);
            bytes.extend_from_slice(frame);
            *sequence = sequence.wrapping_add(1);
        }
        bytes
    }

    #[test]
    fn a_command_is_one_write() {
        let mut channel = Channel::new(Script::default());
        channel.send_command(3, b"SELECT 1").unwrap();
        assert_eq!(channel.transport.writes, [b"\x09\0\0\0\x03SELECT 1"]);
    }

    #[test]
    fn a_large_command_is_not_copied_whole() {
        let body: Vec<u8> = (0..40_000_000u32).map(|i| (i >> 12) as u8).collect();
        for length in [
            COPIED_BYTES_MAX,
            COPIED_BYTES_MAX + 1,
            FRAME_BYTES_MAX - 2,
            FRAME_BYTES_MAX - 1,
            FRAME_BYTES_MAX,
            body.len(),
        ] {
            let body = &body[..length];
            let mut channel = Channel::new(Script::default());
            channel.send_command(3, body).unwrap();
            let expected = framed(&[b"\x03", body].concat(), &mut 0);
            assert!(channel.transport.writes.concat() == expected, "{length}");
            assert!(channel.out.capacity() <= 4 * COPIED_BYTES_MAX);
        }
    }

    #[test]
    fn the_buffer_is_small_again_after_large_results() {
        let payload = vec![1; 1 << 17];
        let mut bytes = framed(&payload, &mut 1);
        for _ in 0..=COMMANDS_UNTIL_SMALL {
            bytes.extend(framed(b"small", &mut 1));
        }
        let mut channel = reading(bytes, 5000);
        channel.logged_in();
        channel.send_command(3, b"").unwrap();
        channel.sequence = 1;
        assert_eq!(channel.packet().unwrap().len(), payload.len());
        assert!(channel.buffer.len() > BUFFER_BYTES_MAX);
        channel.transport.piece_bytes = 9;
        for _ in 0..=COMMANDS_UNTIL_SMALL {
            channel.send_command(3, b"").unwrap();
            channel.sequence = 1;
            assert_eq!(channel.packet().unwrap(), b"small");
        }
        assert_eq!(channel.buffer.len(), BUFFER_BYTES_MIN);
    }

    #[test]
    fn large_packets_travel_in_several_frames() {
        for length in [
            FRAME_BYTES_MAX - 1,
            FRAME_BYTES_MAX,
            FRAME_BYTES_MAX + 1,
            40_000_000,
        ] {
            let mut payload = vec![7; length];
            payload
                .iter_mut()
                .step_by(1 << 16)
                .enumerate()
                .for_each(|(i, byte)| *byte = i as u8);
            let mut sequence = 255;
            let mut bytes = framed(&payload, &mut sequence);
            assert_eq!(bytes.len(), length + 4 * (length / FRAME_BYTES_MAX + 1));
            bytes.extend(framed(b"next", &mut sequence));
            for skips in [false, true] {
                let mut channel = reading(bytes.clone(), 1_000_003);
                channel.logged_in();
                channel.sequence = 255;
                if skips {
                    channel.skip_until(1, |_, _| false).unwrap();
                    let memory = (channel.buffer.len(), channel.joined.capacity());
                    assert_eq!(memory, (BUFFER_BYTES_MAX, 0));
                } else {
                    assert!(channel.packet().unwrap() == payload);
                }
                assert_eq!(channel.packet().unwrap(), b"next");
            }
        }
    }

    #[test]
    fn memory_is_given_back_after_a_large_value() {
        let mut sequence = 0;
        let mut channel = reading(framed(&vec![1; 20 << 20], &mut sequence), usize::MAX);
        channel.logged_in();
        channel.packet().unwrap();
        channel.send_command(1, b"").unwrap();
        let kept = channel.joined.capacity() + channel.buffer.capacity();
        assert!(kept <= BUFFER_BYTES_MAX, "{kept}");
    }

    #[test]
    fn a_packet_out_of_turn_is_refused_unless_it_is_an_error() {
        let mut channel = reading(b"\x01\0\0\x05\0".to_vec(), 100);
        assert!(matches!(channel.packet(), Err(Error::Protocol(_))));
        let mut channel = reading(b"\x09\0\0\x05\xff\xbf\x0f#HY000".to_vec(), 100);
        assert_eq!(channel.packet().unwrap()[0], 0xff);
        assert!(!channel.is_in_step());
    }

    #[test]
    fn a_huge_packet_before_the_login_is_refused() {
        let mut channel = reading(b"\xff\xff\xff\0abc".to_vec(), 100);
        let error = channel.packet().unwrap_err();
        assert!(error.to_string().contains("16777215 bytes"), "{error}");
        assert_eq!(channel.buffer.len(), BUFFER_BYTES_MIN);
    }

    proptest! {
        #[test]
        fn packets_read_back(payloads in proptest::collection::vec(
                                 proptest::collection::vec(any::<u8>(), 1..300), 0..20),
                             piece_bytes in 1usize..700, skipped in any::<u32>()) {
            let mut sequence = 0;
            let bytes: Vec<u8> = payloads.iter().flat_map(|p| framed(p, &mut sequence)).collect();
            let mut channel = reading(bytes, piece_bytes);
            for (i, payload) in payloads.iter().enumerate() {
                prop_assert_eq!(channel.peek().unwrap(), (payload.len(), payload[0]));
                if skipped & (1 << (i % 32)) != 0 {
                    prop_assert_eq!(channel.skip_until(1, |_, _| false).unwrap(), 1);
                } else {
                    prop_assert_eq!(channel.packet().unwrap(), &payload[..]);
                }
            }
            prop_assert!(matches!(channel.packet(), Err(Error::Io(_))));
        }

        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..200),
                                  piece_bytes in 1usize..50, ops in any::<u16>()) {
            let mut channel = reading(bytes, piece_bytes);
            for bit in 0..16 {
                let failed = match ops >> bit & 1 {
                    0 => channel.packet().is_err(),
                    _ => channel.peek().is_err() || channel.skip().is_err(),
                };
                if failed { break; }
            }
        }
    }
}
