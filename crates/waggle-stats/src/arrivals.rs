//! When are the events of an open loop due?
//!
//! A plan of stages, each with a rate or a ramp between two, and a spacing within it. Pure: the
//! engine asks for the next intended time and does the waiting.
//!
//! Gaps are drawn in units of expected events (an exponential one of mean 1, or exactly 1) and
//! mapped to time by the inverse of the cumulative rate, which makes a Poisson process of any
//! rate curve. Invariant: one seed gives one sequence of times, so two iterators with one seed
//! tell the same story.

use serde::{Deserialize, Serialize};

use crate::random::Random;

const NS_PER_S: f64 = 1e9;

/// How events are spaced within a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Spacing {
    /// Gaps are exponentially distributed: independent users.
    #[default]
    Poisson,
    /// Gaps are equal.
    Uniform,
}

/// A stretch of time with a rate that is constant or moves evenly.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// Its length in seconds.
    pub duration_s: f64,
    /// Events a second at its beginning.
    pub from: f64,
    /// Events a second at its end.
    pub to: f64,
}

/// The plan of an open loop. After the last stage, its final rate goes on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Arrivals {
    /// In order; at least one.
    pub stages: Vec<Stage>,
    /// The same for all stages.
    pub spacing: Spacing,
}

/// Why a plan cannot be followed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ArrivalsError {
    /// There is no stage.
    #[error("a plan of arrivals needs at least one stage")]
    Empty,
    /// A length or a rate is negative, infinite or not a number.
    #[error("stage {stage} of the arrivals: {what} cannot be {value}")]
    Value {
        /// Counted from 1.
        stage: usize,
        /// `its length` or `a rate`.
        what: &'static str,
        /// What was given.
        value: f64,
    },
    /// All rates are zero.
    #[error("every rate of the arrivals is zero, so nothing would ever be due")]
    Nothing,
}

impl Stage {
    fn slope(&self) -> f64 {
        match self.duration_s > 0.0 {
            true => (self.to - self.from) / self.duration_s,
            false => 0.0,
        }
    }

    /// Events expected in the whole stage.
    fn events(&self) -> f64 {
        (self.from + self.to) / 2.0 * self.duration_s
    }

    fn events_until(&self, into_s: f64) -> f64 {
        self.from * into_s + self.slope() / 2.0 * into_s * into_s
    }

    /// Seconds into the stage at which this many events are expected to have come.
    fn seconds_of(&self, events: f64) -> f64 {
        // The root that does not cancel, for ramps in both directions and for none.
        let under_root = self.from * self.from + 2.0 * self.slope() * events;
        2.0 * events / (self.from + under_root.max(0.0).sqrt())
    }
}

impl Arrivals {
    /// One rate throughout, in events a second.
    pub fn constant(rate: f64, spacing: Spacing) -> Arrivals {
        let stage = Stage {
            duration_s: 0.0,
            from: rate,
            to: rate,
        };
        Arrivals {
            stages: vec![stage],
            spacing,
        }
    }

    /// Whether the plan can be followed.
    ///
    /// # Errors
    /// See [`ArrivalsError`].
    pub fn check(&self) -> Result<(), ArrivalsError> {
        if self.stages.is_empty() {
            return Err(ArrivalsError::Empty);
        }
        for (index, stage) in self.stages.iter().enumerate() {
            let values = [
                ("its length", stage.duration_s),
                ("a rate", stage.from),
                ("a rate", stage.to),
            ];
            for (what, value) in values {
                if !value.is_finite() || value < 0.0 {
                    let stage = index + 1;
                    return Err(ArrivalsError::Value { stage, what, value });
                }
            }
        }
        let nothing = self.stages.iter().all(|stage| stage.events() == 0.0);
        match nothing && self.final_rate() == 0.0 {
            true => Err(ArrivalsError::Nothing),
            false => Ok(()),
        }
    }

    fn final_rate(&self) -> f64 {
        self.stages.last().map_or(0.0, |stage| stage.to)
    }

    /// Events a second that are planned at this moment, in seconds from the start. At a step it
    /// is the rate after it.
    pub fn rate_at(&self, at_s: f64) -> f64 {
        let mut into_s = at_s.max(0.0);
        for stage in &self.stages {
            if into_s < stage.duration_s {
                return stage.from + stage.slope() * into_s;
            }
            into_s -= stage.duration_s;
        }
        self.final_rate()
    }

    /// Events expected from the start until this moment, in seconds.
    pub fn expected_until(&self, at_s: f64) -> f64 {
        let (mut into_s, mut events) = (at_s.max(0.0), 0.0);
        for stage in &self.stages {
            if into_s < stage.duration_s {
                return events + stage.events_until(into_s);
            }
            events += stage.events();
            into_s -= stage.duration_s;
        }
        events + self.final_rate() * into_s
    }

    /// When events are due, in nanoseconds from the start, in rising order. It ends only if the
    /// final rate is zero.
    pub fn times(&self, seed: u64) -> Times {
        Times {
            plan: self.clone(),
            random: Random::new(seed),
            stage: 0,
            began_s: 0.0,
            events: 0.0,
        }
    }
}

/// See [`Arrivals::times`].
#[derive(Debug, Clone)]
pub struct Times {
    plan: Arrivals,
    random: Random,
    stage: usize,
    /// When the stage began.
    began_s: f64,
    /// Expected events between the stage's begin and the last event: counted from there, the sum
    /// stays exact however long the run is.
    events: f64,
}

impl Iterator for Times {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.events += match self.plan.spacing {
            // 1 - u is never 0.
            Spacing::Poisson => -(1.0 - self.random.next_unit()).ln(),
            Spacing::Uniform => 1.0,
        };
        while let Some(stage) = self.plan.stages.get(self.stage) {
            let in_stage = stage.events();
            if self.events < in_stage {
                let at_s = self.began_s + stage.seconds_of(self.events);
                return Some((at_s * NS_PER_S) as u64);
            }
            self.events -= in_stage;
            self.began_s += stage.duration_s;
            self.stage += 1;
        }
        let rate = self.plan.final_rate();
        let at_s = self.began_s + self.events / rate;
        (rate > 0.0).then_some((at_s * NS_PER_S) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plan(stages: &[(f64, f64, f64)], spacing: Spacing) -> Arrivals {
        let stage = |&(duration_s, from, to): &(f64, f64, f64)| Stage {
            duration_s,
            from,
            to,
        };
        Arrivals {
            stages: stages.iter().map(stage).collect(),
            spacing,
        }
    }

    fn count_until(plan: &Arrivals, seed: u64, at_s: f64) -> usize {
        let limit = (at_s * NS_PER_S) as u64;
        plan.times(seed).take_while(|&at| at < limit).count()
    }

    #[test]
    fn uniform_arrivals_are_equally_far_apart() {
        let plan = Arrivals::constant(2.5, Spacing::Uniform);
        let times: Vec<u64> = plan.times(1).take(3).collect();
        assert_eq!(times, [400_000_000, 800_000_000, 1_200_000_000]);
    }

    #[test]
    fn a_constant_rate_does_not_drift_in_a_long_run() {
        let plan = Arrivals::constant(99_999.5, Spacing::Uniform);
        let last = plan.times(1).nth(9_999_999).unwrap();
        let wanted = 1e7 / 99_999.5 * NS_PER_S;
        assert!((last as f64 - wanted).abs() < 1_000.0, "{last} {wanted}");
    }

    /// Gaps of a Poisson process are exponential: Anderson-Darling with known parameters.
    #[test]
    fn poisson_gaps_are_exponential() {
        const COUNT: usize = 10_000;
        let rate = 1_000.0;
        for seed in [1, 2, 3] {
            let times = Arrivals::constant(rate, Spacing::Poisson).times(seed);
            let mut last = 0;
            let mut shares: Vec<f64> = times
                .take(COUNT)
                .map(|at| {
                    let gap_s = (at - std::mem::replace(&mut last, at)) as f64 / NS_PER_S;
                    (1.0 - (-gap_s * rate).exp()).clamp(1e-12, 1.0 - 1e-12)
                })
                .collect();
            shares.sort_by(f64::total_cmp);
            let n = COUNT as f64;
            let sum: f64 = (0..COUNT)
                .map(|i| {
                    let (low, high) = (shares[i], shares[COUNT - 1 - i]);
                    (2.0 * i as f64 + 1.0) * (low.ln() + (1.0 - high).ln())
                })
                .sum();
            let statistic = -n - sum / n;
            // 1% point of the case in which all parameters are known: 3.88.
            assert!(statistic < 3.88, "seed {seed}: {statistic}");
        }
    }

    #[test]
    fn poisson_counts_vary_as_much_as_they_should() {
        // The variance of a count is its mean: chi-square over 400 disjoint intervals.
        let plan = Arrivals::constant(100.0, Spacing::Poisson);
        let mut counts = vec![0_u32; 400];
        for at in plan.times(5) {
            match counts.get_mut((at / 1_000_000_000) as usize) {
                Some(count) => *count += 1,
                None => break,
            }
        }
        let chi_square: f64 = counts
            .iter()
            .map(|&n| (f64::from(n) - 100.0).powi(2) / 100.0)
            .sum();
        // 0.5% and 99.5% points with 400 degrees of freedom.
        assert!((331.0..477.0).contains(&chi_square), "{chi_square}");
    }

    #[test]
    fn ramps_and_steps_integrate_to_the_planned_count() {
        let stages = [
            (10.0, 0.0, 100.0),
            (5.0, 100.0, 100.0),
            (0.0, 7.0, 9.0),
            (4.0, 50.0, 0.0),
        ];
        let uniform = plan(&stages, Spacing::Uniform);
        for (at_s, wanted) in [
            (5.0, 125.0),
            (10.0, 500.0),
            (15.0, 1_000.0),
            (19.0, 1_100.0),
        ] {
            assert_eq!(uniform.expected_until(at_s), wanted);
            let counted = count_until(&uniform, 1, at_s) as f64;
            assert!((counted - wanted).abs() <= 1.0, "{at_s}: {counted}");
        }
        assert_eq!((uniform.rate_at(5.0), uniform.rate_at(15.0)), (50.0, 50.0));
        // The final rate is zero: the plan ends.
        assert_eq!(uniform.times(1).count(), 1_099);
        let poisson = plan(&stages, Spacing::Poisson);
        let runs = 50;
        let total: usize = (0..runs).map(|seed| poisson.times(seed).count()).sum();
        let wanted = 1_100.0 * runs as f64;
        assert!(
            (total as f64 - wanted).abs() < 4.0 * wanted.sqrt(),
            "{total}"
        );
    }

    #[test]
    fn plans_that_make_no_sense_are_refused() {
        let check = |stages: &[(f64, f64, f64)]| plan(stages, Spacing::Poisson).check();
        assert_eq!(check(&[]), Err(ArrivalsError::Empty));
        assert_eq!(check(&[(5.0, 0.0, 0.0)]), Err(ArrivalsError::Nothing));
        assert_eq!(check(&[(0.0, 9.0, 0.0)]), Err(ArrivalsError::Nothing));
        assert_eq!(check(&[(5.0, 9.0, 0.0)]), Ok(()));
        let error = check(&[(1.0, 1.0, 1.0), (f64::NAN, 1.0, 1.0)]).unwrap_err();
        assert!(error.to_string().contains("stage 2"), "{error}");
        assert!(check(&[(1.0, -1.0, 1.0)]).is_err());
    }

    proptest! {
        #[test]
        fn times_rise_and_match_the_cumulative_rate(
            stages in prop::collection::vec((0.0..20.0_f64, 0.0..500.0_f64, 0.0..500.0_f64), 1..5),
            at_s in 0.0..80.0_f64,
            seed in 0..1_000_u64,
        ) {
            let uniform = plan(&stages, Spacing::Uniform);
            let wanted = uniform.expected_until(at_s);
            let counted = count_until(&uniform, seed, at_s) as f64;
            prop_assert!((counted - wanted).abs() <= 1.001, "{} for {}", counted, wanted);
            let poisson = plan(&stages, Spacing::Poisson);
            let times: Vec<u64> = poisson.times(seed).take(2_000).collect();
            prop_assert!(times.is_sorted());
            prop_assert!(times.iter().copied().eq(poisson.times(seed).take(2_000)));
            let counted = count_until(&poisson, seed, at_s) as f64;
            // Six standard deviations, and room for small means.
            let room = 6.0 * wanted.sqrt() + 12.0;
            prop_assert!((counted - wanted).abs() <= room, "{} for {}", counted, wanted);
        }
    }
}
