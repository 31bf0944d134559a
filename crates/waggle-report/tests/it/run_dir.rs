//! Run directories: what a reader finds after an end, a kill, a full disk, a removal.

use std::fs;
use std::io::Write;
use std::path::Path;

use serde_json::json;
use waggle_need::{is_root, skip};
use waggle_report::run::{Outcome, ReadError, Run, RunDir, SAMPLES_FILE, ServerFacts};

fn root() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

#[test]
fn a_finished_run_reads_back() {
    let root = root();
    let mut run = RunDir::create(root.path(), "bench", "oltp_point_select").expect("a run");
    let facts = json!({"threads": 8});
    run.record(|run| {
        run.command = vec!["waggle".to_owned(), "bench".to_owned()];
        run.server = Some(ServerFacts {
            version: "9.7.4".to_owned(),
            ..ServerFacts::default()
        });
        run.settings
            .insert("threads".to_owned(), facts["threads"].clone());
    })
    .expect("facts");
    run.append(&json!({"t_s": 1.0, "qps": 80_000}))
        .expect("a sample");
    run.append(&json!({"t_s": 2.0, "qps": 81_000}))
        .expect("a sample");
    run.write_histogram("none", b"\x1c\x84\x93\x13")
        .expect("a histogram");
    run.lines("events.jsonl")
        .and_then(|mut events| events.append(&"begin"))
        .expect("an event");
    run.write_result(&json!({"qps": 80_500.0}))
        .expect("a result");
    let path = run.finish(Outcome::Done, None).expect("an end");

    let read = Run::open(&path).expect("a readable run");
    assert_eq!(read.facts().outcome, Some(Outcome::Done));
    assert_eq!(
        read.facts().server.as_ref().expect("a server").version,
        "9.7.4"
    );
    assert!(read.facts().finished.as_ref() >= Some(&read.facts().started));
    assert!(
        read.facts().host.kernel.is_some(),
        "the kernel of this machine"
    );
    let samples = read.samples().expect("samples");
    assert_eq!(samples.values.len(), 2);
    assert_eq!((samples.damaged, samples.half_written), (0, false));
    assert_eq!(read.histogram_names(), ["none"]);
    assert_eq!(
        read.histogram("none").expect("its bytes"),
        b"\x1c\x84\x93\x13"
    );
    assert_eq!(
        read.lines("events.jsonl").expect("events").values,
        [json!("begin")]
    );
    let text = waggle_report::summary::text(&read, false).expect("a summary");
    assert!(text.contains("80500"), "{text}");
    assert!(!fs::read_dir(&path).expect("the files").any(|file| {
        file.expect("a file")
            .file_name()
            .to_string_lossy()
            .ends_with(".new")
    }));
}

#[test]
fn runs_of_one_second_have_directories_of_their_own() {
    let root = root();
    let mut paths: Vec<_> = (0..5)
        .map(|_| {
            RunDir::create(root.path(), "lab", "x")
                .expect("a run")
                .path()
                .to_path_buf()
        })
        .collect();
    paths.sort();
    paths.dedup();
    assert_eq!(paths.len(), 5);
}

#[test]
fn a_killed_run_reads_up_to_the_kill() {
    let root = root();
    let mut run = RunDir::create(root.path(), "watch", "").expect("a run");
    run.append(&json!({"n": 1})).expect("a sample");
    let path = run.path().to_path_buf();
    // A kill in the middle of a write, as the reader sees it.
    let mut file = fs::OpenOptions::new()
        .append(true)
        .open(path.join(SAMPLES_FILE))
        .expect("the file");
    file.write_all(b"{\"n\": 2, \"te").expect("half a line");

    let read = Run::open(&path).expect("readable while it runs");
    assert_eq!(read.facts().outcome, None);
    let samples = read.samples().expect("samples");
    assert_eq!(samples.values, [json!({"n": 1})]);
    assert!(samples.half_written);
    let text = waggle_report::summary::text(&read, false).expect("a summary");
    assert!(
        text.contains("was killed") && text.contains("half-written"),
        "{text}"
    );
}

#[test]
fn a_removed_directory_is_an_error_with_a_remedy() {
    let root = root();
    let mut run = RunDir::create(root.path(), "lab", "gone").expect("a run");
    run.append(&1).expect("a sample");
    let path = run.path().to_path_buf();
    fs::remove_dir_all(&path).expect("removed");
    let error = run.append(&2).expect_err("a write to nowhere").to_string();
    assert!(
        error.contains("samples.jsonl") && error.contains("No such file"),
        "{error}"
    );
    assert!(error.contains("create it again"), "{error}");
    let error = run
        .finish(Outcome::Done, None)
        .expect_err("nothing to finish")
        .to_string();
    assert!(error.contains("run.json"), "{error}");
}

#[test]
fn a_place_that_is_no_directory_is_refused_by_name() {
    let root = root();
    let file = root.path().join("file");
    fs::write(&file, "").expect("a file");
    let error = RunDir::create(&file.join("runs"), "lab", "x").expect_err("no directory");
    let error = error.to_string();
    assert!(
        error.contains("file/runs") && error.contains("Not a directory"),
        "{error}"
    );
}

#[test]
fn what_is_no_run_is_refused_by_name() {
    let root = root();
    let error = Run::open(&root.path().join("nothing"))
        .expect_err("nothing there")
        .to_string();
    assert!(
        error.contains("nothing") && error.contains("No such file"),
        "{error}"
    );
    let run = RunDir::create(root.path(), "lab", "x").expect("a run");
    let error = Run::open(root.path())
        .expect_err("a folder of runs")
        .to_string();
    let name = run
        .path()
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    assert!(error.contains(&name), "{error}");
    assert!(
        Run::open(&run.path().join("run.json")).is_ok(),
        "the file names its run"
    );
}

#[test]
fn a_newer_format_is_refused() {
    let root = root();
    fs::write(root.path().join("run.json"), r#"{"format_version": 99}"#).expect("a file");
    let error = Run::open(root.path()).expect_err("too new");
    assert!(
        matches!(error, ReadError::Newer { found: 99, .. }),
        "{error}"
    );
}

#[test]
fn a_full_disk_keeps_what_was_written() {
    if let Some(mount) = std::env::var_os("WAGGLE_TEST_FULL_DISK") {
        return fill(Path::new(&mount));
    }
    if !is_root() {
        return skip("root", "a tiny file system cannot be mounted");
    }
    let root = root();
    // This program again, in a mount namespace of its own: nobody else sees the tiny disk.
    let script = "mount --make-rprivate / && mount -t tmpfs -o size=64k waggle \"$1\" && \
                  WAGGLE_TEST_FULL_DISK=\"$1\" exec \"$2\" --nocapture --exact \
                  run_dir::a_full_disk_keeps_what_was_written";
    let output = std::process::Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(root.path())
        .arg(std::env::current_exe().expect("this program"))
        .output();
    match output {
        Err(error) => skip("root", &format!("unshare: {error}")),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            if !output.status.success() && said.contains("ermission denied") {
                return skip("root", &said);
            }
            let printed = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{said}{printed}");
            assert!(printed.contains("the disk was full"), "{said}{printed}");
        }
    }
}

/// Writes until nothing fits, checks the error, frees space and writes on.
fn fill(mount: &Path) {
    let ballast = mount.join("ballast");
    fs::write(&ballast, [0; 8192]).expect("ballast");
    let mut run = RunDir::create(mount, "lab", "full").expect("a run");
    let padding = "x".repeat(1500);
    let mut written = 0_u64;
    let error = loop {
        match run.append(&json!({"n": written, "padding": padding})) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(error.is_full());
    let error = error.to_string();
    assert!(
        error.contains("samples.jsonl") && error.contains("No space left"),
        "{error}"
    );
    assert!(
        error.contains("free space") && error.contains("stays readable"),
        "{error}"
    );

    // The facts cannot grow either, and stay as they were.
    let large = "y".repeat(8192);
    run.record(|facts| facts.error = Some(large))
        .expect_err("no room for larger facts");
    let read = Run::open(run.path()).expect("still readable");
    assert_eq!(read.facts().error, None);
    let samples = read.samples().expect("samples");
    assert_eq!(samples.values.len() as u64, written);
    assert_eq!((samples.damaged, samples.half_written), (0, false));
    assert!(written > 10, "{written}");

    // With room again, the next line is whole.
    fs::remove_file(ballast).expect("room");
    run.append(&json!({"n": "after"}))
        .expect("room for one line");
    let samples = read.samples().expect("samples");
    assert_eq!(samples.values.len() as u64, written + 1);
    assert_eq!((samples.damaged, samples.half_written), (0, false));
    println!("the disk was full after {written} samples");
}

#[test]
fn a_run_that_was_killed_is_taken_up_where_it_ended() {
    let root = tempfile::tempdir().expect("a directory");
    let mut run = RunDir::create(root.path(), "lab", "x").expect("a run");
    run.append(&1).expect("a line");
    run.append(&2).expect("a line");
    let path = run.path().to_path_buf();
    drop(run);
    let samples = path.join(SAMPLES_FILE);
    let mut torn = fs::read(&samples).expect("samples");
    torn.extend_from_slice(b"{\"half");
    torn.extend(vec![b'x'; 200_000]);
    fs::write(&samples, &torn).expect("a wound");

    let mut run = RunDir::reopen(&path).expect("the same run");
    run.append(&3).expect("a line");
    let path = run.finish(Outcome::Done, None).expect("an end");
    let read = Run::open(&path).expect("a run");
    let lines = read.samples().expect("samples");
    assert_eq!(lines.values, [1, 2, 3]);
    assert!(!lines.half_written && lines.damaged == 0);
    assert_eq!(read.facts().outcome, Some(Outcome::Done));

    let mut run = RunDir::reopen(&path).expect("an ended run too");
    assert_eq!(run.facts().outcome, None);
    run.append(&4).expect("a line");
    assert_eq!(read.samples().expect("samples").values.len(), 4);
    assert!(RunDir::reopen(root.path()).is_err());
}
