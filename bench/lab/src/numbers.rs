//! Means of rounds, with their intervals.

use waggle_stats::compare::{CONFIDENCE, Interval, sample};

/// The mean with its 95% t interval; without an interval (low = high) below two values, `None`
/// without any.
pub fn mean(values: &[f64]) -> Option<Interval> {
    match values {
        [] => None,
        [only] => Some(Interval {
            estimate: *only,
            low: *only,
            high: *only,
            n: 1,
        }),
        _ => sample::mean(values)
            .ok()
            .map(|estimate| estimate.interval(CONFIDENCE)),
    }
}

/// The geometric mean of ratios with its 95% t interval over rounds.
pub fn ratio(values: &[f64]) -> Option<Interval> {
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    let all = mean(&logs)?;
    Some(all.map(f64::exp))
}

/// `1.00 (0.95 to 1.05)`, with this many decimals; `-` for nothing.
pub fn shown(interval: Option<&Interval>, decimals: usize) -> String {
    match interval {
        None => "-".to_owned(),
        Some(i) if i.low == i.high => format!("{:.decimals$}", i.estimate),
        Some(i) => format!(
            "{:.decimals$} ({:.decimals$} to {:.decimals$})",
            i.estimate, i.low, i.high
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_has_the_t_interval_of_its_values() {
        // Mean 2, standard error 1/sqrt(3), t(0.975, 2) = 4.302653.
        let found = mean(&[1.0, 2.0, 3.0]).expect("three values");
        assert_eq!((found.estimate, found.n), (2.0, 3));
        assert!((found.high - 4.484_137).abs() < 1e-5, "{found:?}");
        assert_eq!(mean(&[]), None);
        assert_eq!(mean(&[7.0]).map(|i| (i.low, i.high)), Some((7.0, 7.0)));
    }

    #[test]
    fn a_ratio_is_taken_on_the_logarithm() {
        let found = ratio(&[0.5, 2.0]).expect("two values");
        assert!((found.estimate - 1.0).abs() < 1e-12, "{found:?}");
        assert!((found.low * found.high - 1.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn what_was_not_measured_is_no_number() {
        assert_eq!(shown(None, 2), "-");
        assert_eq!(shown(mean(&[1.25]).as_ref(), 2), "1.25");
    }
}
