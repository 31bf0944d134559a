//! DECIMAL as the servers store it: groups of nine digits, most significant first.
//!
//! Rows and JSON values hold it. Invariant: the text has the digits that are stored, `scale` of
//! them after the point, and a group that holds more than its digits is an error.

use crate::Error;
use crate::binlog::number::digits;

const DIGITS_PER_GROUP: u8 = 9;
const PRECISION_MAX: u8 = 65;
/// Bytes for so many digits that are less than a group.
const BYTES_OF_DIGITS: [u8; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];

/// Precision and scale, which are in range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    precision: u8,
    scale: u8,
}

impl Form {
    pub(crate) fn new(precision: u8, scale: u8) -> Result<Form, Error> {
        if !(1..=PRECISION_MAX).contains(&precision) || scale > precision {
            return Err(Error::protocol(format!(
                "binary log: DECIMAL({precision},{scale}) is none"
            )));
        }
        Ok(Form { precision, scale })
    }

    fn whole(self) -> u8 {
        self.precision - self.scale
    }

    /// Bytes of a value.
    pub(crate) fn bytes(self) -> usize {
        let part = |digits: u8| {
            let rest = BYTES_OF_DIGITS[usize::from(digits % DIGITS_PER_GROUP)];
            usize::from(digits / DIGITS_PER_GROUP) * 4 + usize::from(rest)
        };
        part(self.whole()) + part(self.scale)
    }

    /// Appends a value of [`Form::bytes`] bytes as text.
    pub(crate) fn put(self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let is_negative = bytes.first().is_some_and(|first| first & 0x80 == 0);
        let mut groups = Groups {
            bytes,
            invert: if is_negative { 0xff } else { 0 },
            sign: 0x80,
        };
        if is_negative {
            out.push(b'-');
        }
        let start = out.len();
        let mut whole = |count: u8, out: &mut Vec<u8>| {
            let value = groups.next(count)?;
            // No zeros in front.
            if out.len() > start {
                digits(out, value.into(), count.into());
            } else if value > 0 {
                digits(out, value.into(), 1);
            }
            Ok::<(), Error>(())
        };
        if !self.whole().is_multiple_of(DIGITS_PER_GROUP) {
            whole(self.whole() % DIGITS_PER_GROUP, out)?;
        }
        for _ in 0..self.whole() / DIGITS_PER_GROUP {
            whole(DIGITS_PER_GROUP, out)?;
        }
        if out.len() == start {
            out.push(b'0');
        }
        if self.scale > 0 {
            out.push(b'.');
        }
        let mut left = self.scale;
        while left > 0 {
            let count = left.min(DIGITS_PER_GROUP);
            digits(out, groups.next(count)?.into(), count.into());
            left -= count;
        }
        Ok(())
    }
}

/// Reads group after group.
struct Groups<'a> {
    bytes: &'a [u8],
    invert: u8,
    /// Turns the first byte's first bit, which is the sign.
    sign: u8,
}

impl Groups<'_> {
    fn next(&mut self, count: u8) -> Result<u32, Error> {
        let length = usize::from(BYTES_OF_DIGITS[usize::from(count)]);
        let Some((group, rest)) = self.bytes.split_at_checked(length) else {
            return Err(Error::protocol("binary log: a DECIMAL ends early"));
        };
        self.bytes = rest;
        let mut value = 0u32;
        for byte in group {
            value = value << 8 | u32::from(byte ^ self.invert ^ self.sign);
            self.sign = 0;
        }
        match value < 10u32.pow(count.into()) {
            true => Ok(value),
            false => Err(Error::protocol("binary log: a DECIMAL has no digits")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(precision: u8, scale: u8, bytes: &[u8]) -> Result<String, Error> {
        let form = Form::new(precision, scale)?;
        assert_eq!(form.bytes(), bytes.len());
        let mut out = Vec::new();
        form.put(bytes, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn reads_the_manuals_example() {
        // 1234567890.1234 as DECIMAL(14,4), and what is below zero.
        let bytes = [0x81, 0x0d, 0xfb, 0x38, 0xd2, 0x04, 0xd2];
        assert_eq!(text(14, 4, &bytes).unwrap(), "1234567890.1234");
        let negative = bytes.map(|byte| !byte);
        assert_eq!(text(14, 4, &negative).unwrap(), "-1234567890.1234");
    }

    #[test]
    fn zeros_are_where_they_belong() {
        assert_eq!(text(1, 0, &[0x80]).unwrap(), "0");
        assert_eq!(text(5, 5, &[0x80, 0x00, 0x01]).unwrap(), "0.00001");
        assert_eq!(text(10, 0, &[0x81, 0, 0, 0, 7]).unwrap(), "1000000007");
        assert_eq!(text(10, 0, &[0x80, 0, 0, 0, 7]).unwrap(), "7");
        let bytes = [0x80, 0, 0, 0, 0, 0, 0, 1, 1];
        assert_eq!(text(20, 2, &bytes).unwrap(), "1.01");
    }

    #[test]
    fn the_longest_is_read_whole() {
        // DECIMAL(65,30): 35 digits (8 and 3 groups), then 30 (3 groups and 3).
        let nines = 999_999_999u32.to_be_bytes();
        let mut bytes = 99_999_999u32.to_be_bytes().to_vec();
        for _ in 0..6 {
            bytes.extend_from_slice(&nines);
        }
        bytes.extend_from_slice(&999u16.to_be_bytes());
        bytes[0] ^= 0x80;
        let expected = format!("{}.{}", "9".repeat(35), "9".repeat(30));
        assert_eq!(text(65, 30, &bytes).unwrap(), expected);
    }

    #[test]
    fn what_is_no_number_is_refused() {
        assert!(text(1, 0, &[0x8a]).is_err());
        assert!(Form::new(0, 0).is_err() && Form::new(66, 0).is_err() && Form::new(5, 6).is_err());
        assert!(
            Form::new(5, 0)
                .unwrap()
                .put(&[0x80], &mut Vec::new())
                .is_err()
        );
    }
}
