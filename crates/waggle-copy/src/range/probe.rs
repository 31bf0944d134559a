//! Where a table is cut whose key begins with text or bytes.
//!
//! Such values have no arithmetic that follows a collation, and every n-th key is a scan. So the
//! table is parted into many more spans than it will have pieces: a value is made up in the middle
//! of the span with the most rows, the key that is near it in the server's order parts it, and the
//! server estimates the rows of both parts (it looks at a few pages of the index). Then spans that
//! are neighbours are put together to pieces. Because a span ends at keys that are there, gaps in
//! the values cost a question each, and the next value is made up in what is left.
//!
//! InnoDB doubles the estimate of a range that is longer than some pages, and never says more than
//! a half of the table: two large halves look alike whatever they are. Those of small spans can be
//! added up.
//!
//! Neighbours: `space` makes values up, `split` makes ranges of the cuts. Invariant: a cut is a key
//! of the table, above the one before by the server's comparison; whatever is wrong with a made-up
//! value or an estimate makes ranges uneven, never wrong.

use waggle_wire::Connection;

use super::space::{Alphabet, Space};
use super::{KeyValue, above, up_to};
use crate::error::CopyError;
use crate::table::{Column, Table, quote};

/// Spans of a piece: the last one of a piece is what it can be too large by.
const SPANS_EACH: u64 = 4;
/// Attempts to part a span, of a piece. With few keys far from the many it takes more of them.
const PARTINGS_EACH: u64 = 12;
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
    let mut keys = Index { source, table };
    let spans = spans(&mut keys, &alphabet, table.rows_estimate, pieces)?;
    let cuts = ends(&spans, pieces).into_iter();
    Ok(cuts.map(|cut| KeyValue(vec![cut])).collect())
}

/// The least and the greatest of the keys there are.
type Ends = Option<(Vec<u8>, Vec<u8>)>;

/// Questions about the first values of a table's keys, each of which takes a few pages.
trait Keys {
    /// The least and the greatest; `None` of an empty table.
    fn ends(&mut self) -> Result<Ends, CopyError>;

    /// Of those above `low` and up to `high`, the last one up to `middle`, or else the first one.
    fn near(
        &mut self,
        low: Option<&[u8]>,
        high: &[u8],
        middle: &[u8],
    ) -> Result<Option<Vec<u8>>, CopyError>;

    /// About how many rows lie above `low` and up to `high`.
    fn rows(&mut self, low: Option<&[u8]>, high: &[u8]) -> Result<f64, CopyError>;
}

/// Keys above `low`, or all from the first, and up to `high`; both are there.
#[derive(Debug)]
struct Span {
    low: Option<Vec<u8>>,
    high: Vec<u8>,
    /// As the server estimates.
    rows: f64,
    /// Nothing was found to part it at.
    is_whole: bool,
}

impl Span {
    fn new(low: Option<Vec<u8>>, high: Vec<u8>, rows: f64) -> Span {
        Span {
            low,
            high,
            rows,
            is_whole: false,
        }
    }
}

/// Parts a table of `rows` rows into spans, in the order of keys.
fn spans(
    keys: &mut impl Keys,
    alphabet: &Alphabet,
    rows: u64,
    pieces: u64,
) -> Result<Vec<Span>, CopyError> {
    let Some((least, greatest)) = keys.ends()? else {
        return Ok(Vec::new());
    };
    let aim = rows as f64 / (SPANS_EACH * pieces) as f64;
    let mut spans = vec![Span::new(None, greatest, rows as f64)];
    for _ in 0..PARTINGS_EACH * pieces {
        let large = spans
            .iter()
            .enumerate()
            .filter(|(_, span)| !span.is_whole && span.rows > aim);
        let Some((at, span)) = large.max_by(|(_, one), (_, other)| one.rows.total_cmp(&other.rows))
        else {
            break;
        };
        let low = span.low.as_deref();
        let space = Space::between(alphabet, low.unwrap_or(&least), &span.high);
        let found = match space.middle() {
            Some(middle) => keys.near(low, &span.high, &middle)?,
            None => None,
        };
        // Where all keys above `low` are this one, nothing lies between.
        let Some(cut) = found.filter(|cut| *cut != span.high) else {
            spans[at].is_whole = true;
            continue;
        };
        let rows_below = keys.rows(low, &cut)?;
        let rows_above = keys.rows(Some(&cut), &span.high)?;
        let below = Span::new(span.low.clone(), cut.clone(), rows_below);
        let above = Span::new(Some(cut), span.high.clone(), rows_above);
        spans[at] = above;
        spans.insert(at, below);
    }
    Ok(spans)
}

/// The ends of all pieces but the last: spans put together so that each has its share of the rows
/// that those before it have left.
fn ends(spans: &[Span], pieces: u64) -> Vec<Vec<u8>> {
    let all: f64 = spans.iter().map(|span| span.rows).sum();
    let (mut below, mut start) = (0.0, 0.0);
    let mut ends = Vec::new();
    for pair in spans.windows(2) {
        let left = pieces - ends.len() as u64;
        if left < 2 {
            break;
        }
        below += pair[0].rows;
        let wanted = start + (all - start) / left as f64;
        if below + pair[1].rows / 2.0 >= wanted {
            ends.push(pair[0].high.clone());
            start = below;
        }
    }
    ends
}

/// The source's index.
struct Index<'a> {
    source: &'a mut Connection,
    table: &'a Table,
}

impl Index<'_> {
    fn asked(&mut self, sql: &str) -> Result<Vec<waggle_wire::Row>, CopyError> {
        let doing = format!("looking where to cut {}", self.table.source);
        let rows = self.source.query_rows(sql.as_bytes());
        rows.map_err(CopyError::source(doing))
    }

    fn value(&mut self, sql: &str) -> Result<Option<Vec<u8>>, CopyError> {
        Ok(self.asked(sql)?.into_iter().flatten().next().flatten())
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

    fn within(&self, low: Option<&[u8]>, high: &[u8]) -> String {
        let up_to_high = up_to(self.table, &key(high));
        match low {
            Some(low) => format!("{} AND {up_to_high}", above(self.table, &key(low))),
            None => up_to_high,
        }
    }
}

fn key(value: &[u8]) -> KeyValue {
    KeyValue(vec![value.to_vec()])
}

impl Keys for Index<'_> {
    fn ends(&mut self) -> Result<Ends, CopyError> {
        let (name, from) = (self.first(), self.from());
        let least = self.value(&format!("SELECT {name} {from} ORDER BY {name} LIMIT 1"))?;
        let last = format!("SELECT {name} {from} ORDER BY {name} DESC LIMIT 1");
        Ok(least.zip(self.value(&last)?))
    }

    fn near(
        &mut self,
        low: Option<&[u8]>,
        high: &[u8],
        middle: &[u8],
    ) -> Result<Option<Vec<u8>>, CopyError> {
        let (name, from, within) = (self.first(), self.from(), self.within(low, high));
        let up_to_middle = up_to(self.table, &key(middle));
        let last = format!(
            "SELECT {name} {from} WHERE {within} AND {up_to_middle} ORDER BY {name} DESC LIMIT 1"
        );
        match self.value(&last)? {
            Some(found) => Ok(Some(found)),
            None => self.value(&format!(
                "SELECT {name} {from} WHERE {within} ORDER BY {name} LIMIT 1"
            )),
        }
    }

    fn rows(&mut self, low: Option<&[u8]>, high: &[u8]) -> Result<f64, CopyError> {
        let place = self.within(low, high);
        // The place of `rows` in the two families' tables.
        let (explain, at) = match self.table.is_mariadb {
            true => ("EXPLAIN", 8),
            false => ("EXPLAIN FORMAT=TRADITIONAL", 9),
        };
        // MySQL does not look at an index that it is forced to take.
        let (name, from) = (self.first(), self.from().replacen("FORCE", "USE", 1));
        let rows = self.asked(&format!("{explain} SELECT {name} {from} WHERE {place}"))?;
        let value = rows.first().and_then(|row| row.get(at)?.as_deref());
        let rows = value.and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
        // None of it, when the server knows that no row can be there.
        Ok(rows.unwrap_or(0.0))
    }
}

#[cfg(test)]
mod tests;
