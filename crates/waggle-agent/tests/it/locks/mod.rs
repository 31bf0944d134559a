//! Who waits for whom, on real servers.
//!
//! Neighbours: `stage` has the server and its clients; a module a thing that may happen.

mod chains;
mod deadlocks;
mod ends;
mod idle;
mod stage;

use std::collections::HashSet;

use waggle_agent::lock::LockWait;
use waggle_server::Flavour;
use waggle_wire::Error;

use stage::{Client, Stage};

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
