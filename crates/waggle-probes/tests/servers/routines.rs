//! Which statements within routines are seen, and what of the time is theirs.

use std::thread;
use std::time::{Duration, Instant};

use waggle_probes::wait::WaitClass;
use waggle_server::Flavour;

use crate::bed::{Bed, PATIENCE, Seen, Session, flavours};

/// What is seen from `sql` on, which the server is told to carry out.
fn seen(bed: &mut Bed, session: &mut Session, sql: &str) -> Vec<Seen> {
    session.run("SELECT 'begin'");
    bed.one(session.id, "SELECT 'begin'");
    session.run(sql);
    bed.until(|all| all.iter().any(|s| s.text == sql))
}

/// Each statement's own time, and the whole of it for the one that called.
#[test]
fn statements_within() {
    for flavour in flavours() {
        let mut bed = Bed::new(flavour, &[("log_bin_trust_function_creators", "1")]);
        let mut session = bed.session();
        if flavour == Flavour::MariaDb {
            // Stock, a procedure's statements do not pass the probe; a function's do.
            session.run("SET log_slow_disabled_statements = ''");
        }
        session.run_all(&[
            "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)",
            "CREATE TABLE log (v INT)",
            "CREATE TRIGGER g AFTER INSERT ON t FOR EACH ROW INSERT INTO log VALUES (NEW.v)",
            "CREATE PROCEDURE p() BEGIN SELECT SLEEP(0.03); SELECT 1; SELECT SLEEP(0.01); END",
        ]);

        let called = seen(&mut bed, &mut session, "CALL p()");
        let texts: Vec<_> = called.iter().map(|s| s.text.as_str()).collect();
        let all = [
            "SELECT SLEEP(0.03)",
            "SELECT 1",
            "SELECT SLEEP(0.01)",
            "CALL p()",
        ];
        assert_eq!(texts, all, "{flavour}");
        let within: Vec<_> = called.iter().map(|s| s.is_in_routine).collect();
        assert_eq!(
            within,
            [Some(true), Some(true), Some(true), Some(false)],
            "{flavour}"
        );
        let slept = |at: usize| called[at].blocked(WaitClass::Sleep);
        let ms = Duration::from_millis;
        assert!(slept(0) >= ms(29), "{flavour}: {called:?}");
        assert_eq!(slept(1), ms(0), "{flavour}: {called:?}");
        // Not the first one's 30 ms.
        assert!(
            slept(2) >= ms(9) && slept(2) < slept(0),
            "{flavour}: {called:?}"
        );
        assert_eq!(slept(3), slept(0) + slept(2), "{flavour}: {called:?}");
        assert!(called.iter().all(Seen::is_whole), "{flavour}: {called:?}");

        let insert = "INSERT INTO t (v) VALUES (7)";
        let inserted = seen(&mut bed, &mut session, insert);
        let texts: Vec<_> = inserted.iter().map(|s| s.text.as_str()).collect();
        assert_eq!(
            texts,
            ["INSERT INTO log VALUES (NEW.v)", insert],
            "{flavour}"
        );
        assert_eq!(inserted[0].is_in_routine, Some(true), "{flavour}");
        assert!(
            inserted[1].wall_ns >= inserted[0].wall_ns,
            "{flavour}: {inserted:?}"
        );
    }
}

/// Statements of one packet, or that the server finds waiting: none has the waits of those before.
#[test]
fn a_call_behind_other_statements() {
    for flavour in flavours() {
        let mut bed = Bed::new(flavour, &[("log_bin_trust_function_creators", "1")]);
        let mut session = bed.session();
        session.run_all(&[
            "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)",
            "CREATE TABLE log (v INT)",
            "CREATE TRIGGER g AFTER INSERT ON t FOR EACH ROW INSERT INTO log VALUES (NEW.v)",
            "CREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2; END",
        ]);
        let packet = "SELECT SLEEP(0.05); CALL p(); SELECT SLEEP(0.05); \
                      INSERT INTO t (v) VALUES (7)";
        session.run("SELECT 'begin'");
        bed.one(session.id, "SELECT 'begin'");
        session.run(packet);
        let all = bed.until(|all| all.iter().any(|s| s.text.starts_with("INSERT INTO t ")));
        let of = |begins: &str| all.iter().find(|s| s.text.starts_with(begins));
        for begins in ["CALL p", "INSERT INTO t "] {
            let caller = of(begins).expect(begins);
            assert_eq!(
                caller.blocked(WaitClass::Sleep),
                Duration::ZERO,
                "{flavour}: {caller:?}"
            );
            assert!(caller.is_whole(), "{flavour}: {caller:?}");
        }
        let slept = of("SELECT SLEEP").expect("it ended");
        let ms = Duration::from_millis;
        assert!(
            slept.blocked(WaitClass::Sleep) >= ms(49),
            "{flavour}: {slept:?}"
        );
    }
}

/// Statements for which there was no room, within a routine and before its call: what they did is
/// not those' that come after them.
#[test]
fn behind_what_was_lost() {
    for flavour in flavours() {
        let mut bed = Bed::new(flavour, &[]);
        let (mut filler, mut gate) = (bed.session(), bed.session());
        let mut session = bed.session();
        if flavour == Flavour::MariaDb {
            for session in [&mut filler, &mut session] {
                session.run("SET log_slow_disabled_statements = ''");
            }
        }
        session.run_all(&[
            "CREATE PROCEDURE fill() BEGIN DECLARE i INT DEFAULT 40000; \
             WHILE i > 0 DO SELECT 1 INTO @a; SET i = i - 1; END WHILE; END",
            "CREATE PROCEDURE p() BEGIN SELECT SLEEP(0.03); SELECT GET_LOCK('l', 100); END",
        ]);
        gate.run("SELECT GET_LOCK('l', 10)");
        filler.run("CALL fill()");
        let lost = |bed: &Bed| bed.probe.counters().expect("counters").ring_full;
        let before = lost(&bed);
        assert!(before > 0, "{flavour}: there was room for all");
        let called = thread::scope(|scope| {
            let tid = session.tid;
            scope.spawn(|| session.run("SELECT SLEEP(0.05); CALL p()"));
            let until = Instant::now() + PATIENCE;
            while lost(&bed) < before + 2 {
                assert!(Instant::now() < until, "{flavour}: none was lost");
                thread::yield_now();
            }
            assert_eq!(bed.blocked(tid), WaitClass::Sleep, "{flavour}");
            bed.seen();
            gate.run("SELECT RELEASE_LOCK('l')");
            bed.until(|all| all.iter().any(|s| s.text == "CALL p()"))
        });
        let of = |begins: &str| called.iter().find(|s| s.text.starts_with(begins));
        let (lock, call) = (of("SELECT GET").expect("it"), of("CALL").expect("it"));
        assert!(lock.is_whole() && call.is_whole(), "{flavour}: {called:?}");
        // The part that was lost is the caller's, but not the other part's.
        let slept = |seen: &Seen| seen.blocked(WaitClass::Sleep);
        let apart = slept(call) - slept(lock);
        assert!(apart >= Duration::from_millis(29), "{flavour}: {called:?}");
        let walls = Duration::from_nanos(call.wall_ns - lock.wall_ns);
        assert!(walls >= Duration::from_millis(29), "{flavour}: {called:?}");
        // What stood before the call is not its own: it would make the wall time's bound bind.
        assert!(
            slept(call) < Duration::from_nanos(call.wall_ns),
            "{flavour}: {called:?}"
        );
        assert!(call.times.cpu_ns > 0, "{flavour}: {called:?}");
    }
}
