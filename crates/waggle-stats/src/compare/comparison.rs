//! What does an arm cost, in one outcome, with everything a report must say about it?
//!
//! Data flow: windows, disturbed ones set aside ([`super::disturbance`]), differences against the
//! neighbours ([`super::chain`]), one estimate, then the checks beside it. The estimate is always
//! the same one (see [`crate::compare`] for why); no check ever replaces it.

use serde::Serialize;

use super::alternation::alternation_estimate;
use super::blocks::{BlockPair, life_mean, life_value};
use super::bootstrap::{BootstrapSettings, RESAMPLES, bootstrap_interval};
use super::chain::{Link, Scale, chain_links, difference, shared_neighbour_factor, values_of};
use super::disturbance::mark_disturbed;
use super::interval::{CONFIDENCE, CompareError, Estimate, Interval, intervals_agree};
use super::primary::{mean_over, primary_estimate, trim_for};
use super::sample::{autocorrelation, hodges_lehmann, mean, mean_variance, trimmed_mean};
use super::window::{BASE_ARM, Outcome, Window};
use crate::distribution::hypergeometric_upper_tail;

/// From this many differences on there is a bootstrap; below, it says less than the t interval.
pub const BOOTSTRAP_FROM: usize = 20;

/// Largest sample for the Hodges-Lehmann check, whose work grows with the square.
const HODGES_LEHMANN_MAX: usize = 2_000;

/// Chance of the marks falling as unevenly as this on the arm, below which they are its doing.
const BURSTS_P: f64 = 0.01;

/// What one measurement is, and so what a result can be generalised to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Windows: the interval speaks of the server lives that were measured.
    #[default]
    Windows,
    /// Lives: the interval speaks of any life of such a server; needs several.
    Lives,
}

/// How to compare.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompareSettings {
    /// What one measurement is.
    pub unit: Unit,
    /// Seed of the bootstrap.
    pub seed: u64,
    /// Resamples of the bootstrap; [`RESAMPLES`] in reports, 0 leaves the bootstrap out (while a
    /// run goes on and only widths are asked for).
    pub resamples: usize,
}

impl Default for CompareSettings {
    fn default() -> Self {
        Self {
            unit: Unit::Windows,
            seed: 1,
            resamples: RESAMPLES,
        }
    }
}

/// An arm against `none` in one outcome. Intervals are at 95%.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The arm.
    pub arm: usize,
    /// The outcome.
    pub outcome: Outcome,
    /// What one measurement is.
    pub unit: Unit,
    /// Typical value under `none` beside the arm's windows, in the outcome's unit (geometric mean).
    pub base: f64,
    /// Primary result: the outcome under the arm over that under `none`.
    pub ratio: Interval,
    /// The same in the outcome's unit: `base * (ratio - 1)`. Agrees with `ratio` on the sign.
    pub delta: Interval,
    /// The primary result by bootstrap; `None` when left out, over lives, and below
    /// [`BOOTSTRAP_FROM`] differences.
    pub ratio_bootstrap: Option<Interval>,
    /// Whether t interval and bootstrap tell the same story; `None` when there is no bootstrap.
    pub agree: Option<bool>,
    /// Plain mean of all log-ratios, disturbed windows included: what the arm cost with the bursts.
    pub ratio_all_windows: Interval,
    /// Robust check: Hodges-Lehmann median of the undisturbed log-ratios; `None` over lives.
    pub ratio_hodges_lehmann: Option<Interval>,
    /// Mean difference taken in the outcome's unit, not by way of the ratio.
    pub difference: Interval,
    /// The primary estimate as a log-ratio, for tests and power.
    pub log_ratio: Estimate,
    /// Two-sided p-value of "no difference".
    pub p_value: f64,
    /// Lag-1 autocorrelation of the differences.
    pub autocorrelation: f64,
    /// What shared neighbours and autocorrelation multiply the variance of the mean by.
    pub variance_factor: f64,
    /// Windows of the arm that were set aside as disturbed, out of `windows_arm`.
    pub disturbed_arm: usize,
    /// Windows of the arm that were measured.
    pub windows_arm: usize,
    /// Windows of `none` that were set aside, out of `windows_base`.
    pub disturbed_base: usize,
    /// Windows of `none` that were measured.
    pub windows_base: usize,
    /// True when the arm has more disturbed windows than chance allows (1%): then they are part of
    /// what it does, and `ratio_all_windows` is the figure to quote.
    pub bursts: bool,
    /// Change of `none` from before the arm's window to after it, as a ratio: 1 unless the arm
    /// leaves something behind.
    pub carry_over: Option<Interval>,
}

/// Compares `arm` with `none` over a chain of windows in time order.
///
/// # Errors
/// Fewer than [`super::DIFFERENCES_MIN`] differences (with [`Unit::Lives`]: lives) are usable.
pub fn compare_chain(
    windows: &[Window],
    arm: usize,
    outcome: Outcome,
    settings: &CompareSettings,
) -> Result<Comparison, CompareError> {
    let chain = Chain {
        windows,
        log: values_of(windows, outcome, Scale::Log),
        plain: values_of(windows, outcome, Scale::Plain),
    };
    chain.compare(arm, outcome, settings)
}

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
/// Fewer than [`super::DIFFERENCES_MIN`] pairs with a value on both sides.
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
        marks,
    }
    .into_comparison(arm, outcome, Unit::Lives))
}

struct Chain<'a> {
    windows: &'a [Window],
    log: Vec<f64>,
    plain: Vec<f64>,
}

impl Chain<'_> {
    fn compare(
        &self,
        arm: usize,
        outcome: Outcome,
        settings: &CompareSettings,
    ) -> Result<Comparison, CompareError> {
        let disturbed = mark_disturbed(self.windows, &self.log);
        let kept: Vec<f64> = (self.log.iter().zip(&disturbed))
            .map(|(value, disturbed)| if *disturbed { f64::NAN } else { *value })
            .collect();
        let links = chain_links(self.windows, &kept, arm);
        let all = chain_links(self.windows, &self.log, arm);
        let base: Vec<f64> = links
            .iter()
            .map(|link| self.log[link.window] - difference(&self.log, link))
            .collect();
        let marks = self.marks(arm, &disturbed, &links);
        let parts = match settings.unit {
            Unit::Windows => self.parts_of_windows(&links, &all, settings, &base, marks)?,
            Unit::Lives => self.parts_of_lives(&links, &all, &base, marks)?,
        };
        Ok(parts.into_comparison(arm, outcome, settings.unit))
    }

    fn parts_of_windows(
        &self,
        links: &[Link],
        all: &[Link],
        settings: &CompareSettings,
        base: &[f64],
        marks: Marks,
    ) -> Result<Parts, CompareError> {
        let shared = shared_neighbour_factor(links);
        let log = taken(&self.log, links);
        let (log_ratio, variance_factor) = primary_estimate(&log, shared)?;
        let all = mean(&taken(&self.log, all))?;
        let standard_error = all.standard_error * variance_factor.sqrt();
        let bootstrap = BootstrapSettings {
            trim: trim_for(log.len()),
            variance_factor,
            resamples: settings.resamples,
            seed: settings.seed,
        };
        let wanted = settings.resamples > 0 && log.len() >= BOOTSTRAP_FROM;
        let robust = log.len() <= HODGES_LEHMANN_MAX;
        Ok(Parts {
            log_ratio,
            variance_factor,
            autocorrelation: autocorrelation(&log, 1),
            base_log: mean_variance(base).0,
            plain: primary_estimate(&taken(&self.plain, links), shared)?.0,
            all: Estimate {
                standard_error,
                ..all
            },
            bootstrap: wanted
                .then(|| bootstrap_interval(&log, CONFIDENCE, &bootstrap))
                .transpose()?,
            robust: robust
                .then(|| hodges_lehmann(&log, CONFIDENCE))
                .transpose()?,
            marks,
        })
    }

    fn parts_of_lives(
        &self,
        links: &[Link],
        all: &[Link],
        base: &[f64],
        marks: Marks,
    ) -> Result<Parts, CompareError> {
        let over = |values: &[f64], links: &[Link]| {
            mean_over(
                &self.by_life(values, links),
                "server lives with windows of the arm",
            )
        };
        let log = self.by_life(&self.log, links);
        Ok(Parts {
            log_ratio: over(&self.log, links)?,
            variance_factor: 1.0,
            autocorrelation: autocorrelation(&log, 1),
            base_log: mean_variance(base).0,
            plain: over(&self.plain, links)?,
            all: over(&self.log, all)?,
            bootstrap: None,
            robust: None,
            marks,
        })
    }

    /// The typical difference of every life.
    fn by_life(&self, values: &[f64], links: &[Link]) -> Vec<f64> {
        let same_life =
            |one: &Link, two: &Link| self.windows[one.window].life == self.windows[two.window].life;
        links
            .chunk_by(same_life)
            .map(|links| {
                let values = taken(values, links);
                let typical = trimmed_mean(&values, trim_for(values.len()));
                typical.map_or(values[0], |typical| typical.value)
            })
            .collect()
    }

    fn marks(&self, arm: usize, disturbed: &[bool], links: &[Link]) -> Marks {
        let count = |wanted: usize| {
            let of_arm = || (0..self.windows.len()).filter(|&i| self.windows[i].arm == wanted);
            let measured = of_arm().filter(|&i| !self.log[i].is_nan()).count();
            (of_arm().filter(|&i| disturbed[i]).count(), measured)
        };
        let (disturbed_arm, windows_arm) = count(arm);
        let (disturbed_base, windows_base) = count(BASE_ARM);
        let carry: Vec<f64> = links
            .iter()
            .map(|link| self.log[link.right] - self.log[link.left])
            .collect();
        let carry_over = primary_estimate(&carry, 1.0)
            .ok()
            .map(|(estimate, _)| estimate);
        Marks {
            disturbed_arm,
            windows_arm,
            disturbed_base,
            windows_base,
            carry_over,
        }
    }
}

fn taken(values: &[f64], links: &[Link]) -> Vec<f64> {
    links.iter().map(|link| difference(values, link)).collect()
}

#[derive(Default)]
struct Marks {
    disturbed_arm: usize,
    windows_arm: usize,
    disturbed_base: usize,
    windows_base: usize,
    carry_over: Option<Estimate>,
}

impl Marks {
    /// Whether the arm has more marks than a rule blind to arms would give it by chance.
    fn are_bursts(&self) -> bool {
        let marked = (self.disturbed_arm + self.disturbed_base) as u64;
        let chance = hypergeometric_upper_tail(
            self.disturbed_arm as u64,
            self.windows_arm as u64,
            marked,
            (self.windows_arm + self.windows_base) as u64,
        );
        marked > 0 && chance < BURSTS_P
    }
}

/// What a comparison is put together from; all on the logarithmic scale but `plain`.
struct Parts {
    log_ratio: Estimate,
    variance_factor: f64,
    autocorrelation: f64,
    base_log: f64,
    plain: Estimate,
    all: Estimate,
    bootstrap: Option<Interval>,
    robust: Option<Interval>,
    marks: Marks,
}

impl Parts {
    fn into_comparison(self, arm: usize, outcome: Outcome, unit: Unit) -> Comparison {
        let base = self.base_log.exp();
        let log_interval = self.log_ratio.interval(CONFIDENCE);
        let ratio = log_interval.map(f64::exp);
        let exp = |interval: Interval| interval.map(f64::exp);
        Comparison {
            arm,
            outcome,
            unit,
            base,
            ratio,
            delta: ratio.map(|ratio| base * (ratio - 1.0)),
            ratio_bootstrap: self.bootstrap.map(exp),
            agree: self
                .bootstrap
                .map(|other| intervals_agree(&log_interval, &other, 0.0)),
            ratio_all_windows: exp(self.all.interval(CONFIDENCE)),
            ratio_hodges_lehmann: self.robust.map(exp),
            difference: self.plain.interval(CONFIDENCE),
            log_ratio: self.log_ratio,
            p_value: self.log_ratio.p_value(0.0),
            autocorrelation: self.autocorrelation,
            variance_factor: self.variance_factor,
            disturbed_arm: self.marks.disturbed_arm,
            windows_arm: self.marks.windows_arm,
            disturbed_base: self.marks.disturbed_base,
            windows_base: self.marks.windows_base,
            bursts: self.marks.are_bursts(),
            carry_over: self
                .marks
                .carry_over
                .map(|carry| exp(carry.interval(CONFIDENCE))),
        }
    }
}

#[cfg(test)]
mod tests;
