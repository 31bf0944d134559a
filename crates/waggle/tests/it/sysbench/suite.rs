//! A suite written for sysbench (a module beside it, ffi, bit, parallel commands, hooks) and a
//! script of the time of sysbench 0.5, by both tools.

use waggle_server::Flavour;

use super::bed::{Bed, Counts, Tables, Tool, both};
use super::without_numbers;

const SUITE: &str = include_str!("../../scripts/order_suite.lua");
const COMMON: &str = include_str!("../../scripts/order_suite_common.lua");
const LEGACY: &str = include_str!("../../scripts/legacy_05.lua");

fn open(flavour: Flavour) -> Option<Bed> {
    let bed = Bed::open(flavour, &[])?;
    bed.script("order_suite.lua", SUITE);
    bed.script("order_suite_common.lua", COMMON);
    bed.script("legacy_05.lua", LEGACY);
    Some(bed)
}

/// The lines of the suite's hook: how many fields each has.
fn csv_fields(report: &str) -> Vec<usize> {
    let lines = report
        .lines()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()) && line.contains(','));
    lines.map(|line| line.split(',').count()).collect()
}

fn suite(bed: &mut Bed, tools: [Tool; 2]) {
    let mut loaded: Vec<Tables> = Vec::new();
    let mut shapes = Vec::new();
    for tool in tools {
        let prepared = bed.well(tool, "order_suite.lua prepare --threads=2 --scale=3");
        loaded.push(bed.tables());
        let run = "order_suite.lua run --threads=4 --scale=3 --time=3 --report-interval=1 \
                   --report_csv=on";
        let report = bed.well(tool, run);
        assert!(Counts::of(&report).events > 0, "{report}");
        let fields = csv_fields(&report);
        // sysbench's clock may reach the end of the run before it gets to the last line.
        assert!((2..=3).contains(&fields.len()), "{tool:?}: {report}");
        let limited = "order_suite.lua run --threads=2 --scale=3 --events=50 --time=0";
        let limited = bed.well(tool, limited);
        assert_eq!(Counts::of(&limited).events, 50, "{limited}");
        // Whoever ran, both find it consistent.
        for checker in tools {
            let said = bed.well(checker, "order_suite.lua check --threads=2 --scale=3");
            // sysbench's threads share a line at times.
            let consistent = said.matches(" is consistent").count();
            assert_eq!(consistent, 3, "{checker:?}: {said}");
        }
        let loading = prepared.matches("loading warehouse: ").count();
        shapes.push((loading, fields[0], without_numbers(&limited)));
        broken(bed);
        bed.well(tool, "order_suite.lua cleanup");
        assert_eq!(bed.tables(), Tables::new());
    }
    assert_eq!(loaded[0], loaded[1], "tables that each has loaded");
    let rows = |name: &str| loaded[0][name].rows;
    assert_eq!(
        [
            rows("os_warehouse"),
            rows("os_district"),
            rows("os_customer")
        ],
        [3, 30, 900]
    );
    assert_eq!(shapes[0], shapes[1], "what each has printed");
}

/// A parallel check that fails is a failure, which sysbench's exit code does not tell.
fn broken(bed: &mut Bed) {
    bed.rows("UPDATE sbtest.os_warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 2");
    let line = "order_suite.lua check --threads=2 --scale=3";
    let ours = bed.run(Tool::Waggle, line);
    let theirs = bed.run(Tool::Sysbench, line);
    assert_eq!((ours.code, theirs.code), (Some(1), Some(0)), "{ours:?}");
    for said in [ours, theirs] {
        assert!(said.stdout.contains("FATAL: "), "{said:?}");
        assert!(said.stdout.contains("warehouse 2: "), "{said:?}");
    }
}

fn legacy(bed: &mut Bed, tools: [Tool; 2]) {
    let [ours, theirs] = tools.map(|tool| {
        bed.well(tool, "--test=legacy_05.lua prepare --legacy_rows=150");
        let loaded = bed.tables();
        let run = "--test=legacy_05.lua run --num-threads=1 --max-requests=20 --max-time=60 \
                   --legacy_rows=150";
        let report = bed.well(tool, run);
        // Each event adds one, by way of db_query.
        let ran = bed.number("SELECT COUNT(*) FROM sbtest.legacy");
        bed.well(tool, "--test=legacy_05.lua cleanup");
        assert_eq!(bed.tables(), Tables::new());
        (loaded, Counts::of(&report), without_numbers(&report), ran)
    });
    assert_eq!(ours, theirs);
    assert_eq!((ours.0["legacy"].rows, ours.3), (150, 150));
    assert_eq!((ours.1.read, ours.1.write, ours.1.other), (60, 20, 40));
}

fn both_on(flavour: Flavour) {
    let Some(tools) = both() else { return };
    let Some(mut bed) = open(flavour) else { return };
    suite(&mut bed, tools);
    legacy(&mut bed, tools);
}

#[test]
fn suites_on_mysql() {
    both_on(Flavour::MySql);
}

#[test]
fn suites_on_mariadb() {
    both_on(Flavour::MariaDb);
}
