//! Ranges of a table's key: how is a table cut, and how does a copy go on inside of a piece?
//!
//! A range holds the keys above `low` and up to `high`; a copy of it that was ended goes on above
//! the last key that the target has. Neighbours: `progress` keeps them, `rows` reads their rows.
//! Invariant: keys are compared by the server that has the table, never here, so that its
//! collations decide.

mod predicate;
mod probe;
mod space;
mod split;

use std::fmt::{self, Write};
use std::str::FromStr;

pub use predicate::{above, equal, key_expressions, order, up_to};
pub(crate) use predicate::{equatable, hex, number};
pub use split::split;

/// The values of a key's columns (or of the first of them), each as the text protocol gives it in
/// bytes: ENUM, SET and BIT as numbers, strings in their column's character set.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyValue(pub Vec<Vec<u8>>);

impl fmt::Display for KeyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, value) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_char(',')?;
            }
            // A mark, so that an empty value is not no value.
            f.write_char('x')?;
            for byte in value {
                write!(f, "{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// A text that is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("key {0:?} is not a list of hexadecimal values")]
pub struct KeyError(String);

impl FromStr for KeyValue {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<KeyValue, KeyError> {
        let value = |part: &str| {
            let digits = part.strip_prefix('x')?.as_bytes();
            let pair = |pair: &[u8]| match pair {
                [high, low] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                    u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()
                }
                _ => None,
            };
            digits.chunks(2).map(pair).collect::<Option<Vec<u8>>>()
        };
        let values: Option<Vec<Vec<u8>>> = text.split(',').map(value).collect();
        values
            .map(KeyValue)
            .ok_or_else(|| KeyError(text.to_owned()))
    }
}

/// A piece of a table, and how much of it the target has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// The table's number in the job.
    pub table: u32,
    /// Its number in the table, in the order of keys, from 0.
    pub number: u32,
    /// Keys above this one; all from the first without.
    pub low: Option<KeyValue>,
    /// Keys up to and with this one; all to the last without.
    pub high: Option<KeyValue>,
    /// The last key that the target has; `None` before the first.
    pub frontier: Option<KeyValue>,
    /// Whether the target has all of it.
    pub is_done: bool,
    /// Rows that the copy has written.
    pub rows: u64,
    /// Bytes of row data that the copy has read for them.
    pub bytes: u64,
}

impl Range {
    /// Where a copy of it goes on: above this key.
    pub fn resume(&self) -> Option<&KeyValue> {
        self.frontier.as_ref().or(self.low.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn damaged_keys_are_refused() {
        for text in ["", "x1", "31", "xzz", "x31,", "x+1"] {
            assert!(text.parse::<KeyValue>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_parses(
            values in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..9), 1..4)
        ) {
            let key = KeyValue(values);
            prop_assert_eq!(key.to_string().parse(), Ok(key));
        }
    }
}
