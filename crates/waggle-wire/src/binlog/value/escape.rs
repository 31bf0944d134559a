//! Bytes between the tabs of `LOAD DATA` and between the quotes of a literal.
//!
//! Neighbour: the parent says what is written this way. Invariant: what a server reads of it is the
//! bytes, in a session that uses backslashes.

/// The letter that stands for a byte in a field, behind a backslash.
pub(super) fn field_escape(byte: u8) -> Option<u8> {
    match byte {
        0 => Some(b'0'),
        b'\t' => Some(b't'),
        b'\n' => Some(b'n'),
        b'\\' => Some(b'\\'),
        _ => None,
    }
}

fn literal_escape(byte: u8) -> Option<u8> {
    match byte {
        0 => Some(b'0'),
        b'\'' => Some(b'\''),
        b'\\' => Some(b'\\'),
        _ => None,
    }
}

/// Appends `bytes` as a field of `LOAD DATA` with default terminators and escapes.
pub fn escape_field(out: &mut Vec<u8>, bytes: &[u8]) {
    escape(out, bytes, field_escape);
}

/// Appends `bytes` as they stand between the single quotes of a literal.
pub fn escape_literal(out: &mut Vec<u8>, bytes: &[u8]) {
    escape(out, bytes, literal_escape);
}

/// Copies whole stretches between bytes that need an escape.
fn escape(out: &mut Vec<u8>, bytes: &[u8], escape: impl Fn(u8) -> Option<u8>) {
    out.reserve(bytes.len());
    let mut start = 0;
    for (at, byte) in bytes.iter().enumerate() {
        if let Some(letter) = escape(*byte) {
            out.extend_from_slice(&bytes[start..at]);
            out.extend_from_slice(&[b'\\', letter]);
            start = at + 1;
        }
    }
    out.extend_from_slice(&bytes[start..]);
}
