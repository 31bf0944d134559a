//! The spool against kills, damage, bounds and a model of what it promises.

use super::*;

const NO_LIMITS: Limits = Limits {
    max_bytes: 1 << 20,
    min_free_bytes: 0,
};

fn open(folder: &Path, limits: Limits) -> Spool {
    Spool::open(folder, limits).unwrap()
}

/// Takes out all that waits: payloads in order.
fn drain(spool: &mut Spool) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while let Some(batch) = spool.front() {
        spool.acknowledge(batch.id);
        all.push(batch.payload);
    }
    all
}

fn sum(dropped: &[(&'static str, u64)]) -> u64 {
    dropped.iter().map(|(_, records)| records).sum()
}

fn segments(folder: &Path) -> Vec<PathBuf> {
    let numbers = segment::list(folder).unwrap();
    numbers.iter().map(|n| segment::path(folder, *n)).collect()
}

#[test]
fn batches_leave_in_the_order_they_came_and_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = open(folder.path(), NO_LIMITS);
    assert_eq!(spool.front(), None);
    let first = spool.append(7, 3, b"one").unwrap();
    spool.append(0, 1, b"").unwrap();
    let front = spool.front().unwrap();
    assert_eq!(
        (front.id, front.tag, front.records, front.payload.as_slice()),
        (first, 7, 3, b"one".as_slice())
    );
    assert_eq!(
        spool.front().unwrap(),
        front,
        "the same until it is settled"
    );
    spool.acknowledge(first);
    spool.acknowledge(first);
    assert_eq!(spool.status().records_waiting, 1);
    assert_eq!(drain(&mut spool), [b""]);
    let status = spool.status();
    assert_eq!((status.records_delivered, status.dropped), (4, vec![]));
}

#[test]
fn what_waits_survives_and_keeps_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = open(folder.path(), NO_LIMITS);
    let ids: Vec<BatchId> = (0..50u8)
        .map(|n| spool.append(n, 1, &vec![n; 5000]).unwrap())
        .collect();
    for _ in 0..20 {
        let id = spool.front().unwrap().id;
        spool.acknowledge(id);
    }
    // As a kill leaves it: nothing is closed, the kernel lets go of the lock.
    let lent = spool.front().unwrap().id;
    drop(spool);
    let mut spool = open(folder.path(), NO_LIMITS);
    assert_eq!(spool.status().records_waiting, 30);
    assert_eq!(spool.front().unwrap().id, lent);
    let added = spool.append(50, 1, b"new").unwrap();
    assert!(!ids.contains(&added));
    let mut seen = Vec::new();
    while let Some(batch) = spool.front() {
        spool.acknowledge(batch.id);
        seen.push(batch.id);
    }
    assert_eq!(seen[..30], ids[20..]);
    assert_eq!(seen[30..], [added]);
    assert_eq!(spool.status().dropped, []);
}

#[test]
fn a_folder_has_one_owner() {
    let folder = tempfile::tempdir().unwrap();
    let spool = open(folder.path(), NO_LIMITS);
    let second = Spool::open(folder.path(), NO_LIMITS);
    assert!(matches!(second, Err(SpoolError::InUse { .. })));
    drop(spool);
    open(folder.path(), NO_LIMITS);
}

#[test]
fn a_spool_that_keeps_up_stays_small() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = open(folder.path(), NO_LIMITS);
    for _ in 0..2000 {
        let id = spool.append(0, 1, &[1; 1000]).unwrap();
        assert_eq!(spool.front().unwrap().id, id);
        spool.acknowledge(id);
    }
    assert!(spool.status().bytes < 2 * NO_LIMITS.max_bytes / SEGMENTS);
    assert!(segments(folder.path()).len() <= 2);
}

#[test]
fn beyond_the_bound_the_oldest_go_and_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits {
        max_bytes: MAX_BYTES_LEAST,
        min_free_bytes: 0,
    };
    let mut spool = open(folder.path(), limits);
    for n in 0..500u32 {
        spool
            .append(0, 2, &[n.to_le_bytes(); 100].concat())
            .unwrap();
        assert!(spool.status().bytes <= limits.max_bytes);
    }
    let on_disk: u64 = segments(folder.path())
        .iter()
        .map(|path| fs::metadata(path).unwrap().len())
        .sum();
    assert_eq!(on_disk, spool.status().bytes);
    let dropped = spool.status().dropped;
    let kept: Vec<u32> = drain(&mut spool)
        .iter()
        .map(|payload| u32::from_le_bytes(payload[..4].try_into().unwrap()))
        .collect();
    assert_eq!(kept.last(), Some(&499));
    assert!(kept.windows(2).all(|pair| pair[1] == pair[0] + 1));
    let most = limits.max_bytes * 7 / 8;
    assert!(kept.len() as u64 * 440 > most, "most of the bound is used");
    assert_eq!(dropped, [("spool_full", (500 - kept.len() as u64) * 2)]);
}

#[test]
fn a_batch_that_is_on_its_way_while_its_segment_goes_is_counted_by_its_fate() {
    let limits = Limits {
        max_bytes: MAX_BYTES_LEAST,
        min_free_bytes: 0,
    };
    for is_delivered in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = open(folder.path(), limits);
        spool.append(0, 5, b"on its way").unwrap();
        let lent = spool.front().unwrap();
        let mut appended = 5;
        while spool.status().dropped.is_empty() {
            spool.append(0, 1, &[0; 1000]).unwrap();
            appended += 1;
        }
        if is_delivered {
            spool.acknowledge(lent.id);
            assert_eq!(spool.status().records_delivered, 5);
        }
        drain(&mut spool);
        let status = spool.status();
        assert_eq!(status.records_delivered + sum(&status.dropped), appended);
    }
}

#[test]
fn a_batch_larger_than_half_the_bound_is_refused_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = open(folder.path(), NO_LIMITS);
    spool.append(0, 1, b"before").unwrap();
    let refused = spool.append(0, 9, &vec![0; 600 << 10]);
    assert!(matches!(refused, Err(Refused::TooLarge(_))));
    assert_eq!(spool.status().dropped, [("batch_too_large", 9)]);
    assert_eq!(drain(&mut spool), [b"before"]);
}

#[test]
fn a_disk_below_its_reserve_takes_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits {
        min_free_bytes: u64::MAX / 2,
        ..NO_LIMITS
    };
    let mut spool = open(folder.path(), limits);
    let refused = spool.append(0, 4, b"x");
    assert!(matches!(refused, Err(Refused::DiskFull)));
    assert_eq!(spool.status().dropped, [("disk_full", 4)]);
}

/// Cuts the last segment at every length: as a kill in the middle of any write leaves it.
#[test]
fn a_half_written_end_costs_that_batch_alone() {
    let source = tempfile::tempdir().unwrap();
    let mut spool = open(source.path(), NO_LIMITS);
    let ends: Vec<u64> = [&b"first"[..], b"second", b"third"]
        .iter()
        .map(|payload| {
            spool.append(0, 2, payload).unwrap();
            spool.status().bytes
        })
        .collect();
    drop(spool);
    let name = segments(source.path()).remove(0);
    let whole = fs::read(&name).unwrap();
    for cut in 0..=whole.len() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name.file_name().unwrap());
        fs::write(path, &whole[..cut]).unwrap();
        let mut spool = open(folder.path(), NO_LIMITS);
        let expected = ends.iter().filter(|end| **end <= cut as u64).count();
        assert_eq!(drain(&mut spool).len(), expected, "cut at {cut}");
        let clean = cut == 24 || ends.contains(&(cut as u64));
        assert_eq!(spool.status().dropped.is_empty(), clean, "cut at {cut}");
    }
}

/// Flips bytes anywhere: nothing panics, nothing comes out that did not go in, order holds, and a
/// damaged payload costs no other batch.
#[test]
fn damaged_bytes_are_never_delivered() {
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for _ in 0..300 {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = open(folder.path(), NO_LIMITS);
        let written: Vec<Vec<u8>> = (0..20u8).map(|n| vec![n; 1 + n as usize * 17]).collect();
        for payload in &written {
            spool.append(0, 1, payload).unwrap();
        }
        drop(spool);
        let path = segments(folder.path()).remove(0);
        let mut bytes = fs::read(&path).unwrap();
        for _ in 0..=random() % 4 {
            let at = random() as usize % bytes.len();
            bytes[at] ^= 1 << (random() % 8);
        }
        fs::write(&path, &bytes).unwrap();
        let mut spool = open(folder.path(), NO_LIMITS);
        let read = drain(&mut spool);
        let mut expected = written.iter();
        for payload in &read {
            assert!(expected.any(|one| one == payload), "in order, as written");
        }
        assert_eq!(spool.status().records_waiting, 0);
    }
}

#[test]
fn a_damaged_payload_costs_no_other_batch() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = open(folder.path(), NO_LIMITS);
    for payload in [&b"first"[..], b"second", b"third"] {
        spool.append(0, 3, payload).unwrap();
    }
    let path = segments(folder.path()).remove(0);
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(6).position(|w| w == b"second").unwrap();
    bytes[at] = b'S';
    fs::write(&path, bytes).unwrap();
    assert_eq!(drain(&mut spool), [&b"first"[..], b"third"]);
    assert_eq!(spool.status().dropped, [("damaged", 3)]);
}

/// Random appends, settlements, restarts: everything is delivered, dropped with a count, or waits.
#[test]
fn every_record_is_accounted_for() {
    let mut seed = 1u64;
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % below
    };
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits {
        max_bytes: 100_000,
        min_free_bytes: 0,
    };
    let mut spool = open(folder.path(), limits);
    let (mut appended, mut settled) = (0, 0);
    let (mut number, mut newest) = (0u64, 0);
    for _ in 0..5_000 {
        match random(10) {
            0..=5 => {
                let records = random(9) as u32;
                number += 1;
                let mut payload = number.to_le_bytes().to_vec();
                payload.resize(8 + random(3000) as usize, 0);
                appended += u64::from(records);
                spool.append(0, records, &payload).unwrap();
            }
            6..=8 => {
                if let Some(batch) = spool.front() {
                    let number = u64::from_le_bytes(batch.payload[..8].try_into().unwrap());
                    assert!(newest <= number, "out of order");
                    newest = number;
                    match random(3) {
                        0 => spool.reject(batch.id, "rejected"),
                        1 => spool.acknowledge(batch.id),
                        _ => {}
                    }
                }
            }
            _ if random(50) == 0 => {
                // Settles one that was on its way while its segment went.
                spool.front();
                let status = spool.status();
                settled += status.records_delivered + sum(&status.dropped);
                let waiting = status.records_waiting;
                assert_eq!(settled + waiting, appended);
                drop(spool);
                spool = open(folder.path(), limits);
                let status = spool.status();
                assert_eq!((status.records_waiting, sum(&status.dropped)), (waiting, 0));
            }
            _ => {}
        }
    }
    drain(&mut spool);
    let status = spool.status();
    settled += status.records_delivered + sum(&status.dropped);
    assert_eq!(settled, appended);
}
