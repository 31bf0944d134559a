use super::*;
use crate::random::Random;
use crate::simulation::normal;

/// `none X none X ...` with 2% noise around `level(position)`.
fn chain(count: usize, level: impl Fn(usize) -> f64) -> Vec<Window> {
    let mut random = Random::new(11);
    (0..count)
        .map(|position| Window {
            arm: position % 2,
            life: 0,
            start_s: 0.75 * position as f64,
            duration_s: 0.7,
            statements: 1_000_000,
            server_cpu_ns: (1e9 * level(position) * (0.02 * normal(&mut random)).exp()) as u64,
            latency: None,
        })
        .collect()
}

fn marked(windows: &[Window]) -> Vec<usize> {
    let marks = disturbed_windows(windows, Outcome::CpuUsPerStatement);
    (0..windows.len())
        .filter(|&position| marks[position])
        .collect()
}

#[test]
fn bursts_are_marked_in_arm_and_base_alike() {
    let windows = chain(61, |position| match position {
        20 | 33 => 26.0,
        40 | 41 => 24.0,
        _ => 17.5,
    });
    assert_eq!(marked(&windows), [20, 33, 40, 41]);
}

#[test]
fn effects_drift_and_steps_are_not_marked() {
    let windows = chain(81, |position| {
        let effect = if position % 2 == 1 { 1.4 } else { 1.0 };
        let drift = 1.0 + 0.3 * (position as f64 / 12.0).sin();
        let step = if (30..57).contains(&position) {
            2.0
        } else {
            1.0
        };
        17.5 * effect * drift * step
    });
    assert_eq!(marked(&windows), [0_usize; 0]);
}

#[test]
fn equal_and_missing_values_are_not_marked() {
    let mut windows = chain(9, |_| 17.5);
    for window in &mut windows {
        window.server_cpu_ns = 17_500_000_000;
    }
    windows[4].server_cpu_ns += 20_000_000;
    windows[6].statements = 0;
    assert_eq!(marked(&windows), [0_usize; 0]);
    assert!(disturbed_windows(&[], Outcome::Qps).is_empty());
}

#[test]
fn the_noise_of_a_window_is_found_under_drift_and_bursts() {
    let windows = chain(400, |position| {
        let burst = if position % 25 == 3 { 1.5 } else { 1.0 };
        17.5 * burst * (1.0 + 0.3 * (position as f64 / 60.0).sin())
    });
    let noise = window_noise(&windows, Outcome::CpuUsPerStatement).unwrap();
    assert!((0.019..0.026).contains(&noise), "{noise}");
    assert_eq!(
        window_noise(&windows[..1], Outcome::CpuUsPerStatement),
        None
    );
}
