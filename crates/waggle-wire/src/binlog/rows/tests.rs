//! Walks over rows of every type, whole, partial and damaged.

use super::*;
use crate::binlog::table_map::tests::{ALL, table};

/// A row of [`ALL`] in which nothing is NULL.
const ROW: &[&[u8]] = &[
    &[0xff],
    &[0, 0x80],
    &[0xff, 0xff, 0xff],
    &[1, 0, 0, 0],
    &[0, 0, 0, 0, 0, 0, 0, 0x80],
    &[0, 0, 0xc0, 0x3f],
    &[0, 0, 0, 0, 0, 0, 0, 0x80],
    &[0x80, 0x7b, 0x2d],
    &[0],
    &[0x21, 0, 0],
    &[0x80, 0, 1, 0, 0, 1],
    &[0x80, 0, 0, 0, 0, 0, 10],
    &[0, 0, 0, 0],
    &[1, 2],
    b"\x02ab",
    b"\x03\0v\t\n",
    b"\x02\0\\'",
    &[2],
    &[3],
    b"\x03\0\0\0\x05\x07\0",
    b"\x01\0\0\0G",
    b"\x04\0\0\0\0\0\x80\x3f",
];

const TEXTS: [&str; 22] = [
    "-1",
    "-32768",
    "-1",
    "1",
    "-9223372036854775808",
    "1.5",
    "-0",
    "123.45",
    "0000",
    "0000-01-01",
    "00:00:01.000001",
    "0000-00-00 00:00:00.001",
    "0000-00-00 00:00:00",
    "\x01\x02",
    "ab",
    "v\t\n",
    "\\'",
    "2",
    "3",
    "7",
    "G",
    "\0\0\u{80}?",
];

fn head(width: u8, extra: &[u8]) -> Vec<u8> {
    let mut body = vec![7, 0, 0, 0, 0, 0, 1, 0];
    body.extend_from_slice(&(extra.len() as u16 + 2).to_le_bytes());
    body.extend_from_slice(extra);
    body.push(width);
    body
}

fn texts(image: &Image<'_>) -> Vec<(usize, String)> {
    let text = |value: ColumnValue<'_>| {
        let mut out = Vec::new();
        value.text(&mut out).unwrap();
        out.iter().map(|byte| char::from(*byte)).collect()
    };
    let values = image.values().map(Result::unwrap);
    values.map(|(at, value)| (at, text(value))).collect()
}

fn insert() -> Vec<u8> {
    let mut body = head(22, b"xy");
    body.extend_from_slice(&[0xff, 0xff, 0x3f]);
    for _ in 0..2 {
        body.extend_from_slice(&[0; 3]);
        body.extend(ROW.iter().flat_map(|value| value.to_vec()));
    }
    body
}

#[test]
fn every_type_is_found_and_read() {
    let table = TableMap::parse(&table(&ALL, &[])).unwrap();
    let body = insert();
    let event = RowsEvent::parse(kind::WRITE_ROWS, &body).unwrap().unwrap();
    assert!(event.ends_statement() && !event.skips_foreign_keys());
    assert_eq!((event.table_id(), event.action()), (7, Action::Insert));
    let mut rows = event.rows(&table).unwrap();
    for _ in 0..2 {
        let change = rows.next().unwrap().unwrap();
        assert!(change.before.is_none());
        let image = change.after.unwrap();
        assert!(image.is_full());
        let expected: Vec<_> = TEXTS
            .iter()
            .map(|text| text.to_string())
            .enumerate()
            .collect();
        assert_eq!(texts(&image), expected);
    }
    assert!(rows.next().unwrap().is_none());
    assert!(RowsEvent::parse(kind::XID, &body).unwrap().is_none());
}

#[test]
fn every_cut_within_a_row_is_an_error() {
    let table = TableMap::parse(&table(&ALL, &[])).unwrap();
    let body = insert();
    let row: usize = 3 + ROW.iter().map(|value| value.len()).sum::<usize>();
    let walk = |length: usize| -> Result<usize, Error> {
        let event = RowsEvent::parse(kind::WRITE_ROWS, &body[..length])?;
        let mut rows = event.unwrap().rows(&table)?;
        let mut count = 0;
        while rows.next()?.is_some() {
            count += 1;
        }
        Ok(count)
    };
    for length in 0..body.len() {
        match (body.len() - length) as f64 / row as f64 {
            1.0 => assert_eq!(walk(length).unwrap(), 1),
            2.0 => assert_eq!(walk(length).unwrap(), 0),
            _ => assert!(walk(length).is_err(), "{length}"),
        }
    }
}

#[test]
fn an_update_may_leave_out_columns() {
    let columns: [(u8, &[u8]); 3] = [(3, b""), (15, b"\x0a\0"), (3, b"")];
    let table = TableMap::parse(&table(&columns, &[])).unwrap();
    let mut body = vec![7, 0, 0, 0, 0, 0, 6, 0, 3, 0b001, 0b110];
    body.extend_from_slice(&[0, 5, 0, 0, 0]); // before: 5
    body.extend_from_slice(b"\x02\x01v"); // after: 'v', NULL
    let event = RowsEvent::parse(kind::UPDATE_ROWS_V1, &body)
        .unwrap()
        .unwrap();
    assert!(event.skips_foreign_keys() && event.relaxes_unique_keys());
    assert!(!event.ends_statement());
    let change = event.rows(&table).unwrap().next().unwrap().unwrap();
    let (before, after) = (change.before.unwrap(), change.after.unwrap());
    assert_eq!(texts(&before), [(0, "5".to_owned())]);
    assert!(after.has(1) && !after.has(0) && !after.is_full());
    let (at, null) = after.values().nth(1).unwrap().unwrap();
    assert!(at == 2 && null.is_null());
    let mut other = table.clone();
    other.id = 8;
    assert!(event.rows(&other).is_err());
}

#[test]
fn a_partial_update_has_changes_in_place_of_json() {
    let columns: [(u8, &[u8]); 3] = [(245, b"\x04"), (3, b""), (245, b"\x04")];
    let table = TableMap::parse(&table(&columns, &[])).unwrap();
    let mut body = head(3, b"");
    body.extend_from_slice(&[0b010, 0b110]);
    body.extend_from_slice(&[0, 5, 0, 0, 0]);
    // After: JSON may be changes; of the two columns, the second is; the first is left out.
    body.extend_from_slice(&[1, 0b10, 0, 6, 0, 0, 0]);
    let changes = b"\x00\x03$.a\x03\x05\x07\0\x02\x04$[1]";
    body.extend_from_slice(&(changes.len() as u32).to_le_bytes());
    body.extend_from_slice(changes);
    let event = RowsEvent::parse(kind::PARTIAL_UPDATE_ROWS, &body)
        .unwrap()
        .unwrap();
    let change = event.rows(&table).unwrap().next().unwrap().unwrap();
    let (at, value) = change.after.unwrap().values().nth(1).unwrap().unwrap();
    assert_eq!(at, 2);
    let error = value.text(&mut Vec::new()).unwrap_err();
    assert!(matches!(error, Error::Unsupported(_)), "{error}");
    let changes: Vec<_> = value.changes().unwrap().map(Result::unwrap).collect();
    assert_eq!((changes.len(), changes[0].path), (2, &b"$.a"[..]));
    let mut text = Vec::new();
    crate::binlog::json::put(changes[0].value, &mut text).unwrap();
    assert_eq!((&text[..], changes[1].path), (&b"7"[..], &b"$[1]"[..]));
}

#[test]
fn rows_without_columns_do_not_go_on_for_ever() {
    let table = TableMap::parse(&table(&[(3, b"")], &[])).unwrap();
    let body = [&head(1, b"")[..], &[0, 1, 2]].concat();
    let event = RowsEvent::parse(kind::WRITE_ROWS, &body).unwrap().unwrap();
    assert!(event.rows(&table).unwrap().next().is_err());
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(2000))]
    #[test]
    fn damaged_rows_are_answered(damage in proptest::collection::vec((0usize..400, 0u8..), 1..4),
                                 kind in 0usize..7) {
        let kind = [23, 24, 25, 30, 31, 32, 39][kind];
        let table = TableMap::parse(&table(&ALL, &[(1, b"\xaa\xaa")])).unwrap();
        let mut body = insert();
        let length = body.len();
        for (at, byte) in damage {
            body[at % length] = byte;
        }
        let mut out = Vec::new();
        let walk = || -> Result<(), Error> {
            let mut rows = RowsEvent::parse(kind, &body)?.unwrap().rows(&table)?;
            while let Some(change) = rows.next()? {
                for image in [change.before, change.after].into_iter().flatten() {
                    for value in image.values() {
                        let (_, value) = value?;
                        let _ = (value.text(&mut out), value.field(&mut out));
                        let _ = value.literal(&mut out);
                    }
                }
            }
            Ok(())
        };
        let _ = { walk }();
    }
}
