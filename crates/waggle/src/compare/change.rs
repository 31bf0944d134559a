//! How an effect changed from one run to another, with its interval.
//!
//! Two runs are independent, and stored reports hold intervals: `waggle_stats` takes the difference
//! of two independent intervals. The question is whether the effects differ, never whether one is
//! "significant" and the other not.
//!
//! Invariant: no verdict where an A/A check failed in either run, and one correction (Holm) over
//! all that is compared at once.

use serde::Serialize;
use waggle_stats::compare::{Interval, SIGNIFICANCE, TRIM_FROM, difference_of_intervals, holm};
use waggle_stats::distribution::{t_quantile, t_two_sided_p};

/// What the evidence says of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    /// The second run's value is larger.
    Higher,
    /// The second run's value is smaller.
    Lower,
    /// The interval lies within the margin.
    NoDifference,
    /// Neither could be shown.
    NotEnoughEvidence,
    /// The base compared with itself differed in one of the runs.
    NotClaimed,
}

/// An effect with its 95% interval, in the unit of its change.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Effect {
    pub(crate) estimate: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Pairs of windows (or lives, or intervals) behind it.
    pub(crate) n: u64,
    /// Degrees of freedom of its interval; what is not known is told from `n`.
    #[serde(skip)]
    pub(crate) df: Option<f64>,
}

/// The same effect in two runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Change {
    /// The cell of a study; none for a run of one experiment.
    pub(crate) cell: Option<String>,
    /// The arm, or what a bench run measured.
    pub(crate) arm: String,
    /// The outcome, such as `server CPU`.
    pub(crate) outcome: &'static str,
    /// Unit of the three effects.
    pub(crate) unit: &'static str,
    /// The effects are levels, such as transactions a second, and no changes.
    #[serde(skip)]
    pub(crate) level: bool,
    pub(crate) first: Effect,
    pub(crate) second: Effect,
    /// The second less the first.
    pub(crate) difference: Effect,
    /// Two-sided p-value of "the same in both", corrected for all that is compared (Holm).
    pub(crate) p_value: f64,
    pub(crate) verdict: Verdict,
}

/// An effect that both runs have, before it is judged.
#[derive(Debug, Clone)]
pub(crate) struct Pair {
    pub(crate) cell: Option<String>,
    pub(crate) arm: String,
    pub(crate) outcome: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) first: Effect,
    pub(crate) second: Effect,
    /// They are levels and no changes.
    pub(crate) level: bool,
    /// A difference within this is none, in the same unit.
    pub(crate) margin: f64,
    /// The A/A checks of both runs held.
    pub(crate) clean: bool,
}

/// Judges all pairs together.
pub(crate) fn judge(pairs: Vec<Pair>) -> Vec<Change> {
    let differences: Vec<Interval> = pairs
        .iter()
        .map(|pair| difference_of_intervals(&pair.first.interval(), &pair.second.interval()))
        .collect();
    let freedom = |pair: &Pair| pair.first.freedom().min(pair.second.freedom());
    let tested = pairs.iter().zip(&differences);
    let p_values: Vec<f64> = tested.map(|(pair, d)| p_value(d, freedom(pair))).collect();
    let corrected = holm(&p_values);
    pairs
        .into_iter()
        .zip(differences)
        .zip(corrected)
        .map(|((pair, difference), p_value)| {
            let verdict = verdict(&pair, &difference, p_value);
            let df = Some(freedom(&pair));
            Change {
                cell: pair.cell,
                arm: pair.arm,
                outcome: pair.outcome,
                unit: pair.unit,
                level: pair.level,
                first: pair.first,
                second: pair.second,
                difference: Effect {
                    estimate: difference.estimate,
                    low: difference.low,
                    high: difference.high,
                    n: pair.first.n.min(pair.second.n),
                    df,
                },
                p_value,
                verdict,
            }
        })
        .collect()
}

fn verdict(pair: &Pair, difference: &Interval, p_value: f64) -> Verdict {
    let within = -pair.margin < difference.low && difference.high < pair.margin;
    match (pair.clean, p_value < SIGNIFICANCE) {
        (false, _) => Verdict::NotClaimed,
        (true, true) if difference.estimate > 0.0 => Verdict::Higher,
        (true, true) => Verdict::Lower,
        (true, false) if within => Verdict::NoDifference,
        (true, false) => Verdict::NotEnoughEvidence,
    }
}

/// The p-value that an interval of 95% implies for "no difference", by Student's t with the smaller
/// run's degrees of freedom.
fn p_value(difference: &Interval, df: f64) -> f64 {
    let towards_zero = if difference.estimate > 0.0 {
        difference.estimate - difference.low
    } else {
        difference.high - difference.estimate
    };
    let standard_error = towards_zero / t_quantile(0.975, df);
    if standard_error > 0.0 {
        t_two_sided_p(difference.estimate / standard_error, df)
    } else if difference.estimate == 0.0 {
        1.0
    } else {
        0.0
    }
}

impl Effect {
    /// An effect if all of it is a number.
    pub(crate) fn of(estimate: f64, low: f64, high: f64, n: u64) -> Option<Self> {
        let whole = [estimate, low, high].iter().all(|part| part.is_finite());
        (whole && low <= high).then_some(Self {
            estimate,
            low,
            high,
            n,
            df: None,
        })
    }

    /// The same with the degrees of freedom that its report names.
    pub(crate) fn with_df(self, df: Option<f64>) -> Self {
        Self {
            df: df.filter(|df| df.is_finite() && *df > 0.0).or(self.df),
            ..self
        }
    }

    /// Degrees of freedom, at least 1. Those of a report that names none come from its windows, of
    /// which a fifth is trimmed at either end where they are many.
    fn freedom(&self) -> f64 {
        let n = self.n;
        let kept = if n >= TRIM_FROM as u64 {
            n - 2 * (n / 5)
        } else {
            n
        };
        let df = self.df.unwrap_or(kept.saturating_sub(1) as f64);
        df.max(1.0)
    }

    fn interval(&self) -> Interval {
        Interval {
            estimate: self.estimate,
            low: self.low,
            high: self.high,
            n: usize::try_from(self.n).unwrap_or(usize::MAX),
        }
    }
}

impl Verdict {
    /// As words for a table.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Higher => "higher in B",
            Self::Lower => "lower in B",
            Self::NoDifference => "no difference",
            Self::NotEnoughEvidence => "not enough evidence",
            Self::NotClaimed => "not claimed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(first: f64, second: f64, half: f64) -> Pair {
        let effect = |estimate: f64| Effect::of(estimate, estimate - half, estimate + half, 40);
        Pair {
            cell: None,
            arm: "watch".to_owned(),
            outcome: "server CPU",
            unit: "µs/stmt",
            first: effect(first).expect("an effect"),
            second: effect(second).expect("an effect"),
            level: false,
            margin: 0.2,
            clean: true,
        }
    }

    fn verdict_of(pair: Pair) -> Verdict {
        judge(vec![pair]).remove(0).verdict
    }

    #[test]
    fn each_verdict_has_its_evidence() {
        assert_eq!(verdict_of(pair(1.0, 2.0, 0.2)), Verdict::Higher);
        assert_eq!(verdict_of(pair(2.0, 1.0, 0.2)), Verdict::Lower);
        assert_eq!(verdict_of(pair(1.0, 1.01, 0.1)), Verdict::NoDifference);
        assert_eq!(verdict_of(pair(1.0, 1.2, 0.4)), Verdict::NotEnoughEvidence);
        let unclean = Pair {
            clean: false,
            ..pair(1.0, 9.0, 0.1)
        };
        assert_eq!(verdict_of(unclean), Verdict::NotClaimed);
    }

    #[test]
    fn significant_in_one_run_only_is_no_change() {
        // 4 ± 3 is above zero and 2 ± 3 is not; that the two differ is not shown by it.
        let change = judge(vec![pair(4.0, 2.0, 3.0)]).remove(0);
        assert_eq!(change.verdict, Verdict::NotEnoughEvidence);
        assert!((change.difference.high - change.difference.estimate - 18f64.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn many_comparisons_are_corrected_together() {
        let doubtful = pair(1.0, 1.3, 0.2);
        assert_eq!(verdict_of(doubtful.clone()), Verdict::Higher);
        let mut many = vec![pair(1.0, 1.0, 0.2); 19];
        many.push(doubtful);
        let changes = judge(many);
        assert_eq!(changes[19].verdict, Verdict::NotEnoughEvidence);
        assert!(changes[19].p_value > 0.05);
    }

    #[test]
    fn an_old_report_names_no_degrees_of_freedom_and_gets_those_of_its_trimmed_mean() {
        let of = |n| Effect::of(1.0, 0.5, 1.5, n).expect("an effect");
        assert_eq!(of(40).freedom(), 23.0);
        assert_eq!((of(9).freedom(), of(1).freedom()), (8.0, 1.0));
        assert_eq!(of(40).with_df(Some(11.5)).freedom(), 11.5);
        assert_eq!(of(40).with_df(Some(f64::NAN)).freedom(), 23.0);
    }

    #[test]
    fn what_is_no_number_is_no_effect() {
        assert_eq!(Effect::of(f64::NAN, 0.0, 1.0, 3), None);
        assert_eq!(Effect::of(1.0, 2.0, 0.0, 3), None);
    }
}
