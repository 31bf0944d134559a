//! Which of the metadata locks on an object stand in a waiter's way?
//!
//! The probe names blockers as the server's search for deadlocks visits them. MySQL's does not
//! visit sessions that hold only what plain statements need and wait for nothing (its "fast path"
//! keeps no list of them), but its table of locks shows them, so that they are told apart here by
//! the same rule as the server's: which modes exclude each other.
//!
//! Invariant: a mode that is not known excludes nothing.

use super::analysis::{Analysis, WaitDetail};
use super::inspect::{Finding, MetadataHold};
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

/// Whether a lock held in mode `held` keeps one from being granted in mode `wanted`. By the
/// servers' tables of compatibility of granted locks, for objects and for scopes alike: the modes
/// of the two meet in `SHARED` and `EXCLUSIVE` only, which mean the same in both.
fn excludes(held: &str, wanted: &str) -> bool {
    let excluded_by: &[&str] = match wanted {
        "INTENTION_EXCLUSIVE" => &["SHARED", "EXCLUSIVE"],
        "SHARED" => &["INTENTION_EXCLUSIVE", "EXCLUSIVE"],
        "SHARED_HIGH_PRIO" => &["EXCLUSIVE"],
        "SHARED_READ" => &["SHARED_NO_READ_WRITE", "EXCLUSIVE"],
        "SHARED_WRITE" | "SHARED_WRITE_LOW_PRIO" => &[
            "SHARED_READ_ONLY",
            "SHARED_NO_WRITE",
            "SHARED_NO_READ_WRITE",
            "EXCLUSIVE",
        ],
        "SHARED_UPGRADABLE" => &[
            "SHARED_UPGRADABLE",
            "SHARED_NO_WRITE",
            "SHARED_NO_READ_WRITE",
            "EXCLUSIVE",
        ],
        "SHARED_READ_ONLY" => &[
            "SHARED_WRITE",
            "SHARED_WRITE_LOW_PRIO",
            "SHARED_NO_READ_WRITE",
            "EXCLUSIVE",
        ],
        "SHARED_NO_WRITE" => &[
            "SHARED_WRITE",
            "SHARED_WRITE_LOW_PRIO",
            "SHARED_UPGRADABLE",
            "SHARED_NO_WRITE",
            "SHARED_NO_READ_WRITE",
            "EXCLUSIVE",
        ],
        "SHARED_NO_READ_WRITE" => &[
            "SHARED_READ",
            "SHARED_WRITE",
            "SHARED_WRITE_LOW_PRIO",
            "SHARED_UPGRADABLE",
            "SHARED_READ_ONLY",
            "SHARED_NO_WRITE",
            "SHARED_NO_READ_WRITE",
            "EXCLUSIVE",
        ],
        "EXCLUSIVE" => &[
            "INTENTION_EXCLUSIVE",
            "SHARED",
            "SHARED_HIGH_PRIO",
            "SHARED_READ",
            "SHARED_WRITE",
            "SHARED_WRITE_LOW_PRIO",
            "SHARED_UPGRADABLE",
            "SHARED_READ_ONLY",
            "SHARED_NO_WRITE",
            "SHARED_NO_READ_WRITE",
            "EXCLUSIVE",
        ],
        _ => &[],
    };
    excluded_by.contains(&held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exclusion_goes_both_ways() {
        let modes = [
            "SHARED_HIGH_PRIO",
            "SHARED_READ",
            "SHARED_WRITE",
            "SHARED_UPGRADABLE",
            "SHARED_READ_ONLY",
            "SHARED_NO_WRITE",
            "SHARED_NO_READ_WRITE",
            "EXCLUSIVE",
        ];
        for one in modes {
            for two in modes {
                assert_eq!(excludes(one, two), excludes(two, one), "{one} {two}");
            }
            assert!(excludes("EXCLUSIVE", one), "{one}");
            assert!(!excludes("BACKUP_DDL", one), "{one}");
        }
        assert!(!excludes("SHARED_WRITE", "SHARED_READ"));
        assert!(!excludes("INTENTION_EXCLUSIVE", "INTENTION_EXCLUSIVE"));
    }
}
