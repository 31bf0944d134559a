//! What of those that do not wait? One that holds locks and does nothing is named; statements that
//! get their locks at once cost nothing.

use waggle_agent::sessions::Moment;

use super::stage::{Stage, flavours, turn};
use super::{of, with_table};

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
