//! What is tuned, as the engine sees it: a thing that configurations are put to and that is then
//! measured in blocks.
//!
//! Neighbours: `engine` drives a [`Subject`]; `server` is one throw-away server under a load,
//! `replica` a replica behind a primary. Invariant: whatever a subject answers short of
//! [`TrialError::Broken`], the next `apply` works on a living server.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde_json::Value;
use waggle_load::{IgnoreErrors, LoadSpec, Script};
use waggle_report::run::ServerFacts;
use waggle_server::Flavour;
use waggle_stats::arrivals::{Arrivals, Spacing};
use waggle_wire::Dsn;

/// A load that has lost its server gives up after this.
const RECONNECT_LIMIT: Duration = Duration::from_secs(1);

/// What is tuned: configurations are put to it and measured in blocks.
pub(crate) trait Subject {
    /// Puts a configuration in place: in place where all that changes is dynamic, else by a
    /// restart on the same data. `config` holds every variable that differs from the state
    /// before the first `apply`; one that is missing goes back to that state, so an empty
    /// configuration is the present one. After a [`TrialError::Refused`],
    /// [`TrialError::Crashed`] or [`TrialError::CannotRestart`] a server with the present
    /// configuration runs.
    fn apply(&mut self, config: &[(String, String)]) -> Result<Applied, TrialError>;

    /// One block: an unmeasured warm-up, then a window of about so many seconds.
    fn block(&mut self, seconds: f64) -> Result<BlockValue, TrialError>;

    /// Back to the state before the first `apply`.
    ///
    /// # Errors
    /// What could not be put back, and how it stands.
    fn restore(&mut self) -> anyhow::Result<()>;

    /// The values of these variables before the first `apply`, as the server prints them; one
    /// that is not told is missing.
    ///
    /// # Errors
    /// The server does not answer.
    fn present(&mut self, names: &[String]) -> anyhow::Result<BTreeMap<String, String>> {
        let _ = names;
        Ok(BTreeMap::new())
    }

    /// The server as a report names it; `None`: there is none, as in a simulation.
    fn facts(&mut self) -> Option<ServerFacts> {
        None
    }
}

/// How a configuration came into place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Applied {
    /// `SET GLOBAL`, read back; the server lives on.
    InPlace,
    /// The server was restarted on the same data.
    Restarted,
}

/// What one block found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BlockValue {
    /// The objective, in `unit`; never NaN.
    pub(crate) objective: f64,
    /// Its unit, such as `transactions/s`.
    pub(crate) unit: &'static str,
    /// By name: `p99` (us), `errors` (a second), `memory` (bytes), `replica-lag` (seconds).
    /// One that could not be read is missing.
    pub(crate) guards: BTreeMap<String, f64>,
    /// Length of the measured window, seconds.
    pub(crate) seconds: f64,
    /// What else is worth keeping, for the run directory.
    pub(crate) details: Value,
}

/// Why a trial ended without a value.
#[derive(Debug)]
pub(crate) enum TrialError {
    /// The server refused the value, or took another than it was given.
    Refused {
        /// In the server's words where it had some.
        why: String,
    },
    /// The server ended while it ran with the value.
    Crashed {
        /// How, and what its log says.
        why: String,
    },
    /// The server did not start with the value.
    CannotRestart {
        /// How, and what its log says.
        why: String,
    },
    /// Nothing can be measured any more: ends the run.
    Broken(anyhow::Error),
}

impl TrialError {
    /// The word for a report: `refused`, `crashed`, `cannot-restart`, `broken`.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Refused { .. } => "refused",
            Self::Crashed { .. } => "crashed",
            Self::CannotRestart { .. } => "cannot-restart",
            Self::Broken(_) => "broken",
        }
    }
}

impl TrialError {
    /// Why, without the kind.
    pub(crate) fn why(&self) -> String {
        match self {
            Self::Refused { why } | Self::Crashed { why } | Self::CannotRestart { why } => {
                why.clone()
            }
            Self::Broken(error) => format!("{error:#}"),
        }
    }
}

impl fmt::Display for TrialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { why } => write!(f, "refused: {why}"),
            Self::Crashed { why } => write!(f, "the server crashed: {why}"),
            Self::CannotRestart { why } => write!(f, "the server does not start with it: {why}"),
            Self::Broken(error) => write!(f, "{error:#}"),
        }
    }
}

/// What is made better.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Objective {
    /// Transactions a second, as many as go.
    Tps,
    /// Statements a second, as many as go.
    Qps,
    /// The 99th percentile of the response time when this many transactions a second are due, us.
    P99AtRate(f64),
    /// CPU time of the server a statement, us.
    CpuPerStatement,
    /// Transactions a second that the replica applied.
    ReplicaApplyRate,
}

impl Objective {
    /// Its unit.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Tps => "transactions/s",
            Self::Qps => "statements/s",
            Self::P99AtRate(_) => "us",
            Self::CpuPerStatement => "us of CPU/statement",
            Self::ReplicaApplyRate => "transactions/s applied",
        }
    }

    /// Whether more is better.
    pub(crate) fn more_is_better(self) -> bool {
        match self {
            Self::Tps | Self::Qps | Self::ReplicaApplyRate => true,
            Self::P99AtRate(_) | Self::CpuPerStatement => false,
        }
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tps => f.write_str("tps"),
            Self::Qps => f.write_str("qps"),
            Self::P99AtRate(rate) => write!(f, "p99@{rate}"),
            Self::CpuPerStatement => f.write_str("cpu-per-statement"),
            Self::ReplicaApplyRate => f.write_str("replica-apply-rate"),
        }
    }
}

impl FromStr for Objective {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim() {
            "tps" => return Ok(Self::Tps),
            "qps" => return Ok(Self::Qps),
            "cpu-per-statement" => return Ok(Self::CpuPerStatement),
            "replica-apply-rate" => return Ok(Self::ReplicaApplyRate),
            _ => {}
        }
        let rate = text.trim().strip_prefix("p99@");
        let rate = rate.and_then(|rate| rate.parse::<f64>().ok());
        match rate {
            Some(rate) if (0.01..=1e7).contains(&rate) => Ok(Self::P99AtRate(rate)),
            _ => Err(format!(
                "'{text}' is no objective; use tps, qps, p99@RATE (transactions a second, such as \
                 p99@500), cpu-per-statement or replica-apply-rate"
            )),
        }
    }
}

/// Everything a subject is made of but the configurations.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    /// The family of server; of both ends of a replication.
    pub(crate) flavour: Flavour,
    /// The workload.
    pub(crate) script: Script,
    /// Its options, those of the data's size included.
    pub(crate) options: BTreeMap<String, String>,
    /// Connections of the load.
    pub(crate) threads: u32,
    /// Transactions a second that are due; `None`: closed loop.
    pub(crate) rate: Option<f64>,
    /// What a block's value is of.
    pub(crate) objective: Objective,
    /// Settings of every server from its start, which are not tuned.
    pub(crate) settings: Vec<(String, String)>,
    /// Variables that are changed by a restart even where they could be set in place.
    pub(crate) restart: Vec<String>,
    /// Unmeasured part of a block after a switch in place.
    pub(crate) warm_up: Duration,
    /// Unmeasured part of a block after a restart.
    pub(crate) warm_up_restarted: Duration,
    /// Seed of the load.
    pub(crate) seed: u64,
}

impl Setup {
    /// The load on the server at `dsn`, paused at first.
    pub(crate) fn load_spec(&self, dsn: Dsn, seed: u64) -> LoadSpec {
        let mut spec = LoadSpec::new(dsn, self.script.clone());
        spec.threads = self.threads;
        spec.seed = seed;
        spec.options = self.options.clone();
        spec.start_paused = true;
        // Errors are counted: a value that makes them is a finding.
        spec.ignore_errors = IgnoreErrors::All;
        spec.restart_limit = u32::MAX;
        spec.reconnect_limit = RECONNECT_LIMIT;
        spec.arrivals = self
            .rate
            .map(|rate| Arrivals::constant(rate, Spacing::default()));
        spec
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_are_read_as_they_are_written() {
        for text in [
            "tps",
            "qps",
            "p99@500",
            "cpu-per-statement",
            "replica-apply-rate",
        ] {
            let objective: Objective = text.parse().expect(text);
            assert_eq!(objective.to_string(), text);
        }
        for text in ["", "p99", "p99@", "p99@-1", "p99@inf", "fast"] {
            assert!(text.parse::<Objective>().is_err(), "{text}");
        }
    }
}
