//! Values as the server stores them, and values that it never would.

use super::*;

fn text(bytes: &[u8]) -> Result<String, Error> {
    let mut out = Vec::new();
    put(bytes, &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

fn shown(bytes: &[u8]) -> String {
    text(bytes).unwrap()
}

#[test]
fn scalars() {
    assert_eq!(shown(b""), "null");
    assert_eq!(shown(b"\x04\0"), "null");
    assert_eq!(shown(b"\x04\x01"), "true");
    assert_eq!(shown(b"\x04\x02"), "false");
    assert_eq!(shown(b"\x05\0\x80"), "-32768");
    assert_eq!(shown(b"\x06\xff\xff"), "65535");
    assert_eq!(shown(b"\x07\xff\xff\xff\xff"), "-1");
    assert_eq!(
        shown(&[10, 255, 255, 255, 255, 255, 255, 255, 255]),
        "18446744073709551615"
    );
    let double = |number: f64| shown(&[&[11][..], &number.to_le_bytes()].concat());
    assert_eq!(double(1.0), "1.0");
    assert_eq!(double(-0.0), "-0.0");
    assert_eq!(double(0.1), "0.1");
    assert_eq!(double(1e100), "1e100");
    assert_eq!(
        shown(b"\x0c\x08a\"\\\n\x01\x7f\xc3\xa9"),
        "\"a\\\"\\\\\\n\\u0001\u{7f}é\""
    );
    // A length of two bytes.
    let long = [&b"\x0c\x80\x01"[..], &[b'x'; 128]].concat();
    assert_eq!(shown(&long), format!("\"{}\"", "x".repeat(128)));
}

#[test]
fn types_that_json_has_not() {
    assert_eq!(shown(b"\x0f\xf6\x05\x05\x02\x80\x7b\x2d"), "123.45");
    let packed = |kind: u8, value: i64| shown(&[&[15, kind, 8][..], &value.to_le_bytes()].concat());
    let days = (2026 * 13 + 11) << 5 | 20;
    assert_eq!(packed(10, days << 17 << 24), "\"2026-11-20\"");
    let noon = (days << 17 | 12 << 12) << 24 | 5;
    assert_eq!(packed(12, noon), "\"2026-11-20 12:00:00.000005\"");
    assert_eq!(packed(11, -(1 << 24)), "\"-00:00:01.000000\"");
    assert_eq!(shown(b"\x0f\xfc\x01a"), "\"base64:type252:YQ==\"");
    assert_eq!(shown(b"\x0f\xfc\x03abc"), "\"base64:type252:YWJj\"");
}

#[test]
fn expressions_keep_types() {
    let made = |bytes: &[u8]| {
        let mut out = Vec::new();
        put_expression(bytes, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert_eq!(made(b"\x05\x07\0"), "_utf8mb4'7'");
    assert_eq!(made(b"\x06\x07\0"), "CAST(CAST(7 AS UNSIGNED) AS JSON)");
    assert_eq!(made(b"\x0c\x02'\\"), "_utf8mb4'\"\\'\\\\\\\\\"'");
    assert_eq!(
        made(b"\x0f\xf6\x05\x05\x02\x80\x7b\x2d"),
        "CAST(CAST(123.45 AS DECIMAL(5,2)) AS JSON)"
    );
    let mut nested = NESTED.to_vec();
    nested[3] = (nested.len() - 1) as u8;
    assert!(is_plain(&nested).unwrap());
    nested[13] = 6; // the integer
    assert!(!is_plain(&nested).unwrap());
    assert_eq!(
        made(&nested),
        "CAST(JSON_OBJECT(_utf8mb4'a', CAST(1 AS UNSIGNED), _utf8mb4'b', \
         JSON_ARRAY(CAST('true' AS JSON), _utf8mb4'x')) AS JSON)"
    );
    let mut out = Vec::new();
    assert!(made(b"\x0f\xfc\x01a").contains("JSON_ARRAY(x'61'), '$[0]' COLUMNS (x LONGBLOB"));
    assert!(made(b"\x0f\x0f\x01a").contains("JSON_EXTRACT(JSON_ARRAY(x'61'), '$[0]')"));
    for kind in [248, 249, 250, 251, 253] {
        let error = put_expression(&[15, kind, 1, b'a'], &mut out).unwrap_err();
        assert!(matches!(error, Error::Unsupported(_)), "{error}");
    }
}

/// `{"a": 1, "b": [true, "x"]}`.
const NESTED: &[u8] = b"\x00\x02\0\x22\0\x12\0\x01\0\x13\0\x01\0\x05\x01\0\x02\x14\0ab\
                        \x02\0\x0c\0\x04\x01\0\x0c\x0a\0\x01x";

#[test]
fn containers() {
    let mut nested = NESTED.to_vec();
    // The size counts from the object's count.
    nested[3] = (nested.len() - 1) as u8;
    assert_eq!(shown(&nested), r#"{"a": 1, "b": [true, "x"]}"#);
    assert_eq!(shown(b"\x02\0\0\x04\0"), "[]");
    assert_eq!(shown(b"\x00\0\0\x04\0"), "{}");
    // A large array holds numbers of four bytes in place.
    let large = b"\x03\x01\0\0\0\x0d\0\0\0\x07\xff\xff\xff\x7f";
    assert_eq!(shown(large), "[2147483647]");
    for length in 1..nested.len() {
        assert!(text(&nested[..length]).is_err(), "{length}");
    }
}

#[test]
fn parts_that_are_used_twice_or_hold_themselves_are_refused() {
    // An array of two, both of which are the array itself.
    let own = b"\x02\x02\0\x0a\0\x02\0\0\x02\0\0";
    assert!(text(own).is_err());
    // Each array of a chain holds the next one many times.
    let mut bytes = vec![2];
    let links = 8usize;
    for link in 0..links {
        let here = link * 304;
        bytes.extend_from_slice(&100u16.to_le_bytes());
        bytes.extend_from_slice(&((links * 304 + 4 - here) as u16).to_le_bytes());
        for _ in 0..100 {
            bytes.extend_from_slice(&[2, (304u16 as u8), 1]);
        }
    }
    bytes.extend_from_slice(&[0, 0, 4, 0]);
    let mut out = Vec::new();
    assert!(put(&bytes, &mut out).is_err());
    assert!(out.len() < 10 * bytes.len());
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(3000))]
    #[test]
    fn damaged_values_are_answered(damage in proptest::collection::vec((0usize..64, 0u8..), 1..4),
                                   any in proptest::collection::vec(0u8.., 0..60)) {
        let mut nested = NESTED.to_vec();
        nested[3] = (nested.len() - 1) as u8;
        let length = nested.len();
        for (at, byte) in damage {
            nested[at % length] = byte;
        }
        for bytes in [&nested, &any] {
            let mut out = Vec::new();
            let _ = put(bytes, &mut out);
            let _ = put_expression(bytes, &mut Vec::new());
            // At worst every byte is a control character, of six bytes each.
            assert!(out.len() <= 64 + 8 * bytes.len());
            let _ = Changes::new(bytes).count();
        }
    }
}

/// Operation, path and value of each change, as a log holds them.
fn diffs(changes: &[(u8, &str, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (operation, path, value) in changes {
        bytes.extend_from_slice(&[*operation, path.len() as u8]);
        bytes.extend_from_slice(path.as_bytes());
        if *operation != 2 {
            bytes.push(value.len() as u8);
            bytes.extend_from_slice(value);
        }
    }
    bytes
}

#[test]
fn changes_become_calls_that_start_from_the_value_before() {
    let bytes = diffs(&[
        (0, "$.a", b"\x05\x07\0"),
        (0, "$.b'c", b"\x0c\x01x"),
        (2, "$.d", b""),
        (1, "$.e[0]", b"\x04\x01"),
        (1, "$.\"f]\"", b"\x06\x07\0"),
    ]);
    let mut out = Vec::new();
    put_changed(b"\x04\0", Changes::new(&bytes), &mut out).unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "JSON_INSERT(JSON_ARRAY_INSERT(JSON_REMOVE(JSON_REPLACE(CAST(_utf8mb4'null' AS JSON), \
         _utf8mb4'$.a', CAST(_utf8mb4'7' AS JSON), \
         _utf8mb4'$.b\\'c', CAST(_utf8mb4'\"x\"' AS JSON)), _utf8mb4'$.d'), \
         _utf8mb4'$.e[0]', CAST(_utf8mb4'true' AS JSON)), \
         _utf8mb4'$.\"f]\"', CAST(CAST(7 AS UNSIGNED) AS JSON))"
    );
    let mut same = Vec::new();
    put_changed(b"\x04\x01", Changes::new(b""), &mut same).unwrap();
    assert_eq!(same, b"CAST(_utf8mb4'true' AS JSON)");
    for length in 1..bytes.len() {
        let mut out = Vec::new();
        let is_whole = Changes::new(&bytes[..length]).all(|change| change.is_ok());
        let made = put_changed(b"\x04\0", Changes::new(&bytes[..length]), &mut out);
        assert!(is_whole || made.is_err(), "{length}");
    }
}
