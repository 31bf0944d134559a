//! The document of a profile: where processes spent their time, and for which statement.
//!
//! `waggle profile`, and every verb with `--profile`, keeps a profile as `profile.json` (one of
//! several as `profile-NAME.json`); a [`ProfileReport`] is what is read back of it. `sums` makes
//! its tables, [`ProfilePage`] has every form it is shown in, `compact` what the page embeds.
//! `web/src/profile.ts` mirrors the latter.
//!
//! Invariants: files are foreign: an index that leads nowhere is damage and never panics; what was
//! lost stands in every form; names of any length and content break none.

mod compact;
mod shown;
mod sums;
mod words;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use compact::{
    EntryColumns, FrameColumns, NodeColumns, PartData, ProfileData, WhoData, page_data,
};
pub use shown::{ProfilePage, ProfilePart};
pub use sums::{FunctionSum, GroupSum, Totals, functions, groups, totals};
pub use words::text;

/// A profile as it was written.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProfileReport {
    /// When the recording began, RFC 3339 in UTC.
    pub started: String,
    /// For how long it was on, ns.
    pub duration_ns: u64,
    /// Samples of a running thread in a second of its time; 0: none were taken.
    pub frequency_hz: u32,
    /// Calls, which stacks name by index.
    pub frames: Vec<ProfileFrame>,
    /// Stacks, which entries name by index.
    pub stacks: Vec<ProfileStack>,
    /// Whose time it is, which entries name by index.
    pub whos: Vec<ProfileWho>,
    /// The time.
    pub entries: Vec<ProfileEntry>,
    /// Names of threads by their ids.
    pub threads: BTreeMap<u32, String>,
    /// The statements, the most expensive first.
    pub digests: Vec<ProfileDigest>,
    /// The processes, also those of which nothing was seen.
    pub processes: Vec<ProfileProcess>,
    /// What a reader has to know of how it was recorded.
    pub notes: Vec<String>,
    /// What is missing.
    pub lost: ProfileLosses,
}

/// What a thread was doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProfileKind {
    /// It ran.
    #[default]
    OnCpu,
    /// It was blocked.
    OffCpu,
    /// It could have run, but had no processor.
    Runnable,
}

/// One call of a stack.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProfileFrame {
    /// The function.
    pub name: String,
    /// The file that it is of, such as `mysqld` or `[kernel]`.
    pub module: String,
    /// Its source file, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line in that file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The compiler has put it into its caller.
    pub inlined: bool,
    /// It is the kernel's.
    pub kernel: bool,
}

/// The calls that a thread was in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProfileStack {
    /// Outermost first.
    pub frames: Vec<u32>,
    /// Its outermost calls are missing.
    pub truncated: bool,
}

/// Whose time it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProfileWho {
    /// Name and pid, such as `mysqld 4711`.
    pub process: String,
    /// The process's pid.
    pub pid: u32,
    /// When the process was started, ns since boot; with the pid it tells it from others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_ns: Option<u64>,
    /// What the thread is there for.
    pub role: String,
    /// The thread, if threads were told apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// The digest of the statement that the thread ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// Time of one kind in one stack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProfileEntry {
    /// Whose.
    pub who: u32,
    /// What of.
    pub kind: ProfileKind,
    /// Where.
    pub stack: u32,
    /// How often it was seen.
    pub samples: u64,
    /// The time that this stands for, ns.
    pub ns: u64,
}

/// What is known of the statements of a digest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProfileDigest {
    /// 16 hex digits.
    pub digest: String,
    /// The statement with its values taken out.
    pub fingerprint: String,
    /// How many ended meanwhile.
    pub statements: u64,
    /// The time they spent on processors, by the agent's accounting, ns.
    pub cpu_ns: u64,
}

/// A process that was looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProfileProcess {
    /// Name and pid.
    pub process: String,
    /// Its pid.
    pub pid: u32,
    /// As of whose time it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_ns: Option<u64>,
    /// The time it spent on processors meanwhile by the kernel's accounts, ns.
    pub cpu_ns: Option<u64>,
}

/// What a profile does not have, or has in part.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProfileLosses {
    /// Samples and waits that were taken and did not arrive.
    pub samples: u64,
    /// Samples that did, without a stack.
    pub stacks: u64,
    /// Samples whose stack lacks its outermost calls.
    pub truncated: u64,
    /// Frames, over all samples, that nothing has a name for.
    pub unknown_frames: u64,
    /// All of these and others in detail.
    pub by_cause: BTreeMap<String, u64>,
}

impl ProfileKind {
    /// All, in the order to show.
    pub const ALL: [Self; 3] = [Self::OnCpu, Self::OffCpu, Self::Runnable];

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::OnCpu => "on CPU",
            Self::OffCpu => "off CPU",
            Self::Runnable => "runnable",
        }
    }

    /// As files and flags have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::OnCpu => "on-cpu",
            Self::OffCpu => "off-cpu",
            Self::Runnable => "runnable",
        }
    }
}

impl ProfileReport {
    /// Seconds that it was on.
    pub fn duration_s(&self) -> f64 {
        self.duration_ns as f64 / 1e9
    }

    /// The frames of a stack, outermost first; those that an index does not lead to are left out.
    pub fn frames_of(&self, stack: u32) -> impl DoubleEndedIterator<Item = (u32, &ProfileFrame)> {
        let stack = self.stacks.get(stack as usize);
        let frames = stack.map_or(&[][..], |stack| &stack.frames);
        frames
            .iter()
            .filter_map(|id| Some((*id, self.frames.get(*id as usize)?)))
    }

    /// Whose time it is, if that is known.
    pub fn who(&self, id: u32) -> Option<&ProfileWho> {
        self.whos.get(id as usize)
    }

    /// A digest by its number.
    pub fn digest(&self, digest: &str) -> Option<&ProfileDigest> {
        self.digests.iter().find(|known| known.digest == digest)
    }

    /// Names of the processes, each once.
    pub fn process_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for who in &self.whos {
            if !names.contains(&who.process.as_str()) {
                names.push(&who.process);
            }
        }
        names
    }
}
