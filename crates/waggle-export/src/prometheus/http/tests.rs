use super::*;

#[test]
fn a_coding_with_no_weight_is_not_wanted() {
    assert!(gzip_is_wanted("gzip") && gzip_is_wanted("GZIP; q=0.5"));
    assert!(!gzip_is_wanted("gzip;q=0") && !gzip_is_wanted("gzip; q=0.0"));
    assert!(!gzip_is_wanted("identity") && !gzip_is_wanted("gzipped"));
}

#[test]
fn more_than_the_pace_has_to_wait() {
    let start = Instant::now();
    let mut pace = Pace::new(start);
    for _ in 0..64 {
        assert_eq!(pace.wait(start), Duration::ZERO);
        pace.took_one();
    }
    let wait = pace.wait(start);
    assert!(wait > Duration::from_millis(25) && wait < Duration::from_millis(40));
    assert_eq!(pace.wait(start + wait * 2), Duration::ZERO);
}
