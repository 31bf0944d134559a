//! The windows a lab run recorded, and experiments cut from them.
//!
//! A run of the lab in one server life is a chain of windows, base between any two of arms. Each
//! stretch of it is an experiment of its own, as a shorter run would have been; [`cut`] makes such
//! stretches, which share no window. Neighbours: the lab wrote them (`samples.jsonl`),
//! `waggle_stats::compare` compares them. Invariant: a line that is half-written or of another
//! kind is passed over; no other line is.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;
use waggle_stats::compare::carry_over::{Slice, SlicedWindow, carry_overs, settled_window};
use waggle_stats::compare::{BASE_ARM, Outcome, Window};

/// What the lab never measures after a switch, seconds.
const SETTLE_S: f64 = 0.04;

/// The windows of one server life, in time order, and what the arms' numbers mean.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recorded {
    /// In the order they were measured.
    pub windows: Vec<Window>,
    /// Names by number, the base's too.
    pub names: BTreeMap<usize, String>,
}

/// What is read of a line beside the window itself.
#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    name: String,
    #[serde(default)]
    pair: bool,
    #[serde(flatten)]
    window: Window,
    /// When the load went on after the switch.
    #[serde(default)]
    switched_s: f64,
    /// From there on: end in nanoseconds, statements, the server's CPU time in nanoseconds.
    #[serde(default)]
    slices: Vec<[u64; 3]>,
}

impl Line {
    fn sliced(&self) -> SlicedWindow {
        let mut from_s = 0.0;
        let slice = |[end_ns, statements, server_cpu_ns]: &[u64; 3]| {
            let to_s = *end_ns as f64 / 1e9;
            let slice = Slice {
                from_s,
                to_s,
                statements: *statements,
                server_cpu_ns: *server_cpu_ns,
            };
            from_s = to_s;
            slice
        };
        SlicedWindow {
            window: self.window,
            switched_s: self.switched_s,
            slices: self.slices.iter().map(slice).collect(),
        }
    }
}

impl Recorded {
    /// The windows in `samples` (the content of `samples.jsonl`) in which arms were switched
    /// within one life, without what switches carry into them, as the lab compares them.
    pub fn parse(samples: &str) -> Self {
        let lines = samples.lines().map(serde_json::from_str::<Line>);
        let mut recorded = Self::default();
        let mut sliced = Vec::new();
        for line in lines.filter_map(Result::ok).filter(|line| !line.pair) {
            sliced.push(line.sliced());
            recorded.names.insert(line.window.arm, line.name);
        }
        let carried = carry_overs(&sliced, Outcome::CpuUsPerStatement);
        let settled = |window: &SlicedWindow| match carried.settle_s > SETTLE_S {
            true => settled_window(window, carried.settle_s),
            false => window.window,
        };
        recorded.windows = sliced.iter().map(settled).collect();
        recorded
    }

    /// Reads a run directory.
    ///
    /// # Errors
    /// It has no samples.
    pub fn read(run: &Path) -> anyhow::Result<Self> {
        let path = run.join("samples.jsonl");
        let samples = std::fs::read_to_string(&path)
            .with_context(|| format!("reading {}", path.display()))?;
        Ok(Self::parse(&samples))
    }

    /// The number of the arm with this name.
    pub fn arm(&self, name: &str) -> Option<usize> {
        let found = self.names.iter().find(|(_, known)| *known == name);
        found.map(|(number, _)| *number)
    }
}

/// Cuts a chain into stretches, each with at least `fewest` windows of every one of `arms`, from
/// base to base, within one life; none shares a window with another. What is left over at the end
/// is in none.
pub fn cut<'a>(windows: &'a [Window], arms: &[usize], fewest: usize) -> Vec<&'a [Window]> {
    let mut stretches = Vec::new();
    for life in windows.chunk_by(|one, two| one.life == two.life) {
        let mut start = 0;
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        for (place, window) in life.iter().enumerate() {
            if window.arm != BASE_ARM {
                *counts.entry(window.arm).or_default() += 1;
                continue;
            }
            let has = |arm: &usize| counts.get(arm).copied().unwrap_or(0) >= fewest;
            if !arms.is_empty() && arms.iter().all(has) {
                stretches.push(&life[start..=place]);
                start = place + 1;
                counts.clear();
            }
        }
    }
    stretches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(arm: usize, name: &str, life: usize) -> String {
        format!(
            "{{\"cell\":\"a\",\"name\":\"{name}\",\"pair\":false,\"arm\":{arm},\"life\":{life},\
             \"start_s\":1.0,\"duration_s\":0.15,\"statements\":9,\"server_cpu_ns\":5,\
             \"latency\":null,\"executed\":9}}\n"
        )
    }

    #[test]
    fn lines_of_other_kinds_and_halves_are_passed_over() {
        let mut text = line(0, "none", 0) + "{\"event\":\"begun\"}\n" + &line(2, "burn-1us", 0);
        text += &line(1, "perfschema", 0).replace("\"pair\":false", "\"pair\":true");
        text += &line(0, "none", 0)[..40];
        let found = Recorded::parse(&text);
        assert_eq!(found.windows.len(), 2);
        assert_eq!(found.arm("burn-1us"), Some(2));
        assert_eq!(found.arm("perfschema"), None);
    }

    fn chain(arms: &[(usize, usize)]) -> Vec<Window> {
        let window = |(place, (arm, life)): (usize, &(usize, usize))| Window {
            arm: *arm,
            life: *life,
            start_s: place as f64,
            duration_s: 0.15,
            statements: 1,
            server_cpu_ns: 1,
            latency: None,
        };
        arms.iter().enumerate().map(window).collect()
    }

    #[test]
    fn a_stretch_goes_from_base_to_base_and_shares_no_window() {
        let order = [0, 1, 0, 2, 0, 1, 0, 2, 0, 1, 0].map(|arm| (arm, 0));
        let windows = chain(&order);
        let cuts = cut(&windows, &[1, 2], 1);
        let starts: Vec<(f64, usize)> = cuts.iter().map(|c| (c[0].start_s, c.len())).collect();
        // The second begins with an arm's window, which has no base before it; the last lacks 2.
        assert_eq!(starts, [(0.0, 5), (5.0, 4)]);
    }

    #[test]
    fn no_stretch_spans_two_lives() {
        let windows = chain(&[(0, 0), (1, 0), (0, 1), (2, 1), (0, 1)]);
        assert_eq!(cut(&windows, &[1, 2], 1).len(), 0);
        assert_eq!(cut(&windows, &[2], 1).len(), 1);
        assert_eq!(cut(&windows, &[], 1).len(), 0);
    }
}
