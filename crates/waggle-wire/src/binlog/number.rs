//! Numbers: out of the log's bytes, and as text.
//!
//! Neighbours: `value` and the binary JSON have them as they are, times and decimals as digits of
//! their own. Invariant: the text of a FLOAT or DOUBLE reads back as the same bits.

use std::io::Write;

use crate::Error;

/// A little-endian integer of up to eight bytes.
pub(super) fn unsigned(bytes: &[u8]) -> u64 {
    let bytes = bytes.iter().rev().take(8);
    bytes.fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// The same, with the sign of the last one.
pub(super) fn signed(bytes: &[u8]) -> i64 {
    let unused = 64 - 8 * bytes.len().clamp(1, 8) as u32;
    ((unsigned(bytes) << unused) as i64) >> unused
}

/// Appends a number with at least so many digits.
pub(super) fn digits(out: &mut Vec<u8>, mut number: u64, at_least: usize) {
    let mut text = [b'0'; 20];
    let mut at = text.len();
    while number > 0 {
        at -= 1;
        text[at] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    let at = at.min(text.len() - at_least.min(text.len()));
    out.extend_from_slice(&text[at..]);
}

/// Appends a number with its sign.
pub(super) fn integer(out: &mut Vec<u8>, magnitude: u64, is_negative: bool) {
    if is_negative {
        out.push(b'-');
    }
    digits(out, magnitude, 1);
}

/// Appends as few digits as tell the number from all others.
pub(super) fn float(out: &mut Vec<u8>, number: f64) -> Result<(), Error> {
    let magnitude = number.abs();
    if magnitude != 0.0 && !(1e-5..1e15).contains(&magnitude) {
        return exponential(out, number);
    }
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{number}");
    Ok(())
}

/// The same with an exponent. The servers store no infinities.
pub(super) fn exponential(out: &mut Vec<u8>, number: f64) -> Result<(), Error> {
    if !number.is_finite() {
        return Err(Error::protocol(format!(
            "binary log: {number} is no FLOAT or DOUBLE of a server"
        )));
    }
    let _ = write!(out, "{number:e}");
    Ok(())
}
