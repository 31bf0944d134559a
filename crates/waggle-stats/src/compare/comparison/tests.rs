use super::*;
use crate::compare::{BlockPair, Verdict, Window, judge};
use crate::schedule::{ArmPlan, chain_order};
use crate::simulation::{Machine, World};

fn experiment(world: World, windows: usize, effects: &[f64], seed: u64) -> Vec<Window> {
    let plans: Vec<ArmPlan> = (1..effects.len())
        .map(|arm| ArmPlan { arm, windows })
        .collect();
    Machine::new(world, seed).life(&chain_order(&plans, seed), effects)
}

fn cpu(windows: &[Window], arm: usize) -> Comparison {
    compare_chain(
        windows,
        arm,
        Outcome::CpuUsPerStatement,
        &CompareSettings::default(),
    )
    .unwrap()
}

#[test]
fn a_known_cost_is_found_with_everything_beside_it() {
    let cost = (18.9_f64 / 17.5).ln();
    let windows = experiment(World::ROUGH, 60, &[0.0, 0.0, cost], 3);
    let watch = cpu(&windows, 2);
    assert!(watch.ratio.contains(1.08), "{watch:?}");
    assert!(watch.delta.contains(1.4 * watch.base / 17.5), "{watch:?}");
    assert!(watch.ratio.half_width() < 0.015);
    assert!(watch.ratio_all_windows.half_width() > 1.5 * watch.ratio.half_width());
    assert_eq!(watch.agree, Some(true));
    assert!(
        watch
            .ratio_hodges_lehmann
            .is_some_and(|robust| robust.contains(1.08))
    );
    assert!(
        watch.disturbed_arm > 0 && watch.disturbed_base > 0 && !watch.bursts,
        "{watch:?}"
    );
    assert_eq!(judge(&watch, 0.015).verdict, Verdict::Costs);
    let same = cpu(&windows, 1);
    assert!(same.ratio.contains(1.0), "{same:?}");
    let qps = compare_chain(&windows, 2, Outcome::Qps, &CompareSettings::default()).unwrap();
    assert!(qps.ratio.contains(1.0 / 1.08), "{qps:?}");
    let p99 = compare_chain(
        &windows,
        2,
        Outcome::LatencyP99Us,
        &CompareSettings::default(),
    );
    assert!(p99.unwrap().ratio.contains(1.08));
}

#[test]
fn the_same_windows_give_the_same_bits() {
    let windows = experiment(World::ROUGH, 30, &[0.0, 0.02], 4);
    assert_eq!(cpu(&windows, 1), cpu(&windows, 1));
}

#[test]
fn an_arm_that_costs_in_bursts_is_named() {
    let mut windows = experiment(World::DRIFT, 60, &[0.0, 0.0], 5);
    let mut nth = 0;
    for window in windows.iter_mut().filter(|window| window.arm == 1) {
        nth += 1;
        if nth % 6 == 0 {
            window.server_cpu_ns = window.server_cpu_ns * 8 / 5;
        }
    }
    let bursty = cpu(&windows, 1);
    assert!(bursty.bursts, "{bursty:?}");
    assert!(bursty.ratio_all_windows.estimate > 1.05 && bursty.ratio.estimate < 1.03);
}

#[test]
fn what_an_arm_leaves_behind_is_seen() {
    let mut windows = experiment(World::QUIET, 60, &[0.0, 0.0, 0.0], 6);
    for position in 1..windows.len() {
        if windows[position - 1].arm == 2 {
            windows[position].server_cpu_ns = windows[position].server_cpu_ns * 11 / 10;
        }
    }
    let carry = |arm| cpu(&windows, arm).carry_over.unwrap();
    assert!(carry(2).low > 1.0, "{:?}", carry(2));
    assert!(!carry(1).contains(1.1));
}

#[test]
fn over_lives_the_life_is_the_unit() {
    let world = World {
        life_noise: 0.0,
        ..World::QUIET
    };
    let mut machine = Machine::new(world, 7);
    let mut windows = Vec::new();
    for (seed, effect) in [(1, 0.02), (2, 0.08), (3, 0.05), (4, 0.05)] {
        let order = chain_order(
            &[ArmPlan {
                arm: 1,
                windows: 30,
            }],
            seed,
        );
        windows.extend(machine.life(&order, &[0.0, effect]));
    }
    let settings = CompareSettings {
        unit: Unit::Lives,
        ..CompareSettings::default()
    };
    let lives = compare_chain(&windows, 1, Outcome::CpuUsPerStatement, &settings).unwrap();
    assert_eq!(
        (lives.ratio.n, lives.unit, lives.log_ratio.df),
        (4, Unit::Lives, 3.0)
    );
    let levels = lives.levels.unwrap();
    // Effects of 2%, 8%, 5% and 5%: a standard deviation of 2.4% between lives; 30 windows of 4%
    // noise each tell a life's own to about 1%.
    assert!((0.008..0.035).contains(&levels.between_sd), "{levels:?}");
    assert!((0.006..0.014).contains(&levels.within_se), "{levels:?}");
    assert_eq!(levels.lives, 4);
    assert!(lives.ratio.half_width() > 2.0 * cpu(&windows, 1).ratio.half_width());
}

#[test]
fn lives_that_alternate_and_lives_in_pairs() {
    let mut machine = Machine::new(World::DRIFT, 8);
    let lives: Vec<Vec<Window>> = (0..17)
        .map(|life| machine.life(&[life % 2; 8], &[0.0, 0.1]))
        .collect();
    let chain = compare_lives(&lives.concat(), 1, Outcome::CpuUsPerStatement).unwrap();
    assert!(chain.ratio.contains(0.1_f64.exp()), "{chain:?}");
    assert_eq!(
        (chain.windows_arm, chain.windows_base, chain.ratio.n),
        (8, 9, 17)
    );
    let pairs: Vec<BlockPair> = lives
        .chunks_exact(2)
        .map(|pair| BlockPair {
            base: pair[0].clone(),
            arm: pair[1].clone(),
        })
        .collect();
    let blocks = compare_blocks(&pairs, 1, Outcome::CpuUsPerStatement).unwrap();
    assert_eq!(blocks.ratio.n, 8);
    assert!(blocks.ratio.half_width() > 2.0 * chain.ratio.half_width());
}

#[test]
fn too_little_is_refused_with_what_is_missing() {
    let windows = experiment(World::QUIET, 2, &[0.0, 0.0], 9);
    let error = compare_chain(&windows, 1, Outcome::Qps, &CompareSettings::default()).unwrap_err();
    assert!(
        error.to_string().contains("3") && error.to_string().contains("2 can be used"),
        "{error}"
    );
    let none = compare_chain(&[], 1, Outcome::Qps, &CompareSettings::default());
    assert!(none.is_err() && compare_lives(&[], 1, Outcome::Qps).is_err());
    assert!(compare_blocks(&[], 1, Outcome::Qps).is_err());
}

#[test]
fn json_names_stay() {
    let windows = experiment(World::QUIET, 10, &[0.0, 0.0], 10);
    let json = serde_json::to_value(cpu(&windows, 1)).unwrap();
    assert_eq!(json["outcome"], "cpu-us-per-statement");
    assert_eq!(json["unit"], "windows");
    assert!(json["ratio"]["low"].is_f64() && json["ratio"]["n"].is_u64());
    assert!(
        json["agree"].is_null(),
        "below 20 differences there is no bootstrap"
    );
}
