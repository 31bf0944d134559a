//! Who waits for whom where one waits for another that waits: of rows, of tables' definitions.

use waggle_agent::lock::{LockKind, LockWait};
use waggle_agent::locks::{TreeRole, tree};
use waggle_server::Flavour;

use super::stage::{flavours, turn};
use super::{WITH_TABLES, finish, of, with_table};

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
