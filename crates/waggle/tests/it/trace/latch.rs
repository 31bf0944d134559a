//! `waggle trace latch` against a program that knows its latch, and against real servers.
//!
//! How well holders are told is compared wait by wait in `waggle-trace`'s tests; here is what a
//! user gets.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::program::{can_run, compiled};
use crate::watch::stage::{
    Running, connect, flavours, run, server, settle, turn, waggle, wait_until,
};

/// `tests/targets/latch.c`, killed when dropped.
struct Target {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    _folder: TempDir,
}

impl Target {
    fn start(options: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let program = compiled("latch", folder.path(), &[]);
        let mut child = Command::new(&program)
            .args(options)
            .arg(folder.path().join("log"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut target = Self {
            child,
            input,
            output,
            _folder: folder,
        };
        target.line("ready");
        target
    }

    fn line(&mut self, wanted: &str) {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        assert_eq!(line.trim(), wanted);
    }

    fn work(&mut self) {
        self.input.write_all(b"go\n").expect("it reads");
        self.line("done");
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A trace of process `pid`, attached.
fn tracing(pid: u32, out: &Path, options: &[&str]) -> Running {
    let (pid, out) = (pid.to_string(), out.to_str().expect("a path"));
    let common = ["trace", "latch", "--json", "--pid", &pid, "--out", out];
    let running = Running::start(&mut waggle(&[&common, options].concat()));
    running.line("tracing ");
    running
}

/// Ends it as Ctrl-C does.
fn interrupted(running: Running) -> (Option<i32>, Value) {
    running.signal(libc::SIGINT);
    let ended = running.end();
    let report = serde_json::from_str(&ended.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}\n{}", ended.stdout, ended.stderr));
    (ended.status.code(), report)
}

fn number(value: &Value, field: &str) -> u64 {
    let found = &value[field];
    found
        .as_u64()
        .unwrap_or_else(|| panic!("{field} is {found}"))
}

/// The row of that kind with the most waiting.
fn row<'a>(report: &'a Value, kind: &str) -> &'a Value {
    let rows = report["latches"].as_array().expect("rows");
    let row = rows.iter().find(|row| row["kind"] == kind);
    row.unwrap_or_else(|| panic!("no {kind} in {report:#}"))
}

#[test]
fn a_program_s_own_latch_has_its_name_and_its_holders() {
    let _turn = turn();
    if !can_run() {
        return;
    }
    let mut target = Target::start(&["pthread", "4", "60", "20", "1000"]);
    let out = tempfile::tempdir().expect("a folder");
    let running = tracing(target.child.id(), out.path(), &[]);
    target.work();
    let (code, report) = interrupted(running);
    assert_eq!(code, Some(0), "{report:#}");
    assert_eq!(
        (number(&report, "flagged"), number(&report, "torn")),
        (0, 0)
    );
    let row = row(&report, "pthread mutex");
    assert_eq!(row["name"], "mutex");
    let parts = ["held_ns", "handing_over_ns", "unobserved_ns"];
    let sum: u64 = parts.iter().map(|part| number(row, part)).sum();
    assert_eq!(sum, number(row, "wait_sum_ns"));
    assert!(number(row, "held_ns") * 2 > sum, "{row:#}");
    let holder = &row["holders"][0];
    assert_eq!(holder["role"], "worker");
    let calls = holder["stack"].to_string();
    // The release is the holder's last act: a jump, which leaves no frame.
    assert!(calls.contains("work"), "{calls}");
    let kept = std::fs::read_dir(out.path()).expect("the folder").flatten();
    let kept: Vec<_> = kept.map(|run| run.path().join("trace.json")).collect();
    assert!(kept.len() == 1 && kept[0].is_file(), "{kept:?}");
}

#[test]
fn a_share_of_the_time_tears_no_wait() {
    let _turn = turn();
    if !can_run() {
        return;
    }
    let mut target = Target::start(&["pthread", "4", "2000", "20", "1000"]);
    let out = tempfile::tempdir().expect("a folder");
    let options = ["--share", "25%", "--slice", "100"];
    let running = tracing(target.child.id(), out.path(), &options);
    target.work();
    let (code, report) = interrupted(running);
    assert_eq!(code, Some(0), "{report:#}");
    assert_eq!(
        (number(&report, "flagged"), number(&report, "torn")),
        (0, 0)
    );
    let slices = &report["slices"];
    assert!(number(slices, "count") > 2, "{slices}");
    let share = slices["share"].as_f64().expect("a share");
    assert!((0.12..0.4).contains(&share), "{slices}");
    let all = number(&report, "waits") + number(&report, "still_waiting");
    assert_eq!(number(slices, "began"), all, "{slices}");
    let row = row(&report, "pthread mutex");
    let parts = ["held_ns", "handing_over_ns", "unobserved_ns"];
    let sum: u64 = parts.iter().map(|part| number(row, part)).sum();
    assert_eq!(sum, number(row, "wait_sum_ns"));
    assert!(number(row, "held_ns") * 2 > sum, "{row:#}");
    // All the time there is somebody who waits.
    let contended = row["contended_share"].as_f64().expect("a share");
    assert!((0.5..=1.0).contains(&contended), "{row:#}");
}

#[test]
fn waits_that_overlap_a_loss_are_flagged_and_fail_the_trace() {
    let _turn = turn();
    if !can_run() {
        return;
    }
    let mut target = Target::start(&["futex", "16", "200", "30", "20"]);
    let out = tempfile::tempdir().expect("a folder");
    let running = tracing(target.child.id(), out.path(), &["--ring-kib", "4"]);
    target.work();
    let (code, report) = interrupted(running);
    let lost = report["lost"]["ring full"].as_u64();
    assert!(lost.is_some_and(|lost| lost > 0), "{report:#}");
    assert!(
        number(&report, "flagged") + number(&report, "torn") > 0,
        "{report:#}"
    );
    assert_eq!(code, Some(1), "{report:#}");
}

#[test]
fn a_metadata_lock_is_named_and_so_is_who_held_it() {
    let _turn = turn();
    for flavour in flavours() {
        let server = server(flavour);
        let mut holder = connect(&server);
        run(
            &mut holder,
            &[
                "CREATE DATABASE d",
                "CREATE TABLE d.t (a INT PRIMARY KEY)",
                "BEGIN",
                "SELECT * FROM d.t",
            ],
        );
        let out = tempfile::tempdir().expect("a folder");
        let running = tracing(server.pid(), out.path(), &[]);
        let mut waiter = connect(&server);
        let waiting = std::thread::spawn(move || {
            run(&mut waiter, &["ALTER TABLE d.t ADD COLUMN b INT"]);
            settle(&mut waiter);
        });
        let mut eye = connect(&server);
        wait_until("one waits for the other", || {
            let sql = b"SELECT 1 FROM information_schema.processlist \
                        WHERE state = 'Waiting for table metadata lock'";
            eye.query_rows(sql).is_ok_and(|rows| !rows.is_empty())
        });
        run(&mut holder, &["COMMIT"]);
        settle(&mut holder);
        waiting.join().expect("the waiter got it");
        let (code, report) = interrupted(running);
        assert_eq!(code, Some(0), "{flavour}: {report:#}");
        let row = row(&report, "metadata");
        assert_eq!(row["name"], "table d.t", "{flavour}");
        assert_eq!(number(row, "unobserved_ns"), 0, "{flavour}: {row:#}");
        let holder = &row["holders"][0];
        assert!(number(holder, "blocked_ns") > 0, "{flavour}: {row:#}");
        let calls = holder["stack"].to_string();
        assert!(calls.contains("MDL_"), "{flavour}: {calls}");
    }
}
