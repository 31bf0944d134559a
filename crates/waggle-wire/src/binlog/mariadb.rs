//! MariaDB's compressed events and values, unpacked into what they stand for.
//!
//! Each event has its beginning plain and its statement or rows in zlib; a value of a column that
//! is COMPRESSED is in the log as it is stored. Neighbours: [`event`](crate::binlog::event) and
//! [`rows`](crate::binlog::rows) read what comes out, [`value`](crate::binlog::value) unpacks
//! values.
//! Invariant: what does not unpack to the length that it says is an error, and that length
//! allocates nothing.

use flate2::{Decompress, FlushDecompress, Status};

use crate::Error;
use crate::binlog::event::kind;
use crate::binlog::table_map;
use crate::cursor::Cursor;

const PIECE_BYTES: usize = 64 << 10;

/// The kind of event that one of kind `event` unpacks to, if it is one that MariaDB compresses.
pub fn plain_kind(event: u8) -> Option<u8> {
    match event {
        kind::QUERY_COMPRESSED => Some(kind::QUERY),
        kind::WRITE_ROWS_COMPRESSED_V1 => Some(kind::WRITE_ROWS_V1),
        kind::UPDATE_ROWS_COMPRESSED_V1 => Some(kind::UPDATE_ROWS_V1),
        kind::DELETE_ROWS_COMPRESSED_V1 => Some(kind::DELETE_ROWS_V1),
        _ => None,
    }
}

/// Unpacks the body of an event of kind `event` into `out`, in place of what was there. Gives the
/// kind of what it unpacked to; `None`, and an empty `out`, when MariaDB compresses no such event.
///
/// # Errors
/// [`Error::Protocol`] when it does not unpack.
pub fn unpack(event: u8, body: &[u8], out: &mut Vec<u8>) -> Result<Option<u8>, Error> {
    out.clear();
    let Some(plain) = plain_kind(event) else {
        return Ok(None);
    };
    let mut cursor = Cursor::new(body, "compressed event");
    match plain {
        kind::QUERY => {
            cursor.bytes(8)?; // session, execution time
            let schema = cursor.u8()?;
            cursor.u16()?; // error
            let variables = cursor.u16()?;
            cursor.bytes(usize::from(variables) + usize::from(schema) + 1)?;
        }
        _ => {
            table_map::id(&mut cursor)?;
            cursor.u16()?; // flags
            let columns = cursor.integer()?;
            let bitmaps = if plain == kind::UPDATE_ROWS_V1 { 2 } else { 1 };
            let bytes = columns.div_ceil(8).saturating_mul(bitmaps);
            cursor.bytes(usize::try_from(bytes).unwrap_or(usize::MAX))?;
        }
    }
    let packed = cursor.rest();
    out.extend_from_slice(&body[..body.len() - packed.len()]);
    inflate(packed, out)?;
    Ok(Some(plain))
}

/// Appends the value of a COMPRESSED column: nothing, or a byte that says how it is packed, and
/// the data.
pub(crate) fn unpack_value(packed: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    const NOT_PACKED: u8 = 0;
    const ZLIB: u8 = 8;
    /// The data has no header of zlib's.
    const RAW: u8 = 8;
    let Some((head, data)) = packed.split_first() else {
        return Ok(());
    };
    let mut cursor = Cursor::new(data, "compressed value");
    match head >> 4 {
        NOT_PACKED => out.extend_from_slice(data),
        ZLIB => {
            let length = big_endian(cursor.bytes((head & 7).into())?);
            let engine = Decompress::new(head & RAW == 0);
            inflate_data(engine, length, &cursor, out)?;
        }
        _ => return Err(cursor.error("its compression is not zlib")),
    }
    Ok(())
}

/// Appends what `packed` holds: a byte of algorithm and length of length, the length (highest
/// byte first), the data.
fn inflate(packed: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let mut cursor = Cursor::new(packed, "compressed event");
    let head = cursor.u8()?;
    if head & 0x70 != 0 {
        return Err(cursor.error("its compression is not zlib"));
    }
    let length = big_endian(cursor.bytes((head & 7).into())?);
    inflate_data(Decompress::new(true), length, &cursor, out)
}

fn big_endian(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Appends what the rest of `cursor` unpacks to, which has to be of `length`.
fn inflate_data(
    mut engine: Decompress,
    length: u64,
    cursor: &Cursor<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let data = cursor.clone().rest();
    let damaged = || cursor.error("its data is damaged");
    loop {
        let (used, made) = (engine.total_in(), engine.total_out());
        let before = out.len();
        // With what comes, not with what is announced; one byte more shows what is too long.
        let left = (length - made).saturating_add(1).min(PIECE_BYTES as u64);
        out.resize(before + left as usize, 0);
        let rest = &data[used as usize..];
        let status = engine.decompress(rest, &mut out[before..], FlushDecompress::None);
        let status = status.map_err(|_| damaged())?;
        let more = engine.total_out() - made;
        out.truncate(before + more as usize);
        let is_stuck = engine.total_in() == used && more == 0;
        match status {
            Status::StreamEnd if made + more == length => return Ok(()),
            Status::StreamEnd => return Err(damaged()),
            _ if made + more > length || is_stuck => return Err(damaged()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    /// A compressed block.
    fn packed(data: &[u8], length: u32) -> Vec<u8> {
        let mut block = vec![0x84];
        block.extend_from_slice(&length.to_be_bytes());
        let mut encoder = flate2::write::ZlibEncoder::new(block, flate2::Compression::new(6));
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    const HEAD: &[u8] = b"\x07\0\0\0\0\0\x01\0\x02\x03\x03";

    fn update(data: &[u8], length: usize) -> Vec<u8> {
        [HEAD, &packed(data, length as u32)].concat()
    }

    #[test]
    fn rows_and_statements_unpack() {
        let data = vec![b'r'; 200_000];
        let mut out = b"old".to_vec();
        let body = update(&data, data.len());
        let kind = unpack(kind::UPDATE_ROWS_COMPRESSED_V1, &body, &mut out).unwrap();
        assert_eq!(kind, Some(kind::UPDATE_ROWS_V1));
        assert_eq!(out, [HEAD, &data].concat());
        let head = b"\x05\0\0\0\0\0\0\0\x02\0\0\x03\0vardb\0";
        let body = [&head[..], &packed(b"INSERT", 6)].concat();
        let kind = unpack(kind::QUERY_COMPRESSED, &body, &mut out).unwrap();
        assert_eq!(kind, Some(kind::QUERY));
        assert_eq!(out, [&head[..], b"INSERT"].concat());
        assert_eq!(unpack(kind::XID, &body, &mut out).unwrap(), None);
        assert!(out.is_empty());
    }

    #[test]
    fn another_length_than_announced_is_an_error() {
        let data = vec![b'r'; 200_000];
        let mut out = Vec::new();
        for length in [0, 1, data.len() - 1, data.len() + 1, u32::MAX as usize] {
            let body = update(&data, length);
            assert!(unpack(kind::UPDATE_ROWS_COMPRESSED_V1, &body, &mut out).is_err());
        }
        let body = update(&data, data.len());
        for length in 0..body.len() {
            let body = &body[..length];
            assert!(unpack(kind::UPDATE_ROWS_COMPRESSED_V1, body, &mut out).is_err());
        }
    }

    /// A value as MariaDB stores it: `wrap` is `column_compression_zlib_wrap`.
    fn packed_value(data: &[u8], wrap: bool, length: u32) -> Vec<u8> {
        let mut value = vec![if wrap { 0x84 } else { 0x8c }];
        value.extend_from_slice(&length.to_be_bytes());
        let mut engine = flate2::Compress::new(flate2::Compression::new(6), wrap);
        value.reserve(data.len() + 100);
        let finish = flate2::FlushCompress::Finish;
        engine.compress_vec(data, &mut value, finish).unwrap();
        value
    }

    #[test]
    fn values_unpack_whole_or_not_at_all() {
        let data = vec![b'v'; 100_000];
        let unpacked = |packed: &[u8]| {
            let mut out = Vec::new();
            unpack_value(packed, &mut out).map(|()| out)
        };
        assert_eq!(unpacked(b"").unwrap(), b"");
        assert_eq!(unpacked(b"\0short").unwrap(), b"short");
        for wrap in [true, false] {
            let packed = packed_value(&data, wrap, 100_000);
            assert_eq!(unpacked(&packed).unwrap(), data);
            for length in 1..packed.len() {
                assert!(unpacked(&packed[..length]).is_err(), "{length}");
            }
            for length in [0, 99_999, 100_001, u32::MAX] {
                assert!(unpacked(&packed_value(&data, wrap, length)).is_err());
            }
        }
        assert!(unpacked(b"\x90abc").is_err());
    }

    proptest! {
        #[test]
        fn damaged_values_are_answered(at in any::<usize>(), byte in any::<u8>(),
                                       wrap in any::<bool>()) {
            let mut packed = packed_value(&[b'v'; 5000], wrap, 5000);
            let length = packed.len();
            packed[at % length] = byte;
            let mut out = Vec::new();
            let _ = unpack_value(&packed, &mut out);
            prop_assert!(out.len() <= 2 * PIECE_BYTES);
        }

        #[test]
        fn damaged_events_are_answered(at in any::<usize>(), byte in any::<u8>(),
                                       kind in 165u8..170) {
            let mut body = update(&[b'r'; 5000], 5000);
            let length = body.len();
            body[at % length] = byte;
            let mut out = Vec::new();
            let _ = unpack(kind, &body, &mut out);
            prop_assert!(out.len() <= 2 * PIECE_BYTES);
        }
    }
}
