//! linkbench with a small graph: what is loaded, what the operations leave, what `check` finds.

use std::time::{Duration, Instant};

use waggle_load::{Load, Script};
use waggle_server::Flavour;

use super::bed::{Bed, PATIENCE};

const NODES: i64 = 2000;

fn bed(flavour: Flavour, options: &[(&str, &str)]) -> Option<Bed> {
    let mut bed = Bed::open(flavour, "linkbench", 8, options)?;
    bed.set(&[("nodes", &NODES.to_string())]);
    Some(bed)
}

fn loads_the_graph(bed: &mut Bed) {
    assert_eq!(bed.count("nodetable"), NODES);
    assert_eq!(bed.number("SELECT MAX(id) FROM nodetable"), NODES);
    let links = bed.count("linktable");
    assert_eq!(bed.number("SELECT SUM(count) FROM counttable"), links);
    // 54.67% of the nodes have links; 22.5% have two or more, and so both types of them.
    let with_links = bed.number("SELECT COUNT(DISTINCT id1) FROM linktable");
    assert!((with_links - 1093).abs() <= 2, "{with_links}");
    let with_both = "(SELECT id FROM counttable GROUP BY id HAVING COUNT(*) = 2) AS t";
    let with_both = bed.count(with_both);
    assert!((with_both - 450).abs() <= 2, "{with_both}");
    // The first of the order has as many links as there are nodes, and the two that are too many.
    let most =
        "SELECT MAX(links) FROM (SELECT SUM(count) AS links FROM counttable GROUP BY id) AS t";
    assert_eq!(bed.number(most), NODES + 2);
    for never in [
        "linktable WHERE visibility <> 1 OR link_type NOT IN (123456789, 123456790)",
        "linktable WHERE id2 < id1",
        "linktable WHERE LENGTH(data) > 255",
        "nodetable WHERE type <> 2048 OR version <> 1",
        "counttable WHERE time <> (SELECT MAX(time) FROM linktable WHERE id1 = id
         AND linktable.link_type = counttable.link_type)",
    ] {
        assert_eq!(bed.count(never), 0, "{never}");
    }
}

fn is_consistent(bed: &Bed) {
    let lines = bed.done("check");
    assert_eq!(lines, ["counttable against visible links: 0 differ: ok"]);
}

fn stays_consistent(flavour: Flavour, mix: &str) {
    let Some(mut bed) = bed(flavour, &[("mix", mix), ("fidelity", "code")]) else {
        return;
    };
    bed.done("prepare");
    loads_the_graph(&mut bed);
    is_consistent(&bed);
    let again = bed.refusal("prepare");
    assert!(again.contains("already exists"), "{again}");
    assert_eq!(bed.count("nodetable"), NODES);

    let (snapshot, checks) = bed.run(20_000);
    assert_eq!(snapshot.operations.len(), 10);
    let of = |name: &str| snapshot.operations[name].response.count() as i64;
    let all: i64 = snapshot.operations.keys().map(|name| of(name)).sum();
    assert_eq!(all, 20_000);
    let shares: Vec<_> = checks
        .iter()
        .filter(|check| check.name.starts_with("share of "))
        .collect();
    assert_eq!(shares.len(), 10);
    assert!(
        shares.iter().all(|check| check.ok == Some(true)),
        "{shares:#?}"
    );
    assert!(snapshot.user_counters["links_listed"] > 0.0);
    // Deadlocks and lock waits restart; nothing else happens.
    let known = |errno: &u16| [1205, 1213].contains(errno);
    assert!(snapshot.errors.keys().all(known), "{:?}", snapshot.errors);

    assert_eq!(
        bed.number("SELECT MAX(id) FROM nodetable"),
        NODES + of("ADD_NODE")
    );
    let updated = bed.count("nodetable WHERE version = 2");
    assert!(updated > 0 && updated <= of("UPDATE_NODE"), "{updated}");
    let left = bed.count("nodetable");
    let deleted = NODES + of("ADD_NODE") - left;
    assert!(deleted > 0 && deleted <= of("DELETE_NODE"), "{deleted}");
    let hidden = bed.count("linktable WHERE visibility = 0");
    assert!(hidden > 0 && hidden <= of("DELETE_LINK"), "{hidden}");
    let renewed = bed.count("counttable WHERE version > 0");
    assert!(renewed > 0, "hiding a link is a new version of its count");
    is_consistent(&bed);

    let wrong = "UPDATE counttable SET count = count + 1 ORDER BY id LIMIT 1";
    bed.rows(wrong);
    let (lines, ended) = bed.command("check");
    assert!(ended.is_err());
    assert_eq!(
        lines,
        ["counttable against visible links: 1 differ: FAILED"]
    );

    bed.done("cleanup");
    bed.has_no_tables();
}

#[test]
fn stays_consistent_on_mariadb() {
    stays_consistent(Flavour::MariaDb, "facebook");
}

#[test]
fn stays_consistent_on_mysql() {
    stays_consistent(Flavour::MySql, "2015");
}

#[test]
fn a_list_at_the_limit_is_continued() {
    let Some(mut bed) = bed(
        Flavour::MariaDb,
        &[("list_limit", "2"), ("partitions", "0")],
    ) else {
        return;
    };
    bed.done("prepare");
    // One thread: the same operations each time.
    bed.spec.threads = 1;
    let (snapshot, _) = bed.run(6000);
    let continued = snapshot.user_counters["lists_continued"];
    let lists = snapshot.operations["GET_LINKS_LIST"].response.count() as f64;
    assert!(
        continued > 0.0 && continued < 0.01 * lists,
        "{continued} of {lists}"
    );
    assert!(snapshot.user_counters["links_listed"] <= 2.0 * lists);
}

/// Every byte a payload may have comes back as it was sent.
#[test]
fn payloads_are_kept_byte_for_byte() {
    for flavour in [Flavour::MariaDb, Flavour::MySql] {
        let Some(mut bed) = Bed::open(flavour, "linkbench", 1, &[]) else {
            continue;
        };
        bed.set(&[("nodes", "100")]);
        bed.done("prepare");
        let script = "
            local graph = require('linkbench_graph')
            function event()
              local payload = graph.payload(400, 4096, 0, 255, 0.9)
              local con = sysbench.sql.driver():connect()
              con:query('SET NAMES latin1')
              local seen = {}
              for i = 1, 50 do
                local literal = payload()
                con:query('UPDATE nodetable SET data = ' .. literal .. ' WHERE id = ' .. i)
                local text = literal:sub(2, -2):gsub('\\\\(.)', '%1')
                local kept = con:query_row('SELECT data FROM nodetable WHERE id = ' .. i)
                assert(kept == text, i)
                for byte in text:gmatch('.') do seen[byte] = true end
              end
              local count = 0
              for _ in pairs(seen) do count = count + 1 end
              assert(count >= 255, count)
              return true
            end";
        bed.spec.script = Script::from_text("bytes.lua", script);
        bed.spec.options.clear();
        let load = Load::start(&bed.spec).unwrap();
        load.wait(PATIENCE);
        load.stop().unwrap();
    }
}

#[test]
fn unknown_values_are_refused() {
    let Some(mut bed) = bed(Flavour::MariaDb, &[]) else {
        return;
    };
    for (name, value, wanted) in [
        ("mix", "2016", "mix is facebook or 2015, not 2016"),
        ("fidelity", "exact", "fidelity is code or paper, not exact"),
        ("nodes", "0", "nodes and list_limit must be 1 or more"),
    ] {
        bed.set(&[("mix", "facebook"), ("fidelity", "code"), ("nodes", "10")]);
        bed.set(&[(name, value)]);
        for command in ["prepare", "run"] {
            let refused = bed.refusal(command);
            assert!(refused.contains(wanted), "{refused}");
        }
    }
}

/// A lock that somebody holds for too long: the server undoes the statement alone, the engine the
/// transaction, and the operation comes again until it succeeds.
#[test]
fn a_lock_wait_time_out_restarts_the_operation() {
    for flavour in [Flavour::MariaDb, Flavour::MySql] {
        let Some(mut bed) = bed(flavour, &[]) else {
            continue;
        };
        bed.done("prepare");
        bed.rows("SET GLOBAL innodb_lock_wait_timeout = 1");
        bed.rows("BEGIN");
        // New links go in between; their counts meet the lock.
        bed.rows("SELECT COUNT(*) FROM counttable FOR UPDATE");
        let load = Load::start(&bed.spec).unwrap();
        let deadline = Instant::now() + PATIENCE;
        // A deadlock may come before it.
        while !load.snapshot().errors.contains_key(&1205) {
            assert!(Instant::now() < deadline, "no wait for a lock timed out");
            load.wait(Duration::from_millis(10));
        }
        bed.rows("COMMIT");
        let before = load.snapshot().counters.transactions;
        while load.snapshot().counters.transactions < before + 2000 {
            assert!(Instant::now() < deadline, "it does not go on");
            load.wait(Duration::from_millis(10));
        }
        let snapshot = load.snapshot();
        load.stop().unwrap();
        assert!(snapshot.errors.contains_key(&1205), "{:?}", snapshot.errors);
        let restarts: u64 = snapshot.errors.values().map(|error| error.count).sum();
        assert_eq!(snapshot.counters.errors, restarts);
        is_consistent(&bed);
    }
}
