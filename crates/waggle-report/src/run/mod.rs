//! The run directory: what one measuring run leaves behind, written so that a kill loses nothing.
//!
//! `ROOT/<UTC time>-<verb>-<name>/` holds `run.json` (versioned facts, written first and replaced
//! atomically), `samples.jsonl` (append-only, one JSON value a line), `histograms/NAME.hdr`
//! (HdrHistogram V2) and whatever files the verb adds.
//!
//! Neighbours: verbs write through [`RunDir`], `report` and later `serve` read through [`Run`].
//! Invariant: at every instant the directory is readable by [`Run::open`]; a write that fails
//! leaves everything before it as it was. A run that was killed can be taken up again with
//! [`RunDir::reopen`].

mod bounded;
mod directory;
mod error;
mod facts;
mod lines;
mod reader;
mod redact;

pub use bounded::LinesRead;
pub use directory::RunDir;
pub use error::{ReadError, ReopenError, RunError};
pub use facts::{FORMAT_VERSION, Outcome, RunFacts, ServerFacts};
pub use lines::JsonLines;
pub use reader::{Lines, Run, profile_file};
pub use redact::{is_secret_name, redact_argv, shell_line};

/// File name of the versioned facts of a run.
pub const RUN_FILE: &str = "run.json";
/// File name of the append-only samples of a run.
pub const SAMPLES_FILE: &str = "samples.jsonl";
/// File name of the lab's report document ([`crate::lab::LabReport`]).
pub const LAB_FILE: &str = "lab.json";
/// File name of the document of a study ([`crate::study::StudyReport`]).
pub const STUDY_FILE: &str = "study.json";
/// File name of a verb's final result, the same document that `--json` prints.
pub const RESULT_FILE: &str = "result.json";
/// What a trace found, beside `run.json`.
pub const TRACE_FILE: &str = "trace.json";
/// File name of a profile, and what those of several begin with: `profile-NAME.json`.
pub const PROFILE_FILE: &str = "profile.json";
/// What a tuning run found ([`crate::tune::TuneReport`]).
pub const TUNE_FILE: &str = "tune.json";
/// File name of the HTML page made of a run.
pub const PAGE_FILE: &str = "report.html";
/// Folder of the HdrHistogram V2 files of a run.
pub const HISTOGRAM_FOLDER: &str = "histograms";
