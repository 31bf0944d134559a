//! Verification: what is equal is called so, and what was planted is found and named.

mod planted;

use std::time::Duration;

use waggle_copy::verify::{Comparison, Difference, TableReport, compare};
use waggle_copy::{Control, CopyError, Plan, Table, schema};
use waggle_server::Flavour;
use waggle_server::sandbox::Sandbox;
use waggle_wire::Connection;

use crate::servers::{
    alone, altered, comparison, dsn, flavours, fresh, one, plan, run, run_all, server,
};
use planted::{PLANTED, TYPES};

/// What a pair of schemas is compared by.
struct Pair {
    plan: Plan,
    source: Connection,
    target: Connection,
}

impl Pair {
    /// Tables with their rows in both, put there by the server itself.
    fn new(flavour: Flavour, name: &str, script: &str) -> Pair {
        let server = server(flavour).expect("asked for before");
        Pair::between(server, server, name, script)
    }

    fn between(source: &Sandbox, target: &Sandbox, name: &str, script: &str) -> Pair {
        let (ours, theirs) = (format!("{name}_s"), format!("{name}_t"));
        let filled = |server: &Sandbox, schema: &str| {
            let mut connection = fresh(server, schema);
            run_all(&mut connection, script);
            connection
        };
        Pair {
            plan: plan(dsn(source, &ours), dsn(target, &theirs), name),
            source: filled(source, &ours),
            target: filled(target, &theirs),
        }
    }

    fn comparison(&self) -> Comparison {
        comparison(&self.plan)
    }

    fn tables(&mut self) -> Vec<Table> {
        schema::read(&mut self.source, &self.plan).expect("tables")
    }

    fn compare(&mut self, comparison: &Comparison) -> Result<TableReport, CopyError> {
        let mut reports = compare(comparison, &self.tables(), &Control::new(), &|_| {})?;
        Ok(reports.remove(0))
    }

    fn report(&mut self) -> TableReport {
        self.compare(&self.comparison()).expect("a comparison")
    }

    fn repaired(&mut self) -> TableReport {
        let mut comparison = self.comparison();
        comparison.repairs = true;
        self.compare(&comparison).expect("a comparison")
    }
}

#[test]
fn equal_tables_are_equal() {
    for flavour in flavours() {
        let mut pair = Pair::new(flavour, "v_equal", TYPES);
        let report = pair.report();
        assert_eq!((report.rows_source, report.rows_target), (4, 4));
        assert_eq!(report.different, 0, "{report:?}");
        assert_eq!(report.by, "ranges");
    }
}

#[test]
fn each_planted_difference_is_named_and_repaired() {
    for flavour in flavours() {
        let mut pair = Pair::new(flavour, "v_planted", TYPES);
        for (column, change) in PLANTED {
            run(&mut pair.target, change);
            let report = pair.report();
            assert_eq!(report.different, 1, "{flavour} {change}: {report:?}");
            let Difference::Differs { row, columns } = &report.differences[0] else {
                panic!("{flavour} {change}: {report:?}");
            };
            assert!(row.starts_with("id="), "{row}");
            assert_eq!(columns, &[column], "{flavour} {change}");
            let repaired = pair.repaired();
            let done = (repaired.repaired, repaired.different);
            assert_eq!(done, (1, 0), "{flavour} {change}: {repaired:?}");
        }
        assert_eq!(pair.report().ranges_unequal, 0);
    }
}

#[test]
fn rows_that_are_missing_or_too_many_are_named() {
    for flavour in flavours() {
        let mut pair = Pair::new(flavour, "v_rows", TYPES);
        run(&mut pair.target, "DELETE FROM t WHERE id = 3");
        run(&mut pair.target, "INSERT INTO t (id, k) VALUES (9, 'ß')");
        // Equal to a collation, not to its bytes.
        run(&mut pair.target, "UPDATE t SET k = 'b' WHERE id = 2");
        let report = pair.report();
        let missing = |text: &str| Difference::Missing { row: text.into() };
        let extra = |text: &str| Difference::Extra { row: text.into() };
        assert!(
            report.differences.contains(&missing("id=3, k=x'0927'")),
            "{report:?}"
        );
        assert!(
            report.differences.contains(&missing("id=2, k='B'")),
            "{report:?}"
        );
        assert!(
            report.differences.contains(&extra("id=2, k='b'")),
            "{report:?}"
        );
        assert!(
            report.differences.contains(&extra("id=9, k=x'DF'")),
            "{report:?}"
        );
        assert_eq!(report.different, 4);
        let repaired = pair.repaired();
        assert_eq!(
            (repaired.repaired, repaired.different),
            (4, 0),
            "{repaired:?}"
        );
        assert_eq!(pair.report().different, 0);
    }
}

#[test]
fn a_row_among_many_is_found_by_halving() {
    for flavour in flavours() {
        let script = "CREATE TABLE n (a INT NOT NULL, b INT, PRIMARY KEY (a));\n\
            INSERT INTO n WITH RECURSIVE q (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM q \
            WHERE i < 999) SELECT x.i * 10 + y.i, x.i FROM q x JOIN q y ON y.i < 10;\n";
        let mut pair = Pair::new(flavour, "v_many", script);
        run(
            &mut pair.target,
            "UPDATE n SET b = b + 1 WHERE a IN (0, 4999, 9999)",
        );
        run(
            &mut pair.target,
            "DELETE FROM n WHERE a BETWEEN 6000 AND 6002",
        );
        run(&mut pair.target, "INSERT INTO n VALUES (-5, 0), (20000, 0)");
        let mut comparison = pair.comparison();
        comparison.range_rows = 4000;
        let report = pair.compare(&comparison).unwrap();
        assert_eq!((report.rows_source, report.rows_target), (10_000, 9_999));
        assert_eq!((report.ranges, report.ranges_unequal), (3, 3));
        let mut names: Vec<String> = (report.differences.iter())
            .map(|difference| match difference {
                Difference::Missing { row } => format!("-{row}"),
                Difference::Extra { row } => format!("+{row}"),
                Difference::Differs { row, .. } => row.clone(),
            })
            .collect();
        names.sort();
        let expected = [
            "+a=-5", "+a=20000", "-a=6000", "-a=6001", "-a=6002", "a=0", "a=4999", "a=9999",
        ];
        assert_eq!(names, expected);
    }
}

#[test]
fn tables_without_a_key_are_compared_with_their_multitude() {
    for flavour in flavours() {
        let script = "CREATE TABLE w (a INT, b VARCHAR(9));\n\
                      INSERT INTO w VALUES (1,'x'),(1,'x'),(2,NULL),(3,'');\n";
        let mut pair = Pair::new(flavour, "v_keyless", script);
        assert_eq!(pair.report().different, 0);
        run(&mut pair.target, "DELETE FROM w WHERE a = 1 LIMIT 1");
        run(&mut pair.target, "UPDATE w SET b = NULL WHERE a = 3");
        let report = pair.report();
        assert_eq!((report.by, report.different), ("digests", 3), "{report:?}");
        let missing = report.differences.iter();
        let missing = missing
            .filter(|one| matches!(one, Difference::Missing { .. }))
            .count();
        assert_eq!(missing, 2, "{report:?}");
    }
}

#[test]
fn a_negative_zero_is_not_zero() {
    // MariaDB makes a 0 of it wherever it comes from.
    if server(Flavour::MySql).is_none() {
        return;
    }
    let script = "CREATE TABLE z (a INT NOT NULL PRIMARY KEY, f FLOAT, d DOUBLE);\n\
                  INSERT INTO z VALUES (1, -0e0, 0), (2, 0, -0e0);\n";
    let mut pair = Pair::new(Flavour::MySql, "v_zero", script);
    assert_eq!(pair.report().different, 0);
    run(&mut pair.target, "UPDATE z SET f = 1 WHERE a = 1");
    run(&mut pair.target, "UPDATE z SET f = 0 WHERE a = 1");
    run(&mut pair.target, "UPDATE z SET d = 1 WHERE a = 2");
    run(&mut pair.target, "UPDATE z SET d = 0 WHERE a = 2");
    let report = pair.report();
    assert_eq!(report.different, 2, "{report:?}");
    let repaired = pair.repaired();
    assert_eq!(repaired.repaired, 2, "{repaired:?}");
    assert_eq!(pair.report().different, 0);
    assert_eq!(
        one(&mut pair.target, "SELECT CONCAT(f) FROM z WHERE a = 1"),
        "-0"
    );
}

#[test]
fn a_json_is_its_types_too() {
    if server(Flavour::MySql).is_none() {
        return;
    }
    let script = "CREATE TABLE j (a INT NOT NULL PRIMARY KEY, j JSON);\n\
        INSERT INTO j VALUES (1, JSON_OBJECT('d', CAST(1.5 AS DECIMAL(5,2)), 'k\"1', 1.5e0, \
        'u', CAST(5 AS UNSIGNED), 't', CAST('2020-01-01' AS DATE), \
        'x', JSON_ARRAY(CAST('10:11:12.5' AS TIME(1)), NULL, TRUE, 1e300, -0e0, 'a\\tb'))), \
        (2, NULL), (3, 'null'), (4, '[]'), (5, '{}'), (6, '[[1.0, 2]]'), (7, '\"\"'), \
        (8, CAST(CAST('2020-01-01 01:02:03.4' AS DATETIME(1)) AS JSON));\n";
    let mut pair = Pair::new(Flavour::MySql, "v_json", script);
    assert_eq!(pair.report().different, 0);
    for path_and_value in [
        "'$.d', 1.5e0",
        "'$.u', 5",
        "'$.t', '2020-01-01'",
        "'$.x[0]', '10:11:12.500000'",
        "'$.x[4]', 0e0",
        "'$.x[3]', 1.0000000000000002e300",
        "'$.x[5]', 'a b'",
    ] {
        // A server leaves a row alone whose new JSON compares equal: 1.5 to 1.50, 0 to -0.
        let change = format!("SELECT JSON_SET(j, {path_and_value}) FROM j WHERE a = 1 INTO @j");
        run(&mut pair.target, &change);
        run(&mut pair.target, "UPDATE j SET j = NULL WHERE a = 1");
        run(&mut pair.target, "UPDATE j SET j = @j WHERE a = 1");
        let report = pair.report();
        assert_eq!(report.different, 1, "{change}: {report:?}");
        let repaired = pair.repaired();
        assert_eq!(
            (repaired.repaired, repaired.different),
            (1, 0),
            "{change}: {repaired:?}"
        );
    }
    for change in [
        "UPDATE j SET j = 'null' WHERE a = 2",
        "UPDATE j SET j = '{}' WHERE a = 4",
        "UPDATE j SET j = '[[1, 2]]' WHERE a = 6",
        "UPDATE j SET j = '\"2020-01-01 01:02:03.400000\"' WHERE a = 8",
    ] {
        let row = change.rsplit(' ').next().unwrap();
        run(
            &mut pair.target,
            &format!("UPDATE j SET j = 'true' WHERE a = {row}"),
        );
        run(&mut pair.target, change);
    }
    assert_eq!(pair.report().different, 4);
    let repaired = pair.repaired();
    assert_eq!(
        (repaired.repaired, repaired.different),
        (4, 0),
        "{repaired:?}"
    );
}

#[test]
fn one_family_is_compared_with_the_other() {
    let (Some(mysql), Some(mariadb)) = (server(Flavour::MySql), server(Flavour::MariaDb)) else {
        return;
    };
    let mut pair = Pair::between(mysql, mariadb, "v_cross", TYPES);
    let report = pair.report();
    assert_eq!(report.different, 0, "{report:?}");
    for (column, change) in PLANTED {
        run(&mut pair.target, change);
        let found = pair.report();
        let named = matches!(&found.differences[..], [Difference::Differs { columns, .. }]
            if columns == &[column]);
        assert!(named, "{change}: {found:?}");
        let repaired = pair.repaired();
        let done = (repaired.repaired, repaired.different);
        assert_eq!(done, (1, 0), "{change}: {repaired:?}");
    }
}

#[test]
fn a_row_that_is_only_late_is_no_difference() {
    for flavour in flavours() {
        let script = "CREATE TABLE q (a INT NOT NULL PRIMARY KEY, b INT);\n\
                      INSERT INTO q VALUES (1, 1), (2, 2);\n";
        let mut pair = Pair::new(flavour, "v_late", script);
        run(&mut pair.source, "UPDATE q SET b = 7 WHERE a = 1");
        let tables = pair.tables();
        let mut comparison = pair.comparison();
        comparison.lag = Duration::from_secs(60);
        let control = Control::new();
        let report = std::thread::scope(|scope| {
            let compared = scope.spawn(|| compare(&comparison, &tables, &control, &|_| {}));
            // The change arrives while the row is read again and again.
            run(&mut pair.target, "UPDATE q SET b = 7 WHERE a = 1");
            compared
                .join()
                .expect("no panic")
                .expect("a comparison")
                .remove(0)
        });
        assert_eq!(report.different, 0, "{report:?}");
    }
}

#[test]
fn a_value_that_no_digest_fits_is_an_error() {
    let _turn = alone();
    for flavour in flavours() {
        let server = altered(flavour).expect("asked for before");
        let columns: Vec<String> = (0..7).map(|at| format!("c{at} VARCHAR(256)")).collect();
        let script = format!(
            "CREATE TABLE o (a INT NOT NULL PRIMARY KEY, {}) CHARACTER SET utf8mb4;\n",
            columns.join(", ")
        );
        let mut pair = Pair::between(server, server, "v_wide", &script);
        let values: Vec<String> = (0..7).map(|_| "REPEAT('😀', 256)".to_owned()).collect();
        let insert = format!("INSERT INTO o VALUES (1, {})", values.join(", "));
        run(&mut pair.source, &insert);
        run(&mut pair.target, &insert);
        assert_eq!(pair.report().different, 0);
        let mut root = fresh(server, "v_wide_x");
        let before = one(&mut root, "SELECT @@global.max_allowed_packet");
        run(&mut root, "SET GLOBAL max_allowed_packet = 4096");
        let outcome = pair.compare(&pair.comparison());
        run(
            &mut root,
            &format!("SET GLOBAL max_allowed_packet = {before}"),
        );
        let error = outcome.expect_err("no digest").to_string();
        assert!(error.contains("max_allowed_packet"), "{error}");
    }
}
