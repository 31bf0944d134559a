//! Every type with values at its edges, and tables that have a column of each.

use waggle_server::Flavour;
use waggle_wire::Connection;
use waggle_wire::binlog::table_map::{Kind, Meaning, TableMap};

use super::run;

/// Types, each with values at its edges. NULL is tried with all of them.
const TYPES: &[(&str, &[&str])] = &[
    ("YEAR", &["0", "1901", "2155"]),
    ("TINYINT", &["-128", "127"]),
    ("TINYINT UNSIGNED", &["0", "255"]),
    ("SMALLINT", &["-32768", "32767"]),
    ("SMALLINT UNSIGNED", &["0", "65535"]),
    ("MEDIUMINT", &["-8388608", "8388607"]),
    ("MEDIUMINT UNSIGNED", &["0", "16777215"]),
    ("INT", &["-2147483648", "2147483647"]),
    ("INT UNSIGNED", &["0", "4294967295"]),
    ("BIGINT", &["-9223372036854775808", "9223372036854775807"]),
    (
        "BIGINT UNSIGNED",
        &["0", "18446744073709551615", "9223372036854775808"],
    ),
    (
        "FLOAT",
        &[
            "21666.66",
            "-0e0",
            "3.402823e38",
            "1.1754944e-38",
            "1e-45",
            "16777217",
        ],
    ),
    (
        "DOUBLE",
        &[
            "-0.1",
            "-0e0",
            "1.7976931348623157e308",
            "5e-324",
            "0.1e0+0.2e0",
            "1e22",
        ],
    ),
    (
        "DECIMAL(65,30)",
        &[
            "99999999999999999999999999999999999.999999999999999999999999999999",
            "-99999999999999999999999999999999999.999999999999999999999999999999",
            "-0.000000000000000000000000000001",
            "0",
        ],
    ),
    ("DECIMAL(65,0)", &["-1", "1000000000"]),
    ("DECIMAL(9,9)", &["0.999999999", "-0.000000001"]),
    ("DECIMAL(10,2) UNSIGNED", &["99999999.99", "0.01"]),
    ("BIT(1)", &["b'0'", "b'1'"]),
    ("BIT(9)", &["b'100000000'", "10", "92"]),
    ("BIT(64)", &["~0", "9", "0"]),
    (
        "DATE",
        &[
            "'0000-00-00'",
            "'2021-00-01'",
            "'2021-12-00'",
            "'9999-12-31'",
            "'0001-01-01'",
        ],
    ),
    ("TIME", &["'-838:59:59'", "'838:59:59'", "'00:00:00'"]),
    (
        "TIME(1)",
        &["'-00:00:00.1'", "'-01:00:00.0'", "'838:59:58.9'"],
    ),
    ("TIME(3)", &["'-00:00:01.001'", "'12:34:56.789'"]),
    (
        "TIME(6)",
        &[
            "'-00:00:00.000001'",
            "'-838:59:58.999999'",
            "'23:59:59.999999'",
        ],
    ),
    (
        "DATETIME",
        &[
            "'0000-00-00 00:00:00'",
            "'2021-00-00 00:00:00'",
            "'9999-12-31 23:59:59'",
        ],
    ),
    (
        "DATETIME(2)",
        &["'1000-01-01 00:00:00.01'", "'2024-02-29 23:59:59.99'"],
    ),
    (
        "DATETIME(6)",
        &["'0000-00-00 00:00:00'", "'9999-12-31 23:59:59.999999'"],
    ),
    (
        "TIMESTAMP NULL",
        &[
            "'0000-00-00 00:00:00'",
            "'1970-01-01 00:00:01'",
            "'2038-01-19 03:14:07'",
        ],
    ),
    (
        "TIMESTAMP(4) NULL",
        &["'0000-00-00 00:00:00'", "'2026-03-29 01:30:00.1234'"],
    ),
    (
        "TIMESTAMP(6) NULL",
        &["'1970-01-01 00:00:01.000001'", "'2024-02-29 12:00:00'"],
    ),
    ("CHAR(10)", &["''", "'zehn'", "'é😀'"]),
    ("CHAR(255)", &["REPEAT('😀', 255)", "'\\\\ \\n\\t\\0'"]),
    ("CHAR(9) CHARACTER SET latin1", &["x'e9fcff'", "'\\\\N'"]),
    (
        "VARCHAR(300)",
        &["'é😀'", "REPEAT('v', 300)", "' trailing '"],
    ),
    ("VARCHAR(9) CHARACTER SET gbk", &["x'b5c5'", "x'815c'"]),
    ("BINARY(4)", &["x'00'", "x'deadbeef'", "''", "x'20'"]),
    ("BINARY(255)", &["x'0001'", "x'5c5c27'"]),
    ("VARBINARY(9)", &["''", "x'00ff00'", "x'2020'"]),
    ("TINYBLOB", &["''", "REPEAT(x'00', 255)"]),
    ("BLOB", &["REPEAT(x'fb', 250)", "REPEAT(x'5c', 65535)"]),
    ("TINYTEXT", &["''", "'\\\\N'", "'NULL'"]),
    ("TEXT CHARACTER SET latin1", &["x'e9'"]),
    ("MEDIUMTEXT", &["REPEAT('m', 251)", "REPEAT('m', 70000)"]),
    ("LONGTEXT", &["''", "REPEAT('l', 65536)"]),
    ("LONGBLOB", &["x'00'", "REPEAT(x'0a', 65536)"]),
    ("ENUM('a','b\\\\c','','1')", &["'a'", "'b\\\\c'", "3", "4"]),
    ("SET('x','y','z w')", &["''", "'x,z w'", "7"]),
    (
        "GEOMETRY",
        &[
            "ST_GeomFromText('POINT(1 2)', 4326)",
            "ST_GeomFromText('LINESTRING(0 0,1 1)')",
        ],
    ),
    ("POINT", &["ST_GeomFromText('POINT(-1.5 2e10)')"]),
];

/// MySQL's only. JSON takes what text cannot say from functions.
const TYPES_MYSQL: &[(&str, &[&str])] = &[
    (
        "JSON",
        &[
            "'{\"b\": 1, \"aa\": [1, null, \
             true, false, -1, 70000, 5000000000, 18446744073709551615]}'",
            "'\"text \\\\\"quoted\\\\\" \\\\\\\\ \\\\n \\\\u0001 é 😀\"'",
            "'[]'",
            "'{}'",
            "'null'",
            "'[[[[]]], {\"\": {\"\": \"\"}}]'",
            "'[1.0, -0.0, 0.1, 1e100, 1e-7, 123456789.123, \
             5e-324, 1.7976931348623157e308, 1e15, 1e16]'",
            "JSON_ARRAY(1.50, CAST('-0.001' AS DECIMAL(65,30)), CAST('2026-11-20' AS DATE))",
            "JSON_ARRAY(CAST('2026-11-20 01:02:03.456' AS DATETIME(6)), \
             CAST('-12:34:56.7' AS TIME(6)))",
            "JSON_ARRAY(CAST(5 AS UNSIGNED), 5, CAST(70000 AS UNSIGNED), 1e0, 'a\\'b\\\\c', true)",
            "CAST(CAST(5000000000 AS UNSIGNED) AS JSON)",
            "CAST(CAST('2026-11-20' AS DATE) AS JSON)",
            "JSON_OBJECT('long', REPEAT('é', 40000), 'longer', REPEAT('x', 70000))",
        ],
    ),
    (
        "VECTOR(3)",
        &["TO_VECTOR('[1,2,-3.5]')", "x'000000000000000000000000'"],
    ),
];

/// MariaDB's only. JSON is text there.
const TYPES_MARIADB: &[(&str, &[&str])] = &[
    ("JSON", &["'{\"b\": 1.50}'", "'[]'"]),
    ("UUID", &["'123e4567-e89b-12d3-a456-426655440000'"]),
    ("INET6", &["'::'", "'2001:db8::ff00:42:8329'"]),
    ("INET4", &["'0.0.0.0'", "'192.168.0.1'"]),
    (
        "TEXT COMPRESSED",
        &["''", "'short \\\\ \\0'", "REPEAT('packed é ', 2000)"],
    ),
    (
        "VARCHAR(300) COMPRESSED",
        &["''", "'v'", "REPEAT('😀', 300)"],
    ),
    (
        "VARBINARY(200) COMPRESSED",
        &["x'00'", "REPEAT(x'5c', 200)"],
    ),
    ("LONGBLOB COMPRESSED", &["x'00'", "REPEAT(x'0a', 65536)"]),
];

pub(super) fn types(flavour: Flavour) -> Vec<(&'static str, &'static [&'static str])> {
    let mut types = TYPES.to_vec();
    match flavour {
        Flavour::MySql => types.extend(TYPES_MYSQL),
        Flavour::MariaDb => types.extend(TYPES_MARIADB),
    }
    types
}

pub(super) fn create(connection: &mut Connection, name: &str, types: &[(&str, &[&str])]) {
    let columns: Vec<String> = types
        .iter()
        .enumerate()
        .map(|(i, t)| format!("c{i} {}", t.0))
        .collect();
    let columns = columns.join(", ");
    run(
        connection,
        &format!("CREATE TABLE {name} (id INT PRIMARY KEY, {columns}) DEFAULT CHARSET utf8mb4"),
    );
}

/// Says of columns what the log does not and a schema would.
pub(super) fn inform(map: &mut TableMap) {
    let first = TYPES.len() + 1;
    for (column, (kind, _)) in map.columns.iter_mut().skip(first).zip(TYPES_MARIADB) {
        column.meaning = match (column.kind, *kind) {
            (Kind::Char { .. }, "UUID") => Meaning::Uuid,
            (Kind::Char { .. }, "INET6") => Meaning::Inet6,
            (Kind::Char { .. }, "INET4") => Meaning::Inet4,
            _ => Meaning::Itself,
        };
    }
}
