//! Files that grow in pieces, are cut, moved and replaced.

use super::*;
use std::io::Write;
use std::time::Instant;

const HEAD: &str = "# User@Host: a[a] @ b []\n# Query_time: 1  Lock_time: 0\nSET timestamp=5;\n";

/// Who takes observations.
type Each<'a> = &'a mut dyn FnMut(Observation<'_>);

struct Log {
    dir: tempfile::TempDir,
    source: SlowlogSource,
    seen: Vec<String>,
    lost: u64,
}

impl Log {
    fn new(text: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("slow.log");
        fs::write(&path, text).unwrap();
        Self {
            source: SlowlogSource::open(&path).unwrap(),
            dir,
            seen: Vec::new(),
            lost: 0,
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("slow.log")
    }

    fn write(&self, text: &str) {
        let mut file = fs::File::options()
            .append(true)
            .create(true)
            .open(self.path())
            .unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn poll(&mut self) {
        self.take(|source, each| source.poll(each));
    }

    fn finish(&mut self) {
        self.take(|source, each| source.finish(each));
    }

    fn take(&mut self, read: impl FnOnce(&mut SlowlogSource, Each<'_>) -> anyhow::Result<usize>) {
        let mut each = |observation: Observation<'_>| match observation {
            Observation::Statement(statement) => {
                let Text::Whole { sql, .. } = statement.text else {
                    panic!()
                };
                self.seen.push(String::from_utf8_lossy(sql).into_owned());
            }
            Observation::Lost { count, .. } => self.lost += count,
            other => panic!("{other:?}"),
        };
        read(&mut self.source, &mut each).unwrap();
    }

    fn until(&mut self, count: usize) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.seen.len() < count {
            self.poll();
            assert!(Instant::now() < deadline, "{:?}", self.seen);
            std::thread::yield_now();
        }
    }
}

#[test]
fn what_was_there_before_is_not_told_and_pieces_are_put_together() {
    let mut log = Log::new(&format!("{HEAD}select 'old';\n{HEAD}select 'half "));
    log.write("and half'");
    log.poll();
    log.write(&format!(";\n{HEAD}select 1;\n"));
    log.until(2);
    assert_eq!(
        (log.seen.join("|"), log.lost),
        ("select 'half and half'|select 1".into(), 0)
    );
}

#[test]
fn what_is_cut_off_is_counted() {
    let mut log = Log::new("");
    log.write(&format!("{HEAD}select 'whole';\n{HEAD}select 'never ends"));
    log.until(1);
    fs::File::options()
        .write(true)
        .open(log.path())
        .unwrap()
        .set_len(0)
        .unwrap();
    log.poll();
    log.write(&format!("{HEAD}select 2;\n"));
    log.until(2);
    assert_eq!(
        (log.seen.join("|"), log.lost),
        ("select 'whole'|select 2".into(), 1)
    );
}

#[test]
fn many_rotations_and_what_is_no_file() {
    let mut log = Log::new("");
    for at in 0..10 {
        fs::rename(log.path(), log.dir.path().join(format!("slow.log.{at}"))).unwrap();
        log.write(&format!("{HEAD}select {at};\n"));
        log.poll();
    }
    log.until(10);
    log.seen.sort();
    let expected: Vec<String> = (0..10).map(|at| format!("select {at}")).collect();
    assert_eq!(log.seen, expected);
    assert!(log.source.tails.len() <= FILES_MAX);
    // A pipe in its place must not hang.
    fs::remove_file(log.path()).unwrap();
    let pipe = std::ffi::CString::new(log.path().to_str().unwrap()).unwrap();
    // SAFETY: the path ends with a zero byte.
    assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
    log.poll();
    assert!(log.source.trouble().unwrap().contains("no ordinary file"));
    fs::remove_file(log.path()).unwrap();
    log.write(&format!("{HEAD}select 'again';\n"));
    log.until(11);
    assert_eq!(log.source.trouble(), None);
}

#[test]
fn a_backlog_is_read_in_parts() {
    let mut log = Log::new("");
    let statement = format!("{HEAD}select '{}';\n", "x".repeat(60_000));
    log.write(&statement.repeat(200));
    log.poll();
    assert!(
        (1..100).contains(&log.seen.len()),
        "{} at once",
        log.seen.len()
    );
    log.until(200);
    assert_eq!((log.seen.len(), log.lost), (200, 0));
}

#[test]
fn the_end_reads_all_there_is_however_long_an_entry() {
    let mut log = Log::new("");
    let long = "x".repeat(3 * POLL_BYTES_MAX);
    log.write(&format!("{HEAD}SELECT '{long}';\n"));
    (0..10).for_each(|_| log.write(&format!("{HEAD}SELECT 2;\n")));
    // Two calls read nothing but a part of the first entry.
    log.finish();
    assert_eq!((log.seen.len(), log.lost), (11, 0));
    assert_eq!(log.seen[10], "SELECT 2");
}
