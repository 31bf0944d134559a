//! `waggle trace pipeline redo` on stock servers under a write-only load of 8 and 64 threads: every
//! commit's wait is explained, and the counts are those of the server's own instruments.
//!
//! Times are printed beside what PERFORMANCE_SCHEMA has, and compared by nobody: a machine that
//! does other work is late for both, at different places.

use serde_json::Value;
use waggle_server::Flavour;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_wire::Connection;

use super::pipeline::{Tracing, array, assert_sums, number};
use crate::watch::stage::{can_watch, connect, run, turn, waggle};

/// Transactions of one load.
const EVENTS: u64 = 3_000;
/// Two counts may differ by this share, or by as many as happen beside the load: the log is
/// flushed for checkpoints and for new files too (10 to 20 times whatever the load).
const SHARE: f64 = 0.02;
const BESIDE: u64 = 40;

/// What the server counts itself.
#[derive(Debug, Clone, Copy)]
struct Counted {
    commits: u64,
    /// Of the redo log's files; `None` where the server does not count them.
    fsyncs: Option<u64>,
    /// By PERFORMANCE_SCHEMA: syncs of the redo log's files, and the time they took, ps.
    synced: (u64, u64),
}

fn number_of(connection: &mut Connection, sql: &str, column: usize) -> Option<u64> {
    let rows = connection.query_rows(sql.as_bytes()).expect("a counter");
    let value = rows.first()?.get(column)?.clone()?;
    String::from_utf8(value).ok()?.parse().ok()
}

impl Counted {
    fn now(server: &Sandbox) -> Self {
        let mut connection = connect(server);
        let mut status = |name: &str| {
            let sql = format!("SHOW GLOBAL STATUS LIKE '{name}'");
            number_of(&mut connection, &sql, 1)
        };
        let commits = status("Com_commit").expect("a count");
        let fsyncs = status("Innodb_os_log_fsyncs");
        let mut file = |column| {
            let sql = "SELECT COUNT_MISC, SUM_TIMER_MISC \
                       FROM performance_schema.file_summary_by_event_name \
                       WHERE EVENT_NAME = 'wait/io/file/innodb/innodb_log_file'";
            number_of(&mut connection, sql, column).unwrap_or(0)
        };
        Self {
            commits,
            fsyncs,
            synced: (file(0), file(1)),
        }
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            commits: self.commits - before.commits,
            fsyncs: self.fsyncs.zip(before.fsyncs).map(|(now, then)| now - then),
            synced: (
                self.synced.0 - before.synced.0,
                self.synced.1 - before.synced.1,
            ),
        }
    }
}

fn bench(server: &Sandbox, command: &str, threads: u64) {
    let out = tempfile::tempdir().expect("a folder");
    let dsn = server.dsn_socket().to_string();
    let (threads, events) = (threads.to_string(), EVENTS.to_string());
    let folder = out.path().to_str().expect("a path");
    let mut arguments = vec![
        "bench",
        "oltp_write_only",
        command,
        "--dsn",
        &dsn,
        "--tables",
        "4",
        "--table-size",
        "2000",
        "--run-dir",
        folder,
    ];
    if command == "run" {
        arguments.extend(["--threads", &threads, "--events", &events]);
    }
    let ended = waggle(&arguments).output().expect("it runs");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{command}: {said}");
}

fn is_near(ours: u64, theirs: u64) -> bool {
    let most = (theirs as f64 * SHARE) as u64;
    ours.abs_diff(theirs) <= most.max(BESIDE)
}

/// How often the probes of a part of the pipeline fired.
fn hits(report: &Value, name: &str) -> u64 {
    let probes = array(report, "probes").iter();
    let of_part = probes.filter(|probe| probe["name"] == name);
    of_part.map(|probe| number(probe, "hits")).sum()
}

/// Traces a load, and checks what has to hold.
fn traced(server: &Sandbox, what: &str, threads: u64) {
    let tracing = Tracing::start_of(server.pid(), &["redo"]);
    let before = Counted::now(server);
    bench(server, "run", threads);
    let counted = Counted::now(server).since(&before);
    let (code, report) = tracing.interrupt();
    let what = format!("{what}, {threads} threads");
    assert_eq!(code, Some(0), "{what}: {report:#}");
    assert_sums(&report);
    let field = |name| number(&report, name);
    let (seen, cut, torn) = (field("seen"), field("cut"), field("torn"));
    let explained = field("decomposed") + field("no_wait");
    println!(
        "{what}: {} commits; {seen} waits seen, {cut} cut, {} decomposed, {} no wait, {} flagged",
        counted.commits,
        field("decomposed"),
        field("no_wait"),
        field("flagged") + torn,
    );
    assert!(
        explained * 1000 >= (seen + torn) * 995,
        "{what}: {explained} of {seen}"
    );
    // The page cleaner waits too, the more often the longer it takes.
    let waits = seen + cut;
    let commits = counted.commits;
    assert!(
        is_near(waits.min(commits), commits) && waits <= commits + commits / 10,
        "{what}: {seen} waits, {cut} cut, {commits} commits"
    );
    let flushed = hits(&report, "stage fsynced");
    if let Some(fsyncs) = counted.fsyncs {
        assert!(
            is_near(flushed, fsyncs),
            "{what}: {flushed} of {fsyncs} fsyncs"
        );
    }
    let (synced, synced_ps) = counted.synced;
    if synced > 0 {
        let mean_us = synced_ps as f64 / synced as f64 / 1e6;
        println!("{what}: {flushed} flushes seen; the server has {synced}, {mean_us:.0} us each");
        if counted.fsyncs.is_some() {
            assert!(
                is_near(flushed, synced),
                "{what}: {flushed} of {synced} syncs"
            );
        }
    }
    let wait = &report["wait_us"];
    println!(
        "{what}: mean {} us, p99 {} us",
        wait["mean_us"], wait["p99_us"]
    );
    for stage in array(&report, "stages") {
        let mean = number(stage, "sum_ns") as f64 / field("decomposed").max(1) as f64 / 1e3;
        println!("{what}:   {} {mean:.0} us", stage["name"]);
    }
    println!("{what}: {}", report["cost"]);
}

#[test]
fn a_write_only_load_of_mysql_is_explained_as_the_server_counts_it() {
    if !can_watch(Flavour::MySql) {
        return;
    }
    let _turn = turn();
    let spec = SandboxSpec::new(Flavour::MySql).set("performance_schema", "ON");
    let server = Sandbox::start(&spec).expect("a throw-away server");
    bench(&server, "prepare", 1);
    for log_threads in ["ON", "OFF"] {
        let set = format!("SET GLOBAL innodb_log_writer_threads = {log_threads}");
        run(&mut connect(&server), &[&set]);
        for threads in [8, 64] {
            traced(
                &server,
                &format!("MySQL, log threads {log_threads}"),
                threads,
            );
        }
    }
}

#[test]
fn a_write_only_load_of_mariadb_is_explained_as_the_server_counts_it() {
    if !can_watch(Flavour::MariaDb) {
        return;
    }
    let _turn = turn();
    let spec = SandboxSpec::new(Flavour::MariaDb).set("performance_schema", "ON");
    let server = Sandbox::start(&spec).expect("a throw-away server");
    bench(&server, "prepare", 1);
    for threads in [8, 64] {
        traced(&server, "MariaDB", threads);
    }
}
