//! What of a profile is shown, and below what.

use std::sync::Arc;

use super::name;
use crate::model::{Entry, Frame, Kind, Profile, StackId, Who};

/// What stands below the first call of every stack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Root {
    /// Nothing: stacks of all threads together.
    #[default]
    All,
    /// What the thread is for.
    Role,
    /// The statement that the thread was running.
    Digest,
    /// The process.
    Process,
    /// The thread, of a profile that told threads apart or kept its timeline.
    Thread,
}

/// What weighs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unit {
    /// The time that samples stand for, ns.
    #[default]
    Ns,
    /// Samples.
    Samples,
}

/// What is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct View {
    /// Of one kind; `None`: of all, with a frame that names what was no CPU time.
    pub kind: Option<Kind>,
    /// Below the first call.
    pub root: Root,
    /// What weighs.
    pub unit: Unit,
    /// Lines of source code beside names, where they are known.
    pub lines: bool,
}

impl View {
    /// Time of one kind, stacks of all threads together.
    pub fn of(kind: Kind) -> Self {
        Self {
            kind: Some(kind),
            ..Self::default()
        }
    }

    /// The same below another root.
    #[must_use]
    pub fn by(self, root: Root) -> Self {
        Self { root, ..self }
    }

    pub(super) fn takes(&self, kind: Kind) -> bool {
        self.kind.is_none_or(|own| own == kind)
    }

    /// The weight of a sum.
    pub(super) fn weight(&self, samples: u64, ns: u64) -> u64 {
        match self.unit {
            Unit::Ns => ns,
            Unit::Samples => samples,
        }
    }
}

/// What a sum is of: an entry, or a moment of the timeline.
pub(super) struct Sum {
    pub(super) root: Option<Arc<str>>,
    pub(super) kind: Kind,
    pub(super) stack: StackId,
    pub(super) weight: u64,
}

/// Everything that a view takes, in the profile's order.
pub(super) fn sums(profile: &Profile, view: &View) -> Vec<Sum> {
    let has_threads = profile.whos.iter().any(|who| who.thread.is_some());
    if view.root == Root::Thread && !has_threads {
        return moments(profile, view);
    }
    let taken = profile
        .entries
        .iter()
        .filter(|entry| view.takes(entry.kind));
    let sum = |entry: &Entry| Sum {
        root: root(profile, who(profile, entry.who.0), view.root),
        kind: entry.kind,
        stack: entry.stack,
        weight: view.weight(entry.samples, entry.ns),
    };
    taken.map(sum).filter(|sum| sum.weight > 0).collect()
}

fn moments(profile: &Profile, view: &View) -> Vec<Sum> {
    let taken = profile.timeline.iter().filter(|at| view.takes(at.kind));
    let sums = taken.map(|at| Sum {
        root: Some(thread_name(profile, at.tid).into()),
        kind: at.kind,
        stack: at.stack,
        weight: view.weight(1, at.ns),
    });
    sums.filter(|sum| sum.weight > 0).collect()
}

/// A thread's name and number.
pub(super) fn thread_name(profile: &Profile, tid: u32) -> String {
    match profile.threads.get(&tid) {
        Some(name) => format!("{name} ({tid})"),
        None => format!("thread ({tid})"),
    }
}

pub(super) fn who(profile: &Profile, id: u32) -> Option<&Who> {
    profile.whos.get(id as usize)
}

fn root(profile: &Profile, who: Option<&Who>, root: Root) -> Option<Arc<str>> {
    let Some(known) = who else {
        return Some(name::DAMAGED.into());
    };
    match root {
        Root::All => None,
        Root::Role => Some(known.role.clone()),
        Root::Process => Some(known.process.clone()),
        Root::Thread => Some(known.thread.as_ref().unwrap_or(&known.role).clone()),
        Root::Digest => Some(statement(profile, who)),
    }
}

/// A digest with its fingerprint, if the profile knows it.
pub(super) fn statement(profile: &Profile, who: Option<&Who>) -> Arc<str> {
    let Some(digest) = who.and_then(|who| who.digest.as_ref()) else {
        return name::NO_STATEMENT.into();
    };
    let known = profile.digests.iter().find(|known| known.digest == *digest);
    match known.filter(|known| !known.fingerprint.is_empty()) {
        Some(known) => format!("{digest} {}", known.fingerprint).into(),
        None => digest.clone(),
    }
}

/// The frames of a stack, outermost first; empty where the index leads nowhere.
pub(super) fn frames(profile: &Profile, id: StackId) -> &[crate::model::FrameId] {
    let stack = profile.stacks.get(id.0 as usize);
    stack.map_or(&[], |stack| &stack.frames)
}

/// Whether a stack does not reach the thread's beginning.
pub(super) fn is_truncated(profile: &Profile, id: StackId) -> bool {
    let stack = profile.stacks.get(id.0 as usize);
    stack.is_none_or(|stack| stack.truncated)
}

/// What a frame that leads nowhere is shown as.
pub(super) fn frame(profile: &Profile, id: u32) -> Option<&Frame> {
    profile.frames.get(id as usize)
}

/// What the leaf of a stack says of time that was no CPU time.
pub(super) fn kind_frame(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::OnCpu => None,
        Kind::OffCpu => Some("[off CPU]"),
        Kind::Runnable => Some("[runnable]"),
    }
}
