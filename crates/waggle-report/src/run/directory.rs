//! The writing side of a run directory.

use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;

use super::error::ReopenError;
use super::redact::{is_secret_name, redact_settings};
use super::{
    FORMAT_VERSION, HISTOGRAM_FOLDER, JsonLines, LAB_FILE, Outcome, PAGE_FILE, RESULT_FILE,
    RUN_FILE, Run, RunError, RunFacts, SAMPLES_FILE, STUDY_FILE, TRACE_FILE, TUNE_FILE,
};
use crate::host::HostFacts;
use crate::lab::LabReport;
use crate::profile::{ProfilePage, ProfilePart};
use crate::study::StudyReport;
use crate::trace::{TracePage, TraceReport};
use crate::tune::TuneReport;

/// A run directory being written.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    facts: RunFacts,
    samples: JsonLines,
}

impl RunDir {
    /// Makes `root/<UTC time>-<verb>-<name>/` with its first `run.json` and an empty
    /// `samples.jsonl`. `root` is created when missing. Two runs that start in the same second get
    /// different directories. Characters of `name` that do not belong in a file name become `-`.
    ///
    /// # Errors
    /// When a directory or file cannot be created; the error names it and says what to try.
    pub fn create(root: &Path, verb: &str, name: &str) -> Result<Self, RunError> {
        waggle_files::create_dir_all(root)
            .map_err(|source| RunError::new("create the directory", root, false, source))?;
        let started = Timestamp::now();
        let path = create_unique(root, &directory_name(started, verb, name))?;
        let facts = RunFacts {
            format_version: FORMAT_VERSION,
            waggle_version: env!("CARGO_PKG_VERSION").to_owned(),
            verb: verb.to_owned(),
            name: name.to_owned(),
            started: rfc3339(started),
            host: HostFacts::gather(),
            ..RunFacts::default()
        };
        write_facts(&path, &facts, false)?;
        let samples = JsonLines::create(&path.join(SAMPLES_FILE))?;
        Ok(Self {
            path,
            facts,
            samples,
        })
    }

    /// Takes up a run that was killed or interrupted: what it holds stays, `samples.jsonl` is
    /// appended to, and a line that the kill left half-written is cut off. `run.json` no longer
    /// says how the run ended until [`Self::finish`] is called again.
    ///
    /// # Errors
    /// When there is no run, it is damaged or newer, or its files cannot be written.
    pub fn reopen(path: &Path) -> Result<Self, ReopenError> {
        let run = Run::open(path)?;
        let path = run.path().to_path_buf();
        let samples = JsonLines::reopen(&path.join(SAMPLES_FILE))?;
        let mut directory = Self {
            path,
            facts: run.facts().clone(),
            samples,
        };
        directory.record(|facts| {
            facts.finished = None;
            facts.outcome = None;
            facts.error = None;
        })?;
        Ok(directory)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The facts as last written to `run.json`.
    pub fn facts(&self) -> &RunFacts {
        &self.facts
    }

    /// Changes the facts and replaces `run.json` atomically.
    ///
    /// # Errors
    /// When the file cannot be written; the earlier `run.json` is then still in place.
    pub fn record(&mut self, change: impl FnOnce(&mut RunFacts)) -> Result<(), RunError> {
        change(&mut self.facts);
        write_facts(&self.path, &self.facts, true)
    }

    /// Appends one value to `samples.jsonl`, as one line written at once.
    ///
    /// # Errors
    /// When the file system is full or the directory was removed; earlier lines stay readable.
    pub fn append(&mut self, sample: &impl Serialize) -> Result<(), RunError> {
        self.samples.append(sample)
    }

    /// Starts a further append-only file of JSON lines, such as `events.jsonl`.
    ///
    /// # Errors
    /// When the file exists already or cannot be created.
    pub fn lines(&self, file: &str) -> Result<JsonLines, RunError> {
        JsonLines::create(&self.path.join(file_name(file)))
    }

    /// Writes `histograms/NAME.hdr`: `v2` is a histogram in HdrHistogram V2 bytes.
    ///
    /// # Errors
    /// When the file cannot be written; a histogram of that name from before stays in place.
    pub fn write_histogram(&self, name: &str, v2: &[u8]) -> Result<(), RunError> {
        let folder = self.path.join(HISTOGRAM_FOLDER);
        waggle_files::create_dir_all(&folder)
            .map_err(|source| RunError::new("create the directory", &folder, true, source))?;
        replace(&folder.join(format!("{}.hdr", file_name(name))), v2, true)
    }

    /// Writes or atomically replaces a file of the run, such as folded stacks.
    ///
    /// # Errors
    /// When the file cannot be written; its earlier content stays in place.
    pub fn write_file(&self, file: &str, bytes: &[u8]) -> Result<PathBuf, RunError> {
        let path = self.path.join(file_name(file));
        replace(&path, bytes, true)?;
        Ok(path)
    }

    /// Writes `result.json`, the document that the verb's `--json` prints.
    ///
    /// # Errors
    /// When it cannot be serialised or written.
    pub fn write_result(&self, result: &impl Serialize) -> Result<PathBuf, RunError> {
        self.write_json(RESULT_FILE, result)
    }

    /// Writes `lab.json` and `report.html` of a lab run and returns the path of the page. It may be
    /// called again as the run goes on: both files are replaced atomically.
    ///
    /// # Errors
    /// When one of them cannot be written.
    pub fn write_lab(&self, report: &LabReport) -> Result<PathBuf, RunError> {
        self.write_json(LAB_FILE, report)?;
        self.write_file(PAGE_FILE, crate::page::render(report).as_bytes())
    }

    /// Writes `study.json` and `report.html` of a study and returns the path of the page. It may be
    /// called again as the study goes on: both files are replaced atomically.
    ///
    /// # Errors
    /// When one of them cannot be written.
    pub fn write_study(&self, report: &StudyReport) -> Result<PathBuf, RunError> {
        self.write_json(STUDY_FILE, report)?;
        self.write_file(PAGE_FILE, crate::page::render_study(report).as_bytes())
    }

    /// Writes `trace.json` and `report.html` of a trace and returns the path of the page.
    ///
    /// # Errors
    /// When one of them cannot be written.
    pub fn write_trace(&self, report: &TraceReport) -> Result<PathBuf, RunError> {
        self.write_json(TRACE_FILE, report)?;
        let page = TracePage::new(report.clone(), self.facts());
        self.write_file(PAGE_FILE, crate::page::render_trace(&page).as_bytes())
    }

    /// Writes a profile as `profile.json`, or `profile-NAME.json` if it has a name.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_profile(&self, name: &str, json: &[u8]) -> Result<PathBuf, RunError> {
        let name = if name.is_empty() {
            String::new()
        } else {
            file_name(name)
        };
        self.write_file(&super::reader::profile_file(&name), json)
    }

    /// Writes `report.html` of the profiles that were written, and returns the path of the page.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_profile_page(&self, parts: Vec<ProfilePart>) -> Result<PathBuf, RunError> {
        let page = ProfilePage::new(parts, self.facts());
        self.write_file(PAGE_FILE, crate::page::render_profile(&page).as_bytes())
    }

    /// Writes `tune.json` and `report.html` of a tuning run and returns the path of the page.
    ///
    /// # Errors
    /// When one of them cannot be written.
    pub fn write_tune(&self, report: &TuneReport) -> Result<PathBuf, RunError> {
        self.write_json(TUNE_FILE, report)?;
        self.write_file(PAGE_FILE, crate::page::render_tune(report).as_bytes())
    }

    /// Ends the run: notes time and outcome in `run.json`.
    ///
    /// # Errors
    /// When `run.json` cannot be replaced; the run then reads as one that did not end.
    pub fn finish(mut self, outcome: Outcome, error: Option<String>) -> Result<PathBuf, RunError> {
        self.record(|facts| {
            facts.finished = Some(rfc3339(Timestamp::now()));
            facts.outcome = Some(outcome);
            facts.error = error;
        })?;
        Ok(self.path)
    }

    fn write_json(&self, file: &str, value: &impl Serialize) -> Result<PathBuf, RunError> {
        let path = self.path.join(file);
        let bytes = to_json(value).map_err(|source| RunError::new("write", &path, true, source))?;
        replace(&path, &bytes, true)?;
        Ok(path)
    }
}

fn to_json(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(value).map_err(io::Error::other)?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn write_facts(directory: &Path, facts: &RunFacts, kept: bool) -> Result<(), RunError> {
    let path = directory.join(RUN_FILE);
    let mut facts = facts.clone();
    for (name, value) in &mut facts.settings {
        let mut pair = serde_json::json!([name, value.take()]);
        redact_settings(&mut pair);
        *value = pair[1].take();
    }
    let server = facts.server.iter_mut();
    for (name, value) in server.flat_map(|server| &mut server.variables) {
        if is_secret_name(name) && !value.is_empty() {
            "***".clone_into(value);
        }
    }
    let bytes = to_json(&facts).map_err(|source| RunError::new("write", &path, kept, source))?;
    replace(&path, &bytes, kept)
}

/// Replaces a file by rename, so that a reader sees the old content or the new, never a mixture.
fn replace(path: &Path, bytes: &[u8], kept: bool) -> Result<(), RunError> {
    waggle_files::replace(path, bytes).map_err(|source| RunError::new("write", path, kept, source))
}

fn create_unique(root: &Path, name: &str) -> Result<PathBuf, RunError> {
    let mut path = root.join(name);
    let mut number = 1_u32;
    loop {
        match waggle_files::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 10_000 => {
                number += 1;
                path = root.join(format!("{name}-{number}"));
            }
            Err(source) => {
                return Err(RunError::new("create the directory", &path, false, source));
            }
        }
    }
}

fn directory_name(started: Timestamp, verb: &str, name: &str) -> String {
    let time = started.strftime("%Y%m%dT%H%M%SZ");
    let mut directory = format!("{time}-{}", file_name(verb));
    if !name.is_empty() {
        directory.push('-');
        directory.push_str(&file_name(name));
    }
    directory
}

fn rfc3339(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

/// A name that stays inside its directory: letters, digits, `.`, `_` and `-`, no leading dot.
fn file_name(name: &str) -> String {
    let kept = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let name: String = name
        .chars()
        .take(80)
        .map(|c| if kept(c) { c } else { '-' })
        .collect();
    match name.strip_prefix('.') {
        Some(rest) => format!("-{rest}"),
        None if name.is_empty() => "-".to_owned(),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_names_sort_by_time_and_stay_in_place() {
        let time = Timestamp::from_second(1_795_220_000).expect("a valid time");
        assert_eq!(
            directory_name(time, "lab", "oltp point/select"),
            "20261121T001320Z-lab-oltp-point-select"
        );
        assert_eq!(directory_name(time, "watch", ""), "20261121T001320Z-watch");
        assert_eq!(file_name("../../etc/passwd"), "-.-..-etc-passwd");
        assert_eq!(file_name(""), "-");
        assert_eq!(rfc3339(time), "2026-11-21T00:13:20.000Z");
    }
}
