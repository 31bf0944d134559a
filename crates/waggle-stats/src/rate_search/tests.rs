//! The search against a simulated server whose limit is known: a queue with Poisson arrivals,
//! exponential service and `SERVERS` threads (M/M/c), noise of steps included.

use super::*;
use crate::random::Random;

const SERVERS: usize = 4;
/// A second, each thread.
const SERVICE_RATE: f64 = 250.0;
const QUANTILE: f64 = 0.99;
const LIMIT_US: f64 = 50_000.0;

fn exponential(random: &mut Random, rate: f64) -> f64 {
    -(1.0 - random.next_unit()).ln() / rate
}

/// One step at `proposal.rate`, from an empty queue.
fn run_step(proposal: &Proposal, random: &mut Random) -> Step {
    let mut free_at = [0.0_f64; SERVERS];
    let (mut now, mut due, mut ended, mut age_s) = (0.0, 0_u64, 0_u64, 0.0_f64);
    let mut responses = Vec::new();
    loop {
        now += exponential(random, proposal.rate);
        if now > proposal.length_s {
            break;
        }
        due += 1;
        let first = free_at
            .iter_mut()
            .min_by(|left, right| left.total_cmp(right))
            .expect("there are threads");
        let begins = first.max(now);
        *first = begins + exponential(random, SERVICE_RATE);
        if begins > proposal.length_s {
            age_s = age_s.max(proposal.length_s - now);
        }
        if *first <= proposal.length_s {
            ended += 1;
            responses.push(*first - now);
        }
    }
    responses.sort_by(f64::total_cmp);
    let at = ((responses.len() as f64 * QUANTILE) as usize).min(responses.len().max(1) - 1);
    Step {
        rate: due as f64 / proposal.length_s,
        achieved: ended as f64 / proposal.length_s,
        latency_us: responses.get(at).map(|s| s * 1e6),
        backlog_age_us: age_s * 1e6,
        dropped: 0,
        failed: false,
    }
}

/// Probability that a response takes longer than `t` seconds, in the long run (Erlang C; the sum of
/// waiting, which is exponential if there is any, and service).
fn response_tail(rate: f64, t: f64) -> f64 {
    let (servers, load) = (SERVERS as f64, rate / SERVICE_RATE);
    let mut term = 1.0;
    let mut sum = 0.0;
    for k in 0..SERVERS {
        sum += term;
        term *= load / (k as f64 + 1.0);
    }
    let waits = term / (1.0 - load / servers);
    let waits = waits / (sum + waits);
    let spare = servers * SERVICE_RATE - rate;
    let (service, both) = (SERVICE_RATE, SERVICE_RATE - spare);
    let with_wait = (service * (-spare * t).exp() - spare * (-service * t).exp()) / both;
    (1.0 - waits) * (-service * t).exp() + waits * with_wait
}

/// The rate at which the long-run percentile is the limit.
fn true_rate() -> f64 {
    let (mut low, mut high) = (1.0, SERVERS as f64 * SERVICE_RATE - 1e-6);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if response_tail(middle, LIMIT_US / 1e6) > 1.0 - QUANTILE {
            high = middle;
        } else {
            low = middle;
        }
    }
    low
}

fn settings(first_rate: f64, step_s: f64) -> SearchSettings {
    SearchSettings {
        first_rate,
        step_s,
        quantile: QUANTILE,
        limit_us: LIMIT_US,
        tolerance: 0.03,
    }
}

#[test]
fn the_limit_of_a_simulated_server_is_found() {
    let truth = true_rate();
    assert!((850.0..950.0).contains(&truth), "{truth}");
    let (mut near, mut steps) = (0, 0);
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let first_rate = 20.0 * 400.0_f64.powf(random.next_unit());
        let mut search = RateSearch::new(settings(first_rate, 10.0));
        while let Some(proposal) = search.next() {
            let mut step = run_step(&proposal, &mut random);
            step.rate = proposal.rate;
            search.take(step);
        }
        steps += search.steps().len();
        let Found::Between { holds, fails } = search.found() else {
            panic!("seed {seed}: {:?}", search.found())
        };
        assert!(fails > holds && fails - holds <= 0.03 * fails);
        assert!(
            holds < 1.08 * truth,
            "seed {seed}: {holds} clearly fails at {truth}"
        );
        near += u32::from((holds / truth - 1.0).abs() <= 0.05);
    }
    println!("{near} of 200, {steps} steps, truth {truth}");
    assert!(near >= 160, "within 5% in {near} of 200");
    assert!(steps <= 200 * 18, "{steps}");
}

/// A server without noise: everything above `limit` fails.
fn exact(limit: f64, first_rate: f64) -> RateSearch {
    let mut search = RateSearch::new(settings(first_rate, 1.0));
    while let Some(proposal) = search.next() {
        let slow = proposal.rate > limit;
        search.take(Step {
            rate: proposal.rate,
            achieved: proposal.rate.min(limit),
            latency_us: Some(if slow { 2.0 * LIMIT_US } else { 1.0 }),
            backlog_age_us: 0.0,
            dropped: 0,
            failed: false,
        });
    }
    search
}

#[test]
fn it_begins_anywhere_and_ends() {
    for first_rate in [0.5, 10.0, 999.0, 1000.0, 1001.0, 1e6] {
        let Found::Between { holds, fails } = exact(1000.0, first_rate).found() else {
            panic!("{first_rate}")
        };
        assert!(holds <= 1000.0 && fails > 1000.0 && fails - holds <= 0.03 * fails);
    }
    let none = exact(0.0, 100.0).found();
    assert!(
        matches!(none, Found::NoneHolds { fails } if fails < 0.001),
        "{none:?}"
    );
    let all = exact(f64::INFINITY, 100.0).found();
    assert!(
        matches!(all, Found::NoneFails { holds } if holds > 1e7),
        "{all:?}"
    );
}

#[test]
fn a_lucky_step_is_not_believed() {
    let mut search = RateSearch::new(settings(100.0, 1.0));
    let mut luck = 0;
    while let Some(proposal) = search.next() {
        // 160 fails in truth and holds once.
        let lucky = luck == 0 && proposal.rate > 110.0 && proposal.rate < 190.0;
        luck += u32::from(lucky);
        let holds = proposal.rate <= 110.0 || lucky;
        search.take(Step {
            rate: proposal.rate,
            achieved: proposal.rate,
            latency_us: Some(if holds { 1.0 } else { 2.0 * LIMIT_US }),
            backlog_age_us: 0.0,
            dropped: 0,
            failed: false,
        });
    }
    let Found::Between { holds, .. } = search.found() else {
        panic!("{:?}", search.found())
    };
    assert!(luck == 1 && holds <= 110.0, "{holds}");
}

#[test]
fn a_rate_that_is_not_carried_fails_whatever_its_latency() {
    let search = RateSearch::new(settings(100.0, 1.0));
    let good = Step {
        rate: 100.0,
        achieved: 99.0,
        latency_us: Some(1.0),
        backlog_age_us: 0.0,
        dropped: 0,
        failed: false,
    };
    assert_eq!(search.broken(&good), None);
    let cases = [
        (
            Step {
                achieved: 90.0,
                ..good
            },
            Broken::Throughput,
        ),
        (
            Step {
                latency_us: Some(LIMIT_US + 1.0),
                ..good
            },
            Broken::Latency,
        ),
        (
            Step {
                latency_us: None,
                ..good
            },
            Broken::Latency,
        ),
        (
            Step {
                backlog_age_us: LIMIT_US + 1.0,
                ..good
            },
            Broken::Backlog,
        ),
        (Step { dropped: 1, ..good }, Broken::Dropped),
        (
            Step {
                failed: true,
                ..good
            },
            Broken::Failed,
        ),
    ];
    for (step, broken) in cases {
        assert_eq!(search.broken(&step), Some(broken));
    }
}

#[test]
fn a_step_is_long_enough_for_its_percentile() {
    let length_s = |rate: f64| {
        RateSearch::new(settings(rate, 10.0))
            .next()
            .map(|p| p.length_s)
    };
    for (rate, wanted_s) in [(1_000.0, 10.0), (100.0, 20.0), (1.0, 40.0)] {
        let found_s = length_s(rate).expect("a first step");
        assert!((found_s - wanted_s).abs() < 1e-6, "{rate}: {found_s}");
    }
}
