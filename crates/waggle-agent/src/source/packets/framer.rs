//! One direction's bytes, cut into the protocol's packets.
//!
//! Sessions feed it whatever pieces TCP (or a compressed frame) gave. A packet that lies whole in a
//! piece is not copied; of others the beginning is kept, as much as was asked for. Invariant: time
//! is linear in the bytes, memory is bounded by `keep`, whatever lengths are announced.

/// Payload length at which a packet continues in the next frame.
pub(super) const FRAME_BYTES_MAX: usize = 0xff_ffff;
/// A larger buffer is given back between packets.
const KEPT_BYTES_IDLE: usize = 8 << 10;

/// A packet that has come to its end.
#[derive(Clone, Copy)]
pub(super) struct Packet<'a> {
    /// Its beginning, often all of it.
    pub(super) head: &'a [u8],
    /// All its bytes, without headers.
    pub(super) length: usize,
    /// Number of its first frame, and of its last.
    pub(super) sequences: (u8, u8),
}

impl Packet<'_> {
    /// Its first byte; 0 if it is empty.
    pub(super) fn first(&self) -> u8 {
        self.head.first().copied().unwrap_or_default()
    }

    /// Some of it is not in `head`.
    pub(super) fn is_cut(&self) -> bool {
        self.head.len() < self.length
    }

    /// With the headers of its frames.
    pub(super) fn wire_bytes(&self) -> u64 {
        (self.length + 4 * (self.length / FRAME_BYTES_MAX + 1)) as u64
    }
}

/// No `Debug`: it holds what users send.
#[derive(Default)]
pub(super) struct Framer {
    header: [u8; 4],
    header_length: usize,
    /// Behind a header, before the end of its frame.
    in_frame: bool,
    /// Of the frame.
    left: usize,
    is_full_frame: bool,
    /// The packet goes on in the next frame.
    continues: bool,
    length: usize,
    first_sequence: u8,
    kept: Vec<u8>,
    /// Bytes are missing in the packet: `kept` may not grow.
    is_closed: bool,
}

fn length_of(header: [u8; 4]) -> usize {
    u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize
}

impl Framer {
    /// The next packet of `input`, which it consumes; `None` when that is used up. At most `keep`
    /// bytes are kept of a packet in pieces.
    pub(super) fn next<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
        keep: usize,
    ) -> Option<Packet<'a>> {
        if self.is_between()
            && let Some((header, rest)) = input.split_first_chunk::<4>()
        {
            let length = length_of(*header);
            if length < FRAME_BYTES_MAX && length <= rest.len() {
                let (head, later) = rest.split_at(length);
                *input = later;
                return Some(Packet {
                    head,
                    length,
                    sequences: (header[3], header[3]),
                });
            }
        }
        self.next_in_pieces(input, keep)
    }

    fn next_in_pieces<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
        keep: usize,
    ) -> Option<Packet<'a>> {
        loop {
            if !self.in_frame && !self.begin_frame(input) {
                return None;
            }
            let (taken, later) = input.split_at(self.left.min(input.len()));
            if !self.is_closed {
                let room = keep.saturating_sub(self.kept.len());
                self.kept.extend_from_slice(&taken[..taken.len().min(room)]);
            }
            *input = later;
            self.length += taken.len();
            self.left -= taken.len();
            if self.left > 0 {
                return None;
            }
            self.in_frame = false;
            self.continues = self.is_full_frame;
            if !self.continues {
                return Some(Packet {
                    head: &self.kept,
                    length: self.length,
                    sequences: (self.first_sequence, self.header[3]),
                });
            }
        }
    }

    /// Reads a header; false if it is not all there.
    fn begin_frame(&mut self, input: &mut &[u8]) -> bool {
        let (taken, later) = input.split_at(input.len().min(4 - self.header_length));
        self.header[self.header_length..][..taken.len()].copy_from_slice(taken);
        *input = later;
        self.header_length += taken.len();
        if self.header_length < 4 {
            return false;
        }
        self.header_length = 0;
        self.left = length_of(self.header);
        self.is_full_frame = self.left == FRAME_BYTES_MAX;
        self.in_frame = true;
        if !self.continues {
            self.first_sequence = self.header[3];
            self.length = 0;
            self.is_closed = false;
            self.kept.clear();
        }
        true
    }

    /// Consumes packets that lie whole in `input`, are numbered in turn after `sequence`, and are
    /// none that `ends` knows by length and first byte. Gives how many, and their bytes.
    pub(super) fn skip(
        &mut self,
        input: &mut &[u8],
        sequence: &mut Option<u8>,
        ends: impl Fn(usize, u8) -> bool,
    ) -> (u64, u64) {
        let (mut count, before) = (0, input.len());
        if !self.is_between() {
            return (0, 0);
        }
        while let Some(&[a, b, c, number, first]) = input.first_chunk() {
            let length = length_of([a, b, c, 0]);
            if matches!(length, 0 | FRAME_BYTES_MAX)
                || sequence.is_some_and(|due| due != number)
                || ends(length, first)
            {
                break;
            }
            let Some(rest) = input.get(4 + length..) else {
                break;
            };
            *input = rest;
            *sequence = sequence.map(|due| due.wrapping_add(1));
            count += 1;
        }
        (count, (before - input.len()) as u64)
    }

    /// Takes note of `gap` bytes that were never seen. False if the next packet cannot be found
    /// behind them.
    pub(super) fn absorb(&mut self, gap: usize) -> bool {
        // The first byte tells what a packet is.
        if !self.in_frame || gap > self.left || (self.length == 0 && self.kept.is_empty()) {
            return false;
        }
        self.is_closed = true;
        self.left -= gap;
        self.length += gap;
        true
    }

    /// Gives back what a large packet took.
    pub(super) fn trim(&mut self) {
        if self.is_between() && self.kept.capacity() > KEPT_BYTES_IDLE {
            self.kept = Vec::new();
        }
    }

    /// What it holds, bytes.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.kept.capacity()
    }

    /// Between two packets, with nothing of the next.
    pub(super) fn is_between(&self) -> bool {
        !self.in_frame && self.header_length == 0 && !self.continues
    }

    /// Bytes that are missing of the frame that has begun.
    pub(super) fn left(&self) -> usize {
        if self.in_frame { self.left } else { 0 }
    }

    /// Bytes of the packet that has begun.
    pub(super) fn begun(&self) -> usize {
        if self.in_frame || self.continues {
            self.length + 4
        } else {
            self.header_length
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(sequence: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = (payload.len() as u32).to_le_bytes()[..3].to_vec();
        out.push(sequence);
        out.extend(payload);
        out
    }

    #[test]
    fn packets_are_the_same_however_they_are_cut() {
        let large = vec![7; FRAME_BYTES_MAX];
        let mut bytes = frame(0, b"\x03one");
        bytes.extend(frame(0, b""));
        bytes.extend(frame(0, &large));
        bytes.extend(frame(1, b"rest"));
        bytes.extend(frame(0, &large));
        bytes.extend(frame(1, b""));
        bytes.extend(frame(5, &[9; 100]));
        let length = FRAME_BYTES_MAX;
        let expected = [
            (4, (0, 0), b"\x03one".to_vec()),
            (0, (0, 0), vec![]),
            (length + 4, (0, 1), vec![7; 10]),
            (length, (0, 1), vec![7; 10]),
            (100, (5, 5), vec![9; 10]),
        ];
        for size in [1 << 20, 70_001, bytes.len()] {
            let mut framer = Framer::default();
            let mut seen = Vec::new();
            for mut piece in bytes.chunks(size) {
                while let Some(packet) = framer.next(&mut piece, 10) {
                    let head = packet.head[..packet.head.len().min(10)].to_vec();
                    seen.push((packet.length, packet.sequences, head));
                }
            }
            assert_eq!(seen, expected, "pieces of {size}");
        }
    }

    #[test]
    fn a_gap_within_a_packet_cuts_it_and_no_other() {
        let bytes = frame(1, &[7; 100]);
        let mut framer = Framer::default();
        let mut piece = &bytes[..24];
        assert!(framer.next(&mut piece, 50).is_none());
        assert!(framer.absorb(70));
        let mut piece = &bytes[94..];
        let packet = framer.next(&mut piece, 50).unwrap();
        assert_eq!((packet.head, packet.length), (&[7; 20][..], 100));
        assert!(packet.is_cut());
        assert!(!framer.absorb(1), "no packet is known to be there");
    }
}
