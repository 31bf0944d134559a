//! Values made up between two keys of text or bytes.
//!
//! Digits of a number stand for bytes, in an order that is nearly the keys'. Neighbour: `probe`
//! asks the server which key is near such a value. Invariant: none; a value that the server puts
//! elsewhere makes ranges uneven and nothing else.

use crate::table::{Column, Kind};

/// The bytes that values are made up of.
pub(super) struct Alphabet {
    bytes: Vec<u8>,
    /// Whether case is of no account.
    folds: bool,
}

impl Alphabet {
    /// That of a column; none of kinds that have no such values.
    pub(super) fn of(column: &Column) -> Option<Alphabet> {
        const WIDE: [&str; 4] = ["ucs2", "utf16", "utf16le", "utf32"];
        let charset = column.charset.as_deref().unwrap_or("binary");
        let collation = column.collation.as_deref().unwrap_or("binary");
        let is_by_bytes = collation.ends_with("_bin") || collation == "binary";
        let bytes: Vec<u8> = match column.kind {
            Kind::Binary | Kind::Blob => (0..=255).collect(),
            Kind::Text if WIDE.contains(&charset) => return None,
            // What is ASCII is valid in every other character set.
            Kind::Text if is_by_bytes => (0x20..0x7f).collect(),
            // Collations put signs where they like: a made-up one would lead astray.
            Kind::Text => [b' ']
                .into_iter()
                .chain(b'0'..=b'9')
                .chain(b'a'..=b'z')
                .collect(),
            _ => return None,
        };
        let folds = column.kind == Kind::Text && !is_by_bytes;
        Some(Alphabet { bytes, folds })
    }

    fn is_of_bytes(&self) -> bool {
        self.bytes.len() == 256
    }

    /// The digit of a byte, or of the one before it.
    fn digit(&self, byte: u8) -> u64 {
        let byte = match self.folds {
            true => byte.to_ascii_lowercase(),
            false => byte,
        };
        let above = self.bytes.partition_point(|known| *known <= byte);
        above.saturating_sub(1) as u64
    }

    fn is_same(&self, one: u8, other: u8) -> bool {
        one == other || (self.folds && one.eq_ignore_ascii_case(&other))
    }
}

/// Made-up values as numbers between those of two keys.
pub(super) struct Space<'a> {
    alphabet: &'a Alphabet,
    /// What both keys begin with.
    prefix: Vec<u8>,
    low: u64,
    high: u64,
}

/// Digits after the prefix: as many as fit a number.
const DIGITS: usize = 7;

impl<'a> Space<'a> {
    /// The values between two keys.
    pub(super) fn between(alphabet: &'a Alphabet, low: &[u8], high: &[u8]) -> Space<'a> {
        let pairs = low.iter().zip(high);
        let same = pairs.take_while(|(one, other)| {
            // Of text, only as far as no character can be cut.
            alphabet.is_same(**one, **other) && (alphabet.is_of_bytes() || one.is_ascii())
        });
        let same = same.count();
        let base = alphabet.bytes.len() as u64;
        let number = |key: &[u8]| {
            let rest = key[same..].iter().map(|byte| alphabet.digit(*byte));
            let digits = rest.chain(std::iter::repeat(0)).take(DIGITS);
            digits.fold(0, |number, digit| number * base + digit)
        };
        let (one, other) = (number(low), number(high));
        Space {
            alphabet,
            prefix: low[..same].to_vec(),
            low: one.min(other),
            high: one.max(other),
        }
    }

    /// The value in the middle; none between two that are too near.
    pub(super) fn middle(&self) -> Option<Vec<u8>> {
        if self.high - self.low < 2 {
            return None;
        }
        let base = self.alphabet.bytes.len() as u64;
        let mut number = self.low.midpoint(self.high);
        let mut digits = [0; DIGITS];
        for digit in digits.iter_mut().rev() {
            *digit = self.alphabet.bytes[(number % base) as usize];
            number /= base;
        }
        Some([self.prefix.as_slice(), &digits].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::column;

    fn text(collation: &str) -> Alphabet {
        let mut column = column("k", Kind::Text);
        column.charset = Some("utf8mb4".into());
        column.collation = Some(collation.into());
        Alphabet::of(&column).unwrap()
    }

    #[test]
    fn made_up_values_lie_between_and_are_ascii() {
        let alphabet = text("utf8mb4_bin");
        let space = Space::between(&alphabet, b"user-Abc", "user-z\u{e9}".as_bytes());
        assert_eq!(space.prefix, b"user-");
        let middle = space.middle().unwrap();
        assert!(middle.as_slice() > b"user-A".as_slice());
        assert!(middle.as_slice() < b"user-z".as_slice());
        assert!(middle.is_ascii());
    }

    #[test]
    fn case_is_of_no_account_where_the_collation_folds_it() {
        let alphabet = text("utf8mb4_0900_ai_ci");
        let space = Space::between(&alphabet, b"Order-1", b"oRDER-9");
        assert_eq!(space.prefix, b"Order-");
        assert!(space.middle().unwrap().starts_with(b"Order-5"));
        let alphabet = text("utf8mb4_bin");
        assert_eq!(Space::between(&alphabet, b"Order", b"order").prefix, b"");
    }

    #[test]
    fn bytes_use_all_of_them_and_other_kinds_are_left_whole() {
        let bytes = Alphabet::of(&column("k", Kind::Binary)).unwrap();
        let space = Space::between(&bytes, &[0, 0xff], &[0xff]);
        assert_eq!(space.prefix, b"");
        let middle = space.middle().unwrap();
        assert!((0x7f..=0x80).contains(&middle[0]), "{middle:?}");
        assert!(Alphabet::of(&column("k", Kind::DateTime)).is_none());
        let mut wide = column("k", Kind::Text);
        wide.charset = Some("utf16".into());
        assert!(Alphabet::of(&wide).is_none());
    }

    #[test]
    fn equal_ends_have_no_middle() {
        let alphabet = text("utf8mb4_bin");
        assert!(
            Space::between(&alphabet, b"same", b"same")
                .middle()
                .is_none()
        );
    }
}
