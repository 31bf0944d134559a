//! pprof: gzip of a `profile.proto`, as `go tool pprof` and its web page read it.
//!
//! Every sample has four values: how many, and the time on CPU, off CPU and runnable, of which one
//! is not zero (`-sample_index=off_cpu` chooses). Labels are the process, the role, the digest and
//! the kind (`-tagfocus`, `-tagroot=digest`). Field numbers are those of the published format.
//!
//! Invariant: the string table begins with the empty string, and every index leads somewhere.

use std::collections::HashMap;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use super::view::{self, who};
use super::{OutError, name};
use crate::model::{Entry, FrameId, Kind, Profile as Model};

/// Everything.
#[derive(Clone, PartialEq, Message)]
pub struct Profile {
    /// What each value of a sample is.
    #[prost(message, repeated, tag = "1")]
    pub sample_type: Vec<ValueType>,
    /// Sums.
    #[prost(message, repeated, tag = "2")]
    pub sample: Vec<Sample>,
    /// Files.
    #[prost(message, repeated, tag = "3")]
    pub mapping: Vec<Mapping>,
    /// Frames with what was inlined into them.
    #[prost(message, repeated, tag = "4")]
    pub location: Vec<Location>,
    /// Functions.
    #[prost(message, repeated, tag = "5")]
    pub function: Vec<Function>,
    /// What all others name by index.
    #[prost(string, repeated, tag = "6")]
    pub string_table: Vec<String>,
    /// Start, ns since 1970.
    #[prost(int64, tag = "9")]
    pub time_nanos: i64,
    /// Length, ns.
    #[prost(int64, tag = "10")]
    pub duration_nanos: i64,
    /// What a sample was taken every `period` of.
    #[prost(message, optional, tag = "11")]
    pub period_type: Option<ValueType>,
    /// Between two samples.
    #[prost(int64, tag = "12")]
    pub period: i64,
    /// For people: what was lost.
    #[prost(int64, repeated, tag = "13")]
    pub comment: Vec<i64>,
    /// The value shown first.
    #[prost(int64, tag = "14")]
    pub default_sample_type: i64,
}

/// A name and a unit, as indices of strings.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct ValueType {
    /// Name.
    #[prost(int64, tag = "1")]
    pub r#type: i64,
    /// Unit.
    #[prost(int64, tag = "2")]
    pub unit: i64,
}

/// A sum.
#[derive(Clone, PartialEq, Message)]
pub struct Sample {
    /// Innermost first.
    #[prost(uint64, repeated, tag = "1")]
    pub location_id: Vec<u64>,
    /// One a sample type.
    #[prost(int64, repeated, tag = "2")]
    pub value: Vec<i64>,
    /// Whose.
    #[prost(message, repeated, tag = "3")]
    pub label: Vec<Label>,
}

/// A name and its value: text, or a number.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Label {
    /// Name.
    #[prost(int64, tag = "1")]
    pub key: i64,
    /// Text.
    #[prost(int64, tag = "2")]
    pub str: i64,
    /// Number.
    #[prost(int64, tag = "3")]
    pub num: i64,
}

/// A file.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Mapping {
    /// From 1.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Its name.
    #[prost(int64, tag = "5")]
    pub filename: i64,
    /// Names are known.
    #[prost(bool, tag = "7")]
    pub has_functions: bool,
    /// Files of source code are known.
    #[prost(bool, tag = "8")]
    pub has_filenames: bool,
    /// Lines are known.
    #[prost(bool, tag = "9")]
    pub has_line_numbers: bool,
    /// Inlined calls are known.
    #[prost(bool, tag = "10")]
    pub has_inline_frames: bool,
}

/// A frame with what was inlined into it.
#[derive(Clone, PartialEq, Message)]
pub struct Location {
    /// From 1.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Its file.
    #[prost(uint64, tag = "2")]
    pub mapping_id: u64,
    /// What was inlined first, what it was inlined into last.
    #[prost(message, repeated, tag = "4")]
    pub line: Vec<Line>,
}

/// A function and a line of it.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Line {
    /// The function.
    #[prost(uint64, tag = "1")]
    pub function_id: u64,
    /// The line; 0: not known.
    #[prost(int64, tag = "2")]
    pub line: i64,
}

/// A function.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Function {
    /// From 1.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Its name.
    #[prost(int64, tag = "2")]
    pub name: i64,
    /// Its name as the linker has it.
    #[prost(int64, tag = "3")]
    pub system_name: i64,
    /// Its file of source code.
    #[prost(int64, tag = "4")]
    pub filename: i64,
}

/// The profile as a file.
///
/// # Errors
/// It cannot be packed (memory).
pub fn bytes(profile: &Model) -> Result<Vec<u8>, OutError> {
    let format = |source: io::Error| OutError::Format {
        format: "pprof",
        source,
    };
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(&message(profile).encode_to_vec())
        .map_err(format)?;
    gzip.finish().map_err(format)
}

/// The profile as the message that the file holds.
pub fn message(profile: &Model) -> Profile {
    let mut making = Making::new(profile);
    let values = [
        ("samples", "count"),
        ("cpu", "nanoseconds"),
        ("off_cpu", "nanoseconds"),
        ("runnable", "nanoseconds"),
    ];
    making.out.sample_type = values
        .iter()
        .map(|(name, unit)| making.strings.value_type(name, unit))
        .collect();
    for entry in &profile.entries {
        making.sample(entry);
    }
    let has = |kind: Kind| profile.entries.iter().any(|entry| entry.kind == kind);
    let first = match (has(Kind::OnCpu), has(Kind::OffCpu)) {
        (false, true) => "off_cpu",
        (false, false) if has(Kind::Runnable) => "runnable",
        _ => "cpu",
    };
    making.out.default_sample_type = making.strings.index(first);
    making.out.period_type = Some(making.strings.value_type("cpu", "nanoseconds"));
    making.out.period = 1_000_000_000 / i64::from(profile.frequency_hz.max(1));
    making.out.duration_nanos = signed(profile.duration_ns);
    making.out.time_nanos = profile
        .started
        .parse::<jiff::Timestamp>()
        .ok()
        .and_then(|time| i64::try_from(time.as_nanosecond()).ok())
        .unwrap_or_default();
    let lost = &profile.lost;
    let comment = format!(
        "lost: {} samples, {} stacks; {} stacks truncated; {} frames without a name",
        lost.samples, lost.stacks, lost.truncated, lost.unknown_frames
    );
    let comment = making.strings.index(&comment);
    making.out.comment.push(comment);
    making.out.string_table = making.strings.texts;
    making.out
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Texts, each once; the first is empty.
struct Strings {
    texts: Vec<String>,
    known: HashMap<String, i64>,
}

impl Strings {
    fn index(&mut self, text: &str) -> i64 {
        if let Some(index) = self.known.get(text) {
            return *index;
        }
        let index = self.texts.len() as i64;
        self.texts.push(text.to_owned());
        self.known.insert(text.to_owned(), index);
        index
    }

    fn value_type(&mut self, name: &str, unit: &str) -> ValueType {
        ValueType {
            r#type: self.index(name),
            unit: self.index(unit),
        }
    }
}

struct Making<'a> {
    profile: &'a Model,
    out: Profile,
    strings: Strings,
    mappings: HashMap<String, u64>,
    functions: HashMap<(String, String, String), u64>,
    /// Frames, innermost first, of which all but the last are inlined.
    locations: HashMap<Vec<u32>, u64>,
}

impl<'a> Making<'a> {
    fn new(profile: &'a Model) -> Self {
        let mut strings = Strings {
            texts: Vec::new(),
            known: HashMap::new(),
        };
        strings.index("");
        Self {
            profile,
            out: Profile::default(),
            strings,
            mappings: HashMap::new(),
            functions: HashMap::new(),
            locations: HashMap::new(),
        }
    }

    fn sample(&mut self, entry: &Entry) {
        let ns = signed(entry.ns);
        let of = |kind: Kind| if entry.kind == kind { ns } else { 0 };
        let value = vec![
            signed(entry.samples),
            of(Kind::OnCpu),
            of(Kind::OffCpu),
            of(Kind::Runnable),
        ];
        let frames = view::frames(self.profile, entry.stack);
        let mut location_id = Vec::new();
        let mut inlined: Vec<u32> = Vec::new();
        for (at, FrameId(id)) in frames.iter().enumerate().rev() {
            inlined.push(*id);
            let is_inlined = view::frame(self.profile, *id).is_some_and(|frame| frame.inlined);
            if !is_inlined || at == 0 {
                location_id.push(self.location(std::mem::take(&mut inlined)));
            }
        }
        let label = self.labels(entry);
        self.out.sample.push(Sample {
            location_id,
            value,
            label,
        });
    }

    fn labels(&mut self, entry: &Entry) -> Vec<Label> {
        let mut labels = Vec::new();
        let mut text = |strings: &mut Strings, key: &str, value: &str| {
            labels.push(Label {
                key: strings.index(key),
                str: strings.index(value),
                num: 0,
            });
        };
        let kind = match entry.kind {
            Kind::OnCpu => "on-cpu",
            Kind::OffCpu => "off-cpu",
            Kind::Runnable => "runnable",
        };
        text(&mut self.strings, "kind", kind);
        let Some(who) = who(self.profile, entry.who.0) else {
            return labels;
        };
        text(&mut self.strings, "process", &who.process);
        text(&mut self.strings, "role", &who.role);
        let statement = view::statement(self.profile, Some(who));
        text(&mut self.strings, "digest", &statement);
        labels.push(Label {
            key: self.strings.index("pid"),
            str: 0,
            num: i64::from(who.pid),
        });
        labels
    }

    fn location(&mut self, frames: Vec<u32>) -> u64 {
        if let Some(id) = self.locations.get(&frames) {
            return *id;
        }
        let outer = frames.last().and_then(|id| view::frame(self.profile, *id));
        let module = outer.map_or("", |frame| &*frame.module).to_owned();
        let mapping_id = self.mapping(&module);
        let line = frames.iter().map(|id| self.line(*id)).collect();
        let id = self.out.location.len() as u64 + 1;
        self.out.location.push(Location {
            id,
            mapping_id,
            line,
        });
        self.locations.insert(frames, id);
        id
    }

    fn mapping(&mut self, module: &str) -> u64 {
        if let Some(id) = self.mappings.get(module) {
            return *id;
        }
        let id = self.out.mapping.len() as u64 + 1;
        let filename = self.strings.index(module);
        self.out.mapping.push(Mapping {
            id,
            filename,
            has_functions: true,
            has_filenames: true,
            has_line_numbers: true,
            has_inline_frames: true,
        });
        self.mappings.insert(module.to_owned(), id);
        id
    }

    fn line(&mut self, id: u32) -> Line {
        let frame = view::frame(self.profile, id);
        let function = frame.map_or_else(|| name::DAMAGED.to_owned(), name::shown);
        let file = frame.and_then(|frame| frame.file.as_deref()).unwrap_or("");
        let module = frame.map_or("", |frame| &*frame.module);
        let key = (function, file.to_owned(), module.to_owned());
        let line = frame.and_then(|frame| frame.line).map_or(0, i64::from);
        if let Some(id) = self.functions.get(&key) {
            return Line {
                function_id: *id,
                line,
            };
        }
        let function_id = self.out.function.len() as u64 + 1;
        let name = self.strings.index(&key.0);
        self.out.function.push(Function {
            id: function_id,
            name,
            system_name: name,
            filename: self.strings.index(&key.1),
        });
        self.functions.insert(key, function_id);
        Line { function_id, line }
    }
}
