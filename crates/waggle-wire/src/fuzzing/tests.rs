//! Mutations of good sessions. `WAGGLE_FUZZ_SECONDS` makes a campaign of the short run.

use std::time::{Duration, Instant};

use super::*;
use crate::handshake::tests::greeting;
use crate::rows::tests::definition;

const OK: &[u8] = b"\0\0\0\x02\0\0\0";
const END: &[u8] = b"\xfe\0\0\x02\0\0\0";
const CASES: u64 = 20_000;

type Record = (u8, Vec<u8>);

/// A session in which every command succeeds, of a server that may leave out columns or not.
fn good(may_omit: bool) -> Vec<Record> {
    let flags = if may_omit { !1 } else { u32::MAX };
    let mut hello = greeting("10.11.14-MariaDB", flags, "mysql_native_password");
    if may_omit {
        // The extended capabilities are the last four of the bytes before the challenge's rest.
        let at = "10.11.14-MariaDB".len() + 1 + 1 + 4 + 8 + 1 + 2 + 3 + 2 + 1 + 6;
        hello[at] |= 1 << 4 | 1 << 2;
    }
    let column = definition("a", 3, 0, 0);
    let count: &[u8] = if may_omit { b"\x01\x01" } else { b"\x01" };
    let binary: &[u8] = b"\0\0\x07\0\0\0";
    let mut records = vec![(b'p', hello), (b's', OK.to_vec())];
    let mut answer = |packets: &[&[u8]]| {
        for (i, packet) in packets.iter().enumerate() {
            records.push((if i == 0 { b'c' } else { b'p' }, packet.to_vec()));
        }
    };
    answer(&[count, &column, b"\x0217", b"\xfb", END]);
    answer(&[count, &column, b"\x0217", b"\xfe\0\0\x0a\0\0\0", OK]);
    answer(&[count, &column, b"\x0217", END]);
    answer(&[b"\0\x05\0\0\0\x01\0\x01\0\0\0\0", &column, &column]);
    answer(&[count, &column, binary, END]);
    if may_omit {
        answer(&[b"\x01\0", binary, END]);
        answer(&[b"\x01\0", binary, END]);
    } else {
        answer(&[count, &column, binary, END]);
        answer(&[count, &column, binary, END]);
    }
    answer(&[OK]);
    records
}

fn input(records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, payload) in records {
        bytes.push(*kind);
        bytes.extend_from_slice(&(payload.len() as u16).to_le_bytes());
        bytes.extend_from_slice(payload);
    }
    bytes
}

/// SplitMix64: repeatable without a crate.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % limit.max(1) as u64) as usize
    }
}

fn mutate(records: &mut Vec<Record>, random: &mut Random) {
    const BYTES: [u8; 12] = [0, 1, 2, 8, 0x7f, 0x80, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff];
    let special = |random: &mut Random| BYTES[random.below(BYTES.len())];
    let at = random.below(records.len());
    let other = random.below(records.len());
    match random.below(10) {
        0 => _ = records.remove(at),
        1 => records.insert(at, records[other].clone()),
        2 => records.swap(at, other),
        3 => records.truncate(at.max(1)),
        4 => records.insert(at, (b'p', b"\xff\x25\x05#70100interrupted".to_vec())),
        5 => {
            // An announced length without the bytes, or with another number.
            let header = (0..4).map(|_| special(random)).collect();
            records.insert(at, (b'r', header));
        }
        6 => records[at].0 = b"pcsr"[random.below(4)],
        7 => {
            let payload = &mut records[at].1;
            payload.truncate(random.below(payload.len() + 1));
        }
        _ => {
            let byte = match random.below(2) {
                0 => special(random),
                _ => random.below(256) as u8,
            };
            let payload = &mut records[at].1;
            let place = random.below(payload.len() + 1);
            match payload.get_mut(place) {
                Some(old) => *old = byte,
                None => payload.push(byte),
            }
        }
    }
    if records.is_empty() {
        records.push((b'p', vec![special(random)]));
    }
}

#[test]
fn a_good_session_succeeds_whole() {
    for may_omit in [false, true] {
        assert_eq!(session(&input(&good(may_omit))), 9, "{may_omit}");
    }
}

#[test]
fn damaged_sessions_are_answered() {
    let seconds = std::env::var("WAGGLE_FUZZ_SECONDS")
        .ok()
        .map(|text| text.parse().expect("WAGGLE_FUZZ_SECONDS is a number"));
    let end = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let seeds = [good(false), good(true)];
    let mut random = Random(seconds.unwrap_or(1));
    let (mut cases, mut succeeded) = (0u64, 0u64);
    while end.map_or(cases < CASES, |end| Instant::now() < end) {
        for _ in 0..1000 {
            let mut records = seeds[random.below(seeds.len())].clone();
            for _ in 0..=random.below(6) {
                mutate(&mut records, &mut random);
            }
            succeeded += u64::from(session(&input(&records)));
            cases += 1;
        }
    }
    // Mutations that never get anywhere would test little.
    assert!(succeeded > cases, "{succeeded} commands in {cases} cases");
    println!("{cases} sessions, {succeeded} commands succeeded");
}

#[test]
fn the_corpus_is_answered() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/session");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).expect("the corpus is there") {
        let path = entry.expect("a file of the corpus").path();
        session(&std::fs::read(path).expect("it can be read"));
        files += 1;
    }
    assert!(files >= 2, "{files} files");
}

#[test]
fn the_corpus_of_logs_is_answered() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/binlog");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).expect("the corpus is there") {
        let path = entry.expect("a file of the corpus").path();
        binlog(&std::fs::read(path).expect("it can be read"));
        files += 1;
    }
    assert!(files >= 2, "{files} files");
}
