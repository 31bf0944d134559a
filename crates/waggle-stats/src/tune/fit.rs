//! What is a configuration's own effect, when the machine drifted while it was measured?
//!
//! Least squares of `value = effect of the configuration + drift(time)`, the drift piecewise linear
//! with a knot at the end of each round (at the end of several, where rounds are short). The
//! anchor's effect is 0, so an effect is a difference from the anchor.
//!
//! Blocks of one configuration may vary more than those of the others (one that stalls): where an
//! F test at 1% says so, their variance is their own. Before there are enough blocks for the test,
//! it is the larger of the two.
//!
//! Invariant: differences do not depend on the level or the slope of the drift.

use crate::compare::{CompareError, Estimate};
use crate::distribution::f_upper_tail;

/// Blocks between two knots of the drift, at least.
const KNOT_BLOCKS: usize = 4;
/// Blocks of a configuration before its variance may be its own.
const OWN_FROM: usize = 4;
/// Level of the test for that.
const OWN_LEVEL: f64 = 0.01;
/// A pivot below this share of the largest diagonal is no information.
const PIVOT_MIN: f64 = 1e-9;

/// One measured value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The configuration's number.
    pub config: usize,
    /// The round it was measured in.
    pub round: usize,
    /// When, in seconds from any zero.
    pub at_s: f64,
    /// The value, on the scale where effects add up.
    pub value: f64,
}

/// The effects of all configurations that were measured.
#[derive(Clone, Debug)]
pub struct Fit {
    /// Rows of the design: column and weight.
    rows: Vec<Vec<(usize, f64)>>,
    /// By row: the variance of its block.
    variances: Vec<f64>,
    /// By configuration: its column, if it is not the anchor and was measured.
    columns: Vec<Option<usize>>,
    anchor: usize,
    counts: Vec<usize>,
    /// By column.
    solution: Vec<f64>,
    factor: Factor,
    df: f64,
}

impl Fit {
    /// Fits `configs` configurations, numbered from 0.
    ///
    /// # Errors
    /// A value that is not finite, no block of the anchor, or fewer blocks than there are effects
    /// and knots.
    pub fn new(points: &[Point], configs: usize, anchor: usize) -> Result<Self, CompareError> {
        if let Some(position) = points
            .iter()
            .position(|p| !(p.value.is_finite() && p.at_s.is_finite() && p.config < configs))
        {
            let what = "blocks";
            return Err(CompareError::NotFinite { what, position });
        }
        let mut counts = vec![0; configs];
        for point in points {
            counts[point.config] += 1;
        }
        if counts.get(anchor).copied().unwrap_or(0) == 0 {
            return Err(too_few("blocks of the present configuration", 1, 0));
        }
        let mut points = points.to_vec();
        points.sort_by(|one, two| one.at_s.total_cmp(&two.at_s));
        let mut columns = vec![None; configs];
        let mut effects = 0;
        for (config, count) in counts.iter().enumerate() {
            if config != anchor && *count > 0 {
                columns[config] = Some(effects);
                effects += 1;
            }
        }
        let mut knots = knots(&points);
        loop {
            let parameters = effects + knots.len();
            if points.len() < parameters + 2 && knots.len() == 1 {
                return Err(too_few("blocks", parameters + 2, points.len()));
            }
            if points.len() >= parameters + 2 {
                let rows = rows(&points, &columns, effects, &knots);
                if let Some(factor) = Factor::new(&rows, parameters) {
                    let shape = (columns, counts, anchor);
                    return Ok(Self::solved(&points, rows, factor, shape));
                }
                if knots.len() == 1 {
                    return Err(too_few("blocks", parameters + 2, points.len()));
                }
            }
            // Fewer knots: every other one, at last a drift that is a line, then none.
            knots = match knots.len() {
                0..=2 => vec![knots[0]],
                n => (0..n)
                    .filter(|at| at % 2 == 0 || at + 1 == n)
                    .map(|at| knots[at])
                    .collect(),
            };
        }
    }

    fn solved(
        points: &[Point],
        rows: Vec<Vec<(usize, f64)>>,
        factor: Factor,
        (columns, counts, anchor): (Vec<Option<usize>>, Vec<usize>, usize),
    ) -> Self {
        let mut right = vec![0.0; factor.size];
        for (row, point) in rows.iter().zip(points) {
            for (column, weight) in row {
                right[*column] += weight * point.value;
            }
        }
        let solution = factor.solve(&right);
        let df = (points.len() - factor.size) as f64;
        let mut squares = 0.0;
        let mut own = vec![0.0; counts.len()];
        for (row, point) in rows.iter().zip(points) {
            let fitted: f64 = row.iter().map(|(column, w)| w * solution[*column]).sum();
            let residual = point.value - fitted;
            let leverage = factor.leverage(row).min(0.99);
            squares += residual * residual;
            own[point.config] += residual * residual / (1.0 - leverage);
        }
        let pooled = squares / df;
        let variance = |config: usize| {
            let n = counts[config];
            if pooled <= 0.0 {
                return pooled;
            }
            let own = own[config] / n as f64;
            if n < OWN_FROM {
                return pooled.max(own);
            }
            let odds = f_upper_tail(own / pooled, (n - 1) as f64, df);
            if odds < OWN_LEVEL { own } else { pooled }
        };
        let variances = points.iter().map(|point| variance(point.config)).collect();
        Self {
            rows,
            variances,
            columns,
            anchor,
            counts,
            solution,
            factor,
            df,
        }
    }

    /// How much more `one` is than `other`; `None` when one of them was not measured.
    pub fn difference(&self, one: usize, other: usize) -> Option<Estimate> {
        if !self.has(one) || !self.has(other) {
            return None;
        }
        let mut contrast = vec![0.0; self.factor.size];
        if let Some(column) = self.columns[one] {
            contrast[column] += 1.0;
        }
        if let Some(column) = self.columns[other] {
            contrast[column] -= 1.0;
        }
        let n = self.counts[one].min(self.counts[other]);
        Some(self.estimate(&contrast, n))
    }

    /// What a configuration comes to at the mean of the drift; `None` when it was not measured.
    pub fn level(&self, config: usize) -> Option<Estimate> {
        if !self.has(config) {
            return None;
        }
        let effects = self.columns.iter().flatten().count();
        let mut contrast = vec![0.0; self.factor.size];
        for (column, weight) in self.rows.iter().flatten() {
            if *column >= effects {
                contrast[*column] += weight / self.rows.len() as f64;
            }
        }
        if let Some(column) = self.columns[config] {
            contrast[column] = 1.0;
        }
        Some(self.estimate(&contrast, self.counts[config]))
    }

    /// Standard deviation of a block around the fit, on the scale of the values.
    pub fn noise(&self) -> f64 {
        let plain = self.variances.iter().copied().fold(f64::INFINITY, f64::min);
        plain.max(0.0).sqrt()
    }

    fn has(&self, config: usize) -> bool {
        self.counts.get(config).is_some_and(|count| *count > 0)
            && (config == self.anchor || self.columns[config].is_some())
    }

    /// The estimate of a sum of parameters: its weights on the blocks give its variance.
    fn estimate(&self, contrast: &[f64], n: usize) -> Estimate {
        let solved = self.factor.solve(contrast);
        let value = contrast
            .iter()
            .zip(&self.solution)
            .map(|(c, s)| c * s)
            .sum();
        let of_row = |(row, variance): (&Vec<(usize, f64)>, &f64)| {
            let weight: f64 = row.iter().map(|(column, w)| w * solved[*column]).sum();
            weight * weight * variance
        };
        let variance: f64 = self.rows.iter().zip(&self.variances).map(of_row).sum();
        Estimate {
            value,
            standard_error: variance.sqrt(),
            df: self.df,
            n,
        }
    }
}

fn too_few(what: &'static str, needed: usize, found: usize) -> CompareError {
    CompareError::TooFew {
        what,
        needed,
        found,
    }
}

/// Times of the knots; points are in the order of time, and there is at least one.
fn knots(points: &[Point]) -> Vec<f64> {
    let (first, last) = (points[0], points[points.len() - 1]);
    let mut knots = vec![first.at_s];
    let mut since = 0;
    for (place, pair) in points.windows(2).enumerate() {
        since += 1;
        let left = points.len() - 1 - place;
        if pair[0].round != pair[1].round && since >= KNOT_BLOCKS && left >= KNOT_BLOCKS {
            knots.push(0.5 * (pair[0].at_s + pair[1].at_s));
            since = 0;
        }
    }
    if last.at_s > knots[knots.len() - 1] {
        knots.push(last.at_s);
    }
    knots
}

fn rows(
    points: &[Point],
    columns: &[Option<usize>],
    effects: usize,
    knots: &[f64],
) -> Vec<Vec<(usize, f64)>> {
    let row = |point: &Point| {
        let mut row = Vec::with_capacity(3);
        if let Some(column) = columns[point.config] {
            row.push((column, 1.0));
        }
        let after = knots.partition_point(|knot| *knot <= point.at_s);
        match (after, knots.len()) {
            (0, _) | (_, 1) => row.push((effects, 1.0)),
            (after, n) if after >= n => row.push((effects + n - 1, 1.0)),
            (after, _) => {
                let (from, to) = (knots[after - 1], knots[after]);
                let share = (point.at_s - from) / (to - from);
                row.push((effects + after - 1, 1.0 - share));
                row.push((effects + after, share));
            }
        }
        row
    };
    points.iter().map(row).collect()
}

/// The lower triangle of the normal equations' Cholesky factor.
#[derive(Clone, Debug)]
struct Factor {
    size: usize,
    lower: Vec<f64>,
}

impl Factor {
    /// `None` when the rows do not tell all parameters apart.
    fn new(rows: &[Vec<(usize, f64)>], size: usize) -> Option<Self> {
        let mut lower = vec![0.0; size * size];
        for row in rows {
            for (one, weight) in row {
                for (other, second) in row {
                    lower[one * size + other] += weight * second;
                }
            }
        }
        let largest = (0..size)
            .map(|at| lower[at * size + at])
            .fold(0.0, f64::max);
        for column in 0..size {
            let before = |row: usize, lower: &[f64]| -> f64 {
                (0..column)
                    .map(|k| lower[row * size + k] * lower[column * size + k])
                    .sum()
            };
            let pivot = lower[column * size + column] - before(column, &lower);
            if pivot.is_nan() || pivot <= PIVOT_MIN * largest {
                return None;
            }
            let root = pivot.sqrt();
            lower[column * size + column] = root;
            for row in column + 1..size {
                let rest = lower[row * size + column] - before(row, &lower);
                lower[row * size + column] = rest / root;
            }
        }
        Some(Self { size, lower })
    }

    fn solve(&self, right: &[f64]) -> Vec<f64> {
        let (size, lower) = (self.size, &self.lower);
        let mut x = right.to_vec();
        for row in 0..size {
            let done: f64 = (0..row).map(|k| lower[row * size + k] * x[k]).sum();
            x[row] = (x[row] - done) / lower[row * size + row];
        }
        for row in (0..size).rev() {
            let done: f64 = (row + 1..size).map(|k| lower[k * size + row] * x[k]).sum();
            x[row] = (x[row] - done) / lower[row * size + row];
        }
        x
    }

    /// How much a row says about its own fitted value.
    fn leverage(&self, row: &[(usize, f64)]) -> f64 {
        let mut right = vec![0.0; self.size];
        for (column, weight) in row {
            right[*column] += weight;
        }
        let solved = self.solve(&right);
        row.iter()
            .map(|(column, weight)| weight * solved[*column])
            .sum()
    }
}

#[cfg(test)]
mod tests;
