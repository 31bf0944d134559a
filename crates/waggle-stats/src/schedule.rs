//! In which order are windows measured, and which arm should get the next ones?
//!
//! The lab asks [`chain_order`] for a first plan and [`Chooser::next_round`] for every round after
//! it; both put `none` between any two windows of arms, so every window has its neighbours.
//! [`budget`] does so over the arms of many cells.
//!
//! Order is drawn by lot so that no rhythm of the machine can line up with an arm, and stratified
//! so that every stretch of time holds every arm in its share: a run that is cut short is balanced
//! too.
//!
//! Invariant: the same arms and seed give the same order.

pub mod budget;

use serde::{Deserialize, Serialize};

use crate::compare::window::BASE_ARM;
use crate::random::Random;

/// How many windows an arm shall get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArmPlan {
    /// The arm; not [`BASE_ARM`], which comes by itself.
    pub arm: usize,
    /// Windows wanted.
    pub windows: usize,
}

/// The arms' windows in random order, without `none`.
///
/// Each arm's i-th of n windows falls at a random place within the i-th n-th of the whole, so every
/// prefix holds each arm's share to within about one window. No arm comes twice in a row where
/// another order of the same windows avoids it.
pub fn arm_order(plans: &[ArmPlan], seed: u64) -> Vec<usize> {
    let mut random = Random::new(seed);
    draw_order(plans, None, &mut random)
}

/// The whole chain: `none` first, last and between any two windows of arms.
pub fn chain_order(plans: &[ArmPlan], seed: u64) -> Vec<usize> {
    with_base(&arm_order(plans, seed))
}

/// Puts `none` around and between the windows of `arms`: `2 n + 1` windows; none for no arm.
pub fn with_base(arms: &[usize]) -> Vec<usize> {
    if arms.is_empty() {
        return Vec::new();
    }
    std::iter::once(BASE_ARM)
        .chain(arms.iter().flat_map(|&arm| [arm, BASE_ARM]))
        .collect()
}

/// The order within each of `pairs` pairs of server lives, for an arm that lasts a whole life:
/// `true` where `none` comes first. As often one as the other, to within one, in random order.
pub fn pair_order(pairs: usize, seed: u64) -> Vec<bool> {
    let mut random = Random::new(seed);
    let extra = random.next_below(2);
    let mut order: Vec<bool> = (0..pairs)
        .map(|pair| (pair + extra).is_multiple_of(2))
        .collect();
    random.shuffle(&mut order);
    order
}

/// How far an arm has come.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmProgress {
    /// The arm.
    pub arm: usize,
    /// Differences it has so far.
    pub windows: usize,
    /// Half-width of its interval now, as a share; `None` while there is none.
    pub half_width: Option<f64>,
    /// Half-width that is enough.
    pub target: f64,
}

impl ArmProgress {
    /// Windows that it still needs, from the rule that the half-width falls with the square root of
    /// their number; up to `fewest` whatever the half-width, since an early one cannot be trusted.
    pub fn windows_missing(&self, fewest: usize) -> usize {
        let floor = fewest.saturating_sub(self.windows);
        let Some(half_width) = self.half_width else {
            return floor.max(1);
        };
        if half_width <= self.target {
            return floor;
        }
        let times = (half_width / self.target).powi(2) - 1.0;
        let more = (times * self.windows.max(1) as f64).ceil();
        floor
            .max(if more < 1e6 { more as usize } else { 1_000_000 })
            .max(1)
    }
}

/// Spends the time where intervals are widest.
///
/// Stopping on the *width* of an interval, unlike stopping on significance, does not bend what it
/// says, as long as an arm has had a fair number of windows before its width is believed; a test
/// holds coverage under this rule.
#[derive(Clone, Debug)]
pub struct Chooser {
    random: Random,
    fewest: usize,
    last: Option<usize>,
}

impl Chooser {
    /// A chooser that gives every arm at least `fewest` windows before it believes a width. 30 is
    /// fair: intervals at the stop cover 93.9% in simulation (1,000 runs), with 20 93.5%, with 15
    /// 92.4%.
    pub fn new(seed: u64, fewest: usize) -> Self {
        Self {
            random: Random::new(seed),
            fewest,
            last: None,
        }
    }

    /// The arms of the next round, at most `windows` of them, without `none`; fewer when less is
    /// missing, none when every arm has what it needs.
    ///
    /// Each arm's share is in proportion to what it still needs, so all get there at about the same
    /// time and none is measured only in a late, perhaps different, stretch of the run. The order
    /// is drawn as in [`arm_order`] and does not begin with the arm the last round ended with where
    /// that can be avoided. Of two rounds without a pause between them, the second may leave out
    /// the `none` that [`with_base`] puts first.
    pub fn next_round(&mut self, progress: &[ArmProgress], windows: usize) -> Vec<usize> {
        let missing: Vec<usize> = progress
            .iter()
            .map(|arm| arm.windows_missing(self.fewest))
            .collect();
        let total: usize = missing.iter().sum();
        let windows = windows.min(total);
        let mut plans: Vec<ArmPlan> = Vec::with_capacity(progress.len());
        // Systematic sampling: shares in proportion, the rounding drawn by lot.
        let mut reached = 0.0;
        let start = self.random.next_unit();
        let mut counted = 0.0;
        for (arm, missing) in progress.iter().zip(&missing) {
            reached += *missing as f64 / total.max(1) as f64 * windows as f64;
            let upto = (reached + start + 1e-9).floor() - (start + 1e-9).floor();
            plans.push(ArmPlan {
                arm: arm.arm,
                windows: (upto - counted) as usize,
            });
            counted = upto;
        }
        let order = draw_order(&plans, self.last, &mut self.random);
        self.last = order.last().copied().or(self.last);
        order
    }
}

/// Windows in the order of their random places, where that puts no arm after itself.
fn draw_order(plans: &[ArmPlan], before: Option<usize>, random: &mut Random) -> Vec<usize> {
    // The places of each arm's windows, the earliest last.
    let mut arms: Vec<(usize, Vec<f64>)> = Vec::new();
    for plan in plans.iter().filter(|plan| plan.arm != BASE_ARM) {
        let stretch = 1.0 / plan.windows as f64;
        let place = |i: usize, random: &mut Random| (i as f64 + random.next_unit()) * stretch;
        arms.push((
            plan.arm,
            (0..plan.windows).rev().map(|i| place(i, random)).collect(),
        ));
    }
    let mut left: usize = arms.iter().map(|(_, places)| places.len()).sum();
    let mut order: Vec<usize> = Vec::with_capacity(left);
    while left > 0 {
        let last = order.last().copied().or(before);
        let next = next_arm(&arms, last, left);
        arms[next].1.pop();
        order.push(arms[next].0);
        left -= 1;
    }
    order
}

/// Position in `arms` of the one whose window comes next.
fn next_arm(arms: &[(usize, Vec<f64>)], last: Option<usize>, left: usize) -> usize {
    let waiting = || (0..arms.len()).filter(|&arm| !arms[arm].1.is_empty());
    let others = || waiting().filter(|&arm| Some(arms[arm].0) != last);
    let earlier = |one: &usize, two: &usize| {
        let place = |arm: usize| arms[arm].1.last().copied().unwrap_or(f64::INFINITY);
        place(*one).total_cmp(&place(*two))
    };
    // An arm with more than half of what is left must go now, or it will follow itself later.
    let pressing = others().find(|&arm| 2 * arms[arm].1.len() > left);
    pressing
        .or_else(|| others().min_by(earlier))
        .or_else(|| waiting().min_by(earlier))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests;
