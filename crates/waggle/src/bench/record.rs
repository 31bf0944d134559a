//! The run directory of a bench run. A recorder that fails (a full disk) is told at the end: the
//! measurement goes on, and what was written stays readable.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use waggle_report::run::{Outcome, RunDir, RunError, ServerFacts, redact_argv};
use waggle_stats::latency::LatencyHistogram;

use super::args::Plan;
use super::measure::Interval;
use super::note;
use super::result::BenchResult;

/// Writes a run directory, or nothing.
pub(super) struct Recorder {
    run: Option<RunDir>,
    /// The first write that failed; nothing is written after it.
    failure: Option<RunError>,
}

impl Recorder {
    /// Makes the run directory, if the plan wants one.
    pub(super) fn open(plan: &Plan, server: &ServerFacts) -> Result<Recorder, RunError> {
        let Some(root) = &plan.run_root else {
            return Ok(Recorder {
                run: None,
                failure: None,
            });
        };
        let mut run = RunDir::create(root, "bench", plan.script.short_name())?;
        run.record(|facts| {
            facts.command = redact_argv(&std::env::args().collect::<Vec<_>>());
            facts.server = Some(server.clone());
            facts.settings = settings(plan);
        })?;
        Ok(Recorder {
            run: Some(run),
            failure: None,
        })
    }

    /// Path of the run directory.
    pub(super) fn path(&self) -> Option<String> {
        self.run
            .as_ref()
            .map(|run| run.path().display().to_string())
    }

    pub(super) fn interval(&mut self, interval: &Interval) {
        self.write(|run| run.append(interval));
    }

    pub(super) fn result(&mut self, result: &BenchResult, latency: &LatencyHistogram) {
        // A histogram of 2^63 transactions cannot be encoded; there is none.
        if let Ok(bytes) = latency.to_v2_bytes() {
            self.write(|run| run.write_histogram("transaction_latency_ns", &bytes));
        }
        self.write(|run| run.write_result(result).map(|_| ()));
    }

    /// Ends the run; the first failure of all writes.
    pub(super) fn finish(
        mut self,
        outcome: Outcome,
        error: Option<String>,
    ) -> Result<(), RunError> {
        if let (Some(run), None) = (self.run.take(), &self.failure) {
            run.finish(outcome, error)?;
        }
        self.failure.map_or(Ok(()), Err)
    }

    fn write(&mut self, write: impl FnOnce(&mut RunDir) -> Result<(), RunError>) {
        if let (Some(run), None) = (&mut self.run, &self.failure)
            && let Err(error) = write(run)
        {
            note(&format!(
                "waggle: {error}; the measurement goes on without recording"
            ));
            self.failure = Some(error);
        }
    }
}

fn settings(plan: &Plan) -> BTreeMap<String, Value> {
    let settings = [
        ("workload", json!(plan.script.name())),
        ("workload_options", json!(plan.options)),
        ("threads", json!(plan.threads)),
        ("seed", json!(plan.seed)),
        ("warmup_s", json!(plan.warmup.as_secs())),
        ("time_s", json!(plan.time.as_secs())),
        (
            "report_interval_s",
            json!(plan.interval.map(|interval| interval.as_secs())),
        ),
        ("ignore_errors", json!(plan.ignore_errors.to_string())),
        ("loop", json!("closed")),
    ];
    settings
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
