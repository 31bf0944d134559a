//! What a copy did, as JSON and as text.

use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::Serialize;
use waggle_copy::{Control, Outcome, Phase};
use waggle_report::quantity;

use crate::cli::Output;

/// The document of `--json`.
#[derive(Debug, Serialize)]
pub(super) struct CopyResult {
    /// Rows copied, of all processes of the job.
    rows: u64,
    /// Bytes of row data in them.
    bytes: u64,
    /// Of the copy phase, in this process.
    copy_s: f64,
    /// CPU time of the threads that copied.
    copier_cpu_s: f64,
    /// All phases, in this process.
    total_s: f64,
    /// Wall time of each phase, in order.
    phases: Vec<PhaseTime>,
    /// Where in the source's history the target is; `null` when it did not get there.
    position: Option<String>,
    /// Whether source and target are equal; `null` when they were not compared.
    verified: Option<bool>,
    /// Rows that differ.
    pub(super) differences: Option<u64>,
    /// Transactions applied from the binary log, and row changes in them.
    transactions: u64,
    changes: u64,
    /// Why it ended early.
    pub(super) error: Option<String>,
}

/// How long a phase took.
#[derive(Debug, Serialize)]
struct PhaseTime {
    phase: Phase,
    seconds: f64,
}

impl CopyResult {
    pub(super) fn new(
        outcome: &anyhow::Result<Outcome>,
        control: &Control,
        total: Duration,
    ) -> CopyResult {
        let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let mut result = CopyResult {
            rows: read(&control.rows),
            bytes: read(&control.bytes),
            copy_s: total.as_secs_f64(),
            copier_cpu_s: read(&control.copy_cpu_ns) as f64 / 1e9,
            total_s: total.as_secs_f64(),
            phases: phases(control),
            position: None,
            verified: None,
            differences: None,
            transactions: read(&control.transactions),
            changes: read(&control.changes),
            error: None,
        };
        match outcome {
            Ok(outcome) => {
                result.rows = outcome.rows;
                result.bytes = outcome.bytes;
                result.copy_s = outcome.copy_s;
                result.copier_cpu_s = outcome.copier_cpu_s;
                result.position = Some(outcome.position.to_string());
                result.verified = outcome.differences.map(|differences| differences == 0);
                result.differences = outcome.differences;
            }
            Err(error) => result.error = Some(format!("{error:#}")),
        }
        result
    }

    pub(super) fn print(&self, out: &Output) -> io::Result<()> {
        if out.json {
            return out.json(self);
        }
        let mut stdout = io::stdout().lock();
        let rate = self.bytes as f64 / self.copy_s.max(1e-9);
        writeln!(
            stdout,
            "{} rows, {} in {} ({}/s); copier {} of CPU",
            quantity::count(self.rows),
            quantity::bytes(self.bytes),
            quantity::seconds(self.copy_s),
            quantity::bytes(rate as u64),
            quantity::seconds(self.copier_cpu_s),
        )?;
        if self.transactions > 0 {
            writeln!(
                stdout,
                "{} changes applied, in {} transactions",
                quantity::count(self.changes),
                quantity::count(self.transactions)
            )?;
        }
        let phases: Vec<String> = self.phases.iter().map(PhaseTime::to_string).collect();
        writeln!(stdout, "{}", phases.join(", "))?;
        if let Some(position) = &self.position {
            writeln!(stdout, "position {position}")?;
        }
        match self.verified {
            Some(true) => writeln!(stdout, "source and target are equal")?,
            Some(false) => writeln!(stdout, "source and target differ")?,
            None => writeln!(stdout, "not compared (--verify, or `waggle copy verify`)")?,
        }
        Ok(())
    }
}

impl fmt::Display for PhaseTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.phase {
            Phase::Preflight => "checks",
            Phase::Schema => "tables",
            Phase::Copy => "rows",
            Phase::Keys => "keys",
            Phase::CatchUp => "catching up",
            Phase::Replicate => "replicating",
            Phase::Verify => "comparing",
            Phase::Done => "the end",
        };
        write!(f, "{name} {}", quantity::seconds(self.seconds))
    }
}

fn phases(control: &Control) -> Vec<PhaseTime> {
    let phases = control.phases().into_iter();
    phases
        .map(|(phase, time)| PhaseTime {
            phase,
            seconds: time.as_secs_f64(),
        })
        .collect()
}
