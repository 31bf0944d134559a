//! Table maps as servers write them, with and without optional metadata, and damaged ones.

use super::*;

/// A table map of columns that are all nullable. `optional` are kinds and fields.
pub(crate) fn table(columns: &[(u8, &[u8])], optional: &[(u8, &[u8])]) -> Vec<u8> {
    let mut body = vec![7, 0, 0, 0, 0, 0, 1, 0];
    body.extend_from_slice(b"\x02db\0\x01t\0");
    body.push(columns.len() as u8);
    body.extend(columns.iter().map(|(code, _)| *code));
    let metadata: Vec<u8> = columns.iter().flat_map(|(_, m)| m.to_vec()).collect();
    body.push(metadata.len() as u8);
    body.extend_from_slice(&metadata);
    body.resize(body.len() + columns.len().div_ceil(8), 0xff);
    for (kind, field) in optional {
        body.push(*kind);
        body.push(field.len() as u8);
        body.extend_from_slice(field);
    }
    body
}

/// One column of each kind that has its own form.
pub(crate) const ALL: [(u8, &[u8]); 22] = [
    (1, b""),
    (2, b""),
    (9, b""),
    (3, b""),
    (8, b""),
    (4, b"\x04"),
    (5, b"\x08"),
    (246, b"\x05\x02"),
    (13, b""),
    (10, b""),
    (19, b"\x06"),
    (18, b"\x03"),
    (17, b"\0"),
    (16, b"\x01\x01"),
    (254, b"\xfe\x04"),
    (15, b"\x2c\x01"),
    (252, b"\x02"),
    (254, b"\xf7\x01"),
    (254, b"\xf8\x01"),
    (245, b"\x04"),
    (255, b"\x04"),
    (242, b"\x04"),
];

#[test]
fn reads_every_kind() {
    let table = TableMap::parse(&table(&ALL, &[])).unwrap();
    assert_eq!(
        (table.id, &table.schema[..], &table.name[..]),
        (7, &b"db"[..], &b"t"[..])
    );
    let kinds: Vec<Kind> = table.columns.iter().map(|column| column.kind).collect();
    assert_eq!(kinds[13], Kind::Bit { bytes: 2 });
    assert_eq!(kinds[14], Kind::Char { bytes: 4 });
    assert_eq!(kinds[15], Kind::VarChar { bytes: 300 });
    assert_eq!(kinds[17], Kind::Enum { bytes: 1 });
    assert_eq!(kinds[18], Kind::Set { bytes: 1 });
    assert!(table.columns.iter().all(|column| column.is_nullable));
}

#[test]
fn long_chars_hide_their_length_in_the_type() {
    for length in [255u16, 256, 511, 512, 765, 1020] {
        let code = 254 ^ ((length >> 4) as u8 & 0x30);
        let metadata = [code, length as u8];
        let table = TableMap::parse(&table(&[(254, &metadata)], &[])).unwrap();
        assert_eq!(table.columns[0].kind, Kind::Char { bytes: length });
    }
}

#[test]
fn optional_metadata_finds_its_columns() {
    let columns: [(u8, &[u8]); 7] = [
        (13, b""),
        (3, b""),
        (15, b"\x0a\0"),
        (254, b"\xf7\x01"),
        (254, b"\xfe\x04"),
        (254, b"\xf8\x01"),
        (252, b"\x02"),
    ];
    let body = table(
        &columns,
        &[
            (1, &[0b1100_0000]),
            // The second text column has another collation than the default.
            (2, &[255, 1, 63]),
            (4, b"\x01y\x01i\x01v\x01e\x01c\x01s\x01b"),
            (5, b"\x02\x01x\x01y"),
            (6, b"\x01\x03one"),
            (9, &[1, 0, 2, 5]),
            (12, &[0b1111_1100]),
            (99, b"what is yet to come"),
        ],
    );
    // 255 begins no length-encoded number; 0xfc does.
    assert!(TableMap::parse(&body).is_err());
    let at = body.windows(4).position(|w| w == [2, 3, 255, 1]).unwrap();
    let mut body = body;
    body[at + 2] = 45;
    let table = TableMap::parse(&body).unwrap();
    let column = |at: usize| &table.columns[at];
    assert_eq!(
        (column(0).is_unsigned, column(1).is_unsigned),
        (Some(true), Some(true))
    );
    assert_eq!(column(2).is_unsigned, None);
    assert_eq!(column(2).collation, Some(45));
    assert!(column(4).is_binary());
    assert_eq!((column(6).collation, column(3).collation), (Some(45), None));
    assert_eq!(column(5).name.as_deref(), Some(&b"s"[..]));
    assert_eq!(column(5).members, Some(vec![b"x".to_vec(), b"y".to_vec()]));
    assert_eq!(column(3).members, Some(vec![b"one".to_vec()]));
    assert_eq!(table.primary_key, Some(vec![(1, 0), (2, 5)]));
    assert_eq!(
        (column(5).is_visible, column(6).is_visible),
        (Some(true), Some(false))
    );
}

#[test]
fn what_is_not_known_is_named() {
    let error = TableMap::parse(&table(&[(20, b"")], &[])).unwrap_err();
    assert!(error.to_string().contains("type 20"), "{error}");
    let whole = table(&ALL, &[]);
    for length in 0..whole.len() {
        assert!(TableMap::parse(&whole[..length]).is_err(), "{length}");
    }
}

proptest::proptest! {
    #[test]
    fn damaged_maps_are_answered(at in 0usize..200, byte in 0u8.., more in 0usize..40) {
        let mut body = table(&ALL, &[(1, b"\xff\xff"), (2, b"\x2d\x01\x3f"), (4, b"\x01a")]);
        let length = body.len();
        body[at % length] = byte;
        body[(at + more) % length] = byte.rotate_left(3);
        let _ = TableMap::parse(&body);
    }
}
