//! What is remembered of one latch: the evidence that a wait still open may need.
//!
//! Invariant: bounded. What is older than every open wait is forgotten; what is forgotten although
//! a wait is open shows as not observed.

use std::collections::VecDeque;

use super::held::{Evidence, Tells};

/// Most pieces of evidence of one latch.
const EVIDENCE_MAX: usize = 4096;
/// How many are kept when nobody waits: they tell since when the next holder had it.
const IDLE_KEPT: usize = 8;

/// The evidence of one latch, in order of time, and how many sleep for it.
#[derive(Debug, Default)]
pub(super) struct History {
    evidence: VecDeque<Evidence>,
    /// Beginnings of open waits, ns; few.
    open: Vec<u64>,
    /// Something was forgotten up to then, ns.
    forgotten_ns: u64,
}

impl History {
    pub(super) fn push(&mut self, evidence: Evidence) {
        if self.evidence.len() == EVIDENCE_MAX {
            self.evidence.pop_front();
            self.forgotten_ns = self.evidence.front().map_or(0, |e| e.ns);
        }
        self.evidence.push_back(evidence);
    }

    /// A wait begins.
    pub(super) fn open(&mut self, from_ns: u64) {
        self.open.push(from_ns);
    }

    /// It has been accounted for.
    pub(super) fn close(&mut self, from_ns: u64) {
        if let Some(at) = self.open.iter().position(|ns| *ns == from_ns) {
            self.open.swap_remove(at);
        }
        match self.open.iter().min() {
            Some(oldest) => {
                // The last thing before a wait may tell since when its first holder had it.
                while self.evidence.len() > IDLE_KEPT
                    && self.evidence.get(IDLE_KEPT).is_some_and(|e| e.ns < *oldest)
                {
                    self.evidence.pop_front();
                }
            }
            None => {
                let surplus = self.evidence.len().saturating_sub(IDLE_KEPT);
                self.evidence.drain(..surplus);
            }
        }
    }

    /// Takes back that `tid` slept since `ns`: it did not.
    pub(super) fn take_back(&mut self, tid: u32, ns: u64) {
        let same = |e: &Evidence| e.tid == tid && e.ns == ns && e.tells == Tells::Slept;
        if let Some(at) = self.evidence.iter().rposition(same) {
            self.evidence.remove(at);
        }
    }

    /// The first release by anybody but `tid` after `ns`.
    pub(super) fn release_after(&self, ns: u64, tid: u32) -> Option<&Evidence> {
        let released =
            |e: &&Evidence| e.ns > ns && e.tid != tid && matches!(e.tells, Tells::Released(_));
        self.evidence.iter().find(released)
    }

    /// True if evidence of the time after `ns` was forgotten for want of room.
    pub(super) fn is_cut_after(&self, ns: u64) -> bool {
        self.forgotten_ns > ns
    }

    pub(super) fn evidence(&mut self) -> &[Evidence] {
        self.evidence.make_contiguous()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// When something was last seen of it, ns.
    pub(super) fn last_ns(&self) -> u64 {
        self.evidence.back().map_or(0, |e| e.ns)
    }
}
