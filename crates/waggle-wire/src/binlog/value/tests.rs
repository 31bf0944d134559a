//! The three texts of values at the edges of their types.

use super::*;
use crate::binlog::table_map::TableMap;
use crate::binlog::table_map::tests::table;

fn column(code: u8, metadata: &[u8]) -> Column {
    let body = table(&[(code, metadata)], &[]);
    TableMap::parse(&body).unwrap().columns.remove(0)
}

/// Text, field and literal.
fn all(column: &Column, bytes: &[u8]) -> [String; 3] {
    let value = ColumnValue::new(column, bytes).unwrap();
    let mut out = [const { Vec::new() }; 3];
    value.text(&mut out[0]).unwrap();
    value.field(&mut out[1]).unwrap();
    value.literal(&mut out[2]).unwrap();
    out.map(|bytes| String::from_utf8(bytes).unwrap())
}

#[test]
fn integers_have_their_sign() {
    let mut big = column(8, b"");
    assert_eq!(all(&big, &[0xff; 8])[0], "-1");
    big.is_unsigned = Some(true);
    assert_eq!(all(&big, &[0xff; 8]), ["18446744073709551615"; 3]);
    let mut medium = column(9, b"");
    assert_eq!(all(&medium, &[0, 0, 0x80])[2], "-8388608");
    medium.is_unsigned = Some(true);
    assert_eq!(all(&medium, &[0xff; 3])[0], "16777215");
}

#[test]
fn floats_are_exact() {
    let (single, double) = (column(4, b"\x04"), column(5, b"\x08"));
    let float = all(&single, &21_666.66f32.to_le_bytes());
    assert_eq!(
        float,
        ["21666.66015625", "21666.66015625", "2.166666015625e4"]
    );
    for number in [
        0.1,
        -0.0,
        f64::MAX,
        f64::MIN_POSITIVE,
        5e-324,
        1e15,
        1e-5,
        123_456_789.5,
    ] {
        for text in all(&double, &number.to_le_bytes()) {
            let read: f64 = text.parse().unwrap();
            assert_eq!(read.to_bits(), number.to_bits(), "{text}");
            assert!(text.len() < 25, "{text}");
        }
    }
    assert_eq!(all(&double, &(-0.0f64).to_le_bytes())[2], "-0e0");
    for number in [f64::NAN, f64::INFINITY] {
        let bytes = number.to_le_bytes();
        let value = ColumnValue::new(&double, &bytes).unwrap();
        assert!(value.text(&mut Vec::new()).is_err());
    }
}

#[test]
fn text_is_escaped_for_its_place() {
    let text = column(252, b"\x04");
    assert_eq!(
        all(&text, b"a\t\n\\'\0\r\"\xc3\xa9"),
        [
            "a\t\n\\'\0\r\"é",
            "a\\t\\n\\\\'\\0\r\"é",
            "_binary'a\t\n\\\\\\'\\0\r\"é'"
        ]
    );
    assert_eq!(all(&text, b""), ["", "", "_binary''"]);
    let null = ColumnValue::null(&text);
    let (mut field, mut literal) = (Vec::new(), Vec::new());
    null.field(&mut field).unwrap();
    null.literal(&mut literal).unwrap();
    assert_eq!((&field[..], &literal[..]), (&b"\\N"[..], &b"NULL"[..]));
}

#[test]
fn binary_gets_back_the_zeros_that_the_log_leaves_out() {
    let mut fixed = column(254, b"\xfe\x04");
    assert_eq!(all(&fixed, b"ab")[0], "ab");
    fixed.collation = Some(63);
    assert_eq!(
        all(&fixed, b"ab"),
        ["ab\0\0", "ab\\0\\0", "_binary'ab\\0\\0'"]
    );
    assert_eq!(all(&fixed, b"")[0], "\0\0\0\0");
}

#[test]
fn members_are_named_where_the_log_names_them() {
    let (mut one, mut some) = (column(254, b"\xf7\x01"), column(254, b"\xf8\x01"));
    assert_eq!(all(&one, &[2]), ["2"; 3]);
    assert_eq!(all(&some, &[5]), ["5"; 3]);
    let names = Some(vec![b"a".to_vec(), b"b\\c".to_vec(), b"d".to_vec()]);
    (one.members, some.members) = (names.clone(), names);
    assert_eq!(all(&one, &[2]), ["b\\c", "b\\\\c", "2"]);
    assert_eq!(all(&one, &[0]), ["", "", "0"]);
    assert_eq!(all(&some, &[5]), ["a,d", "a,d", "5"]);
    assert_eq!(all(&some, &[0])[0], "");
    for (column, byte) in [(&one, 4), (&some, 8)] {
        let bytes = [byte];
        let value = ColumnValue::new(column, &bytes).unwrap();
        assert!(value.text(&mut Vec::new()).is_err());
    }
}

#[test]
fn dates_are_quoted_and_json_is_text() {
    assert_eq!(
        all(&column(10, b""), &[0x21, 0, 0]),
        ["0000-01-01", "0000-01-01", "'0000-01-01'"]
    );
    let json = column(245, b"\x04");
    assert_eq!(
        all(&json, b"\x0c\x02\"'"),
        ["\"\\\"'\"", "\"\\\\\"'\"", "_utf8mb4'\"\\\\\"\\'\"'"]
    );
    assert_eq!(all(&json, b"")[0], "null");
}

#[test]
fn uuids_and_addresses_are_named_once_the_schema_says_so() {
    let mut column = column(254, b"\xfe\x10");
    column.meaning = Meaning::Uuid;
    let text = "01000000-0000-0000-0000-000000000000";
    assert_eq!(all(&column, &[1]), [text, text, &format!("'{text}'")]);
    column.meaning = Meaning::Inet6;
    assert_eq!(all(&column, &[])[2], "'::'");
    column.meaning = Meaning::Inet4;
    assert_eq!(all(&column, &[10, 0, 0])[0], "10.0.0.0");
    let value = ColumnValue::new(&column, &[0; 5]).unwrap();
    assert!(value.text(&mut Vec::new()).is_err());
}
