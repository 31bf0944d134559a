//! Bytes as LOAD DATA reads them: a backslash before tab, newline and backslash.
//!
//! Every byte of text and blobs passes here, so eight are looked at together. Invariant: all other
//! bytes pass unchanged, NUL included.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Whether a byte of `word` is `byte`.
#[inline]
const fn holds(word: u64, byte: u8) -> bool {
    let zeroed = word ^ (ONES * byte as u64);
    zeroed.wrapping_sub(ONES) & !zeroed & HIGHS != 0
}

#[inline]
const fn is_special(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | b'\\')
}

/// Bytes at the start of `bytes` that need no backslash; it may stop up to seven early.
#[inline]
fn plain(bytes: &[u8]) -> usize {
    let mut length = 0;
    for word in bytes.chunks_exact(8) {
        let word = u64::from_le_bytes(word.try_into().unwrap_or_default());
        if holds(word, b'\t') | holds(word, b'\n') | holds(word, b'\\') {
            return length;
        }
        length += 8;
    }
    length
}

/// Appends `bytes` with their escapes.
#[inline]
pub fn escape(out: &mut Vec<u8>, mut bytes: &[u8]) {
    loop {
        let length = plain(bytes);
        out.extend_from_slice(&bytes[..length]);
        bytes = &bytes[length..];
        // Up to the end of this word, or all that is left of less than one.
        let (few, later) = bytes.split_at(bytes.len().min(8));
        for byte in few {
            if is_special(*byte) {
                out.push(b'\\');
            }
            out.push(*byte);
        }
        bytes = later;
        if bytes.is_empty() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_special_byte_has_a_backslash_and_no_other(
            bytes in proptest::collection::vec(
                prop_oneof![Just(b'\t'), Just(b'\n'), Just(b'\\'), any::<u8>(), any::<u8>()], 0..80)
        ) {
            let mut out = b"before".to_vec();
            escape(&mut out, &bytes);
            let mut expected = b"before".to_vec();
            for byte in &bytes {
                if is_special(*byte) {
                    expected.push(b'\\');
                }
                expected.push(*byte);
            }
            prop_assert_eq!(out, expected);
        }
    }
}
