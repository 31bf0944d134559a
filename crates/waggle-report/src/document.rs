//! What a run directory holds, by its kind: a lab run, a study, a bench run, or another verb's; and
//! every form it can be shown in.
//!
//! Neighbours: `waggle report` shows a [`Document`], `waggle compare` lays two beside each other.
//! Invariant: only reads; what a run does not hold is not made up.

use serde_json::{Value, json};

use crate::bench::{self, BenchReport};
use crate::lab::LabReport;
use crate::profile::ProfilePage;
use crate::run::{ReadError, Run};
use crate::study::StudyReport;
use crate::trace::TracePage;
use crate::tune::{self, TuneReport};
use crate::{csv, markdown, page};

/// The document of a run.
#[derive(Debug)]
pub enum Document {
    /// One experiment.
    Lab(Box<LabReport>),
    /// Many experiments of one question.
    Study(Box<StudyReport>),
    /// A load, as far as it came.
    Bench(Box<BenchReport>),
    /// What a trace found.
    Trace(Box<TracePage>),
    /// Where processes spent their time.
    Profile(Box<ProfilePage>),
    /// What a tuning run found.
    Tune(Box<TuneReport>),
    /// A run of another verb, or a lab run that was killed before it had a report.
    Other,
}

impl Document {
    /// Reads what the run holds.
    ///
    /// # Errors
    /// When a file of it is there and cannot be read, or is newer than this build.
    pub fn read(run: &Run) -> Result<Self, ReadError> {
        if let Some(study) = run.study()? {
            return Ok(Self::Study(Box::new(study)));
        }
        if let Some(mut lab) = run.lab()? {
            lab.profile = profile_of(run)?;
            if let Some(profile) = &mut lab.profile {
                profile.show(&lab.subject, &lab.base.name);
            }
            return Ok(Self::Lab(Box::new(lab)));
        }
        if let Some(trace) = run.trace()? {
            return Ok(Self::Trace(Box::new(TracePage::new(trace, run.facts()))));
        }
        if let Some(tune) = run.tune()? {
            return Ok(Self::Tune(Box::new(tune)));
        }
        match run.facts().verb.as_str() {
            "bench" => {
                let mut report = BenchReport::read(run)?;
                report.profile = profile_of(run)?;
                Ok(Self::Bench(Box::new(report)))
            }
            _ => Ok(match profile_of(run)? {
                Some(profile) => Self::Profile(profile),
                None => Self::Other,
            }),
        }
    }

    /// Its kind in words, for a message.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Lab(_) => "lab run",
            Self::Study(_) => "lab study",
            Self::Bench(_) => "bench run",
            Self::Trace(_) => "trace",
            Self::Profile(_) => "profile",
            Self::Tune(_) => "tuning run",
            Self::Other => "run without a report",
        }
    }

    /// As one self-contained page; `None` for a run that has none.
    pub fn html(&self) -> Option<String> {
        match self {
            Self::Lab(report) => Some(page::render(report)),
            Self::Study(report) => Some(page::render_study(report)),
            Self::Bench(report) => Some(page::render_bench(report)),
            Self::Trace(trace) => Some(page::render_trace(trace)),
            Self::Profile(profile) => Some(page::render_profile(profile)),
            Self::Tune(report) => Some(page::render_tune(report)),
            Self::Other => None,
        }
    }

    /// As Markdown; `None` for a run that has none.
    pub fn markdown(&self) -> Option<String> {
        let with = |text: String, profile: &Option<Box<ProfilePage>>| match profile {
            Some(profile) => format!("{text}{}", profile.sections()),
            None => text,
        };
        match self {
            Self::Lab(report) => Some(with(markdown::lab(report), &report.profile)),
            Self::Study(report) => Some(markdown::study(report)),
            Self::Bench(report) => Some(with(bench::markdown(report), &report.profile)),
            Self::Trace(trace) => Some(trace.markdown()),
            Self::Profile(profile) => Some(profile.markdown()),
            Self::Tune(report) => Some(tune::markdown(report)),
            Self::Other => None,
        }
    }

    /// What was measured as CSV: windows, intervals of a bench run, or functions of a profile.
    pub fn windows_csv(&self) -> Option<String> {
        match self {
            Self::Lab(report) => Some(csv::lab_windows(report)),
            Self::Study(report) => Some(csv::study_windows(report)),
            Self::Bench(report) => Some(bench::csv(report)),
            Self::Trace(trace) => Some(trace.csv()),
            Self::Profile(profile) => Some(profile.functions_csv()),
            Self::Tune(report) => Some(tune::blocks_csv(report)),
            Self::Other => None,
        }
    }

    /// Every estimate with its interval as CSV, or whose time a profile is of; a bench run has
    /// none.
    pub fn results_csv(&self) -> Option<String> {
        match self {
            Self::Lab(report) => Some(csv::lab_results(report)),
            Self::Study(report) => Some(csv::study_results(report)),
            Self::Trace(trace) => Some(trace.csv()),
            Self::Profile(profile) => Some(profile.whos_csv()),
            Self::Tune(report) => Some(tune::configurations_csv(report)),
            Self::Bench(_) | Self::Other => None,
        }
    }

    /// As one JSON document: that of the lab if there is one, else the facts and the result as the
    /// verb wrote them.
    ///
    /// # Errors
    /// When the result is there and cannot be read.
    pub fn json(&self, run: &Run) -> Result<Value, ReadError> {
        Ok(match self {
            Self::Lab(report) => json!(report),
            Self::Study(report) => json!(report),
            Self::Trace(trace) => json!(trace.report),
            Self::Profile(profile) => profile.json(),
            Self::Tune(report) => json!(report),
            Self::Bench(_) | Self::Other => json!({ "run": run.facts(), "result": run.result()? }),
        })
    }
}

/// The profiles that were taken in a run, if any were.
fn profile_of(run: &Run) -> Result<Option<Box<ProfilePage>>, ReadError> {
    let parts = run.profiles()?;
    Ok((!parts.is_empty()).then(|| Box::new(ProfilePage::new(parts, run.facts()))))
}
