//! Packets that arrive in pieces, out of turn, and larger than a frame.

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
