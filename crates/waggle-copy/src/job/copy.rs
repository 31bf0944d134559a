//! The copy phase: attempts, each with a snapshot of its own, until every range is done.
//!
//! Neighbours: `snapshot` and `range` say what to copy, `ingest` copies it, `apply` brings what is
//! copied to where the next snapshot is, `throttle` watches meanwhile. Invariant: an attempt begins
//! with rows that are those of the source at its snapshot's position.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use waggle_wire::Connection;

use super::{ATTEMPT_PAUSE, ATTEMPTS_WITHOUT_PROGRESS, Running, can_go_on};
use crate::apply::{self, Goal};
use crate::error::CopyError;
use crate::progress::State;
use crate::range::{self, Range};
use crate::spool::Spool;
use crate::table::{Table, TableName};
use crate::{ingest, schema, session, snapshot, throttle};

impl Running<'_> {
    /// Copies until every range is done, with a new snapshot after each loss of a server.
    pub(super) fn copy(&mut self, target: &mut Connection) -> Result<State, CopyError> {
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
                    self.control.wait(ATTEMPT_PAUSE);
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
}

/// Says at its end that copying is over.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
