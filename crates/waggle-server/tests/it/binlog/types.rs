//! Every type at its edges: read from the log, and stored again from the log's words.

use waggle_server::Flavour;
use waggle_wire::binlog::event::kind;
use waggle_wire::binlog::json;
use waggle_wire::binlog::rows::RowsEvent;
use waggle_wire::binlog::stream::Dump;
use waggle_wire::binlog::table_map::TableMap;
use waggle_wire::{Connection, Row};

use super::follow::{follow, text};
use super::kinds::{create, types};
use super::{Position, connect, each_server, request, run, run_bytes, shown};

/// The table as the server reads it, with FLOATs in full.
fn selected(connection: &mut Connection, name: &str, types: &[(&str, &[&str])]) -> Vec<Row> {
    let columns = types.iter().enumerate().map(|(i, t)| match t.0 {
        "FLOAT" => format!(", CAST(c{i} AS DOUBLE)"),
        _ => format!(", c{i}"),
    });
    let columns: String = columns.collect();
    let sql = format!("SELECT id{columns} FROM {name} ORDER BY id");
    connection.query_rows(sql.as_bytes()).unwrap()
}

/// Numbers with a fraction are compared by their bits.
fn assert_same(kind: &str, expected: &Option<Vec<u8>>, found: &Option<Vec<u8>>) {
    let bits = |text: &Option<Vec<u8>>| {
        let text = String::from_utf8(text.clone()?).unwrap();
        Some(text.parse::<f64>().unwrap().to_bits())
    };
    let shown = |text: &Option<Vec<u8>>| {
        text.as_ref()
            .map(|text| String::from_utf8_lossy(&text[..text.len().min(300)]).into_owned())
    };
    let is_same = match kind {
        "FLOAT" | "DOUBLE" => bits(expected) == bits(found),
        "JSON" => json_parts(expected) == json_parts(found),
        _ => expected == found,
    };
    assert!(
        is_same,
        "{kind}: {:?} is not {:?}",
        shown(found),
        shown(expected)
    );
}

/// JSON with its numbers by value: the server prints some doubles with more digits.
fn json_parts(text: &Option<Vec<u8>>) -> Option<Vec<String>> {
    let text = String::from_utf8(text.clone()?).unwrap();
    let is_number = |part: &str| part.contains(['.', 'e']) && part.parse::<f64>().is_ok();
    Some(
        text.split(", ")
            .map(|part| {
                let bare = part.trim_matches(['[', ']']);
                match is_number(bare) {
                    true => format!("{:x}", bare.parse::<f64>().unwrap().to_bits()),
                    false => part.to_owned(),
                }
            })
            .collect(),
    )
}

#[test]
fn every_type_reads_as_the_server_reads_it() {
    each_server(|flavour, sandbox, connection| {
        let types = types(flavour);
        create(connection, "kinds", &types);
        for copy in ["literals", "fields"] {
            create(connection, copy, &types);
        }
        let position = Position::now(connection);
        let mut id = 0;
        for (i, (kind, values)) in types.iter().enumerate() {
            for value in *values {
                id += 1;
                let sql = format!("INSERT INTO kinds (id, c{i}) VALUES ({id}, {value})");
                let outcome = connection.query(sql.as_bytes());
                outcome.unwrap_or_else(|error| panic!("{kind} {value}: {error}"));
            }
        }
        let followed = follow(sandbox, position.start(), "kinds");
        let expected = selected(connection, "kinds", &types);
        assert_eq!((expected.len(), followed.changes.len()), (id, id));
        assert_eq!(followed.gtids.len(), id);
        compare(
            &types,
            &expected,
            followed.changes.iter().map(|c| c.2.as_ref().unwrap()),
        );

        for literal in &followed.literals {
            let sql = [b"INSERT INTO literals VALUES (", &literal[..], b")"].concat();
            run_bytes(connection, &sql);
        }
        compare(
            &types,
            &expected,
            selected(connection, "literals", &types).iter(),
        );
        if flavour == Flavour::MySql {
            assert_json_types(connection, &types);
        }
        load(connection, &types, &followed.fields);
        compare(
            &types,
            &expected,
            selected(connection, "fields", &types).iter(),
        );
    });
}

fn compare<'r>(types: &[(&str, &[&str])], expected: &[Row], found: impl Iterator<Item = &'r Row>) {
    for (expected, found) in expected.iter().zip(found) {
        assert_eq!(expected.len(), found.len());
        assert_eq!(expected[0], found[0]);
        for (i, (kind, _)) in types.iter().enumerate() {
            assert_same(kind, &expected[i + 1], &found[i + 1]);
        }
    }
}

/// Loads the fields as a copier would: types that take text only are told that it is text.
fn load(connection: &mut Connection, types: &[(&str, &[&str])], fields: &[Vec<u8>]) {
    let (mut names, mut sets) = (String::new(), Vec::new());
    for (i, (kind, _)) in types.iter().enumerate() {
        if matches!(*kind, "JSON" | "UUID" | "INET4" | "INET6") {
            names.push_str(&format!(", @c{i}"));
            sets.push(format!("c{i} = CONVERT(@c{i} USING utf8mb4)"));
        } else {
            names.push_str(&format!(", c{i}"));
        }
    }
    let sql = format!(
        "LOAD DATA LOCAL INFILE 'x' INTO TABLE fields CHARACTER SET binary (id{names}) SET {}",
        sets.join(", ")
    );
    let mut left = fields.iter();
    let mut fill = |buffer: &mut Vec<u8>| {
        left.next().map_or(0, |line| {
            buffer.extend_from_slice(line);
            1
        })
    };
    let loaded = connection.load_local(sql.as_bytes(), &mut fill).unwrap();
    assert_eq!(loaded.affected, fields.len() as u64);
}

/// Not only the text: what it was made of, too.
fn assert_json_types(connection: &mut Connection, types: &[(&str, &[&str])]) {
    let at = types.iter().position(|t| t.0 == "JSON").unwrap();
    let mut read = |table: &str| {
        let column = format!("c{at}");
        let part = |i: usize| format!("JSON_TYPE(JSON_EXTRACT({column}, '$[{i}]'))");
        let parts: Vec<String> = (0..7).map(part).collect();
        let parts = parts.join(", ");
        let sql = format!(
            "SELECT id, {column}, JSON_TYPE({column}), {parts} FROM {table} \
             WHERE {column} IS NOT NULL ORDER BY id"
        );
        connection.query_rows(sql.as_bytes()).unwrap()
    };
    let (expected, found) = (read("kinds"), read("literals"));
    assert!(expected.len() > 5);
    for (expected, found) in expected.into_iter().zip(found) {
        assert_eq!(shown(&Some(found)), shown(&Some(expected)));
    }
}

#[test]
fn binary_data_in_json_reads_as_the_server_reads_it_and_its_literal_makes_it_again() {
    each_server(|flavour, sandbox, connection| {
        if flavour == Flavour::MariaDb {
            return; // Its JSON is text.
        }
        run(
            connection,
            "CREATE TABLE t (id INT PRIMARY KEY, a JSON, b BLOB)",
        );
        let position = Position::now(connection);
        run(
            connection,
            "INSERT INTO t VALUES (1, NULL, REPEAT(x'00ff', 60)), (2, NULL, ''), \
                         (3, NULL, x'01'), (4, NULL, REPEAT('x', 57)), (5, NULL, REPEAT('y', 58))",
        );
        run(
            connection,
            "UPDATE t SET a = JSON_OBJECT('blob', b, 'bit', b'101')",
        );
        let mut dump = Dump::start(connect(sandbox), &request(position.start(), true)).unwrap();
        let (mut table, mut texts, mut literals) = (None, Vec::new(), Vec::new());
        while let Some(event) = dump.next().unwrap() {
            if event.header.kind == kind::TABLE_MAP {
                table = Some(TableMap::parse(event.body).unwrap());
            }
            if event.header.kind != kind::UPDATE_ROWS {
                continue;
            }
            let event = RowsEvent::parse(event.header.kind, event.body)
                .unwrap()
                .unwrap();
            let mut rows = event.rows(table.as_ref().unwrap()).unwrap();
            while let Some(change) = rows.next().unwrap() {
                let (_, value) = change.after.unwrap().values().nth(1).unwrap().unwrap();
                assert!(!json::is_plain(value.json().unwrap()).unwrap());
                let mut literal = Vec::new();
                value
                    .literal(&mut literal)
                    .expect("blobs and bits have one");
                literals.push(literal);
                texts.push(vec![text(&value)]);
            }
        }
        let expected = connection
            .query_rows(b"SELECT a FROM t ORDER BY id")
            .unwrap();
        assert_eq!(texts, expected);
        for (literal, expected) in literals.iter().zip(&expected) {
            let sql = [b"SELECT JSON_EXTRACT(", &literal[..], b", '$')"].concat();
            assert_eq!(connection.query_rows(&sql).unwrap()[0], *expected);
        }
    });
}
