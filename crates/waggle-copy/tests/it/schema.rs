//! Tables made at the target are the source's, and keys that waited come back exactly.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use waggle_copy::{Control, Until, job, schema};
use waggle_server::Flavour;
use waggle_wire::{Connection, Error};

use crate::servers::{dsn, flavours, fresh, one, other, plan, run, run_all, server};

const TABLES: &str = "
CREATE TABLE parent (a INT NOT NULL PRIMARY KEY, name VARCHAR(30)) ENGINE=InnoDB;
CREATE TABLE wide (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT COMMENT 'a, (b'' c', parent INT,
  e ENUM('a,','b)') DEFAULT 'b)', t TEXT NOT NULL, p POINT NOT NULL, n VARCHAR(20) NOT NULL,
  g INT GENERATED ALWAYS AS (parent + 1) VIRTUAL, h INT INVISIBLE DEFAULT 3,
  dt DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),
  PRIMARY KEY (id), UNIQUE KEY un (n), UNIQUE KEY up (parent, n), KEY kg (g), KEY kt (t(10), id),
  SPATIAL KEY ks (p), KEY kd (dt DESC), FULLTEXT KEY kf (t), FULLTEXT KEY kn (n),
  CONSTRAINT fk FOREIGN KEY (parent) REFERENCES parent (a) ON DELETE CASCADE,
  CONSTRAINT ck CHECK (parent > 0)
) ENGINE=InnoDB AUTO_INCREMENT=77 COMMENT='x ; y';
CREATE TABLE counted (a INT NOT NULL, n INT NOT NULL AUTO_INCREMENT, b INT,
  PRIMARY KEY (a), KEY kb (b), KEY kn (n), KEY kab (a, b)) ENGINE=InnoDB;
CREATE TABLE parts (a INT NOT NULL, b INT, PRIMARY KEY (a), KEY kb (b))
  PARTITION BY RANGE (a)
  (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE);
CREATE TABLE `od``d \"name` (`a``b` INT NOT NULL, UNIQUE KEY `k``1` (`a``b`), KEY k2 (`a``b`));
";

/// Without what each copy counts by itself.
fn shown(text: &str) -> String {
    text.replace(" AUTO_INCREMENT=78", " AUTO_INCREMENT=77")
}

#[test]
fn a_table_comes_back_as_it_was() {
    for flavour in flavours() {
        let server = server(flavour).expect("asked for before");
        let mut source = fresh(server, "s_keys_s");
        run_all(&mut source, TABLES);
        let mut target = fresh(server, "s_keys_t");
        run(&mut target, "SET foreign_key_checks = 0");
        let mut plan = plan(dsn(server, "s_keys_s"), dsn(server, "s_keys_t"), "s_keys");
        plan.job
            .install(&mut target, "test", &[])
            .expect("progress");
        let tables = schema::read(&mut source, &plan).expect("tables");
        assert_eq!(tables.len(), 5);
        schema::create(&mut target, &plan, &tables).expect("tables made");
        // Again, as after a kill: nothing is lost.
        schema::create(&mut target, &plan, &tables).expect("tables made");
        let without = one(&mut target, "SHOW CREATE TABLE wide");
        for key in ["`un`", "`up`", "`kg`", "`ks`", "`kf`", "`fk`"] {
            assert!(!without.contains(key), "{flavour}: {key} waits: {without}");
        }
        for _ in 0..2 {
            // The second time there is nothing left.
            schema::build_keys(&mut target, &plan, &tables, &Control::new()).expect("keys");
        }
        for table in &tables {
            let ours = format!("SHOW CREATE TABLE {}", table.source.quoted());
            let theirs = format!("SHOW CREATE TABLE {}", table.target.quoted());
            let (ours, theirs) = (one(&mut source, &ours), one(&mut target, &theirs));
            assert_eq!(shown(&ours), shown(&theirs), "{flavour}");
        }
    }
}

#[test]
fn a_key_that_was_built_and_not_noted_is_known() {
    for flavour in flavours() {
        let server = server(flavour).expect("asked for before");
        let mut source = fresh(server, "s_done_s");
        run_all(
            &mut source,
            "CREATE TABLE t (a INT NOT NULL PRIMARY KEY, b INT, KEY kb (b));\n",
        );
        let mut target = fresh(server, "s_done_t");
        let mut plan = plan(dsn(server, "s_done_s"), dsn(server, "s_done_t"), "s_done");
        plan.job
            .install(&mut target, "test", &[])
            .expect("progress");
        let tables = schema::read(&mut source, &plan).expect("tables");
        schema::create(&mut target, &plan, &tables).expect("tables made");
        run(&mut target, "ALTER TABLE t ADD KEY kb (b)");
        schema::build_keys(&mut target, &plan, &tables, &Control::new()).expect("it is there");
        let left = "SELECT COUNT(*) FROM waggle_copy.journal WHERE job = 's_done' AND is_done = 0";
        assert_eq!(one(&mut target, left), "0");
    }
}

#[test]
fn of_a_step_only_the_keys_that_are_missing_are_built() {
    for flavour in flavours() {
        let server = server(flavour).expect("asked for before");
        let mut source = fresh(server, "s_part_s");
        run_all(
            &mut source,
            "CREATE TABLE t (a INT NOT NULL PRIMARY KEY, b INT, c VARCHAR(9), d TEXT, \
             UNIQUE KEY ub (b), KEY kb (b, c), KEY `k,(c` (c), FULLTEXT KEY kd (d));\n",
        );
        let mut target = fresh(server, "s_part_t");
        let mut plan = plan(dsn(server, "s_part_s"), dsn(server, "s_part_t"), "s_part");
        plan.job
            .install(&mut target, "test", &[])
            .expect("progress");
        let tables = schema::read(&mut source, &plan).expect("tables");
        schema::create(&mut target, &plan, &tables).expect("tables made");
        // By hand, in other letters: the others of its step are still to be built.
        run(&mut target, "ALTER TABLE t ADD UNIQUE KEY UB (b)");
        schema::build_keys(&mut target, &plan, &tables, &Control::new()).expect("the others");
        let keys = "SELECT GROUP_CONCAT(DISTINCT LOWER(INDEX_NAME) ORDER BY INDEX_NAME) \
                    FROM information_schema.STATISTICS \
                    WHERE TABLE_SCHEMA = 's_part_t' AND TABLE_NAME = 't'";
        let there = one(&mut target, keys);
        for key in ["ub", "kb", "k,(c", "kd"] {
            assert!(there.contains(key), "{flavour}: {key} in {there}");
        }
        let left = "SELECT COUNT(*) FROM waggle_copy.journal WHERE job = 's_part' AND is_done = 0";
        assert_eq!(one(&mut target, left), "0");
    }
}

/// Between reading a table and its snapshot: no log that is followed tells of it.
#[test]
fn a_table_that_is_made_meanwhile_is_read_whole_or_not_at_all() {
    const NO_SUCH_TABLE: u16 = 1146;
    for flavour in flavours() {
        let server = server(flavour).expect("asked for before");
        let mut reader = fresh(server, "s_busy");
        let make = |name: &str| {
            format!(
                "CREATE TABLE s_busy.{name} (a INT PRIMARY KEY, b INT, KEY kb (b)) ENGINE=InnoDB"
            )
        };
        run(&mut reader, &make("t"));
        run(&mut reader, &make("u"));
        let names = schema::describe::list(&mut reader, "s_busy").expect("tables");
        let (mut read, mut failed) = (Vec::new(), Vec::new());
        let is_read = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut changer = Connection::connect(&dsn(server, "s_busy")).expect("a session");
                while !is_read.load(Ordering::Relaxed) {
                    run(&mut changer, "DROP TABLE u");
                    run(&mut changer, &make("u"));
                    run(&mut changer, "ALTER TABLE u FORCE, ALGORITHM=COPY");
                }
            });
            for _ in 0..300 {
                match schema::describe::tables(&mut reader, &names) {
                    // It was dropped after it had been listed.
                    Err(Error::Server { errno, .. }) if errno == NO_SUCH_TABLE => {}
                    Ok(tables) => read.extend(tables),
                    Err(error) => failed.push(error),
                }
            }
            is_read.store(true, Ordering::Relaxed);
        });
        assert!(failed.is_empty(), "{flavour}: {failed:?}");
        for table in read {
            let shown = (&*table.engine, table.columns.len(), table.indexes.len());
            assert_eq!(shown, ("InnoDB", 2, 2), "{flavour} {}", table.name);
        }
    }
}

#[test]
fn a_definition_that_changes_while_the_copy_begins_is_said() {
    for flavour in flavours() {
        let ours = server(flavour).expect("asked for before");
        let theirs = other(flavour).expect("it was there before");
        let mut source = fresh(ours, "s_moves");
        run(
            &mut source,
            "CREATE TABLE t (a INT NOT NULL PRIMARY KEY, b INT)",
        );
        let mut target = fresh(theirs, "s_moves");
        let mut plan = plan(dsn(ours, "s_moves"), dsn(theirs, "s_moves"), "s_moves");
        let spool = tempfile::tempdir().expect("a directory");
        plan.spool = spool.path().join("spool");
        plan.until = Until::Copied;
        let endpoint = plan.source.endpoint.to_string();
        let mut job = plan.job.clone();
        job.install(&mut target, &endpoint, &[]).expect("progress");
        // The copy has read the table and waits for the job's row.
        run(&mut target, "BEGIN");
        run(
            &mut target,
            "UPDATE waggle_copy.jobs SET owner = owner + 1 WHERE job = 's_moves'",
        );
        let copier = std::thread::spawn(move || {
            let control = Arc::new(Control::new());
            job::run(&plan, &control, &mut |_| {})
        });
        let waits = "SELECT COUNT(*) FROM information_schema.PROCESSLIST \
                     WHERE INFO LIKE 'INSERT IGNORE INTO waggle_copy.jobs%s_moves%'";
        let deadline = Instant::now() + Duration::from_secs(30);
        while one(&mut target, waits) == "0" {
            assert!(Instant::now() < deadline && !copier.is_finished());
            std::thread::yield_now();
        }
        run(&mut source, "ALTER TABLE t ADD COLUMN c INT");
        run(&mut target, "COMMIT");
        let error = copier.join().expect("no panic").expect_err("it changed");
        let words = error.to_string();
        assert!(
            words.contains("definition was changed"),
            "{flavour}: {words}"
        );
    }
}

#[test]
fn tables_go_from_one_family_to_the_other() {
    let (Some(mysql), Some(mariadb)) = (server(Flavour::MySql), server(Flavour::MariaDb)) else {
        return;
    };
    let script = "CREATE TABLE t (a INT NOT NULL AUTO_INCREMENT, \
        b VARCHAR(9) NOT NULL DEFAULT 'x', \
        c DATETIME DEFAULT CURRENT_TIMESTAMP, d DECIMAL(9,2), g INT AS (LENGTH(b) * 2) STORED, \
        h INT INVISIBLE, j JSON, e ENUM('f(x)'), PRIMARY KEY (a), UNIQUE KEY ub (b), \
        KEY kd (d DESC), CHECK (d > 0));\n";
    for (from, to) in [(mysql, mariadb), (mariadb, mysql)] {
        let mut source = fresh(from, "s_cross_s");
        run_all(&mut source, script);
        let mut target = fresh(to, "s_cross_t");
        let mut plan = plan(dsn(from, "s_cross_s"), dsn(to, "s_cross_t"), "s_cross");
        plan.job
            .install(&mut target, "test", &[])
            .expect("progress");
        let tables = schema::read(&mut source, &plan).expect("tables");
        schema::create(&mut target, &plan, &tables).expect("tables made");
        schema::build_keys(&mut target, &plan, &tables, &Control::new()).expect("keys");
        let there = one(&mut target, "SHOW CREATE TABLE t");
        assert!(
            there.contains("`ub`") && there.contains("INVISIBLE"),
            "{there}"
        );
    }
}

#[test]
fn what_has_no_rows_of_its_own_is_refused() {
    for flavour in flavours() {
        let server = server(flavour).expect("asked for before");
        let mut source = fresh(server, "s_none_s");
        run(&mut source, "CREATE VIEW v AS SELECT 1 AS a");
        let mut plan = plan(dsn(server, "s_none_s"), dsn(server, "s_none_t"), "s_none");
        let name = |name: &str| waggle_copy::TableName {
            schema: "s_none_s".into(),
            name: name.into(),
        };
        plan.tables = vec![name("v")];
        let error = schema::read(&mut source, &plan)
            .expect_err("a view")
            .to_string();
        assert!(error.contains("view"), "{error}");
        plan.tables = vec![name("nothing")];
        let error = schema::read(&mut source, &plan)
            .expect_err("nothing")
            .to_string();
        assert!(error.contains("no such table"), "{error}");
        if flavour == Flavour::MariaDb {
            run(
                &mut source,
                "CREATE TABLE hist (a INT PRIMARY KEY) WITH SYSTEM VERSIONING",
            );
            plan.tables = vec![name("hist")];
            let error = schema::read(&mut source, &plan)
                .expect_err("its past")
                .to_string();
            assert!(error.contains("system-versioned"), "{error}");
        }
    }
}
