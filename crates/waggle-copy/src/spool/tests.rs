//! Spools that were killed, damaged, filled and outrun.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::Duration;

use waggle_wire::binlog::gtid::MariaDbGtid;

use super::record::{Mark, Record};
use super::*;

const SEGMENT: u64 = 4096;
/// No test waits for it.
const LONG: Duration = Duration::from_secs(60);

fn mark(sequence: u64) -> Mark {
    Mark::MariaDb(MariaDbGtid {
        domain: 0,
        server: 1,
        sequence,
    })
}

fn position(sequence: u64) -> Position {
    let mut position: Position = "mariadb:".parse().unwrap();
    if sequence > 0 {
        mark(sequence).advance(&mut position);
    }
    position
}

fn begin(writer: &mut Writer, sequence: u64, body: &[u8]) {
    let mark = mark(sequence);
    let committed_us = sequence;
    writer.put(&Record::Begin { mark, committed_us }).unwrap();
    writer.put(&Record::Rows(30, body)).unwrap();
}

fn transaction(writer: &mut Writer, sequence: u64, body: &[u8]) {
    begin(writer, sequence, body);
    writer.put(&Record::Commit).unwrap();
    writer.end(&mark(sequence)).unwrap();
}

fn shared() -> Arc<Shared> {
    Arc::new(Shared::new(1 << 20))
}

fn open(dir: &Path, from: u64, shared: &Arc<Shared>) -> Writer {
    Writer::open(dir, &position(from), SEGMENT, shared).unwrap()
}

/// The sequence numbers of whole transactions, as far as there are any.
fn read(reader: &mut Reader) -> Result<Vec<u64>, CopyError> {
    let mut sequences = Vec::new();
    while reader.has_more() {
        if let Some(Record::Begin { committed_us, .. }) = reader.next(Duration::ZERO)? {
            sequences.push(committed_us);
        }
    }
    Ok(sequences)
}

fn whole(dir: &Path, from: u64) -> (Position, Vec<u64>) {
    let shared = shared();
    let writer = open(dir, from, &shared);
    let mut reader = Reader::open(dir, &shared, &position(from)).unwrap();
    (writer.position().clone(), read(&mut reader).unwrap())
}

#[test]
fn a_torn_end_is_dropped_at_every_byte() {
    let dir = tempfile::tempdir().unwrap();
    let file = segment::path(dir.path(), 1);
    let mut ends = vec![0];
    {
        let mut writer = open(dir.path(), 0, &shared());
        ends.push(std::fs::metadata(&file).unwrap().len());
        for sequence in 1..=5 {
            transaction(&mut writer, sequence, b"rows");
            ends.push(std::fs::metadata(&file).unwrap().len());
        }
        // Handed to the file, and not whole: what a kill leaves.
        begin(&mut writer, 6, &vec![0; 300 << 10]);
    }
    let bytes = std::fs::read(&file).unwrap();
    assert!(bytes.len() as u64 > ends[6] + 1000);
    for length in (ends[1]..ends[6] + 100).rev() {
        std::fs::write(&file, &bytes[..length as usize]).unwrap();
        let last = ends.iter().filter(|end| **end <= length).count() as u64 - 2;
        let (reached, sequences) = whole(dir.path(), 0);
        assert_eq!(reached, position(last), "{length}");
        assert_eq!(sequences, (1..=last).collect::<Vec<_>>());
        assert_eq!(
            std::fs::metadata(&file).unwrap().len(),
            ends[last as usize + 1]
        );
    }
    // Not even its beginning: begun anew.
    std::fs::write(&file, &bytes[..5]).unwrap();
    assert_eq!(whole(dir.path(), 3), (position(3), vec![]));
}

#[test]
fn what_is_damaged_is_never_read() {
    let dir = tempfile::tempdir().unwrap();
    let shared = shared();
    let mut writer = open(dir.path(), 0, &shared);
    for sequence in 1..=9 {
        transaction(&mut writer, sequence, b"rows of a table");
    }
    let path = segment::path(dir.path(), 1);
    let good = std::fs::read(&path).unwrap();
    let expected: Vec<u64> = (1..=9).collect();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    for at in 40..good.len() {
        file.write_all_at(&[good[at] ^ 0x10], at as u64).unwrap();
        let mut reader = Reader::open(dir.path(), &shared, &position(0)).unwrap();
        match read(&mut reader) {
            Err(_) => {}
            Ok(found) => panic!("byte {at}: {found:?}"),
        }
        // After a restart only what is before the damage is kept.
        let whole = segment::whole_end(&path).unwrap().unwrap();
        assert!(whole.end <= at as u64 && whole.position != position(9));
        file.write_all_at(&good[at..=at], at as u64).unwrap();
    }
    let mut reader = Reader::open(dir.path(), &shared, &position(0)).unwrap();
    assert_eq!(read(&mut reader).unwrap(), expected);
}

#[test]
fn segments_follow_each_other_and_go_when_they_are_applied() {
    let dir = tempfile::tempdir().unwrap();
    let shared = shared();
    let mut writer = open(dir.path(), 0, &shared);
    for sequence in 1..=20 {
        transaction(&mut writer, sequence, &[7; 1000]);
    }
    let count = || segment::list(dir.path()).unwrap().len();
    assert_eq!(count(), 6);
    let mut reader = Reader::open(dir.path(), &shared, &position(9)).unwrap();
    // From the beginning of the segment that has it: what the target has is passed over there.
    assert_eq!(read(&mut reader).unwrap(), (9..=20).collect::<Vec<_>>());
    reader.release().unwrap();
    assert_eq!(count(), 1);
    // The target lost what it had.
    assert!(Reader::open(dir.path(), &shared, &position(9)).is_err());
    drop(writer);
    assert_eq!(whole(dir.path(), 20).0, position(20));
    assert_eq!(
        whole(dir.path(), 9),
        (position(9), vec![]),
        "it begins after that"
    );
    assert_eq!(
        whole(dir.path(), 30),
        (position(30), vec![]),
        "it ends before that"
    );
}

#[test]
fn what_is_taken_back_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let shared = shared();
    let mut writer = open(dir.path(), 0, &shared);
    for large in [10, 400 << 10] {
        begin(&mut writer, 1, b"stays");
        let savepoint = writer.offset();
        writer.put(&Record::Rows(30, &vec![0; large])).unwrap();
        writer.cut(savepoint).unwrap();
        writer.put(&Record::Rows(31, b"stays, too")).unwrap();
        writer.put(&Record::Commit).unwrap();
        writer.end(&mark(1)).unwrap();
        begin(&mut writer, 2, &vec![0; large]);
        writer.abandon().unwrap();
    }
    transaction(&mut writer, 3, b"3");
    let mut reader = Reader::open(dir.path(), &shared, &position(0)).unwrap();
    let mut kinds = Vec::new();
    while reader.has_more() {
        if let Some(Record::Rows(kind, body)) = reader.next(Duration::ZERO).unwrap() {
            kinds.push((kind, body.len()));
        }
    }
    assert_eq!(kinds, [(30, 5), (31, 10), (30, 5), (31, 10), (30, 1)]);
}

#[test]
fn a_full_spool_waits_for_its_reader_and_never_grows_past_its_limit() {
    const LIMIT: u64 = 20_000;
    let dir = tempfile::tempdir().unwrap();
    let shared = Arc::new(Shared::new(LIMIT - SEGMENT));
    let mut writer = open(dir.path(), 0, &shared);
    let path = dir.path().to_owned();
    thread::scope(|scope| {
        let producer = scope.spawn(move || {
            for sequence in 1..=200 {
                transaction(&mut writer, sequence, &[1; 500]);
            }
        });
        let mut reader = Reader::open(&path, &shared, &position(0)).unwrap();
        let mut seen = 0;
        while seen < 200 {
            assert!(shared.bytes() <= LIMIT, "{}", shared.bytes());
            match reader.next(LONG).unwrap() {
                Some(Record::Begin { committed_us, .. }) => {
                    seen += 1;
                    assert_eq!(committed_us, seen);
                }
                Some(Record::Commit) => reader.release().unwrap(),
                Some(_) => {}
                None => panic!("nothing came"),
            }
        }
        producer.join().unwrap();
    });
}

#[test]
fn a_transaction_that_can_never_fit_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let shared = Arc::new(Shared::new(1 << 20));
    let mut writer = open(dir.path(), 0, &shared);
    begin(&mut writer, 1, b"");
    let outcome = (0..8).try_for_each(|_| writer.put(&Record::Rows(30, &[0; 300 << 10])));
    let words = outcome.unwrap_err().to_string();
    assert!(words.contains("--spool-max"), "{words}");
}

#[test]
fn a_waiting_reader_is_woken_by_data_by_failure_and_by_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let shared = shared();
    let mut writer = open(dir.path(), 0, &shared);
    thread::scope(|scope| {
        let mut reader = Reader::open(dir.path(), &shared, &position(0)).unwrap();
        let waiting = scope.spawn(move || {
            let first = reader.next(LONG).map(|record| record.is_some());
            assert!(first.unwrap());
            while reader.has_more() {
                reader.next(LONG).unwrap();
            }
            reader.next(LONG).map(|record| record.is_some())
        });
        transaction(&mut writer, 1, b"");
        shared.fail(CopyError::Progress("the log is gone".to_owned()));
        let words = waiting.join().unwrap().unwrap_err().to_string();
        assert!(words.contains("the log is gone"), "{words}");
    });
    shared.close();
    assert!(shared.pause(LONG), "whoever pauses goes on at the end");
}

#[test]
fn two_processes_do_not_share_a_spool() {
    let dir = tempfile::tempdir().unwrap();
    let first = lock(dir.path()).unwrap();
    assert!(lock(dir.path()).is_err());
    drop(first);
    let mut again = lock(dir.path()).unwrap();
    again.write_all(b"").unwrap();
}
