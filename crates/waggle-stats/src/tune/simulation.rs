//! Does tuning find a known optimum, as often as it says, and with fewer blocks than a sweep?
//!
//! A stand-in server: a response surface with a known best value, noise of each block, a machine
//! whose speed drifts by a third in two minutes and jumps when a neighbour starts and stops.

use super::{Answer, Block, Decision, Guard, Kind, Settings, Strategy};
use crate::random::Random;
use crate::simulation::normal;

/// A block and the switch before it, seconds.
const BLOCK_S: f64 = 6.0;
/// What differs by less is the same.
const MARGIN: f64 = 0.01;

/// What a block of one configuration would be without noise and drift.
struct Surface {
    values: Vec<f64>,
    /// Standard deviation of a block, as a share.
    noise: f64,
    /// By what the noise of the best value is larger than that of the others.
    noise_of_best: f64,
    heavy: bool,
    /// Highest over lowest speed of the slow drift.
    drift: f64,
    /// Factor of speed while a neighbour runs, on and off every 45 s.
    step: f64,
}

impl Surface {
    /// Workers against replica throughput, as in the published sweep: it rises, has its best value
    /// at the fifth, and falls.
    fn peak() -> Self {
        let values = [40.0, 62.0, 79.0, 92.0, 100.0, 94.0, 86.0, 77.0, 70.0];
        Self {
            values: values.to_vec(),
            noise: 0.03,
            noise_of_best: 1.0,
            heavy: false,
            drift: 1.3,
            step: 1.0,
        }
    }

    fn best(&self) -> usize {
        let of = |one: &usize, two: &usize| self.values[*one].total_cmp(&self.values[*two]);
        (0..self.values.len()).max_by(of).expect("values")
    }

    fn run(&self, kind: Kind, rounds_most: usize, seed: u64) -> Strategy {
        let settings = Settings {
            kind,
            more_is_better: true,
            margin: MARGIN,
            rounds_most,
            anchor: 0,
            guards: vec![Guard {
                name: "p99".to_owned(),
                tolerance: 0.05,
                limit: None,
            }],
            seed,
        };
        let mut strategy = Strategy::new(self.values.len(), settings);
        let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9).wrapping_add(11));
        let best = self.best();
        let (phase, step_phase) = (random.next_unit(), 90.0 * random.next_unit());
        let mut now_s = 0.0;
        while let Decision::Measure(order) = strategy.decide() {
            for config in order {
                let turn = std::f64::consts::TAU * (now_s / 120.0 + phase);
                let stepped = (now_s + step_phase) % 90.0 < 45.0;
                let speed = (0.5 * self.drift.ln() * turn.sin()).exp()
                    * if stepped { self.step } else { 1.0 };
                let factor = if config == best {
                    self.noise_of_best
                } else {
                    1.0
                };
                let value = self.values[config] * speed * self.noise(factor, &mut random);
                let p99 = 1e5 / value * self.noise(1.0, &mut random);
                strategy.take(Block {
                    config,
                    round: strategy.rounds() - 1,
                    at_s: now_s,
                    value,
                    guards: vec![Some(p99)],
                });
                now_s += BLOCK_S;
            }
        }
        strategy
    }

    fn noise(&self, factor: f64, random: &mut Random) -> f64 {
        let shape = if self.heavy {
            let chi_square: f64 = (0..4).map(|_| normal(random).powi(2)).sum();
            // Variance of t with 4 degrees of freedom is 2.
            normal(random) / (chi_square / 4.0).sqrt() / 2.0_f64.sqrt()
        } else {
            normal(random)
        };
        (self.noise * factor * shape).exp()
    }
}

/// What 100 runs came to.
#[derive(Debug, Default)]
struct Hundred {
    /// The optimum is the best or among its equals.
    covered: usize,
    /// The optimum is the best.
    found: usize,
    /// The best and nothing else is left.
    alone: usize,
    /// A change to something that is better than the present one, or rightly none.
    right: usize,
    /// Blocks of all runs over those of full sweeps.
    share: f64,
    most_share: f64,
    /// Configurations left beside the best, over all runs.
    equals: usize,
}

fn hundred(surface: &Surface, kind: Kind, rounds_most: usize) -> Hundred {
    let best = surface.best();
    let mut sum = Hundred::default();
    for seed in 0..100 {
        let outcome = surface.run(kind, rounds_most, seed).outcome();
        let is_best = outcome.best == Some(best);
        sum.covered += usize::from(is_best || outcome.equal_to_best.contains(&best));
        sum.found += usize::from(is_best);
        sum.alone += usize::from(is_best && outcome.equal_to_best.is_empty());
        sum.equals += outcome.equal_to_best.len();
        let better = |config: usize| surface.values[config] > surface.values[0];
        sum.right += usize::from(match outcome.answer {
            Answer::Change { config } => better(config),
            _ => true,
        });
        let share = outcome.blocks as f64 / outcome.blocks_of_sweep as f64;
        sum.share += share / 100.0;
        sum.most_share = sum.most_share.max(share);
    }
    sum
}

/// The promise: the optimum within the stated confidence in at least 95 of 100 runs, with at most
/// half of the blocks of a full sweep.
#[test]
fn a_known_optimum_is_found_with_half_of_the_blocks() {
    let surfaces = [
        ("drift", Surface::peak()),
        (
            "steps and heavy tails",
            Surface {
                heavy: true,
                step: 0.9,
                ..Surface::peak()
            },
        ),
        (
            "narrow",
            Surface {
                noise: 0.02,
                ..Surface::peak()
            },
        ),
    ];
    for (name, surface) in surfaces {
        let found = hundred(&surface, Kind::Halving, 16);
        println!("{name}: {found:?}");
        assert!(found.covered >= 95, "{name}: {found:?}");
        assert!(found.found >= 95, "{name}: {found:?}");
        assert!(found.right >= 95, "{name}: {found:?}");
        assert!(found.share <= 0.5, "{name}: {found:?}");
    }
}

/// A best value that varies several times as much as the others is not dropped at the first looks,
/// when there are too few blocks to see that it does.
#[test]
fn a_best_value_that_is_noisy_is_left() {
    let surface = Surface {
        noise: 0.015,
        noise_of_best: 4.0,
        ..Surface::peak()
    };
    let found = hundred(&surface, Kind::Halving, 16);
    println!("noisy best: {found:?}");
    assert!(found.covered >= 95, "{found:?}");
    assert!(found.right >= 95, "{found:?}");
    assert!(found.share <= 0.5, "{found:?}");
}

/// A sweep of as many blocks is not better at it.
#[test]
fn a_sweep_finds_it_too_with_all_of_the_blocks() {
    let found = hundred(&Surface::peak(), Kind::Sweep, 16);
    println!("sweep: {found:?}");
    assert!(found.covered >= 95 && found.found >= 95, "{found:?}");
    assert!((found.share - 1.0).abs() < 1e-9);
}

/// Two values that differ by less than can be seen: both are left, and they get the blocks.
#[test]
fn near_ties_are_left_and_get_the_blocks() {
    let mut surface = Surface::peak();
    surface.values[5] = 99.8;
    let found = hundred(&surface, Kind::Halving, 16);
    println!("tie: {found:?}");
    assert!(found.covered >= 95, "{found:?}");
    assert!(found.alone <= 10, "{found:?}");
    let strategy = surface.run(Kind::Halving, 12, 1);
    let of = |config| {
        strategy
            .blocks()
            .iter()
            .filter(|b| b.config == config)
            .count()
    };
    assert!(of(4) >= 2 * of(1) && of(5) >= 2 * of(1));
}

/// Where nothing makes a difference, nothing is recommended: at most 5 of 100, and a run by chance.
#[test]
fn where_all_are_the_same_nothing_is_recommended() {
    for step in [1.0, 0.85] {
        let surface = Surface {
            values: vec![100.0; 6],
            step,
            ..Surface::peak()
        };
        let mut changed = 0;
        let mut kept = 0;
        for seed in 0..200 {
            let outcome = surface.run(Kind::Halving, 12, seed).outcome();
            changed += usize::from(matches!(outcome.answer, Answer::Change { .. }));
            kept += usize::from(outcome.best == Some(0) || outcome.equal_to_best.contains(&0));
        }
        println!("null, step {step}: changed {changed}, present kept {kept} of 200");
        assert!(changed <= 14, "{changed}");
        assert!(kept >= 190, "{kept}");
    }
}

/// Intervals against the present configuration cover the truth, all together.
#[test]
fn intervals_cover_together() {
    let surface = Surface::peak();
    let mut covered = 0;
    for seed in 0..200 {
        let outcome = surface.run(Kind::Halving, 12, seed).outcome();
        let all = outcome.ranking.iter().all(|standing| {
            let truth = surface.values[standing.config] / surface.values[0];
            standing.ratio.is_none_or(|ratio| ratio.contains(truth))
        });
        covered += usize::from(all);
    }
    println!("together: {covered} of 200");
    assert!(covered >= 184, "{covered}");
}
