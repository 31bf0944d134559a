//! Which statements are put together, and which not? Families whose members differ in their values
//! only, and pairs of statements that somebody takes for one.
//!
//! Neighbour: the test carries them out.

/// Makes the objects that the corpus names, so that statements run as well as parse.
pub(super) const SCHEMA: &[&str] = &[
    "CREATE DATABASE shop",
    "USE shop",
    "CREATE TABLE t (id INT PRIMARY KEY, k INT, c VARCHAR(120), d DATETIME, f DOUBLE, b BLOB)",
    "CREATE TABLE u (id INT PRIMARY KEY, t_id INT, c VARCHAR(120))",
    "CREATE TABLE `order lines` (id INT PRIMARY KEY, n INT)",
    "CREATE PROCEDURE p(IN a INT) SELECT a",
];

/// `{n}` is a number, `{s}` a string, `{d}` a date: other ones in each member of the family.
pub(super) const FAMILIES: &[&str] = &[
    "SELECT {n}",
    "SELECT c FROM t WHERE id = {n}",
    "SELECT c, k FROM t WHERE id = {n}",
    "SELECT k, c FROM t WHERE id = {n}",
    "SELECT c FROM u WHERE id = {n}",
    "SELECT c FROM shop.t WHERE id = {n}",
    "SELECT DISTINCT c FROM t WHERE k = {n}",
    "SELECT SQL_NO_CACHE c FROM t WHERE k = {n}",
    "SELECT * FROM t WHERE c = {s}",
    "SELECT * FROM t WHERE c LIKE {s}",
    "SELECT * FROM t WHERE c NOT LIKE {s}",
    "SELECT * FROM t WHERE c = {s} AND k = {n}",
    "SELECT * FROM t WHERE c = {s} OR k = {n}",
    "SELECT * FROM t WHERE k > {n}",
    "SELECT * FROM t WHERE k >= {n}",
    "SELECT * FROM t WHERE k < {n}",
    "SELECT * FROM t WHERE k <= {n}",
    "SELECT * FROM t WHERE k <> {n}",
    "SELECT * FROM t WHERE k BETWEEN {n} AND {n}",
    "SELECT * FROM t WHERE k NOT BETWEEN {n} AND {n}",
    "SELECT * FROM t WHERE d > {d}",
    "SELECT * FROM t WHERE d BETWEEN {d} AND {d}",
    "SELECT * FROM t WHERE c IS NULL AND k = {n}",
    "SELECT * FROM t WHERE c IS NOT NULL AND k = {n}",
    "SELECT * FROM t WHERE k IN ({n}, {n}, {n})",
    "SELECT * FROM t WHERE c IN ({s}, {s}) AND k = {n}",
    "SELECT * FROM t WHERE k NOT IN ({n}, {n})",
    "SELECT * FROM t WHERE k IN (SELECT t_id FROM u WHERE c = {s})",
    "SELECT * FROM t WHERE EXISTS (SELECT * FROM u WHERE u.t_id = t.id AND u.c = {s})",
    "SELECT * FROM t WHERE k = {n} ORDER BY c",
    "SELECT * FROM t WHERE k = {n} ORDER BY c DESC",
    "SELECT * FROM t WHERE k = {n} ORDER BY c, id",
    "SELECT * FROM t WHERE k = {n} LIMIT {n}",
    "SELECT * FROM t WHERE k = {n} LIMIT {n}, {n}",
    "SELECT * FROM t WHERE k = {n} LIMIT {n} OFFSET {n}",
    "SELECT * FROM t WHERE k = {n} FOR UPDATE",
    "SELECT * FROM t WHERE k = {n} LOCK IN SHARE MODE",
    "SELECT k, COUNT(*) FROM t WHERE d > {d} GROUP BY k",
    "SELECT k, COUNT(*) FROM t WHERE d > {d} GROUP BY k HAVING COUNT(*) > {n}",
    "SELECT COUNT(DISTINCT c) FROM t WHERE k = {n}",
    "SELECT SUM(k), MIN(k), MAX(k) FROM t WHERE id < {n}",
    "SELECT CONCAT(c, {s}) FROM t WHERE id = {n}",
    "SELECT SUBSTRING(c, {n}, {n}) FROM t",
    "SELECT IF(k > {n}, {s}, {s}) FROM t",
    "SELECT CASE k WHEN {n} THEN {s} ELSE {s} END FROM t",
    "SELECT COALESCE(c, {s}) FROM t",
    "SELECT CAST(c AS CHAR) FROM t WHERE id = {n}",
    "SELECT DATE_ADD(d, INTERVAL {n} DAY) FROM t",
    "SELECT DATE_ADD(d, INTERVAL {n} HOUR) FROM t",
    "SELECT k * {n} FROM t",
    "SELECT k / {n} FROM t",
    "SELECT k % {n} FROM t",
    "SELECT t.c, u.c FROM t JOIN u ON u.t_id = t.id WHERE t.id = {n}",
    "SELECT t.c, u.c FROM t LEFT JOIN u ON u.t_id = t.id WHERE t.id = {n}",
    "SELECT t.c, u.c FROM t, u WHERE u.t_id = t.id AND t.id = {n}",
    "SELECT a.c AS x FROM t AS a WHERE a.id = {n}",
    "SELECT a.c x FROM t a WHERE a.id = {n}",
    "SELECT c FROM (SELECT c FROM t WHERE k = {n}) AS x",
    "SELECT c FROM t WHERE id = {n} UNION SELECT c FROM u WHERE id = {n}",
    "SELECT c FROM t WHERE id = {n} UNION ALL SELECT c FROM u WHERE id = {n}",
    "WITH x AS (SELECT c FROM t WHERE k = {n}) SELECT * FROM x",
    "SELECT ROW_NUMBER() OVER (ORDER BY k) FROM t WHERE id < {n}",
    "SELECT n FROM `order lines` WHERE id = {n}",
    "SELECT c FROM t FORCE INDEX (PRIMARY) WHERE id = {n}",
    "INSERT INTO t (id, k, c) VALUES ({n}, {n}, {s})",
    "INSERT INTO t (id, k) VALUES ({n}, {n})",
    "INSERT IGNORE INTO t (id, k, c) VALUES ({n}, {n}, {s})",
    "INSERT INTO t (id, k, c) VALUES ({n}, {n}, {s}) ON DUPLICATE KEY UPDATE k = {n}",
    "INSERT INTO t (id, k, c) VALUES ({n}, {n}, {s}) ON DUPLICATE KEY UPDATE k = VALUES(k)",
    "INSERT INTO t SET id = {n}, c = {s}",
    "INSERT INTO u (id, c) SELECT id, c FROM t WHERE k = {n}",
    "REPLACE INTO t (id, k, c) VALUES ({n}, {n}, {s})",
    "REPLACE INTO u (id, c) SELECT id, c FROM t WHERE k = {n}",
    "UPDATE t SET c = {s} WHERE id = {n}",
    "UPDATE t SET c = {s}, k = {n} WHERE id = {n}",
    "UPDATE t SET k = k + {n} WHERE id = {n}",
    "UPDATE t SET c = {s} WHERE k = {n} LIMIT {n}",
    "UPDATE t, u SET t.c = {s} WHERE u.t_id = t.id AND u.id = {n}",
    "DELETE FROM t WHERE id = {n}",
    "DELETE FROM t WHERE k = {n} LIMIT {n}",
    "DELETE FROM t WHERE c = {s} AND d < {d}",
    "SET @x = {n}",
    "SET SESSION sort_buffer_size = {n}",
    "SHOW TABLES LIKE {s}",
    "SHOW VARIABLES LIKE {s}",
    "SHOW COLUMNS FROM t",
    "BEGIN",
    "START TRANSACTION",
    "COMMIT",
    "ROLLBACK",
    "EXPLAIN SELECT * FROM t WHERE id = {n}",
    "CREATE TABLE IF NOT EXISTS x (id INT)",
    "DROP TABLE IF EXISTS x",
    "TRUNCATE TABLE u",
    "ANALYZE TABLE t",
];

/// Members of a family: other literals, white space, comments, case of keywords.
pub(super) fn members(family: &str) -> Vec<String> {
    let numbers = [
        ["1", "2", "3", "4"],
        ["77", "100000", "4711", "9"],
        ["12345678", "0", "42", "5"],
    ];
    let strings = [
        ["'a'", "'b'", "'c'"],
        ["'it''s'", "'-- no'", "'/* no */'"],
        ["''", "'x, (y)'", "'1'"],
    ];
    let dates = [
        ["'2026-01-01'", "'2026-12-31'"],
        ["'1999-01-01 10:00:00'", "'2000-01-01'"],
        ["'x'", "'y'"],
    ];
    let filled = |number: usize| {
        let (mut n, mut s, mut d) = (0, 0, 0);
        let mut text = family.to_owned();
        while let Some(at) = text.find('{') {
            let (list, count): (&[&str], &mut usize) = match &text[at..at + 3] {
                "{n}" => (&numbers[number], &mut n),
                "{s}" => (&strings[number], &mut s),
                _ => (&dates[number], &mut d),
            };
            let value = list[*count % list.len()];
            *count += 1;
            text.replace_range(at..at + 3, value);
        }
        text
    };
    let (first, second, third) = (filled(0), filled(1), filled(2));
    let words = third.split(' ').map(|word| {
        // Names are in lower case already, literals stay as they are.
        let is_keyword = word
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte == b'_');
        if is_keyword {
            word.to_lowercase()
        } else {
            word.to_owned()
        }
    });
    let mixed = words.collect::<Vec<_>>().join(" ");
    vec![
        first,
        second.replace(" WHERE ", "\n  WHERE\t"),
        format!("/* app:web */ {mixed}"),
        format!("{} -- end", filled(1)),
    ]
}

/// Whether two statements have one digest: ours, MySQL's, MariaDB's.
pub(super) struct Difference {
    pub(super) name: &'static str,
    pub(super) a: &'static str,
    pub(super) b: &'static str,
    pub(super) ours: bool,
    pub(super) mysql: bool,
    pub(super) mariadb: bool,
}

const fn row(
    name: &'static str,
    a: &'static str,
    b: &'static str,
    [ours, mysql, mariadb]: [bool; 3],
) -> Difference {
    Difference {
        name,
        a,
        b,
        ours,
        mysql,
        mariadb,
    }
}

/// What is deliberately not the same, and what one might expect not to be. Ours follows Percona's
/// tools, whose ids users know. The same rows stand in the documentation of `waggle-digest`.
pub(super) const DIFFERENCES: &[Difference] = &[
    row(
        "length of IN",
        "SELECT c FROM t WHERE k IN (1)",
        "SELECT c FROM t WHERE k IN (1, 2)",
        [true, true, false],
    ),
    row(
        "length of IN beyond one",
        "SELECT c FROM t WHERE k IN (1, 2)",
        "SELECT c FROM t WHERE k IN (1, 2, 3)",
        [true, true, true],
    ),
    row(
        "rows of VALUES",
        "INSERT INTO u VALUES (1, 2, 'a')",
        "INSERT INTO u VALUES (3, 4, 'b'), (5, 6, 'c')",
        [true, false, false],
    ),
    row(
        "length of a row",
        "INSERT INTO u (id, c) VALUES (11, 'a')",
        "INSERT INTO u (id, c) VALUES (12)",
        [true, false, false],
    ),
    row(
        "functions in VALUES",
        "INSERT INTO t (id, d) VALUES (21, NOW())",
        "INSERT INTO t (id, d) VALUES (22, '2026-01-01')",
        [true, false, false],
    ),
    row(
        "DEFAULT in VALUES",
        "INSERT INTO t (id, k) VALUES (31, DEFAULT)",
        "INSERT INTO t (id, k) VALUES (32, 5)",
        [true, false, false],
    ),
    row(
        "spaces around operators",
        "SELECT c FROM t WHERE id=1",
        "SELECT c FROM t WHERE id = 1",
        [false, true, true],
    ),
    row(
        "spaces behind commas",
        "SELECT c,k FROM t",
        "SELECT c, k FROM t",
        [false, true, true],
    ),
    row(
        "two words for not equal",
        "SELECT c FROM t WHERE k != 1",
        "SELECT c FROM t WHERE k <> 1",
        [false, true, true],
    ),
    row(
        "back quotes",
        "SELECT `c` FROM `t`",
        "SELECT c FROM t",
        [false, true, true],
    ),
    row(
        "case of names",
        "SELECT C FROM t",
        "SELECT c FROM t",
        [true, false, false],
    ),
    row(
        "ASC",
        "SELECT c FROM t ORDER BY c ASC",
        "SELECT c FROM t ORDER BY c",
        [true, false, false],
    ),
    row(
        "sign of a number behind a name",
        "UPDATE t SET k=k+1",
        "UPDATE t SET k=k-1",
        [true, false, false],
    ),
    row(
        "sign of a number",
        "SELECT c FROM t WHERE k = 5",
        "SELECT c FROM t WHERE k = -5",
        [true, true, false],
    ),
    row(
        "NULL as a value",
        "UPDATE t SET c = NULL",
        "UPDATE t SET c = 'x'",
        [true, true, true],
    ),
    row(
        "TRUE as a value",
        "SELECT c FROM t WHERE k = TRUE",
        "SELECT c FROM t WHERE k = 1",
        [false, false, false],
    ),
    row(
        "arguments of CALL",
        "CALL p(1)",
        "CALL p(1 + 2)",
        [true, false, false],
    ),
    row(
        "database of USE",
        "USE shop",
        "USE mysql",
        [true, false, false],
    ),
    row(
        "semicolon at the end",
        "SELECT c FROM t LIMIT 3;",
        "SELECT c FROM t LIMIT 3",
        [false, true, true],
    ),
    row(
        "date literals",
        "SELECT DATE '2026-01-01'",
        "SELECT DATE'2025-01-01'",
        [false, true, true],
    ),
    row(
        "optimizer hints",
        "SELECT /*+ NO_MERGE() */ c FROM t",
        "SELECT c FROM t",
        [true, false, true],
    ),
    row(
        "executable comments",
        "SELECT /*!40001 SQL_NO_CACHE */ c FROM t",
        "SELECT SQL_NO_CACHE c FROM t",
        [false, true, true],
    ),
    row(
        "strings side by side",
        "SELECT 'a' 'b'",
        "SELECT 'a'",
        [false, false, false],
    ),
    row(
        "character sets of strings",
        "SELECT _utf8mb4'a'",
        "SELECT 'a'",
        [false, false, false],
    ),
    row(
        "hexadecimal numbers",
        "SELECT 0x1F",
        "SELECT 31",
        [true, true, true],
    ),
    row(
        "optional words",
        "SELECT c FROM t INNER JOIN u USING (c)",
        "SELECT c FROM t JOIN u USING (c)",
        [false, false, false],
    ),
];
