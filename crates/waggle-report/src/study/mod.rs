//! The document of a study: many conditions of one question, beside the figures others published.
//!
//! A study is a list of cells (a workload, a number of threads, a rate, limits), each with its own
//! arms, windows and A/A check, as a lab run has; tables and curves lay them side by side.
//!
//! Neighbours: `waggle lab study` fills a [`StudyReport`] and hands it to
//! [`crate::run::RunDir::write_study`]; [`crate::page`] makes the page of it; `web/src/study.ts`
//! mirrors these types, which a golden test holds together. The arms, windows and verdicts are
//! those of [`crate::lab`].
//! Invariant: a figure that was not measured is absent, with a reason, and never zero; a cell whose
//! A/A check failed claims nothing, whatever its tables show.

mod text;
mod value;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use text::text;
pub(crate) use text::value as value_text;
pub use value::{
    AgentCost, Curve, CurvePoint, Published, StudyColumn, StudyRow, StudyTable, StudyValue,
};

use crate::host::HostFacts;
use crate::lab::{
    Arm, BaseArm, LAB_FORMAT_VERSION, LabReport, LabServer, Primary, ProbeFacts, TypeReport,
    Window, Workload,
};

/// Version of the [`StudyReport`] document.
pub const STUDY_FORMAT_VERSION: u32 = 1;

/// Everything a study found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StudyReport {
    /// [`STUDY_FORMAT_VERSION`] of the writer.
    pub format_version: u32,
    /// Name of the study, such as `dbdoctor`.
    pub name: String,
    /// Its title for people, such as `The DBdoctor overhead study, repeated`.
    pub title: String,
    /// The question, as a sentence.
    pub question: String,
    /// The answer, in a sentence or two, with its intervals.
    pub answer: String,
    /// The command line that repeats the study, quoted for a shell, without passwords.
    pub command: String,
    /// Version of waggle that ran it.
    pub waggle_version: String,
    /// Start, UTC, RFC 3339.
    pub started: String,
    /// Wall-clock seconds from start to end, over all parts of a resumed study.
    #[serde(deserialize_with = "crate::lab::number")]
    pub duration_s: f64,
    /// The server that was watched.
    pub server: LabServer,
    /// The machine.
    pub environment: HostFacts,
    /// The conditions, in the order to show.
    pub cells: Vec<StudyCell>,
    /// The article's tables, measured again.
    #[serde(default)]
    pub tables: Vec<StudyTable>,
    /// Cost over something that rises, such as threads.
    #[serde(default)]
    pub curves: Vec<Curve>,
    /// What the agent itself used, condition by condition.
    #[serde(default)]
    pub agent: Vec<AgentCost>,
    /// The figures the study is laid beside, with their sources.
    #[serde(default)]
    pub published: Vec<Published>,
    /// What a reader must know: what was left out, what could not be had here, and why.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// One condition of a study: a lab run without what all cells share.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StudyCell {
    /// Stable name, such as `oltp_read_only-t8`.
    pub id: String,
    /// The part of the study it belongs to, such as `Scene A: read-only`.
    pub part: String,
    /// What sets it apart within its part, such as `8 threads`.
    pub title: String,
    /// The load it was under.
    pub workload: Workload,
    /// Server settings of this cell that are not the study's, by variable name.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// The arm that the others are compared with.
    pub base: BaseArm,
    /// Name of the arm that the question is about.
    pub subject: String,
    /// Every arm compared with the base, the A/A arm among them.
    pub arms: Vec<Arm>,
    /// The base compared with itself shows no difference. If not, nothing is claimed of this cell.
    pub aa_clean: bool,
    /// Equivalence margin as a fraction of the base.
    #[serde(deserialize_with = "crate::lab::number")]
    pub margin: f64,
    /// The outcome that the verdicts are about.
    #[serde(default)]
    pub primary: Primary,
    /// Every window, in the order of time, discarded ones included; seconds since the study began.
    #[serde(default)]
    pub windows: Vec<Window>,
    /// Latency by arm name, as in [`LabReport::histograms`].
    #[serde(default)]
    pub histograms: BTreeMap<String, Vec<(f64, u64)>>,
    /// What the histograms and quantiles time: `statement` or `transaction`.
    #[serde(default)]
    pub latency_of: String,
    /// The same by type of statement.
    #[serde(default)]
    pub types: Vec<TypeReport>,
    /// Every probe that was attached.
    #[serde(default)]
    pub probes: Vec<ProbeFacts>,
    /// What a reader must know of this cell alone; first, why it ended early if it did.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl StudyCell {
    /// The cell of a lab report: what all cells share is left out.
    pub fn of(id: &str, part: &str, title: &str, report: LabReport) -> Self {
        Self {
            id: id.to_owned(),
            part: part.to_owned(),
            title: title.to_owned(),
            workload: report.workload,
            settings: BTreeMap::new(),
            base: report.base,
            subject: report.subject,
            arms: report.arms,
            aa_clean: report.aa_clean,
            margin: report.margin,
            primary: report.primary,
            windows: report.windows,
            histograms: report.histograms,
            latency_of: report.latency_of,
            types: report.types,
            probes: report.probes,
            notes: report.notes,
        }
    }

    /// The cell as a lab report of its own, with what the study's cells share put back.
    pub fn as_lab(&self, study: &StudyReport) -> LabReport {
        let mut server = study.server.clone();
        server.settings.extend(self.settings.clone());
        let duration_s = self.windows.iter().map(|window| window.duration_s).sum();
        LabReport {
            format_version: LAB_FORMAT_VERSION,
            question: study.question.clone(),
            command: study.command.clone(),
            waggle_version: study.waggle_version.clone(),
            started: study.started.clone(),
            duration_s,
            server,
            environment: study.environment.clone(),
            workload: self.workload.clone(),
            base: self.base.clone(),
            subject: self.subject.clone(),
            arms: self.arms.clone(),
            aa_clean: self.aa_clean,
            margin: self.margin,
            primary: self.primary,
            windows: self.windows.clone(),
            histograms: self.histograms.clone(),
            latency_of: self.latency_of.clone(),
            types: self.types.clone(),
            probes: self.probes.clone(),
            notes: self.notes.clone(),
            profile: None,
        }
    }

    /// Its part and title as one line.
    pub fn full_title(&self) -> String {
        match (self.part.is_empty(), self.title.is_empty()) {
            (true, _) => self.title.clone(),
            (false, true) => self.part.clone(),
            (false, false) => format!("{}, {}", self.part, self.title),
        }
    }
}

impl StudyReport {
    /// The server's flavour and version, such as `MySQL 9.7.4`.
    pub fn server_name(&self) -> String {
        format!("{} {}", self.server.flavour, self.server.version)
            .trim()
            .to_owned()
    }

    /// The cell of that name.
    pub fn cell(&self, id: &str) -> Option<&StudyCell> {
        self.cells.iter().find(|cell| cell.id == id)
    }
}
