//! Is this piece of a client's bytes the beginning of a command?
//!
//! A session asks that is out of step. Clients send a command in one write, so that it begins a
//! segment; what does not look like whole commands from its first byte to its last is not taken
//! for one. Invariant: a replication stream, TLS, MySQL's X protocol and pieces of texts are told
//! apart, if not here then by the number of the answer's first packet.

use waggle_wire::Compression;

use super::command::Code;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Plain,
    /// In frames that may be compressed.
    Packed,
    Tls,
    Unknown,
}

/// The least segment that a large command is cut into.
const SEGMENT_BYTES_MIN: usize = 500;
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// What `bytes` look like; `is_packed` if it is known whether the session is compressed.
pub(super) fn shape(bytes: &[u8], is_packed: Option<bool>) -> Shape {
    if matches!(bytes, [0x17, 3, 1..=4, ..]) {
        return Shape::Tls;
    }
    if is_packed != Some(true) && are_commands(bytes) {
        return Shape::Plain;
    }
    match is_packed {
        Some(false) => Shape::Unknown,
        _ if is_packed_command(bytes) => Shape::Packed,
        _ => Shape::Unknown,
    }
}

fn u24(bytes: [u8; 3]) -> usize {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]) as usize
}

fn are_commands(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while let Some(&[a, b, c, sequence, code]) = rest.first_chunk() {
        let length = u24([a, b, c]);
        let is_whole = rest.len() >= 4 + length;
        let body = &rest[5..rest.len().min(4 + length).max(5)];
        if sequence != 0 || length == 0 || !is_plausible(Code(code), length, body) {
            return false;
        }
        if !is_whole {
            return bytes.len() >= SEGMENT_BYTES_MIN;
        }
        rest = &rest[4 + length..];
    }
    rest.is_empty() && !bytes.is_empty()
}

fn is_plausible(code: Code, length: usize, body: &[u8]) -> bool {
    match code {
        Code::QUIT | Code::PING | Code::STATISTICS | Code::RESET_CONNECTION => length == 1,
        Code::CLOSE | Code::RESET => length == 5,
        Code::FETCH => length == 9,
        // Id, flags, and the count of executions, which is 1.
        Code::EXECUTE => body.get(5..9) == Some(&[1, 0, 0, 0]),
        Code::QUERY | Code::PREPARE => {
            length > 1 && body.first().is_some_and(|&first| first < 0x80)
        }
        Code::INIT_DB => length > 1 && length < 1024,
        Code::BULK_EXECUTE | Code::SEND_LONG_DATA => length > 6,
        _ => false,
    }
}

/// Whether `bytes` are a frame, or begin one, that holds a command.
fn is_packed_command(bytes: &[u8]) -> bool {
    let Some(&[a, b, c, sequence, d, e, f]) = bytes.first_chunk() else {
        return false;
    };
    let (length, unpacked) = (u24([a, b, c]), u24([d, e, f]));
    let data = &bytes[7..];
    let is_plausible =
        sequence == 0 && length > 0 && (data.len() >= length || bytes.len() >= SEGMENT_BYTES_MIN);
    match unpacked {
        // Both ways leave short commands as they are.
        0 => is_plausible && are_commands(data),
        _ => is_plausible && unpacked >= length && packing(bytes).is_some(),
    }
}

/// How the frame is packed that begins with `bytes`; `None` if it is not.
pub(super) fn packing(bytes: &[u8]) -> Option<Compression> {
    match bytes.get(4..)? {
        [0, 0, 0, ..] => None,
        [_, _, _, 0x78, ..] => Some(Compression::Zlib),
        [_, _, _, data @ ..] if data.starts_with(&ZSTD_MAGIC) => Some(Compression::Zstd),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_all_else() {
        let plain = b"\x09\0\0\0\x03SELECT 1";
        assert_eq!(shape(plain, None), Shape::Plain);
        assert_eq!(shape(plain, Some(true)), Shape::Unknown);
        let closed = b"\x05\0\0\0\x19\x01\0\0\0\x09\0\0\0\x03SELECT 1";
        assert_eq!(shape(closed, None), Shape::Plain);
        let execute = b"\x0a\0\0\0\x17\x01\0\0\0\0\x01\0\0\0";
        assert_eq!(shape(execute, None), Shape::Plain);
        let packed = b"\x0d\0\0\0\0\0\0\x09\0\0\0\x03SELECT 1";
        assert_eq!(shape(packed, None), Shape::Packed);
        assert_eq!(shape(packed, Some(true)), Shape::Packed);
        let zstd = b"\x08\0\0\0\x40\0\0\x28\xb5\x2f\xfd1234";
        assert_eq!(shape(zstd, None), Shape::Packed);
        assert_eq!(shape(b"\x17\x03\x03\0\x20", None), Shape::Tls);
        assert_eq!(packing(zstd), Some(Compression::Zstd));
        for other in [
            &b"\x09\0\0\x01\x03SELECT 1"[..], // amid an exchange
            b"\x09\0\0\0\x03SELECT",          // cut, and short
            b"\x09\0\0\0\x03SELECT 1more",
            b"\x01\0\0\0\x17",
            b"LECT 1 FROM t",
            b"",
        ] {
            assert_eq!(shape(other, None), Shape::Unknown, "{other:?}");
        }
    }
}
