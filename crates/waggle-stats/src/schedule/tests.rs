use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn plans(windows: &[usize]) -> Vec<ArmPlan> {
    windows
        .iter()
        .zip(1..)
        .map(|(&windows, arm)| ArmPlan { arm, windows })
        .collect()
}

fn counts(order: &[usize]) -> BTreeMap<usize, usize> {
    let mut counts = BTreeMap::new();
    for arm in order {
        *counts.entry(*arm).or_insert(0) += 1;
    }
    counts
}

proptest! {
    #[test]
    fn every_arm_gets_its_windows_and_no_arm_repeats_where_it_can_be_avoided(
        windows in prop::collection::vec(0_usize..40, 1..7),
        seed: u64,
    ) {
        let order = arm_order(&plans(&windows), seed);
        for (arm, wanted) in windows.iter().enumerate() {
            prop_assert_eq!(order.iter().filter(|&&found| found == arm + 1).count(), *wanted);
        }
        let most = windows.iter().max().copied().unwrap_or(0);
        let others = order.len() - most;
        let unavoidable = most.saturating_sub(others + 1);
        let repeats = order.windows(2).filter(|pair| pair[0] == pair[1]).count();
        prop_assert!(repeats <= unavoidable, "{} repeats in {:?}", repeats, order);
    }

    #[test]
    fn every_prefix_is_balanced(rounds in 5_usize..40, arms in 2_usize..7, seed: u64) {
        let order = arm_order(&plans(&vec![rounds; arms]), seed);
        for upto in 0..=order.len() {
            let fair = upto as f64 / arms as f64;
            for arm in 1..=arms {
                let found = order[..upto].iter().filter(|&&found| found == arm).count() as f64;
                prop_assert!((found - fair).abs() <= 2.5, "{} of arm {} in {}", found, arm, upto);
            }
        }
    }

    #[test]
    fn pairs_begin_with_either_as_often(pairs in 0_usize..40, seed: u64) {
        let base_first = pair_order(pairs, seed).iter().filter(|&&first| first).count();
        prop_assert!(base_first.abs_diff(pairs - base_first) <= 1);
    }
}

#[test]
fn none_lies_between_any_two_arms() {
    let chain = chain_order(&plans(&[5, 5, 9]), 3);
    assert_eq!(chain.len(), 39);
    assert!(chain.iter().step_by(2).all(|&arm| arm == BASE_ARM));
    assert!(chain.iter().skip(1).step_by(2).all(|&arm| arm != BASE_ARM));
    assert!(with_base(&[]).is_empty());
}

#[test]
fn the_seed_decides() {
    let plans = plans(&[10, 10, 10]);
    assert_eq!(chain_order(&plans, 1), chain_order(&plans, 1));
    assert_ne!(chain_order(&plans, 1), chain_order(&plans, 2));
}

fn progress(arm: usize, windows: usize, half_width: Option<f64>) -> ArmProgress {
    ArmProgress {
        arm,
        windows,
        half_width,
        target: 0.015,
    }
}

#[test]
fn time_goes_where_the_interval_is_widest() {
    // Half-width twice the target: three times as many windows again; once: none.
    let arms = [
        progress(1, 30, Some(0.030)),
        progress(2, 30, Some(0.015)),
        progress(3, 30, Some(0.017)),
    ];
    let missing: Vec<usize> = arms.iter().map(|arm| arm.windows_missing(20)).collect();
    assert_eq!(missing, [90, 0, 9]);
    let mut chooser = Chooser::new(1, 20);
    let mut all = Vec::new();
    for _ in 0..100 {
        let round = chooser.next_round(&arms, 8);
        assert_eq!(round.len(), 8);
        all.extend(round);
    }
    let counts = counts(&all);
    assert_eq!(counts.get(&2), None);
    assert!((720..735).contains(&counts[&1]), "{counts:?}");
}

#[test]
fn early_widths_are_not_believed_and_the_end_is_known() {
    let mut chooser = Chooser::new(1, 20);
    let early = [progress(1, 4, Some(0.001)), progress(2, 0, None)];
    let counts = counts(&chooser.next_round(&early, 36));
    assert_eq!((counts[&1], counts[&2]), (16, 20));
    assert!(
        chooser
            .next_round(&[progress(1, 20, Some(0.01))], 8)
            .is_empty()
    );
    assert_eq!(
        chooser
            .next_round(&[progress(1, 20, Some(0.0151))], 8)
            .len(),
        1
    );
    assert!(chooser.next_round(&[], 8).is_empty());
}

#[test]
fn rounds_do_not_repeat_an_arm_across_their_border() {
    let mut chooser = Chooser::new(9, 20);
    let arms = [
        progress(1, 0, None),
        progress(2, 0, None),
        progress(3, 0, None),
    ];
    let mut last = None;
    for _ in 0..50 {
        let round = chooser.next_round(&arms, 6);
        assert_ne!(round.first().copied(), last);
        last = round.last().copied();
    }
}
