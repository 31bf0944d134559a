//! The order of a copy's phases.
//!
//! Each phase reads at the target what is left to do, so that a process that follows one that was
//! killed goes the same way and skips what is done. Neighbours: every other module of the crate;
//! the verb gives the plan and watches [`Control`]. Invariant: rows are copied at exactly the
//! position that the target holds.

mod copy;

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use waggle_wire::{Connection, Dsn};

use crate::apply::{self, Goal};
use crate::control::{Control, Phase};
use crate::error::{CopyError, Finding, Severity};
use crate::position::Position;
use crate::progress::Job;
use crate::spool::Spool;
use crate::table::{Table, TableName};
use crate::throttle::{Limits, Throttle};
use crate::{json, preflight, schema, session, verify};

/// Attempts in a row that a lost server may end without a row copied in between.
const ATTEMPTS_WITHOUT_PROGRESS: u32 = 30;
/// Between two of them.
const ATTEMPT_PAUSE: Duration = Duration::from_secs(1);
/// While a key was built, more changed than the target keeps of that
/// (`innodb_online_alter_log_max_size`). Fewer changes are left the next time.
const ONLINE_LOG_TOO_BIG: u16 = 1799;
/// A value is there twice in a unique key.
const DUPLICATE: u16 = 1062;
/// So often that may be, as each time is a whole build.
const OVERTAKEN_MAX: u32 = 3;

/// How far a copy goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// All rows of the snapshot are at the target, with all keys.
    Copied,
    /// And the changes since, up to what the source had done when the last key was built.
    CaughtUp,
    /// Changes are applied until somebody asks for the end.
    Stopped,
}

/// What to copy, from where, to where, and how.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where the rows are.
    pub source: Dsn,
    /// Where they go.
    pub target: Dsn,
    /// What the target keeps the progress under.
    pub job: Job,
    /// The tables; all of the source DSN's database when empty.
    pub tables: Vec<TableName>,
    /// The database at the target, where it is not the source's.
    pub target_schema: Option<String>,
    /// How far.
    pub until: Until,
    /// Ranges copied at once, each with a session at either server.
    pub workers: usize,
    /// Bytes of rows that are stored in one transaction, about.
    pub slice_bytes: u64,
    /// Rows of a range, about.
    pub range_rows: u64,
    /// Whether secondary keys are built after the rows are there.
    pub defers_keys: bool,
    /// Whether a JSON is what its text says, whatever types its values have at the source.
    pub json_as_text: bool,
    /// Whether the target is compared with the source at the end.
    pub verifies: bool,
    /// What holds the copy back.
    pub limits: Limits,
    /// The directory of this machine that the binary log is kept in until it is applied.
    pub spool: PathBuf,
    /// How large that may get, in bytes.
    pub spool_bytes_max: u64,
}

/// What a copy did.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Rows copied, of all processes of the job.
    pub rows: u64,
    /// Bytes of row data copied, of all processes of the job.
    pub bytes: u64,
    /// Wall time of the copy phase of this process, in seconds.
    pub copy_s: f64,
    /// CPU time of this process in that phase, in seconds.
    pub copier_cpu_s: f64,
    /// Where the target is in the source's history.
    pub position: Position,
    /// What a comparison found, if one was asked for: rows that differ.
    pub differences: Option<u64>,
}

/// Runs a copy to its end, or goes on with one that was ended.
///
/// # Errors
/// Any [`CopyError`]; [`CopyError::Refused`] before anything was changed.
pub fn run(
    plan: &Plan,
    control: &Arc<Control>,
    warn: &mut dyn FnMut(&Finding),
) -> Result<Outcome, CopyError> {
    control.enter(Phase::Preflight);
    let mut source = session::source(&plan.source)?;
    let mut target = session::target(&plan.target)?;
    let mut tables = schema::read(&mut source, plan)?;
    if !plan.json_as_text && !target.is_mariadb() {
        json::mark(&mut target, &mut tables)?;
    }
    let endpoint = plan.source.endpoint.to_string();
    plan.job.check(&mut target, &endpoint, &tables)?;
    let findings = preflight::check(&mut source, &mut target, plan, &tables)?;
    let refuses = |finding: &Finding| finding.severity == Severity::Refusal;
    if findings.iter().any(refuses) {
        return Err(CopyError::Refused(
            findings.into_iter().filter(refuses).collect(),
        ));
    }
    findings.iter().for_each(warn);
    // The session that has the lock against a second copier lives as long as the job.
    let _keeper = std::mem::replace(&mut target, session::target(&plan.target)?);
    control.enter(Phase::Schema);
    let mut plan = plan.clone();
    plan.job.install(&mut target, &endpoint, &tables)?;
    let plan = &plan;
    plan.job.claim(&mut target, &tables)?;
    schema::create(&mut target, plan, &tables)?;
    let expected = tables.iter().map(|table| table.rows_estimate).sum();
    control.rows_expected.store(expected, Ordering::Relaxed);
    Running {
        plan,
        control,
        tables: &tables,
        throttle: Throttle::new(&plan.limits),
        spool: None,
        began: Instant::now(),
    }
    .run(target)
}

/// A job whose tables are there.
struct Running<'a> {
    plan: &'a Plan,
    control: &'a Arc<Control>,
    tables: &'a [Table],
    throttle: Throttle,
    spool: Option<Spool>,
    began: Instant,
}

impl Running<'_> {
    fn run(mut self, mut target: Connection) -> Result<Outcome, CopyError> {
        self.control.enter(Phase::Copy);
        let state = self.copy(&mut target)?;
        let copy_s = self.began.elapsed().as_secs_f64();
        let copier_cpu_s = self.control.copy_cpu_ns.load(Ordering::Relaxed) as f64 / 1e9;
        let mut position = state
            .position
            .ok_or_else(|| CopyError::Progress("the job has no position".into()))?;
        position = self.keys(target, position)?;
        position = self.changes(position)?;
        let differences = match self.plan.verifies {
            true => {
                let (differences, at) = self.verify(position)?;
                position = at;
                Some(differences)
            }
            false => None,
        };
        if let Some(spool) = self.spool.take() {
            // What was read of the log and not applied saves nothing once the target is where the
            // source was a moment ago.
            let is_of_use = self.plan.until != Until::CaughtUp && spool.bytes_ahead() > 0;
            if !is_of_use {
                spool.remove()?;
            }
        }
        self.control.enter(Phase::Done);
        Ok(Outcome {
            rows: state.ranges.iter().map(|range| range.rows).sum(),
            bytes: state.ranges.iter().map(|range| range.bytes).sum(),
            copy_s,
            copier_cpu_s,
            position,
            differences,
        })
    }

    /// Builds the keys, while changes are applied.
    fn keys(&self, target: Connection, from: Position) -> Result<Position, CopyError> {
        self.control.enter(Phase::Keys);
        let turn = Mutex::new(());
        let ((), position) = self.meanwhile(from, &turn, || self.build_keys(target, &turn))?;
        Ok(position)
    }

    /// Builds the keys, also when the target is lost meanwhile, or changes faster than it builds:
    /// it knows which are left. A duplicate may be one of a moment, which a server that builds
    /// while rows change takes for one: the next attempt has the turn of those who change them.
    fn build_keys(&self, mut target: Connection, turn: &Mutex<()>) -> Result<(), CopyError> {
        let (mut attempts, mut overtaken) = (0, 0);
        let mut alone = None;
        loop {
            let built = schema::build_keys(&mut target, self.plan, self.tables, self.control);
            let Err(error) = built else {
                return Ok(());
            };
            let is_overtaken = error.errno() == Some(ONLINE_LOG_TOO_BIG);
            let may_be_of_a_moment = error.errno() == Some(DUPLICATE)
                && alone.is_none()
                && self.plan.until != Until::Copied;
            attempts += 1;
            overtaken += u32::from(is_overtaken);
            let may_pass = can_go_on(&error)
                || may_be_of_a_moment
                || (is_overtaken && overtaken <= OVERTAKEN_MAX);
            if may_be_of_a_moment {
                alone = Some(turn.lock().unwrap_or_else(PoisonError::into_inner));
            }
            if !may_pass || attempts > ATTEMPTS_WITHOUT_PROGRESS {
                return Err(error);
            }
            if self.control.is_stopping() {
                return Err(CopyError::Stopped);
            }
            self.control.wait(ATTEMPT_PAUSE);
            target = apply::patiently(self.control, || session::target(&self.plan.target))?;
        }
    }

    fn changes(&self, from: Position) -> Result<Position, CopyError> {
        match self.plan.until {
            Until::Copied => Ok(from),
            Until::CaughtUp => {
                self.control.enter(Phase::CatchUp);
                self.apply(&from, &Goal::CaughtUp)
            }
            Until::Stopped => {
                self.control.enter(Phase::Replicate);
                self.apply(&from, &Goal::Stopped)
            }
        }
    }

    /// Compares, while changes are applied: a target that stands still would differ from a source
    /// that goes on. Gives the number of rows that differ, and where the target is.
    fn verify(&self, from: Position) -> Result<(u64, Position), CopyError> {
        self.control.enter(Phase::Verify);
        let turn = Mutex::new(());
        self.meanwhile(from, &turn, || {
            verify::run(self.plan, self.tables, self.control)
        })
    }

    /// Does `work` while changes are applied, but for the time in which it has the `turn`; gives
    /// what it gave, and where the target is. A copy of nothing but rows stays where its snapshot
    /// was.
    fn meanwhile<T: Send>(
        &self,
        from: Position,
        turn: &Mutex<()>,
        work: impl FnOnce() -> Result<T, CopyError> + Send,
    ) -> Result<(T, Position), CopyError> {
        if self.plan.until == Until::Copied {
            return Ok((work()?, from));
        }
        thread::scope(|scope| {
            let working = scope.spawn(work);
            let mut position = from;
            while !working.is_finished() {
                let applying = turn.lock().unwrap_or_else(PoisonError::into_inner);
                let applied = self.apply(&position, &Goal::CaughtUp);
                drop(applying);
                match applied {
                    Ok(reached) => position = reached,
                    Err(error) => {
                        // It ends after the table that it is at, and is waited for.
                        self.control.stop();
                        return Err(error);
                    }
                }
                thread::park_timeout(Duration::from_millis(20));
            }
            let done = working
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok((done, position))
        })
    }

    fn apply(&self, from: &Position, goal: &Goal) -> Result<Position, CopyError> {
        let Some(spool) = &self.spool else {
            return Ok(from.clone());
        };
        apply::run(self.plan, self.tables, &[], from, spool, goal, self.control)
    }
}

/// Whether a new attempt may have another end: a server was lost or starts, or a lock was not had.
fn can_go_on(error: &CopyError) -> bool {
    error.is_lost() || error.is_locked()
}
