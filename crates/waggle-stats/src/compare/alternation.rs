//! What does an arm cost that lasts a whole server life, when lives alternate: off, on, off, on?
//!
//! Lives are long (seconds, and a restart between them), so the machine's drift is not straight
//! over three of them and comparing with two neighbours leaves most of it in. Strict alternation
//! has a better handle: the effect flips sign at every life, drift does not. Repeated differencing
//! keeps what flips and shrinks what is slow: the contrast of five lives `(1 -4 6 -4 1) / 8`, signs
//! turned so that the arm counts as plus, has gain 1 for the effect and `(2 sin(w/2))^4 / 8` for
//! a drift of `w` radians a life: a drift with a period of seven lives is left at 1/12, where the
//! comparison with two neighbours leaves 2/5.
//!
//! The contrasts overlap. Their mean is a weighted sum of lives, so its variance, for lives of
//! independent noise, is that noise times the sum of squared weights; the noise is estimated from
//! the spread of the contrasts, with the degrees of freedom of that quadratic form (Satterthwaite).
//! Both follow exactly from the weights.

use super::interval::{CompareError, Estimate};
use super::sample::mean_variance;

/// Fewest lives for which there is an estimate.
pub const LIVES_MIN: usize = 5;

/// From this many lives in one alternating run on, contrasts are of five lives, below of three.
const FIVE_FROM: usize = 7;

const CONTRASTS_MIN: usize = 3;

/// The effect of the arm over lives in time order: `value` of each (on any scale), and whether the
/// arm was on. A life without a value (NaN), or two of the same kind in a row, end a run; contrasts
/// are taken within runs.
///
/// # Errors
/// Too few lives in alternating runs for three contrasts.
pub fn alternation_estimate(lives: &[(f64, bool)]) -> Result<Estimate, CompareError> {
    let runs = alternating_runs(lives);
    let longest = runs.iter().map(Vec::len).max().unwrap_or(0);
    let weights: &[f64] = if longest >= FIVE_FROM {
        &[0.125, -0.5, 0.75, -0.5, 0.125]
    } else {
        &[-0.5, 1.0, -0.5]
    };
    let contrasts: Vec<Vec<(usize, f64)>> = runs
        .iter()
        .flat_map(|run| run.windows(weights.len()))
        .map(|span| {
            let sign = if lives[span[weights.len() / 2]].1 {
                1.0
            } else {
                -1.0
            };
            span.iter()
                .zip(weights)
                .map(|(&life, weight)| (life, sign * weight))
                .collect()
        })
        .collect();
    if contrasts.len() < CONTRASTS_MIN {
        let found = runs.iter().map(Vec::len).sum();
        let what = "server lives that alternate between `none` and the arm";
        return Err(CompareError::TooFew {
            what,
            needed: LIVES_MIN,
            found,
        });
    }
    Ok(mean_contrast(lives, &contrasts))
}

/// Mean of the contrasts, with noise and degrees of freedom from their quadratic form.
fn mean_contrast(lives: &[(f64, bool)], contrasts: &[Vec<(usize, f64)>]) -> Estimate {
    let n = contrasts.len();
    let values: Vec<f64> = contrasts
        .iter()
        .map(|contrast| {
            contrast
                .iter()
                .map(|(life, weight)| weight * lives[*life].0)
                .sum()
        })
        .collect();
    let (value, variance) = mean_variance(&values);
    let squares = variance * (n as f64 - 1.0);

    // Centred weights: what the spread of the contrasts sees of each life.
    let mut rows = vec![vec![0.0; lives.len()]; n];
    for (row, contrast) in rows.iter_mut().zip(contrasts) {
        for (life, weight) in contrast {
            row[*life] = *weight;
        }
    }
    let total: Vec<f64> = (0..lives.len())
        .map(|life| rows.iter().map(|row| row[life]).sum::<f64>() / n as f64)
        .collect();
    for row in &mut rows {
        for (weight, mean) in row.iter_mut().zip(&total) {
            *weight -= mean;
        }
    }
    let product = |one: &[f64], two: &[f64]| one.iter().zip(two).map(|(a, b)| a * b).sum::<f64>();
    let trace: f64 = rows.iter().map(|row| product(row, row)).sum();
    let trace_of_square: f64 = rows
        .iter()
        .flat_map(|one| rows.iter().map(|two| product(one, two).powi(2)))
        .sum();
    let noise = squares / trace;
    Estimate {
        value,
        standard_error: (noise * product(&total, &total)).sqrt(),
        df: trace * trace / trace_of_square,
        n: total.iter().filter(|weight| **weight != 0.0).count(),
    }
}

/// Positions of lives that alternate, run by run.
fn alternating_runs(lives: &[(f64, bool)]) -> Vec<Vec<usize>> {
    let mut runs: Vec<Vec<usize>> = vec![Vec::new()];
    let mut last = None;
    for (position, &(value, on)) in lives.iter().enumerate() {
        if value.is_nan() || last == Some(on) {
            runs.push(Vec::new());
        }
        last = None;
        if let (false, Some(run)) = (value.is_nan(), runs.last_mut()) {
            run.push(position);
            last = Some(on);
        }
    }
    runs
}

#[cfg(test)]
mod tests;
