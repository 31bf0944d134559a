//! Rows get to the target as they are, once, whatever ends the copy.

use waggle_server::Flavour;
use waggle_server::cpu::process_rss_bytes_peak;

use super::{Stage, flavours};

/// So many rows as sysbench would write them, `k` and `pad` from the number.
pub(super) fn fill(stage: &Stage, rows: u32) {
    stage.run(&[
        "CREATE DATABASE a",
        "CREATE DATABASE b",
        "CREATE TABLE a.t (id INT PRIMARY KEY, k INT NOT NULL, c CHAR(128) NOT NULL, \
         pad CHAR(60) NOT NULL, KEY k (k))",
    ]);
    let limit = match stage.server.flavour() {
        Flavour::MariaDb => "SET max_recursive_iterations = 10000000",
        Flavour::MySql => "SET cte_max_recursion_depth = 10000000",
    };
    stage.run(&[
        limit,
        &format!(
            "INSERT INTO a.t WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n \
             WHERE i < {rows}) SELECT i * 3, i * 7919 % 1000, SHA2(i, 512), \
             LEFT(SHA2(i * 2, 256), 60) FROM n"
        ),
    ]);
}

#[test]
fn a_copy_that_was_killed_goes_on_where_the_target_is() {
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        fill(&stage, 30_000);
        let slow = [
            "--until",
            "copied",
            "--range-rows",
            "8000",
            "--ranges",
            "2",
            "--max-rate",
            "1",
        ];
        for _ in 0..3 {
            let done = "SELECT COALESCE(SUM(rows_copied), 0) FROM waggle_copy.ranges";
            let before: u64 = stage.value(done).map_or(0, |rows| rows.parse().unwrap());
            let copy = stage.begin(&slow);
            // It may be quick enough to copy all of them before it is killed.
            stage.wait(done, |rows| {
                let rows = rows.parse::<u64>().unwrap();
                rows > before || rows == 30_000
            });
            copy.kill();
        }
        let document = stage.copied(&["--until", "copied", "--range-rows", "1"]);
        assert_eq!(document["rows"], 30_000, "{document}");
        stage.assert_equal("a.t", "b.t");
    }
}

#[test]
fn a_table_with_a_key_of_text_is_cut_too() {
    const ROWS: u64 = 20_000;
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        fill(&stage, ROWS as u32);
        stage.run(&[
            "RENAME TABLE a.t TO b.numbers",
            "CREATE TABLE a.t (k VARCHAR(40) PRIMARY KEY, n INT) AS \
             SELECT LEFT(SHA2(id, 256), 32) AS k, id AS n FROM b.numbers",
            "ANALYZE TABLE a.t",
        ]);
        stage.copied(&["--until", "copied", "--range-rows", "4000"]);
        let found = stage.rows("SELECT COUNT(*), MAX(rows_copied) FROM waggle_copy.ranges");
        let number = |at: usize| -> u64 {
            let text = found[0][at].clone().expect("a number");
            String::from_utf8(text).unwrap().parse().unwrap()
        };
        let (ranges, most) = (number(0), number(1));
        assert!(ranges >= 3, "{flavour}: {ranges} ranges");
        assert!(
            // Where to cut is the server's estimate; a fair share is a fifth or a sixth.
            most <= ROWS * 2 / 5,
            "{flavour}: {most} of {ranges} ranges"
        );
        stage.assert_equal("a.t", "b.t");
    }
}

#[test]
fn a_job_keeps_its_way_of_copying_json() {
    for flavour in flavours() {
        if flavour != Flavour::MySql {
            continue;
        }
        let stage = Stage::new(flavour);
        stage.run(&[
            "CREATE DATABASE a",
            "CREATE DATABASE b",
            "CREATE TABLE a.t (id INT PRIMARY KEY, j JSON)",
            "INSERT INTO a.t VALUES (1, JSON_ARRAY(CAST(1.50 AS DECIMAL(5,2))))",
            "CREATE TABLE a.text (id INT PRIMARY KEY, j JSON)",
            "INSERT INTO a.text SELECT * FROM a.t",
            "CREATE TABLE b.text (id INT PRIMARY KEY, j LONGTEXT)",
        ]);
        let copy = |args: &[&str], way: &str| {
            let output = stage.copy(&[&["--until", "copied"], args].concat());
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            match way {
                "" => assert!(output.status.success(), "{args:?}: {words}"),
                way => assert!(words.contains(way), "{args:?}: {words}"),
            }
            words
        };
        // A column that is text holds no types, and is said.
        let words = copy(&[], "");
        assert!(
            words.contains("a.text.j") && !words.contains("a.t.j"),
            "{words}"
        );
        stage.assert_equal("a.t", "b.t");
        copy(&["--json-as-text"], "without --json-as-text");
        // As an earlier version has noted it.
        stage.run(&["UPDATE waggle_copy.jobs SET format = 1"]);
        copy(&[], "go on with --json-as-text");
        copy(&["--json-as-text"], "");
    }
}

#[test]
fn memory_does_not_grow_with_the_rows() {
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        stage.run(&[
            "CREATE DATABASE a",
            "CREATE DATABASE b",
            "CREATE TABLE a.t (id INT PRIMARY KEY, v LONGBLOB)",
        ]);
        for id in 0..4 {
            // Half of the bytes need a backslash.
            let value = format!("REPEAT(X'5c{id:02x}', {})", 8 << 20);
            stage.run(&[&format!("INSERT INTO a.t VALUES ({id}, {value})")]);
        }
        let mut copy = stage.begin(&["--until", "copied", "--range-rows", "2", "--slice", "1"]);
        let mut peak = 0;
        while !copy.is_over() {
            peak = peak.max(process_rss_bytes_peak(copy.pid()).unwrap_or(0));
        }
        let output = copy.end();
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words}");
        assert!((1..128 << 20).contains(&peak), "{peak} bytes");
        let sums =
            |table: &str| stage.rows(&format!("SELECT id, SHA2(v, 256) FROM {table} ORDER BY 1"));
        assert_eq!(sums("a.t"), sums("b.t"));
    }
}

#[test]
fn a_file_pauses_the_copy() {
    let Some(flavour) = flavours().into_iter().next() else {
        return;
    };
    let stage = Stage::new(flavour);
    fill(&stage, 100);
    let file = stage.directory.path().join("pause");
    std::fs::write(&file, "").unwrap();
    let copy = stage.begin(&["--until", "copied", "--pause-file", "pause"]);
    stage.wait("SELECT is_split FROM waggle_copy.jobs", |split| {
        split == "1"
    });
    assert_eq!(
        stage.value("SELECT COUNT(*) FROM b.t").as_deref(),
        Some("0")
    );
    std::fs::remove_file(&file).unwrap();
    let output = copy.end();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    stage.assert_equal("a.t", "b.t");
}
