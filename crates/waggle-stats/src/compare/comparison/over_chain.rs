//! Arms that are switched while a server lives: windows in a chain `none X none Y none`.
//!
//! With windows as the unit all differences are one sample; with lives as the unit (arms nested in
//! lives, some of which have settings of their own) each life is estimated by itself and
//! [`super::super::nested`] puts both levels into the interval.

use super::{BOOTSTRAP_FROM, CompareSettings, Comparison, Levels, Marks, Parts, Unit};
use crate::compare::bootstrap::{BootstrapSettings, bootstrap_interval};
use crate::compare::chain::{
    Link, Scale, chain_links, difference, shared_neighbour_factor, values_of,
};
use crate::compare::disturbance::mark_disturbed;
use crate::compare::interval::{CONFIDENCE, CompareError, Estimate};
use crate::compare::nested::{Nested, nested_estimate};
use crate::compare::primary::{DIFFERENCES_MIN, primary_estimate, trim_for};
use crate::compare::sample::{autocorrelation, hodges_lehmann, mean, mean_variance};
use crate::compare::window::{BASE_ARM, Outcome, Window};

/// Largest sample for the Hodges-Lehmann check, whose work grows with the square.
const HODGES_LEHMANN_MAX: usize = 2_000;

/// Compares `arm` with `none` over a chain of windows in time order.
///
/// # Errors
/// Fewer than [`DIFFERENCES_MIN`] differences (with [`Unit::Lives`]: lives with that many) are
/// usable.
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
            levels: None,
            marks,
        })
    }

    /// The life is the unit: its own estimate from its windows, then the mean over lives.
    fn parts_of_lives(
        &self,
        links: &[Link],
        all: &[Link],
        base: &[f64],
        marks: Marks,
    ) -> Result<Parts, CompareError> {
        let primary = |values: &[f64], links: &[Link]| {
            let shared = shared_neighbour_factor(links);
            primary_estimate(values, shared).map(|(estimate, _)| estimate)
        };
        let log = self.by_life(&self.log, links, primary);
        let nested = over_lives(&log)?;
        let values: Vec<f64> = log.iter().map(|life| life.value).collect();
        let plain = over_lives(&self.by_life(&self.plain, links, primary))?;
        let all = over_lives(&self.by_life(&self.log, all, |values, _| mean(values)))?;
        Ok(Parts {
            log_ratio: nested.estimate,
            variance_factor: 1.0,
            autocorrelation: autocorrelation(&values, 1),
            base_log: mean_variance(base).0,
            plain: plain.estimate,
            all: all.estimate,
            bootstrap: None,
            robust: None,
            levels: Some(Levels {
                lives: log.len(),
                between_sd: nested.between_sd,
                within_se: nested.within_se,
            }),
            marks,
        })
    }

    /// What each life says by itself, where it has windows enough to say it.
    fn by_life(
        &self,
        values: &[f64],
        links: &[Link],
        estimate: impl Fn(&[f64], &[Link]) -> Result<Estimate, CompareError>,
    ) -> Vec<Estimate> {
        let same_life =
            |one: &Link, two: &Link| self.windows[one.window].life == self.windows[two.window].life;
        links
            .chunk_by(same_life)
            .filter_map(|links| estimate(&taken(values, links), links).ok())
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

/// At least as many lives as there must be differences.
fn over_lives(lives: &[Estimate]) -> Result<Nested, CompareError> {
    if lives.len() < DIFFERENCES_MIN {
        return Err(CompareError::TooFew {
            what: "server lives with three windows of the arm or more",
            needed: DIFFERENCES_MIN,
            found: lives.len(),
        });
    }
    nested_estimate(lives)
}
