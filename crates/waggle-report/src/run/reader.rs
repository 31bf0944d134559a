//! The reading side of a run directory. Its bytes are foreign: they are bounded, and never panic.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;
use waggle_foreign::Printable;

use super::bounded::{
    self, DOCUMENT_BYTES_MAX, FACTS_BYTES_MAX, FILES_MAX, HISTOGRAM_BYTES_MAX, LinesRead,
    MEMORY_MAX,
};
use super::{
    FORMAT_VERSION, HISTOGRAM_FOLDER, LAB_FILE, PROFILE_FILE, RESULT_FILE, RUN_FILE, ReadError,
    RunFacts, SAMPLES_FILE, STUDY_FILE, TRACE_FILE, TUNE_FILE,
};
use crate::lab::{LAB_FORMAT_VERSION, LabReport};
use crate::profile::ProfilePart;
use crate::study::{STUDY_FORMAT_VERSION, StudyReport};
use crate::trace::{TRACE_FORMAT_VERSION, TraceReport};
use crate::tune::{TUNE_FORMAT_VERSION, TuneReport};

/// A run directory being read. It may still be running, or have been killed.
#[derive(Debug)]
pub struct Run {
    path: PathBuf,
    facts: RunFacts,
}

/// The values of a JSON-lines file, and what could not be read of it.
#[derive(Debug, Default, PartialEq)]
pub struct Lines {
    /// The values, in the order written.
    pub values: Vec<Value>,
    /// Complete lines that are not JSON.
    pub damaged: u64,
    /// The last line has no end: the writer was stopped in the middle of it. It is not in `values`
    /// and not counted as damaged.
    pub half_written: bool,
}

impl Run {
    /// Opens a run directory (or the `run.json` in it).
    ///
    /// # Errors
    /// When there is no run, `run.json` is damaged, or its format is newer than this build reads.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let path = match path.file_name() {
            Some(name) if name == RUN_FILE => path.parent().unwrap_or(Path::new("")),
            _ => path,
        };
        let file = path.join(RUN_FILE);
        match fs::symlink_metadata(&file) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound && path.is_dir() => {
                let runs_inside = runs_inside(path);
                return Err(ReadError::NotARun {
                    path: path.to_path_buf(),
                    runs_inside,
                });
            }
            Err(cause) => {
                return Err(ReadError::Io {
                    path: path.to_path_buf(),
                    cause,
                });
            }
        }
        let value: Value = read_json(&file, FACTS_BYTES_MAX)?;
        let found = value
            .get("format_version")
            .and_then(Value::as_u64)
            .unwrap_or(0);
        let found = u32::try_from(found).unwrap_or(u32::MAX);
        if found > FORMAT_VERSION {
            return Err(ReadError::Newer {
                path: file,
                found,
                known: FORMAT_VERSION,
            });
        }
        if found == 0 {
            let reason = "it has no format_version".to_owned();
            return Err(ReadError::Damaged { path: file, reason });
        }
        let facts = serde_json::from_value(value).map_err(|error| ReadError::Damaged {
            path: file,
            reason: Printable::of(&error.to_string()).into_string(),
        })?;
        Ok(Self {
            path: path.to_path_buf(),
            facts,
        })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The facts in `run.json`.
    pub fn facts(&self) -> &RunFacts {
        &self.facts
    }

    /// The samples written so far. A missing file reads as none.
    ///
    /// # Errors
    /// When the file is there and cannot be read.
    pub fn samples(&self) -> Result<Lines, ReadError> {
        self.lines(SAMPLES_FILE)
    }

    /// The values of a JSON-lines file of the run. A missing file reads as none.
    ///
    /// # Errors
    /// When the file is there and cannot be read.
    pub fn lines(&self, file: &str) -> Result<Lines, ReadError> {
        let mut values = Vec::new();
        let mut memory = 0;
        let read = self.each(file, |value, line| {
            memory += bounded::memory_of(line);
            if memory > MEMORY_MAX {
                let why = "its lines are more than can be held at once";
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
            }
            values.push(value);
            Ok(())
        })?;
        Ok(Lines {
            values,
            damaged: read.damaged,
            half_written: read.half_written,
        })
    }

    /// Hands each sample to `take`, in the order written, without holding the others.
    ///
    /// # Errors
    /// When the file is there and cannot be read.
    pub fn each_sample(&self, mut take: impl FnMut(Value)) -> Result<LinesRead, ReadError> {
        self.each(SAMPLES_FILE, |value, _| {
            take(value);
            Ok(())
        })
    }

    fn each(
        &self,
        file: &str,
        take: impl FnMut(Value, &[u8]) -> io::Result<()>,
    ) -> Result<LinesRead, ReadError> {
        let path = self.path.join(file);
        match bounded::each_line(&path, take) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(LinesRead::default()),
            read => read.map_err(|cause| ReadError::of(&path, cause)),
        }
    }

    /// The lab's report, when this is a lab run that got as far as writing one.
    ///
    /// # Errors
    /// When `lab.json` is there and cannot be read or understood, or is newer than this build.
    pub fn lab(&self) -> Result<Option<LabReport>, ReadError> {
        let report: Option<LabReport> = self.document(LAB_FILE)?;
        let found = report.as_ref().map_or(0, |report| report.format_version);
        self.known(LAB_FILE, found, LAB_FORMAT_VERSION)?;
        Ok(report)
    }

    /// The study's report, when this is a study that got as far as writing one.
    ///
    /// # Errors
    /// When `study.json` is there and cannot be read or understood, or is newer than this build.
    pub fn study(&self) -> Result<Option<StudyReport>, ReadError> {
        let report: Option<StudyReport> = self.document(STUDY_FILE)?;
        let found = report.as_ref().map_or(0, |report| report.format_version);
        self.known(STUDY_FILE, found, STUDY_FORMAT_VERSION)?;
        Ok(report)
    }

    /// What a trace found; nothing when it is another verb's run, or was killed.
    ///
    /// # Errors
    /// When `trace.json` is damaged or newer than this build reads.
    pub fn trace(&self) -> Result<Option<TraceReport>, ReadError> {
        let report: Option<TraceReport> = self.document(TRACE_FILE)?;
        let found = report.as_ref().map_or(0, |r| r.facts().format_version);
        self.known(TRACE_FILE, found, TRACE_FORMAT_VERSION)?;
        Ok(report)
    }

    /// The profiles of the run, that without a name first, the others by their names; none if it
    /// was not profiled.
    ///
    /// # Errors
    /// When one of them is damaged.
    pub fn profiles(&self) -> Result<Vec<ProfilePart>, ReadError> {
        let mut names: Vec<String> = fs::read_dir(&self.path)
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter_map(|file| Some(profile_name(&file)?.to_owned()))
            .take(FILES_MAX)
            .collect();
        names.sort();
        let mut parts = Vec::with_capacity(names.len());
        for name in names {
            let file = profile_file(&name);
            if let Some(report) = self.document(&file)? {
                parts.push(ProfilePart { name, report });
            }
        }
        Ok(parts)
    }

    /// What a tuning run found; nothing when it is another verb's run, or was killed.
    ///
    /// # Errors
    /// When `tune.json` is damaged or newer than this build reads.
    pub fn tune(&self) -> Result<Option<TuneReport>, ReadError> {
        let report: Option<TuneReport> = self.document(TUNE_FILE)?;
        let found = report.as_ref().map_or(0, |report| report.format_version);
        self.known(TUNE_FILE, found, TUNE_FORMAT_VERSION)?;
        Ok(report)
    }

    /// The verb's final result as JSON, when it wrote one.
    ///
    /// # Errors
    /// When `result.json` is there and cannot be read.
    pub fn result(&self) -> Result<Option<Value>, ReadError> {
        self.document(RESULT_FILE)
    }

    /// Names of the histograms of the run, sorted.
    pub fn histogram_names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.path.join(HISTOGRAM_FOLDER))
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter_map(|name| Some(name.strip_suffix(".hdr")?.to_owned()))
            .take(FILES_MAX)
            .collect();
        names.sort();
        names
    }

    /// The HdrHistogram V2 bytes of a histogram, undecoded.
    ///
    /// # Errors
    /// When there is no such histogram or it cannot be read.
    pub fn histogram(&self, name: &str) -> Result<Vec<u8>, ReadError> {
        let path = self.path.join(HISTOGRAM_FOLDER).join(format!("{name}.hdr"));
        bounded::bytes(&path, HISTOGRAM_BYTES_MAX).map_err(|cause| ReadError::of(&path, cause))
    }

    /// The bytes of a document of the run, such as a profile, undecoded.
    ///
    /// # Errors
    /// When it is not there, cannot be read, or is larger than any that a run writes.
    pub fn document_bytes(&self, file: &str) -> Result<Vec<u8>, ReadError> {
        document_bytes(&self.path.join(file), DOCUMENT_BYTES_MAX)
    }

    fn known(&self, file: &str, found: u32, known: u32) -> Result<(), ReadError> {
        if found <= known {
            return Ok(());
        }
        Err(ReadError::Newer {
            path: self.path.join(file),
            found,
            known,
        })
    }

    fn document<T: DeserializeOwned>(&self, file: &str) -> Result<Option<T>, ReadError> {
        let path = self.path.join(file);
        match fs::symlink_metadata(&path) {
            Ok(_) => read_json(&path, DOCUMENT_BYTES_MAX).map(Some),
            Err(_) => Ok(None),
        }
    }
}

/// The file of the profile with this name; the empty name is that of the only one.
pub fn profile_file(name: &str) -> String {
    match (name, PROFILE_FILE.split_once('.')) {
        ("", _) | (_, None) => PROFILE_FILE.to_owned(),
        (name, Some((stem, end))) => format!("{stem}-{name}.{end}"),
    }
}

/// The name of the profile in this file, if it is one.
fn profile_name(file: &str) -> Option<&str> {
    if file == PROFILE_FILE {
        return Some("");
    }
    let (stem, end) = PROFILE_FILE.split_once('.')?;
    let name = file.strip_prefix(stem)?.strip_prefix('-')?;
    name.strip_suffix(end)?.strip_suffix('.')
}

fn document_bytes(path: &Path, bytes_max: u64) -> Result<Vec<u8>, ReadError> {
    let bytes = bounded::bytes(path, bytes_max).map_err(|cause| ReadError::of(path, cause))?;
    if bounded::memory_of(&bytes) > MEMORY_MAX {
        return Err(ReadError::Damaged {
            path: path.to_path_buf(),
            reason: "it has more parts than any document of a run".into(),
        });
    }
    Ok(bytes)
}

fn read_json<T: DeserializeOwned>(path: &Path, bytes_max: u64) -> Result<T, ReadError> {
    let bytes = document_bytes(path, bytes_max)?;
    serde_json::from_slice(&bytes).map_err(|error| ReadError::Damaged {
        path: path.to_path_buf(),
        // It may quote what stands there.
        reason: Printable::of(&error.to_string()).into_string(),
    })
}

fn runs_inside(path: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(path)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .filter(|entry| entry.path().join(RUN_FILE).is_file())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .map(|name| Printable::of(&name).into_string())
        .collect();
    // Names begin with the time, so the order of names is the order of starts.
    names.sort_by(|left, right| right.cmp(left));
    names.truncate(5);
    names
}
