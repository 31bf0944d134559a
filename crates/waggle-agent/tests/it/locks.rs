//! Who waits for whom, on real servers.

use std::collections::HashSet;

use waggle_agent::lock::{LockKind, LockWait};
use waggle_agent::locks::{TreeRole, tree};
use waggle_agent::sessions::Moment;
use waggle_server::Flavour;
use waggle_wire::Error;

use crate::locks_stage::{Client, Stage, flavours, turn};

/// Lock tables are to be had.
const WITH_TABLES: [(&str, &str); 2] = [
    ("performance_schema", "ON"),
    (
        "performance_schema_instrument",
        "wait/lock/metadata/sql/mdl=ON",
    ),
];

/// A table of five rows with a secondary index.
fn with_table(flavour: Flavour, settings: &[(&str, &str)], with_dsn: bool) -> (Stage, Client) {
    let stage = Stage::new(flavour, settings, with_dsn);
    let admin = stage.client();
    admin.run(&[
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, KEY by_a (a))",
        "INSERT INTO t VALUES (1,1,0),(2,2,0),(3,3,0),(4,4,0),(5,5,0)",
    ]);
    (stage, admin)
}

fn errno(result: Result<(), Error>) -> u16 {
    match result {
        Err(Error::Server { errno, .. }) => errno,
        other => panic!("no error of the server's: {other:?}"),
    }
}

/// The waits of one connection.
fn of(waits: &[LockWait], id: u64) -> Vec<&LockWait> {
    let waits = waits.iter();
    waits
        .filter(|w| w.waiter.connection_id == Some(id))
        .collect()
}

/// What is the same of both waits of the chain.
fn check_row_wait(wait: &LockWait, flavour: Flavour) {
    assert_eq!(wait.kind, LockKind::Row);
    assert_eq!(wait.object.table, "sbtest.t", "{wait:#?}");
    assert_eq!(wait.object.index, "PRIMARY");
    let mode = match flavour {
        Flavour::MySql => "X,REC_NOT_GAP",
        Flavour::MariaDb => "X",
    };
    assert_eq!(wait.object.mode_wanted, mode);
    assert_eq!(wait.object.mode_held, mode);
    assert!(!wait.ended);
    assert!(wait.waiter.is_running);
    assert_eq!(&*wait.waiter.fingerprint, "update t set b = ? where id = ?");
    assert_eq!(&*wait.waiter.user, "root");
    assert_eq!(&*wait.waiter.database, "sbtest");
    assert!(wait.waiter.digest.is_some());
    let ages = (wait.waiter.transaction_us, wait.blocker.transaction_us);
    assert!(ages.0.is_some() && ages.1.is_some(), "{wait:#?}");
}

#[test]
fn a_chain_of_row_locks() {
    let _turn = turn();
    for flavour in flavours() {
        let (mut stage, _admin) = with_table(flavour, &WITH_TABLES, true);
        let (a, b, c) = (stage.client(), stage.client(), stage.client());
        a.run(&["BEGIN", "UPDATE t SET b = 7 WHERE id = 1"]);
        b.run(&["BEGIN", "UPDATE t SET b = 8 WHERE id = 2"]);
        b.begin("UPDATE t SET b = 9 WHERE id = 1");
        stage.until("b waits", |s| {
            (!of(&s.waits(), b.id).is_empty()).then_some(())
        });
        c.begin("UPDATE t SET b = 10 WHERE id = 2");
        let waits = stage.until("both are known", |stage| {
            let waits = stage.waits();
            let is_known = |id, blocker| {
                of(&waits, id)
                    .iter()
                    .any(|w| w.blocker.connection_id == Some(blocker) && !w.object.table.is_empty())
            };
            (is_known(b.id, a.id) && is_known(c.id, b.id)).then_some(waits)
        });
        assert_eq!(waits.len(), 2, "{waits:#?}");
        let (first, second) = (of(&waits, b.id)[0], of(&waits, c.id)[0]);
        for wait in [first, second] {
            check_row_wait(wait, flavour);
        }
        // The root is idle in its transaction, with its last statement.
        assert!(!first.blocker.is_running);
        assert!(first.blocker.idle_us.is_some(), "{first:#?}");
        assert_eq!(
            &*first.blocker.fingerprint,
            "update t set b = ? where id = ?"
        );
        assert!(second.blocker.is_running);
        assert_ne!(first.id, second.id);
        let lines = tree(&waits);
        let shape: Vec<_> = lines
            .iter()
            .map(|l| (l.depth, l.role, l.party.connection_id))
            .collect();
        assert_eq!(
            shape,
            [
                (0, TreeRole::Root, Some(a.id)),
                (1, TreeRole::Waiter, Some(b.id)),
                (2, TreeRole::Waiter, Some(c.id)),
            ]
        );
        a.run(&["COMMIT"]);
        b.end().expect("b got the lock");
        b.run(&["COMMIT"]);
        c.end().expect("c got the lock");
        stage.until("both ended", |s| (s.ended.len() >= 2).then_some(()));
        finish(stage, &[first.id, second.id]);
    }
}

/// Waits of a metadata lock: an open transaction, an ALTER behind it, a SELECT behind that.
#[test]
fn a_chain_of_metadata_locks() {
    let _turn = turn();
    for flavour in flavours() {
        for with_dsn in [false, true] {
            let settings: &[_] = if with_dsn { &WITH_TABLES } else { &[] };
            let (mut stage, _admin) = with_table(flavour, settings, with_dsn);
            let (a, b, c) = (stage.client(), stage.client(), stage.client());
            a.run(&["BEGIN", "SELECT * FROM t"]);
            b.begin("ALTER TABLE t ADD COLUMN c INT");
            stage.until("b waits", |s| {
                (!of(&s.waits(), b.id).is_empty()).then_some(())
            });
            c.begin("SELECT a FROM t");
            // MySQL does not list who holds the lock of a plain statement; its tables tell.
            let is_told = with_dsn || flavour == Flavour::MariaDb;
            let holder = is_told.then_some(a.id);
            let waits = stage.until("both are known", |stage| {
                let waits = stage.waits();
                let is_known = |id, blocker: Option<u64>| {
                    of(&waits, id).iter().any(|w| {
                        w.blocker.connection_id == blocker
                            && w.object.mode_held.is_empty() != with_dsn
                    })
                };
                (is_known(b.id, holder) && is_known(c.id, Some(b.id))).then_some(waits)
            });
            let (first, second) = (of(&waits, b.id)[0], of(&waits, c.id)[0]);
            assert_eq!(
                (first.kind, second.kind),
                (LockKind::Metadata, LockKind::Metadata)
            );
            assert!(first.waiter.is_running && second.waiter.is_running);
            assert_eq!(&*first.waiter.fingerprint, "alter table t add column c int");
            if is_told {
                assert_eq!(&*first.blocker.fingerprint, "select * from t");
                assert!(first.blocker.idle_us.is_some());
            }
            assert_eq!(&*second.waiter.fingerprint, "select a from t");
            for wait in [first, second] {
                assert_eq!(wait.object.table, "sbtest.t", "{wait:#?}");
                assert!(wait.object.index.is_empty());
            }
            assert_eq!(first.object.mode_wanted, "EXCLUSIVE");
            assert_eq!(second.object.mode_wanted, "SHARED_READ");
            if with_dsn {
                assert_eq!(first.object.mode_held, "SHARED_READ");
                assert!(first.blocker.transaction_us.is_some());
            }
            a.run(&["COMMIT"]);
            b.end().expect("b got the lock");
            c.end().expect("c got the lock");
            stage.until("both ended", |s| (s.ended.len() >= 2).then_some(()));
            finish(stage, &[first.id, second.id]);
        }
    }
}

#[test]
fn a_wait_that_times_out_and_one_whose_blocker_is_killed() {
    let _turn = turn();
    for flavour in flavours() {
        let (mut stage, admin) = with_table(flavour, &[], false);
        let (a, b) = (stage.client(), stage.client());
        b.run(&["SET SESSION innodb_lock_wait_timeout = 1, lock_wait_timeout = 1"]);
        a.run(&["BEGIN", "UPDATE t SET b = 7 WHERE id = 1"]);
        b.begin("DELETE FROM t WHERE id = 1");
        assert_eq!(errno(b.end()), 1205);
        stage.until("the row wait ended", |s| (s.ended.len() == 1).then_some(()));
        b.begin("DROP TABLE t");
        assert_eq!(errno(b.end()), 1205);
        stage.until("the metadata wait ended", |s| {
            (s.ended.len() == 2).then_some(())
        });
        assert_eq!(stage.ended[1].kind, LockKind::Metadata);
        assert_eq!(&*stage.ended[1].waiter.fingerprint, "drop table t");
        b.run(&["SET SESSION innodb_lock_wait_timeout = 60"]);
        b.begin("DELETE FROM t WHERE id = 1");
        let id = stage.until("b waits again", |s| {
            let waits = s.waits();
            of(&waits, b.id).first().map(|w| w.id)
        });
        admin.run(&[&format!("KILL {}", a.id)]);
        b.end().expect("b got the lock");
        stage.until("it ended", |s| (s.ended.len() == 3).then_some(()));
        let ids: Vec<u64> = stage.ended.iter().map(|w| w.id).collect();
        assert_eq!(ids[2], id);
        for wait in &stage.ended {
            assert!(wait.waited_us > 0);
            // MariaDB names the blocker of a row only with a binary log; MySQL keeps who holds the
            // metadata lock of a plain statement to itself.
            let is_told = (flavour == Flavour::MySql) == (wait.kind == LockKind::Row);
            assert_eq!(
                wait.blocker.connection_id,
                is_told.then_some(a.id),
                "{wait:#?}"
            );
        }
        finish(stage, &ids);
    }
}

#[test]
fn a_waiter_that_is_killed_and_one_that_disconnects() {
    let _turn = turn();
    for flavour in flavours() {
        let (mut stage, admin) = with_table(flavour, &[], false);
        let (a, b, c) = (stage.client(), stage.client(), stage.client());
        a.run(&["BEGIN", "UPDATE t SET b = 7 WHERE id = 1"]);
        c.begin("UPDATE t SET b = 8 WHERE id = 1");
        stage.until("c waits", |s| {
            (!of(&s.waits(), c.id).is_empty()).then_some(())
        });
        b.begin("ALTER TABLE t ADD COLUMN c INT");
        let ids = stage.until("both wait", |s| {
            let waits = s.waits();
            let id = |c: &Client| of(&waits, c.id).first().map(|w| w.id);
            id(&b).zip(id(&c))
        });
        admin.run(&[&format!("KILL QUERY {}", b.id)]);
        assert_eq!(errno(b.end()), 1317);
        admin.run(&[&format!("KILL {}", c.id)]);
        assert!(c.end().is_err());
        stage.until("both ended", |s| (s.ended.len() >= 2).then_some(()));
        a.run(&["COMMIT"]);
        finish(stage, &[ids.0, ids.1]);
    }
}

#[test]
fn a_deadlock_of_two_transactions() {
    let _turn = turn();
    for flavour in flavours() {
        let (mut stage, _admin) = with_table(flavour, &[], false);
        let (a, b) = (stage.client(), stage.client());
        // The lighter transaction is the victim.
        a.run(&[
            "BEGIN",
            "UPDATE t SET b = 1 WHERE id = 1",
            "UPDATE t SET b = 1 WHERE id = 3",
            "UPDATE t SET b = 1 WHERE id = 4",
        ]);
        b.run(&["BEGIN", "UPDATE t SET b = 1 WHERE id = 2"]);
        a.begin("UPDATE t SET b = 2 WHERE id = 2");
        stage.until("a waits", |s| {
            (!of(&s.waits(), a.id).is_empty()).then_some(())
        });
        b.begin("DELETE FROM t WHERE id = 1");
        assert_eq!(errno(b.end()), 1213);
        a.end().expect("a goes on");
        let deadlock = stage.until("it is told", |s| s.deadlocks.first().cloned());
        assert_eq!(deadlock.victim.connection_id, Some(b.id), "{deadlock:#?}");
        assert_eq!(&*deadlock.victim.fingerprint, "delete from t where id = ?");
        let mut cycle: Vec<_> = deadlock.cycle.iter().map(|p| p.connection_id).collect();
        cycle.sort_unstable();
        assert_eq!(cycle, [Some(a.id), Some(b.id)]);
        a.run(&["COMMIT"]);
        let mut ids: Vec<u64> = Vec::new();
        stage.until("a's wait ended", |s| {
            ids = s.ended.iter().map(|w| w.id).collect();
            s.ended
                .iter()
                .any(|w| w.waiter.connection_id == Some(a.id))
                .then_some(())
        });
        assert_eq!(stage.watch.deadlock_count(), 1);
    }
}

/// a and b read a table each; an ALTER waits for each of them; then each wants to read the other's.
#[test]
fn a_deadlock_of_metadata_locks() {
    let _turn = turn();
    for flavour in flavours() {
        let (mut stage, admin) = with_table(flavour, &[], false);
        admin.run(&["CREATE TABLE u (id INT PRIMARY KEY)"]);
        let clients = [
            stage.client(),
            stage.client(),
            stage.client(),
            stage.client(),
        ];
        let [a, b, alter_t, alter_u] = &clients;
        a.run(&["BEGIN", "SELECT * FROM t"]);
        b.run(&["BEGIN", "SELECT * FROM u"]);
        let steps = [
            (alter_t, "ALTER TABLE t ADD COLUMN c INT"),
            (alter_u, "ALTER TABLE u ADD COLUMN c INT"),
            (a, "SELECT 1 FROM u"),
        ];
        for (client, statement) in steps {
            client.begin(statement);
            stage.until("it waits", |s| {
                (!of(&s.waits(), client.id).is_empty()).then_some(())
            });
        }
        b.begin("SELECT 2 FROM t");
        let deadlock = stage.until("it is told", |s| s.deadlocks.first().cloned());
        let victim = deadlock.victim.connection_id;
        let (loser, winner) = if victim == Some(a.id) { (a, b) } else { (b, a) };
        assert_eq!(victim, Some(loser.id), "{deadlock:#?}");
        assert_eq!(errno(loser.end()), 1213);
        let mut cycle: Vec<_> = deadlock.cycle.iter().map(|p| p.connection_id).collect();
        cycle.sort_unstable();
        let mut expected: Vec<_> = clients.iter().map(|c| Some(c.id)).collect();
        expected.sort_unstable();
        assert_eq!(cycle, expected, "{deadlock:#?}");
        loser.run(&["ROLLBACK"]);
        winner.end().expect("it goes on");
        winner.run(&["COMMIT"]);
        alter_t.end().expect("the table is free");
        alter_u.end().expect("the table is free");
        stage.until("all ended", |s| {
            (s.watch.ended_sums()[1].0 >= 4 && s.waits().is_empty()).then_some(())
        });
        assert_eq!(stage.watch.deadlock_count(), 1);
    }
}

#[test]
fn a_server_that_dies_in_the_middle() {
    let _turn = turn();
    for flavour in flavours() {
        let (mut stage, _admin) = with_table(flavour, &[], false);
        let (a, b) = (stage.client(), stage.client());
        a.run(&["BEGIN", "UPDATE t SET b = 7 WHERE id = 1"]);
        b.begin("UPDATE t SET b = 8 WHERE id = 1");
        let id = stage.until("b waits", |s| {
            let waits = s.waits();
            of(&waits, b.id).first().map(|w| w.id)
        });
        let pid = rustix::process::Pid::from_raw(stage.server().pid().cast_signed());
        let pid = pid.expect("a process");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("killed");
        assert!(b.end().is_err());
        // The agent polls on until it learns of the end, and looks at memory that is gone.
        for _ in 0..5 {
            stage.poll();
        }
        assert!(stage.ended.is_empty(), "{:#?}", stage.ended);
        stage.watch.server_ended(&Moment::now());
        stage.poll();
        stage.watch.server_ended(&Moment::now());
        stage.poll();
        let ended: Vec<(u64, bool)> = stage.ended.iter().map(|w| (w.id, w.ended)).collect();
        assert_eq!(ended, [(id, true)]);
        assert!(stage.waits().is_empty());
        assert!(stage.deadlocks.is_empty());
        // The log of a server that was killed is kept for whoever wants to know why.
        let server = stage.server.take().expect("it was started");
        let log = format!("waggle-{}.error.log", server.name());
        let log = server.entry().dir.with_file_name(log);
        drop(server);
        let _ = std::fs::remove_file(log);
    }
}

/// Lets the stage settle and checks that just these waits ended, each once.
fn finish(mut stage: Stage, ids: &[u64]) {
    let client = stage.client();
    client.run(&["DO 1"]);
    stage.until("the statement after all is seen", |stage| {
        let session = stage.watch.sessions().get(client.id);
        session.map(|_| ())
    });
    assert!(stage.waits().is_empty(), "{:#?}", stage.waits());
    // A wait for several is told once for each of them.
    let edges: Vec<_> = stage
        .ended
        .iter()
        .map(|w| (w.id, w.blocker.connection_id))
        .collect();
    let distinct: HashSet<_> = edges.iter().collect();
    assert_eq!(distinct.len(), edges.len(), "{:#?}", stage.ended);
    let mut ended: Vec<u64> = edges.iter().map(|(id, _)| *id).collect();
    ended.sort_unstable();
    ended.dedup();
    let mut expected = ids.to_vec();
    expected.sort_unstable();
    expected.dedup();
    assert_eq!(ended, expected, "{:#?}", stage.ended);
    assert!(stage.ended.iter().all(|w| w.ended));
    let all: HashSet<u64> = stage.ended.iter().map(|w| w.id).collect();
    let sums = stage.watch.ended_sums();
    let count: u64 = sums.iter().map(|(count, _)| count).sum();
    assert_eq!(count, all.len() as u64);
    assert_eq!(stage.watch.lost(), (0, 0));
}

#[test]
fn a_holder_that_is_idle_in_its_transaction() {
    let _turn = turn();
    for flavour in flavours() {
        let (mut stage, admin) = with_table(flavour, &[], false);
        let a = stage.client();
        // A wait shows which memory is the session's.
        admin.run(&["BEGIN", "UPDATE t SET b = 1 WHERE id = 1"]);
        a.run(&["BEGIN"]);
        a.begin("UPDATE t SET b = 2 WHERE id = 1");
        stage.until("a waits", |s| {
            (!of(&s.waits(), a.id).is_empty()).then_some(())
        });
        admin.run(&["COMMIT"]);
        a.end().expect("a got the lock");
        a.run(&["SELECT b FROM t WHERE id = 3"]);
        let idle = |stage: &mut Stage| {
            let moment = Moment::now();
            stage.watch.look_at_sessions(&moment);
            let parties = stage.watch.idle_in_transaction(&moment);
            parties.into_iter().find(|p| p.connection_id == Some(a.id))
        };
        let party = stage.until("a is idle", |stage| {
            idle(stage).filter(|p| p.fingerprint.starts_with("select"))
        });
        assert_eq!(&*party.fingerprint, "select b from t where id = ?");
        assert!(!party.is_running);
        assert!(party.idle_us.is_some());
        a.run(&["COMMIT"]);
        stage.until("its transaction ended", |stage| {
            idle(stage).is_none().then_some(())
        });
        // What it does now, while it does it.
        a.begin("SELECT SLEEP(60), 'secret'");
        let running = stage.until("it runs", |stage| {
            stage.watch.look_at_sessions(&Moment::now());
            let session = stage.watch.sessions().get(a.id)?;
            // A look just before may have seen the COMMIT.
            let running = session.running.clone()?;
            (&*running.fingerprint != "commit").then_some(running)
        });
        assert_eq!(&*running.fingerprint, "select sleep(?), ?");
        admin.run(&[&format!("KILL {}", a.id)]);
        assert!(a.end().is_err());
    }
}

#[test]
fn statements_that_do_not_wait_pass_no_probe() {
    let _turn = turn();
    for flavour in flavours() {
        let (mut stage, admin) = with_table(flavour, &[], false);
        let before = stage.watch.cost().0;
        for _ in 0..50 {
            admin.run(&["UPDATE t SET b = b + 1 WHERE id = 1", "SELECT * FROM t"]);
        }
        let idle = stage.watch.cost().0;
        // One wait is a few hits.
        let a = stage.client();
        admin.run(&["BEGIN", "UPDATE t SET b = 7 WHERE id = 1"]);
        a.begin("UPDATE t SET b = 8 WHERE id = 1");
        stage.until("a waits", |s| {
            (!of(&s.waits(), a.id).is_empty()).then_some(())
        });
        admin.run(&["COMMIT"]);
        a.end().expect("a got the lock");
        let waited = stage.watch.cost().0;
        assert_eq!((before, idle), (before, before), "{flavour}");
        assert!((2..=6).contains(&(waited - idle)), "{}", waited - idle);
    }
}

#[test]
fn with_a_binary_log_either_names_the_blocker_of_a_row() {
    let _turn = turn();
    for flavour in flavours() {
        let settings = [("log_bin", "binlog"), ("server_id", "1")];
        let (mut stage, admin) = with_table(flavour, &settings, false);
        let a = stage.client();
        admin.run(&["BEGIN", "UPDATE t SET b = 7 WHERE id = 1"]);
        a.begin("UPDATE t SET b = 8 WHERE id = 1");
        let wait = stage.until("a waits for somebody", |s| {
            let waits = s.waits();
            let wait = of(&waits, a.id).first().map(|w| (*w).clone());
            wait.filter(|w| w.blocker.connection_id.is_some())
        });
        assert_eq!(wait.blocker.connection_id, Some(admin.id));
        admin.run(&["COMMIT"]);
        a.end().expect("a got the lock");
        stage.until("it ended", |s| (s.ended.len() == 1).then_some(()));
        finish(stage, &[wait.id]);
    }
}
