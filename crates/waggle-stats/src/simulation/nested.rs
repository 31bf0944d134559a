//! Combination arms: lives with windows of both arms in each, the effect differing by life.

use super::{Machine, World, normal};
use crate::compare::{CompareSettings, Outcome, Unit, Window, compare_chain};
use crate::random::Random;
use crate::schedule::{ArmPlan, chain_order};
use crate::tally::Tally;

/// Mean effect of the combination, as a logarithm.
const EFFECT: f64 = 0.08;

const EXPERIMENTS: u64 = 600;

/// `lives` lives of `windows` windows, each life with an effect of its own (standard deviation
/// `between`).
fn experiment(world: World, lives: usize, windows: usize, between: f64, seed: u64) -> Vec<Window> {
    let mut machine = Machine::new(world, seed);
    let mut random = Random::new(1_000_003 * seed + 1);
    let mut all = Vec::new();
    for life in 0..lives {
        let own = EFFECT + between * normal(&mut random);
        let order = chain_order(&[ArmPlan { arm: 1, windows }], seed + life as u64);
        all.extend(machine.life(&order, &[0.0, own]));
    }
    all
}

#[test]
fn windows_within_lives_are_covered_on_both_levels() {
    let settings = CompareSettings {
        unit: Unit::Lives,
        resamples: 0,
        ..CompareSettings::default()
    };
    let blind = CompareSettings {
        unit: Unit::Windows,
        ..settings
    };
    for (name, world) in [
        ("quiet", World::QUIET),
        ("rough", World::ROUGH),
        ("steps", World::STEPS),
    ] {
        for (lives, windows, between) in [(3, 30, 0.0), (5, 15, 0.02), (5, 40, 0.02), (8, 15, 0.04)]
        {
            let (mut covered, mut windows_only) = <(Tally, Tally)>::default();
            let mut width = 0.0;
            for seed in 0..EXPERIMENTS {
                let measured = experiment(world, lives, windows, between, 77 + 13 * seed);
                let compare = |settings| {
                    compare_chain(&measured, 1, Outcome::CpuUsPerStatement, settings).unwrap()
                };
                let found = compare(&settings);
                covered.add(found.ratio.contains(EFFECT.exp()));
                width += found.ratio.half_width() / EXPERIMENTS as f64;
                windows_only.add(compare(&blind).ratio.contains(EFFECT.exp()));
            }
            println!(
                "{name}, {lives} lives of {windows}, between {between}: {covered} ±{:.2}%; as if \
                 windows were all: {windows_only}",
                100.0 * width
            );
            assert!(
                covered.is_within(0.93, 0.999),
                "{name} {lives} {windows}: {covered}"
            );
            if between >= 0.02 && windows == 40 {
                assert!(windows_only.is_within(0.0, 0.85), "{windows_only}");
            }
        }
    }
}
