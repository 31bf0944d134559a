//! Where a table is cut whose key begins with text or bytes.
//!
//! Such values have no arithmetic that follows a collation, and every n-th key is a scan. So
//! values are made up between the least and the greatest, the server's own estimate of the rows
//! below and above tells which to take (it looks at a few pages of the index), and the key that
//! comes next after it, in the server's order, is the cut. Neighbour: `split` makes ranges of them.
//! Invariant: a cut is a key of the table, above the one before by the server's comparison;
//! whatever is wrong with a made-up value or an estimate makes ranges uneven, never wrong.

use waggle_wire::Connection;

use super::{KeyValue, above, up_to};
use crate::error::CopyError;
use crate::table::{Column, Kind, Table, quote};

/// Attempts at each cut, each in a half of the space of the one before.
const STEPS: u32 = 14;
/// A half is this near to what it should be.
const NEAR: f64 = 0.05;
/// More pieces of one table take more questions than they save.
const PIECES_MAX: u64 = 32;

/// Cuts a table into so many pieces, about; none for keys of other kinds.
///
/// # Errors
/// What the source says.
pub(super) fn cuts(
    source: &mut Connection,
    table: &Table,
    pieces: u64,
) -> Result<Vec<KeyValue>, CopyError> {
    let Some(alphabet) = table.key_columns().next().and_then(Alphabet::of) else {
        return Ok(Vec::new());
    };
    let pieces = pieces.min(PIECES_MAX);
    if pieces < 2 {
        return Ok(Vec::new());
    }
    let mut keys = Keys { source, table };
    let (Some(least), Some(greatest)) = (keys.end("ASC")?, keys.end("DESC")?) else {
        return Ok(Vec::new());
    };
    let space = Space::between(alphabet, &least, &greatest);
    let mut numbers = Vec::new();
    keys.halve(&space, (space.low, space.high), pieces, &mut numbers)?;
    let mut cuts: Vec<KeyValue> = Vec::new();
    for number in numbers {
        match keys.next(&space.value(number), cuts.last())? {
            Some(cut) => cuts.push(cut),
            None => break,
        }
    }
    Ok(cuts)
}

/// Questions about the keys of a table.
struct Keys<'a> {
    source: &'a mut Connection,
    table: &'a Table,
}

impl Keys<'_> {
    fn rows(&mut self, sql: &str) -> Result<Vec<waggle_wire::Row>, CopyError> {
        let doing = format!("looking where to cut {}", self.table.source);
        let rows = self.source.query_rows(sql.as_bytes());
        rows.map_err(CopyError::source(doing))
    }

    fn from(&self) -> String {
        let index = self.table.key.as_ref().map_or("", |key| key.name.as_str());
        let name = self.table.source.quoted();
        format!("FROM {name} FORCE INDEX ({})", quote(index))
    }

    fn first(&self) -> String {
        self.table
            .key_columns()
            .next()
            .map_or(String::new(), Column::quoted)
    }

    /// The first or last value of the key's first column.
    fn end(&mut self, order: &str) -> Result<Option<Vec<u8>>, CopyError> {
        let (name, from) = (self.first(), self.from());
        let sql = format!("SELECT {name} {from} ORDER BY {name} {order} LIMIT 1");
        Ok(self.rows(&sql)?.into_iter().flatten().next().flatten())
    }

    /// The next value above a made-up one and above the cut before.
    fn next(
        &mut self,
        value: &KeyValue,
        last: Option<&KeyValue>,
    ) -> Result<Option<KeyValue>, CopyError> {
        let mut place = above(self.table, value);
        if let Some(last) = last {
            place = format!("{place} AND {}", above(self.table, last));
        }
        let (name, from) = (self.first(), self.from());
        let sql = format!("SELECT {name} {from} WHERE {place} ORDER BY {name} LIMIT 1");
        let found = self.rows(&sql)?.into_iter().flatten().next().flatten();
        Ok(found.map(|value| KeyValue(vec![value])))
    }

    /// Cuts what lies between two numbers so that both sides have their share of rows, then each
    /// side. Parts, because a server never says that more than a half of a table is in a range.
    fn halve(
        &mut self,
        space: &Space,
        (low, high): (u64, u64),
        pieces: u64,
        cuts: &mut Vec<u64>,
    ) -> Result<(), CopyError> {
        if pieces < 2 || high - low < 2 {
            return Ok(());
        }
        let left = pieces / 2;
        let wanted = left as f64 / pieces as f64;
        let (mut from, mut to) = (low, high);
        let mut at = from.midpoint(to);
        for _ in 0..STEPS {
            at = from.midpoint(to);
            let below = self.estimate(space, low, at)?;
            let above = self.estimate(space, at, high)?;
            let share = below / (below + above).max(1.0);
            if (share - wanted).abs() < NEAR || to - from < 2 {
                break;
            }
            match share < wanted {
                true => from = at,
                false => to = at,
            }
        }
        self.halve(space, (low, at), left, cuts)?;
        cuts.push(at);
        self.halve(space, (at, high), pieces - left, cuts)
    }

    /// About how many rows lie between two made-up values.
    fn estimate(&mut self, space: &Space, low: u64, high: u64) -> Result<f64, CopyError> {
        let place = format!(
            "{} AND {}",
            above(self.table, &space.value(low)),
            up_to(self.table, &space.value(high))
        );
        // The place of `rows` in the two families' tables.
        let (explain, at) = match self.table.is_mariadb {
            true => ("EXPLAIN", 8),
            false => ("EXPLAIN FORMAT=TRADITIONAL", 9),
        };
        // MySQL does not look at an index that it is forced to take.
        let (name, from) = (self.first(), self.from().replacen("FORCE", "USE", 1));
        let rows = self.rows(&format!("{explain} SELECT {name} {from} WHERE {place}"))?;
        let value = rows.first().and_then(|row| row.get(at)?.as_deref());
        let rows = value.and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
        // None of it, when the server knows that no row can be there.
        Ok(rows.unwrap_or(0.0))
    }
}

/// The bytes that values are made up of, in an order that is nearly the keys'.
struct Alphabet(Vec<u8>);

impl Alphabet {
    fn of(column: &Column) -> Option<Alphabet> {
        const WIDE: [&str; 4] = ["ucs2", "utf16", "utf16le", "utf32"];
        let charset = column.charset.as_deref().unwrap_or("binary");
        let collation = column.collation.as_deref().unwrap_or("binary");
        let is_by_bytes = collation.ends_with("_bin") || collation == "binary";
        match column.kind {
            Kind::Binary | Kind::Blob => Some(Alphabet((0..=255).collect())),
            Kind::Text if WIDE.contains(&charset) => None,
            // What is ASCII is valid in every other character set.
            Kind::Text if is_by_bytes => Some(Alphabet((0x20..0x7f).collect())),
            Kind::Text => Some(Alphabet(
                (0x20..0x7f)
                    .filter(|byte: &u8| !byte.is_ascii_uppercase())
                    .collect(),
            )),
            _ => None,
        }
    }

    /// The digit of a byte, or of the one before it.
    fn digit(&self, byte: u8) -> u64 {
        let lower = match self.0.contains(&byte) {
            true => byte,
            false => byte.to_ascii_lowercase(),
        };
        let above = self.0.partition_point(|known| *known <= lower);
        above.saturating_sub(1) as u64
    }
}

/// Made-up values as numbers between those of two keys.
struct Space {
    alphabet: Alphabet,
    /// What both keys begin with.
    prefix: Vec<u8>,
    low: u64,
    high: u64,
}

impl Space {
    /// Digits after the prefix: as many as fit a number.
    const DIGITS: usize = 7;

    fn between(alphabet: Alphabet, least: &[u8], greatest: &[u8]) -> Space {
        let same = least.iter().zip(greatest).take_while(|(a, b)| a == b);
        // Of text, only as far as no character can be cut.
        let is_bytes = alphabet.0.len() == 256;
        let same = same.take_while(|(a, _)| is_bytes || a.is_ascii()).count();
        let number = |key: &[u8]| {
            let rest = key[same..].iter().map(|byte| alphabet.digit(*byte));
            let digits = rest.chain(std::iter::repeat(0)).take(Space::DIGITS);
            digits.fold(0, |number, digit| number * alphabet.0.len() as u64 + digit)
        };
        let (one, other) = (number(least), number(greatest));
        Space {
            prefix: least[..same].to_vec(),
            low: one.min(other),
            high: one.max(other),
            alphabet,
        }
    }

    fn value(&self, mut number: u64) -> KeyValue {
        let base = self.alphabet.0.len() as u64;
        let mut digits = [0; Space::DIGITS];
        for digit in digits.iter_mut().rev() {
            *digit = self.alphabet.0[(number % base) as usize];
            number /= base;
        }
        let mut value = self.prefix.clone();
        value.extend_from_slice(&digits);
        KeyValue(vec![value])
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
        let space = Space::between(text("utf8mb4_bin"), b"user-Abc", "user-z\u{e9}".as_bytes());
        assert_eq!(space.prefix, b"user-");
        let middle = space.value(space.low.midpoint(space.high));
        assert!(middle.0[0].as_slice() > b"user-A" && middle.0[0].as_slice() < b"user-z");
        assert!(middle.0[0].is_ascii());
        // Case is of no account in the other collations' order.
        let space = Space::between(text("utf8mb4_0900_ai_ci"), b"A", b"z");
        assert!(space.value(space.low).0[0].starts_with(b"a"));
    }

    #[test]
    fn bytes_use_all_of_them_and_other_kinds_are_left_whole() {
        let bytes = Alphabet::of(&column("k", Kind::Binary)).unwrap();
        let space = Space::between(bytes, &[0, 0xff], &[0xff]);
        assert_eq!(space.prefix, b"");
        let middle = space.value(space.low.midpoint(space.high));
        assert!((0x7f..=0x80).contains(&middle.0[0][0]), "{middle}");
        assert!(Alphabet::of(&column("k", Kind::DateTime)).is_none());
        let mut wide = column("k", Kind::Text);
        wide.charset = Some("utf16".into());
        assert!(Alphabet::of(&wide).is_none());
    }

    #[test]
    fn equal_ends_have_no_space() {
        let space = Space::between(text("utf8mb4_bin"), b"same", b"same");
        assert_eq!((space.low, space.high), (0, 0));
    }
}
