//! Where a table is cut.
//!
//! By the first column of its key, when that is an integer: between its least and its greatest
//! value, into pieces of equal width. More pieces than are read at once even out what gaps in the
//! values make uneven. Text and bytes: see `probe`. Other tables stay in one piece; several tables
//! are still read at once.
//! Invariant: the pieces cover every key once.

use waggle_wire::Connection;

use super::{KeyValue, Range, probe};
use crate::error::CopyError;
use crate::table::{Kind, Table};

/// Cuts `table` into ranges of about `rows` rows, inside of the snapshot that `source` is in.
///
/// # Errors
/// What the source says.
pub fn split(source: &mut Connection, table: &Table, rows: u64) -> Result<Vec<Range>, CopyError> {
    let bounds = match table.key_columns().next() {
        Some(first) if first.kind == Kind::Integer => {
            let name = first.quoted();
            let sql = format!(
                "SELECT MIN({name}), MAX({name}) FROM {}",
                table.source.quoted()
            );
            let doing = format!("reading the ends of {}'s key", table.source);
            let found = source
                .query_rows(sql.as_bytes())
                .map_err(CopyError::source(doing))?;
            cuts(&found, table.rows_estimate.div_ceil(rows.max(1)))
        }
        _ => probe::cuts(source, table, table.rows_estimate.div_ceil(rows.max(1)))?,
    };
    let mut ranges = Vec::with_capacity(bounds.len() + 1);
    let mut low = None;
    for high in bounds.into_iter().map(Some).chain([None]) {
        ranges.push(Range {
            table: table.number,
            number: ranges.len() as u32,
            low: low.clone(),
            high: high.clone(),
            frontier: None,
            is_done: false,
            rows: 0,
            bytes: 0,
        });
        low = high;
    }
    Ok(ranges)
}

/// The highest keys of all pieces but the last.
fn cuts(ends: &[waggle_wire::Row], pieces: u64) -> Vec<KeyValue> {
    let number = |column: usize| -> Option<i128> {
        let value = ends.first()?.get(column)?.as_deref()?;
        std::str::from_utf8(value).ok()?.parse().ok()
    };
    let (Some(least), Some(greatest)) = (number(0), number(1)) else {
        return Vec::new();
    };
    let width = (greatest - least).max(0);
    let pieces = i128::from(pieces).min(width);
    (1..pieces)
        .map(|i| least + width * i / pieces)
        .map(|cut| KeyValue(vec![cut.to_string().into_bytes()]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(least: &str, greatest: &str) -> Vec<waggle_wire::Row> {
        vec![vec![
            Some(least.as_bytes().to_vec()),
            Some(greatest.as_bytes().to_vec()),
        ]]
    }

    fn texts(cuts: &[KeyValue]) -> Vec<String> {
        let text = |key: &KeyValue| String::from_utf8(key.0[0].clone()).unwrap();
        cuts.iter().map(text).collect()
    }

    #[test]
    fn cuts_are_apart_and_inside() {
        assert_eq!(texts(&cuts(&ends("1", "9"), 4)), ["3", "5", "7"]);
        let wide = cuts(&ends("-9223372036854775808", "18446744073709551615"), 2);
        assert_eq!(texts(&wide), ["4611686018427387903"]);
    }

    #[test]
    fn what_cannot_be_cut_is_left_whole() {
        assert!(cuts(&ends("5", "5"), 8).is_empty());
        assert!(cuts(&[vec![None, None]], 8).is_empty());
        assert!(cuts(&[], 8).is_empty());
        assert!(cuts(&ends("1", "100"), 1).is_empty());
        // No more pieces than values.
        assert_eq!(texts(&cuts(&ends("1", "3"), 100)), ["2"]);
    }
}
