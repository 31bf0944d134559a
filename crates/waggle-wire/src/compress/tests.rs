//! Frames against what a codec of the other side makes, and against damage.

use super::*;
use crate::packet::tests::Script;
use proptest::prelude::*;

const PACKED: [Compression; 2] = [Compression::Zlib, Compression::Zstd];

fn codec(compression: Compression) -> Codec {
    Codec::new(compression).unwrap().unwrap()
}

/// The frames of these data, one command.
fn frames(compression: Compression, data: &[&[u8]]) -> Vec<u8> {
    let (mut codec, mut script) = (codec(compression), Script::default());
    codec.begin_command();
    data.iter()
        .for_each(|data| codec.send(&mut script, data).unwrap());
    script.writes.concat()
}

fn reading(incoming: Vec<u8>, piece_bytes: usize) -> Script {
    Script {
        incoming,
        piece_bytes,
        ..Script::default()
    }
}

/// All that a script unpacks to, read in pieces, and why it ended.
fn unpacked(
    compression: Compression,
    script: &mut Script,
    buffer_bytes: usize,
) -> (Vec<u8>, io::Error) {
    let (mut codec, mut all) = (codec(compression), Vec::new());
    let mut buffer = vec![0; buffer_bytes];
    loop {
        match codec.receive(script, &mut buffer) {
            Ok(length) => {
                assert!(length > 0);
                all.extend_from_slice(&buffer[..length]);
            }
            Err(error) => return (all, error),
        }
    }
}

/// A frame of this data, packed or not, announced as it is said.
fn frame(sequence: u8, packed: &[u8], announced: u32) -> Vec<u8> {
    let [a, b, c, _] = (packed.len() as u32).to_le_bytes();
    let [d, e, f, _] = announced.to_le_bytes();
    [&[a, b, c, sequence, d, e, f], packed].concat()
}

fn packed(compression: Compression, data: &[u8]) -> Vec<u8> {
    let mut out = vec![0; HEADER_BYTES];
    assert!(codec(compression).algorithm.pack(data, &mut out));
    out.split_off(HEADER_BYTES)
}

#[test]
fn short_data_goes_as_it_is() {
    for compression in PACKED {
        let sent = frames(compression, &[b"\x01\0\0\0\x0e"]);
        assert_eq!(sent, b"\x05\0\0\0\0\0\0\x01\0\0\0\x0e");
        let sent = frames(compression, &[&[7; 50]]);
        assert!(sent.len() < HEADER_BYTES + 50 && sent[4..7] == [50, 0, 0]);
        // What does not get shorter goes as it is too.
        let data: Vec<u8> = (0..=255).collect();
        assert_eq!(frames(compression, &[&data])[4..7], [0, 0, 0]);
    }
}

#[test]
fn long_data_travels_in_several_frames_counted_from_the_command() {
    let data: Vec<u8> = (0..5 * FRAME_BYTES_MAX / 2)
        .map(|i| (i / 999) as u8)
        .collect();
    for compression in PACKED {
        let (mut sender, mut script) = (codec(compression), Script::default());
        for _ in 0..2 {
            sender.begin_command();
            script.writes.clear();
            sender.send(&mut script, &data).unwrap();
            let numbers: Vec<u8> = script.writes.iter().map(|frame| frame[3]).collect();
            assert_eq!(numbers, [0, 1, 2]);
        }
        let mut script = reading(script.writes.concat(), usize::MAX);
        let (all, error) = unpacked(compression, &mut script, 100_000);
        assert!(all == data);
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}

#[test]
fn a_frame_out_of_turn_is_told() {
    let mut script = reading([frame(0, b"x", 0), frame(2, b"y", 0)].concat(), usize::MAX);
    let mut codec = codec(Compression::Zlib);
    codec.receive(&mut script, &mut [0; 9]).unwrap();
    assert!(codec.is_in_turn());
    codec.receive(&mut script, &mut [0; 9]).unwrap();
    assert!(!codec.is_in_turn());
}

#[test]
fn a_frame_that_is_not_what_it_announces_is_refused() {
    let data = [5; 1000];
    for compression in PACKED {
        let packed = packed(compression, &data);
        let cut = &packed[..packed.len() - 1];
        let longer = [&packed[..], b"surplus"].concat();
        for (bytes, announced, what) in [
            (&packed[..], 999, "more data than it announced"),
            (&packed[..], 0xff_ffff, "ends early"),
            (&longer[..], 1000, "ends early"),
            (cut, 1000, "ends early"),
            (&data[..], 1000, ""),
            (b"", 0, "empty"),
            (b"", 7, "empty"),
        ] {
            // What follows must not be taken for a part of it.
            let incoming = [frame(0, bytes, announced), frame(1, b"next", 0)].concat();
            let (all, error) = unpacked(compression, &mut reading(incoming, 11), 64);
            assert_eq!(
                error.kind(),
                io::ErrorKind::InvalidData,
                "{compression} {what}"
            );
            assert!(
                error.to_string().contains(what),
                "{compression} {what}: {error}"
            );
            assert!(all.len() <= 1000);
        }
    }
}

#[test]
fn a_huge_announcement_allocates_nothing() {
    for compression in PACKED {
        let packed = packed(compression, &[0; 16_000_000]);
        assert!(packed.len() < 20_000, "{}", packed.len());
        let mut codec = codec(compression);
        let mut script = reading(frame(0, &packed, 16_000_000), usize::MAX);
        let (mut buffer, mut length) = ([1; 4096], 0);
        while length < 16_000_000 {
            length += codec.receive(&mut script, &mut buffer).unwrap();
        }
        assert_eq!(length, 16_000_000);
        assert_eq!(codec.incoming.len(), INCOMING_BYTES);
    }
    // A window of 2 GiB, as a zstd frame may ask for.
    let frame = frame(0, b"\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00", 100);
    let (_, error) = unpacked(Compression::Zstd, &mut reading(frame, 99), 64);
    assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
    assert!(error.to_string().contains("memory"), "{error}");
}

proptest! {
    #[test]
    fn data_reads_back(
        data in proptest::collection::vec(
            (any::<u8>(), proptest::collection::vec(any::<u8>(), 1..4), 1usize..3000), 0..6),
        piece_bytes in 1usize..700, buffer_bytes in 1usize..5000,
        compression in proptest::sample::select(&PACKED[..]),
    ) {
        let data: Vec<Vec<u8>> = data
            .into_iter()
            .map(|(first, pattern, times)| [vec![first], pattern.repeat(times)].concat())
            .collect();
        let slices: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let incoming = frames(compression, &slices);
        let (all, error) = unpacked(compression, &mut reading(incoming, piece_bytes), buffer_bytes);
        prop_assert_eq!(all, data.concat());
        prop_assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn any_bytes_are_answered(
        bytes in proptest::collection::vec(any::<u8>(), 0..200), length in 0u8..60,
        announced in 0u32..0x100_0000, piece_bytes in 1usize..50,
        compression in proptest::sample::select(&PACKED[..]),
    ) {
        let header = &frame(0, &[], announced)[3..];
        let incoming = [&[length, 0, 0], header, &bytes].concat();
        let _ = unpacked(compression, &mut reading(incoming, piece_bytes), 64);
    }

    #[test]
    fn damaged_frames_are_answered(
        at in any::<prop::sample::Index>(), byte in any::<u8>(),
        compression in proptest::sample::select(&PACKED[..]),
    ) {
        let mut incoming = frames(compression, &[b"abcdefghij".repeat(30).as_slice()]);
        let at = at.index(incoming.len());
        incoming[at] = byte;
        let (all, _) = unpacked(compression, &mut reading(incoming, 40), 64);
        prop_assert!(all.len() <= 0xff_ffff);
    }
}
