//! The document of a bench run: what the page, the Markdown and the CSV of `waggle bench` show.
//!
//! `bench` writes its result as the JSON it prints, its intervals as lines and its latencies as
//! histograms; a [`BenchReport`] is read from these, whatever of them there is, so that a run that
//! was killed has a page too. `web/src/bench.ts` mirrors the types.
//!
//! Invariants: files are foreign, so nothing in them is taken for granted; a field of the wrong
//! type is a reading that did not happen.

mod read;
mod words;

use std::collections::BTreeMap;

use serde::Serialize;

pub use words::{csv, headline, markdown};

use crate::host::HostFacts;
use crate::lab::LabServer;
use crate::profile::ProfilePage;

/// Everything a bench run left, as far as it came.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct BenchReport {
    /// The workload, such as `oltp_read_write`.
    pub workload: String,
    /// Connections, one thread or fiber each; `null` if it was not noted.
    pub threads: Option<f64>,
    /// Transactions a second that were asked for; `null` in closed loop.
    pub offered_rate: Option<f64>,
    /// The command line, quoted for a shell, without passwords.
    pub command: String,
    /// Version of waggle that ran it.
    pub waggle_version: String,
    /// Start, UTC, RFC 3339.
    pub started: String,
    /// How it ended, in words.
    pub ended: String,
    /// The server under load.
    pub server: LabServer,
    /// The machine.
    pub environment: HostFacts,
    /// The run's own settings, by name, as JSON text.
    pub settings: BTreeMap<String, String>,
    /// Seconds that were measured.
    pub duration_s: Option<f64>,
    /// Counts and rates, in the order to show.
    pub figures: Vec<BenchFigure>,
    /// Latencies: of all transactions first, then by kind of event, then by statement.
    pub latencies: Vec<BenchLatency>,
    /// What was sampled, in the order of time.
    pub intervals: Vec<BenchInterval>,
    /// Latency by what was timed (`response`, `service`): ascending upper bounds in microseconds,
    /// each with the count of values at or below it and above the bound before.
    pub histograms: BTreeMap<String, Vec<(f64, u64)>>,
    /// What the workload checked of its own run.
    pub checks: Vec<BenchCheck>,
    /// What a reader must know.
    pub notes: Vec<String>,
    /// Profiles taken meanwhile; the page has them in an element of their own.
    #[serde(skip)]
    pub profile: Option<Box<ProfilePage>>,
}

/// A count or a rate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BenchFigure {
    /// Its name, such as `transactions`.
    pub name: String,
    /// The count; `null` if it was not read.
    pub value: Option<f64>,
    /// A second of the measured time, where that means something.
    pub per_second: Option<f64>,
    /// Its unit; empty for a count.
    pub unit: String,
}

/// Latency of something, microseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct BenchLatency {
    /// `transaction`, `event` or `statement`.
    pub kind: String,
    /// What was timed, such as `response` or `ADD_LINK`.
    pub name: String,
    /// How many.
    pub count: Option<f64>,
    /// A second.
    pub per_second: Option<f64>,
    /// Mean.
    pub mean: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
    /// Quantiles by name, such as `p99.9`, ascending.
    pub quantiles: Vec<(String, Option<f64>)>,
}

/// One interval of the run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct BenchInterval {
    /// `interval`, `warm-up` or `drain`.
    pub kind: String,
    /// End of the interval, seconds since the measurement (or the warm-up) began.
    pub at_s: f64,
    /// Length, seconds.
    pub duration_s: f64,
    /// Queries a second.
    pub qps: Option<f64>,
    /// Transactions a second.
    pub tps: Option<f64>,
    /// Errors.
    pub errors: Option<f64>,
    /// Response time, microseconds; `null` if nothing ended.
    pub p50_us: Option<f64>,
    /// The same at 95%.
    pub p95_us: Option<f64>,
    /// The same at 99%.
    pub p99_us: Option<f64>,
    /// Events that waited at its end; `null` in closed loop.
    pub backlog: Option<f64>,
}

/// A check of the workload.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct BenchCheck {
    /// Its name.
    pub name: String,
    /// The figure checked.
    pub value: Option<f64>,
    /// Its unit.
    pub unit: String,
    /// Whether it is as it must be; `null` for a figure that is no check.
    pub ok: Option<bool>,
    /// The workload's words on it.
    pub note: String,
}

impl BenchReport {
    /// The server's flavour and version, such as `MySQL 9.7.4`.
    pub fn server_name(&self) -> String {
        format!("{} {}", self.server.flavour, self.server.version)
            .trim()
            .to_owned()
    }

    /// A figure by its name.
    pub fn figure(&self, name: &str) -> Option<&BenchFigure> {
        self.figures.iter().find(|figure| figure.name == name)
    }

    /// Response time of all transactions.
    pub fn response(&self) -> Option<&BenchLatency> {
        self.latencies
            .iter()
            .find(|latency| latency.kind == "transaction" && latency.name == "response")
    }

    /// The intervals that were measured: no warm-up, no running down.
    pub fn measured(&self) -> impl Iterator<Item = &BenchInterval> {
        self.intervals
            .iter()
            .filter(|interval| interval.kind == "interval")
    }
}

impl BenchLatency {
    /// A quantile by its name, such as `p99`.
    pub fn quantile(&self, name: &str) -> Option<f64> {
        let found = self.quantiles.iter().find(|(own, _)| own == name);
        found.and_then(|(_, us)| *us)
    }
}
