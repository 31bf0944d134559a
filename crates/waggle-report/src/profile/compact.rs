//! What the page embeds of a profile: names once, stacks as a tree, columns instead of objects.
//!
//! A server's profile has thousands of stacks that share most of their calls; as a tree they are a
//! tenth of the bytes. `web/src/profile.ts` mirrors the types; a golden test keeps the two
//! together.
//! Invariant: every index leads somewhere, and a node's parent stands before it.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::{ProfileDigest, ProfileLosses, ProfilePage, ProfilePart, ProfileReport};

/// No parent, no file, no line.
const NONE: i64 = -1;
/// Longest name that the page holds, characters; longer ones keep their beginning.
const NAME_CHARS_MAX: usize = 2_000;

/// The page's data.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ProfileData {
    /// One profile, or several to choose from and to compare.
    pub parts: Vec<PartData>,
    /// The command line, quoted for a shell, without passwords.
    pub command: String,
    /// Version of waggle that ran it.
    pub waggle_version: String,
    /// Start, UTC, RFC 3339.
    pub started: String,
    /// The verb, such as `profile`.
    pub verb: String,
    /// What a reader must know.
    pub notes: Vec<String>,
    /// The part that is shown first.
    pub shown: usize,
    /// The part that it is compared with.
    pub against: Option<usize>,
}

/// One profile.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PartData {
    /// What it is of; empty if it is the only one.
    pub name: String,
    /// Seconds that it was on.
    pub duration_s: f64,
    /// Samples of a running thread in a second of its time; 0: none were taken.
    pub frequency_hz: u32,
    /// Names, which all others name by index.
    pub strings: Vec<String>,
    /// Calls.
    pub frames: FrameColumns,
    /// Stacks.
    pub nodes: NodeColumns,
    /// Whose time.
    pub whos: Vec<WhoData>,
    /// The time.
    pub entries: EntryColumns,
    /// The statements.
    pub digests: Vec<ProfileDigest>,
    /// What is missing.
    pub lost: ProfileLosses,
}

/// Calls, a column a fact.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FrameColumns {
    /// Index of the name.
    pub name: Vec<usize>,
    /// Index of the name of the file of machine code.
    pub module: Vec<usize>,
    /// Index of the name of the source file; -1: not known.
    pub file: Vec<i64>,
    /// The line; -1: not known.
    pub line: Vec<i64>,
    /// 1: inlined, 2: the kernel's, 4: it stands for calls that are missing.
    pub flags: Vec<u8>,
}

/// A tree of calls, a column a fact. The stack of a node is the way to it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct NodeColumns {
    /// The caller; -1: none.
    pub parent: Vec<i64>,
    /// The call.
    pub frame: Vec<usize>,
}

/// Whose time.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WhoData {
    /// Name and pid.
    pub process: String,
    /// What the thread is there for.
    pub role: String,
    /// The thread, if threads were told apart.
    pub thread: Option<String>,
    /// The digest of the statement that the thread ran.
    pub digest: Option<String>,
}

/// The time, a column a fact.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct EntryColumns {
    /// Whose.
    pub who: Vec<usize>,
    /// 0: on CPU, 1: off CPU, 2: runnable.
    pub kind: Vec<u8>,
    /// The node of the innermost call; -1: no stack.
    pub node: Vec<i64>,
    /// How often it was seen.
    pub samples: Vec<u64>,
    /// The time that this stands for, ns.
    pub ns: Vec<u64>,
}

/// The data of a page.
pub fn page_data(page: &ProfilePage) -> ProfileData {
    ProfileData {
        parts: page.parts.iter().map(part).collect(),
        command: page.command.clone(),
        waggle_version: page.waggle_version.clone(),
        started: page.started.clone(),
        verb: page.verb.clone(),
        notes: page.notes.clone(),
        shown: page.shown.0,
        against: page.shown.1,
    }
}

fn part(part: &ProfilePart) -> PartData {
    let report = &part.report;
    let mut making = Making::default();
    let mut whos: Vec<WhoData> = report
        .whos
        .iter()
        .map(|who| WhoData {
            process: short(&who.process),
            role: short(&who.role),
            thread: who.thread.as_deref().map(short),
            digest: who.digest.clone(),
        })
        .collect();
    let mut entries = EntryColumns::default();
    let mut nobody = None;
    for entry in &report.entries {
        let who = entry.who as usize;
        let who = if who < report.whos.len() {
            who
        } else {
            *nobody.get_or_insert_with(|| {
                whos.push(WhoData {
                    process: "[damaged]".to_owned(),
                    role: "[damaged]".to_owned(),
                    ..WhoData::default()
                });
                whos.len() - 1
            })
        };
        entries.who.push(who);
        entries.kind.push(entry.kind as u8);
        entries.node.push(making.stack(report, entry.stack));
        entries.samples.push(entry.samples);
        entries.ns.push(entry.ns);
    }
    PartData {
        name: part.name.clone(),
        duration_s: report.duration_s(),
        frequency_hz: report.frequency_hz,
        strings: making.strings,
        frames: making.frames,
        nodes: making.nodes,
        whos,
        entries,
        digests: report.digests.clone(),
        lost: report.lost.clone(),
    }
}

fn short(name: &str) -> String {
    match name.char_indices().nth(NAME_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

#[derive(Default)]
struct Making {
    strings: Vec<String>,
    known_strings: HashMap<String, usize>,
    frames: FrameColumns,
    /// Where a frame of the report stands here.
    known_frames: BTreeMap<u32, usize>,
    missing: Option<usize>,
    nodes: NodeColumns,
    known_nodes: HashMap<(i64, usize), i64>,
    known_stacks: HashMap<u32, i64>,
}

impl Making {
    fn string(&mut self, text: &str) -> usize {
        if let Some(at) = self.known_strings.get(text) {
            return *at;
        }
        self.strings.push(short(text));
        let at = self.strings.len() - 1;
        self.known_strings.insert(text.to_owned(), at);
        at
    }

    fn stack(&mut self, report: &ProfileReport, stack: u32) -> i64 {
        if let Some(node) = self.known_stacks.get(&stack) {
            return *node;
        }
        let mut at = NONE;
        let known = report.stacks.get(stack as usize);
        if known.is_some_and(|stack| stack.truncated) {
            let frame = self.missing();
            at = self.node(at, frame);
        }
        for (id, frame) in report.frames_of(stack) {
            let frame = match self.known_frames.get(&id) {
                Some(known) => *known,
                None => {
                    let file = frame
                        .file
                        .as_deref()
                        .map_or(NONE, |file| self.string(file) as i64);
                    let flags = u8::from(frame.inlined) | u8::from(frame.kernel) << 1;
                    let line = frame.line.map_or(NONE, i64::from);
                    let made = self.frame(&frame.name, &frame.module, (file, line), flags);
                    self.known_frames.insert(id, made);
                    made
                }
            };
            at = self.node(at, frame);
        }
        self.known_stacks.insert(stack, at);
        at
    }

    fn frame(&mut self, name: &str, module: &str, source: (i64, i64), flags: u8) -> usize {
        let name = if name.trim().is_empty() {
            "[unknown]"
        } else {
            name
        };
        let (name, module) = (self.string(name), self.string(module));
        let frames = &mut self.frames;
        frames.name.push(name);
        frames.module.push(module);
        frames.file.push(source.0);
        frames.line.push(source.1);
        frames.flags.push(flags);
        frames.name.len() - 1
    }

    /// The frame that stands for calls that are missing.
    fn missing(&mut self) -> usize {
        if let Some(at) = self.missing {
            return at;
        }
        let at = self.frame("[truncated]", "", (NONE, NONE), 4);
        self.missing = Some(at);
        at
    }

    fn node(&mut self, parent: i64, frame: usize) -> i64 {
        let nodes = &mut self.nodes;
        *self.known_nodes.entry((parent, frame)).or_insert_with(|| {
            nodes.parent.push(parent);
            nodes.frame.push(frame);
            nodes.parent.len() as i64 - 1
        })
    }
}
