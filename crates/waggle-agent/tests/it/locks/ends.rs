//! How may a wait end but by the lock? By time, by a kill, by the server's death.

use waggle_agent::lock::LockKind;
use waggle_agent::sessions::Moment;
use waggle_server::Flavour;

use super::stage::{Client, flavours, turn};
use super::{errno, finish, of, with_table};

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
