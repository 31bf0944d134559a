//! Bytes in order whatever the order of their segments.

use super::*;

fn collect(
    stream: &mut Stream,
    feed: impl FnOnce(&mut Stream, &mut dyn FnMut(Piece<'_>)),
) -> String {
    let mut seen = String::new();
    feed(stream, &mut |piece| match piece {
        Piece::Bytes(bytes) => seen += &String::from_utf8_lossy(bytes),
        Piece::Gap(bytes) => seen += &format!("[{bytes}]"),
    });
    seen
}

#[test]
fn holes_are_waited_for_until_the_peer_has_what_was_in_them() {
    let mut stream = Stream::default();
    stream.start(u32::MAX - 1);
    let seen = collect(&mut stream, |s, each| {
        s.segment(u32::MAX - 1, b"ab", each);
        s.segment(2, b"ef", each);
        s.segment(2, b"efg", each);
        s.segment(0, b"cd", each);
        s.segment(u32::MAX, b"bcdefgh", each);
        s.segment(9, b"l", each);
    });
    assert_eq!(seen, "abcdefgh");
    let seen = collect(&mut stream, |s, each| s.acknowledged(6, each));
    assert_eq!(seen, "");
    let seen = collect(&mut stream, |s, each| s.acknowledged(12, each));
    assert_eq!(seen, "[3]l[2]");
    let seen = collect(&mut stream, |s, each| s.segment(6, b"ijklmno", each));
    assert_eq!(seen, "o", "what was given up does not come again");
    assert_eq!(stream.held_bytes, 0);
}

#[test]
fn what_waits_is_bounded_and_given_in_the_end() {
    let mut stream = Stream::default();
    stream.start(0);
    for number in 0..10_000_u32 {
        stream.segment(10 + number * 10, b"x", &mut |_| ());
        assert!(stream.held.len() <= HELD_MAX && stream.held_bytes <= HELD_BYTES_MAX);
    }
    let mut stream = Stream::default();
    stream.start(0);
    let large = vec![b'x'; 100 << 10];
    for number in 0..10_u32 {
        stream.segment(10 + number * (100 << 10), &large, &mut |_| ());
        assert!(stream.held_bytes <= HELD_BYTES_MAX);
    }
    stream.start(0);
    let seen = collect(&mut stream, |s, each| {
        s.segment(5, b"tail", each);
        s.finish(each);
    });
    assert_eq!(seen, "[5]tail");
}
