//! Which deadlocks are told, with whom in them and with whose end?

use super::stage::{flavours, turn};
use super::{errno, of, with_table};

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
