//! Which of the metadata locks on an object stand in a waiter's way?
//!
//! The probe names blockers as the server's search for deadlocks visits them. MySQL's does not
//! visit sessions that hold only what plain statements need and wait for nothing (its "fast path"
//! keeps no list of them), but its table of locks shows them, so that they are told apart here by
//! the same rule as the server's: which modes exclude each other.
//! Neighbours: [`modes`](super::modes) knows that rule, [`analysis`](super::analysis) keeps
//! the waits.
//!
//! Invariant: a wait of which the table shows no blocker is told without one.

use super::analysis::{Analysis, WaitDetail};
use super::inspect::{Finding, MetadataHold};
use super::modes::excludes;
use crate::lock::{LockKind, LockObject};

/// Adds what the tables say about waits for metadata locks.
pub(super) fn learn(analysis: &mut Analysis, finding: &Finding) {
    let waiting: Vec<u64> = analysis
        .waiting()
        .filter(|(_, kind, _)| *kind == LockKind::Metadata)
        .map(|(id, _, _)| id)
        .collect();
    for waiter in waiting {
        learn_of(analysis, finding, waiter);
    }
}

fn learn_of(analysis: &mut Analysis, finding: &Finding, waiter: u64) {
    let mut holds = finding.metadata.iter();
    let wanted = holds.find(|hold| hold.is_pending && hold.connection_id == waiter);
    let others: Vec<&MetadataHold> = finding
        .metadata
        .iter()
        .filter(|hold| hold.connection_id != waiter)
        .filter(|hold| wanted.is_none_or(|wanted| wanted.object == hold.object))
        .collect();
    let mut shown = false;
    for hold in &others {
        let conflicts =
            !hold.is_pending && wanted.is_some_and(|wanted| excludes(&hold.mode, &wanted.mode));
        if !conflicts && !analysis.is_blocked_by(waiter, hold.connection_id) {
            continue;
        }
        // Of several locks of one session, one that conflicts is the one to show.
        let is_better = |other: &&MetadataHold| {
            other.connection_id == hold.connection_id
                && !other.is_pending
                && wanted.is_some_and(|wanted| excludes(&other.mode, &wanted.mode))
        };
        if !conflicts && others.iter().any(is_better) {
            continue;
        }
        let detail = detail(finding, waiter, wanted, Some(hold));
        shown |= analysis.learn(waiter, hold.connection_id, detail, conflicts);
    }
    if wanted.is_some() && !shown {
        analysis.learn(waiter, 0, detail(finding, waiter, wanted, None), false);
    }
}

fn detail(
    finding: &Finding,
    waiter: u64,
    wanted: Option<&MetadataHold>,
    held: Option<&MetadataHold>,
) -> WaitDetail {
    let age = |id: u64| {
        let mut transactions = finding.transactions.iter();
        transactions.find(|(c, _)| *c == id).map(|(_, us)| *us)
    };
    let object = wanted.or(held).map(|hold| hold.object.clone());
    WaitDetail {
        object: LockObject {
            table: object.unwrap_or_default(),
            mode_wanted: wanted.map(|w| w.mode.clone()).unwrap_or_default(),
            mode_held: held.map(|h| h.mode.clone()).unwrap_or_default(),
            ..LockObject::default()
        },
        transaction_us: [age(waiter), held.and_then(|h| age(h.connection_id))],
        moment: finding.moment,
    }
}
