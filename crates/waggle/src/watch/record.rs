//! `--record DIR`: a run directory with one sample an interval and all digests at the end, and
//! beside them single statements, lock waits and deadlocks as they come.
//!
//! Invariant: what is appended is whole lines, readable after a kill.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;
use serde_json::Value;
use waggle_agent::lock::{Deadlock, LockWait};
use waggle_agent::sample::Sample;
use waggle_agent::sink::{Sink, SinkStatus};
use waggle_agent::statement::ServerId;
use waggle_agent::view::View;
use waggle_report::run::{JsonLines, Outcome, RunDir, RunError, redact_argv};

/// A run directory that is being written.
pub(super) struct Record(RunDir);

impl Record {
    /// Creates the run directory below `root`.
    pub(super) fn open(root: &Path) -> anyhow::Result<Self> {
        let mut run = RunDir::create(root, "watch", "statements")?;
        let argv: Vec<String> = std::env::args().collect();
        run.record(|facts| facts.command = redact_argv(&argv))?;
        Ok(Self(run))
    }

    /// Where single statements, waits and deadlocks go.
    pub(super) fn sink(&self) -> anyhow::Result<RecordSink> {
        Ok(RecordSink {
            statements: self.0.lines("statements.jsonl")?,
            waits: self.0.lines("waits.jsonl")?,
            deadlocks: self.0.lines("deadlocks.jsonl")?,
            status: SinkStatus::default(),
        })
    }

    /// Appends one sample.
    pub(super) fn append(&mut self, document: &Value) -> anyhow::Result<()> {
        self.0
            .append(document)
            .context("recording; what was recorded so far stays readable")
    }

    /// Writes the result and ends the run; what failed before is part of it.
    pub(super) fn finish(
        self,
        document: &Value,
        result: &anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let path = self.0.path().to_path_buf();
        let error = result.as_ref().err().map(|error| format!("{error:#}"));
        let outcome = if error.is_none() {
            Outcome::Done
        } else {
            Outcome::Failed
        };
        let written = self.0.write_result(document).map(drop);
        let finished = self.0.finish(outcome, error).map(drop);
        written.and(finished)?;
        eprintln!("recorded in {}", path.display());
        Ok(())
    }
}

/// Writes what is not part of a view into the run directory.
pub(super) struct RecordSink {
    statements: JsonLines,
    waits: JsonLines,
    deadlocks: JsonLines,
    status: SinkStatus,
}

/// A record of one server.
#[derive(Serialize)]
struct OfServer<'a, T> {
    server: ServerId,
    #[serde(flatten)]
    record: &'a T,
}

impl RecordSink {
    fn count(status: &mut SinkStatus, written: Result<(), RunError>) {
        match written {
            Ok(()) => {
                status.delivered += 1;
                status.last_error = None;
            }
            Err(error) => {
                status.last_error = Some(error.to_string());
                match status.dropped.first_mut() {
                    Some((_, count)) => *count += 1,
                    None => status.dropped.push(("not_written", 1)),
                }
            }
        }
    }
}

impl Sink for RecordSink {
    fn name(&self) -> &'static str {
        "record"
    }

    /// Views are appended by the session, which ends when the disk is full.
    fn view(&mut self, _view: &Arc<View>) {}

    fn samples(&mut self, samples: &[Sample]) {
        for sample in samples {
            Self::count(&mut self.status, self.statements.append(sample));
        }
    }

    fn waits(&mut self, waits: &[(ServerId, LockWait)]) {
        for (server, record) in waits {
            let server = *server;
            let written = self.waits.append(&OfServer { server, record });
            Self::count(&mut self.status, written);
        }
    }

    fn deadlocks(&mut self, deadlocks: &[(ServerId, Deadlock)]) {
        for (server, record) in deadlocks {
            let server = *server;
            let written = self.deadlocks.append(&OfServer { server, record });
            Self::count(&mut self.status, written);
        }
    }

    fn status(&self) -> SinkStatus {
        self.status.clone()
    }

    fn close(&mut self, _within: Duration) {}
}
