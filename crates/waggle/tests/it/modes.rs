//! What the verbs write, under a umask that takes nothing away: its owner's alone. And what
//! another user put into a shared directory: not written to.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use waggle_need::{can_probe, is_root, need};
use waggle_report::run::{Outcome, RunDir};
use waggle_server::Flavour;

use crate::copy::{Stage, flavours};
use crate::watch::stage::{Running, can_watch, connect, run, server, settle, wait_until};

/// Another user, by a number that no account needs to have.
const SOMEBODY: u32 = 54_321;

/// `waggle` with these arguments, under umask 000.
fn waggle(arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            "umask 0; exec \"$0\" \"$@\"",
            env!("CARGO_BIN_EXE_waggle"),
        ])
        .args(arguments)
        .env_remove("WAGGLE_DSN");
    command
}

fn done(arguments: &[&str]) {
    let output = waggle(arguments).output().expect("it starts");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {words}");
}

/// Asserts that nothing below `folder` is another's to read or write; gives how many files.
fn private(folder: &Path) -> usize {
    let mut files = 0;
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let found = path.symlink_metadata().expect("its facts");
        let mode = found.mode() & 0o7777;
        assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
        files += match found.is_dir() {
            true => private(&path),
            false => 1,
        };
    }
    files
}

fn only_run(root: &Path) -> PathBuf {
    let mut runs = fs::read_dir(root).expect("runs");
    runs.next().expect("a run").expect("an entry").path()
}

#[test]
fn what_bench_and_report_write_is_its_owners_alone() {
    let installed = waggle_server::install::installed_servers();
    let has = installed
        .iter()
        .any(|server| server.flavour == Flavour::MariaDb);
    if !need("mariadb", has, "no such server is installed") {
        return;
    }
    let (out, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = server(Flavour::MariaDb);
    let script = own.path().join("one.lua");
    let lines = "function thread_init() con = sysbench.sql.driver():connect() end\n\
                 function event() con:query('DO 1') end\n";
    fs::write(&script, lines).unwrap();
    let place = |name: &str| out.path().join(name).display().to_string();
    let (runs, csv, log) = (place("runs"), place("a.csv"), place("a.hlog"));
    let dsn = server.dsn_socket().to_string();
    let script = script.display().to_string();
    let mut arguments = vec!["bench", &script, "--dsn", &dsn, "--run-dir", &runs];
    arguments.extend([
        "--events",
        "50",
        "--warmup",
        "0",
        "--csv",
        &csv,
        "--hdr-log",
        &log,
    ]);
    done(&arguments);
    let run = only_run(&out.path().join("runs")).display().to_string();
    done(&[
        "report",
        &run,
        "--format",
        "html",
        "-o",
        &place("page.html"),
    ]);
    done(&[
        "report",
        &run,
        "--format",
        "json",
        "-o",
        &place("page.json"),
    ]);
    let files = private(out.path());
    // The run's own four, and what was asked for.
    assert!(files >= 8, "{files} files");
}

#[test]
fn what_watch_writes_is_its_owners_alone() {
    if !can_watch(Flavour::MariaDb) {
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let server = server(Flavour::MariaDb);
    let place = |name: &str| out.path().join(name).display().to_string();
    let (pid, log, runs) = (server.pid().to_string(), place("log"), place("runs"));
    let spool = place("state/spool");
    let mut arguments = vec!["watch", "--json", "--pid", &pid, "--interval", "0.1"];
    arguments.extend(["--log", &log, "--record", &runs, "--spool", &spool]);
    // Nobody listens there, so that all of it stays in the spool.
    arguments.extend(["--remote-write", "http://127.0.0.1:9/api/v1/write"]);
    let watching = Running::start(&mut waggle(&arguments));
    watching.line("watching ");
    let mut connection = connect(&server);
    run(&mut connection, &["SELECT 'a literal'"]);
    settle(&mut connection);
    wait_until("the spool has a segment", || {
        // A lock and a segment, of one sink.
        Path::new(&spool).is_dir() && private(Path::new(&spool)) >= 2
    });
    private(out.path());
    watching.signal(libc::SIGINT);
    assert_eq!(watching.end().status.code(), Some(0));
    assert!(fs::read_to_string(&log).unwrap().contains("a literal"));
    let files = private(out.path());
    assert!(files >= 7, "{files} files");
}

#[test]
fn what_a_profile_writes_is_its_owners_alone() {
    if !can_probe() {
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let root = out.path().display().to_string();
    let busy = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let mut arguments = vec![
        "profile",
        "--out",
        &root,
        "--format",
        "svg,folded,pprof,firefox",
    ];
    arguments.extend(["--command", "sh", "-c", busy]);
    done(&arguments);
    let files = private(out.path());
    assert!(files >= 6, "{files} files");
}

#[test]
fn the_spool_of_a_copy_is_its_owners_alone() {
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        stage.run(&[
            "CREATE DATABASE a",
            "CREATE DATABASE b",
            "CREATE TABLE a.t (id INT PRIMARY KEY, v VARCHAR(99))",
            "INSERT INTO a.t VALUES (1, 'a row')",
        ]);
        let dsn = |database: &str| stage.server.dsn_of(database).to_string();
        let mut command = waggle(&["copy", "--json", "--from", &dsn("a"), "--to", &dsn("b")]);
        command
            .args(["--until", "stopped"])
            .current_dir(stage.directory.path());
        let copying = Running::start(&mut command);
        stage.wait("SELECT v FROM b.t", |_| true);
        stage.run(&["UPDATE a.t SET v = 'another'"]);
        stage.wait("SELECT v FROM b.t", |v| v == "another");
        let files = private(stage.directory.path());
        // A lock and a segment.
        assert!(files >= 2, "{flavour}: {files} files");
        copying.signal(libc::SIGTERM);
        copying.end();
    }
}

#[test]
fn a_link_of_another_user_in_a_shared_directory_is_not_written_to() {
    if !need("root", is_root(), "files are given away") {
        return;
    }
    let (shared, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::set_permissions(shared.path(), Permissions::from_mode(0o1777)).unwrap();
    let run = RunDir::create(own.path(), "bench", "made-up").unwrap();
    let run = run
        .finish(Outcome::Done, None)
        .unwrap()
        .display()
        .to_string();
    let victim = own.path().join("victim");
    fs::write(&victim, "kept").unwrap();
    let (link, file) = (shared.path().join("link"), shared.path().join("file"));
    symlink(&victim, &link).unwrap();
    lchown(&link, Some(SOMEBODY), None).unwrap();
    fs::write(&file, "theirs").unwrap();
    lchown(&file, Some(SOMEBODY), None).unwrap();
    for place in [&link, &file] {
        let place = place.display().to_string();
        let output = waggle(&["report", &run, "--format", "json", "-o", &place])
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{place}: {words}");
        assert!(
            words.contains("another user") || words.contains("is a link"),
            "{words}"
        );
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "kept");
    assert_eq!(fs::read_to_string(&file).unwrap(), "theirs");
}
