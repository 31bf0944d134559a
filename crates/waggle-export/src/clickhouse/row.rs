//! How is a row written, kept in the spool, and read back when it is delivered?
//!
//! Rows are in ClickHouse's `RowBinary`, in which every string is a length and bytes, so nothing a
//! statement holds can be taken for anything else. In the spool a batch is a head (table, columns,
//! times) and rows with their lengths; the batch's own columns are put before each row on delivery,
//! when its name is known. Neighbours: `encode` writes, `transport` reads. Invariant: values come
//! in the order and of the kinds of the table's columns.

use super::tables::{Column, Kind, Table};
use crate::spool::BatchId;

/// Rows of one table that become one batch.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) table: Table,
    columns: Vec<Column>,
    bytes: Vec<u8>,
    count: u32,
    /// First and last time of a row, s since 1970.
    times: (u32, u32),
    /// Where the current row began, and how many values it has.
    row: (usize, usize),
}

/// The layout of a batch in the spool.
const LAYOUT: u8 = 1;

impl Rows {
    pub(crate) fn new(table: Table) -> Self {
        Self {
            table,
            columns: table.columns(),
            bytes: Vec::new(),
            count: 0,
            times: (u32::MAX, 0),
            row: (0, 0),
        }
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn begin(&mut self) -> &mut Self {
        self.row = (self.bytes.len(), 0);
        self.bytes.extend_from_slice(&[0; 4]);
        self
    }

    pub(crate) fn end(&mut self) {
        let (begin, values) = self.row;
        assert_eq!(values, self.columns.len(), "values of {:?}", self.table);
        let length = (self.bytes.len() - begin - 4) as u32;
        self.bytes[begin..begin + 4].copy_from_slice(&length.to_le_bytes());
        self.count += 1;
    }

    fn next(&mut self, kind: Kind) {
        let column = &self.columns[self.row.1];
        let fits = column.kind == kind || (column.kind == Kind::Name && kind == Kind::Text);
        assert!(fits, "{:?}.{} is no {kind:?}", self.table, column.name);
        self.row.1 += 1;
    }

    pub(crate) fn time(&mut self, time_us: u64) -> &mut Self {
        self.next(Kind::Time);
        let seconds = u32::try_from(time_us / 1_000_000).unwrap_or(u32::MAX);
        self.times = (self.times.0.min(seconds), self.times.1.max(seconds));
        self.bytes.extend_from_slice(&seconds.to_le_bytes());
        self
    }

    pub(crate) fn text(&mut self, text: impl AsRef<[u8]>) -> &mut Self {
        self.next(Kind::Text);
        self.string(text.as_ref());
        self
    }

    pub(crate) fn u8(&mut self, value: u8) -> &mut Self {
        self.next(Kind::U8);
        self.bytes.push(value);
        self
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.next(Kind::U32);
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.next(Kind::U64);
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn f64(&mut self, value: f64) -> &mut Self {
        self.next(Kind::F64);
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn u64_or_null(&mut self, value: Option<u64>) -> &mut Self {
        self.next(Kind::U64OrNull);
        self.bytes.push(u8::from(value.is_none()));
        if let Some(value) = value {
            self.bytes.extend_from_slice(&value.to_le_bytes());
        }
        self
    }

    pub(crate) fn text_or_null(&mut self, text: Option<&str>) -> &mut Self {
        self.next(Kind::TextOrNull);
        self.bytes.push(u8::from(text.is_none()));
        if let Some(text) = text {
            self.string(text.as_bytes());
        }
        self
    }

    pub(crate) fn texts<T: AsRef<[u8]>>(
        &mut self,
        texts: impl ExactSizeIterator<Item = T>,
    ) -> &mut Self {
        self.next(Kind::Texts);
        self.length(texts.len());
        for text in texts {
            self.string(text.as_ref());
        }
        self
    }

    pub(crate) fn u64s(&mut self, values: impl ExactSizeIterator<Item = u64>) -> &mut Self {
        self.next(Kind::U64s);
        self.length(values.len());
        for value in values {
            self.bytes.extend_from_slice(&value.to_le_bytes());
        }
        self
    }

    fn string(&mut self, text: &[u8]) {
        self.length(text.len());
        self.bytes.extend_from_slice(text);
    }

    /// Seven bits a byte, lowest first.
    fn length(&mut self, mut length: usize) {
        while length >= 0x80 {
            self.bytes.push(length as u8 | 0x80);
            length >>= 7;
        }
        self.bytes.push(length as u8);
    }

    /// What goes into the spool; nothing is left here.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let names: Vec<&str> = self.columns.iter().map(|c| c.name.as_str()).collect();
        let head = format!("{} {}", self.table.name(), names.join(","));
        let mut payload = Vec::with_capacity(self.bytes.len() + head.len() + 16);
        payload.push(LAYOUT);
        payload.extend_from_slice(&self.times.0.to_le_bytes());
        payload.extend_from_slice(&self.times.1.to_le_bytes());
        payload.extend_from_slice(&(head.len() as u32).to_le_bytes());
        payload.extend_from_slice(head.as_bytes());
        payload.append(&mut self.bytes);
        self.count = 0;
        self.times = (u32::MAX, 0);
        payload
    }
}

/// A batch as it was kept in the spool.
#[derive(Debug, PartialEq)]
pub(crate) struct Packed<'a> {
    pub(crate) table: &'a str,
    /// Names with commas between them.
    pub(crate) columns: &'a str,
    /// First and last time of a row, s since 1970; `None` if rows have no time.
    pub(crate) times: Option<(u32, u32)>,
    rows: Vec<&'a [u8]>,
}

impl<'a> Packed<'a> {
    /// `None` if the bytes are no batch of this layout.
    pub(crate) fn read(payload: &'a [u8]) -> Option<Self> {
        let (&layout, mut rest) = payload.split_first()?;
        if layout != LAYOUT {
            return None;
        }
        let times = (number(&mut rest)?, number(&mut rest)?);
        let head = std::str::from_utf8(piece(&mut rest)?).ok()?;
        let (table, columns) = head.split_once(' ')?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_,".contains(&byte);
        if !table.bytes().chain(columns.bytes()).all(is_plain) {
            return None;
        }
        let mut rows = Vec::new();
        while !rest.is_empty() {
            rows.push(piece(&mut rest)?);
        }
        Some(Self {
            table,
            columns,
            times: (times.0 <= times.1).then_some(times),
            rows,
        })
    }

    pub(crate) fn count(&self) -> usize {
        self.rows.len()
    }

    /// The body of an insertion of those rows that are `wanted`, by their place.
    pub(crate) fn body(&self, id: BatchId, wanted: impl Fn(u32) -> bool) -> Vec<u8> {
        let mut body = Vec::new();
        for (place, row) in (0u32..).zip(&self.rows) {
            if wanted(place) {
                body.extend_from_slice(&id.run.to_le_bytes());
                body.extend_from_slice(&id.sequence.to_le_bytes());
                body.extend_from_slice(&place.to_le_bytes());
                body.extend_from_slice(row);
            }
        }
        body
    }
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    let (bytes, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(u32::from_le_bytes(*bytes))
}

fn piece<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = number(rest)? as usize;
    let (piece, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(piece)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: BatchId = BatchId {
        run: 7,
        sequence: 9,
    };

    fn payload() -> Vec<u8> {
        let mut rows = Rows::new(Table::Digests);
        for digest in ["A", "B", "C"] {
            let long = "x".repeat(300);
            rows.begin().text(digest).text(&long).text("").u64(5).end();
        }
        rows.take()
    }

    #[test]
    fn a_batch_comes_back_as_it_was_and_any_of_its_rows_can_be_sent() {
        let payload = payload();
        let packed = Packed::read(&payload).expect("a batch");
        assert_eq!(
            (packed.table, packed.count(), packed.times),
            ("waggle_digests", 3, None)
        );
        assert_eq!(packed.columns, "digest,fingerprint,summary,seen_us");
        let all = packed.body(ID, |_| true);
        let second = packed.body(ID, |row| row == 1);
        assert_eq!(all.len(), 3 * second.len());
        assert_eq!(all[second.len()..2 * second.len()], second);
        // The batch's name, the place, and the row: "B" with its length, 300 in two bytes.
        assert_eq!(
            second[..20],
            [
                &7u64.to_le_bytes()[..],
                &9u64.to_le_bytes(),
                &1u32.to_le_bytes()
            ]
            .concat()
        );
        assert_eq!(second[20..24], [1, b'B', 0xac, 0x02]);
    }

    /// Damaged bytes from the disk are refused or read as something, never a panic, and nothing
    /// that is no name gets into a statement.
    #[test]
    fn damaged_batches_do_no_harm() {
        let whole = payload();
        let mut seed = 1u64;
        for _ in 0..20_000 {
            let mut bytes = whole.clone();
            for _ in 0..3 {
                seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                let at = (seed >> 33) as usize % bytes.len();
                bytes[at.min(80)] = (seed >> 20) as u8;
                if seed.is_multiple_of(5) {
                    bytes.truncate(at.max(1));
                }
            }
            if let Some(packed) = Packed::read(&bytes) {
                assert!(!packed.table.contains([';', ' ', '(', '\'']));
                assert!(!packed.columns.contains([';', ' ', '(', '\'']));
                assert!(packed.body(ID, |_| true).len() <= bytes.len() * 21);
            }
        }
    }

    #[test]
    #[should_panic(expected = "is no U64")]
    fn a_value_in_the_wrong_place_is_a_mistake_of_the_program() {
        Rows::new(Table::Digests).begin().u64(5);
    }
}
