//! The OLTP family: each event is the statements it says, and the tables show them.

use waggle_load::Script;
use waggle_server::Flavour;

use super::bed::Bed;

const ROWS: i64 = 500;
const EVENTS: u64 = 600;

/// By workload: SELECT, INSERT, UPDATE, DELETE and COMMIT of one event.
const STATEMENTS: [(&str, [i64; 5]); 10] = [
    ("oltp_point_select", [1, 0, 0, 0, 0]),
    ("oltp_read_only", [14, 0, 0, 0, 1]),
    ("oltp_read_write", [14, 1, 2, 1, 1]),
    ("oltp_write_only", [0, 1, 2, 1, 1]),
    ("oltp_update_index", [0, 0, 1, 0, 0]),
    ("oltp_update_non_index", [0, 0, 1, 0, 0]),
    ("oltp_insert", [0, 1, 0, 0, 0]),
    ("select_random_points", [1, 0, 0, 0, 0]),
    ("select_random_ranges", [1, 0, 0, 0, 0]),
    // Last: it leaves few rows.
    ("oltp_delete", [0, 0, 0, 1, 0]),
];

const COUNTERS: [&str; 5] = [
    "Com_select",
    "Com_insert",
    "Com_update",
    "Com_delete",
    "Com_commit",
];

fn statements_are_the_documented_ones(flavour: Flavour, auto_inc: &str) {
    let options = [
        ("tables", "2"),
        ("table_size", &ROWS.to_string()),
        ("auto_inc", auto_inc),
    ];
    let Some(mut bed) = Bed::open(flavour, "oltp_read_write", 4, &options) else {
        return;
    };
    bed.done("prepare");
    for (workload, each) in STATEMENTS {
        bed.spec.script = Script::open(workload).unwrap();
        let rows = |bed: &mut Bed| bed.count("sbtest1") + bed.count("sbtest2");
        let rows_before = rows(&mut bed);
        let before = COUNTERS.map(|name| bed.status(name));
        let (snapshot, _) = bed.run(EVENTS);
        let after = COUNTERS.map(|name| bed.status(name));
        // An event that was restarted after a deadlock began twice.
        let restarts = snapshot.counters.errors as i64;
        for i in 0..5 {
            let (done, wanted) = (after[i] - before[i], each[i] * EVENTS as i64);
            let most = wanted + each[i] * restarts;
            assert!(
                (wanted..=most).contains(&done),
                "{workload}: {} {done}, not {wanted}",
                COUNTERS[i]
            );
        }
        let sent: i64 = each.iter().sum::<i64>() + each[4];
        assert!(snapshot.counters.queries as i64 >= sent * EVENTS as i64);
        let gained = rows(&mut bed) - rows_before;
        match workload {
            "oltp_insert" => assert_eq!(gained, EVENTS as i64),
            "oltp_delete" => assert!(gained < 0 && gained >= -(EVENTS as i64), "{gained}"),
            _ => assert_eq!(gained, 0, "{workload}"),
        }
    }
    bed.spec.script = Script::open("oltp_update_index").unwrap();
    bed.set(&[("index_updates", "3")]);
    let (snapshot, _) = bed.run(100);
    assert_eq!(snapshot.counters.queries, 300);
    bed.done("cleanup");
    bed.has_no_tables();
}

#[test]
fn statements_are_the_documented_ones_on_mariadb() {
    statements_are_the_documented_ones(Flavour::MariaDb, "on");
}

#[test]
fn statements_are_the_documented_ones_on_mysql() {
    statements_are_the_documented_ones(Flavour::MySql, "off");
}

/// A second run goes on where the first one ended.
fn bulk_insert_fills_a_table_for_each_thread(flavour: Flavour) {
    let Some(mut bed) = Bed::open(flavour, "bulk_insert", 3, &[]) else {
        return;
    };
    bed.done("prepare");
    for run in 1..=2 {
        bed.run(90_000);
        let mut all = 0;
        for table in ["sbtest1", "sbtest2", "sbtest3"] {
            let rows = bed.count(table);
            assert_eq!(
                bed.number(&format!("SELECT COALESCE(MAX(id), 0) FROM {table}")),
                rows
            );
            all += rows;
        }
        assert_eq!(all, run * 90_000);
    }
    bed.done("cleanup");
    bed.has_no_tables();
}

#[test]
fn bulk_insert_on_both() {
    for flavour in [Flavour::MariaDb, Flavour::MySql] {
        bulk_insert_fills_a_table_for_each_thread(flavour);
    }
}

#[test]
fn the_number_of_values_and_ranges_is_an_option() {
    let Some(mut bed) = Bed::open(Flavour::MariaDb, "select_random_points", 1, &[]) else {
        return;
    };
    bed.set(&[("table_size", "500"), ("random_points", "3")]);
    bed.done("prepare");
    let keys = bed.status("Handler_read_key");
    bed.run(100);
    let read = bed.status("Handler_read_key") - keys;
    // Values may be drawn twice; the status query itself reads a few.
    assert!((200..400).contains(&read), "{read}");

    bed.spec.script = Script::open("select_random_ranges").unwrap();
    bed.spec.options.remove("random_points");
    bed.set(&[("number_of_ranges", "2"), ("delta", "1")]);
    bed.run(100);
}
