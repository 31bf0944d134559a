//! Rows get to the target as they are, once, however often the copy of them is ended.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use waggle_copy::throttle::Limits;
use waggle_copy::{Control, CopyError, Plan, Until, job};

use crate::stage::{Stage, fill, flavours};

#[test]
fn rows_arrive_as_they_are_and_keys_are_built() {
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        fill(&stage, 20_000);
        stage.run(&[
            "CREATE TABLE a.odd (a INT, b VARCHAR(10) CHARACTER SET latin1 COLLATE latin1_bin, \
             f FLOAT, d DOUBLE, v VARBINARY(20), e ENUM('x','y z'), bits BIT(9), dt DATETIME(6), \
             u BIGINT UNSIGNED, g INT AS (a + 1) STORED, PRIMARY KEY (b, a))",
            "INSERT INTO a.odd (a, b, f, d, v, e, bits, dt, u) VALUES \
             (1, 'a\\tb', 21666.66, 0.1, X'00095c0a27', 'y z', 257, '2020-01-01 00:00:00.000001', \
              18446744073709551615), \
             (-1, '', 1e-38, -1.7976931348623157e308, '', NULL, 0, NULL, 0), \
             (2, '\\\\N', NULL, NULL, NULL, NULL, NULL, NULL, NULL), \
             (3, X'e4f6fc', 16777216, 5e-324, REPEAT(X'5c', 20), 'x', 511, '1000-01-01', 7)",
        ]);
        let plan = Plan {
            range_rows: 3000,
            slice_bytes: 100_000,
            ..stage.plan()
        };
        let outcome = stage.copy(&plan).unwrap();
        assert_eq!(outcome.rows, 20_004);
        stage.assert_equal("a.t", "b.t");
        stage.assert_equal("a.odd", "b.odd");
        // As text a FLOAT has six digits; both sides have all of them.
        let exact = "SELECT CAST(f AS DOUBLE) FROM {}.odd WHERE a = 1";
        let read = |database: &str| stage.value(&exact.replace("{}", database));
        assert_eq!(read("a").as_deref(), Some("21666.66015625"));
        assert_eq!(read("b"), read("a"));
        let keys = "SELECT COUNT(*) FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = 'b' \
                    AND TABLE_NAME = 't' AND INDEX_NAME = 'k'";
        assert_eq!(stage.value(keys).as_deref(), Some("1"));
        // Nothing is left to do, and nothing is done twice.
        assert_eq!(stage.copy(&plan).unwrap().rows, 20_004);
    }
}

#[test]
fn a_copy_that_was_stopped_goes_on_where_the_target_is() {
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        fill(&stage, 10_000);
        let plan = Plan {
            range_rows: 2000,
            slice_bytes: 50_000,
            ..stage.plan()
        };
        for _ in 0..3 {
            copy_a_little(&plan);
        }
        assert_eq!(stage.copy(&plan).unwrap().rows, 10_000);
        stage.assert_equal("a.t", "b.t");
    }
}

/// A copy that is stopped when the first of its slices is stored.
fn copy_a_little(plan: &Plan) {
    let control = Arc::new(Control::new());
    let slow = Plan {
        limits: Limits {
            rate_bytes_per_s: Some(200_000),
            ..Limits::default()
        },
        ..plan.clone()
    };
    std::thread::scope(|scope| {
        let copy = scope.spawn(|| job::run(&slow, &control, &mut |_| {}));
        while control.rows.load(Ordering::Relaxed) == 0 && !copy.is_finished() {
            // sleep: looking all the time would take the processor from who is waited for
            std::thread::sleep(Duration::from_millis(1));
        }
        control.stop();
        let error = copy.join().unwrap().unwrap_err();
        assert!(matches!(error, CopyError::Stopped), "{error}");
    });
}

/// ENUM, SET and BIT: as a range's end and as a frontier they are numbers, in the index too.
#[test]
fn keys_that_are_numbers_inside_are_copied_once_however_often_it_is_ended() {
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        let members: Vec<String> = (0..64).map(|member| format!("'m{member}'")).collect();
        let members = members.join(",");
        let sets =
            format!("CREATE TABLE a.sets (s SET({members}) PRIMARY KEY, n INT, pad CHAR(200))");
        stage.run(&[
            "CREATE DATABASE a",
            "CREATE DATABASE b",
            "CREATE TABLE a.enums (e ENUM('zz','3','1','b','2'), n INT, pad CHAR(200), \
             PRIMARY KEY (e, n))",
            "CREATE TABLE a.later (n INT, e ENUM('zz','3','1','b','2'), pad CHAR(200), \
             PRIMARY KEY (n, e))",
            // As DOUBLEs these are all one.
            &sets,
            "CREATE TABLE a.bits (b BIT(64), n INT, pad CHAR(200), PRIMARY KEY (b, n))",
            "INSERT INTO a.enums WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n \
             WHERE i < 900) SELECT 1 + i % 5, i, REPEAT('p', 150) FROM n",
            "INSERT INTO a.later SELECT n % 200, e, MIN(pad) FROM a.enums GROUP BY n % 200, e",
            "INSERT INTO a.sets SELECT 9223372036854775808 + n, n, pad FROM a.enums",
            "INSERT INTO a.bits SELECT 9223372036854775808 + n % 40, n, pad FROM a.enums",
        ]);
        let plan = Plan {
            until: Until::CaughtUp,
            slice_bytes: 20_000,
            ..stage.plan()
        };
        for round in 1..4 {
            copy_a_little(&plan);
            // What is copied and what is not are both changed before the next snapshot.
            for table in ["enums", "sets", "bits", "later"] {
                stage.run(&[
                    &format!("UPDATE a.{table} SET pad = '{round}' WHERE n % 7 = {round}"),
                    &format!("DELETE FROM a.{table} WHERE n % 41 = {round}"),
                ]);
            }
            stage.run(&[
                &format!("UPDATE a.enums SET e = 'zz' WHERE e = 'b' AND n % 3 = {round} - 1"),
                &format!("UPDATE a.bits SET b = b + 50 WHERE n % 13 = {round}"),
                &format!("INSERT INTO a.sets VALUES (4611686018427387904 + {round}, {round}, '')"),
                &format!("INSERT INTO a.sets VALUES (9223372036854775808 + 2000 + {round}, 0, '')"),
            ]);
        }
        stage.copy(&plan).unwrap();
        for (table, order) in [
            ("enums", "e, n"),
            ("later", "n, e"),
            ("sets", "CAST(s AS UNSIGNED)"),
            ("bits", "b, n"),
        ] {
            let read = |database: &str| {
                stage.rows(&format!(
                    "SELECT * FROM {database}.{table} ORDER BY {order}"
                ))
            };
            let (source, target) = (read("a"), read("b"));
            assert_eq!(source.len(), target.len(), "{flavour}: {table}");
            assert!(source == target, "{flavour}: {table}");
        }
    }
}

#[test]
fn a_row_that_the_target_would_change_or_skip_ends_the_copy() {
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        fill(&stage, 100);
        // LOAD DATA LOCAL skips a duplicate with a warning: a copy that counts no rows loses them.
        stage.run(&[
            "CREATE TABLE b.t LIKE a.t",
            "INSERT INTO b.t SELECT * FROM a.t WHERE id = 30",
        ]);
        let error = stage.copy(&stage.plan()).unwrap_err();
        assert!(error.to_string().contains("b.t"), "{error}");
        assert_eq!(
            stage.value("SELECT COUNT(*) FROM b.t").as_deref(),
            Some("1")
        );
    }
}
