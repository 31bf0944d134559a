//! Noise that hangs together from window to window: do differences take it out?

use super::{BASE_US, normal};
use crate::compare::{CompareSettings, Outcome, Window, compare_chain};
use crate::random::Random;
use crate::schedule::{ArmPlan, chain_order};
use crate::tally::Tally;

/// `windows` windows for each of `arms` arms without an effect; noise of 4%, AR(1).
fn chain(windows: usize, arms: usize, correlation: f64, seed: u64) -> Vec<Window> {
    let plans: Vec<ArmPlan> = (1..=arms).map(|arm| ArmPlan { arm, windows }).collect();
    let mut random = Random::new(seed);
    let fresh = (1.0 - correlation * correlation).sqrt();
    let mut noise = normal(&mut random);
    let mut window = |(place, arm): (usize, usize)| {
        let us = BASE_US * (0.04 * noise).exp();
        noise = correlation * noise + fresh * normal(&mut random);
        Window {
            arm,
            life: 0,
            start_s: 0.75 * place as f64,
            duration_s: 0.7,
            statements: 60_000,
            server_cpu_ns: (us * 6e7) as u64,
            latency: None,
        }
    };
    let order = chain_order(&plans, seed).into_iter().enumerate();
    order.map(&mut window).collect()
}

#[test]
fn correlated_windows_are_covered() {
    let quick = CompareSettings {
        resamples: 0,
        ..CompareSettings::default()
    };
    for arms in [1, 3] {
        for correlation in [0.0, 0.3, 0.6] {
            for windows in [15, 30, 60, 150] {
                let covers = |seed| {
                    let windows = chain(windows, arms, correlation, seed);
                    let cpu = Outcome::CpuUsPerStatement;
                    compare_chain(&windows, 1, cpu, &quick)
                        .unwrap()
                        .ratio
                        .contains(1.0)
                };
                let covered: Tally = (0..if windows > 60 { 200 } else { 500 })
                    .map(covers)
                    .collect();
                println!("{arms} arms of {windows}, correlated by {correlation}: {covered}");
                assert!(covered.is_within(0.92, 0.985), "{covered}");
            }
        }
    }
}
