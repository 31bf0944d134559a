//! Changes from the spool, applied in order.
//!
//! ```text
//!          applier: one transaction of the source after the other, until the goal is reached
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

mod applier;
mod batch;
mod changes;
mod prepared;
mod shape;
mod target;

use std::sync::Arc;
use std::time::Instant;

use crate::control::Control;
use crate::error::CopyError;
use crate::job::Plan;
use crate::position::Position;
use crate::range::Range;
use crate::session;
use crate::spool::{self, Spool};
use crate::table::Table;

use applier::Applier;
use shape::Shape;

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
    let mut applier = Applier::connect(plan, shapes, from, goal, aim, control)?;
    let mut reader = spool.reader(from)?;
    loop {
        let error = match applier.follow(&mut reader) {
            Ok(()) if control.is_stopping() && *goal != Goal::Stopped && !applier.is_there() => {
                return Err(CopyError::Stopped);
            }
            Ok(()) => return Ok(applier.position),
            Err(error) => error,
        };
        // Why a batch failed may be that the log is not followed any more.
        applier.recover(error)?;
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
