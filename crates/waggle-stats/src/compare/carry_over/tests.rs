use super::*;
use crate::compare::{CompareSettings, compare_chain};
use crate::schedule::{ArmPlan, chain_order};
use crate::simulation::{Carry, Machine, World};
use crate::tally::Tally;

const CPU: Outcome = Outcome::CpuUsPerStatement;

/// Three arms, 40 windows each: the A/A arm, one of 5%, one of 8%.
const EFFECTS: [f64; 4] = [0.0, 0.0, 0.05, 0.08];

fn run(world: World, carries: &[Carry; 4], seed: u64) -> Vec<SlicedWindow> {
    let plans = [1, 2, 3].map(|arm| ArmPlan { arm, windows: 40 });
    Machine::new(world, seed).sliced(&chain_order(&plans, seed), &EFFECTS, carries)
}

fn settled(windows: &[SlicedWindow], settle_s: f64) -> Vec<Window> {
    windows
        .iter()
        .map(|window| settled_window(window, settle_s))
        .collect()
}

#[test]
fn nothing_is_found_where_there_is_nothing() {
    for (name, world) in [
        ("quiet", World::QUIET),
        ("drift", World::DRIFT),
        ("rough", World::ROUGH),
        ("steps", World::STEPS),
    ] {
        let false_alarm =
            |seed| carry_overs(&run(world, &[Carry::NONE; 4], seed), CPU).settle_s > 0.0;
        let alarms: Tally = (0..300).map(false_alarm).collect();
        println!("{name}: false alarms {alarms}");
        assert!(alarms.is_within(0.0, 0.08), "{name}: {alarms}");
    }
}

/// What 100 runs of a world find, where arm 2 leaves `carry` behind.
struct Found {
    expected: Tally,
    others: Tally,
    untrimmed: Tally,
    trimmed: Tally,
    bias: [f64; 2],
    cut_s: f64,
}

fn search(world: World, carry: Carry) -> Found {
    let carries = [Carry::NONE, Carry::NONE, carry, Carry::NONE];
    let truth = EFFECTS[2].exp();
    let none = Tally::default();
    let mut found = Found {
        expected: none,
        others: none,
        untrimmed: none,
        trimmed: none,
        bias: [0.0; 2],
        cut_s: 0.0,
    };
    let quick = CompareSettings {
        resamples: 0,
        ..CompareSettings::default()
    };
    for seed in 0..100 {
        let windows = run(world, &carries, seed);
        let carried = carry_overs(&windows, CPU);
        let is_there = |switch: Switch| {
            (carry.on > 0.0 && switch == Switch::On(2))
                || (carry.off > 0.0 && switch == Switch::Off(2))
        };
        let any = |there: bool| {
            let lasts = |one: &CarryOver| is_there(one.switch) == there && one.lasts_s > 0.0;
            carried.switches.iter().any(lasts)
        };
        found.expected.add(any(true));
        found.others.add(any(false));
        found.cut_s += carried.settle_s / 100.0;
        let ratio = |settle_s: f64| {
            let windows = settled(&windows, settle_s);
            compare_chain(&windows, 2, CPU, &quick).unwrap().ratio
        };
        let (before, after) = (ratio(0.0), ratio(carried.settle_s));
        found.untrimmed.add(before.contains(truth));
        found.trimmed.add(after.contains(truth));
        found.bias[0] += (before.estimate - truth) / 100.0;
        found.bias[1] += (after.estimate - truth) / 100.0;
    }
    found
}

#[test]
fn what_is_carried_over_is_found_and_trimmed() {
    let off = Carry {
        on: 0.0,
        off: 0.3,
        decay_s: 0.07,
    };
    let both = Carry {
        on: 0.3,
        off: 0.3,
        decay_s: 0.15,
    };
    for (name, world) in [("quiet", World::QUIET), ("rough", World::ROUGH)] {
        for carry in [off, both] {
            let found = search(world, carry);
            println!(
                "{name}, {carry:?}: found {}, elsewhere {}, cut {:.3} s; covered {} bias {:+.2}%, \
                 trimmed {} bias {:+.2}%",
                found.expected,
                found.others,
                found.cut_s,
                found.untrimmed,
                100.0 * found.bias[0],
                found.trimmed,
                100.0 * found.bias[1],
            );
            assert!(found.expected.is_within(0.97, 1.0), "{}", found.expected);
            assert!(found.others.is_within(0.0, 0.1), "{}", found.others);
            assert!(found.bias[1].abs() < 0.4 * found.bias[0].abs());
            assert!(found.trimmed.hits > found.untrimmed.hits + 10);
        }
    }
}

#[test]
fn an_effect_that_goes_on_for_the_whole_window_is_unsettled() {
    let slow = Carry {
        on: 0.0,
        off: 0.6,
        decay_s: 0.3,
    };
    let carries = [Carry::NONE, Carry::NONE, slow, Carry::NONE];
    let found = carry_overs(&run(World::QUIET, &carries, 1), CPU);
    assert!(!found.settled, "{found:?}");
    let unsettled: Vec<Switch> = found
        .switches
        .iter()
        .filter(|one| !one.settled)
        .map(|one| one.switch)
        .collect();
    assert_eq!(unsettled, [Switch::Off(2)]);
}

#[test]
fn switches_are_told_apart_and_lives_do_not_touch() {
    let mut windows = run(World::QUIET, &[Carry::NONE; 4], 2);
    let all: Vec<Switch> = by_switch(&windows)
        .into_iter()
        .map(|(switch, _)| switch)
        .collect();
    let on_and_off = [1, 2, 3]
        .map(Switch::On)
        .into_iter()
        .chain([1, 2, 3].map(Switch::Off));
    assert_eq!(all, on_and_off.collect::<Vec<_>>());
    for (life, window) in windows.iter_mut().enumerate() {
        window.window.life = life;
    }
    assert!(
        by_switch(&windows)
            .iter()
            .all(|(switch, _)| matches!(switch, Switch::On(_)))
    );
}

#[test]
fn a_trimmed_window_is_what_its_later_slices_say() {
    let sliced = &run(World::QUIET, &[Carry::NONE; 4], 3)[4];
    let whole = settled_window(sliced, 0.0);
    assert_eq!(whole.statements, sliced.window.statements);
    let part = settled_window(sliced, 0.14);
    let later = &sliced.slices[2..];
    assert_eq!(
        part.statements,
        later.iter().map(|slice| slice.statements).sum::<u64>()
    );
    assert!((part.duration_s - 0.56).abs() < 1e-9);
    assert!((part.start_s - sliced.switched_s - 0.14).abs() < 1e-9);
    assert_eq!(
        settled_window(sliced, 9.0),
        sliced.window,
        "nothing left: as it was"
    );
}

#[test]
fn too_little_finds_nothing() {
    let carries = [Carry {
        on: 0.5,
        off: 0.5,
        decay_s: 0.1,
    }; 4];
    let windows = run(World::QUIET, &carries, 4);
    assert!(!carry_overs(&windows, CPU).switches.is_empty());
    let found = carry_overs(&windows[..12], CPU);
    assert_eq!(
        (found.switches.len(), found.settle_s, found.settled),
        (0, 0.0, true)
    );
    assert!(
        carry_overs(&windows, Outcome::LatencyP99Us)
            .switches
            .is_empty()
    );
    let coarse: Vec<SlicedWindow> = windows
        .iter()
        .map(|window| SlicedWindow {
            slices: window.slices[..4].to_vec(),
            ..window.clone()
        })
        .collect();
    assert!(carry_overs(&coarse, CPU).switches.is_empty());
    let read: SlicedWindow =
        serde_json::from_str(&serde_json::to_string(&windows[0]).unwrap()).unwrap();
    assert_eq!(read.slices.len(), windows[0].slices.len());
}
