//! Sets against a model, texts and encodings there and back, and made-up bytes.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
const B: &str = "4e11fa47-71ca-11e1-9e33-c80aa9429562";

fn set(text: &str) -> GtidSet {
    text.parse().unwrap()
}

#[test]
fn texts_are_made_canonical() {
    assert_eq!(set("").to_string(), "");
    assert_eq!(
        set(&format!("{A}:7:1-3:4:9-9,\n {B}:2")).to_string(),
        format!("{A}:1-4:7:9,{B}:2")
    );
    let tagged = set(&format!("{A}:1-3:Blue:4-5:red:1"));
    assert_eq!(
        tagged.to_string(),
        format!("{A}:1-3,{A}:blue:4-5,{A}:red:1")
    );
    assert_eq!(GtidSet::parse_previous(&tagged.encode()).unwrap(), tagged);
    for wrong in ["1-3", "x:1", A, &format!("{A}:0"), &format!("{A}:3-2")] {
        assert!(wrong.parse::<GtidSet>().is_err(), "{wrong}");
    }
    for wrong in [":", ":tag", ":1:", ":ta-g:1", ":1-9223372036854775807"] {
        assert!(format!("{A}{wrong}").parse::<GtidSet>().is_err(), "{wrong}");
    }
}

#[test]
fn reads_both_gtid_events() {
    let mut body = vec![0];
    body.extend_from_slice(&parse_uuid(A).unwrap());
    body.extend_from_slice(&300u64.to_le_bytes());
    body.extend_from_slice(&[2; 17]);
    assert_eq!(Gtid::parse(&body).unwrap().to_string(), format!("{A}:300"));
    body[17..25].fill(0);
    assert!(Gtid::parse(&body).is_err());
    // Version 1, size, last field; flags 1; a UUID with bytes of one and of two; 300; "tag".
    let mut body = vec![2, 2, 2, 0, 2, 2];
    for byte in parse_uuid(A).unwrap() {
        match byte {
            0..=127 => body.push(byte << 1),
            _ => body.extend_from_slice(&(u16::from(byte) << 2 | 1).to_le_bytes()),
        }
    }
    body.push(4);
    body.extend_from_slice(&(300u16 << 1 << 2 | 1).to_le_bytes());
    body.extend_from_slice(b"\x06\x06tag");
    let gtid = Gtid::parse_tagged(&body).unwrap();
    assert_eq!(gtid.to_string(), format!("{A}:tag:300"));
    for length in 0..body.len() {
        assert!(Gtid::parse_tagged(&body[..length]).is_err(), "{length}");
    }
}

#[test]
fn integers_of_every_length() {
    for more in 0..8u32 {
        let value = (1u64 << (7 * more + 6)) | 1;
        let coded = value << (more + 1) | ((1 << more) - 1);
        let bytes = &coded.to_le_bytes()[..=more as usize];
        assert_eq!(varying(&mut Cursor::new(bytes, "")).unwrap(), value);
    }
    let bytes = [&[0xff][..], &[0xff; 8]].concat();
    assert_eq!(varying(&mut Cursor::new(&bytes, "")).unwrap(), u64::MAX);
}

#[test]
fn reads_mariadb_positions() {
    let mut position: MariaDbPosition = "1-2-30, 0-1-100".parse().unwrap();
    assert_eq!(position.to_string(), "0-1-100,1-2-30");
    let body = [&31u64.to_le_bytes()[..], &[1, 0, 0, 0, 0x21]].concat();
    let (gtid, flags) = MariaDbGtid::parse(7, &body).unwrap();
    assert!(flags.is_standalone() && flags.is_ddl() && !flags.prepares());
    assert!(!position.contains(gtid));
    position.advance(gtid);
    assert!(position.contains(gtid));
    assert_eq!(position.to_string(), "0-1-100,1-7-31");
    for wrong in ["1-2", "1-2-x", "1-2-3,1-3-4", "1-2-3-4", "4294967296-1-1"] {
        assert!(wrong.parse::<MariaDbPosition>().is_err(), "{wrong}");
    }
    let mut body = (2u32 | 1 << 29).to_le_bytes().to_vec();
    for (domain, server, sequence) in [(0u32, 1u32, 5u64), (0, 2, 4)] {
        body.extend_from_slice(&domain.to_le_bytes());
        body.extend_from_slice(&server.to_le_bytes());
        body.extend_from_slice(&sequence.to_le_bytes());
    }
    let list = MariaDbPosition::parse_list(&body).unwrap();
    assert_eq!(list.to_string(), "0-2-4");
    assert!(MariaDbPosition::parse_list(&body[..30]).is_err());
}

fn model() -> impl Strategy<Value = BTreeSet<(bool, u64)>> {
    proptest::collection::btree_set((any::<bool>(), 1u64..24), 0..20)
}

fn of_model(model: &BTreeSet<(bool, u64)>) -> GtidSet {
    let mut set = GtidSet::default();
    // Neither forwards nor backwards.
    for (is_b, number) in model.iter().rev().step_by(2).chain(model) {
        let uuid = parse_uuid(if *is_b { B } else { A }).unwrap();
        let tag = if *is_b { "t" } else { "" }.to_owned();
        set.add(&Gtid {
            source: Source { uuid, tag },
            number: *number,
        });
    }
    set
}

proptest! {
    #[test]
    fn sets_behave_as_sets(a in model(), b in model()) {
        let (first, second) = (of_model(&a), of_model(&b));
        let mut union = first.clone();
        union.union(&second);
        prop_assert_eq!(&union, &of_model(&(&a | &b)));
        let mut rest = first.clone();
        rest.subtract(&second);
        prop_assert_eq!(&rest, &of_model(&(&a - &b)));
        prop_assert_eq!(first.is_subset(&second), a.is_subset(&b));
        prop_assert!(first.is_subset(&union));
        prop_assert_eq!(first.is_empty(), a.is_empty());
        prop_assert_eq!(first.count(), a.len() as u64);
        prop_assert_eq!(&set(&union.to_string()), &union);
        prop_assert_eq!(&GtidSet::parse_previous(&union.encode()).unwrap(), &union);
        for number in 1..25 {
            let source = Source { uuid: parse_uuid(A).unwrap(), tag: String::new() };
            let gtid = Gtid { source, number };
            prop_assert_eq!(first.contains(&gtid), a.contains(&(false, number)));
        }
    }

    #[test]
    fn any_bytes_and_texts_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..80),
                                        text in "[0-9a-f:,-]{0,60}") {
        let _ = (Gtid::parse(&bytes), Gtid::parse_tagged(&bytes));
        let _ = (MariaDbGtid::parse(1, &bytes), MariaDbPosition::parse_list(&bytes));
        let _ = GtidSet::parse_previous(&bytes);
        let _ = (text.parse::<GtidSet>(), text.parse::<MariaDbPosition>());
    }

    #[test]
    fn damaged_sets_are_answered(a in model(), at in any::<usize>(), byte in any::<u8>()) {
        let mut bytes = of_model(&a).encode();
        let length = bytes.len();
        bytes[at % length] = byte;
        let _ = GtidSet::parse_previous(&bytes);
    }
}
