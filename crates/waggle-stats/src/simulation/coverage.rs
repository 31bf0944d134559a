//! Do intervals cover what they should, and is the chosen estimator the narrowest that does?
//!
//! Fixed seeds, so these never flicker; bounds leave room for the error of some hundred to 2,000
//! experiments (0.5% to 1%), not for a worse method. The figures printed (`--nocapture`) are those
//! the documentation of `compare` quotes, there from more experiments.

use crate::compare::sample::{hodges_lehmann, mean, trimmed_mean};
use crate::compare::{
    BlockPair, CompareSettings, Comparison, Interval, Outcome, Scale, Window, chain_differences,
    compare_blocks, compare_chain, compare_lives, windows_needed,
};
use crate::schedule::{ArmPlan, ArmProgress, Chooser, chain_order, pair_order, with_base};

use super::{Machine, World};

const CPU: Outcome = Outcome::CpuUsPerStatement;

/// No bootstrap: it has its own test.
const PLAIN: CompareSettings = CompareSettings {
    unit: crate::compare::Unit::Windows,
    seed: 1,
    resamples: 0,
};

#[derive(Default)]
struct Score {
    experiments: f64,
    covered: f64,
    width: f64,
    bias: f64,
}

impl Score {
    fn add(&mut self, interval: &Interval, truth: f64) {
        self.experiments += 1.0;
        self.covered += f64::from(u8::from(interval.contains(truth)));
        self.width += interval.half_width();
        self.bias += interval.estimate - truth;
    }

    fn coverage(&self) -> f64 {
        self.covered / self.experiments
    }

    fn half_width(&self) -> f64 {
        self.width / self.experiments
    }

    fn bias(&self) -> f64 {
        self.bias / self.experiments
    }

    fn show(&self, what: &str) {
        let (coverage, half_width) = (100.0 * self.coverage(), 100.0 * self.half_width());
        println!(
            "{what:44} {coverage:.1}% ±{half_width:.2}% bias {:+.2}%",
            100.0 * self.bias()
        );
    }
}

/// One experiment: `windows` windows for each arm of `effects` (the first is `none`).
fn experiment(world: World, windows: usize, effects: &[f64], seed: u64) -> Vec<Window> {
    let plans: Vec<ArmPlan> = (1..effects.len())
        .map(|arm| ArmPlan { arm, windows })
        .collect();
    Machine::new(world, seed).life(&chain_order(&plans, seed), effects)
}

fn compare(windows: &[Window], arm: usize) -> Comparison {
    compare_chain(windows, arm, CPU, &PLAIN).unwrap()
}

const WORLDS: [(&str, World); 4] = [
    ("quiet", World::QUIET),
    ("drift", World::DRIFT),
    ("rough", World::ROUGH),
    ("steps", World::STEPS),
];

#[test]
fn intervals_cover_a_known_cost_whatever_the_machine_does() {
    // 1 us on 17.5, and neighbours of quite another cost.
    let effects = [0.0, (18.5_f64 / 17.5).ln(), 0.3, -0.05];
    for (name, world) in WORLDS {
        for (windows, experiments) in [(20, 2_000), (60, 600)] {
            let mut score = Score::default();
            for seed in 0..experiments {
                let found = compare(&experiment(world, windows, &effects, seed), 1);
                score.add(&found.ratio, effects[1].exp());
            }
            score.show(&format!("{name}, {windows} windows"));
            assert!(
                (0.93..=0.975).contains(&score.coverage()),
                "{name} {windows}"
            );
            assert!(score.bias().abs() < 0.002, "{name} {windows}");
        }
    }
}

#[test]
fn the_same_arm_in_every_place_shares_neighbours_and_still_covers() {
    for (name, world) in [("drift", World::DRIFT), ("rough", World::ROUGH)] {
        let (mut corrected, mut naive) = (Score::default(), Score::default());
        for seed in 0..1_500 {
            let windows = experiment(world, 40, &[0.0, 0.05], seed);
            let found = compare(&windows, 1);
            corrected.add(&found.ratio, 0.05_f64.exp());
            let factor = found.variance_factor.sqrt();
            let blind = found.log_ratio.interval(0.95);
            let half = blind.half_width() / factor;
            let blind = Interval {
                low: blind.estimate - half,
                high: blind.estimate + half,
                ..blind
            };
            naive.add(&blind.map(f64::exp), 0.05_f64.exp());
        }
        corrected.show(&format!("{name}, one arm"));
        naive.show(&format!("{name}, one arm, as if independent"));
        assert!((0.93..=0.975).contains(&corrected.coverage()), "{name}");
        assert!(corrected.coverage() - naive.coverage() > 0.02, "{name}");
    }
}

#[test]
fn the_same_arm_twice_is_called_different_in_about_one_of_twenty() {
    for (name, world) in WORLDS {
        let experiments = 1_200;
        let called = (0..experiments)
            .filter(|&seed| {
                let windows = experiment(world, 40, &[0.0, 0.0, 0.1, 0.3], 10_000 + seed);
                compare(&windows, 1).p_value < 0.05
            })
            .count();
        let share = called as f64 / experiments as f64;
        println!("A/A {name}: {:.1}% called different", 100.0 * share);
        assert!((0.02..=0.08).contains(&share), "{name}: {share}");
    }
}

#[test]
fn the_chosen_estimator_is_the_narrowest_on_a_rough_machine() {
    for (name, world) in [("rough", World::ROUGH), ("steps", World::STEPS)] {
        let mut scores: [Score; 4] = Default::default();
        for seed in 0..600 {
            let windows = experiment(world, 40, &[0.0, 0.0, 0.1, 0.2, 0.3], seed);
            let differences: Vec<f64> = chain_differences(&windows, 1, CPU, Scale::Log)
                .iter()
                .map(|difference| difference.value)
                .collect();
            scores[0].add(&compare(&windows, 1).ratio, 1.0);
            let rivals = [
                mean(&differences).unwrap().interval(0.95),
                trimmed_mean(&differences, 0.2).unwrap().interval(0.95),
                hodges_lehmann(&differences, 0.95).unwrap(),
            ];
            for (score, rival) in scores[1..].iter_mut().zip(rivals) {
                score.add(&rival.map(f64::exp), 1.0);
            }
        }
        for (score, what) in scores
            .iter()
            .zip(["chosen", "mean", "trimmed", "Hodges-Lehmann"])
        {
            score.show(&format!("{name}, {what}"));
        }
        assert!(scores[0].coverage() >= 0.93);
        for rival in &scores[1..] {
            assert!(scores[0].half_width() < 0.9 * rival.half_width(), "{name}");
        }
    }
}

#[test]
fn the_width_is_what_theory_says() {
    let windows = windows_needed(0.04, 0.015);
    let mut score = Score::default();
    for seed in 0..300 {
        score.add(
            &compare(&experiment(World::DRIFT, windows, &[0.0; 4], seed), 1).ratio,
            1.0,
        );
    }
    score.show(&format!("{windows} windows, for ±1.5%"));
    assert!(
        (0.0142..0.0158).contains(&score.half_width()),
        "{}",
        score.half_width()
    );
}

#[test]
fn the_bootstrap_covers_and_agrees() {
    let settings = CompareSettings {
        resamples: 400,
        ..PLAIN
    };
    for (name, world) in [("drift", World::DRIFT), ("steps", World::STEPS)] {
        let (mut score, mut agree) = (Score::default(), 0);
        for seed in 0..400 {
            let windows = experiment(world, 40, &[0.0, 0.0, 0.1], seed);
            let found = compare_chain(&windows, 1, CPU, &settings).unwrap();
            score.add(&found.ratio_bootstrap.unwrap(), 1.0);
            agree += usize::from(found.agree == Some(true));
        }
        score.show(&format!("{name}, bootstrap; agrees in {agree} of 400"));
        assert!((0.92..=0.98).contains(&score.coverage()), "{name}");
        assert!(agree > 380, "{name}");
    }
}

#[test]
fn alternating_lives_cover_and_beat_pairs_on_a_drifting_machine() {
    for (name, world) in WORLDS {
        let world = World {
            life_noise: 0.02,
            ..world
        };
        let effects = [0.0, 0.1];
        let (mut alternating, mut paired) = (Score::default(), Score::default());
        for seed in 0..400 {
            let mut machine = Machine::new(world, seed);
            let chain: Vec<Window> = (0..17)
                .flat_map(|life| machine.life(&[life % 2; 8], &effects))
                .collect();
            alternating.add(&compare_lives(&chain, 1, CPU).unwrap().ratio, 0.1_f64.exp());
            let mut machine = Machine::new(world, seed);
            let pairs: Vec<BlockPair> = pair_order(8, seed)
                .into_iter()
                .map(|base_first| {
                    let first = machine.life(&[usize::from(!base_first); 8], &effects);
                    let second = machine.life(&[usize::from(base_first); 8], &effects);
                    let (base, arm) = if base_first {
                        (first, second)
                    } else {
                        (second, first)
                    };
                    BlockPair { base, arm }
                })
                .collect();
            paired.add(
                &compare_blocks(&pairs, 1, CPU).unwrap().ratio,
                0.1_f64.exp(),
            );
        }
        alternating.show(&format!("{name}, 17 lives that alternate"));
        paired.show(&format!("{name}, 8 pairs of lives"));
        assert!(alternating.coverage() >= 0.93, "{name}");
        if name == "drift" {
            assert!(alternating.half_width() < 0.4 * paired.half_width());
        }
    }
}

/// The lab stops when the interval is narrow enough; that must not cost coverage.
#[test]
fn stopping_on_width_keeps_coverage() {
    let effects = [0.0, 0.0, 0.06];
    let (mut score, mut spent) = (Score::default(), 0);
    for seed in 0..300 {
        let mut machine = Machine::new(World::ROUGH, seed);
        let mut chooser = Chooser::new(seed, 30);
        let mut windows: Vec<Window> = Vec::new();
        let mut arms = [1, 2].map(|arm| ArmProgress {
            arm,
            windows: 0,
            half_width: None,
            target: 0.015,
        });
        for _ in 0..40 {
            let round = chooser.next_round(&arms, 10);
            if round.is_empty() {
                break;
            }
            windows.extend(machine.stretch(&with_base(&round), &effects));
            for progress in &mut arms {
                let found = compare_chain(&windows, progress.arm, CPU, &PLAIN);
                progress.windows = windows.iter().filter(|w| w.arm == progress.arm).count();
                progress.half_width = found.ok().map(|found| found.ratio.half_width());
            }
        }
        spent += windows.len();
        score.add(&compare(&windows, 2).ratio, 0.06_f64.exp());
    }
    score.show(&format!(
        "stopped at ±1.5%, {} windows on average",
        spent / 300
    ));
    assert!(score.coverage() >= 0.925, "{}", score.coverage());
    assert!(score.half_width() < 0.0152, "{}", score.half_width());
}
