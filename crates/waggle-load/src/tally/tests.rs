use super::*;

#[test]
fn statements_are_classified_by_what_the_server_sent() {
    let tally = Tally::default();
    let read = Outcome {
        result_sets: 1,
        rows: 0,
        ..Outcome::default()
    };
    tally.statement_done(&read);
    tally.statement_done(&Outcome {
        affected: 3,
        ..Outcome::default()
    });
    tally.statement_done(&Outcome::default());
    tally.statement_failed();
    tally.error_ignored();
    tally.prepared();
    let wanted = Counters {
        queries: 4,
        transactions: 0,
        errors: 1,
        reads: 1,
        writes: 1,
        other: 1,
        prepares: 1,
        reconnects: 0,
    };
    assert_eq!(tally.counters(), wanted);
}

#[test]
fn each_statement_of_a_text_is_counted() {
    let counted = |statements, result_sets, affected| {
        let tally = Tally::default();
        tally.statement_done(&Outcome {
            statements,
            result_sets,
            affected,
            ..Outcome::default()
        });
        let counters = tally.counters();
        assert_eq!(counters.queries, u64::from(statements.max(1)));
        (counters.reads, counters.writes, counters.other)
    };
    // An insert and its COMMIT; a COMMIT after an insert of what was there.
    assert_eq!(counted(2, 0, 1), (0, 1, 1));
    assert_eq!(counted(2, 0, 0), (0, 0, 2));
    assert_eq!(counted(3, 2, 1), (2, 1, 0));
    assert_eq!(counted(2, 2, 7), (2, 0, 0));
    // A procedure is one statement with several results.
    assert_eq!(counted(1, 3, 1), (1, 0, 0));
    assert_eq!(counted(0, 0, 0), (0, 0, 1));
}

#[test]
fn time_without_a_connection_is_counted_also_while_it_lasts() {
    let tally = Tally::default();
    assert_eq!(tally.downtime_ns(), 0);
    tally.connection_lost();
    while tally.downtime_ns() == 0 {
        std::hint::spin_loop();
    }
    tally.connection_back();
    let downtime = tally.downtime_ns();
    assert!(downtime > 0);
    assert_eq!(tally.downtime_ns(), downtime);
}

#[test]
fn cpu_time_survives_its_thread() {
    let tally = Tally::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            tally.thread_started();
            let mut sum = 0u64;
            while tally.cpu_ns() < 1_000_000 {
                sum = std::hint::black_box(sum + 1);
            }
            tally.thread_ended();
        });
    });
    assert!(tally.cpu_ns() >= 1_000_000);
}
