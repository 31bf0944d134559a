//! Is a row different, or only not there yet?
//!
//! While changes are applied the target lags, and the two sides are never read at one moment. So a
//! row that looked different is read again: it counts only when the source's row has been the same
//! all the time that the target may lag, and the target's is still another. A row that changes at
//! the source all the time is said to be unsettled, not different. Invariant: a row that is equal
//! at both sides in one reading after the other is never called different.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::key::KeyText;
use super::ranges::{Suspect, both};
use super::side::Half;
use crate::control::Control;
use crate::error::CopyError;

/// How suspects came out.
#[derive(Debug, Default)]
pub(super) struct Settled {
    pub(super) different: Vec<Suspect>,
    /// Rows that changed at the source until the patience ended.
    pub(super) moving: Vec<Suspect>,
    /// Rows that were found equal later.
    pub(super) late: u64,
}

/// A suspect keeps being asked for this many times the lag at most.
const PATIENCE: u32 = 10;

/// Reads suspects again until each is settled. With a lag of zero they are read once more.
pub(super) fn settle(
    source: &mut Half,
    target: &mut Half,
    suspects: Vec<Suspect>,
    lag: Duration,
    control: &Control,
) -> Result<Settled, CopyError> {
    let begun = Instant::now();
    let mut settled = Settled::default();
    let mut left: Vec<(Suspect, Instant)> = suspects
        .into_iter()
        .map(|suspect| (suspect, begun))
        .collect();
    let mut is_first = true;
    while !left.is_empty() {
        if control.is_stopping() {
            return Err(CopyError::Stopped);
        }
        if !is_first {
            control.wait((lag / 10).clamp(Duration::from_millis(10), MOMENT));
        }
        is_first = false;
        let keys: Vec<KeyText> = left
            .iter()
            .map(|(suspect, _)| suspect.key.clone())
            .collect();
        let (ours, theirs) = both(source, target, |half| half.digests(&keys))?;
        let ours: HashMap<KeyText, String> = ours.into_iter().collect();
        let theirs: HashMap<KeyText, String> = theirs.into_iter().collect();
        let now = Instant::now();
        let mut waiting = Vec::new();
        for (mut suspect, mut since) in left {
            let (our, their) = (ours.get(&suspect.key), theirs.get(&suspect.key));
            if our == their {
                settled.late += 1;
                continue;
            }
            if our != suspect.source.as_ref() {
                since = now;
            }
            suspect.source = our.cloned();
            suspect.target = their.cloned();
            if now.duration_since(since) >= lag {
                settled.different.push(suspect);
            } else if now.duration_since(begun) >= lag * PATIENCE {
                settled.moving.push(suspect);
            } else {
                waiting.push((suspect, since));
            }
        }
        left = waiting;
    }
    Ok(settled)
}

/// The longest between two readings.
const MOMENT: Duration = Duration::from_millis(500);
