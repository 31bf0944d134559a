use super::*;

#[track_caller]
fn assert_interval(hits: u64, of: u64, low: f64, high: f64, tolerance: f64) {
    let found = Tally { hits, of }.interval();
    assert!(
        (found.low - low).abs() < tolerance && (found.high - high).abs() < tolerance,
        "{hits} of {of}: {found:?}"
    );
}

/// Newcombe, Statistics in Medicine 17 (1998) 857, table I, method 5 (Clopper-Pearson).
#[test]
fn intervals_are_the_published_ones() {
    assert_interval(81, 263, 0.2527, 0.3676, 6e-5);
    assert_interval(15, 148, 0.0579, 0.1617, 6e-5);
    assert_interval(0, 20, 0.0, 0.1684, 6e-5);
    assert_interval(1, 29, 0.0009, 0.1776, 6e-5);
    // Conover, Practical Nonparametric Statistics (1999), table A4.
    assert_interval(5, 25, 0.068, 0.407, 6e-4);
}

/// The definition: at the ends, as many hits or more (fewer) have a probability of 2.5%.
#[test]
fn the_ends_are_where_the_count_becomes_surprising() {
    let tally = Tally { hits: 7, of: 40 };
    let interval = tally.interval();
    let mass = |p: f64, from: u64, to: u64| -> f64 {
        let mut ways = 1.0;
        let mut sum = 0.0;
        for k in 0..=40_u64 {
            if (from..=to).contains(&k) {
                sum += ways * p.powi(k as i32) * (1.0 - p).powi(40 - k as i32);
            }
            ways *= (40 - k) as f64 / (k + 1) as f64;
        }
        sum
    };
    assert!((mass(interval.low, 7, 40) - 0.025).abs() < 1e-9);
    assert!((mass(interval.high, 0, 7) - 0.025).abs() < 1e-9);
    assert!(tally.interval_at(0.99).half_width() > interval.half_width());
}

#[test]
fn counting_merging_and_saying() {
    let mut tally: Tally = [true, false, true, true].into_iter().collect();
    tally.add(true);
    assert_eq!(tally, Tally { hits: 4, of: 5 });
    tally.merge(Tally { hits: 186, of: 195 });
    assert_eq!(tally.to_string(), "190 of 200, 95.0% (91.0% to 97.6%)");
    assert!(tally.is_within(0.93, 0.97) && !tally.is_within(0.96, 1.0));
    let none = Tally::default();
    assert_eq!((none.share(), none.to_string().as_str()), (None, "0 of 0"));
    assert_eq!((none.interval().low, none.interval().high), (0.0, 1.0));
    assert!(!none.is_within(0.0, 1.0));
    assert_eq!(Tally { hits: 3, of: 3 }.interval().high, 1.0);
}
