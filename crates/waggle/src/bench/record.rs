//! The run directory of a bench run. A recorder that fails (a full disk) is told at the end: the
//! measurement goes on, and what was written stays readable.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use waggle_load::{Overflow, Snapshot};
use waggle_profile::model::Profile;
use waggle_report::run::{Outcome, RunDir, RunError, ServerFacts, redact_argv};
use waggle_stats::arrivals::Stage;

use super::interval::Interval;
use super::note;
use super::plan::Plan;
use super::result::BenchResult;
use crate::profiling::kept::{self, Wanted};

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

    pub(super) fn result(&mut self, result: &BenchResult, total: &Snapshot) {
        let histograms = [
            ("response", &total.response),
            ("service", &total.service),
            ("wait", &total.wait),
            ("lag", &total.lag),
        ];
        for (name, histogram) in histograms {
            if name != "response" && total.offered.is_none() {
                continue;
            }
            // A histogram of 2^63 transactions cannot be encoded; there is none.
            if let Ok(bytes) = histogram.to_v2_bytes() {
                self.write(|run| run.write_histogram(name, &bytes));
            }
        }
        self.write(|run| run.write_result(result).map(|_| ()));
    }

    /// The profile of the measured time, and its drawings.
    pub(super) fn profile(&mut self, profile: &Profile) {
        let mut refused = Vec::new();
        self.write(|run| {
            refused = kept::write(run, "", profile, &Wanted::FLAME_GRAPHS)?.refused;
            Ok(())
        });
        for file in &refused {
            note(&format!("waggle: {file}"));
        }
    }

    /// A line of `samples.jsonl` that is no interval.
    pub(super) fn sample(&mut self, sample: &Value) {
        self.write(|run| run.append(sample));
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
    let seconds = |length: Option<std::time::Duration>| length.map(|length| length.as_secs_f64());
    let stage = |stage: &Stage| {
        let Stage {
            duration_s,
            from,
            to,
        } = stage;
        json!({ "duration_s": duration_s, "from": from, "to": to })
    };
    let open = plan.open.as_ref();
    let settings = [
        ("workload", json!(plan.script.name())),
        ("workload_options", json!(plan.options)),
        ("threads", json!(plan.threads)),
        ("seed", json!(plan.seed)),
        ("warmup_s", json!(plan.warmup.as_secs_f64())),
        ("time_s", json!(seconds(plan.time))),
        ("events", json!(plan.events)),
        ("report_interval_s", json!(seconds(plan.interval))),
        ("ignore_errors", json!(plan.ignore_errors.to_string())),
        (
            "loop",
            json!(if open.is_some() || plan.search.is_some() {
                "open"
            } else {
                "closed"
            }),
        ),
        (
            "stages",
            json!(open.map(|open| open.stages.iter().map(stage).collect::<Vec<_>>())),
        ),
        (
            "arrivals",
            json!(open.map(|open| format!("{:?}", open.spacing).to_lowercase())),
        ),
        ("overflow", json!(open.map(|open| overflow(open.overflow)))),
        (
            "rate_search",
            json!(plan.search.as_ref().map(|search| &search.limit.text)),
        ),
    ];
    settings
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// As the flag has it.
fn overflow(overflow: Overflow) -> String {
    match overflow {
        Overflow::Queue => "queue".to_owned(),
        Overflow::Drop { waiting } => format!("drop:{waiting}"),
        Overflow::Abort { waiting } => format!("abort:{waiting}"),
    }
}
