use super::*;
use crate::simulation::{Machine, World};

/// An A/A recording: `none` and its twin in turn, two lives.
fn recorded(world: World, seed: u64) -> Vec<Window> {
    let mut machine = Machine::new(world, seed);
    let order: Vec<usize> = (0..150).map(|at| at % 2).collect();
    let mut windows = machine.life(&order, &[0.0, 0.0]);
    windows.extend(machine.life(&order, &[0.0, 0.0]));
    windows
}

#[test]
fn nothing_is_called_something_in_about_one_of_twenty() {
    for (name, world) in [
        ("quiet", World::QUIET),
        ("drift", World::DRIFT),
        ("rough", World::ROUGH),
        ("steps", World::STEPS),
    ] {
        let settings = ResampleSettings {
            experiments: 2_000,
            ..ResampleSettings::default()
        };
        let found = resample_experiments(&recorded(world, 3), &[0, 1], &settings).unwrap();
        println!(
            "{name}: called different {}; covered {}",
            found.called_different, found.covered
        );
        assert!(
            found.called_different.is_within(0.02, 0.08),
            "{name}: {found:?}"
        );
        assert_eq!(found.called_different.hits + found.covered.hits, 2_000);
        assert_eq!(found.recorded, 300);
    }
}

#[test]
fn a_cost_that_was_put_in_is_covered() {
    let settings = ResampleSettings {
        cost: 0.06,
        ..ResampleSettings::default()
    };
    let found = resample_experiments(&recorded(World::ROUGH, 4), &[0, 1], &settings).unwrap();
    println!(
        "6%: covered {}, ±{:.2}%",
        found.covered,
        100.0 * found.half_width
    );
    assert!(found.covered.is_within(0.9, 0.99), "{found:?}");
    assert!(found.called_different.is_within(0.95, 1.0), "{found:?}");
    assert!((0.008..0.03).contains(&found.half_width));
}

#[test]
fn blocks_stay_within_a_life_and_join_without_a_jump() {
    let mut windows = recorded(World::QUIET, 5);
    for window in &mut windows {
        window.server_cpu_ns *= 1 + 9 * window.life as u64;
        window.statements = 60_000 + window.life as u64;
    }
    let pool = Pool::new(&windows, &[0, 1]).unwrap();
    let drawn = pool.draw(500, 12, &mut Random::new(1));
    assert_eq!(drawn.len(), 500);
    for block in drawn.chunks(12) {
        let lives: Vec<u64> = block.iter().map(|window| window.statements).collect();
        assert!(
            lives.iter().all(|life| *life == lives[0]),
            "a block of two lives"
        );
    }
    // Lives of a ninefold difference join without a jump: quiet windows differ by some percent.
    let us = |window: &Window| Outcome::CpuUsPerStatement.of(window).unwrap();
    assert!(
        drawn
            .windows(2)
            .all(|pair| (us(&pair[1]) / us(&pair[0])).ln().abs() < 0.35)
    );
    assert!(
        drawn
            .windows(2)
            .all(|pair| pair[0].start_s < pair[1].start_s)
    );
    // Lives shorter than a block give shorter blocks.
    for (at, window) in windows.iter_mut().enumerate() {
        window.life = at / 5;
    }
    let short = Pool::new(&windows, &[0, 1]).unwrap();
    assert_eq!(short.draw(33, 12, &mut Random::new(1)).len(), 33);
}

#[test]
fn the_seed_decides_and_arms_are_left_out() {
    let windows = recorded(World::ROUGH, 6);
    let few = ResampleSettings {
        experiments: 20,
        ..ResampleSettings::default()
    };
    let run = |same: &[usize], settings| resample_experiments(&windows, same, &settings).unwrap();
    assert_eq!(run(&[0, 1], few), run(&[0, 1], few));
    let other = run(&[0, 1], ResampleSettings { seed: 2, ..few });
    assert_ne!(run(&[0, 1], few).half_width, other.half_width);
    assert_eq!(run(&[0], few).recorded, 150);
    let error = resample_experiments(&windows[..30], &[0, 1], &few).unwrap_err();
    assert!(error.to_string().contains("30 can be used"), "{error}");
}
