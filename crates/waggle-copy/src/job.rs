//! The order of a copy's phases.
//!
//! Each phase reads at the target what is left to do, so that a process that follows one that was
//! killed goes the same way and skips what is done. Neighbours: every other module of the crate;
//! the verb gives the plan and watches [`Control`]. Invariant: rows are copied at exactly the
//! position that the target holds.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use waggle_wire::{Connection, Dsn};

use crate::apply::{self, Goal};
use crate::control::{Control, Phase};
use crate::error::{CopyError, Finding, Severity};
use crate::position::Position;
use crate::progress::{Job, State};
use crate::range::{self, Range};
use crate::spool::Spool;
use crate::table::{Table, TableName};
use crate::throttle::{self, Limits, Throttle};
use crate::{ingest, json, preflight, schema, session, snapshot, verify};

/// Attempts in a row that a lost server may end without a row copied in between.
const ATTEMPTS_WITHOUT_PROGRESS: u32 = 30;
/// Between two of them.
const ATTEMPT_PAUSE: Duration = Duration::from_secs(1);
/// While a key was built, more changed than the target keeps of that
/// (`innodb_online_alter_log_max_size`). Fewer changes are left the next time.
const ONLINE_LOG_TOO_BIG: u16 = 1799;
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

    /// Copies until every range is done, with a new snapshot after each loss of a server.
    fn copy(&mut self, target: &mut Connection) -> Result<State, CopyError> {
        let mut attempts = 0;
        loop {
            let before = self.control.rows.load(Ordering::Relaxed);
            let outcome = self.attempt(target);
            if self.control.rows.load(Ordering::Relaxed) > before {
                attempts = 0;
            }
            match outcome {
                Ok(state) => return Ok(state),
                Err(error) if can_go_on(&error) && attempts < ATTEMPTS_WITHOUT_PROGRESS => {
                    if self.control.is_stopping() {
                        return Err(CopyError::Stopped);
                    }
                    attempts += 1;
                    thread::sleep(ATTEMPT_PAUSE);
                    if let Ok(anew) = session::target(&self.plan.target) {
                        *target = anew;
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn attempt(&mut self, target: &mut Connection) -> Result<State, CopyError> {
        let (plan, control) = (self.plan, self.control);
        let mut state = plan.job.state(target)?;
        self.count(&state.ranges);
        if state.position.is_some() && state.ranges.iter().all(|range| range.is_done) {
            self.follow(&state)?;
            return Ok(state);
        }
        let mut snapshot = snapshot::open(&plan.source, self.tables, plan.workers, control)?;
        match &state.position {
            None => {
                self.check_unchanged()?;
                state.ranges.clear();
                let rows = self.range_rows();
                for table in self.tables {
                    let reader = &mut snapshot.readers[0];
                    state.ranges.extend(range::split(reader, table, rows)?);
                }
                plan.job.begin(target, &snapshot.position, &state.ranges)?;
                state.position = Some(snapshot.position.clone());
                self.count(&state.ranges);
                self.follow(&state)?;
            }
            Some(from) => {
                self.follow(&state)?;
                if let Some(spool) = &self.spool {
                    let goal = Goal::At(snapshot.position.clone());
                    let ranges = &state.ranges;
                    apply::run(plan, self.tables, ranges, from, spool, &goal, control)?;
                }
            }
        }
        let over = AtomicBool::new(false);
        let throttle = &self.throttle;
        thread::scope(|scope| {
            // Also when a worker's thread panics: the watching one would be waited for.
            let _over = Over(&over);
            let is_over = || over.load(Ordering::Relaxed);
            let watch = scope.spawn(move || {
                let (source, target) = (&plan.source, &plan.target);
                let watched = throttle::watch(throttle, source, target, control, &is_over);
                // A server that is lost is noticed by those who copy.
                if watched.as_ref().is_err_and(|error| !error.is_lost()) {
                    control.stop();
                }
                watched
            });
            let copied = ingest::run(plan, self.tables, state.ranges, snapshot, throttle, control);
            over.store(true, Ordering::Relaxed);
            let watched = watch.join().unwrap_or(Ok(()));
            match watched {
                Err(error) if !error.is_lost() => Err(error),
                _ => copied,
            }
        })?;
        let state = plan.job.state(target)?;
        match state.ranges.iter().all(|range| range.is_done) {
            true => Ok(state),
            false => Err(CopyError::Stopped),
        }
    }

    /// Sees that the tables are what was read of them, and the target's made from. The log is
    /// followed from the snapshot on, so it does not tell of a change just before.
    fn check_unchanged(&self) -> Result<(), CopyError> {
        let names: Vec<TableName> = (self.tables.iter())
            .map(|table| table.source.clone())
            .collect();
        let mut source = session::source(&self.plan.source)?;
        let now = schema::read_named(&mut source, None, &names, None)?;
        let is_changed = |table: &&Table| {
            let found = now.iter().find(|found| found.source == table.source);
            found.is_none_or(|found| found.columns != table.columns || found.key != table.key)
        };
        match self.tables.iter().find(is_changed) {
            None => Ok(()),
            Some(table) => Err(CopyError::Data {
                table: table.source.to_string(),
                what: "its definition was changed while the copy began; drop it at the target and \
                       run the same command again"
                    .to_owned(),
            }),
        }
    }

    /// Rows of a range: no more than was asked for, and so few that every worker has several, of
    /// tables that are worth it.
    fn range_rows(&self) -> u64 {
        const RANGES_EACH: u64 = 4;
        const ROWS_LEAST: u64 = 25_000;
        let rows: u64 = self.tables.iter().map(|table| table.rows_estimate).sum();
        let share = rows / (RANGES_EACH * self.plan.workers.max(1) as u64);
        self.plan.range_rows.min(share.max(ROWS_LEAST))
    }

    /// Begins to keep the source's log, unless it is kept already or nothing will be applied.
    fn follow(&mut self, state: &State) -> Result<(), CopyError> {
        if let (None, Some(position)) = (&self.spool, &state.position) {
            let spool = Spool::start(self.plan, self.tables, position, self.control)?;
            self.spool = Some(spool);
        }
        Ok(())
    }

    fn count(&self, ranges: &[Range]) {
        let done = ranges.iter().filter(|range| range.is_done).count() as u64;
        let rows: u64 = ranges.iter().map(|range| range.rows).sum();
        let here = self.control.rows.load(Ordering::Relaxed);
        let control = self.control;
        control.ranges.store(ranges.len() as u64, Ordering::Relaxed);
        control.ranges_done.store(done, Ordering::Relaxed);
        let before = rows.saturating_sub(here);
        control.rows_before.store(before, Ordering::Relaxed);
    }

    /// Builds the keys, while changes are applied.
    fn keys(&self, target: Connection, from: Position) -> Result<Position, CopyError> {
        self.control.enter(Phase::Keys);
        let mut position = from;
        thread::scope(|scope| {
            let builder = scope.spawn(move || self.build_keys(target));
            // A copy of nothing but rows stays where its snapshot was.
            while self.plan.until != Until::Copied && !builder.is_finished() {
                match self.apply(&position, &Goal::CaughtUp) {
                    Ok(reached) => position = reached,
                    Err(error) => {
                        // It ends after the table that it is at, and is waited for.
                        self.control.stop();
                        return Err(error);
                    }
                }
                thread::park_timeout(Duration::from_millis(20));
            }
            builder
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        Ok(position)
    }

    /// Builds the keys, also when the target is lost meanwhile, or changes faster than it builds:
    /// it knows which are left.
    fn build_keys(&self, mut target: Connection) -> Result<(), CopyError> {
        let (mut attempts, mut overtaken) = (0, 0);
        loop {
            let built = schema::build_keys(&mut target, self.plan, self.tables, self.control);
            let Err(error) = built else {
                return Ok(());
            };
            let is_overtaken = error.errno() == Some(ONLINE_LOG_TOO_BIG);
            attempts += 1;
            overtaken += u32::from(is_overtaken);
            let may_pass = can_go_on(&error) || (is_overtaken && overtaken <= OVERTAKEN_MAX);
            if !may_pass || attempts > ATTEMPTS_WITHOUT_PROGRESS {
                return Err(error);
            }
            if self.control.is_stopping() {
                return Err(CopyError::Stopped);
            }
            thread::sleep(ATTEMPT_PAUSE);
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
        if self.plan.until == Until::Copied {
            return Ok((verify::run(self.plan, self.tables, self.control)?, from));
        }
        thread::scope(|scope| {
            let comparing = scope.spawn(|| verify::run(self.plan, self.tables, self.control));
            let mut position = from;
            while !comparing.is_finished() {
                match self.apply(&position, &Goal::CaughtUp) {
                    Ok(reached) => position = reached,
                    Err(error) => {
                        // It is waited for at the end of the scope.
                        self.control.stop();
                        return Err(error);
                    }
                }
                thread::park_timeout(Duration::from_millis(20));
            }
            let differences = comparing
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok((differences, position))
        })
    }

    fn apply(&self, from: &Position, goal: &Goal) -> Result<Position, CopyError> {
        let Some(spool) = &self.spool else {
            return Ok(from.clone());
        };
        apply::run(self.plan, self.tables, &[], from, spool, goal, self.control)
    }
}

/// Says at its end that copying is over.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whether a new attempt may have another end: a server was lost or starts, or a lock was not had.
fn can_go_on(error: &CopyError) -> bool {
    error.is_lost() || error.is_locked()
}
