//! Which configurations get the next blocks, and when is enough known?
//!
//! A round holds the anchor and every configuration that may still be best, once each, in an order
//! drawn by lot (the anchor, once it is behind, in every third round only). At *looks*, whose
//! number of rounds is fixed before, halving drops what was shown to be worse than another; so
//! blocks go to near-ties. It ends when one is left, when all that are left are the same within
//! the margin, or at the most rounds.
//!
//! Neighbours: `fit` gives differences, `outcome` says what they mean. Invariant: the present
//! configuration is measured to the end.

use serde::{Deserialize, Serialize};

use super::fit::{Fit, Point};
use super::guard::Guard;
use super::outcome::{Dropped, WhyDropped};
use crate::compare::{CompareError, Estimate, SIGNIFICANCE, equivalence_p};
use crate::distribution::t_quantile;
use crate::random::Random;

/// A value of 0 has no logarithm: it counts as this share of the smallest that has one.
const ZERO_SHARE: f64 = 0.1;

/// How blocks are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Every configuration gets as many.
    Sweep,
    /// What was shown to be worse gets no more.
    Halving,
}

/// What a strategy goes by.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How blocks are shared out.
    pub kind: Kind,
    /// Whether more of the objective is better.
    pub more_is_better: bool,
    /// Differences below this share are none: 0.01 is 1%.
    pub margin: f64,
    /// Most rounds: a sweep's number of blocks for each configuration.
    pub rounds_most: usize,
    /// The number of the present configuration.
    pub anchor: usize,
    /// What must not get worse.
    pub guards: Vec<Guard>,
    /// Seed of the order.
    pub seed: u64,
}

/// One measured block.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// The configuration's number.
    pub config: usize,
    /// The round, from 0.
    pub round: usize,
    /// The middle of the block, in seconds from any zero.
    pub at_s: f64,
    /// The objective; not negative.
    pub value: f64,
    /// Readings of the guards, in the order of [`Settings::guards`].
    pub guards: Vec<Option<f64>>,
}

/// Levels of one of so many looks that keep 5% over all of them (Pocock, Biometrika 64, 1977, p.
/// 191): looks at the same blocks and more are no independent chances, so it is more than 5% over
/// their number.
const POCOCK: [f64; 10] = [
    0.05, 0.0294, 0.0221, 0.0182, 0.0158, 0.0142, 0.0130, 0.0120, 0.0112, 0.0106,
];

/// When the present configuration was shown to be behind, it is in every so many rounds only.
const ANCHOR_EVERY: usize = 3;

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Measure a block of each of these, in this order.
    Measure(Vec<usize>),
    /// Enough is known, or no more may be.
    Stop(Stop),
}

/// Why no more blocks are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// All others were shown to be worse.
    OneLeft,
    /// Those that are left are the same within the margin.
    Same,
    /// The most rounds were measured.
    Rounds,
    /// No configuration but the present one can be measured.
    NothingToCompare,
}

/// Whether a configuration still gets blocks.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Life {
    Live,
    /// Another was shown to be better.
    Behind {
        round: usize,
        than: usize,
    },
    /// It could not be measured.
    Failed(String),
}

/// Shares out blocks, and remembers what they found.
#[derive(Clone, Debug)]
pub struct Strategy {
    pub(super) settings: Settings,
    pub(super) lives: Vec<Life>,
    pub(super) blocks: Vec<Block>,
    pub(super) rounds: usize,
    pub(super) stop: Option<Stop>,
    random: Random,
}

/// After how many rounds it is looked whether something can be dropped: at half as many again each
/// time, so that few looks share the 5%.
pub fn looks(rounds_most: usize) -> Vec<usize> {
    let most = rounds_most.max(1);
    let mut looks = vec![most.min(3)];
    let mut at = looks[0];
    while at < most {
        at = (at * 3 / 2).max(at + 1).min(most);
        looks.push(at);
    }
    looks
}

impl Strategy {
    /// A strategy over `configs` configurations, numbered from 0, of which nothing is known.
    pub fn new(configs: usize, settings: Settings) -> Self {
        Self {
            lives: vec![Life::Live; configs],
            blocks: Vec::new(),
            rounds: 0,
            stop: None,
            random: Random::new(settings.seed),
            settings,
        }
    }

    /// The next round, or why there is none. Call it when the round before was handed in.
    pub fn decide(&mut self) -> Decision {
        if let Some(stop) = self.stop {
            return Decision::Stop(stop);
        }
        if self.settings.kind == Kind::Halving && self.looks().contains(&self.rounds) {
            self.drop_what_is_behind();
        }
        if let Some(stop) = self.enough() {
            self.stop = Some(stop);
            return Decision::Stop(stop);
        }
        let rests = matches!(self.lives[self.settings.anchor], Life::Behind { .. })
            && !self.rounds.is_multiple_of(ANCHOR_EVERY);
        let mut order: Vec<usize> = (0..self.lives.len())
            .filter(|c| self.is_in(*c) && !(rests && *c == self.settings.anchor))
            .collect();
        self.random.shuffle(&mut order);
        self.rounds += 1;
        Decision::Measure(order)
    }

    /// Takes a block of the round that is being measured.
    pub fn take(&mut self, block: Block) {
        self.blocks.push(block);
    }

    /// A configuration that could not be measured: it gets no more blocks. What it has stays, and
    /// what was dropped for it is measured again: what cannot run is no better choice.
    pub fn fail(&mut self, config: usize, why: impl Into<String>) {
        let Some(life) = self.lives.get_mut(config) else {
            return;
        };
        *life = Life::Failed(why.into());
        for life in &mut self.lives {
            if matches!(life, Life::Behind { than, .. } if *than == config) {
                *life = Life::Live;
            }
        }
    }

    /// Whether a configuration is still measured.
    pub fn is_in(&self, config: usize) -> bool {
        let live = matches!(self.lives.get(config), Some(Life::Live));
        live || (config == self.settings.anchor && config < self.lives.len())
    }

    /// Rounds begun so far.
    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// Blocks taken so far.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Blocks that a sweep of as many rounds as are allowed would take.
    pub fn blocks_of_sweep(&self) -> usize {
        self.lives.len() * self.settings.rounds_most
    }

    /// What was dropped, in the order of the configurations.
    pub fn dropped(&self) -> Vec<Dropped> {
        let blocks_of = |config| self.blocks.iter().filter(|b| b.config == config).count();
        let all = self.lives.iter().enumerate();
        all.filter_map(|(config, life)| {
            let why = match life {
                Life::Live => return None,
                Life::Behind { round, than } => WhyDropped::Behind {
                    round: *round,
                    than: *than,
                },
                Life::Failed(why) => WhyDropped::Failed(why.clone()),
            };
            let blocks = blocks_of(config);
            Some(Dropped {
                config,
                why,
                blocks,
            })
        })
        .collect()
    }

    fn looks(&self) -> Vec<usize> {
        match self.settings.kind {
            Kind::Sweep => vec![self.settings.rounds_most],
            Kind::Halving => looks(self.settings.rounds_most),
        }
    }

    /// All blocks, on the scale where effects add up and more is better.
    pub(super) fn points(&self) -> Vec<Point> {
        let positive = self.blocks.iter().map(|b| b.value).filter(|v| *v > 0.0);
        let floor = positive.fold(f64::INFINITY, f64::min) * ZERO_SHARE;
        let sign = if self.settings.more_is_better {
            1.0
        } else {
            -1.0
        };
        let point = |block: &Block| Point {
            config: block.config,
            round: block.round,
            at_s: block.at_s,
            value: sign * block.value.max(floor).ln(),
        };
        self.blocks.iter().map(point).collect()
    }

    /// The fit of all blocks so far.
    pub(super) fn fit(&self) -> Result<Fit, CompareError> {
        Fit::new(&self.points(), self.lives.len(), self.settings.anchor)
    }

    /// One-sided level of one comparison at one look. Never laxer than the interval of a change,
    /// which has half of the 5% on either side: what the interval leaves open is not dropped.
    pub(super) fn level(&self) -> f64 {
        let others = self.lives.len().saturating_sub(1).max(1);
        let looks = self.looks().len().max(1);
        let of_one = match POCOCK.get(looks - 1) {
            Some(level) => *level,
            None => SIGNIFICANCE * 2.0 / looks as f64,
        };
        of_one.min(0.5 * SIGNIFICANCE) / others as f64
    }

    /// The live configuration with the best estimate.
    pub(super) fn leader(&self, fit: &Fit) -> Option<usize> {
        let anchor = self.settings.anchor;
        let live = (0..self.lives.len()).filter(|c| matches!(self.lives[*c], Life::Live));
        let of = |config: usize| Some((config, fit.difference(config, anchor)?.value));
        let best = live
            .filter_map(of)
            .max_by(|one, two| one.1.total_cmp(&two.1));
        best.map(|(config, _)| config)
    }

    /// Live configurations that may still be best, the leader first.
    pub(super) fn contenders(&self, fit: &Fit) -> Vec<usize> {
        let Some(leader) = self.leader(fit) else {
            return Vec::new();
        };
        let level = self.level();
        let live = (0..self.lives.len()).filter(|c| matches!(self.lives[*c], Life::Live));
        let near = live.filter(|config| {
            *config != leader
                && fit
                    .difference(leader, *config)
                    .is_some_and(|ahead| !is_above_zero(&ahead, level))
        });
        std::iter::once(leader).chain(near).collect()
    }

    fn drop_what_is_behind(&mut self) {
        let Ok(fit) = self.fit() else {
            return;
        };
        let contenders = self.contenders(&fit);
        let Some(leader) = contenders.first().copied() else {
            return;
        };
        for config in 0..self.lives.len() {
            let measured = fit.difference(config, leader).is_some();
            if matches!(self.lives[config], Life::Live) && measured && !contenders.contains(&config)
            {
                self.lives[config] = Life::Behind {
                    round: self.rounds,
                    than: leader,
                };
            }
        }
    }

    fn enough(&self) -> Option<Stop> {
        let anchor = self.settings.anchor;
        let live = |config: usize| matches!(self.lives[config], Life::Live);
        if !(0..self.lives.len()).any(|c| c != anchor && !matches!(self.lives[c], Life::Failed(_)))
        {
            return Some(Stop::NothingToCompare);
        }
        let left = (0..self.lives.len()).filter(|c| live(*c)).count();
        if self.settings.kind == Kind::Halving && left == 1 {
            return Some(Stop::OneLeft);
        }
        if self.rounds >= self.settings.rounds_most {
            return Some(Stop::Rounds);
        }
        if self.settings.kind == Kind::Sweep || !self.looks().contains(&self.rounds) {
            return None;
        }
        let fit = self.fit().ok()?;
        let contenders = self.contenders(&fit);
        let (leader, others) = contenders.split_first()?;
        let same = |other: &usize| {
            let ahead = fit.difference(*leader, *other);
            ahead.is_some_and(|ahead| equivalence_p(&ahead, self.settings.margin) < self.level())
        };
        others.iter().all(same).then_some(Stop::Same)
    }
}

/// Whether the truth is above 0, by a one-sided test.
pub(super) fn is_above_zero(estimate: &Estimate, level: f64) -> bool {
    if estimate.standard_error == 0.0 {
        return estimate.value > 0.0;
    }
    estimate.value / estimate.standard_error > t_quantile(1.0 - level, estimate.df)
}

#[cfg(test)]
mod tests;
