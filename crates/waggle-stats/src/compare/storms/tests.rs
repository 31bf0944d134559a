use super::*;
use crate::random::Random;
use crate::schedule::{ArmPlan, chain_order};
use crate::simulation::{Machine, World, normal};

const GIB: u64 = 1 << 30;

fn windows(seed: u64) -> Vec<Window> {
    let plans = [1, 2].map(|arm| ArmPlan { arm, windows: 40 });
    Machine::new(World::ROUGH, seed).life(&chain_order(&plans, seed), &[0.0, 0.0, 0.1])
}

/// A server that writes about 300 pages a window, evenly but for noise of `spread`.
fn even(windows: &[Window], spread: f64, seed: u64) -> Vec<WindowCounters> {
    let mut random = Random::new(seed);
    windows
        .iter()
        .enumerate()
        .map(|(at, _)| {
            let age = GIB / 2 + at as u64 % 7 * 1_000_000;
            WindowCounters {
                pages_flushed: Some((300.0 * (spread * normal(&mut random)).exp()) as u64),
                checkpoint_age_start: Some(age),
                checkpoint_age_end: Some(age + 500_000),
                log_capacity: Some(GIB),
                ..WindowCounters::default()
            }
        })
        .collect()
}

fn marked(marks: &StormMarks) -> Vec<usize> {
    (0..marks.marks.len())
        .filter(|&at| marks.marks[at].is_some())
        .collect()
}

#[test]
fn even_flushing_is_no_storm_however_much() {
    let windows = windows(1);
    let mut all = 0;
    for seed in 0..50 {
        let marks = mark_storms(&windows, &even(&windows, 0.3, seed));
        all += marked(&marks).len();
        assert!(marks.uneven.is_empty());
    }
    // 50 times 161 windows whose flushing varies by a third.
    assert!(
        all <= 8,
        "{all} windows of an even server are called storms"
    );
    let mut none = even(&windows, 0.0, 1);
    none.iter_mut().for_each(|one| one.pages_flushed = Some(0));
    none[7].pages_flushed = Some(PAGES_MIN - 1);
    assert_eq!(
        marked(&mark_storms(&windows, &none)),
        [0; 0],
        "next to nothing is no storm"
    );
    none[7].pages_flushed = Some(PAGES_MIN);
    assert_eq!(marked(&mark_storms(&windows, &none)), [7]);
}

#[test]
fn storms_and_checkpoints_are_marked_by_their_kind() {
    let windows = windows(2);
    let mut counters = even(&windows, 0.2, 2);
    counters[10].pages_flushed = Some(2_500);
    counters[20].checkpoint_age_start = Some(GIB / 10 * 7);
    counters[20].checkpoint_age_end = Some(GIB / 10 * 5);
    counters[30].checkpoint_age_end = Some(GIB / 100 * 88);
    counters[30].pages_flushed = Some(9_000);
    let marks = mark_storms(&windows, &counters);
    assert_eq!(marked(&marks), [10, 20, 30]);
    let kinds = [10, 20, 30].map(|at: usize| marks.marks[at].unwrap());
    assert_eq!(
        kinds,
        [Storm::FlushStorm, Storm::Checkpoint, Storm::SyncFlush]
    );
    assert_eq!(serde_json::to_string(&kinds[2]).unwrap(), "\"sync-flush\"");
}

#[test]
fn the_rule_does_not_see_arms() {
    let mut windows = windows(3);
    let mut counters = even(&windows, 0.4, 3);
    for at in (0..windows.len()).step_by(9) {
        counters[at].pages_flushed = Some(3_000);
    }
    let marks = mark_storms(&windows, &counters).marks;
    let mut random = Random::new(1);
    let mut arms: Vec<usize> = windows.iter().map(|window| window.arm).collect();
    random.shuffle(&mut arms);
    for (window, arm) in windows.iter_mut().zip(arms) {
        window.arm = arm;
        window.server_cpu_ns *= 1 + arm as u64;
    }
    assert_eq!(marks, mark_storms(&windows, &counters).marks);
}

#[test]
fn an_arm_that_brings_storms_is_named() {
    let windows = windows(4);
    let mut counters = even(&windows, 0.2, 4);
    let of_arm = (0..windows.len()).filter(|&at| windows[at].arm == 2);
    for at in of_arm.step_by(5) {
        counters[at].pages_flushed = Some(4_000);
    }
    let marks = mark_storms(&windows, &counters);
    assert_eq!(marks.uneven, [2]);
    assert_eq!(
        marks.by_arm[2],
        ArmStorms {
            arm: 2,
            marked: 8,
            windows: 40
        }
    );
    let quick = CompareSettings {
        resamples: 0,
        ..CompareSettings::default()
    };
    let without = compare_without_marked(&windows, &marks, 2, Outcome::Qps, &quick).unwrap();
    assert_eq!(without.windows_arm, 32);
}

#[test]
fn what_a_server_does_not_tell_marks_nothing() {
    let windows = windows(5);
    let silent = vec![WindowCounters::default(); windows.len()];
    assert_eq!(marked(&mark_storms(&windows, &silent)), [0; 0]);
    assert_eq!(mark_storms(&windows, &[]).marks.len(), windows.len());
    // No capacity: how full the log is cannot be told, a fall of the age still can.
    let mut ages = silent;
    for (at, counters) in ages.iter_mut().enumerate() {
        counters.checkpoint_age_start = Some(1_000_000 + at as u64);
        counters.checkpoint_age_end = Some(1_000_050 + at as u64);
    }
    assert_eq!(marked(&mark_storms(&windows, &ages)), [0; 0]);
    ages[12].checkpoint_age_end = Some(500_000);
    assert_eq!(marked(&mark_storms(&windows, &ages)), [12]);
}

/// Lives are apart: a server that starts with an empty buffer pool writes less, not the next more.
#[test]
fn each_life_has_its_own_level() {
    let mut windows = windows(6);
    let mut counters = even(&windows, 0.1, 6);
    for at in 80..windows.len() {
        windows[at].life = 1;
        counters[at].pages_flushed = counters[at].pages_flushed.map(|pages| 20 * pages);
    }
    assert_eq!(marked(&mark_storms(&windows, &counters)), [0; 0]);
}
