//! Differences add up to the last view, whatever views were seen.

use super::*;

fn sums(count: u64, bars: &[(u64, u64)]) -> Sums {
    Sums {
        count,
        errors: count / 10,
        latency_ns: count * 1000,
        bars: bars.to_vec(),
        optional: [Some(count); OPTIONAL.len()],
        ..Sums::default()
    }
}

#[test]
fn differences_and_their_sums_are_inverse() {
    let before = sums(10, &[(32, 4), (2048, 6)]);
    let now = sums(17, &[(32, 4), (64, 1), (2048, 9), (4096, 3)]);
    assert!(!now.began_anew(&before));
    let news = now.since(&before);
    assert_eq!(news.bars, [(64, 1), (2048, 3), (4096, 3)]);
    let mut sum = before;
    sum.add(&news);
    assert_eq!(sum, now);
    assert!(now.since(&now).is_empty());
}

#[test]
fn what_shrank_began_anew() {
    let before = sums(10, &[(32, 4), (2048, 6)]);
    assert!(sums(9, &[(32, 4), (2048, 5)]).began_anew(&before));
    // As many statements, but others.
    assert!(sums(10, &[(32, 5), (2048, 5)]).began_anew(&before));
    assert!(sums(10, &[(64, 10)]).began_anew(&before));
    assert!(sums(12, &[(2048, 12)]).began_anew(&before));
    assert!(!sums(10, &[(32, 4), (2048, 6)]).began_anew(&before));
}

#[test]
fn what_is_unknown_stays_unknown() {
    let mut sum = Sums::default();
    let mut more = sums(3, &[(32, 3)]);
    more.optional[1] = None;
    sum.add(&more);
    sum.add(&more);
    assert_eq!((sum.optional[0], sum.optional[1]), (Some(6), None));
    assert_eq!(more.since(&Sums::default()).optional[1], None);
}

#[test]
fn seconds_become_nanoseconds_and_nonsense_nothing() {
    assert_eq!(ns(1.5), 1_500_000_000);
    assert_eq!(
        (ns(-1.0), ns(f64::NAN), ns(f64::INFINITY)),
        (0, 0, u64::MAX)
    );
}
