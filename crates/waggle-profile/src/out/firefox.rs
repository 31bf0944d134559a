//! The Firefox Profiler's processed profile, which profiler.firefox.com opens from a file.
//!
//! With a timeline every thread has its samples at their times; without one, each role of each
//! process stands as a thread whose samples follow each other. Weights are ms, so that its call
//! tree and flame graph show the same times as ours. Time that was no CPU time ends in a frame that
//! says so, in a category (a colour) of its own.
//!
//! Invariants: every index leads somewhere, a stack's prefix stands before it, columns of a table
//! are as long as its `length`, and times of a thread do not fall.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use serde_json::{Value, json};

use super::view;
use super::{name, view::who};
use crate::model::{Kind, Profile, StackId};

/// Of the format; the Profiler upgrades what is older than itself.
pub const VERSION: u32 = 62;
/// Of Gecko's own format, which it was derived from.
const GECKO_VERSION: u32 = 24;

/// Indices into the categories of [`meta`].
const OTHER: usize = 0;
const USER: usize = 1;
const KERNEL: usize = 2;
const OFF_CPU: usize = 3;
const RUNNABLE: usize = 4;

/// A resource that is a file of machine code.
const LIBRARY: u32 = 1;

/// The profile as a file.
pub fn json(profile: &Profile) -> Vec<u8> {
    let mut shared = Shared::default();
    let threads = threads(profile, &mut shared);
    let document = json!({
        "meta": meta(profile),
        "libs": [],
        "pages": [],
        "profilerOverhead": [],
        "counters": [],
        "shared": shared.tables(),
        "threads": threads,
    });
    document.to_string().into_bytes()
}

fn meta(profile: &Profile) -> Value {
    let started = profile.started.parse::<jiff::Timestamp>();
    let category = |name: &str, colour: &str| {
        let subcategories = ["Other"];
        json!({ "name": name, "color": colour, "subcategories": subcategories })
    };
    let lost = &profile.lost;
    let extra =
        |label: &str, value: u64| json!({ "label": label, "format": "integer", "value": value });
    json!({
        "version": GECKO_VERSION,
        "preprocessedProfileVersion": VERSION,
        "processType": 0,
        "product": "waggle profile",
        "interval": 1_000.0 / f64::from(profile.frequency_hz.max(1)),
        "startTime": started.map_or(0, jiff::Timestamp::as_millisecond),
        "symbolicated": true,
        "usesOnlyOneStackType": true,
        "sourceCodeIsNotOnSearchfox": true,
        "debug": false,
        "extensions": { "id": [], "name": [], "baseURL": [], "length": 0 },
        "markerSchema": [],
        "pausedRanges": [],
        "sampleUnits": { "time": "ms", "eventDelay": "ms", "threadCPUDelta": "µs" },
        "categories": [
            category("Other", "grey"),
            category("User", "yellow"),
            category("Kernel", "orange"),
            category("Off CPU", "blue"),
            category("Runnable", "purple"),
        ],
        "extra": [{
            "label": "Lost",
            "entries": [
                extra("Samples", lost.samples),
                extra("Stacks", lost.stacks),
                extra("Truncated stacks", lost.truncated),
                extra("Frames without a name", lost.unknown_frames),
            ],
        }],
    })
}

/// One sample of a thread.
struct Moment {
    at_ns: u64,
    stack: Option<usize>,
    ns: u64,
}

/// A thread and whose it is: process, pid, name, whether it is the process's first.
type Key = (String, u32, bool, String);

fn threads(profile: &Profile, shared: &mut Shared) -> Vec<Value> {
    let mut threads: BTreeMap<Key, Vec<Moment>> = BTreeMap::new();
    for timed in &profile.timeline {
        let (process, pid) = process_of(profile, timed.who.0);
        let is_other = timed.tid != pid;
        let key = (
            process,
            pid,
            is_other,
            view::thread_name(profile, timed.tid),
        );
        threads.entry(key).or_default().push(Moment {
            at_ns: timed.at_ns,
            stack: shared.stack(profile, timed.stack, timed.kind),
            ns: timed.ns,
        });
    }
    if profile.timeline.is_empty() {
        for entry in &profile.entries {
            let (process, pid) = process_of(profile, entry.who.0);
            let named = who(profile, entry.who.0)
                .map(|who| who.thread.clone().unwrap_or_else(|| who.role.clone()));
            let thread = named.map_or_else(|| name::DAMAGED.to_owned(), |n| n.to_string());
            let moments = threads.entry((process, pid, true, thread)).or_default();
            let at_ns = moments
                .last()
                .map_or(0, |last| last.at_ns.saturating_add(last.ns));
            moments.push(Moment {
                at_ns,
                stack: shared.stack(profile, entry.stack, entry.kind),
                ns: entry.ns,
            });
        }
    }
    let numbered = threads.into_iter().enumerate();
    numbered
        .map(|(number, (key, moments))| thread(number, &key, moments))
        .collect()
}

fn process_of(profile: &Profile, id: u32) -> (String, u32) {
    who(profile, id).map_or_else(
        || (name::DAMAGED.to_owned(), 0),
        |who| (who.process.to_string(), who.pid),
    )
}

fn thread(number: usize, key: &Key, mut moments: Vec<Moment>) -> Value {
    let (process, pid, is_other, name) = key;
    moments.sort_by_key(|moment| moment.at_ns);
    let ms = |ns: u64| ns as f64 / 1e6;
    let times: Vec<f64> = moments.iter().map(|moment| ms(moment.at_ns)).collect();
    let stacks: Vec<Option<usize>> = moments.iter().map(|moment| moment.stack).collect();
    let weights: Vec<f64> = moments.iter().map(|moment| ms(moment.ns)).collect();
    json!({
        "name": name,
        "processName": process,
        "processType": "default",
        "isMainThread": !is_other,
        "pid": pid.to_string(),
        "tid": format!("{pid}.{number}"),
        "processStartupTime": 0.0,
        "processShutdownTime": null,
        "registerTime": 0.0,
        "unregisterTime": null,
        "pausedRanges": [],
        "showMarkersInTimeline": false,
        "markers": {
            "data": [], "name": [], "startTime": [], "endTime": [], "phase": [], "category": [],
            "length": 0,
        },
        "samples": {
            "stack": stacks,
            "time": times,
            "weight": weights,
            "weightType": "tracing-ms",
            "length": moments.len(),
        },
    })
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct FrameTable {
    address: Vec<i64>,
    inline_depth: Vec<u32>,
    category: Vec<usize>,
    subcategory: Vec<u32>,
    func: Vec<usize>,
    native_symbol: Vec<Option<u32>>,
    #[serde(rename = "innerWindowID")]
    inner_window_id: Vec<u32>,
    line: Vec<Option<u32>>,
    column: Vec<Option<u32>>,
    length: usize,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct FuncTable {
    name: Vec<usize>,
    #[serde(rename = "isJS")]
    is_js: Vec<bool>,
    #[serde(rename = "relevantForJS")]
    relevant_for_js: Vec<bool>,
    resource: Vec<i64>,
    source: Vec<Option<usize>>,
    line_number: Vec<Option<u32>>,
    column_number: Vec<Option<u32>>,
    length: usize,
}

/// What all threads name by index.
#[derive(Debug, Default)]
struct Shared {
    strings: Vec<String>,
    known_strings: HashMap<String, usize>,
    frames: FrameTable,
    known_frames: HashMap<FrameKey, usize>,
    funcs: FuncTable,
    known_funcs: HashMap<(usize, i64, Option<usize>), usize>,
    /// Names of files of machine code.
    resources: Vec<usize>,
    known_resources: HashMap<usize, i64>,
    /// Names of files of source code.
    sources: Vec<usize>,
    known_sources: HashMap<usize, usize>,
    /// Prefix and frame of each node.
    nodes: Vec<(Option<usize>, usize)>,
    known_nodes: HashMap<(Option<usize>, usize), usize>,
    known_stacks: HashMap<(StackId, Kind), Option<usize>>,
}

/// What makes a frame one of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct FrameKey {
    func: usize,
    line: Option<u32>,
    depth: u32,
    category: usize,
}

impl Shared {
    fn string(&mut self, text: &str) -> usize {
        if let Some(index) = self.known_strings.get(text) {
            return *index;
        }
        self.strings.push(text.to_owned());
        let index = self.strings.len() - 1;
        self.known_strings.insert(text.to_owned(), index);
        index
    }

    fn resource(&mut self, module: &str) -> i64 {
        if module.is_empty() {
            return -1;
        }
        let name = self.string(module);
        *self.known_resources.entry(name).or_insert_with(|| {
            self.resources.push(name);
            self.resources.len() as i64 - 1
        })
    }

    fn source(&mut self, file: &str) -> usize {
        let name = self.string(file);
        *self.known_sources.entry(name).or_insert_with(|| {
            self.sources.push(name);
            self.sources.len() - 1
        })
    }

    fn func(&mut self, name: &str, module: &str, file: Option<&str>) -> usize {
        let name = self.string(name);
        let resource = self.resource(module);
        let source = file.map(|file| self.source(file));
        let funcs = &mut self.funcs;
        let entry = self.known_funcs.entry((name, resource, source));
        *entry.or_insert_with(|| {
            funcs.name.push(name);
            funcs.is_js.push(false);
            funcs.relevant_for_js.push(false);
            funcs.resource.push(resource);
            funcs.source.push(source);
            funcs.line_number.push(None);
            funcs.column_number.push(None);
            funcs.length += 1;
            funcs.length - 1
        })
    }

    fn frame(&mut self, key: FrameKey) -> usize {
        let frames = &mut self.frames;
        *self.known_frames.entry(key).or_insert_with(|| {
            frames.address.push(-1);
            frames.inline_depth.push(key.depth);
            frames.category.push(key.category);
            frames.subcategory.push(0);
            frames.func.push(key.func);
            frames.native_symbol.push(None);
            frames.inner_window_id.push(0);
            frames.line.push(key.line);
            frames.column.push(None);
            frames.length += 1;
            frames.length - 1
        })
    }

    fn node(&mut self, prefix: Option<usize>, frame: usize) -> usize {
        let nodes = &mut self.nodes;
        *self.known_nodes.entry((prefix, frame)).or_insert_with(|| {
            nodes.push((prefix, frame));
            nodes.len() - 1
        })
    }

    /// The node of a stack's innermost call.
    fn stack(&mut self, profile: &Profile, id: StackId, kind: Kind) -> Option<usize> {
        if let Some(node) = self.known_stacks.get(&(id, kind)) {
            return *node;
        }
        let mut at = None;
        let mut depth = 0;
        if view::is_truncated(profile, id) {
            at = Some(self.plain_node(at, "[truncated]", OTHER));
        }
        for frame in view::frames(profile, id) {
            let Some(frame) = view::frame(profile, frame.0) else {
                at = Some(self.plain_node(at, name::DAMAGED, OTHER));
                continue;
            };
            depth = if frame.inlined { depth + 1 } else { 0 };
            let func = self.func(&name::shown(frame), &frame.module, frame.file.as_deref());
            let key = FrameKey {
                func,
                line: frame.line,
                depth,
                category: if frame.kernel { KERNEL } else { USER },
            };
            let frame = self.frame(key);
            at = Some(self.node(at, frame));
        }
        if let Some(words) = view::kind_frame(kind) {
            let category = if kind == Kind::OffCpu {
                OFF_CPU
            } else {
                RUNNABLE
            };
            at = Some(self.plain_node(at, words, category));
        }
        self.known_stacks.insert((id, kind), at);
        at
    }

    /// A node of a call that is none of a program.
    fn plain_node(&mut self, prefix: Option<usize>, words: &str, category: usize) -> usize {
        let func = self.func(words, "", None);
        let frame = self.frame(FrameKey {
            func,
            line: None,
            depth: 0,
            category,
        });
        self.node(prefix, frame)
    }

    fn tables(self) -> Value {
        let (prefix, frame): (Vec<_>, Vec<_>) = self.nodes.into_iter().unzip();
        let resources = self.resources.len();
        let sources = self.sources.len();
        json!({
            "stringArray": self.strings,
            "frameTable": self.frames,
            "funcTable": self.funcs,
            "stackTable": { "length": frame.len(), "frame": frame, "prefix": prefix },
            "resourceTable": {
                "lib": vec![Value::Null; resources],
                "host": vec![Value::Null; resources],
                "type": vec![LIBRARY; resources],
                "name": self.resources,
                "length": resources,
            },
            "nativeSymbols": {
                "libIndex": [], "address": [], "name": [], "functionSize": [], "length": 0,
            },
            "sources": {
                "id": vec![Value::Null; sources],
                "startLine": vec![1; sources],
                "startColumn": vec![1; sources],
                "sourceMapURL": vec![Value::Null; sources],
                "filename": self.sources,
                "length": sources,
            },
        })
    }
}
