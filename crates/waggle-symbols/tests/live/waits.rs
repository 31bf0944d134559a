//! A statement that waits: how long the server says it did, and what it passes on its way.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use waggle_server::Flavour;
use waggle_symbols::layout::LockTime;
use waggle_symbols::{FieldName, Hook};

use crate::stage::{Session, Stage, flavours, value};
use crate::thread::Seen;

/// How many wait for a row, and for a table: statement and column.
const WAITS_FOR_ROW: (&str, usize) = ("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'", 1);
const WAITS_FOR_TABLE: (&str, usize) = (
    "SELECT COUNT(*) FROM information_schema.PROCESSLIST \
     WHERE STATE LIKE 'Waiting for table metadata lock'",
    0,
);

/// Types of `thd_wait_begin`.
const ROW: u64 = 3;
const METADATA: u64 = 5;

/// The turn of a test here: tests share a server, which counts the waits of all of them.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long a statement of `waiter` was seen to wait, at least, and how long it took: `holder`
/// has what it needs until it was. `waiting` gives, in column `at`, how many wait.
fn blocked(
    waiter: &mut Session,
    holder: &mut Session,
    sql: &str,
    (waiting, at): (&str, usize),
    release: &str,
) -> (Seen, Duration, Duration) {
    let (mut all, (at_least, at_most)) = waiter.observe_with(sql, |connection| {
        std::thread::scope(|scope| {
            let begin = Instant::now();
            let blocked = scope.spawn(move || {
                connection.query(sql.as_bytes()).expect(sql);
                begin.elapsed()
            });
            while value(&mut holder.connection, waiting, at) == "0" {
                assert!(begin.elapsed() < Duration::from_secs(30), "it never waited");
            }
            let waits_since = Instant::now();
            holder.run("SELECT SLEEP(0.1)");
            let at_least = waits_since.elapsed();
            holder.run(release);
            (at_least, blocked.join().expect("the statement"))
        })
    });
    assert_eq!(all.len(), 1);
    (all.remove(0), at_least, at_most)
}

#[test]
fn the_lock_time_is_what_the_server_calls_so() {
    let _turn = turn();
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        let mut holder = stage.session(stage.server.dsn_socket());
        let mut waiter = stage.session(stage.server.dsn());
        let (free, _) = waiter.one("SELECT 1");
        assert_eq!(lock_time(&stage, &free), Duration::ZERO, "{flavour}");
        let update = "UPDATE t SET v = 1 WHERE id = 7";
        let is_mysql = flavour == Flavour::MySql;

        holder.run("BEGIN");
        holder.run("UPDATE t SET v = 0 WHERE id = 7");
        let (seen, least, most) =
            blocked(&mut waiter, &mut holder, update, WAITS_FOR_ROW, "COMMIT");
        let lock = lock_time(&stage, &seen);
        // MariaDB's InnoDB reports a wait in milliseconds to a function that adds microseconds.
        let least_told = if is_mysql { least } else { least / 1000 };
        assert!(
            (least_told..=most).contains(&lock),
            "{flavour}: a row: {lock:?}, not in {least_told:?}..={most:?}"
        );

        holder.run("LOCK TABLES t WRITE");
        let (seen, least, most) = blocked(
            &mut waiter,
            &mut holder,
            update,
            WAITS_FOR_TABLE,
            "UNLOCK TABLES",
        );
        let lock = lock_time(&stage, &seen);
        // Whose metadata it waits for is no lock time on MySQL.
        assert_eq!(
            (least..=most).contains(&lock),
            !is_mysql,
            "{flavour}: a table: {lock:?}, {least:?}..={most:?}"
        );
    }
}

fn lock_time(stage: &Stage, seen: &Seen) -> Duration {
    let value = seen.number(FieldName::LockTime);
    Duration::from_micros(match stage.place.layout.lock_time().expect("it is known") {
        LockTime::Duration(_) => value,
        LockTime::Moment(_) => value - seen.number(FieldName::StartTime),
    })
}

/// What was passed at `hook`.
fn passed(seen: &Seen, hook: Hook) -> Vec<&[u64]> {
    let of_it = seen.passed.iter().filter(|(of, _)| *of == hook);
    of_it.map(|(_, arguments)| arguments.as_slice()).collect()
}

#[test]
fn a_wait_is_announced_with_who_waits_for_whom() {
    let _turn = turn();
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        let mut holder = stage.session(stage.server.dsn_socket());
        let mut waiter = stage.session(stage.server.dsn());
        let holding = holder.one("SELECT 1").0.thd;
        let update = "UPDATE t SET v = 1 WHERE id = 7";
        let report = match flavour {
            Flavour::MySql => Hook::LockReport,
            _ => Hook::ReplicationDeadlockCheck,
        };

        waiter.hooks = vec![Hook::WaitBegin, Hook::WaitEnd, report];
        holder.run("BEGIN");
        holder.run("UPDATE t SET v = 0 WHERE id = 7");
        let (seen, ..) = blocked(&mut waiter, &mut holder, update, WAITS_FOR_ROW, "COMMIT");
        let what = format!("{flavour}: {seen:x?}, {holding:x}");
        assert_eq!(passed(&seen, report), [[seen.thd, holding]], "{what}");
        let begins = passed(&seen, Hook::WaitBegin);
        assert!(begins.contains(&[seen.thd, ROW].as_slice()), "{what}");
        let ends = passed(&seen, Hook::WaitEnd);
        assert!(ends.contains(&[seen.thd].as_slice()), "{what}");

        waiter.hooks = vec![Hook::WaitBegin, Hook::WaitEnd, Hook::MetadataWait];
        holder.run("LOCK TABLES t WRITE");
        let release = "UNLOCK TABLES";
        let (seen, ..) = blocked(&mut waiter, &mut holder, update, WAITS_FOR_TABLE, release);
        let what = format!("{flavour}: {seen:x?}");
        let waits = passed(&seen, Hook::MetadataWait);
        assert_eq!(waits.len(), 1, "{what}");
        assert_eq!(waits[0][1] - stage.place.owner_offset, seen.thd, "{what}");
        // Whose wait it is, is left to the thread.
        let begins = passed(&seen, Hook::WaitBegin);
        assert!(begins.contains(&[0, METADATA].as_slice()), "{what}");
        assert!(
            passed(&seen, Hook::WaitEnd).contains(&[0].as_slice()),
            "{what}"
        );
    }
}

#[test]
fn a_commit_passes_redo_and_binary_log() {
    for flavour in flavours() {
        let stage = Stage::alone(flavour);
        let mut session = stage.session(stage.server.dsn());
        let passes: &[&[Hook]] = match flavour {
            Flavour::MySql => &[&[Hook::BinlogCommit], &[Hook::RedoWrite]],
            _ => &[&[Hook::BinlogWrite]],
        };
        for hooks in passes {
            session.hooks = hooks.to_vec();
            let (read, _) = session.one("SELECT v FROM t WHERE id = 1");
            assert!(read.passed.is_empty(), "{flavour}: {read:x?}");
            let (written, _) = session.one("UPDATE t SET v = v + 1 WHERE id = 1");
            let what = format!("{flavour}: {written:x?}");
            for hook in *hooks {
                let times = passed(&written, *hook);
                assert!(!times.is_empty(), "{hook}: {what}");
                if *hook == Hook::BinlogCommit {
                    assert_eq!(times, [[written.thd]], "{what}");
                }
            }
        }
    }
}
