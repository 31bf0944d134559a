//! What a run of the engine found: stages, the configurations that were tried, measured blocks.
//!
//! Neighbours: `course` fills it, `document` makes the report of it.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use waggle_stats::tune::{Configuration, Outcome, Stop};

/// A configuration that is tried in a stage.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::tune) struct Trial {
    /// Values of the stage's variables; for the present one those that are known.
    pub(in crate::tune) values: Configuration,
    /// The one that everything is compared with.
    pub(in crate::tune) is_present: bool,
    /// How it failed, if it did: kind and words.
    pub(in crate::tune) failure: Option<(String, String)>,
    /// The last switch to it was a restart.
    pub(in crate::tune) restarted: bool,
}

impl Trial {
    /// Its values in a few words, in the order of the stage's variables.
    pub(in crate::tune) fn label(&self) -> String {
        let values: Vec<&str> = self
            .values
            .iter()
            .map(|(_, value)| value.as_str())
            .collect();
        match (values.is_empty(), self.is_present) {
            (true, _) => "present".to_owned(),
            (false, true) => format!("{} (present)", values.join(" / ")),
            (false, false) => values.join(" / "),
        }
    }
}

/// A measured block, as the run directory keeps it.
#[derive(Debug, Clone, Serialize)]
pub(in crate::tune) struct Sample {
    pub(in crate::tune) stage: String,
    pub(in crate::tune) round: usize,
    pub(in crate::tune) config: usize,
    pub(in crate::tune) values: BTreeMap<String, String>,
    /// Begin of the measured window, seconds since the run began.
    pub(in crate::tune) t_s: f64,
    /// Its length.
    pub(in crate::tune) seconds: f64,
    pub(in crate::tune) objective: f64,
    pub(in crate::tune) unit: String,
    pub(in crate::tune) guards: BTreeMap<String, f64>,
    /// `in-place` or `restarted`.
    pub(in crate::tune) applied: String,
    pub(in crate::tune) details: Value,
}

/// How a stage ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tune) enum Ended {
    /// The strategy wanted no more.
    Enough(Stop),
    /// The time was up.
    Budget,
    /// The user wanted no more.
    Interrupted,
    /// Nothing could be measured any more.
    Broken,
}

/// What a stage found.
#[derive(Debug)]
pub(in crate::tune) struct StageRun {
    pub(in crate::tune) name: String,
    /// What stages before it left in place.
    pub(in crate::tune) base: Configuration,
    pub(in crate::tune) trials: Vec<Trial>,
    pub(in crate::tune) samples: Vec<Sample>,
    pub(in crate::tune) outcome: Outcome,
    pub(in crate::tune) ended: Ended,
}

/// What a run found, as far as it came.
#[derive(Debug, Default)]
pub(in crate::tune) struct Found {
    pub(in crate::tune) stages: Vec<StageRun>,
    /// Why it ended early, if it did.
    pub(in crate::tune) error: Option<String>,
}
