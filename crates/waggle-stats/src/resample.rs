//! What would this lab have said, had it been run again and again on what this machine did?
//!
//! The simulated part of the calibration. Windows under `none` that were really recorded are cut
//! into blocks of neighbours and drawn with replacement (moving-block bootstrap: Künsch 1989), so
//! that drift, bursts and heavy tails stay as they were within a block; the windows of such a
//! series are then labelled as an experiment orders them, and compared as an experiment compares.
//! The truth is known: nothing, or a cost that was put in.
//!
//! Simulated recordings of 300 windows whose truth is known to be nothing, 2,000 experiments from
//! each: 5.0% are called different from a quiet machine, 4.6% from one that drifts, 2.9% from a
//! rough one, 3.7% from one with steps. With 6% put in, 187 of 200 are covered.
//!
//! What this cannot show: anything the recorded stretch did not hold, and noise that spans more
//! than a block. Real A/A experiments stand beside it.
//!
//! Neighbours: `cargo xtask calibrate` hands over recorded windows; [`crate::schedule`] orders,
//! [`crate::compare`] compares.

use serde::{Deserialize, Serialize};

use crate::compare::sample::median;
use crate::compare::{
    BASE_ARM, CompareError, CompareSettings, Outcome, SIGNIFICANCE, Window, compare_chain,
};
use crate::random::Random;
use crate::schedule::{ArmPlan, chain_order};
use crate::tally::Tally;

/// Where the first block is moved to. What the level is does not matter to a ratio; a jump between
/// blocks that never followed each other would, so each goes on where the last one ended.
const LEVEL_US: f64 = 20.0;

/// Levels wander with the drift within blocks; this far off, in either direction, they start anew.
const WANDER_MAX: f64 = 100.0;

/// Windows at the end of a block that tell its level there.
const END: usize = 3;

/// Fewest recorded windows that are resampled.
pub const RECORDED_MIN: usize = 40;

/// How experiments are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResampleSettings {
    /// Experiments.
    pub experiments: usize,
    /// Arms of an experiment beside `none`; the first is the one that is judged.
    pub arms: usize,
    /// Windows of each arm.
    pub windows: usize,
    /// Neighbouring windows in a block; 12 spans several seconds of the usual windows.
    pub block: usize,
    /// Cost put into the first arm, as a share of CPU time per statement: 0 for A/A, 0.05 for 5%.
    pub cost: f64,
    /// Seed of everything drawn.
    pub seed: u64,
}

impl Default for ResampleSettings {
    /// 200 A/A experiments of three arms with 40 windows each.
    fn default() -> Self {
        Self {
            experiments: 200,
            arms: 3,
            windows: 40,
            block: 12,
            cost: 0.0,
            seed: 1,
        }
    }
}

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Resampled {
    /// Experiments whose first arm was called different from `none` at 5%.
    pub called_different: Tally,
    /// Experiments whose 95% interval covered the truth.
    pub covered: Tally,
    /// Mean half-width of the intervals, as a share.
    pub half_width: f64,
    /// Recorded windows that were drawn from.
    pub recorded: usize,
}

/// Draws experiments from `recorded` windows, of which those of `same` (the arms under which
/// nothing watched: `none`, and the A/A arm) are used, and compares CPU per statement.
///
/// # Errors
/// Fewer than [`RECORDED_MIN`] usable windows.
pub fn resample_experiments(
    recorded: &[Window],
    same: &[usize],
    settings: &ResampleSettings,
) -> Result<Resampled, CompareError> {
    let pool = Pool::new(recorded, same)?;
    let mut random = Random::new(settings.seed);
    let quick = CompareSettings {
        resamples: 0,
        ..CompareSettings::default()
    };
    let truth = 1.0 + settings.cost;
    let plans: Vec<ArmPlan> = (1..=settings.arms.max(1))
        .map(|arm| ArmPlan {
            arm,
            windows: settings.windows,
        })
        .collect();
    let (mut called_different, mut covered) = (Tally::default(), Tally::default());
    let mut width = 0.0;
    for _ in 0..settings.experiments {
        let order = chain_order(&plans, random.next_u64());
        let mut windows = pool.draw(order.len(), settings.block, &mut random);
        for (window, arm) in windows.iter_mut().zip(&order) {
            window.arm = *arm;
            if *arm == 1 {
                window.server_cpu_ns = (window.server_cpu_ns as f64 * truth).round() as u64;
            }
        }
        let found = compare_chain(&windows, 1, Outcome::CpuUsPerStatement, &quick)?;
        called_different.add(found.p_value < SIGNIFICANCE);
        covered.add(found.ratio.contains(truth));
        width += found.ratio.half_width();
    }
    Ok(Resampled {
        called_different,
        covered,
        half_width: width / settings.experiments.max(1) as f64,
        recorded: pool.windows.len(),
    })
}

/// Recorded windows without an arm, and where blocks of neighbours may begin.
struct Pool {
    windows: Vec<Window>,
    /// Lengths of the runs of windows that hang together (one server life each).
    runs: Vec<std::ops::Range<usize>>,
    spacing_s: f64,
}

impl Pool {
    fn new(recorded: &[Window], same: &[usize]) -> Result<Self, CompareError> {
        let usable = |window: &&Window| {
            same.contains(&window.arm) && Outcome::CpuUsPerStatement.of(window).is_some()
        };
        let windows: Vec<Window> = recorded.iter().filter(usable).copied().collect();
        if windows.len() < RECORDED_MIN {
            return Err(CompareError::TooFew {
                what: "recorded windows in which nothing watched",
                needed: RECORDED_MIN,
                found: windows.len(),
            });
        }
        let mut runs = Vec::new();
        let mut from = 0;
        for run in windows.chunk_by(|one, two| one.life == two.life) {
            runs.push(from..from + run.len());
            from += run.len();
        }
        let spacing_s = windows[0].duration_s;
        Ok(Self {
            windows,
            runs,
            spacing_s,
        })
    }

    /// `count` windows, block after block, each moved to where the one before it ended.
    fn draw(&self, count: usize, block: usize, random: &mut Random) -> Vec<Window> {
        let mut drawn: Vec<Window> = Vec::with_capacity(count);
        let mut level = LEVEL_US;
        while drawn.len() < count {
            let at = random.next_below(self.windows.len());
            let Some(run) = self.runs.iter().find(|run| run.contains(&at)) else {
                break;
            };
            // A block that would leave its life begins earlier.
            let length = block.clamp(1, run.len()).min(count - drawn.len());
            let from = at.min(run.end - length);
            let part = &self.windows[from..from + length];
            let scale = level / level_of(&part[..END.min(length)]);
            level = scale * level_of(&part[length - END.min(length)..]);
            if !(LEVEL_US / WANDER_MAX..LEVEL_US * WANDER_MAX).contains(&level) {
                level = LEVEL_US;
            }
            for window in part {
                let cpu = window.server_cpu_ns as f64 * scale;
                drawn.push(Window {
                    arm: BASE_ARM,
                    life: 0,
                    start_s: drawn.len() as f64 * self.spacing_s,
                    duration_s: self.spacing_s,
                    server_cpu_ns: cpu.round() as u64,
                    ..*window
                });
            }
        }
        drawn
    }
}

/// Median CPU per statement of some windows, in microseconds.
fn level_of(block: &[Window]) -> f64 {
    let of = |window: &Window| Outcome::CpuUsPerStatement.of(window);
    median(&mut block.iter().filter_map(of).collect::<Vec<f64>>())
}

#[cfg(test)]
mod tests;
