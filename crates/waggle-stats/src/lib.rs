//! What do the measured numbers say, and how sure can one be?
//!
//! Histograms of latency, intervals for "what does this arm cost", and the order in which windows
//! should be measured; for the calibration, what the same analysis says where the truth is known
//! ([`resample`], [`tally`]). `waggle-load` fills the histograms, the lab hands over windows and
//! asks for the next ones, `waggle-report` prints what comes out.
//!
//! Invariant: pure. No I/O, no clock, no file, no thread; every random choice comes from a seed
//! that the caller gives, so a result can be computed again from the recorded windows.
//!
//! The lab's loop, in short; `measure` stands for running the load under the arms of a chain:
//!
//! ```
//! use waggle_stats::compare::{
//!     CompareSettings, Outcome, SameVerdict, Unit, Window, compare_chain, judge_all,
//!     judge_same,
//! };
//! use waggle_stats::schedule::{ArmProgress, Chooser, with_base};
//!
//! # fn measure(chain: &[usize], from: usize) -> Vec<Window> {
//! #     let window = |(place, &arm): (usize, &usize)| Window {
//! #         arm, life: 0, start_s: 0.75 * (from + place) as f64, duration_s: 0.7,
//! #         statements: 60_000,
//! #         server_cpu_ns: [1_050_000_000, 1_050_100_000, 1_134_000_000][arm]
//! #             + (place as u64 * 7_919 % 13) * 1_000_000,
//! #         latency: None,
//! #     };
//! #     chain.iter().enumerate().map(window).collect()
//! # }
//! const SAME: usize = 1; // the A/A arm: `none` again
//! const WATCH: usize = 2;
//! let (seed, margin, target) = (42, 0.015, 0.015);
//! let quick = CompareSettings { resamples: 0, ..CompareSettings::default() };
//! let mut chooser = Chooser::new(seed, 30);
//! let mut arms = [SAME, WATCH]
//!     .map(|arm| ArmProgress { arm, windows: 0, half_width: None, target });
//! let mut windows: Vec<Window> = Vec::new();
//! loop {
//!     let round = chooser.next_round(&arms, 12);
//!     if round.is_empty() { break } // or out of time
//!     windows.extend(measure(&with_base(&round), windows.len()));
//!     for arm in &mut arms {
//!         let found = compare_chain(&windows, arm.arm, Outcome::CpuUsPerStatement, &quick);
//!         arm.windows = windows.iter().filter(|window| window.arm == arm.arm).count();
//!         arm.half_width = found.ok().map(|found| found.ratio.half_width());
//!     }
//! }
//! let settings = CompareSettings { seed, unit: Unit::Windows, ..CompareSettings::default() };
//! let compare = |arm| compare_chain(&windows, arm, Outcome::CpuUsPerStatement, &settings);
//! let (same, watch) = (compare(SAME)?, compare(WATCH)?);
//! assert_ne!(judge_same(&same, margin), SameVerdict::Unsound);
//! let judged = judge_all(&[&watch], margin);
//! assert_eq!(judged[0].verdict.as_str(), "costs");
//! println!("{:.2} us, +{:.2} us ({:.2} to {:.2})", watch.base, watch.delta.estimate,
//!     watch.delta.low, watch.delta.high);
//! # Ok::<(), waggle_stats::compare::CompareError>(())
//! ```

pub mod arrivals;
pub mod compact;
pub mod compare;
pub mod distribution;
pub mod hdr_log;
pub mod latency;
pub mod random;
pub mod rate_search;
pub mod resample;
pub mod schedule;
#[cfg(test)]
mod simulation;
pub mod steady;
pub mod tally;
pub mod tune;
