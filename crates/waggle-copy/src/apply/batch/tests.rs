//! Changes in random order, against a table that takes them one by one.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::range::{KeyValue, Range as KeyRange};
use crate::table::{Column, Key, Kind, Table, TableName};

fn table() -> Table {
    let name = TableName {
        schema: "a".to_owned(),
        name: "t".to_owned(),
    };
    let column = |name: &str, is_generated: bool| Column {
        name: name.to_owned(),
        kind: Kind::Integer,
        column_type: "int".to_owned(),
        charset: None,
        collation: None,
        is_nullable: false,
        is_generated,
        is_invisible: false,
    };
    Table {
        number: 4,
        source: name.clone(),
        target: name,
        columns: vec![column("id", false), column("u", false), column("g", true)],
        key: Some(Key {
            name: "PRIMARY".to_owned(),
            columns: vec![0],
        }),
        is_mariadb: true,
        definition: String::new(),
        rows_estimate: 0,
        bytes_estimate: 0,
        typed_json: Vec::new(),
    }
}

fn statements(batch: &Batch, shapes: &[Shape<'_>]) -> Vec<String> {
    let mut all = Vec::new();
    let mut send = |sql: &[u8]| {
        all.push(String::from_utf8(sql.to_vec()).unwrap());
        Ok(())
    };
    batch.statements(shapes, false, &mut send).unwrap();
    all
}

#[test]
fn each_key_has_one_outcome() {
    let table = table();
    let shapes = [Shape::new(&table, &[])];
    let mut batch = Batch::new(1);
    batch.put(0, b"1", b"(1,5)");
    batch.put(0, b"2", b"(2,6)");
    batch.put(0, b"1", b"(1,7)");
    batch.delete(0, b"3");
    batch.delete(0, b"2");
    batch.delete(0, b"4");
    assert_eq!(
        statements(&batch, &shapes),
        [
            "DELETE FROM `a`.`t` WHERE `id` IN (2,3,4)",
            "REPLACE INTO `a`.`t` (`id`, `u`) VALUES (1,7)",
        ]
    );
    let mut building = Vec::new();
    let mut send = |sql: &[u8]| {
        building.push(String::from_utf8(sql.to_vec()).unwrap());
        Ok(())
    };
    batch.statements(&shapes, true, &mut send).unwrap();
    assert_eq!(building[0], "DELETE FROM `a`.`t` WHERE `id` IN (1,2,3,4)");
    assert_eq!(building.len(), 2);
    batch.clear();
    assert!(statements(&batch, &shapes).is_empty());
}

#[test]
fn keys_of_a_set_are_not_listed() {
    let mut table = table();
    table.columns[0].kind = Kind::Set;
    let shapes = [Shape::new(&table, &[])];
    let mut batch = Batch::new(1);
    batch.delete(0, b"`id` = 1");
    batch.delete(0, b"(`id` & 18446744073709551615) = 9223372036854775809");
    assert_eq!(
        statements(&batch, &shapes),
        ["DELETE FROM `a`.`t` WHERE (`id` = 1) OR \
             ((`id` & 18446744073709551615) = 9223372036854775809)"]
    );
}

#[test]
fn ranges_that_are_not_copied_are_cleared_again() {
    let table = table();
    let key = |n: &str| Some(KeyValue(vec![n.as_bytes().to_vec()]));
    let range = |number, low, high, frontier, is_done| KeyRange {
        table: 4,
        number,
        low,
        high,
        frontier,
        is_done,
        rows: 0,
        bytes: 0,
    };
    let ranges = [
        range(0, None, key("10"), key("10"), true),
        range(1, key("10"), key("20"), key("15"), false),
        range(2, key("20"), None, None, false),
    ];
    let shapes = [Shape::new(&table, &ranges)];
    let mut batch = Batch::new(1);
    batch.put(0, b"17", b"(17,1)");
    assert_eq!(
        statements(&batch, &shapes)[1..],
        [
            "DELETE FROM `a`.`t` WHERE ((`id` > 15)) AND ((`id` <= 20))",
            "DELETE FROM `a`.`t` WHERE ((`id` > 20))",
        ]
    );
    assert!(!shapes[0].is_untouched);
    assert!(Shape::new(&table, &ranges[2..]).is_untouched);
}

#[test]
fn statements_are_cut_to_a_size() {
    let table = table();
    let shapes = [Shape::new(&table, &[])];
    let mut batch = Batch::new(1);
    let row = vec![b'x'; STATEMENT_BYTES / 3];
    for n in 0..10u8 {
        batch.put(0, &[n], &row);
        batch.delete(0, &[b'd', n]);
    }
    let all = statements(&batch, &shapes);
    assert_eq!(all.len(), 1 + 5);
    assert!(all.iter().all(|sql| sql.len() <= STATEMENT_BYTES + 200));
    for n in 0..=KEYS_AT_ONCE {
        batch.delete(0, n.to_string().as_bytes());
    }
    assert_eq!(statements(&batch, &shapes).len(), 2 + 5);
}

/// A table with a unique column, as `REPLACE` and `DELETE` treat it.
fn replace(rows: &mut BTreeMap<u8, u8>, id: u8, u: u8) {
    rows.retain(|_, other| *other != u);
    rows.insert(id, u);
}

proptest! {
    /// Whatever legal history of rows and unique values: applied as a batch to the rows before it,
    /// or to those after it (a resume), what comes out is what the source has.
    #[test]
    fn a_batch_comes_to_what_its_history_comes_to(
        before in proptest::collection::vec((0u8..12, 0u8..12), 0..12),
        history in proptest::collection::vec((0u8..12, 0u8..12, any::<bool>()), 1..60),
    ) {
        let table = table();
        let shapes = [Shape::new(&table, &[])];
        let mut source = BTreeMap::new();
        for (id, u) in before {
            if !source.values().any(|other| *other == u) {
                source.insert(id, u);
            }
        }
        let start = source.clone();
        let mut batch = Batch::new(1);
        for (id, u, is_deleted) in history {
            if is_deleted {
                if source.remove(&id).is_some() {
                    batch.delete(0, id.to_string().as_bytes());
                }
            } else if !source.iter().any(|(other, taken)| *other != id && *taken == u) {
                source.insert(id, u);
                let row = format!("({id},{u})");
                batch.put(0, id.to_string().as_bytes(), row.as_bytes());
            }
        }
        for mut target in [start, source.clone()] {
            for sql in statements(&batch, &shapes) {
                let (head, list) = sql.split_once(" (").unwrap();
                let numbers = |text: &str| -> Vec<u8> {
                    text.split(|c: char| !c.is_ascii_digit())
                        .filter_map(|number| number.parse().ok())
                        .collect()
                };
                if head.starts_with("DELETE") {
                    for id in numbers(list) {
                        target.remove(&id);
                    }
                } else {
                    let values = numbers(list.split_once("VALUES").unwrap().1);
                    for pair in values.chunks(2) {
                        replace(&mut target, pair[0], pair[1]);
                    }
                }
            }
            prop_assert_eq!(&target, &source);
        }
    }
}
