//! What would a lab on a machine that nobody can keep quiet measure, when the truth is known?
//!
//! Only for tests: a model of the 2-core guest the lab was made on. Its speed drifts by a factor
//! of two over a minute or two, jumps when a neighbour starts and stops, its windows have
//! heavy-tailed noise, and some are hit by a burst that lasts for a window or two.

mod correlated;
mod coverage;
mod nested;
mod sliced;

pub(crate) use sliced::Carry;

use crate::compare::window::{Window, WindowLatency};
use crate::random::Random;

/// Server CPU per statement on the undisturbed machine, as measured: 17.5 us.
pub(crate) const BASE_US: f64 = 17.5;

/// Shape of a window's own noise, all with the stated standard deviation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tail {
    Normal,
    /// Student's t with three degrees of freedom.
    Heavy,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct World {
    pub(crate) noise: f64,
    pub(crate) tail: Tail,
    /// Highest over lowest cost of the slow drift; 1 for none.
    pub(crate) drift_factor: f64,
    pub(crate) drift_period_s: f64,
    /// Cost factor while a competing process runs (on and off every 20 s); 1 for none.
    pub(crate) step_factor: f64,
    /// Standard deviation of what a whole server life is off by (layout, warm-up).
    pub(crate) life_noise: f64,
    /// Probability that a burst begins in a window.
    pub(crate) burst_probability: f64,
    /// Shape of the windows: length and pause, in seconds.
    pub(crate) window_s: f64,
    pub(crate) pause_s: f64,
}

impl World {
    pub(crate) const QUIET: World = World {
        noise: 0.04,
        tail: Tail::Normal,
        drift_factor: 1.0,
        drift_period_s: 60.0,
        step_factor: 1.0,
        life_noise: 0.0,
        burst_probability: 0.0,
        window_s: 0.7,
        pause_s: 0.05,
    };
    pub(crate) const DRIFT: World = World {
        drift_factor: 2.0,
        ..World::QUIET
    };
    pub(crate) const ROUGH: World = World {
        tail: Tail::Heavy,
        burst_probability: 0.04,
        ..World::DRIFT
    };
    pub(crate) const STEPS: World = World {
        step_factor: 2.0,
        ..World::ROUGH
    };
}

pub(crate) fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.next_unit()).ln()).sqrt();
    radius * (2.0 * std::f64::consts::PI * random.next_unit()).cos()
}

fn noise(world: &World, random: &mut Random) -> f64 {
    let shape = match world.tail {
        Tail::Normal => normal(random),
        Tail::Heavy => {
            let chi_square: f64 = (0..3).map(|_| normal(random).powi(2)).sum();
            // Variance of t with 3 degrees of freedom is 3.
            normal(random) / (chi_square / 3.0).sqrt() / 3.0_f64.sqrt()
        }
    };
    world.noise * shape
}

/// A machine on which experiments run, one after the other in its time.
pub(crate) struct Machine {
    world: World,
    random: Random,
    phase: f64,
    step_phase_s: f64,
    now_s: f64,
    lives: usize,
    burst: f64,
    burst_left: usize,
}

impl Machine {
    pub(crate) fn new(world: World, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let phase = std::f64::consts::TAU * random.next_unit();
        let step_phase_s = 40.0 * random.next_unit();
        let (now_s, lives, burst, burst_left) = (0.0, 0, 0.0, 0);
        Self {
            world,
            random,
            phase,
            step_phase_s,
            now_s,
            lives,
            burst,
            burst_left,
        }
    }

    /// The windows of one server life in `order`; `log_effects[arm]` is the true log-ratio of CPU
    /// per statement. A restart, 3 s long, follows.
    pub(crate) fn life(&mut self, order: &[usize], log_effects: &[f64]) -> Vec<Window> {
        let own = self.world.life_noise * normal(&mut self.random);
        let windows = order
            .iter()
            .map(|&arm| self.window(arm, log_effects[arm] + own))
            .collect();
        self.now_s += 3.0;
        self.lives += 1;
        windows
    }

    /// More windows of the present life.
    pub(crate) fn stretch(&mut self, order: &[usize], log_effects: &[f64]) -> Vec<Window> {
        order
            .iter()
            .map(|&arm| self.window(arm, log_effects[arm]))
            .collect()
    }

    fn window(&mut self, arm: usize, log_effect: f64) -> Window {
        let world = self.world;
        let hit = self.burst();
        let own = noise(&world, &mut self.random);
        let log_us = BASE_US.ln() + self.drift() + log_effect + hit + own;
        let window = window(&world, arm, self.lives, self.now_s, log_us);
        self.now_s += world.window_s + world.pause_s;
        window
    }

    /// What a burst adds to the window that begins now.
    fn burst(&mut self) -> f64 {
        if self.burst_left == 0 && self.random.next_unit() < self.world.burst_probability {
            self.burst_left = 1 + self.random.next_below(2);
            self.burst = 0.15 + 0.6 * self.random.next_unit();
        }
        let hit = if self.burst_left > 0 { self.burst } else { 0.0 };
        self.burst_left -= usize::from(self.burst_left > 0);
        hit
    }

    fn drift(&self) -> f64 {
        let world = &self.world;
        let middle_s = self.now_s + 0.5 * world.window_s;
        let slow = 0.5
            * world.drift_factor.ln()
            * (std::f64::consts::TAU * middle_s / world.drift_period_s + self.phase).sin();
        // The share of the window during which the competitor runs.
        let moments = 8;
        let running = (0..moments)
            .filter(|i| {
                let share = (f64::from(*i) + 0.5) / f64::from(moments);
                (self.now_s + share * world.window_s + self.step_phase_s) % 40.0 < 20.0
            })
            .count();
        slow + (1.0 + (world.step_factor - 1.0) * running as f64 / f64::from(moments)).ln()
    }
}

fn window(world: &World, arm: usize, life: usize, start_s: f64, log_us: f64) -> Window {
    let us = log_us.exp();
    // Closed loop on two cores: throughput falls about as CPU per statement rises.
    let statements = 1.52e6 / us * world.window_s;
    let p50_us = 5.0 * us;
    Window {
        arm,
        life,
        start_s,
        duration_s: world.window_s,
        statements: statements as u64,
        server_cpu_ns: (us * 1e3 * statements.floor()) as u64,
        latency: Some(WindowLatency {
            p50_us,
            p95_us: 2.0 * p50_us,
            p99_us: 4.0 * p50_us,
        }),
    }
}
