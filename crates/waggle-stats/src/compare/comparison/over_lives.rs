//! Arms that last a whole server life: lives that alternate, or independent pairs of lives.
//!
//! Where lives can alternate, [`compare_lives`] takes the machine's drift out; pairs keep it.

use super::{Comparison, Marks, Parts, Unit};
use crate::compare::alternation::alternation_estimate;
use crate::compare::blocks::{BlockPair, life_mean, life_value};
use crate::compare::chain::Scale;
use crate::compare::interval::CompareError;
use crate::compare::primary::mean_over;
use crate::compare::sample::{autocorrelation, mean, mean_variance};
use crate::compare::window::{BASE_ARM, Outcome, Window};

/// Compares `arm` with `none` where an arm lasts a whole server life and lives alternate:
/// `off on off on off`, each one a single measurement (the trimmed mean of its windows). Drift from
/// life to life is taken out by [`alternation_estimate`].
///
/// Lives of other arms, and lives without a window that can be used, end an alternating run. A life
/// belongs to the arm of its first window.
///
/// # Errors
/// Too few alternating lives, see [`alternation_estimate`].
pub fn compare_lives(
    windows: &[Window],
    arm: usize,
    outcome: Outcome,
) -> Result<Comparison, CompareError> {
    let lives: Vec<&[Window]> = windows.chunk_by(|one, two| one.life == two.life).collect();
    let of_life = |life: &[Window], value: Option<f64>| {
        let usable = life[0].arm == arm || life[0].arm == BASE_ARM;
        (
            value.filter(|_| usable).unwrap_or(f64::NAN),
            life[0].arm == arm,
        )
    };
    let by = |value: &dyn Fn(&[Window]) -> Option<f64>| -> Vec<(f64, bool)> {
        lives
            .iter()
            .map(|life| of_life(life, value(life)))
            .collect()
    };
    let log = by(&|life| life_value(life, outcome, Scale::Log));
    let plain = by(&|life| life_value(life, outcome, Scale::Plain));
    let all = by(&|life| life_mean(life, outcome, Scale::Log));
    let base: Vec<f64> = log
        .iter()
        .filter(|(value, on)| !on && !value.is_nan())
        .map(|l| l.0)
        .collect();
    let log_ratio = alternation_estimate(&log)?;
    let measured = |on: bool| {
        log.iter()
            .filter(|life| life.1 == on && !life.0.is_nan())
            .count()
    };
    let marks = Marks {
        windows_arm: measured(true),
        windows_base: measured(false),
        ..Marks::default()
    };
    Ok(Parts {
        log_ratio,
        variance_factor: 1.0,
        autocorrelation: 0.0,
        base_log: mean_variance(&base).0,
        plain: alternation_estimate(&plain)?,
        all: alternation_estimate(&all)?,
        bootstrap: None,
        robust: None,
        levels: None,
        marks,
    }
    .into_comparison(arm, outcome, Unit::Lives))
}

/// Compares over independent pairs of server lives, `none` and arm next to each other, their order
/// drawn by lot: mean of the pairs' log-ratios with a t interval over pairs.
///
/// Drift from one life of a pair to the other stays in; where lives can alternate,
/// [`compare_lives`] is several times sharper on a drifting machine.
///
/// # Errors
/// Fewer than [`DIFFERENCES_MIN`](crate::compare::DIFFERENCES_MIN) pairs with a value on both
/// sides.
pub fn compare_blocks(
    pairs: &[BlockPair],
    arm: usize,
    outcome: Outcome,
) -> Result<Comparison, CompareError> {
    let by = |value: &dyn Fn(&[Window]) -> Option<f64>| -> (Vec<f64>, Vec<f64>) {
        let both = |pair: &BlockPair| Some((value(&pair.base)?, value(&pair.arm)?));
        pairs
            .iter()
            .filter_map(both)
            .map(|(base, arm)| (base, arm - base))
            .unzip()
    };
    let (base, log) = by(&|life| life_value(life, outcome, Scale::Log));
    let (_, plain) = by(&|life| life_value(life, outcome, Scale::Plain));
    let (_, all) = by(&|life| life_mean(life, outcome, Scale::Log));
    let (windows_arm, windows_base) = (log.len(), log.len());
    let marks = Marks {
        windows_arm,
        windows_base,
        ..Marks::default()
    };
    Ok(Parts {
        log_ratio: mean_over(&log, "pairs of server lives")?,
        variance_factor: 1.0,
        autocorrelation: autocorrelation(&log, 1),
        base_log: mean_variance(&base).0,
        plain: mean(&plain)?,
        all: mean(&all)?,
        bootstrap: None,
        robust: None,
        levels: None,
        marks,
    }
    .into_comparison(arm, outcome, Unit::Lives))
}
