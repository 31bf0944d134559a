//! The copy phase between real servers: rows get to the target as they are, once.
//!
//! One server is both source and target, with a database for each: it starts once.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use waggle_copy::progress::Job;
use waggle_copy::throttle::Limits;
use waggle_copy::{Control, CopyError, Outcome, Plan, Table, TableName, Until, job, snapshot};
use waggle_server::Flavour;
use waggle_server::install::installed_servers;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_wire::{Connection, Dsn, Row};

/// The flavours installed here; a missing one is said aloud, or fails where it is required.
fn flavours() -> Vec<Flavour> {
    let installed = installed_servers();
    let is_here = |flavour: &Flavour| {
        let is_here = installed.iter().any(|server| server.flavour == *flavour);
        let required = std::env::var("WAGGLE_REQUIRE").unwrap_or_default();
        let name = flavour.name();
        assert!(
            is_here || !required.split(',').any(|need| need.trim() == name),
            "{name} is required"
        );
        if !is_here {
            let _ = writeln!(
                std::io::stderr(),
                "skipped: {name}: no such server is installed"
            );
        }
        is_here
    };
    [Flavour::MariaDb, Flavour::MySql]
        .into_iter()
        .filter(is_here)
        .collect()
}

/// A server with a binary log that a copy can follow.
struct Stage {
    server: Sandbox,
    directory: tempfile::TempDir,
}

impl Stage {
    fn new(flavour: Flavour) -> Stage {
        let mut spec = SandboxSpec::new(flavour)
            .set("log-bin", "binlog")
            .set("server-id", "1")
            .set("binlog-format", "ROW")
            .set("max-allowed-packet", "67108864");
        if flavour == Flavour::MySql {
            spec = spec
                .set("gtid-mode", "ON")
                .set("enforce-gtid-consistency", "ON");
        }
        Stage {
            server: Sandbox::start(&spec).expect("a server"),
            directory: tempfile::tempdir().unwrap(),
        }
    }

    /// All tables of database `a`, to database `b`.
    fn plan(&self) -> Plan {
        let of = |database: &str| Dsn {
            database: Some(database.to_owned()),
            ..self.server.dsn_socket()
        };
        Plan {
            source: of("a"),
            target: of("b"),
            job: Job::new("test").unwrap(),
            tables: Vec::new(),
            target_schema: Some("b".into()),
            until: Until::Copied,
            workers: 3,
            slice_bytes: 1 << 20,
            range_rows: 1_000_000,
            defers_keys: true,
            json_as_text: false,
            verifies: false,
            limits: Limits::default(),
            spool: self.directory.path().join("spool"),
            spool_bytes_max: 1 << 30,
        }
    }

    fn copy(&self, plan: &Plan) -> Result<Outcome, CopyError> {
        job::run(plan, &Arc::new(Control::new()), &mut |_| {})
    }

    fn connect(&self) -> Connection {
        Connection::connect(&self.server.dsn_socket()).unwrap()
    }

    /// Runs statements, in their order.
    fn run(&self, statements: &[&str]) {
        let mut connection = self.connect();
        for sql in statements {
            let done = connection.query(sql.as_bytes());
            done.unwrap_or_else(|error| panic!("{}: {error}", &sql[..sql.len().min(200)]));
        }
    }

    fn rows(&self, sql: &str) -> Vec<Row> {
        self.connect().query_rows(sql.as_bytes()).unwrap()
    }

    /// The first value of the first row, as text.
    fn value(&self, sql: &str) -> Option<String> {
        let rows = self.connect().query_rows(sql.as_bytes()).ok()?;
        let value = rows.first()?.first()?.clone()?;
        Some(String::from_utf8_lossy(&value).into_owned())
    }

    /// Whether two tables of the server have the same rows, to the last bit.
    fn assert_equal(&self, one: &str, other: &str) {
        let read = |table: &str| self.rows(&format!("SELECT * FROM {table} ORDER BY 1"));
        let (one_rows, other_rows) = (read(one), read(other));
        assert_eq!(one_rows.len(), other_rows.len(), "{one} and {other}");
        for (i, (row, copy)) in one_rows.iter().zip(&other_rows).enumerate() {
            assert!(row == copy, "row {i} of {one} and {other}");
        }
    }
}

/// So many rows as sysbench would write them, `k` and `pad` from the number.
fn fill(stage: &Stage, rows: u32) {
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

/// Ranges and steps are kept by a table's number: under another list they would be another table's.
#[test]
fn a_job_keeps_its_tables_and_shares_none() {
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        fill(&stage, 100);
        let only = |name: &str| Plan {
            tables: vec![TableName {
                schema: "a".into(),
                name: name.into(),
            }],
            ..stage.plan()
        };
        stage.copy(&only("t")).unwrap();
        // Sorts before the other, so it would have its number.
        stage.run(&[
            "CREATE TABLE a.s (id INT PRIMARY KEY, v INT, UNIQUE KEY v (v))",
            "INSERT INTO a.s VALUES (1, 1), (2, 2)",
        ]);
        let error = stage.copy(&only("s")).unwrap_err().to_string();
        assert!(
            error.contains("copies a.t") && error.contains("--job"),
            "{error}"
        );
        let error = stage.copy(&stage.plan()).unwrap_err().to_string();
        assert!(error.contains("copies a.t"), "{error}");
        let other = Plan {
            job: Job::new("other").unwrap(),
            ..only("s")
        };
        assert_eq!(stage.copy(&other).unwrap().rows, 2);
        stage.assert_equal("a.s", "b.s");
        // Empty, so nothing else refuses it; its keys may be in the first job's journal alone.
        stage.run(&["TRUNCATE TABLE b.t"]);
        let third = Plan {
            job: Job::new("third").unwrap(),
            ..only("t")
        };
        let error = stage.copy(&third).unwrap_err().to_string();
        assert!(error.contains("made by job test"), "{error}");
    }
}

/// Made again it would be empty, and taken for copied.
#[test]
fn a_table_that_was_dropped_at_the_target_is_said() {
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        fill(&stage, 100);
        stage.copy(&stage.plan()).unwrap();
        stage.run(&["DROP TABLE b.t"]);
        let error = stage.copy(&stage.plan()).unwrap_err().to_string();
        assert!(
            error.contains("copied into b.t") && error.contains("--job"),
            "{error}"
        );
        assert!(stage.rows("SHOW TABLES IN b").is_empty());
    }
}

/// A unique key that only the target has would take rows away in silence as changes are applied.
#[test]
fn a_stricter_unique_key_at_the_target_is_refused() {
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        fill(&stage, 10);
        stage.run(&[
            "CREATE TABLE b.t LIKE a.t",
            "ALTER TABLE b.t ADD UNIQUE KEY stricter (k, pad(10))",
        ]);
        let error = stage.copy(&stage.plan()).unwrap_err().to_string();
        assert!(error.contains("stricter (k, pad(10))"), "{error}");
    }
}

/// A lock of the target's goes with its session; who has the job is in the job's row.
#[test]
fn a_job_that_was_taken_over_ends_the_copier_that_had_it() {
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        fill(&stage, 100);
        let plan = Plan {
            until: Until::Stopped,
            ..stage.plan()
        };
        let control = Arc::new(Control::new());
        let error = std::thread::scope(|scope| {
            let copier = scope.spawn(|| job::run(&plan, &control, &mut |_| {}));
            let deadline = Instant::now() + Duration::from_secs(60);
            while control.phase() != waggle_copy::Phase::Replicate {
                assert!(Instant::now() < deadline, "it never replicates");
                // sleep: looking all the time would take the processor from who is waited for
                std::thread::sleep(Duration::from_millis(1));
            }
            stage.run(&[
                "UPDATE waggle_copy.jobs SET owner = owner + 1",
                "UPDATE a.t SET k = k + 1",
            ]);
            copier.join().unwrap().unwrap_err().to_string()
        });
        assert!(
            error.contains("another copier has taken over job test"),
            "{error}"
        );
        // Its changes went with the position.
        let same = "SELECT COUNT(*) FROM a.t JOIN b.t USING (id, k)";
        assert_eq!(stage.value(same).as_deref(), Some("0"));
    }
}

/// A server has a transaction in its log, and in the log's position, before its rows can be seen.
/// The naive way, a snapshot and the position beside it, loses such a row; ours never does.
#[test]
fn a_position_holds_what_its_snapshot_sees() {
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        stage.run(&["CREATE DATABASE a", "CREATE TABLE a.t (id INT PRIMARY KEY)"]);
        if flavour == Flavour::MySql {
            // Between the log and the engine, every commit takes a while.
            stage.run(&["SET GLOBAL binlog_group_commit_sync_delay = 200000"]);
            assert!(
                naive_loses(&stage),
                "the naive way lost nothing in a minute"
            );
        }
        ours_never_loses(&stage);
    }
}

/// Whether a position beside a snapshot ever has a row that the snapshot lacks.
fn naive_loses(stage: &Stage) -> bool {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| write(stage, &over));
        let mut reader = stage.connect();
        let mut lost = false;
        let deadline = Instant::now() + Duration::from_secs(60);
        while Instant::now() < deadline {
            let offset = |row: &Row| {
                String::from_utf8(row[1].clone().unwrap())
                    .unwrap()
                    .parse::<u64>()
                    .unwrap()
            };
            let snapshot = b"START TRANSACTION WITH CONSISTENT SNAPSHOT";
            reader.query(snapshot).unwrap();
            let position = offset(&reader.query_rows(b"SHOW BINARY LOG STATUS").unwrap()[0]);
            let seen = count(&reader.query_rows(b"SELECT COUNT(*) FROM a.t").unwrap());
            reader.query(b"COMMIT").unwrap();
            let logged = reader.query_rows(b"SHOW BINLOG EVENTS").unwrap();
            let is_row = |row: &&Row| {
                let text = |column: usize| String::from_utf8_lossy(row[column].as_ref().unwrap());
                let end: u64 = text(4).parse().unwrap();
                text(2) == "Write_rows" && end <= position
            };
            lost |= logged.iter().filter(is_row).count() as u64 > seen;
            if lost {
                break;
            }
        }
        over.store(true, Ordering::Relaxed);
        lost
    })
}

/// Transactions that made the database and the table.
const MADE: u64 = 2;

fn ours_never_loses(stage: &Stage) {
    let over = AtomicBool::new(false);
    let name = TableName {
        schema: "a".into(),
        name: "t".into(),
    };
    let table = Table {
        number: 0,
        source: name.clone(),
        target: name,
        columns: Vec::new(),
        key: None,
        is_mariadb: stage.server.flavour() == Flavour::MariaDb,
        definition: String::new(),
        rows_estimate: 0,
        bytes_estimate: 0,
        typed_json: Vec::new(),
    };
    std::thread::scope(|scope| {
        scope.spawn(|| write(stage, &over));
        for _ in 0..5 {
            let tables = std::slice::from_ref(&table);
            let mut snapshot =
                snapshot::open(&stage.server.dsn_socket(), tables, 3, &Control::new()).unwrap();
            let counts: Vec<u64> = snapshot
                .readers
                .iter_mut()
                .map(|reader| count(&reader.query_rows(b"SELECT COUNT(*) FROM a.t").unwrap()))
                .collect();
            // One transaction a row, and no other since the table was made.
            let position = snapshot.position.to_string();
            let number = position.rsplit(['-', ':']).next().unwrap();
            let transactions: u64 = number.parse().unwrap();
            assert_eq!(counts, [transactions - MADE; 3], "{position}");
        }
        over.store(true, Ordering::Relaxed);
    });
}

/// Inserts rows, a transaction each, until it is over.
fn write(stage: &Stage, over: &AtomicBool) {
    let mut connection = stage.connect();
    while !over.load(Ordering::Relaxed) {
        let next = b"INSERT INTO a.t SELECT COALESCE(MAX(id), 0) + 1 FROM a.t AS b";
        connection.query(next).unwrap();
    }
}

fn count(rows: &[Row]) -> u64 {
    String::from_utf8_lossy(rows[0][0].as_ref().unwrap())
        .parse()
        .unwrap()
}
