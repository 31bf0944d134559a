//! Every script of Debian's package, by both tools on one server: the same tables, rows and
//! statements.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use waggle_server::Flavour;

use super::bed::{Bed, Counts, Tables, Tool, both, since};

/// Where the package puts its scripts.
const SCRIPTS: &str = "/usr/share/sysbench";

/// What one tool did with one script.
#[derive(Debug)]
struct Done {
    prepared: Tables,
    ran: Tables,
    counts: Counts,
    statements: BTreeMap<String, i64>,
}

/// The names of the scripts, without the module they share.
fn names() -> BTreeSet<String> {
    let files = std::fs::read_dir(SCRIPTS).expect("the package has its scripts there");
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let scripts = names.filter_map(|name| name.strip_suffix(".lua").map(str::to_owned));
    scripts.filter(|name| name != "oltp_common").collect()
}

fn done(bed: &mut Bed, tool: Tool, script: &str, options: &str) -> Done {
    let line = |command: &str| format!("{script} {options} {command}");
    bed.well(tool, &line("prepare"));
    let prepared = bed.tables();
    let before = bed.statements();
    let report = bed.well(tool, &line("run"));
    let statements = since(&before, &bed.statements());
    let ran = bed.tables();
    bed.well(tool, &line("cleanup"));
    assert_eq!(
        bed.tables(),
        Tables::new(),
        "{tool:?} left tables of {script}"
    );
    Done {
        prepared,
        ran,
        counts: Counts::of(&report),
        statements,
    }
}

fn rows(tables: &Tables) -> i64 {
    tables.values().map(|table| table.rows).sum()
}

/// Statements that reach the tables, and the transactions around them. Preparing and closing are
/// told apart: a session's end closes what it prepared.
fn of_events(statements: &BTreeMap<String, i64>) -> BTreeMap<&str, i64> {
    let mut kinds: BTreeMap<&str, i64> = BTreeMap::new();
    for kind in [
        "select", "insert", "update", "delete", "begin", "commit", "rollback",
    ] {
        let moved = statements.get(&format!("Com_{kind}"));
        kinds.insert(kind, moved.copied().unwrap_or(0));
    }
    for kind in ["stmt_prepare", "stmt_execute", "stmt_close"] {
        let moved = statements.get(&format!("Com_{kind}"));
        kinds.insert(kind, moved.copied().unwrap_or(0));
    }
    kinds
}

/// Runs a script with both tools and compares all that does not hang on chance.
fn compare(bed: &mut Bed, script: &str, options: &str) {
    let Some(tools) = both() else { return };
    let [ours, theirs] = tools.map(|tool| done(bed, tool, script, options));
    let at = format!("{script} {options} on {}", bed.server.flavour().name());
    assert_eq!(ours.prepared, theirs.prepared, "prepared by {at}");
    assert!(
        !ours.prepared.is_empty(),
        "{at} prepared no table: nothing was compared"
    );
    let names = |tables: &Tables| tables.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&ours.ran), names(&theirs.ran), "tables after {at}");
    if script == "oltp_delete" {
        // Rows are hit by chance: a statement that deletes nothing is "other" in the report.
        for did in [&ours, &theirs] {
            let gone = rows(&did.prepared) - rows(&did.ran);
            assert_eq!(gone, did.counts.write as i64, "rows deleted by {at}");
        }
        let asked = |did: &Done| (did.counts.write + did.counts.other, did.counts.total);
        assert_eq!(asked(&ours), asked(&theirs), "statements of {at}");
    } else {
        assert_eq!(ours.counts, theirs.counts, "report of {at}");
        assert_eq!(rows(&ours.ran), rows(&theirs.ran), "rows after {at}");
    }
    assert_eq!(
        of_events(&ours.statements),
        of_events(&theirs.statements),
        "statements that the server counted for {at}"
    );
}

fn scripts_on(flavour: Flavour) {
    if both().is_none() {
        return;
    }
    let Some(mut bed) = Bed::open(flavour, &[]) else {
        return;
    };
    assert!(Path::new(SCRIPTS).exists());
    let names = names();
    assert!(names.len() >= 11, "{names:?}");
    for name in names {
        let options = match name.as_str() {
            // It knows no tables: each thread has one, and how many events which gets is chance.
            "bulk_insert" => "--threads=1 --events=3000 --time=0",
            "oltp_read_only" | "oltp_point_select" => {
                "--threads=2 --events=30 --time=0 --tables=2 --table-size=300"
            }
            "select_random_points" | "select_random_ranges" => {
                "--threads=2 --events=40 --time=0 --table-size=300"
            }
            // One thread: two could meet on a row, and which of them restarts is chance.
            _ => "--threads=1 --events=40 --time=0 --tables=2 --table-size=300",
        };
        compare(&mut bed, &name, options);
    }
}

#[test]
fn every_script_on_mysql() {
    scripts_on(Flavour::MySql);
}

#[test]
fn every_script_on_mariadb() {
    scripts_on(Flavour::MariaDb);
}

/// A script and an option that changes what it does.
const VARIANTS: [(&str, &str); 9] = [
    ("oltp_read_write", "--db-ps-mode=disable"),
    ("oltp_read_write", "--skip-trx=on"),
    ("oltp_read_only", "--tables=3 --threads=3"),
    ("oltp_insert", "--auto_inc=off"),
    ("oltp_point_select", "--secondary=on"),
    ("oltp_read_write", "--create_secondary=off"),
    ("oltp_read_only", "--range_selects=off"),
    ("oltp_read_write", "--delete_inserts=5 --index_updates=3"),
    (
        "oltp_write_only",
        "--table-size=6000 --mysql_storage_engine=innodb",
    ),
];

fn variants_on(flavour: Flavour) {
    if both().is_none() {
        return;
    }
    let Some(mut bed) = Bed::open(flavour, &[]) else {
        return;
    };
    for (script, options) in VARIANTS {
        let base = "--events=24 --time=0 --table-size=200";
        compare(&mut bed, script, &format!("{base} {options}"));
    }
}

#[test]
fn options_of_the_scripts_on_mysql() {
    variants_on(Flavour::MySql);
}

#[test]
fn options_of_the_scripts_on_mariadb() {
    variants_on(Flavour::MariaDb);
}
