//! Keys that lie unevenly, behind estimates like InnoDB's.

use super::*;
use crate::table::Kind;
use crate::table::tests::column;

const ROWS: u64 = 20_000;

/// A server with these keys.
struct Sorted {
    keys: Vec<Vec<u8>>,
    folds: bool,
    questions: u64,
}

impl Sorted {
    fn new(mut keys: Vec<Vec<u8>>, folds: bool) -> Sorted {
        keys.sort_by_key(|key| ordered(folds, key));
        Sorted {
            keys,
            folds,
            questions: 0,
        }
    }

    /// Keys up to and with this one.
    fn up_to(&self, key: &[u8]) -> usize {
        let key = ordered(self.folds, key);
        self.keys
            .partition_point(|other| ordered(self.folds, other) <= key)
    }

    fn within(&self, low: Option<&[u8]>, high: &[u8]) -> std::ops::Range<usize> {
        let start = low.map_or(0, |low| self.up_to(low));
        start..self.up_to(high).max(start)
    }
}

fn ordered(folds: bool, key: &[u8]) -> Vec<u8> {
    match folds {
        true => key.to_ascii_lowercase(),
        false => key.to_vec(),
    }
}

impl Keys for Sorted {
    fn ends(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>, CopyError> {
        self.questions += 2;
        Ok(self.keys.first().cloned().zip(self.keys.last().cloned()))
    }

    fn near(
        &mut self,
        low: Option<&[u8]>,
        high: &[u8],
        middle: &[u8],
    ) -> Result<Option<Vec<u8>>, CopyError> {
        self.questions += 1;
        let within = self.within(low, high);
        let lower = within.start..self.up_to(middle).min(within.end);
        Ok(match lower.is_empty() {
            false => self.keys.get(lower.end - 1).cloned(),
            true => self.keys[within].first().cloned(),
        })
    }

    /// Exact of few pages, else doubled; never above a half.
    fn rows(&mut self, low: Option<&[u8]>, high: &[u8]) -> Result<f64, CopyError> {
        const EXACT: usize = 800;
        self.questions += 1;
        let rows = self.within(low, high).len();
        Ok(match rows > EXACT {
            true => (2 * rows).min(self.keys.len() / 2) as f64,
            false => rows as f64,
        })
    }
}

/// SplitMix64: repeatable without a crate.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Keys in each piece, and the questions that it took.
fn pieces_of(keys: Vec<Vec<u8>>, kind: Kind, collation: &str, pieces: u64) -> (Vec<u64>, u64) {
    let mut column = column("k", kind);
    column.charset = Some("utf8mb4".into());
    column.collation = Some(collation.into());
    let alphabet = Alphabet::of(&column).unwrap();
    let mut server = Sorted::new(keys, collation.ends_with("_ci"));
    let all = server.keys.len();
    let spans = spans(&mut server, &alphabet, all as u64, pieces).unwrap();
    let cuts = ends(&spans, pieces);
    assert!((cuts.len() as u64) < pieces);
    // A cut is a key, and above the one before.
    assert!(cuts.iter().all(|cut| server.keys.contains(cut)));
    let places: Vec<usize> = cuts.iter().map(|cut| server.up_to(cut)).collect();
    assert!(places.is_sorted_by(|one, other| one < other), "{places:?}");
    let bounds = [vec![0], places, vec![all]].concat();
    let sizes = bounds.windows(2).map(|pair| (pair[1] - pair[0]) as u64);
    (sizes.collect(), server.questions)
}

fn keys(make: impl Fn(u64) -> String) -> Vec<Vec<u8>> {
    (0..ROWS).map(|i| make(i).into_bytes()).collect()
}

#[test]
fn skewed_keys_are_cut_evenly() {
    const CI: &str = "utf8mb4_0900_ai_ci";
    const BIN: &str = "utf8mb4_bin";
    let mut state = 7;
    let digests: Vec<u64> = (0..ROWS).map(|_| random(&mut state)).collect();
    let hex = |i: u64| format!("{:016x}", digests[i as usize]);
    // One key far below and one far above all others.
    let mut outliers = keys(|i| format!("order-2026-{i:06}"));
    outliers.extend([b"A".to_vec(), b"zzz".to_vec()]);
    let clustered = keys(|i| match i % 10 {
        0..6 => format!("Customer-EU-{i:06}"),
        _ => hex(i),
    });
    let dense = |i: u64| (1_600_000_000_000 + i).to_be_bytes().to_vec();
    let mut bytes: Vec<Vec<u8>> = (0..ROWS).map(dense).collect();
    bytes.extend([vec![0; 8], vec![0xff; 8]]);
    let sets = [
        ("hex", keys(hex), Kind::Text, CI),
        ("hex, by bytes", keys(hex), Kind::Text, BIN),
        ("outliers", outliers, Kind::Text, CI),
        ("numbers", keys(|i| i.to_string()), Kind::Text, CI),
        ("clustered", clustered.clone(), Kind::Text, CI),
        ("clustered, by bytes", clustered, Kind::Text, BIN),
        ("bytes", bytes, Kind::Binary, "binary"),
    ];
    for (name, keys, kind, collation) in sets {
        for pieces in [2, 6, 32] {
            let all = keys.len() as u64;
            let (sizes, questions) = pieces_of(keys.clone(), kind, collation, pieces);
            assert_eq!(sizes.iter().sum::<u64>(), all, "{name}");
            let most = sizes.iter().copied().max().unwrap();
            assert!(
                most <= all * 3 / 2 / pieces,
                "{name} in {pieces}: {sizes:?}"
            );
            assert!(questions <= 50 * pieces, "{name}: {questions} questions");
        }
    }
}

#[test]
fn a_value_that_most_rows_have_is_left_whole_and_the_rest_is_cut() {
    let mut all = keys(|i| format!("{:05}", i / 4));
    all.extend(std::iter::repeat_n(
        b"00000 many".to_vec(),
        3 * ROWS as usize,
    ));
    let (sizes, _) = pieces_of(all, Kind::Text, "utf8mb4_bin", 8);
    let most = sizes.iter().copied().max().unwrap();
    assert!(most < 4 * ROWS, "{sizes:?}");
    let others = sizes.iter().filter(|size| **size < most);
    assert!(others.copied().max() <= Some(ROWS / 2), "{sizes:?}");
}

#[test]
fn tables_with_nothing_between_their_ends_stay_whole() {
    let same = vec![b"same".to_vec(); 100];
    let (sizes, _) = pieces_of(same, Kind::Text, "utf8mb4_bin", 4);
    assert_eq!(sizes, [100]);
    let (sizes, _) = pieces_of(Vec::new(), Kind::Text, "utf8mb4_bin", 4);
    assert_eq!(sizes, [0]);
}
