//! When a trace stops, where it is kept, and with which exit code it ends.
//!
//! Invariant: what there is, is reported before a failure is.

use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;
use waggle_report::run::{Outcome, RunDir, ServerFacts, redact_argv};
use waggle_report::trace::TraceReport;
use waggle_server::cpu::process_cpu_ns;

use super::args::Common;
use super::target::Process;
use crate::cli::{Failure, Output};
use crate::interrupt::{self, Interrupt};

/// Looks at the process this often, to notice that it ended.
const ALIVE: Duration = Duration::from_millis(200);

/// A trace that runs.
#[derive(Debug)]
pub(super) struct Session {
    run: RunDir,
    interrupt: Interrupt,
    duration: Option<Duration>,
    started: Instant,
    looked: Instant,
    ended: bool,
    /// Of the process: its id, its CPU time at the start and when it was last looked at, ns.
    pid: u32,
    cpu_ns: (Option<u64>, Option<u64>),
}

impl Session {
    /// Opens the run directory, and gives up what that took. `subject` is `pipeline`, `latch`, ...
    ///
    /// # Errors
    /// Signals cannot be caught, or the directory cannot be made; exit code 2.
    pub(super) fn open(common: &Common, process: &Process, subject: &str) -> Result<Self, Failure> {
        let interrupt = interrupt::catch()
            .context("catching signals")
            .map_err(Failure::Unusable)?;
        let mut run = RunDir::create(&common.out, "trace", subject).map_err(Failure::unusable)?;
        let argv: Vec<String> = std::env::args().collect();
        let traced = process.traced();
        let recorded = run.record(|facts| {
            facts.command = redact_argv(&argv);
            facts.server = traced.flavour.map(|flavour| ServerFacts {
                flavour,
                version: traced.version.unwrap_or_default(),
                build_id: traced.build_id,
                ..ServerFacts::default()
            });
        });
        recorded.map_err(Failure::unusable)?;
        crate::rights::narrow()?;
        Ok(Self {
            run,
            interrupt,
            duration: common.duration,
            started: Instant::now(),
            looked: Instant::now(),
            ended: false,
            pid: process.pid,
            cpu_ns: (None, None),
        })
    }

    /// The time runs from now: everything is attached.
    pub(super) fn start(&mut self) {
        self.cpu_ns.0 = process_cpu_ns(self.pid).ok();
        self.cpu_ns.1 = self.cpu_ns.0;
        self.started = Instant::now();
    }

    /// Since [`Self::start`].
    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// True once the time is over, a signal came, or the process ended.
    pub(super) fn is_over(&mut self, process: &Process) -> bool {
        if self.looked.elapsed() >= ALIVE {
            self.looked = Instant::now();
            self.ended = self.ended || !process.is_alive();
            self.look_at_cpu();
        }
        let elapsed = self.started.elapsed();
        let is_over = self.ended
            || self.interrupt.requested()
            || self.duration.is_some_and(|duration| elapsed >= duration);
        if is_over {
            self.look_at_cpu();
        }
        is_over
    }

    /// Of a process that has ended, the last reading stays.
    fn look_at_cpu(&mut self) {
        self.cpu_ns.1 = process_cpu_ns(self.pid).ok().or(self.cpu_ns.1);
    }

    /// CPU time of the process since [`Self::start`], as it was last seen, s.
    pub(super) fn process_cpu_s(&self) -> Option<f64> {
        let (from, to) = (self.cpu_ns.0?, self.cpu_ns.1?);
        Some(to.saturating_sub(from) as f64 / 1e9)
    }

    /// What is left of the time, at most `most`.
    pub(super) fn pause(&self, most: Duration) -> Duration {
        let left = self.duration.unwrap_or(Duration::MAX);
        left.saturating_sub(self.started.elapsed()).min(most)
    }

    /// The process ended while it was traced.
    pub(super) fn process_ended(&self) -> bool {
        self.ended
    }

    /// Appends what an interval showed to `samples.jsonl`.
    ///
    /// # Errors
    /// The disk is full.
    pub(super) fn append(&mut self, sample: &impl Serialize) -> anyhow::Result<()> {
        self.run
            .append(sample)
            .context("recording; what was recorded so far stays readable")
    }

    /// Where further files of the run go.
    pub(super) fn run_dir(&self) -> &RunDir {
        &self.run
    }

    /// Writes the document, prints it (or `text`), ends the run. `failed` says which check did not
    /// hold; it becomes exit code 1.
    ///
    /// # Errors
    /// A check did not hold, or something could not be written; exit code 1.
    pub(super) fn finish(
        self,
        out: &Output,
        report: &TraceReport,
        text: impl FnOnce() -> String,
        failed: Option<String>,
    ) -> Result<(), Failure> {
        let shown = if out.json {
            out.json(report).context("writing to stdout")
        } else {
            print!("{}", text());
            Ok(())
        };
        let outcome = match (&failed, &shown) {
            (None, Ok(())) if self.interrupt.requested() && self.duration.is_some() => {
                Outcome::Interrupted
            }
            (None, Ok(())) => Outcome::Done,
            _ => Outcome::Failed,
        };
        let written = self.run.write_trace(report).map(drop);
        let path = self.run.path().to_path_buf();
        let ended = self.run.finish(outcome, failed.clone()).map(drop);
        eprintln!("recorded in {}", path.display());
        let kept = written.and(ended).context("recording the trace");
        shown.and(kept).map_err(Failure::Ran)?;
        failed.map_or(Ok(()), |failed| Err(Failure::ran(anyhow::anyhow!(failed))))
    }
}
