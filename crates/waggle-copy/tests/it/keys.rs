//! Keys that are built after the rows: what ends the building is said, or gone on from.
//!
//! A session that has read the target's table and keeps its transaction open holds the building
//! back at its beginning, when all rows are there: from then on the test decides what happens.

use std::sync::Arc;
use std::time::{Duration, Instant};

use waggle_copy::verify::compare;
use waggle_copy::{Control, CopyError, Plan, Table, Until, job, schema, session};
use waggle_server::Flavour;
use waggle_server::sandbox::Sandbox;
use waggle_wire::Connection;

use crate::servers::{comparison, dsn, flavours, fresh, one, other, plan, run, run_all, server};

/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

const TABLE: &str = "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, u INT, v INT, w VARCHAR(30), \
                     UNIQUE KEY uu (u), KEY kv (v, u), FULLTEXT KEY kw (w)) ENGINE=InnoDB;\n";
const ROWS: u32 = 500;

/// A source with rows, and the target's table as the copy makes it, empty and without its keys.
struct Stage {
    source: Connection,
    target: Connection,
    /// Holds the building of keys back until its transaction ends.
    holder: Connection,
    plan: Plan,
    tables: Vec<Table>,
    _spool: tempfile::TempDir,
}

impl Stage {
    fn new(flavour: Flavour, schema: &str) -> Stage {
        let ours: &Sandbox = server(flavour).expect("asked for before");
        let theirs: &Sandbox = other(flavour).expect("it was there before");
        let mut source = fresh(ours, schema);
        run_all(&mut source, TABLE);
        let rows: Vec<String> = (1..=ROWS)
            .map(|id| format!("({id}, {id} * 7, {id} % 13, 'word{id} other')"))
            .collect();
        run(
            &mut source,
            &format!("INSERT INTO t VALUES {}", rows.join(", ")),
        );
        let mut target = fresh(theirs, schema);
        let spool = tempfile::tempdir().expect("a directory");
        let mut plan = plan(dsn(ours, schema), dsn(theirs, schema), schema);
        plan.spool = spool.path().join("spool");
        plan.until = Until::Copied;
        let tables = schema::read(&mut source, &plan).expect("tables");
        let mut job = plan.job.clone();
        let endpoint = plan.source.endpoint.to_string();
        job.install(&mut target, &endpoint, &tables)
            .expect("progress");
        job.claim(&mut target, &tables).expect("its tables");
        schema::create(&mut target, &plan, &tables).expect("tables made");
        let mut holder = Connection::connect(&plan.target).expect("a session");
        run(
            &mut holder,
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        );
        Stage {
            source,
            target,
            holder,
            plan,
            tables,
            _spool: spool,
        }
    }

    /// From now on the table may be written to, and not be altered, until the holder commits. It
    /// has the right to write as well: one that asks later would wait behind who alters.
    fn hold(&mut self) {
        run(&mut self.holder, "BEGIN");
        run(&mut self.holder, "UPDATE t SET v = 0 WHERE id = -1");
    }

    /// The sessions that alter the table, once they are what is waited for.
    fn altering(&mut self, is_it: impl Fn(&[String]) -> bool) -> Vec<String> {
        let database = self.plan.target.database.clone().expect("a database");
        let find = format!(
            "SELECT ID FROM information_schema.PROCESSLIST \
             WHERE INFO LIKE 'ALTER TABLE `{database}`%' ORDER BY ID"
        );
        let deadline = Instant::now() + PATIENCE;
        loop {
            let rows = self.target.query_rows(find.as_bytes()).expect("sessions");
            let ids: Vec<String> = rows
                .into_iter()
                .flatten()
                .flatten()
                .map(|id| String::from_utf8_lossy(&id).into_owned())
                .collect();
            if is_it(&ids) {
                return ids;
            }
            assert!(Instant::now() < deadline, "{database}: {ids:?} alter it");
            std::thread::yield_now();
        }
    }

    fn copy(&self) -> Result<u64, CopyError> {
        let control = Arc::new(Control::new());
        job::run(&self.plan, &control, &mut |_| {}).map(|outcome| outcome.rows)
    }

    fn steps_left(&mut self) -> String {
        let sql = format!(
            "SELECT COUNT(*) FROM waggle_copy.journal WHERE job = '{}' AND is_done = 0",
            self.plan.job.name()
        );
        one(&mut self.target, &sql)
    }

    /// Every row and every key is there, and nothing is left to do.
    fn assert_whole(&mut self) {
        let mut session = session::source(&self.plan.source).expect("a session");
        let tables = schema::read(&mut session, &self.plan).expect("tables");
        let reports = compare(&comparison(&self.plan), &tables, &Control::new(), &|_| {})
            .expect("a comparison");
        assert!(
            reports.iter().all(|report| report.differences.is_empty()),
            "{reports:?}"
        );
        let show = "SHOW CREATE TABLE t";
        assert_eq!(one(&mut self.source, show), one(&mut self.target, show));
        assert_eq!(self.steps_left(), "0");
    }
}

#[test]
fn a_duplicate_ends_the_building_and_its_removal_lets_it_go_on() {
    for flavour in flavours() {
        let mut stage = Stage::new(flavour, "keys_duplicate");
        stage.hold();
        let plan = stage.plan.clone();
        let copier = std::thread::spawn(move || {
            let control = Arc::new(Control::new());
            job::run(&plan, &control, &mut |_| {})
        });
        stage.altering(|ids| ids.len() == 1);
        // The source's key allows what it has; this row is the target's alone.
        run(&mut stage.holder, "INSERT INTO t VALUES (-5, 7, 7, '')");
        run(&mut stage.holder, "COMMIT");
        let error = copier.join().expect("no panic").expect_err("a duplicate");
        let words = error.to_string();
        assert!(
            words.contains("building the keys of keys_duplicate.t") && words.contains("'7'"),
            "{flavour}: {words}"
        );
        assert_ne!(stage.steps_left(), "0");
        let keys = "SELECT COUNT(*) FROM information_schema.STATISTICS \
                    WHERE TABLE_SCHEMA = 'keys_duplicate' AND INDEX_NAME IN ('uu', 'kv')";
        assert_eq!(one(&mut stage.target, keys), "0", "{flavour}: all or none");
        // As long as it is there, there is no other end.
        stage.copy().expect_err("the duplicate is still there");
        run(&mut stage.target, "DELETE FROM t WHERE id = -5");
        assert_eq!(stage.copy().expect("a copy"), u64::from(ROWS));
        stage.assert_whole();
    }
}

#[test]
fn a_session_lost_while_keys_are_built_is_followed_by_another() {
    for flavour in flavours() {
        let mut stage = Stage::new(flavour, "keys_lost");
        stage.hold();
        let plan = stage.plan.clone();
        let copier = std::thread::spawn(move || {
            let control = Arc::new(Control::new());
            job::run(&plan, &control, &mut |_| {})
        });
        let mut lost: Vec<String> = Vec::new();
        for _ in 0..2 {
            let ids = stage.altering(|ids| ids.iter().any(|id| !lost.contains(id)));
            let id = ids.into_iter().find(|id| !lost.contains(id));
            let id = id.expect("one that was waited for");
            run(&mut stage.target, &format!("KILL {id}"));
            lost.push(id);
        }
        stage.altering(|ids| ids.iter().any(|id| !lost.contains(id)));
        run(&mut stage.holder, "COMMIT");
        let outcome = copier.join().expect("no panic").expect("a copy");
        assert_eq!(outcome.rows, u64::from(ROWS), "{flavour}");
        stage.assert_whole();
    }
}

/// A server goes on with the statement of a process that was killed, and the next process builds
/// the same keys meanwhile.
#[test]
fn keys_that_a_dead_process_builds_are_not_built_twice() {
    for flavour in flavours() {
        let mut stage = Stage::new(flavour, "keys_orphan");
        let (plan, tables) = (stage.plan.clone(), stage.tables.clone());
        run(
            &mut stage.target,
            "INSERT INTO t VALUES (1, 2, 3, 'a word')",
        );
        stage.hold();
        let mut dead = session::target(&plan.target).expect("a session");
        let orphan = std::thread::spawn(move || {
            let sql = b"ALTER TABLE `keys_orphan`.`t` ADD UNIQUE KEY `uu` (`u`), \
                        ADD KEY `kv` (`v`,`u`)";
            dead.query(sql).map(drop)
        });
        stage.altering(|ids| ids.len() == 1);
        let builder = std::thread::spawn(move || {
            let mut target = session::target(&plan.target).expect("a session");
            schema::build_keys(&mut target, &plan, &tables, &Control::new())
        });
        stage.altering(|ids| ids.len() == 2);
        run(&mut stage.holder, "COMMIT");
        // Whichever was first, the other one finds the keys there.
        let first = orphan.join().expect("no panic");
        let second = builder.join().expect("no panic");
        second.unwrap_or_else(|error| panic!("{flavour}: {error} (the other: {first:?})"));
        assert_eq!(stage.steps_left(), "0", "{flavour}");
        let show = "SHOW CREATE TABLE t";
        assert_eq!(one(&mut stage.source, show), one(&mut stage.target, show));
    }
}

/// The server would go on with the statement, and the copy wait for it.
#[test]
fn a_copy_that_is_stopped_does_not_wait_for_a_key() {
    for flavour in flavours() {
        let mut stage = Stage::new(flavour, "keys_stopped");
        stage.hold();
        let (plan, control) = (stage.plan.clone(), Arc::new(Control::new()));
        let asked = Arc::clone(&control);
        let copier = std::thread::spawn(move || job::run(&plan, &control, &mut |_| {}));
        stage.altering(|ids| ids.len() == 1);
        asked.stop();
        // The holder's transaction is open all the time.
        let deadline = Instant::now() + PATIENCE;
        while !copier.is_finished() {
            assert!(Instant::now() < deadline, "{flavour}: it waits on");
            std::thread::yield_now();
        }
        let ended = copier.join().expect("no panic");
        assert!(
            matches!(ended, Err(CopyError::Stopped)),
            "{flavour}: {ended:?}"
        );
        stage.altering(<[String]>::is_empty);
        assert_ne!(stage.steps_left(), "0");
        run(&mut stage.holder, "COMMIT");
        assert_eq!(stage.copy().expect("a copy"), u64::from(ROWS));
        stage.assert_whole();
    }
}
