use super::*;

#[test]
fn a_summary_is_in_microseconds_to_three_digits() {
    let mut histogram = LatencyHistogram::new();
    for us in 1..=1_000 {
        histogram.record(us * 1_000);
    }
    let summary = histogram.summary();
    assert_eq!(summary.count, 1_000);
    let all = [
        (summary.mean_us, 500.5),
        (summary.p50_us, 500.0),
        (summary.p95_us, 950.0),
        (summary.p99_us, 990.0),
        (summary.max_us, 1_000.0),
    ];
    for (found, expected) in all {
        assert!(
            (found / expected - 1.0).abs() < 0.002,
            "{found} for {expected}"
        );
    }
    assert_eq!(LatencyHistogram::new().summary(), LatencySummary::default());
}

#[test]
fn values_outside_the_range_are_kept_at_its_ends_and_counted() {
    let mut histogram = LatencyHistogram::new();
    histogram.record(0);
    histogram.record(u64::MAX);
    histogram.record(LATENCY_NS_MAX);
    assert_eq!((histogram.count(), histogram.clamped()), (3, 1));
    assert_eq!(histogram.quantile_ns(0.0), 1);
    let top = histogram.summary().max_us;
    assert!((top / 3.6e9 - 1.0).abs() < 0.001, "{top}");
    let mut other = LatencyHistogram::new();
    other.merge(&histogram);
    assert_eq!((other.count(), other.clamped()), (3, 1));
    other.reset();
    assert!(other.is_empty() && other.clamped() == 0);
}

#[test]
fn a_difference_keeps_the_sum_and_what_is_known_of_the_extremes() {
    let mut earlier = LatencyHistogram::new();
    earlier.record(5_001);
    earlier.record(9_000_011);
    let mut later = earlier.clone();
    later.record(4_999);
    later.record(1_000_003);
    let mut between = later.clone();
    between.subtract(&earlier);
    assert_eq!((between.count(), between.sum_ns()), (2, 1_005_002));
    assert_eq!(
        between.min_ns(),
        4_999,
        "a new least value is known exactly"
    );
    let max = between.max_ns() as f64;
    assert!((max / 1_000_003.0 - 1.0).abs() < 1e-3, "{max}");
    between.subtract(&between.clone());
    assert_eq!(
        (between.count(), between.min_ns(), between.max_ns()),
        (0, 0, 0)
    );
    later.subtract(&LatencyHistogram::new());
    assert_eq!((later.count(), later.max_ns()), (4, 9_000_011));
}

#[test]
fn v2_bytes_give_back_every_bar() {
    let mut histogram = LatencyHistogram::new();
    for step in 0..4_000_u64 {
        histogram.record(1 + step * step * 97);
    }
    let bytes = histogram.to_v2_bytes().unwrap();
    let read = LatencyHistogram::from_v2_bytes(&bytes).unwrap();
    assert!(histogram.buckets().eq(read.buckets()));
    let (before, after) = (histogram.summary(), read.summary());
    assert_eq!((before.count, before.p50_us), (after.count, after.p50_us));
    // Sum and extremes are in the bytes as well as their bars are.
    assert!((before.mean_us / after.mean_us - 1.0).abs() < 1e-3);
    assert!((before.max_us / after.max_us - 1.0).abs() < 1e-3);
    let empty = LatencyHistogram::new().to_v2_bytes().unwrap();
    assert!(LatencyHistogram::from_v2_bytes(&empty).unwrap().is_empty());
}

#[test]
fn a_histogram_of_another_range_is_read_and_clamped() {
    let mut foreign = Histogram::<u64>::new_with_bounds(1, u64::MAX / 4, 2).unwrap();
    foreign.record(5_000).unwrap();
    foreign.record(2 * LATENCY_NS_MAX).unwrap();
    let mut bytes = Vec::new();
    V2Serializer::new().serialize(&foreign, &mut bytes).unwrap();
    let read = LatencyHistogram::from_v2_bytes(&bytes).unwrap();
    assert_eq!((read.count(), read.clamped()), (2, 1));
}

#[test]
fn other_bytes_are_refused() {
    let bytes = LatencyHistogram::new().to_v2_bytes().unwrap();
    for wrong in [
        &b""[..],
        b"nonsense, and long enough for a header of forty bytes",
        &bytes[..9],
    ] {
        let error = LatencyHistogram::from_v2_bytes(wrong).unwrap_err();
        assert!(error.to_string().contains("V2"), "{error}");
    }
}

#[test]
fn density_counts_every_value_once_in_even_bars() {
    let mut histogram = LatencyHistogram::new();
    for ns in [900, 1_500, 15_000, 150_000, 150_001, 9_000_000] {
        histogram.record(ns);
    }
    let bars = histogram.density(10);
    assert_eq!(bars.iter().map(|bar| bar.count).sum::<u64>(), 6);
    assert!(
        bars.windows(2)
            .all(|pair| pair[0].high_ns + 1 == pair[1].low_ns)
    );
    assert_eq!(bars.len(), 41, "four decades, both ends in");
    assert!(LatencyHistogram::new().density(10).is_empty());
}
