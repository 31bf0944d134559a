//! What is a profile, whoever took it and whatever shows it?
//!
//! Frames, stacks and whose time it is are tables that [`Entry`] and [`Timed`] name by index. A
//! run directory keeps a profile as `profile.json`.
//!
//! Invariant: in a [`Profile`] that this module made or read, every index is in range; a process is
//! known by its pid and by when it was started, and two of them have two names.

mod builder;
mod filter;
mod merge;

pub use builder::Builder;
pub use filter::Filter;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Stands in [`Who::digest`] for a statement that had not ended when the recording did, so that
/// nothing is known of it.
pub const UNFINISHED: &str = "unfinished";

/// Stands in [`Who::digest`] for the time that a thread that runs statements spent outside of
/// them.
pub const BETWEEN: &str = "between statements";

/// What a thread was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// It ran.
    OnCpu,
    /// It was blocked.
    OffCpu,
    /// It could have run, but had no processor.
    Runnable,
}

impl Kind {
    /// As it is written in flags and files: `on-cpu`, `off-cpu`, `runnable`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::OnCpu => "on-cpu",
            Kind::OffCpu => "off-cpu",
            Kind::Runnable => "runnable",
        }
    }
}

/// One call of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Frame {
    /// The function, demangled; an address in hex where nothing has a name for it.
    pub name: Arc<str>,
    /// The file that it is of: `mysqld`, `libc.so.6`, `[kernel]`; empty if that is not known.
    pub module: Arc<str>,
    /// Its source file, where lines were asked for and are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<Arc<str>>,
    /// The line in that file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The compiler has put it into its caller.
    #[serde(default)]
    pub inlined: bool,
    /// It is the kernel's.
    #[serde(default)]
    pub kernel: bool,
}

/// A place in [`Profile::frames`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FrameId(pub u32);

/// A place in [`Profile::stacks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StackId(pub u32);

/// A place in [`Profile::whos`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct WhoId(pub u32);

/// The calls that a thread was in.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stack {
    /// Outermost first.
    pub frames: Box<[FrameId]>,
    /// Its outermost calls are missing.
    #[serde(default)]
    pub truncated: bool,
}

/// Whose time it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Who {
    /// Name and pid, such as `mysqld 4711`; another process of that name and pid, later in the
    /// same profile, is `mysqld 4711 (2)`.
    pub process: Arc<str>,
    /// The process's pid.
    pub pid: u32,
    /// When the process was started, ns since boot, to 10 ms, since a pid is used again; none if
    /// that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_ns: Option<u64>,
    /// What the thread is there for: `user thread`, `log writer`; its name, if that says more.
    pub role: Arc<str>,
    /// The thread's name and id, such as `connection 4712`, if threads were to be told apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<Arc<str>>,
    /// The digest of the statement that the thread ran, 16 hex digits; [`UNFINISHED`] or
    /// [`BETWEEN`]; none if the thread runs no statements, or digests were not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Arc<str>>,
}

/// Time of one kind in one stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Whose.
    pub who: WhoId,
    /// What of.
    pub kind: Kind,
    /// Where.
    pub stack: StackId,
    /// How often it was seen.
    pub samples: u64,
    /// The time that this stands for, ns.
    pub ns: u64,
}

/// One sample or wait by itself, kept when asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timed {
    /// When: ns since the start. Of a wait, when it began.
    pub at_ns: u64,
    /// Of which thread.
    pub tid: u32,
    /// Whose.
    pub who: WhoId,
    /// What of.
    pub kind: Kind,
    /// Where.
    pub stack: StackId,
    /// The time that it stands for, ns.
    pub ns: u64,
}

/// What is known of the statements of a digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest {
    /// 16 hex digits.
    pub digest: Arc<str>,
    /// The statement with its values taken out.
    pub fingerprint: Arc<str>,
    /// How many ended while it was recorded.
    pub statements: u64,
    /// The time they spent on processors, by the agent's accounting, ns.
    pub cpu_ns: u64,
}

/// A process that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// As in [`Who::process`].
    pub process: Arc<str>,
    /// Its pid.
    pub pid: u32,
    /// As in [`Who::start_ns`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_ns: Option<u64>,
    /// The time it spent on processors meanwhile, as the kernel accounts for it, ns; what its
    /// samples stand for has to come near that. `None` if it could not be read at both ends.
    pub cpu_ns: Option<u64>,
}

/// What a profile does not have, or has in part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// Samples and waits that were taken and did not arrive.
    pub samples: u64,
    /// Samples that did, without a stack.
    pub stacks: u64,
    /// Samples whose stack lacks its outermost calls.
    pub truncated: u64,
    /// Frames, over all samples, that nothing has a name for.
    pub unknown_frames: u64,
    /// All of these and others in detail: the cause, how often.
    pub by_cause: BTreeMap<String, u64>,
}

/// Where processes spent their time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// When the recording began, RFC 3339 in UTC.
    pub started: String,
    /// For how long it was on, ns.
    pub duration_ns: u64,
    /// Samples of a running thread in a second of its time; 0: none were taken.
    pub frequency_hz: u32,
    /// Of the stacks.
    pub frames: Vec<Frame>,
    /// Of the entries.
    pub stacks: Vec<Stack>,
    /// Of the entries.
    pub whos: Vec<Who>,
    /// The time; each `who`, `kind` and `stack` once.
    pub entries: Vec<Entry>,
    /// Each sample and wait in the order of time, if asked for.
    pub timeline: Vec<Timed>,
    /// Names of threads by their ids.
    pub threads: BTreeMap<u32, String>,
    /// The statements, if asked for, the most expensive first.
    pub digests: Vec<Digest>,
    /// The processes, also those of which nothing was seen.
    #[serde(default)]
    pub processes: Vec<Process>,
    /// What a reader has to know of how it was recorded, a sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What is missing.
    pub lost: Losses,
}

/// A file that is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// It is not even JSON of that shape.
    #[error("not a profile: {0}")]
    Shape(#[from] serde_json::Error),
    /// An index points nowhere.
    #[error("not a profile: {0} has an index out of range")]
    Index(&'static str),
}

impl Profile {
    /// Reads what [`Profile::to_json`] wrote.
    ///
    /// # Errors
    /// If the bytes are no profile, or were cut short.
    pub fn from_json(bytes: &[u8]) -> Result<Profile, ModelError> {
        let profile: Profile = serde_json::from_slice(bytes)?;
        profile.check()?;
        Ok(profile)
    }

    /// The profile as one JSON document.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a profile has no maps with keys that are no text")
    }

    fn check(&self) -> Result<(), ModelError> {
        let below = |id: u32, length: usize| usize::try_from(id).is_ok_and(|id| id < length);
        let frame = |id: &FrameId| below(id.0, self.frames.len());
        let place = |who: WhoId, stack: StackId| {
            below(who.0, self.whos.len()) && below(stack.0, self.stacks.len())
        };
        if !self
            .stacks
            .iter()
            .all(|stack| stack.frames.iter().all(frame))
        {
            return Err(ModelError::Index("a stack"));
        }
        if !self.entries.iter().all(|e| place(e.who, e.stack)) {
            return Err(ModelError::Index("an entry"));
        }
        if !self.timeline.iter().all(|t| place(t.who, t.stack)) {
            return Err(ModelError::Index("a timed sample"));
        }
        Ok(())
    }

    /// A frame.
    pub fn frame(&self, id: FrameId) -> &Frame {
        &self.frames[id.0 as usize]
    }

    /// A stack.
    pub fn stack(&self, id: StackId) -> &Stack {
        &self.stacks[id.0 as usize]
    }

    /// Whose time it is.
    pub fn who(&self, id: WhoId) -> &Who {
        &self.whos[id.0 as usize]
    }

    /// The frames of a stack, outermost first.
    pub fn frames_of(&self, id: StackId) -> impl DoubleEndedIterator<Item = &Frame> {
        self.stack(id).frames.iter().map(|id| self.frame(*id))
    }

    /// The time of a kind, ns.
    pub fn total_ns(&self, kind: Kind) -> u64 {
        let of_kind = self.entries.iter().filter(|entry| entry.kind == kind);
        let times = of_kind.map(|entry| entry.ns);
        times.fold(0, u64::saturating_add)
    }
}

impl Losses {
    /// Adds what another recording lost.
    pub fn add(&mut self, other: &Losses) {
        let numbers = [
            (&mut self.samples, other.samples),
            (&mut self.stacks, other.stacks),
            (&mut self.truncated, other.truncated),
            (&mut self.unknown_frames, other.unknown_frames),
        ];
        for (mine, others) in numbers {
            *mine = mine.saturating_add(others);
        }
        for (cause, count) in &other.by_cause {
            self.count(cause, *count);
        }
    }

    /// Counts losses of a cause; nothing is kept of what did not happen.
    pub fn count(&mut self, cause: &str, many: u64) {
        if many > 0 {
            let count = self.by_cause.entry(cause.to_owned()).or_default();
            *count = count.saturating_add(many);
        }
    }
}

#[cfg(test)]
mod tests;
