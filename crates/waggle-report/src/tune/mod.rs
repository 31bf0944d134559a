//! The document of a tuning run: what was tried, what each configuration came to, what to change.
//!
//! Neighbours: `waggle tune` writes it as `tune.json`; text, Markdown, CSV and the page are made of
//! it. Invariants: every trial is in it, those that failed too, with the reason; a figure without
//! an interval is one that was not measured often enough, and is absent.

mod forms;
mod text;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::host::HostFacts;
use crate::run::ServerFacts;

pub use forms::{blocks_csv, configurations_csv, markdown};
pub use text::text;

/// Version of the document. Raised when an old reader would misread a new document.
pub const TUNE_FORMAT_VERSION: u32 = 1;

/// What a tuning run found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TuneReport {
    /// [`TUNE_FORMAT_VERSION`] of the writer.
    pub format_version: u32,
    /// The run's name, such as that of the study.
    pub name: String,
    /// What was asked, a sentence.
    pub question: String,
    /// What came out, a sentence or two.
    pub answer: String,
    /// The command line.
    pub command: String,
    /// Version of the waggle that wrote it.
    pub waggle_version: String,
    /// Start, UTC, RFC 3339.
    pub started: String,
    /// Length of the run, s.
    pub duration_s: f64,
    /// The machine.
    pub environment: HostFacts,
    /// The server, with its variables before the first change.
    pub server: ServerFacts,
    /// The load.
    pub workload: TuneWorkload,
    /// What was made better.
    pub objective: TuneObjective,
    /// What must not get worse.
    pub guards: Vec<TuneGuard>,
    /// `sweep` or `halving`.
    pub strategy: String,
    /// What differs by less than this share is the same.
    pub margin: f64,
    /// Seed of the order of blocks and of the load.
    pub seed: u64,
    /// What was tuned, one after the other.
    pub stages: Vec<TuneStage>,
    /// What a reader must know.
    pub notes: Vec<String>,
    /// Why the run ended early, if it did.
    pub error: Option<String>,
}

/// The load of a tuning run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TuneWorkload {
    /// The workload.
    pub name: String,
    /// Its options.
    pub options: BTreeMap<String, String>,
    /// Connections.
    pub threads: u32,
    /// Transactions a second that were due; absent: closed loop.
    pub rate: Option<f64>,
}

/// What was made better.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TuneObjective {
    /// Its name, such as `tps`.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Whether more is better.
    pub more_is_better: bool,
}

/// What must not get worse.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TuneGuard {
    /// Its name, such as `p99`.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// By how much it may rise before a rise counts, as a share.
    pub tolerance: f64,
    /// What it must not pass, in its unit.
    pub limit: Option<f64>,
}

/// A stage: variables that were tuned together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TuneStage {
    /// Its name.
    pub name: String,
    /// Its variables.
    pub variables: Vec<String>,
    /// What earlier stages left in place, by variable.
    pub base: BTreeMap<String, String>,
    /// All that was tried, in the order of the space, the present one first.
    pub configurations: Vec<TuneConfiguration>,
    /// The number of the best.
    pub best: Option<usize>,
    /// Others that may be best.
    pub equal_to_best: Vec<usize>,
    /// The number of the one to change to.
    pub recommended: Option<usize>,
    /// `change`, `present-is-best`, `same`, `not-told-apart`, `guard-forbids` or `not-enough`.
    pub verdict: String,
    /// The verdict, a sentence or two.
    pub answer: String,
    /// Why it ended, a sentence.
    pub ended: String,
    /// The smallest change that would have been seen with 80% probability, as a share.
    pub smallest_detectable: Option<f64>,
    /// Standard deviation of a block, as a share.
    pub noise: Option<f64>,
    /// Rounds begun.
    pub rounds: usize,
    /// Blocks measured.
    pub blocks: usize,
    /// Blocks of a sweep of as many rounds as were allowed.
    pub blocks_of_sweep: usize,
    /// Every block, in the order measured.
    pub samples: Vec<TuneBlock>,
}

/// A configuration that was tried.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TuneConfiguration {
    /// Its number in the stage.
    pub id: usize,
    /// In a few words.
    pub label: String,
    /// Value by variable.
    pub values: BTreeMap<String, String>,
    /// The value as a number, where one variable was tuned and it is a number.
    pub x: Option<f64>,
    /// The one that everything is compared with.
    pub present: bool,
    /// Place in the ranking, from 1; absent for one that failed.
    pub rank: Option<usize>,
    /// `best`, `same`, `not-told-apart`, `behind`, `failed` or `unknown`.
    pub place: String,
    /// Blocks behind it.
    pub blocks: usize,
    /// It was put in place by a restart.
    pub restarted: bool,
    /// The objective, in its unit; 95% for all levels of the stage together.
    pub level: Option<TuneInterval>,
    /// Ratio to the present one; 95% for all ratios of the stage together.
    pub ratio: Option<TuneInterval>,
    /// Ratio to the best, likewise.
    pub to_best: Option<TuneInterval>,
    /// Its guards against the present one.
    pub guards: Vec<TuneGuardReading>,
    /// Rounds after which it got no more blocks, if it was shown to be behind.
    pub dropped_after: Option<usize>,
    /// How it failed: `refused`, `crashed` or `cannot-restart`.
    pub failure: Option<String>,
    /// The same in words.
    pub why: Option<String>,
}

/// An estimate with its interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TuneInterval {
    /// The best single value.
    pub estimate: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl TuneInterval {
    /// Whether all of it are numbers: what is read back need not be.
    pub fn is_finite(&self) -> bool {
        self.estimate.is_finite() && self.low.is_finite() && self.high.is_finite()
    }
}

/// What a guard said of a configuration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TuneGuardReading {
    /// The guard.
    pub name: String,
    /// `held`, `worse` or `unknown`.
    pub verdict: String,
    /// Mean of the readings, in the guard's unit.
    pub level: Option<f64>,
    /// Change against the present one with its own 95% interval: a ratio, or a difference where
    /// `is_ratio` is false.
    pub change: Option<TuneInterval>,
    /// Whether `change` is a ratio.
    pub is_ratio: bool,
}

/// A block.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TuneBlock {
    /// Begin, seconds since the run began.
    pub t_s: f64,
    /// Length of the measured window, s.
    pub seconds: f64,
    /// The round, from 0.
    pub round: usize,
    /// The configuration's number.
    pub config: usize,
    /// The objective, in its unit.
    pub objective: f64,
    /// Readings of the guards.
    pub guards: BTreeMap<String, f64>,
    /// The server was restarted for it.
    pub restarted: bool,
}

impl TuneStage {
    /// Configurations in the order of their ranks, those without one last.
    pub fn ranked(&self) -> Vec<&TuneConfiguration> {
        let mut ranked: Vec<&TuneConfiguration> = self.configurations.iter().collect();
        ranked.sort_by_key(|config| (config.rank.unwrap_or(usize::MAX), config.id));
        ranked
    }

    /// A configuration by its number.
    pub fn configuration(&self, id: usize) -> Option<&TuneConfiguration> {
        self.configurations.iter().find(|config| config.id == id)
    }
}
