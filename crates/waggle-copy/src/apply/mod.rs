//! Changes from the spool, applied in order.
//!
//! ```text
//! spool ─► changes (rows) ─► batch (one outcome a key) ─► target (one transaction a batch)
//!            └ shape            └ prepared: what XA has not decided yet
//! ```
//!
//! Many transactions of the source become one of the target: as many as have come while the last
//! batch was stored, so that a target that keeps up has small ones and one that does not has
//! efficient ones. Of a table that is still being copied, the target must hold the changes of the
//! ranges that it has and of no other: a batch is applied whole, and what it wrote into ranges
//! that are not copied is deleted again in the same transaction, by the target's own comparison
//! of keys.
//!
//! Invariants: changes and position are stored in one transaction of the target, and a batch ends
//! where a transaction of the source does; after any error the spool is read again from where the
//! target says it is.

mod batch;
mod changes;
mod prepared;
mod shape;
mod target;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::control::{Control, Phase};
use crate::error::CopyError;
use crate::job::Plan;
use crate::position::Position;
use crate::range::Range;
use crate::session;
use crate::spool::{self, Mark, Reader, Record, Spool};
use crate::table::Table;

use batch::Batch;
use changes::Changes;
use prepared::Stash;
use shape::Shape;
use target::Target;

/// A batch is stored when it is so large, or nothing more is there, or it is so old.
const BATCH_BYTES: usize = 2 << 20;
const BATCH_AGE: Duration = Duration::from_millis(300);
/// A transaction that is larger is sent in pieces, and still committed whole.
const PIECE_BYTES: usize = 8 << 20;
/// How long to wait for more before looking around.
const LOOK: Duration = Duration::from_millis(50);
/// The position moves this often when nothing concerns the tables.
const IDLE_COMMIT: Duration = Duration::from_secs(1);
/// So often a batch may run into locks before that is an error.
const LOCKED_MAX: u32 = 20;

/// When applying ends.
#[derive(Debug, Clone, PartialEq)]
pub enum Goal {
    /// When the target is exactly here.
    At(Position),
    /// When the target has what the source had when this began, or more.
    CaughtUp,
    /// When [`Control::stop`] is called.
    Stopped,
}

/// Applies changes from where the target is. Of a table with ranges that are not done, only the
/// changes of keys that the target has (up to a range's frontier) are applied. Gives where the
/// target is.
///
/// # Errors
/// What the target or the spool says; [`CopyError::Stopped`] when the end was asked for before
/// the goal was reached.
pub fn run(
    plan: &Plan,
    tables: &[Table],
    ranges: &[Range],
    from: &Position,
    spool: &Spool,
    goal: &Goal,
    control: &Arc<Control>,
) -> Result<Position, CopyError> {
    let aim = match goal {
        Goal::At(position) => Some(position.clone()),
        Goal::CaughtUp => Some(patiently(control, || {
            let mut source = session::source(&plan.source)?;
            spool::now(&mut source)
        })?),
        Goal::Stopped => None,
    };
    if aim.as_ref().is_some_and(|aim| aim.is_within(from)) {
        return Ok(from.clone());
    }
    let shapes: Vec<Shape<'_>> = tables
        .iter()
        .map(|table| Shape::new(table, ranges))
        .collect();
    let (target, is_building) = patiently(control, || {
        let mut target = Target::connect(plan)?;
        let is_building = control.phase() == Phase::Keys && target.is_building()?;
        Ok((target, is_building))
    })?;
    let mut applier = Applier {
        plan,
        target,
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
    };
    let mut reader = spool.reader(from)?;
    let mut restart = Restart::default();
    loop {
        let error = match applier.follow(&mut reader, &mut restart) {
            Ok(()) if control.is_stopping() && *goal != Goal::Stopped && !applier.is_there() => {
                return Err(CopyError::Stopped);
            }
            Ok(()) => return Ok(applier.position),
            Err(error) => error,
        };
        // Why a batch failed may be that the log is not followed any more.
        applier.position = applier.target.recover(error, &mut restart, control)?;
        applier.forget();
        reader = spool.reader(&applier.position)?;
    }
}

/// Asks again while a server is away, for as long as one is waited for when it is lost later.
///
/// # Errors
/// What was asked, once it is another error or that long has passed; [`CopyError::Stopped`].
pub(crate) fn patiently<T>(
    control: &Control,
    mut ask: impl FnMut() -> Result<T, CopyError>,
) -> Result<T, CopyError> {
    let deadline = Instant::now() + target::PATIENCE;
    loop {
        match ask() {
            Err(error) if target::is_away(&error) && Instant::now() < deadline => {
                if control.is_stopping() {
                    return Err(CopyError::Stopped);
                }
                std::thread::sleep(target::RETRY);
            }
            done => return done,
        }
    }
}

/// How often a batch was begun again.
#[derive(Debug, Default)]
struct Restart {
    locked: u32,
}

impl Restart {
    /// Whether there may be another attempt.
    fn may_try(&mut self, is_locked: bool) -> bool {
        self.locked += u32::from(is_locked);
        self.locked <= LOCKED_MAX
    }
}

struct Applier<'p> {
    plan: &'p Plan,
    target: Target<'p>,
    changes: Changes<'p>,
    batch: Batch,
    stash: Stash,
    /// After the last whole transaction that was read.
    position: Position,
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

impl Applier<'_> {
    /// Applies until the goal is reached or the end is asked for.
    fn follow(&mut self, reader: &mut Reader, restart: &mut Restart) -> Result<(), CopyError> {
        loop {
            if self.is_there() || self.control.is_stopping() {
                return self.commit(reader, restart);
            }
            while self.is_paused() && !self.control.is_stopping() {
                self.commit(reader, restart)?;
                std::thread::sleep(LOOK);
            }
            if !self.transaction(reader)? {
                self.control.lag_ms.store(0, Ordering::Relaxed);
                if self.transactions > 0 || self.committed.elapsed() >= IDLE_COMMIT {
                    self.commit(reader, restart)?;
                }
                continue;
            }
            let is_old = self.began.is_some_and(|began| began.elapsed() >= BATCH_AGE);
            let is_last = !reader.has_more() && self.transactions > 0;
            if self.batch.bytes() >= BATCH_BYTES || is_old || is_last {
                self.commit(reader, restart)?;
            }
        }
    }

    /// Also by a file, which whoever copies looks at, and nobody else does now.
    fn is_paused(&self) -> bool {
        let file = self.plan.limits.pause_file.as_ref();
        self.control.is_paused() || file.is_some_and(|file| file.exists())
    }

    fn is_there(&self) -> bool {
        let aim = self.aim.as_ref();
        aim.is_some_and(|aim| aim.is_within(&self.position))
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

    fn commit(&mut self, reader: &mut Reader, restart: &mut Restart) -> Result<(), CopyError> {
        if !self.is_dirty {
            // The target has all that was read: what lies behind the reader may go.
            if !self.held {
                reader.release()?;
            }
            return Ok(());
        }
        self.flush()?;
        self.target.commit(&self.position)?;
        *restart = Restart::default();
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
