//! One transaction of the source after the other, read into batches, until the goal is reached.
//!
//! Neighbours: the parent says what the goal is and begins again after an error; `changes`, `batch`
//! and `target` do with a transaction what it says. Invariant: a batch that is stored ends where a
//! transaction of the source does, and `position` is there, too.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::batch::Batch;
use super::changes::Changes;
use super::prepared::Stash;
use super::shape::Shape;
use super::target::Target;
use super::{Goal, Restart, patiently};
use crate::control::{Control, Phase};
use crate::error::CopyError;
use crate::job::Plan;
use crate::position::Position;
use crate::spool::{self, Mark, Reader, Record};

/// A batch is stored when it is so large, or nothing more is there, or it is so old.
const BATCH_BYTES: usize = 2 << 20;
const BATCH_AGE: Duration = Duration::from_millis(300);
/// A transaction that is larger is sent in pieces, and still committed whole.
const PIECE_BYTES: usize = 8 << 20;
/// How long to wait for more before looking around.
const LOOK: Duration = Duration::from_millis(50);
/// The position moves this often when nothing concerns the tables.
const IDLE_COMMIT: Duration = Duration::from_secs(1);

pub(super) struct Applier<'p> {
    plan: &'p Plan,
    target: Target<'p>,
    restart: Restart,
    changes: Changes<'p>,
    batch: Batch,
    stash: Stash,
    /// After the last whole transaction that was read.
    pub(super) position: Position,
    aim: Option<Position>,
    is_exact: bool,
    /// Keys are built meanwhile, some of which may be unique.
    is_building: bool,
    control: &'p Control,
    /// The target does not have `position` yet.
    is_dirty: bool,
    committed: Instant,
    /// When the batch got its first transaction.
    began: Option<Instant>,
    /// A transaction was left for later.
    held: bool,
    /// In the batch.
    transactions: u64,
    /// Of rows, sent and not committed: they are counted once they are, also when a batch is
    /// begun again.
    changes_sent: u64,
    /// When the newest transaction that was read was committed at the source.
    newest_us: u64,
}

impl<'p> Applier<'p> {
    /// Connects to the target, which is at `from`.
    pub(super) fn connect(
        plan: &'p Plan,
        shapes: Vec<Shape<'p>>,
        from: &Position,
        goal: &Goal,
        aim: Option<Position>,
        control: &'p Control,
    ) -> Result<Applier<'p>, CopyError> {
        let (target, is_building) = patiently(control, || {
            let mut target = Target::connect(plan)?;
            let is_building = control.phase() == Phase::Keys && target.is_building()?;
            Ok((target, is_building))
        })?;
        Ok(Applier {
            plan,
            target,
            restart: Restart::default(),
            is_building,
            batch: Batch::new(shapes.len()),
            changes: Changes::new(shapes),
            stash: Stash::new(plan.job.name()),
            position: from.clone(),
            is_exact: matches!(goal, Goal::At(_)),
            aim,
            control,
            is_dirty: false,
            committed: Instant::now(),
            began: None,
            held: false,
            transactions: 0,
            changes_sent: 0,
            newest_us: 0,
        })
    }

    /// Applies until the goal is reached or the end is asked for.
    pub(super) fn follow(&mut self, reader: &mut Reader) -> Result<(), CopyError> {
        loop {
            if self.is_there() || self.control.is_stopping() {
                return self.commit(reader);
            }
            while self.is_paused() && !self.control.is_stopping() {
                self.commit(reader)?;
                std::thread::sleep(LOOK);
            }
            if !self.transaction(reader)? {
                self.control.lag_ms.store(0, Ordering::Relaxed);
                if self.transactions > 0 || self.committed.elapsed() >= IDLE_COMMIT {
                    self.commit(reader)?;
                }
                continue;
            }
            let is_old = self.began.is_some_and(|began| began.elapsed() >= BATCH_AGE);
            let is_last = !reader.has_more() && self.transactions > 0;
            if self.batch.bytes() >= BATCH_BYTES || is_old || is_last {
                self.commit(reader)?;
            }
        }
    }

    /// Also by a file, which whoever copies looks at, and nobody else does now.
    fn is_paused(&self) -> bool {
        let file = self.plan.limits.pause_file.as_ref();
        self.control.is_paused() || file.is_some_and(|file| file.exists())
    }

    /// Whether the goal is reached.
    pub(super) fn is_there(&self) -> bool {
        let aim = self.aim.as_ref();
        aim.is_some_and(|aim| aim.is_within(&self.position))
    }

    /// After an error: goes back to where the target is, unless another attempt cannot have another
    /// end.
    pub(super) fn recover(&mut self, error: CopyError) -> Result<(), CopyError> {
        let (restart, control) = (&mut self.restart, self.control);
        self.position = self.target.recover(error, restart, control)?;
        self.forget();
        Ok(())
    }

    /// Forgets what is not at the target.
    fn forget(&mut self) {
        self.batch.clear();
        self.stash.clear();
        self.is_dirty = false;
        self.began = None;
        self.held = false;
        self.transactions = 0;
        self.changes_sent = 0;
    }

    /// Reads a transaction into the batch; whether there was one.
    fn transaction(&mut self, reader: &mut Reader) -> Result<bool, CopyError> {
        let (mark, committed_us) = match reader.next(LOOK)? {
            None => return Ok(false),
            Some(Record::Skipped { mark, .. }) => {
                if !mark.is_in(&self.position) {
                    mark.advance(&mut self.position);
                    self.is_dirty = true;
                }
                return Ok(true);
            }
            Some(Record::Begin { mark, committed_us }) => (mark, committed_us),
            Some(other) => {
                return Err(CopyError::Progress(format!(
                    "the spool holds {other:?} where a transaction should begin"
                )));
            }
        };
        let is_later = self.is_exact && self.aim.as_ref().is_some_and(|aim| !mark.is_in(aim));
        self.held |= is_later && !mark.is_in(&self.position);
        let is_wanted = !is_later && !mark.is_in(&self.position);
        loop {
            // It is there: a transaction in a spool is whole.
            let Some(record) = reader.next(LOOK)? else {
                continue;
            };
            let is_last = record.ends_transaction();
            if is_wanted {
                self.take(&record)?;
            }
            if is_last {
                break;
            }
        }
        if is_wanted {
            self.finish(&mark, committed_us);
        }
        Ok(true)
    }

    fn finish(&mut self, mark: &Mark, committed_us: u64) {
        mark.advance(&mut self.position);
        self.is_dirty = true;
        self.transactions += 1;
        self.newest_us = committed_us;
        self.began.get_or_insert_with(Instant::now);
    }

    fn take(&mut self, record: &Record<'_>) -> Result<(), CopyError> {
        match record {
            Record::XaStart(xid) => self.stash.begin(xid),
            Record::Table(_) | Record::Rows(..) if self.stash.is_open() => {
                self.stash.keep(record, &mut self.target)?;
            }
            Record::Table(body) => self.changes.table(body)?,
            Record::Rows(kind, body) => {
                self.changes.rows(*kind, body, &mut self.batch)?;
                if self.batch.bytes() >= PIECE_BYTES {
                    self.flush()?;
                }
            }
            Record::Statement(sql) => return Err(defined(sql)),
            Record::Prepared(xid) => {
                let target = &mut self.target;
                self.stash.prepare(xid, target)?;
            }
            Record::XaCommit(xid) => self.commit_prepared(xid)?,
            Record::XaRollback(xid) => {
                let sql = self.stash.removal(xid);
                self.target.add(sql.as_bytes())?;
            }
            Record::Commit => {
                if let Some(xid) = self.stash.open_name() {
                    // Committed at once, in one phase.
                    self.commit_prepared(&xid)?;
                }
            }
            Record::Segment(_) | Record::Begin { .. } | Record::Skipped { .. } => {
                return Err(CopyError::Progress(
                    "the spool holds a transaction that does not end".to_owned(),
                ));
            }
        }
        Ok(())
    }

    /// What was prepared becomes changes of now.
    fn commit_prepared(&mut self, xid: &[u8]) -> Result<(), CopyError> {
        let bodies = self.stash.take(xid, &mut self.target)?;
        for body in bodies {
            for record in spool::records(&body) {
                let record = record.ok_or_else(|| {
                    CopyError::Progress("waggle_copy.prepared is damaged".to_owned())
                })?;
                match record {
                    Record::Table(body) => self.changes.table(body)?,
                    Record::Rows(kind, body) => self.changes.rows(kind, body, &mut self.batch)?,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Sends the batch's statements.
    fn flush(&mut self) -> Result<(), CopyError> {
        let target = &mut self.target;
        self.batch
            .statements(&self.changes.shapes, self.is_building, &mut |sql| {
                target.add(sql)
            })?;
        self.changes_sent += self.batch.changes;
        self.batch.clear();
        Ok(())
    }

    fn commit(&mut self, reader: &mut Reader) -> Result<(), CopyError> {
        if !self.is_dirty {
            // The target has all that was read: what lies behind the reader may go.
            if !self.held {
                reader.release()?;
            }
            return Ok(());
        }
        self.flush()?;
        self.target.commit(&self.position)?;
        self.restart = Restart::default();
        if !self.held {
            reader.release()?;
        }
        Control::add(&self.control.transactions, self.transactions);
        Control::add(&self.control.changes, self.changes_sent);
        self.changes_sent = 0;
        self.say_lag(reader);
        self.is_dirty = false;
        self.began = None;
        self.transactions = 0;
        self.committed = Instant::now();
        Ok(())
    }

    fn say_lag(&self, reader: &Reader) {
        let lag_ms = match (reader.has_more(), self.newest_us) {
            (false, _) => 0,
            (true, 0) => u64::MAX,
            (true, newest_us) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH);
                let now_us = now.map_or(0, |now| now.as_micros() as u64);
                now_us.saturating_sub(newest_us) / 1000
            }
        };
        self.control.lag_ms.store(lag_ms, Ordering::Relaxed);
    }
}

fn defined(sql: &[u8]) -> CopyError {
    let text = String::from_utf8_lossy(&sql[..sql.len().min(300)]).into_owned();
    CopyError::Data {
        table: "a copied table".to_owned(),
        what: format!(
            "the source ran a statement on it that rows do not say (a change of its definition, \
             or of its rows without binlog_format = ROW); the target is as it was before that; \
             drop the table at the target and begin anew: {text}"
        ),
    }
}
