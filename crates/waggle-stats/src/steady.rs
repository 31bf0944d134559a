//! Was the run steady, and from when on?
//!
//! Takes one figure an interval (throughput, or a percentile) and answers in three steps:
//!
//! 1. Where the warm-up ends: the truncation that minimises the standard error of what is left
//!    (MSER, White 1997), taken only if what it cuts off really lies elsewhere than the rest. A
//!    minimum in the second half means that the series never settled.
//! 2. Whether the rest drifts: the slope of a straight line through it, with a t interval.
//!    Neighbouring intervals resemble each other, so the interval is widened by their correlation
//!    (an AR(1) model of the residuals, with its small-sample bias put right).
//! 3. The verdict. "Steady" needs evidence: the drift over the rest must lie within a margin with
//!    95% confidence. A drift that is not proven and not excluded either is "too short", not
//!    "steady".
//!
//! Neighbours: `bench` hands over what it sampled and prints the verdict. Invariant: pure; the same
//! series gives the same verdict.

use serde::Serialize;

use crate::distribution::t_quantile;

#[cfg(test)]
mod tests;

/// Fewest intervals that are judged.
pub const INTERVALS_MIN: usize = 20;

/// A drift over the whole of what is judged that is still called steady: 10% of the mean.
pub const MARGIN: f64 = 0.10;

/// A smaller drift, in the same unit, is never called drifting, however sure it is.
const DRIFT_WORTH_SAYING: f64 = 0.03;

/// Standard errors by which the part cut off must differ from the rest.
const WARM_UP_Z: f64 = 4.0;

/// What can be said about a series.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Steadiness {
    /// No drift above the margin from here on, with 95% confidence.
    Steady {
        /// Seconds from the beginning; 0 when there was no warm-up to see.
        from_s: f64,
        /// The drift over the part judged.
        drift: Drift,
    },
    /// It went on changing until the end.
    Drifting {
        /// Where the part that was judged begins, in seconds.
        from_s: f64,
        /// The drift over the part judged.
        drift: Drift,
    },
    /// The series is too short, or too noisy for its length, to tell.
    TooShort {
        /// Intervals there are.
        intervals: usize,
        /// The drift as far as it can be told; `None` below [`INTERVALS_MIN`].
        drift: Option<Drift>,
    },
}

/// A linear change, relative to the mean of the part judged.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Drift {
    /// Percent of the mean a minute; falling is negative.
    pub percent_per_minute: f64,
    /// Percent of the mean from the beginning to the end of the part judged.
    pub percent: f64,
    /// Lower end of its 95% interval.
    pub percent_low: f64,
    /// Upper end of its 95% interval.
    pub percent_high: f64,
}

/// Judges a series of one value for each interval of `interval_s` seconds.
pub fn judge(series: &[f64], interval_s: f64) -> Steadiness {
    let intervals = series.len();
    let too_short = |drift| Steadiness::TooShort { intervals, drift };
    if intervals < INTERVALS_MIN || mean(series) <= 0.0 {
        return too_short(None);
    }
    let cut = warm_up(series);
    // A series that settles late, if at all, is judged as a whole: what is left would be a handful.
    let (from, settled) = match cut {
        Cut::At(from) => (from, true),
        Cut::Never => (0, false),
    };
    let drift = drift(&series[from..], interval_s);
    let from_s = from as f64 * interval_s;
    let margin = 100.0 * MARGIN;
    let excludes_zero = drift.percent_low > 0.0 || drift.percent_high < 0.0;
    let within_margin = drift.percent_low > -margin && drift.percent_high < margin;
    if !settled || (excludes_zero && drift.percent.abs() >= 100.0 * DRIFT_WORTH_SAYING) {
        Steadiness::Drifting { from_s, drift }
    } else if within_margin {
        Steadiness::Steady { from_s, drift }
    } else {
        too_short(Some(drift))
    }
}

enum Cut {
    /// Intervals to leave out.
    At(usize),
    /// The best cut lies in the second half.
    Never,
}

/// Where the warm-up ends.
fn warm_up(series: &[f64]) -> Cut {
    let intervals = series.len();
    // The last few values are too few to estimate a variance from: MSER would always choose them.
    let last = intervals - intervals / 5;
    let cost = |from: usize| {
        let rest = &series[from..];
        squares(rest) / (rest.len() as f64).powi(2)
    };
    let best = (0..last)
        .min_by(|&left, &right| cost(left).total_cmp(&cost(right)))
        .unwrap_or(0);
    if best == 0 || !stands_apart(&series[..best], &series[best..]) {
        return Cut::At(0);
    }
    if best > intervals / 2 {
        return Cut::Never;
    }
    Cut::At(best)
}

/// True when the mean of `head` differs from that of `rest` by more than chance gives: the best of
/// many cuts always looks different, hence the high bar.
fn stands_apart(head: &[f64], rest: &[f64]) -> bool {
    let correlation = correlation(&centred(rest), 1.0);
    let variance = squares(rest) / (rest.len() as f64 - 1.0);
    let inflation = (1.0 + correlation) / (1.0 - correlation);
    let share = 1.0 / head.len() as f64 + 1.0 / rest.len() as f64;
    let error = (variance * inflation * share).sqrt();
    (mean(head) - mean(rest)).abs() > WARM_UP_Z * error.max(f64::MIN_POSITIVE)
}

/// The slope of the least-squares line, as a change over the length of the series.
fn drift(series: &[f64], interval_s: f64) -> Drift {
    let count = series.len() as f64;
    let (middle, level) = ((count - 1.0) / 2.0, mean(series));
    let mut spread = 0.0;
    let mut product = 0.0;
    for (at, value) in series.iter().enumerate() {
        let x = at as f64 - middle;
        spread += x * x;
        product += x * (value - level);
    }
    let slope = product / spread;
    let residuals: Vec<f64> = series
        .iter()
        .enumerate()
        .map(|(at, value)| value - level - slope * (at as f64 - middle))
        .collect();
    let correlation = correlation(&residuals, 2.0);
    let inflation = (1.0 + correlation) / (1.0 - correlation);
    // Independent intervals that would tell as much.
    let effective = count / inflation;
    let freedom = (effective - 2.0).max(1.0);
    let variance = residuals.iter().map(|r| r * r).sum::<f64>() / (count - 2.0);
    let error = (variance * inflation / spread).sqrt();
    let reach = t_quantile(0.975, freedom) * error;
    let percent = |slope: f64| 100.0 * slope * count / level;
    Drift {
        percent_per_minute: 100.0 * slope / interval_s * 60.0 / level,
        percent: percent(slope),
        percent_low: percent(slope - reach),
        percent_high: percent(slope + reach),
    }
}

/// Correlation of neighbours, at least 0. The raw estimate is too low by about `(k + 3r) / n` after
/// `k` fitted parameters (Kendall 1954, Marriott and Pope 1954); that is put right. Negative
/// correlation (a stall every few intervals) is not used: it would narrow the interval.
fn correlation(residuals: &[f64], fitted: f64) -> f64 {
    let count = residuals.len() as f64;
    let power: f64 = residuals.iter().map(|r| r * r).sum();
    if power <= 0.0 {
        return 0.0;
    }
    let lagged: f64 = residuals.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let raw = lagged / power;
    (raw + (fitted + 3.0 * raw) / count).clamp(0.0, 0.95)
}

fn centred(series: &[f64]) -> Vec<f64> {
    let level = mean(series);
    series.iter().map(|value| value - level).collect()
}

fn squares(series: &[f64]) -> f64 {
    let level = mean(series);
    series.iter().map(|value| (value - level).powi(2)).sum()
}

fn mean(series: &[f64]) -> f64 {
    series.iter().sum::<f64>() / series.len() as f64
}
