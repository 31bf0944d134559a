//! What a tuning run says: a ranking, what is best, what is the same, and whether to change.
//!
//! Neighbour: `strategy` has the blocks. Invariant: a change is recommended only if its interval
//! against the present configuration excludes "no difference" and every guard held.

use serde::Serialize;

use super::fit::Fit;
use super::guard::{self, GuardStanding, GuardVerdict};
use super::strategy::{Life, Strategy, is_above_zero};
use crate::compare::{CONFIDENCE, Estimate, Interval, POWER, SIGNIFICANCE, equivalence_p};

/// Why a configuration got no more blocks.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhyDropped {
    /// Another was shown to be better.
    Behind {
        /// After so many rounds.
        round: usize,
        /// The one that is better.
        than: usize,
    },
    /// It could not be measured, in words.
    Failed(String),
}

/// A configuration that got no more blocks (the present one gets them to the end even so).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Dropped {
    /// The configuration's number.
    pub config: usize,
    /// Why.
    pub why: WhyDropped,
    /// Blocks it had.
    pub blocks: usize,
}

/// Where a configuration stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// The best estimate of those that may be best.
    Best,
    /// The same as the best within the margin (an equivalence test).
    Same,
    /// Not told apart from the best.
    NotToldApart,
    /// Shown to be worse than the best.
    Behind,
    /// It could not be measured (to the end).
    Failed,
    /// Too few blocks for an interval.
    Unknown,
}

/// A configuration in the ranking.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Standing {
    /// The configuration's number.
    pub config: usize,
    /// Where it stands.
    pub place: Place,
    /// Blocks behind it.
    pub blocks: usize,
    /// The objective at the mean of the drift, in its unit; 95% for all levels together.
    pub level: Option<Interval>,
    /// Ratio to the present configuration; 95% for all ratios together. `None` for the present one.
    pub ratio: Option<Interval>,
    /// Ratio to the best, likewise. `None` for the best.
    pub to_best: Option<Interval>,
    /// The smallest change, as a share, that would have been seen with 80% probability.
    pub smallest_detectable: Option<f64>,
    /// Its guards against the present configuration; none for the present one.
    pub guards: Vec<GuardStanding>,
}

/// What the run says about a change.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "answer")]
pub enum Answer {
    /// Change to this configuration.
    Change {
        /// Its number.
        config: usize,
    },
    /// The present configuration was shown to be better than all others.
    PresentIsBest,
    /// The best and the present one are the same within the margin.
    Same,
    /// No difference was seen between the best and the present one.
    NotToldApart,
    /// A better one was seen, and a guard got worse or was not read.
    GuardForbids {
        /// The number of the best of those.
        config: usize,
        /// The guard.
        guard: String,
    },
    /// Too little was measured.
    NotEnough,
}

/// What a tuning run says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// All configurations, the best first, those that failed last.
    pub ranking: Vec<Standing>,
    /// The best estimate of those that may be best.
    pub best: Option<usize>,
    /// Others that may be best: the true best is `best` or among them with 95% confidence.
    pub equal_to_best: Vec<usize>,
    /// What to change to.
    pub recommended: Option<usize>,
    /// What got no more blocks.
    pub dropped: Vec<Dropped>,
    /// The answer.
    pub answer: Answer,
    /// The smallest change from the present configuration to the best other one, as a share, that
    /// would have been seen with 80% probability.
    pub smallest_detectable: Option<f64>,
    /// Standard deviation of a block around the fit, as a share.
    pub noise: Option<f64>,
    /// Rounds begun.
    pub rounds: usize,
    /// Blocks measured.
    pub blocks: usize,
    /// Blocks that a sweep of as many rounds as were allowed would have taken.
    pub blocks_of_sweep: usize,
}

impl Strategy {
    /// What the blocks so far say. Any number of blocks will do.
    pub fn outcome(&self) -> Outcome {
        let fit = self.fit().ok();
        let contenders = fit.as_ref().map(|fit| self.contenders(fit));
        let contenders = contenders.unwrap_or_default();
        let ranking = self.ranking(fit.as_ref(), &contenders);
        let best = contenders.first().copied();
        let recommended = self.recommended(&ranking);
        let answer = self.answer(&ranking, &contenders, recommended);
        let anchor = self.settings.anchor;
        let other = ranking
            .iter()
            .find(|standing| standing.config != anchor && standing.smallest_detectable.is_some());
        Outcome {
            best,
            equal_to_best: contenders.iter().skip(1).copied().collect(),
            recommended,
            dropped: self.dropped(),
            answer,
            smallest_detectable: other.and_then(|standing| standing.smallest_detectable),
            noise: fit.as_ref().map(|fit| fit.noise().exp_m1()),
            rounds: self.rounds,
            blocks: self.blocks.len(),
            blocks_of_sweep: self.blocks_of_sweep(),
            ranking,
        }
    }

    fn others(&self) -> usize {
        self.lives.len().saturating_sub(1).max(1)
    }

    /// Back from the scale where more is better.
    fn natural(&self, interval: Interval) -> Interval {
        if self.settings.more_is_better {
            return interval.map(f64::exp);
        }
        Interval {
            estimate: (-interval.estimate).exp(),
            low: (-interval.high).exp(),
            high: (-interval.low).exp(),
            n: interval.n,
        }
    }

    fn ratio(&self, difference: &Estimate) -> Interval {
        let confidence = 1.0 - SIGNIFICANCE / self.others() as f64;
        self.natural(difference.interval(confidence))
    }

    fn ranking(&self, fit: Option<&Fit>, contenders: &[usize]) -> Vec<Standing> {
        let (configs, anchor) = (self.lives.len(), self.settings.anchor);
        let mut guards: Vec<Vec<GuardStanding>> = vec![Vec::new(); configs];
        for (at, guard) in self.settings.guards.iter().enumerate() {
            let all = guard::standings(guard, at, &self.blocks, configs, anchor);
            for (config, standing) in all.into_iter().enumerate() {
                if config != anchor {
                    guards[config].push(standing);
                }
            }
        }
        let mut ranking: Vec<(f64, Standing)> = guards
            .into_iter()
            .enumerate()
            .map(|(config, guards)| self.standing(config, fit, contenders, guards))
            .collect();
        ranking.sort_by(|one, two| two.0.total_cmp(&one.0));
        ranking.into_iter().map(|(_, standing)| standing).collect()
    }

    /// A configuration's standing, and what it is ranked by.
    fn standing(
        &self,
        config: usize,
        fit: Option<&Fit>,
        contenders: &[usize],
        guards: Vec<GuardStanding>,
    ) -> (f64, Standing) {
        let anchor = self.settings.anchor;
        let against = |other: usize| {
            let difference = fit.and_then(|fit| fit.difference(config, other));
            difference.filter(|_| config != other)
        };
        let from_present = against(anchor);
        let from_best = contenders.first().and_then(|best| against(*best));
        let confidence = 1.0 - (1.0 - CONFIDENCE) / self.lives.len() as f64;
        let level = fit
            .and_then(|fit| fit.level(config))
            .map(|level| self.natural(level.interval(confidence)));
        let is_same = |d: &Estimate| equivalence_p(d, self.settings.margin) < SIGNIFICANCE;
        let place = match (&self.lives[config], &level) {
            (Life::Failed(_), _) => Place::Failed,
            (_, None) => Place::Unknown,
            _ if contenders.first() == Some(&config) => Place::Best,
            _ if !contenders.contains(&config) => Place::Behind,
            _ if from_best.as_ref().is_some_and(is_same) => Place::Same,
            _ => Place::NotToldApart,
        };
        let value = match (place, &from_present) {
            (Place::Failed, _) => f64::NEG_INFINITY,
            (Place::Unknown, _) => f64::MIN,
            (_, Some(difference)) => difference.value,
            (_, None) => 0.0,
        };
        let smallest = |difference: &Estimate| {
            let smallest = difference.smallest_detectable_of(self.others(), POWER);
            smallest.exp_m1()
        };
        let standing = Standing {
            config,
            place,
            blocks: self.blocks.iter().filter(|b| b.config == config).count(),
            level,
            ratio: from_present.as_ref().map(|d| self.ratio(d)),
            to_best: from_best.as_ref().map(|d| self.ratio(d)),
            smallest_detectable: from_present.as_ref().map(smallest),
            guards,
        };
        (value, standing)
    }

    /// Whether the interval against the present configuration says that this one is better.
    fn is_better(&self, standing: &Standing) -> bool {
        let Some(ratio) = standing.ratio else {
            return false;
        };
        let live = !matches!(standing.place, Place::Failed | Place::Unknown);
        let better = if self.settings.more_is_better {
            ratio.low > 1.0
        } else {
            ratio.high < 1.0
        };
        live && better
    }

    fn recommended(&self, ranking: &[Standing]) -> Option<usize> {
        let held = |guard: &GuardStanding| guard.verdict == GuardVerdict::Held;
        let fit = ranking
            .iter()
            .find(|standing| self.is_better(standing) && standing.guards.iter().all(held));
        fit.map(|standing| standing.config)
    }

    fn answer(
        &self,
        ranking: &[Standing],
        contenders: &[usize],
        recommended: Option<usize>,
    ) -> Answer {
        if let Some(config) = recommended {
            return Answer::Change { config };
        }
        if let Some(standing) = ranking.iter().find(|standing| self.is_better(standing)) {
            let broken = standing
                .guards
                .iter()
                .find(|guard| guard.verdict != GuardVerdict::Held);
            return Answer::GuardForbids {
                config: standing.config,
                guard: broken.map(|guard| guard.name.clone()).unwrap_or_default(),
            };
        }
        let anchor = self.settings.anchor;
        let others_measured = ranking
            .iter()
            .any(|standing| standing.config != anchor && standing.ratio.is_some());
        match contenders {
            _ if !others_measured => Answer::NotEnough,
            [] => Answer::NotEnough,
            [only] if *only == anchor => Answer::PresentIsBest,
            _ => {
                let place = |config: usize| ranking.iter().find(|s| s.config == config);
                let is_same =
                    |standing: &Standing| matches!(standing.place, Place::Best | Place::Same);
                let mut all = contenders.iter().filter_map(|config| place(*config));
                if contenders.contains(&anchor) && all.all(is_same) {
                    Answer::Same
                } else {
                    Answer::NotToldApart
                }
            }
        }
    }

    /// Whether `one` was shown to be better than `other`, at the level of a look.
    pub fn is_shown_better(&self, one: usize, other: usize) -> bool {
        let Ok(fit) = self.fit() else {
            return false;
        };
        fit.difference(one, other)
            .is_some_and(|ahead| is_above_zero(&ahead, self.level()))
    }
}

#[cfg(test)]
mod tests;
