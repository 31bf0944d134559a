//! Packets as clients and servers send them, and any bytes at all.

use proptest::prelude::*;

use super::*;
use crate::handshake::{put_answer, put_beginning};
use crate::{Compression, Dsn};

#[test]
fn reads_the_login_that_this_crate_sends() {
    let dsn: Dsn = "mysql://me:secret@h/db".parse().unwrap();
    let flags = PROTOCOL_41 | SECURE_CONNECTION | CONNECT_WITH_DB | PLUGIN_AUTH | CONNECT_ATTRS;
    let mut packet = Vec::new();
    put_answer(
        &mut packet,
        flags | LONG_PASSWORD,
        &dsn,
        "plug",
        b"proof\0of\0it",
    );
    let seen = login(&packet).unwrap();
    assert_eq!(
        (seen.user, seen.database, seen.charset),
        (&b"me"[..], &b"db"[..], 45)
    );
    assert!(!seen.is_tls_request);
    let all: Vec<_> = attributes(seen.attributes).collect();
    assert_eq!(all[0], (&b"_client_name"[..], &b"waggle"[..]));

    let mut packet = Vec::new();
    put_beginning(&mut packet, flags | handshake::SSL);
    let seen = login(&packet).unwrap();
    assert!(seen.is_tls_request);
    assert_eq!(seen.capabilities & CACHE_METADATA, CACHE_METADATA);
}

#[test]
fn query_attributes_are_stepped_over() {
    assert_eq!(query_text_at(b"\0\x01SELECT 1").unwrap(), 2);
    // Two: a NULL, and `a` = 'xyz' (VAR_STRING).
    let body = b"\x02\x01\x01\x01\xfd\0\x01n\xfd\0\x01a\x03xyzSELECT 1";
    assert_eq!(&body[query_text_at(body).unwrap()..], b"SELECT 1");
    assert!(query_text_at(b"\x02\x01\x01\x01\xfd\0\x01n\xfd\0\x01a\x09xyz").is_err());
    assert!(query_text_at(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01").is_err());
}

#[test]
fn an_ok_tells_the_new_database() {
    let packet = b"\0\0\0\x02\x40\0\0\0\x05\x01\x03\x02dbX";
    assert_eq!(new_database(packet), Some(&b"db"[..]));
    assert_eq!(new_database(b"\0\0\0\x02\0\0\0"), None);
}

#[test]
fn reads_answers_to_a_preparation() {
    let seen = prepare_answer(b"\0\x07\0\0\0\x02\0\x01\0\0\x03\0", false).unwrap();
    assert_eq!(
        (seen.statement, seen.columns, seen.params, seen.warnings),
        (7, 2, 1, 3)
    );
    assert!(seen.are_defined);
    let seen = prepare_answer(b"\0\x07\0\0\0\x02\0\x01\0\0\x03\0\0", true).unwrap();
    assert!(!seen.are_defined);
}

/// One frame that holds `data` packed.
fn frame(compression: Compression, data: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let packed = match compression {
        Compression::Off => data.to_vec(),
        Compression::Zlib => {
            let level = flate2::Compression::fast();
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
            encoder.write_all(data).unwrap();
            encoder.finish().unwrap()
        }
        Compression::Zstd => zstd::bulk::compress(data, 3).unwrap(),
    };
    let announced = if compression == Compression::Off {
        0
    } else {
        data.len()
    };
    let mut out = (packed.len() as u32).to_le_bytes()[..3].to_vec();
    out.push(0);
    out.extend_from_slice(&(announced as u32).to_le_bytes()[..3]);
    out.extend(packed);
    out
}

#[test]
fn frames_unpack_however_they_are_cut() {
    let data: Vec<u8> = (0..100_000_u32)
        .flat_map(|n| (n / 7).to_le_bytes())
        .collect();
    for compression in [Compression::Zlib, Compression::Zstd] {
        let mut bytes = frame(compression, &data);
        bytes.extend(frame(Compression::Off, b"plain"));
        bytes.extend(frame(compression, b"again again again"));
        for size in [1, 3, 1000, bytes.len()] {
            let mut engines = Engines::default();
            let mut unpacker = Unpacker::new(compression);
            let mut seen = Vec::new();
            for cut in bytes.chunks(size) {
                let mut each = |piece: &[u8]| seen.extend_from_slice(piece);
                unpacker.push(cut, &mut engines, &mut each).unwrap();
            }
            assert_eq!(seen, [&data[..], b"plain", b"again again again"].concat());
            assert_eq!(engines.lent(), 0, "every engine is given back");
        }
    }
}

#[test]
fn damaged_frames_are_errors_and_give_their_engine_back() {
    let mut engines = Engines::default();
    for compression in [Compression::Zlib, Compression::Zstd] {
        let whole = frame(compression, &[7; 5000]);
        let mut less = whole.clone();
        less[4] -= 1;
        let mut more = whole.clone();
        more[4] += 1;
        for bytes in [less, more, b"\0\0\0\0\0\0\0".to_vec()] {
            let mut unpacker = Unpacker::new(compression);
            assert!(unpacker.push(&bytes, &mut engines, &mut |_| ()).is_err());
            unpacker.restart(&mut engines);
        }
    }
    assert_eq!(engines.lent(), 0);
}

proptest! {
    #[test]
    fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        let _ = (opening(&bytes).is_ok(), login(&bytes).is_ok(), change_user(&bytes).is_ok());
        let _ = (query_text_at(&bytes).is_ok(), new_database(&bytes).is_some());
        let _ = (prepare_answer(&bytes, true).is_ok(), attributes(&bytes).count());
        let mut engines = Engines::default();
        for compression in [Compression::Zlib, Compression::Zstd] {
            let mut unpacker = Unpacker::new(compression);
            let _ = unpacker.push(&bytes, &mut engines, &mut |_| ());
            unpacker.restart(&mut engines);
        }
        prop_assert_eq!(engines.lent(), 0);
    }
}
