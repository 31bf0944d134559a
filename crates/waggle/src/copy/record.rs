//! The run directory of a copy: a sample a second, the result at the end.
//!
//! Invariant: what is appended is whole lines, readable after a kill; no DSN is in it.

use std::path::{Path, PathBuf};

use waggle_copy::Plan;
use waggle_report::run::{Outcome, RunDir, redact_argv};

use super::result::CopyResult;
use super::screen::Glance;

/// A run directory that is being written.
pub(super) struct Record(RunDir);

impl Record {
    pub(super) fn open(root: &Path, plan: &Plan) -> anyhow::Result<Record> {
        let mut run = RunDir::create(root, "copy", plan.job.name())?;
        let argv: Vec<String> = std::env::args().collect();
        run.record(|facts| facts.command = redact_argv(&argv))?;
        Ok(Record(run))
    }

    pub(super) fn append(&mut self, glance: &Glance) -> anyhow::Result<()> {
        Ok(self.0.append(glance)?)
    }

    pub(super) fn finish(self, result: &CopyResult) -> anyhow::Result<PathBuf> {
        let path = self.0.path().to_path_buf();
        self.0.write_result(result)?;
        let outcome = match result.error {
            None => Outcome::Done,
            Some(_) => Outcome::Failed,
        };
        self.0.finish(outcome, result.error.clone())?;
        Ok(path)
    }
}
