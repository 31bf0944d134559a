use super::*;

fn window(arm: usize, start_s: f64, us: f64) -> Window {
    Window {
        arm,
        life: 0,
        start_s,
        duration_s: 0.7,
        statements: 1_000_000,
        server_cpu_ns: (us * 1e9).round() as u64,
        latency: None,
    }
}

fn differences(windows: &[Window], arm: usize) -> Vec<f64> {
    let found = chain_differences(windows, arm, Outcome::CpuUsPerStatement, Scale::Plain);
    found.iter().map(|difference| difference.value).collect()
}

#[test]
fn a_straight_drift_cancels_even_when_windows_are_not_evenly_spaced() {
    let starts = [0.0, 1.0, 1.9, 5.0, 5.8, 6.5, 9.0];
    let arms = [0, 1, 0, 2, 0, 1, 0];
    let cost = |arm: usize, at_s: f64| 17.5 + 0.3 * at_s + [0.0, 1.4, -0.5][arm];
    let windows: Vec<Window> = starts
        .iter()
        .zip(arms)
        .map(|(&at_s, arm)| window(arm, at_s, cost(arm, at_s)))
        .collect();
    for (arm, effect) in [(1, 1.4), (2, -0.5)] {
        for difference in differences(&windows, arm) {
            assert!(
                (difference - effect).abs() < 1e-9,
                "arm {arm}: {difference}"
            );
        }
    }
    assert_eq!(differences(&windows, 1).len(), 2);
    assert!(differences(&windows, BASE_ARM).is_empty());
}

#[test]
fn a_window_without_a_usable_neighbour_in_its_life_gives_nothing() {
    let mut windows: Vec<Window> = [1, 0, 1, 0, 1, 0]
        .iter()
        .zip(0..)
        .map(|(&arm, at)| window(arm, f64::from(at), 17.5))
        .collect();
    assert_eq!(
        differences(&windows, 1).len(),
        2,
        "the first has nothing on its left"
    );
    windows[3].statements = 0;
    let links = chain_differences(&windows, 1, Outcome::CpuUsPerStatement, Scale::Log);
    let ends: Vec<(usize, usize)> = links.iter().map(|d| (d.link.left, d.link.right)).collect();
    assert_eq!(ends, [(1, 5), (1, 5)], "the unusable `none` is passed over");
    assert!((links[0].link.left_weight - 0.75).abs() < 1e-12);
    for late in &mut windows[4..] {
        late.life = 1;
    }
    assert!(
        differences(&windows, 1).is_empty(),
        "another life is no neighbour"
    );
}

#[test]
fn scales_and_outcomes() {
    let mut windows = [
        window(0, 0.0, 10.0),
        window(1, 1.0, 11.0),
        window(0, 2.0, 10.0),
    ];
    let ratio = chain_differences(&windows, 1, Outcome::CpuUsPerStatement, Scale::Log)[0].value;
    assert!((ratio - 1.1_f64.ln()).abs() < 1e-12);
    windows[1].statements /= 2;
    let qps = chain_differences(&windows, 1, Outcome::Qps, Scale::Log)[0].value;
    assert!((qps - 0.5_f64.ln()).abs() < 1e-12);
    let p99 = chain_differences(&windows, 1, Outcome::LatencyP99Us, Scale::Log);
    assert!(p99.is_empty(), "not measured");
}

#[test]
fn the_shared_neighbour_factor_follows_from_the_weights() {
    let link = |window: usize| Link {
        window,
        left: window - 1,
        right: window + 1,
        left_weight: 0.5,
    };
    // Squared weights 1 + 1 + (1/2)^2 + (1/2)^2 + 1^2 over 2 * 3/2.
    let two = shared_neighbour_factor(&[link(1), link(3)]);
    assert!((two - 3.5 / 3.0).abs() < 1e-12, "{two}");
    assert!((shared_neighbour_factor(&[link(1), link(5)]) - 1.0).abs() < 1e-12);
    let all: Vec<Link> = (0..1_000).map(|i| link(2 * i + 1)).collect();
    assert!((shared_neighbour_factor(&all) - 4.0 / 3.0).abs() < 1e-3);
    assert_eq!(shared_neighbour_factor(&[]), 1.0);
}
