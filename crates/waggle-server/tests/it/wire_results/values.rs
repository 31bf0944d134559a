//! Values there and back: every type, parameters of any type, and sizes around a frame's.

use waggle_wire::Value;

use super::{each_server, one, run, shown};

/// Type, and two values beside NULL.
const TYPES: [(&str, &str, &str); 34] = [
    ("TINYINT", "-128", "127"),
    ("TINYINT UNSIGNED", "0", "255"),
    ("SMALLINT", "-32768", "32767"),
    ("SMALLINT UNSIGNED", "0", "65535"),
    ("MEDIUMINT", "-8388608", "8388607"),
    ("MEDIUMINT UNSIGNED", "0", "16777215"),
    ("INT", "-2147483648", "2147483647"),
    ("INT UNSIGNED", "0", "4294967295"),
    ("BIGINT", "-9223372036854775808", "9223372036854775807"),
    ("BIGINT UNSIGNED", "0", "18446744073709551615"),
    ("FLOAT", "-1.5", "0.25"),
    ("DOUBLE", "-0.1", "123456.789"),
    ("DECIMAL(30,10)", "-1.5", "12345678901234567890.0123456789"),
    ("BIT(1)", "b'0'", "b'1'"),
    ("BIT(64)", "b'101'", "~0"),
    ("YEAR", "1901", "2155"),
    ("DATE", "'1000-01-01'", "'9999-12-31'"),
    ("TIME", "'-838:59:59'", "'838:59:59'"),
    ("TIME(6)", "'00:00:00.000001'", "'-12:34:56.789'"),
    ("DATETIME", "'1000-01-01 00:00:00'", "'9999-12-31 23:59:59'"),
    (
        "DATETIME(3)",
        "'2026-02-28 00:00:00'",
        "'2026-11-20 01:02:03.456'",
    ),
    (
        "TIMESTAMP(6) NULL",
        "'1971-01-01 00:00:00'",
        "'2037-12-31 23:59:59.999999'",
    ),
    ("CHAR(10)", "''", "'zehn'"),
    ("VARCHAR(300)", "'é😀'", "REPEAT('v', 300)"),
    ("BINARY(4)", "x'00'", "x'deadbeef'"),
    ("VARBINARY(9)", "''", "x'00ff00'"),
    ("TINYBLOB", "''", "REPEAT(x'00', 255)"),
    ("BLOB", "REPEAT(x'fb', 250)", "REPEAT(x'fe', 65535)"),
    ("MEDIUMTEXT", "REPEAT('m', 251)", "REPEAT('m', 70000)"),
    ("LONGTEXT", "''", "REPEAT('l', 65536)"),
    ("ENUM('a','b')", "'a'", "'b'"),
    ("SET('x','y','z')", "''", "'x,z'"),
    ("JSON", "'{\"a\": [1, null]}'", "'\"text\"'"),
    (
        "GEOMETRY",
        "ST_GeomFromText('POINT(1 2)')",
        "ST_GeomFromText('LINESTRING(0 0,1 1)')",
    ),
];

#[test]
fn every_type_reads_alike_as_text_and_binary() {
    each_server(|flavour, _, connection| {
        let columns: Vec<String> = TYPES
            .iter()
            .enumerate()
            .map(|(i, (kind, ..))| format!("c{i} {kind}"))
            .collect();
        run(connection, "DROP TABLE IF EXISTS kinds");
        run(
            connection,
            &format!(
                "CREATE TABLE kinds (id INT PRIMARY KEY, {})",
                columns.join(", ")
            ),
        );
        let values = |pick: fn(&(&'static str, &'static str, &'static str)) -> &'static str| {
            TYPES.iter().map(pick).collect::<Vec<_>>().join(", ")
        };
        for (id, row) in [values(|t| t.1), values(|_| "NULL"), values(|t| t.2)]
            .iter()
            .enumerate()
        {
            run(
                connection,
                &format!("INSERT INTO kinds VALUES ({id}, {row})"),
            );
        }
        const ALL: &[u8] = b"SELECT * FROM kinds ORDER BY id";
        let text = connection.query_rows(ALL).unwrap();
        assert_eq!((text.len(), text[0].len()), (3, TYPES.len() + 1));
        let mut statement = connection.prepare(ALL).unwrap();
        // The second execution may come without the columns, a skipped one lies between.
        for _ in 0..2 {
            let binary = connection.execute_rows(&mut statement, &[]).unwrap();
            for (text, binary) in text.iter().zip(&binary) {
                for (i, (text, binary)) in text.iter().zip(binary).enumerate() {
                    let kind = TYPES[i.saturating_sub(1)].0;
                    assert_eq!(text, binary, "{flavour}: {kind}");
                }
            }
            assert_eq!(text, binary);
            assert_eq!(connection.execute(&mut statement, &[]).unwrap().rows, 3);
        }
        // Columns that change under the statement are read by their new types.
        run(connection, "ALTER TABLE kinds MODIFY c0 BIGINT");
        assert_eq!(connection.execute(&mut statement, &[]).unwrap().rows, 3);
        let binary = connection.execute_rows(&mut statement, &[]).unwrap();
        assert_eq!(shown(&binary), shown(&connection.query_rows(ALL).unwrap()));
    });
}

#[test]
fn parameters_arrive_as_given_whatever_their_types_before() {
    each_server(|flavour, _, connection| {
        run(connection, "DROP TABLE IF EXISTS given");
        run(
            connection,
            "CREATE TABLE given (id INT PRIMARY KEY AUTO_INCREMENT, a VARCHAR(50), b VARCHAR(50))",
        );
        let long = "x".repeat(50);
        let values = [
            (Value::Null, None),
            (Value::Int(i64::MIN), Some("-9223372036854775808")),
            (Value::Int(7), Some("7")),
            (Value::UInt(u64::MAX), Some("18446744073709551615")),
            (Value::Double(-0.5), Some("-0.5")),
            (Value::Bytes(b""), Some("")),
            (Value::Bytes("é😀".as_bytes()), Some("é😀")),
            (Value::Bytes(long.as_bytes()), Some(&long[..])),
        ];
        let mut insert = connection
            .prepare(b"INSERT INTO given (a, b) VALUES (?, ?)")
            .unwrap();
        let mut expected = Vec::new();
        for (a, a_text) in values {
            for (b, b_text) in values {
                let done = connection.execute(&mut insert, &[a, b]).unwrap();
                assert_eq!((done.affected, done.result_sets), (1, 0));
                assert_eq!(done.last_insert_id, expected.len() as u64 + 1);
                expected.push([a_text, b_text].map(|text| text.unwrap_or("NULL").to_owned()));
            }
        }
        let rows = connection
            .query_rows(b"SELECT a, b FROM given ORDER BY id")
            .unwrap();
        assert_eq!(shown(&rows), expected, "{flavour}");
        let mut refused = connection
            .prepare(b"INSERT INTO given (id, a) VALUES (?, ?)")
            .unwrap();
        for (id, outcome) in [
            (900, None),
            (900, Some(1062)),
            (901, None),
            (901, Some(1062)),
        ] {
            let done = connection.execute(&mut refused, &[Value::Int(id), Value::Double(0.5)]);
            assert_eq!(done.err().and_then(|error| error.errno()), outcome);
        }
        assert!(connection.is_usable());
    });
}

#[test]
fn values_and_commands_at_the_frame_border_and_past_it() {
    const FRAME: usize = 0xff_ffff;
    each_server(|flavour, _, connection| {
        // A value of n bytes makes a row of n + 4 or, from 16 MiB on, n + 9.
        let mut lengths: Vec<usize> = (FRAME - 5..=FRAME + 2).collect();
        lengths.push(20 << 20);
        let mut select = connection
            .prepare(b"SELECT REPEAT('v', ?) UNION ALL SELECT 'next'")
            .unwrap();
        for length in lengths {
            let sql = format!("SELECT REPEAT('v', {length}) UNION ALL SELECT 'next'");
            let text = connection.query_rows(sql.as_bytes()).unwrap();
            let params = [Value::UInt(length as u64)];
            let binary = connection.execute_rows(&mut select, &params).unwrap();
            assert!(text == binary, "{flavour}: {length}");
            assert_eq!(text[1], [Some(b"next".to_vec())]);
            let value = text[0][0].as_ref().unwrap();
            assert!(value.len() == length && value.iter().all(|byte| *byte == b'v'));
            assert_eq!(connection.query(sql.as_bytes()).unwrap().rows, 2);
            assert_eq!(connection.execute(&mut select, &params).unwrap().rows, 2);
        }
        let mut measure = connection.prepare(b"SELECT LENGTH(?)").unwrap();
        for length in FRAME - 30..=FRAME + 2 {
            // Every third: the command, its byte and its text, is around the border with one.
            if length % 3 != 0 && length < FRAME - 2 {
                continue;
            }
            let sql = format!("SELECT LENGTH('{}')", "c".repeat(length - 17));
            let counted = one(connection, &sql).unwrap();
            assert_eq!(counted, (length - 17).to_string());
            let bytes = vec![b'p'; length - 16];
            let rows = connection
                .execute_rows(&mut measure, &[Value::Bytes(&bytes)])
                .unwrap();
            assert_eq!(shown(&rows), [[bytes.len().to_string()]]);
        }
    });
}
