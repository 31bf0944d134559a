//! What a statement that waits for nothing passes of the probe: its end, and nothing else.

use std::collections::BTreeMap;

use waggle_server::Flavour;

use crate::bed::{Bed, flavours};

const STATEMENTS: u64 = 200;

/// Programs that only a wait of this session may run; the server's own threads do not wait so.
const OF_WAITS: [&str; 3] = ["metadata_wait", "table_wait", "binary_log_entered"];

/// Runs of every program while a statement is carried out [`STATEMENTS`] times.
fn runs(bed: &mut Bed, sql: &str) -> BTreeMap<String, u64> {
    let mut session = bed.session();
    let runs = bed.runs(|| (0..STATEMENTS).for_each(|_| session.run(sql)));
    let ends = runs["statement_end"];
    // The server answers first: the last may not have passed its end yet, nor that of what was
    // before when the count began.
    assert!(ends.abs_diff(STATEMENTS) <= 1, "{runs:?}");
    runs
}

fn of(runs: &BTreeMap<String, u64>, program: &str) -> u64 {
    runs.get(program).copied().unwrap_or(0)
}

/// MariaDB says that it waits whenever it waits for a client, so that a probe there would cost
/// each statement two traps more.
#[test]
fn a_plain_statement_passes_its_end_only() {
    for flavour in flavours() {
        for log in [("skip_log_bin", "ON"), ("log_bin", "binlog")] {
            let mut bed = Bed::new(flavour, &[log]);
            let mut session = bed.session();
            session.run("CREATE TABLE t (id INT PRIMARY KEY, v INT)");
            session.run("INSERT INTO t VALUES (1, 1)");
            let read = runs(&mut bed, "SELECT v FROM t WHERE id = 1");
            let what = format!("{flavour} {log:?}: {read:?}");
            println!("read: {what}");
            assert!(OF_WAITS.iter().all(|name| of(&read, name) == 0), "{what}");
            // What the server does at its own account: it flushes, and purges.
            let others: u64 = read.values().sum::<u64>() - read["statement_end"];
            assert!(others < STATEMENTS / 4, "{what}");

            let write = runs(&mut bed, "UPDATE t SET v = v + 1 WHERE id = 1");
            let what = format!("{flavour} {log:?}: {write:?}");
            println!("written: {what}");
            let logged = if log.0 == "log_bin" { STATEMENTS } else { 0 };
            assert_eq!(of(&write, "binary_log_entered"), logged, "{what}");
            let redo = if flavour == Flavour::MySql {
                STATEMENTS
            } else {
                0
            };
            let entered = of(&write, "redo_entered");
            assert!((redo..=2 * redo).contains(&entered), "{what}");
            assert_eq!(
                of(&write, "metadata_wait") + of(&write, "table_wait"),
                0,
                "{what}"
            );
        }
    }
}
