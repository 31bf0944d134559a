use super::*;
use crate::truth::Cost;

#[test]
fn the_truth_is_what_burning_costs_more_than_nothing() {
    let round = |nothing_ns: f64, kernel_ns: f64| TruthRound {
        nothing_ns,
        costs: vec![Cost {
            asked_ns: 1_000,
            kernel_ns,
            own_ns: 1_020.0,
            runs: 4_000,
        }],
    };
    let rounds = [round(30.0, 1_080.0), round(50.0, 1_110.0)];
    let found = truths(&rounds.iter().collect::<Vec<_>>());
    assert_eq!(found.len(), 1);
    assert!((found[&1_000].estimate - 1.055).abs() < 1e-9, "{found:?}");
}

/// A run in which the arm costs 1 us more than the base's 20, with an even ripple.
fn recorded(cost_ns: u64) -> Recorded {
    let names = BTreeMap::from([
        (0, "probe-empty".into()),
        (1, SAME.into()),
        (2, arm_of(1_000)),
    ]);
    let order = (0..240).map(|place| [0, 1, 0, 2][place % 4]).chain([0]);
    let window = |(place, arm): (usize, usize)| Window {
        arm,
        life: 0,
        start_s: place as f64 * 0.2,
        duration_s: 0.15,
        statements: 1_000,
        server_cpu_ns: 20_000_000
            + if arm == 2 { cost_ns * 1_000 } else { 0 }
            + (place as u64 * 7_919 % 13) * 10_000,
        latency: None,
    };
    Recorded {
        windows: order.enumerate().map(window).collect(),
        names,
    }
}

#[test]
fn a_cost_that_is_there_is_covered_and_one_that_is_not_is_missed() {
    let truths = BTreeMap::from([(
        1_000,
        Interval {
            estimate: 1.0,
            low: 0.99,
            high: 1.01,
            n: 8,
        },
    )]);
    let covered = |cost_ns| {
        let runs = [recorded(cost_ns)];
        let found = known(&runs, &truths);
        let one = found
            .iter()
            .find(|cost| cost.asked_ns == 1_000)
            .expect("1 us");
        assert_eq!(one.covered.of, 5, "60 windows are five experiments of 12");
        one.covered.hits
    };
    assert_eq!(covered(1_000), 5);
    assert_eq!(covered(3_000), 0);
}

#[test]
fn a_round_that_was_interrupted_does_not_move_the_truth() {
    let round = |kernel_ns| TruthRound {
        nothing_ns: 30.0,
        costs: vec![Cost {
            asked_ns: 10_000,
            kernel_ns,
            own_ns: kernel_ns,
            runs: 4_000,
        }],
    };
    let mut rounds: Vec<TruthRound> = (0..24)
        .map(|n| round(10_230.0 + f64::from(n % 3)))
        .collect();
    rounds[7] = round(22_000.0);
    let rounds: Vec<&TruthRound> = rounds.iter().collect();
    let truth = truths(&rounds)[&10_000];
    assert!((truth.estimate - 10.2).abs() < 0.01, "{truth:?}");
    let two = truths(&rounds[7..9])[&10_000];
    assert!(two.estimate > 15.0, "two rounds are what they are: {two:?}");
}

#[test]
fn too_few_trials_are_neither_held_nor_missed() {
    let tally = |hits, of| Tally { hits, of };
    assert_eq!(share("a", tally(9, 190), 200, (0.02, 0.08)).holds, None);
    assert_eq!(
        share("a", tally(9, 200), 200, (0.02, 0.08)).holds,
        Some(true)
    );
    assert_eq!(
        share("a", tally(30, 200), 200, (0.02, 0.08)).holds,
        Some(false)
    );
    assert_eq!(share("a", tally(0, 0), 200, (0.02, 0.08)).found, "no trial");
}
