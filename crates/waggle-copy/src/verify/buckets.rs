//! Tables without a key, or whose keys the two servers order differently: by digest.
//!
//! Each side adds up its rows by the first digits of their digests, in one pass; the buckets that
//! differ are listed, digest by digest with how often each is there. Invariant: rows that are the
//! same count as often as they are there.

use std::collections::{BTreeMap, BTreeSet};

use super::ranges::both;
use super::side::{Half, Sums};
use crate::error::CopyError;

/// 4096 buckets.
const DIGITS: usize = 3;

/// A digest that is not there equally often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Uneven {
    pub(super) digest: String,
    pub(super) source: u64,
    pub(super) target: u64,
}

/// What was seen of a table.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) rows_source: u64,
    pub(super) rows_target: u64,
    pub(super) uneven: Vec<Uneven>,
}

/// Compares whole tables.
pub(super) fn compare(source: &mut Half, target: &mut Half) -> Result<Seen, CopyError> {
    let (ours, theirs) = both(source, target, |half| half.buckets(DIGITS))?;
    let rows = |buckets: &[(String, Sums)]| buckets.iter().map(|(_, sums)| sums.rows).sum();
    let (rows_source, rows_target) = (rows(&ours), rows(&theirs));
    let names = differing(ours, theirs);
    let mut uneven = Vec::new();
    // Each list is a pass over both tables.
    if !names.is_empty() {
        let (ours, theirs) = both(source, target, |half| half.bucket_rows(&names))?;
        uneven = counted(ours, theirs);
    }
    Ok(Seen {
        rows_source,
        rows_target,
        uneven,
    })
}

fn differing(source: Vec<(String, Sums)>, target: Vec<(String, Sums)>) -> Vec<String> {
    let ours: BTreeMap<String, Sums> = source.into_iter().collect();
    let theirs: BTreeMap<String, Sums> = target.into_iter().collect();
    let all: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    let differ = |name: &&&String| ours.get(**name) != theirs.get(**name);
    all.iter()
        .filter(differ)
        .map(|name| (*name).clone())
        .collect()
}

fn counted(source: Vec<(String, u64)>, target: Vec<(String, u64)>) -> Vec<Uneven> {
    let mut both: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for (digest, count) in source {
        both.entry(digest).or_default().0 = count;
    }
    for (digest, count) in target {
        both.entry(digest).or_default().1 = count;
    }
    let uneven = |(digest, (source, target)): (String, (u64, u64))| Uneven {
        digest,
        source,
        target,
    };
    (both
        .into_iter()
        .filter(|(_, (source, target))| source != target))
    .map(uneven)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_rows_count_as_often_as_they_are_there() {
        let of = |pairs: &[(&str, u64)]| -> Vec<(String, u64)> {
            pairs
                .iter()
                .map(|(name, count)| ((*name).into(), *count))
                .collect()
        };
        let found = counted(
            of(&[("a", 2), ("b", 1)]),
            of(&[("a", 1), ("b", 1), ("c", 3)]),
        );
        let found: Vec<_> = (found.iter())
            .map(|row| (row.digest.as_str(), row.source, row.target))
            .collect();
        assert_eq!(found, [("a", 2, 1), ("c", 0, 3)]);
    }
}
