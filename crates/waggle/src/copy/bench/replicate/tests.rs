use super::*;

#[test]
fn lags_are_ordered_and_seconds_keep_their_worst() {
    let lag = Lag::of((1..=100).rev().map(f64::from).collect());
    assert_eq!(
        (lag.p50, lag.p95, lag.p99, lag.max),
        (50.0, 95.0, 99.0, 100.0)
    );
    assert!(Lag::of(Vec::new()).max.is_nan());
    let worst = by_second(&[(0.1, 5.0), (0.9, 7.0), (2.5, 1.0)]);
    assert_eq!(worst, [7.0, 0.0, 1.0]);
}
