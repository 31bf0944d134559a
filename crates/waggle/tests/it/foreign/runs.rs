//! A run directory that somebody else made: whatever stands in place of its files, reading it ends
//! by itself, in bounded memory, with words.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::{Ended, waggle};

/// The files that `report` reads of one run or another.
const FILES: [&str; 9] = [
    "run.json",
    "samples.jsonl",
    "result.json",
    "lab.json",
    "study.json",
    "trace.json",
    "tune.json",
    "profile.json",
    "histograms/x.hdr",
];

struct Foreign {
    dir: tempfile::TempDir,
}

impl Foreign {
    fn new(verb: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir(dir.path().join("histograms")).expect("a directory");
        let facts = json!({ "format_version": 1, "verb": verb, "name": "x" });
        fs::write(dir.path().join("run.json"), facts.to_string()).expect("a file");
        Self { dir }
    }

    fn at(&self, file: &str) -> PathBuf {
        let path = self.dir.path().join(file);
        let _ = fs::remove_file(&path);
        path
    }

    /// Through every verb that reads a run.
    fn read(&self) -> Vec<Ended> {
        let run = self.dir.path().to_str().expect("a path of text");
        vec![
            waggle(&["report", run]),
            waggle(&["report", run, "--json"]),
            waggle(&["report", run, "--format", "csv"]),
            waggle(&["report", run, "--format", "html", "--output", "-"]),
            waggle(&["report", run, "--format", "folded"]),
            waggle(&["compare", run, run]),
            waggle(&["lab", "run", "--resume", run]),
        ]
    }
}

fn pipe(path: &Path) {
    let path = CString::new(path.as_os_str().as_bytes()).expect("no zero in it");
    // SAFETY: the path ends with a zero byte.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o666) }, 0);
}

#[test]
fn what_is_no_file_is_never_opened() {
    for file in FILES {
        let run = Foreign::new("bench");
        pipe(&run.at(file));
        said(&run.read(), "pipe");
        symlink("/dev/zero", run.at(file)).expect("a link");
        said(&run.read(), "link");
        let secret = tempfile::NamedTempFile::new().expect("a file");
        let text = json!({ "format_version": 1, "verb": "theirs-alone", "theirs-alone": 7 });
        fs::write(secret.path(), text.to_string()).expect("a file");
        symlink(secret.path(), run.at(file)).expect("a link");
        for ended in run.read() {
            let all = ended.stdout() + &ended.stderr();
            assert!(!all.contains("theirs-alone"), "{all}");
        }
        let socket = UnixListener::bind(run.at(file));
        assert!(socket.is_ok());
        said(&run.read(), "socket");
        fs::create_dir(run.at(file)).expect("a directory");
        said(&run.read(), "directory");
    }
}

/// One of the reports, which between them read all files, says what it found.
fn said(ended: &[Ended], what: &str) {
    let all: String = ended.iter().map(|e| e.stdout() + &e.stderr()).collect();
    assert!(all.contains(what), "{what}: {all}");
}

#[test]
fn a_page_is_not_written_through_a_link() {
    let run = Foreign::new("bench");
    let elsewhere = tempfile::NamedTempFile::new().expect("a file");
    fs::write(elsewhere.path(), "theirs").expect("a file");
    symlink(elsewhere.path(), run.at("report.html")).expect("a link");
    let path = run.dir.path().to_str().expect("a path of text");
    let ended = waggle(&["report", path, "--format", "html"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr());
    assert_eq!(
        fs::read_to_string(elsewhere.path()).expect("a file"),
        "theirs"
    );
    let page = fs::symlink_metadata(run.dir.path().join("report.html")).expect("a page");
    assert!(page.is_file() && page.len() > 1000);
    pipe(&run.at("report.html"));
    assert_eq!(waggle(&["report", path, "--format", "html"]).code, Some(0));
}

#[test]
fn a_gigabyte_is_not_read() {
    for file in FILES {
        let run = Foreign::new("bench");
        let hole = File::create(run.at(file)).expect("a file");
        hole.set_len(1 << 30).expect("a hole");
        said(&run.read(), "larger");
    }
}

#[test]
fn documents_of_many_small_parts_are_bounded() {
    let deep = "[".repeat(1 << 20);
    let lists = format!("[{}[]]", "[],".repeat(15 << 20));
    let objects = format!("{{\"windows\":[{}{{}}]}}", "{},".repeat(15 << 20));
    let members: String = (0..3 << 20).map(|i| format!("\"{i:x}\":\"\",")).collect();
    let members = format!("{{{members}\"a\":0}}");
    let numbers = format!("{{\"arms\":[{}0]}}", "0,".repeat(30 << 20));
    for text in [&deep, &lists, &objects, &members, &numbers] {
        let run = Foreign::new("bench");
        for file in FILES.iter().filter(|file| **file != "run.json") {
            fs::write(run.at(file), text).expect("a file");
            run.read();
            fs::remove_file(run.at(file)).ok();
        }
        fs::write(run.at("run.json"), text).expect("a file");
        run.read();
    }
}

#[test]
fn ten_million_lines_and_one_without_end_are_bounded() {
    let run = Foreign::new("bench");
    let mut file = File::create(run.at("samples.jsonl")).expect("a file");
    let block = "{}\n".repeat(1 << 16);
    for _ in 0..(10_000_000 >> 16) {
        file.write_all(block.as_bytes()).expect("room on the disk");
    }
    let path = run.dir.path().to_str().expect("a path of text");
    waggle(&["report", path]);
    let interval = "{\"kind\":\"interval\",\"at_s\":1,\"duration_s\":1}\n".repeat(1 << 20);
    fs::write(run.at("samples.jsonl"), interval).expect("room on the disk");
    waggle(&["report", path]);
    fs::write(run.at("samples.jsonl"), "x".repeat(200 << 20)).expect("room on the disk");
    waggle(&["report", path]);
    waggle(&["lab", "run", "--resume", path]);
}

#[test]
fn an_hour_of_a_second_s_intervals_is_read_whole() {
    let run = Foreign::new("bench");
    let mut file = File::create(run.at("samples.jsonl")).expect("a file");
    for second in 0..3600 {
        let sample = json!({ "kind": "interval", "at_s": second, "duration_s": 1.0,
            "transactions": 100, "queries": 2000, "errors": 0, "name": "x".repeat(200) });
        writeln!(file, "{sample}").expect("room on the disk");
    }
    let path = run.dir.path().to_str().expect("a path of text");
    let ended = waggle(&["report", path, "--format", "csv"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr());
    assert_eq!(ended.stdout().lines().count(), 1 + 3600);
}
