//! The spool and `kill -9` of the process that writes it.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use waggle_export::spool::{Limits, Spool};

const LIMITS: Limits = Limits {
    max_bytes: 256 << 20,
    min_free_bytes: 0,
};
const FOLDER: &str = "WAGGLE_TEST_SPOOL_FOLDER";

/// Not a test of its own: what [`a_killed_process_loses_nothing_it_was_told_is_kept`] kills.
#[test]
fn writes_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let mut spool = Spool::open(folder.as_ref(), LIMITS).unwrap();
    let mut number = 0u64;
    loop {
        let payload = number.to_le_bytes().repeat(1 + number as usize % 600);
        spool.append(0, 1, &payload).unwrap();
        println!("kept {number}");
        number += 1;
    }
}

#[test]
fn a_killed_process_loses_nothing_it_was_told_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut next = None;
    for lines in [1, 50, 333] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "spool::writes_until_it_is_killed", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        let kept = said.by_ref().map_while(Result::ok);
        let kept = kept.filter_map(|line| line.strip_prefix("kept ")?.parse::<u64>().ok());
        let last_read = kept.take(lines).last().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        // What it said before it died, up to the last whole line.
        let rest = said.map_while(Result::ok);
        let rest = rest.filter_map(|line| line.strip_prefix("kept ")?.parse::<u64>().ok());
        let last = rest.last().unwrap_or(last_read);
        let mut spool = Spool::open(folder.path(), LIMITS).unwrap();
        let mut found = 0;
        while let Some(batch) = spool.front() {
            let number = u64::from_le_bytes(batch.payload[..8].try_into().unwrap());
            assert_eq!(number, found, "in order, without a gap");
            assert_eq!(batch.payload.len(), 8 * (1 + number as usize % 600));
            spool.acknowledge(batch.id);
            found += 1;
        }
        assert!(found > last, "{found} of {last} and more");
        // At most the batch that was being written is damaged.
        let dropped: u64 = spool.status().dropped.iter().map(|one| one.1).sum();
        assert!(dropped <= 1);
        next = Some(found);
    }
    assert!(next.is_some_and(|found| found >= 333));
}
